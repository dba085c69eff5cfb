// SPDX-License-Identifier: Apache-2.0
// From the syntax tree to nodes: state shared by the parser's files. Private to src/ir/parse*.
#pragma once
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "ir/captured.h"
#include "ir/parse_spelling.h"
#include "ir/parse_syntax.h"
#include "ir/text.h"
#include "ir/tir.h"

namespace tenon::tir {
struct Intrinsic;
}
namespace tenon::script {

/// Thrown after a mistake was noted; caught per statement, so that the next one is looked at too.
struct Failed {};

/// A tensor-program value; `weak`: a bare number, which takes the type of what stands beside it.
struct Value {
  PrimExpr e;
  bool weak = false;
  double exact = 0;  ///< of a bare floating number, before rounding
};

/// What a block's directives (T.reads, T.where, …) add to while its statements are read.
struct BlockParts {
  bool function = false;  ///< the function's own statements, which have no iterators
  Array<tir::IterVar> iter_vars;
  Array<PrimExpr> iter_values;
  PrimExpr predicate;
  std::optional<Array<tir::BufferRegion>> reads, writes;
  AttrMap annotations;
  Array<tir::Buffer> alloc_buffers;
  Array<tir::MatchBufferRegion> match_buffers;
  tir::Stmt init;
};

struct AllocatedObj;

class Converter {
 public:
  Converter(const Tree& tree, const ParseOptions& options, DiagnosticList& problems)
      : tree_(&tree), options_(options), problems_(problems) {}

  // parse.cpp
  IRModule module();
  void define(const std::string& name, tir::VarRef v) { bind(name, std::move(v)); }
  void set_aliases(const std::map<std::string, std::string>& aliases) {
    aliases_.insert(aliases.begin(), aliases.end());
  }
  ObjectRef any_value(const Ast* a);           ///< an expression, a graph value or a type
  std::optional<Any> attribute(const Ast* a);  ///< a value among attributes; nothing where it has mistakes

  // parse_tir_expr.cpp
  Value value(const Ast* a);
  PrimExpr expr(const Ast* a) { return value(a).e; }
  PrimExpr expr_of(const Ast* a, DataType wanted);  ///< a bare number takes the wanted type
  tir::BufferRegion region(const Ast* a);
  tir::Range range(const Ast* a);  ///< extent, (begin, end) or T.Range(min, extent)
  tir::IterVar iter_var(const Ast* a);

 private:
  // ---- parse.cpp: names, paths, mistakes
  friend struct Scope;
  Span span(const Ast* a) const { return {tree_->source, a->begin, a->end}; }
  Span span(const AstStmt* s) const { return {tree_->source, s->begin, s->end}; }
  template <class N>
  Origin origin(const N* n) const {
    return make<OriginObj>(std::string(), span(n));
  }
  [[noreturn]] void fail(std::string code, std::string message, Span where, std::string hint = {});
  [[noreturn]] void fail(std::string code, std::string message, const Ast* at, std::string hint = {}) {
    fail(std::move(code), std::move(message), span(at), std::move(hint));
  }
  /// Runs f; a mistake is noted, with this place when it has none. False: there was one.
  template <class F>
  bool attempt(Span where, F f) {
    try {
      f();
      return true;
    } catch (const Failed&) {
      return false;
    } catch (const DiagnosticError& e) {
      note(e, where);
      return false;
    }
  }
  /// The same of a statement: what its own expressions name beyond the first mistake is judged, too.
  template <class F>
  bool attempt(const AstStmt* s, bool graph, F f) {
    if (attempt(span(s), std::move(f))) return true;
    other_unknown(s, graph);
    return false;
  }
  void note(const DiagnosticError& e, Span where);
  void bind(const std::string& name, ObjectRef what);
  const ObjectRef* lookup(const std::string& name) const;
  ObjectRef name_of(const Ast* a);  ///< a Name bound to something; mistake T0220 otherwise
  std::string suggestion(const std::string& name) const;
  void poison(const Ast* target);  ///< names of a failed statement are not reported again
  // parse_unknown.cpp
  struct Unknown;
  void other_unknown(const AstStmt* s, bool graph);  ///< all that it names and that nothing defines
  bool is_said(std::string_view code, const Ast* a) const;
  void judge_head(const Ast* call, bool graph);
  void poison_declared(const AstStmt* s);  ///< all names that a failed statement would have defined
  std::string path(const Ast* a) const;    ///< "T.axis.spatial", prefixes in their short form; "" if no path
  bool is_call(const Ast* a, std::string_view what) const {
    return a && a->kind == ExprKind::call && path(a->items[0]) == what;
  }
  const Ast* named(const Ast* call, std::string_view name) const;
  const Ast* output_types(const Ast* call) const;  ///< null: the call does not tell them by name
  /// Argument by position (from 0) or name; null when absent.
  const Ast* argument(const Ast* call, size_t position, std::string_view name) const;
  const Ast* need(const Ast* call, size_t position, std::string_view name);
  void only(const Ast* call, size_t positional, const std::vector<std::string_view>& names);
  std::string text_of(const Ast* a, std::string_view what);
  int64_t integer_of(const Ast* a, std::string_view what);
  /// Of a vector: a constant, or a multiple of T.vscale() (negative).
  int64_t lanes_of(const Ast* a) { return lanes_of(expr(a), a); }
  int64_t lanes_of(const PrimExpr& e, const Ast* at);
  tir::Range slice(const Ast* a, const PrimExpr& dimension);  ///< begin:end of a dimension
  DataType dtype_of(const Ast* a);
  std::vector<const Ast*> items_of(const Ast* a) const;  ///< of a tuple or list; else the expression itself
  /// The type of `T.int64()`, which declares a symbolic size or a variable.
  std::optional<DataType> declared_size(const Ast* a) const;
  /// `n = T.int64()`: a variable of its own, or the one that the signature named, from `level` on.
  void declare_size(const std::string& name, DataType type, int level);
  /// `a, b = T.int64(), T.int64()`.
  bool declares_sizes(const AstStmt* s) const;
  /// The function of "cls.f" or "Module.f"; "" for another form.
  std::string member_of_module(const Ast* a) const;
  /// Refuses what belongs to a dialect of the reference that is not read.
  void refuse_dialect(const std::string& path, const Ast* at);
  bool names_module(const std::string& name) const { return !name.empty() && module_names_.count(name); }
  void import(const AstStmt* s);
  ObjectRef definition(const AstStmt* s);

  // ---- parse_value.cpp: attribute values and constants
  Any any(const Ast* a);
  AttrMap dict(const Ast* a);
  NDArray ndarray(const Ast* call);  ///< R.const / I.ndarray and their _ref and _bytes forms
  void set_field(const FieldInfo& f, Object* node, const Ast* a);

  // ---- parse_tir_expr.cpp
  Value name_value(const Ast* a);
  Value binary(const Ast* a);
  Value compare(const Ast* a);
  Value compared(std::string_view op, Value x, Value y, const Ast* at);
  Value call(const Ast* a);
  Value typed_call(const Ast* a, DataType t);
  Value load(const Ast* a);
  tir::CommReducer comm_reducer(const Ast* a);
  PrimExpr reduce(const Ast* a);
  int64_t access_mask(const Ast* mask);
  Value access_ptr(const tir::Buffer& b, const Ast* a);
  Value foreign_call(const tir::Intrinsic& known, const Ast* a);
  // parse_packed.cpp
  Value packed_call(const Ast* a);
  Value view_call(const Ast* a);
  PrimExpr region_view(const Ast* a, int64_t access);
  bool is_region(const Ast* a) const;  ///< a buffer, or a subscript with a range
  PrimExpr array_object(const Ast* a);
  PrimExpr evaluated(const Ast* a);
  Value fixed_point_product(const std::string& f, const Ast* a);
  /// A bare number in the type that its place wants; T0204 where it does not fit.
  PrimExpr retyped(const Value& number, DataType t, const Ast* at);
  void unify(Value& a, Value& b, const Ast* at);
  PrimExpr truth(const Ast* a);
  std::vector<const Ast*> spread(const Ast* a) const;
  /// `shape`: of what is indexed, for slices, which stand for a vector of neighbours.
  Array<PrimExpr> indices(const Ast* a, size_t from, const Array<PrimExpr>& shape = {});
  Array<PrimExpr> exprs(const Ast* list);
  tir::VarRef variable(const Ast* a);
  tir::Buffer buffer_of(const Ast* a);
  bool is_buffer(const Ast* a) const;
  tir::DataProducer producer_of(const Ast* a) const;  ///< null: `a` names something else
  /// Indices of a buffer or tensor of that shape; mistake T0233 otherwise.
  Array<PrimExpr> element(const Ast* subscript, std::string_view what, const Array<PrimExpr>& shape);
  Value call_member(const Ast* a, const std::string& function);  ///< of a tensor program of the module

  // ---- parse_tir.cpp
  tir::PrimFunc prim_func(const AstStmt* s);
  tir::Buffer buffer_decl(const std::string& name, const Ast* call, size_t first,
                          std::initializer_list<std::string_view> more = {});
  void buffer_fields(tir::BufferNode* b, const Ast* shape, const Ast* dtype, const Ast* at);
  struct Item {
    tir::Stmt stmt;
    std::function<tir::Stmt(tir::Stmt)> wrap;
  };
  void statements(const std::vector<const AstStmt*>& stmts, BlockParts* parts, std::vector<Item>& out);
  tir::Stmt block_body(const std::vector<const AstStmt*>& stmts, BlockParts* parts);
  tir::Stmt nested_body(const std::vector<const AstStmt*>& stmts);
  std::string message_of(const Ast* a);
  void statement(const AstStmt* s, BlockParts* parts, std::vector<Item>& out);
  void assignment(const AstStmt* s, BlockParts* parts, std::vector<Item>& out);
  bool directive(const AstStmt* s, BlockParts* parts, std::vector<Item>& out);
  void with_stmt(const AstStmt* s, BlockParts* parts, std::vector<Item>& out);
  std::optional<Item> scope_form(const Ast* call, const Ast* name, const AstStmt* s);
  // parse_loop.cpp
  struct Loop {
    tir::Range dom;
    tir::ForKind kind;
    std::string tag;
    AttrMap annotations;
    PrimExpr step;  ///< null: 1
  };
  Array<PrimExpr> starred(const Ast* star);
  Loop loop_of(const Ast* iterable, const std::string& kind);
  std::vector<Loop> loops_of(const Ast* iterable);
  std::vector<const Ast*> numbered_names(const Ast* name, size_t count);
  tir::Stmt for_stmt(const AstStmt* s, const Ast* target, const Ast* iterable);
  tir::Stmt block_stmt(const AstStmt* s, const Ast* call, const Ast* as);
  void axis(const Ast* target, const Ast* call, BlockParts* parts);
  tir::Stmt store(const Ast* target, const Ast* value, const std::string& op);
  void producer(const std::string& name, const Ast* call);
  bool is_docstring(const AstStmt* s) const {
    return s->kind == StmtKind::expr && s->value->kind == ExprKind::string;
  }

  // ---- parse_graph.cpp
  struct Sequence {
    Array<graph::BindingBlock> blocks;
    Array<graph::Binding> plain;
    bool in_region = false;
    void close() {
      if (!plain.empty())
        blocks.push_back(make<graph::BindingBlockNode>(plain, false, Array<graph::VarRef>()));
      plain = {};
    }
  };
  Ref<graph::MemoryPlan> memory_plan(const Ast* call);
  /// `self` (optional) becomes the variable that the function is bound to, which its body may call; its type
  /// is what is declared (perhaps none), else the function's.
  Ref<graph::Function> graph_function(const AstStmt* s, graph::VarRef* self = nullptr,
                                      const std::optional<graph::Type>& declared = {});
  void check_private(const AstStmt* s, const AttrMap& attrs);
  graph::Type type(const Ast* a);
  graph::Type type_of_value(const Ast* a);
  graph::Type tensor_type(const std::vector<const Ast*>& positional, const Ast* at);
  PrimExpr quoted_size(const Ast* quoted);
  Array<PrimExpr> shape_values(const Ast* a);
  graph::Expr graph_body(const std::vector<const AstStmt*>& stmts, Sequence& seq, bool needs_return,
                         Span where);
  void graph_stmt(const AstStmt* s, Sequence& seq, graph::Expr* result);
  void graph_region(const AstStmt* s, Sequence& seq);
  void graph_if(const AstStmt* s, Sequence& seq);
  void graph_closure(const AstStmt* s, const Ast* decorator, Sequence& seq);
  // parse_group.cpp
  /// Of the closures in a row from `begin` on (or the one statement there): at the first of those that call
  /// others before these are bound, how many belong together; 1 where one stands alone.
  std::vector<size_t> closure_groups(const std::vector<const AstStmt*>& stmts, size_t begin) const;
  void graph_group(std::span<const AstStmt* const> closures, Sequence& seq);
  graph::Expr branch(const std::vector<const AstStmt*>& stmts, std::string* name, graph::Type* declared,
                     bool* annotated, Span where);
  void graph_loop(const AstStmt* s, Sequence& seq);
  void graph_assign(const std::string& name, const Ast* annotation, const Ast* value, const AstStmt* s,
                    Sequence& seq);
  graph::Expr graph_expr(const Ast* a, Sequence& seq, const Ast* annotation = nullptr);
  graph::Expr graph_call(const Ast* a, Sequence& seq, const Ast* annotation);
  graph::Expr op_call(const Ref<graph::Op>& op, const SpelledOp* spelled, const Ast* a, Sequence& seq,
                      const Ast* annotation);
  /// The arguments of a call, under our names.
  GivenArguments respelled(const SpelledOp& op, const Ast* call);
  void respell(GivenArguments& given, const SpelledOp& op, std::string_view name, const Ast* value);
  // parse_compose.cpp
  const Ast* standing_for(ObjectRef value, const Ast* at);
  graph::Expr plain_call(std::string_view op, Array<graph::Expr> args,
                         std::initializer_list<std::pair<std::string_view, Any>> attributes);
  Ast all_named(const SpelledOp& op, const Ast* call);
  graph::Expr composed_call(const std::string& f, const Ast* a, Sequence& seq);  ///< null: it is one of ours
  graph::Expr marked_call(const std::string& f, const Ast* a, Sequence& seq);
  graph::Expr product_of(const Ast* a, Sequence& seq);
  graph::Expr unique_values(const Ast* a, Sequence& seq);
  graph::Expr position_of_all(const std::string& f, const Ast* a, Sequence& seq);
  void check_norm_axes(const Ast* call, Sequence& seq);
  graph::Expr program_call(const std::string& f, const Ast* a, Sequence& seq);
  std::string device_of(const Ast* a);
  graph::Expr mapped_layout(const Ast* a, Sequence& seq);
  graph::Expr normalised_batch(const Ast* a, Sequence& seq);
  graph::Expr dropped_values(const Ast* a, Sequence& seq);
  graph::Expr item_of(const graph::Expr& tuple, int64_t index, const Sequence& seq);
  graph::Expr comparison(const Ast* a, Sequence& seq);
  graph::Expr old_call_tir(const Ast* a, Sequence& seq, const Ast* annotation);
  graph::Expr leaf(const Ast* a, Sequence& seq);
  graph::Expr normal(graph::Expr e, Sequence& seq, const Ast* at);
  graph::Expr callee(const Ast* a);
  bool is_graph_value(const Ast* a) const;
  bool is_tuple_type(const Ast* annotation) const;
  bool is_size(const Ast* a) const;  ///< an expression over integers and symbolic sizes
  Array<graph::Type> types_of(const Ast* a);
  graph::VarRef bind_value(const std::string& name, graph::Type declared, graph::Expr value, Sequence& seq,
                           const Origin& o);

  // ---- parse_memory.cpp: programs behind memory planning
  /// An allocation, the end of a life, or a call that writes what was allocated: read, and `name` (perhaps
  /// empty) is bound. False: `a` is none of these.
  bool planned_memory(const Ast* a, const Ast* annotation, const std::string& name, Sequence& seq);
  ObjectRef allocation(const Ast* a, const Ast* annotation, Sequence& seq);
  bool writes_allocated(const Ast* a, Sequence& seq);
  /// Zeros for a tensor that is read before anything wrote it; the name stands for them from here on.
  graph::Expr unwritten(const std::string& name, const AllocatedObj& a, Sequence& seq, const Origin& at);
  bool is_tensor_program(const Ast* callee) const;

  // ---- parse_captured.cpp: values of the program around the text
  [[noreturn]] void no_use(const Ast* a, std::string_view wanted);
  Value captured_value(const Ast* a);
  /// What a function gives, written as an expression.
  const Ast* captured_call(const Ast* a, FunctionRef<Any(const Ast*)> argument);
  bool is_captured_call(const Ast* a) const {
    return a->kind == ExprKind::call && a->items[0]->kind == ExprKind::object;
  }
  graph::Expr captured_function(const Ast* a);
  graph::Expr captured_graph(const Ast* a, Sequence& seq);
  void captured_statement(const Ast* a, BlockParts* parts, std::vector<Item>& out);
  void expand_macro(const Ast* a, FunctionRef<Any(const Ast*)> argument,
                    FunctionRef<void(const AstStmt*)> body);
  void macro(const Ast* a, BlockParts* parts, std::vector<Item>& out);
  /// Its statements join the sequence; what it returns is the value.
  graph::Expr graph_macro(const Ast* a, Sequence& seq);

  // ---- parse_adt.cpp: algebraic data types, constructors, match
  bool is_type_definition(const AstStmt* s) const;
  void declare_type(const AstStmt* s);
  void define_type(const AstStmt* s);
  void type_parameters(const AstStmt* s);  ///< bound in the innermost scope
  graph::Type adt_type(const Ast* head, const std::vector<const Ast*>& args);  ///< null: `head` names none
  Ref<graph::Constructor> constructor(const Ast* a);                           ///< null: `a` names none
  graph::Pattern pattern(const Ast* a);
  void graph_match(const AstStmt* s, Sequence& seq);
  /// "List" of "cls.List", "Module.List" or "List"; "" for another form.
  std::string member(const Ast* a) const;

  const Tree* tree_;  ///< of the text, or of the macro that is put in
  const ParseOptions& options_;
  DiagnosticList& problems_;
  std::unordered_map<std::string, std::vector<std::pair<int, ObjectRef>>>
      names_;  ///< innermost last, with its level
  std::vector<std::vector<std::string>> levels_{{}};
  std::unordered_map<std::string, std::string> aliases_;     ///< of imported modules: name → T, R, I
  std::unordered_set<std::string> functions_;                ///< of the module
  Map<std::string, graph::AdtDef> types_;                    ///< of the module
  std::unordered_map<std::string, const AstStmt*> members_;  ///< of the module, by name
  std::unordered_set<std::string> module_names_{"cls"};      ///< what stands for the module in its functions
  std::unordered_set<const Object*> allocated_;  ///< buffers of T.allocate, whose name is their pointer, too
  int graph_level_ = 0;                          ///< of the innermost graph function
  int implicit_level_ = -1;  ///< ≥ 0: unknown names are symbolic sizes, defined at this level
  int function_level_ = 0;
  bool saw_block_ = false;
  std::unordered_map<const tir::Var*, tir::Range> loop_ranges_;
  std::unordered_map<const tir::Var*, std::string> thread_tags_;  ///< of T.env_thread
  tir::PrimFuncNode* current_ = nullptr;
  AttrMap* function_attrs_ = nullptr;
  Ref<graph::MemoryPlan>* function_plan_ = nullptr;
  std::unordered_map<const Object*, std::string> captured_functions_;  ///< their names in the module
  std::vector<std::pair<std::string, ObjectRef>> captured_order_;
  std::deque<Ast> made_;                      ///< expressions that stand for what the text says otherwise
  const Ast* judged_ = nullptr;               ///< the head of a call of which only that it is unknown is said
  std::vector<std::unique_ptr<Tree>> trees_;  ///< of macros and of what captured functions gave
  int macro_depth_ = 0;
};

/// Names bound while it lives are forgotten afterwards.
struct Scope {
  explicit Scope(Converter& c) : c(c) { c.levels_.emplace_back(); }
  ~Scope() {
    for (const std::string& n : c.levels_.back()) c.names_[n].pop_back();
    c.levels_.pop_back();
  }
  Scope(const Scope&) = delete;
  Converter& c;
};

inline PrimExpr as_prim(const ObjectRef& o) {
  PrimExpr e;
  static_cast<Ref<tir::PrimExprNode>&>(e) = o.cast<tir::PrimExprNode>();
  return e;
}

inline bool is_none(const Ast* a) { return a && a->kind == ExprKind::name && a->text == "None"; }

/// Marks a name whose definition failed.
struct PoisonObj : Object {
  static constexpr std::string_view type_key = "script.Poison";
};

/// Stands for a tensor that nothing has written yet.
struct AllocatedObj : Object {
  static constexpr std::string_view type_key = "script.Allocated";
  graph::Expr shape;
  graph::Type type;
  size_t level = 0;  ///< of the names where it was allocated
};

/// One name for the variables of several loops: `for i in T.grid(4, 4)`, then A[i], T.axis.remap("SS", i).
struct NamesObj : Object {
  static constexpr std::string_view type_key = "script.Names";
  std::vector<const Ast*> names;
};

/// Regions a block's statements read and write, for text that does not tell them.
void infer_regions(const BlockParts& parts, const tir::Stmt& body, Array<tir::BufferRegion>* reads,
                   Array<tir::BufferRegion>* writes);

}  // namespace tenon::script
