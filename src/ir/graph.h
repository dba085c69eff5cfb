// SPDX-License-Identifier: Apache-2.0
// Graph programs: types that are shape facts, expressions, bindings, functions. Passes consume and produce
// normalised bindings: every argument of a call is a Var, a Constant or another leaf, every value is bound
// once. Purity belongs to what is called (Op::pure), not to a region.
#pragma once
#include <map>

#include "ir/prim_expr.h"
#include "runtime/ndarray.h"

namespace tenon::graph {

// Parts of the nodes below.
struct BindingBlockNode;
struct PatternNode;
struct MatchClauseNode;
struct ConstructorDefNode;
struct AdtDefNode;
struct MemoryPlan;
using PartNodes = NodeSet<kGraphPartBase, BindingBlockNode, PatternNode, MatchClauseNode, ConstructorDefNode,
                          AdtDefNode, MemoryPlan>;

// ---------------------------------------------------------------- types
struct TensorType;
struct ShapeType;
struct PrimType;
struct TupleType;
struct FuncType;
struct ObjectType;
struct RefType;
struct AdtType;
struct TypeVar;
struct OpenType;
using TypeNodes = NodeSet<kTypeBase + 1, TensorType, ShapeType, PrimType, TupleType, FuncType, ObjectType,
                          RefType, AdtType, TypeVar, OpenType>;
struct TypeNode : Object {
  static constexpr std::string_view type_key = "ir.Type";
  static constexpr uint32_t node_set_first() { return kTypeBase; }
  static constexpr uint32_t child_slots = kGraphExprBase - kTypeBase - 1;
  using set = TypeNodes;
};
template <class T>
struct TypeBase : TypeNode {
  using parent_type = TypeNode;
  using node_set = TypeNodes;
};
using Type = Ref<TypeNode>;

// ---------------------------------------------------------------- expressions
struct Var;
struct GlobalVar;
struct Constant;
struct Tuple;
struct TupleGetItem;
struct Call;
struct Op;
struct ExternFunc;
struct Function;
struct If;
struct While;
struct SeqExpr;
struct ShapeExpr;
struct PrimValue;
struct StringImm;
struct DataTypeImm;
struct Constructor;
struct Match;
using ExprNodes =
    NodeSet<kGraphExprBase + 1, Var, GlobalVar, Constant, Tuple, TupleGetItem, Call, Op, ExternFunc, Function,
            If, While, SeqExpr, ShapeExpr, PrimValue, StringImm, DataTypeImm, Constructor, Match>;
/// A graph expression. `type` is null until inferred; it is a fact about the value, not part of equality
/// (but for Var, where it is the declaration).
struct ExprNode : Object {
  static constexpr std::string_view type_key = "graph.Expr";
  static constexpr uint32_t node_set_first() { return kGraphExprBase; }
  static constexpr uint32_t child_slots = 63;
  using set = ExprNodes;
  Type type;
  Origin origin;
};
template <class T>
struct GraphNode : ExprNode {
  using parent_type = ExprNode;
  using node_set = ExprNodes;
};
using Expr = Ref<ExprNode>;
/// The expression, which was just made, with its type.
template <class T>
Ref<T> with_type(Ref<T> made, Type type) {
  made.edit()->type = std::move(type);
  return made;
}
template <class T>
Ref<T> with_type(Ref<T> made, Type type, Origin origin) {
  return with_origin(with_type(std::move(made), std::move(type)), std::move(origin));
}

/// A tensor. `shape`: null (unknown), a ShapeExpr, or a Var of ShapeType. `ndim` -1 and void dtype: unknown.
struct TensorType : TypeBase<TensorType> {
  Expr shape;
  int64_t ndim = -1;
  DataType dtype;
  std::string device;
  static constexpr std::string_view type_key = "ir.TensorType";
  static void fields(auto& f) {
    f.add("shape", &TensorType::shape)
        .add("ndim", &TensorType::ndim)
        .add("dtype", &TensorType::dtype)
        .add("device", &TensorType::device);
  }
};
/// A shape value; `known` false: only the rank (or -1) is known.
struct ShapeType : TypeBase<ShapeType> {
  Array<PrimExpr> values;
  int64_t ndim = -1;
  bool known = false;
  static constexpr std::string_view type_key = "ir.ShapeType";
  static void fields(auto& f) {
    f.add("values", &ShapeType::values).add("ndim", &ShapeType::ndim).add("known", &ShapeType::known);
  }
};
/// A scalar in a register; `value` null when only the data type is known.
struct PrimType : TypeBase<PrimType> {
  DataType dtype;
  PrimExpr value;
  static constexpr std::string_view type_key = "ir.PrimType";
  static void fields(auto& f) { f.add("dtype", &PrimType::dtype).add("value", &PrimType::value); }
};
struct TupleType : TypeBase<TupleType> {
  Array<Type> items;
  static constexpr std::string_view type_key = "ir.TupleType";
  static void fields(auto& f) { f.add("items", &TupleType::items); }
};
struct FuncType : TypeBase<FuncType> {
  Array<Type> params;  ///< null handle as a whole: unknown parameters (an opaque function)
  Type ret;
  bool opaque = false;
  Array<std::string> type_params;  ///< names of TypeVars that each call may put other types for
  static constexpr std::string_view type_key = "ir.FuncType";
  static void fields(auto& f) {
    f.def("params", &FuncType::params)
        .add("ret", &FuncType::ret)
        .add("opaque", &FuncType::opaque)
        .add("type_params", &FuncType::type_params);
  }
};
/// Any value; nothing is known.
struct ObjectType : TypeBase<ObjectType> {
  static constexpr std::string_view type_key = "ir.ObjectType";
  static void fields(auto&) {}
};
struct RefType : TypeBase<RefType> {
  Type value;
  static constexpr std::string_view type_key = "ir.RefType";
  static void fields(auto& f) { f.add("value", &RefType::value); }
};
/// An algebraic data type of the module, applied to types: List[Tensor].
struct AdtType : TypeBase<AdtType> {
  std::string name;
  Array<Type> args;
  static constexpr std::string_view type_key = "ir.AdtType";
  static void fields(auto& f) { f.add("name", &AdtType::name).add("args", &AdtType::args); }
};
/// A type parameter of a function or data type, by name.
struct TypeVar : TypeBase<TypeVar> {
  std::string name;
  static constexpr std::string_view type_key = "ir.TypeVar";
  static void fields(auto& f) { f.add("name", &TypeVar::name); }
};

/// A type that inference still looks for. It is none of a program's: the verifier refuses it (T0332).
struct OpenType : TypeBase<OpenType> {
  int64_t id = 0;  ///< which one of the inference that runs; 0: of a value that nothing else constrains
  static constexpr std::string_view type_key = "ir.OpenType";
  static void fields(auto& f) { f.add("id", &OpenType::id); }
};

/// A variable, bound once; identity is the object. `declared` is its type.
struct Var : GraphNode<Var> {
  std::string name;
  Type declared;  ///< same as `type` once inferred
  static constexpr std::string_view type_key = "graph.Var";
  static void fields(auto& f) { f.ignored("name", &Var::name).add("declared", &Var::declared); }
  void finish() {
    if (declared) type = declared;
  }
};
/// A function of the module, by name. Equal when the names are equal.
struct GlobalVar : GraphNode<GlobalVar> {
  std::string name;
  static constexpr std::string_view type_key = "graph.GlobalVar";
  static void fields(auto& f) { f.add("name", &GlobalVar::name); }
};
/// A tensor known at compile time; storage is shared, immutable, possibly mapped. Equal by content.
struct Constant : GraphNode<Constant> {
  NDArray data;
  static constexpr std::string_view type_key = "graph.Constant";
  static void fields(auto& f) { f.add("data", &Constant::data); }
  void finish();  ///< sets the type from the data
};
struct Tuple : GraphNode<Tuple> {
  Array<Expr> items;
  static constexpr std::string_view type_key = "graph.Tuple";
  static void fields(auto& f) { f.add("items", &Tuple::items); }
};
struct TupleGetItem : GraphNode<TupleGetItem> {
  Expr tuple;
  int64_t index = 0;
  static constexpr std::string_view type_key = "graph.TupleGetItem";
  static void fields(auto& f) { f.add("tuple", &TupleGetItem::tuple).add("index", &TupleGetItem::index); }
};
/// Calls an Op, a GlobalVar, an ExternFunc, or a Var/Function of function type. `attrs`: the operator's
/// attribute object (a node whose type the Op names), or null. `type_args`: output types of call_tir and
/// of calls whose result the callee does not tell.
struct Call : GraphNode<Call> {
  Expr op;
  Array<Expr> args;
  ObjectRef attrs;
  Array<Type> type_args;
  static constexpr std::string_view type_key = "graph.Call";
  static void fields(auto& f) {
    f.add("op", &Call::op)
        .add("args", &Call::args)
        .add("attrs", &Call::attrs)
        .add("type_args", &Call::type_args);
  }
};
struct ExternFunc : GraphNode<ExternFunc> {
  std::string symbol;  ///< a name of the function registry
  static constexpr std::string_view type_key = "graph.ExternFunc";
  static void fields(auto& f) { f.add("symbol", &ExternFunc::symbol); }
};
/// Where a function's tensors lie in its arena: offsets in bytes, multiples of 64. An offset of -1: not
/// there, but from the session's pool (results, tensors of unknown size), or in a register (variables of
/// loops). Calls and loops are counted as `planned_bindings` (ir/memory_plan.h) lists them.
struct MemoryPlan : Object {
  using node_set = PartNodes;
  Array<Array<int64_t>> calls;       ///< of the results of each call of a program
  Array<int64_t> joined;             ///< calls that are left out: the parts of their result are its memory
  Array<Array<int64_t>> loops;       ///< of the variables of each loop
  Map<std::string, int64_t> bounds;  ///< upper bounds of symbolic sizes that the plan counts with
  int64_t arena_bytes = 0;
  int64_t lower_bound = 0;  ///< most bytes alive at one step: no plan can do with less
  static constexpr std::string_view type_key = "graph.MemoryPlan";
  static void fields(auto& f) {
    f.add("calls", &MemoryPlan::calls)
        .add("joined", &MemoryPlan::joined)
        .add("loops", &MemoryPlan::loops)
        .add("bounds", &MemoryPlan::bounds)
        .add("arena_bytes", &MemoryPlan::arena_bytes)
        .add("lower_bound", &MemoryPlan::lower_bound);
  }
};
/// A function or closure. Module-level attributes: "global_symbol", "input_names", "output_names" (Array of
/// String), "num_inputs", "primitive" (1: a fused group that becomes one PrimFunc), "composite", ….
struct Function : GraphNode<Function> {
  Array<Ref<Var>> params;
  Expr body;
  Type ret_type;  ///< null until inferred
  AttrMap attrs;
  Array<std::string> type_params;
  Ref<MemoryPlan> plan;  ///< null until plan_memory
  static constexpr std::string_view type_key = "graph.Function";
  static void fields(auto& f) {
    f.def("params", &Function::params)
        .add("ret_type", &Function::ret_type)
        .add("attrs", &Function::attrs)
        .add("type_params", &Function::type_params)
        .add("plan", &Function::plan)
        .body("body", &Function::body);
  }
};
/// Branches are SeqExpr; the condition is a boolean scalar tensor or PrimValue. Fusion works inside and
/// around.
struct If : GraphNode<If> {
  Expr condition, true_branch, false_branch;
  static constexpr std::string_view type_key = "graph.If";
  static void fields(auto& f) {
    f.add("condition", &If::condition)
        .body("true_branch", &If::true_branch)
        .body("false_branch", &If::false_branch);
  }
};
/// Repeats while `condition` (a SeqExpr over loop_vars) holds: body gives the next loop_vars as a Tuple.
/// The value is the tuple of the last loop_vars.
struct While : GraphNode<While> {
  Array<Ref<Var>> loop_vars;
  Array<Expr> init;
  Expr condition, body;
  static constexpr std::string_view type_key = "graph.While";
  static void fields(auto& f) {
    f.add("init", &While::init)
        .def("loop_vars", &While::loop_vars)
        .body("condition", &While::condition)
        .body("body", &While::body);
  }
};
struct VarBindingNode;
struct MatchCastNode;
using BindingNodes = NodeSet<kBindingBase + 1, VarBindingNode, MatchCastNode>;
/// What gives a variable its value.
struct BindingNode : Object {
  static constexpr std::string_view type_key = "graph.Binding";
  static constexpr uint32_t node_set_first() { return kBindingBase; }
  static constexpr uint32_t child_slots = BindingNodes::size;
  using set = BindingNodes;
  Ref<Var> var;
  Expr value;
};
using Binding = Ref<BindingNode>;
/// var = value.
struct VarBindingNode : BindingNode {
  using parent_type = BindingNode;
  using node_set = BindingNodes;
  VarBindingNode() = default;
  VarBindingNode(Ref<Var> var, Expr value) : BindingNode{{}, std::move(var), std::move(value)} {}
  static constexpr std::string_view type_key = "graph.VarBinding";
  static void fields(auto& f) { f.add("value", &VarBindingNode::value).def("var", &VarBindingNode::var); }
};
/// var = match_cast(value, type): binds symbols that appear first, checks the others, at run time.
struct MatchCastNode : BindingNode {
  using parent_type = BindingNode;
  using node_set = BindingNodes;
  Type type;
  MatchCastNode() = default;
  MatchCastNode(Ref<Var> var, Expr value, Type type)
      : BindingNode{{}, std::move(var), std::move(value)}, type(std::move(type)) {}
  static constexpr std::string_view type_key = "graph.MatchCast";
  static void fields(auto& f) {
    f.add("value", &MatchCastNode::value).def("type", &MatchCastNode::type).def("var", &MatchCastNode::var);
  }
};
/// A stretch of bindings. `dataflow` marks one that a user wrote as a dataflow region; it has no meaning of
/// its own, and `outputs` are the variables that the region declares as seen outside.
struct BindingBlockNode : Object {
  using node_set = PartNodes;
  Array<Binding> bindings;
  bool dataflow = false;
  Array<Ref<Var>> outputs;
  static constexpr std::string_view type_key = "graph.BindingBlock";
  static void fields(auto& f) {
    f.add("bindings", &BindingBlockNode::bindings)
        .add("dataflow", &BindingBlockNode::dataflow)
        .add("outputs", &BindingBlockNode::outputs);
  }
};
using BindingBlock = Ref<BindingBlockNode>;
struct SeqExpr : GraphNode<SeqExpr> {
  Array<BindingBlock> blocks;
  Expr body;
  static constexpr std::string_view type_key = "graph.SeqExpr";
  static void fields(auto& f) { f.add("blocks", &SeqExpr::blocks).add("body", &SeqExpr::body); }
};
struct ShapeExpr : GraphNode<ShapeExpr> {
  Array<PrimExpr> values;
  static constexpr std::string_view type_key = "graph.ShapeExpr";
  static void fields(auto& f) { f.add("values", &ShapeExpr::values); }
  void finish();
};
struct PrimValue : GraphNode<PrimValue> {
  PrimExpr value;
  static constexpr std::string_view type_key = "graph.PrimValue";
  static void fields(auto& f) { f.add("value", &PrimValue::value); }
  void finish();
};
struct StringImm : GraphNode<StringImm> {
  std::string value;
  static constexpr std::string_view type_key = "graph.StringImm";
  static void fields(auto& f) { f.add("value", &StringImm::value); }
};
struct DataTypeImm : GraphNode<DataTypeImm> {
  DataType value;
  static constexpr std::string_view type_key = "graph.DataTypeImm";
  static void fields(auto& f) { f.add("value", &DataTypeImm::value); }
};
/// A constructor of an algebraic data type; as the callee of a Call it makes a value, elsewhere it is the
/// function that makes one. `tag` is its position among the type's constructors.
struct Constructor : GraphNode<Constructor> {
  std::string data_type, name;
  int64_t tag = 0, arity = 0;
  static constexpr std::string_view type_key = "graph.Constructor";
  static void fields(auto& f) {
    f.add("data_type", &Constructor::data_type)
        .add("name", &Constructor::name)
        .add("tag", &Constructor::tag)
        .add("arity", &Constructor::arity);
  }
};
enum class PatternKind : uint8_t { wildcard, variable, constructor, tuple };
/// What a value is compared with: anything, anything under a name, a constructor or tuple of patterns.
struct PatternNode : Object {
  using node_set = PartNodes;
  PatternKind kind = PatternKind::wildcard;
  Ref<Var> var;
  Ref<Constructor> constructor;
  Array<Ref<PatternNode>> items;
  static constexpr std::string_view type_key = "graph.Pattern";
  static void fields(auto& f) {
    f.add("kind", &PatternNode::kind)
        .def("var", &PatternNode::var)
        .add("constructor", &PatternNode::constructor)
        .add("items", &PatternNode::items);
  }
};
using Pattern = Ref<PatternNode>;
struct MatchClauseNode : Object {
  using node_set = PartNodes;
  Pattern pattern;
  Expr body;  ///< a SeqExpr
  static constexpr std::string_view type_key = "graph.MatchClause";
  static void fields(auto& f) {
    f.add("pattern", &MatchClauseNode::pattern).body("body", &MatchClauseNode::body);
  }
};
using MatchClause = Ref<MatchClauseNode>;
/// The body of the first clause whose pattern the value has. The clauses cover every value: the verifier
/// refuses others (T0330).
struct Match : GraphNode<Match> {
  Expr value;
  Array<MatchClause> clauses;
  static constexpr std::string_view type_key = "graph.Match";
  static void fields(auto& f) { f.add("value", &Match::value).body("clauses", &Match::clauses); }
};

// ---------------------------------------------------------------- algebraic data types
struct ConstructorDefNode : Object {
  using node_set = PartNodes;
  std::string name;
  Array<Type> items;  ///< may use the data type's parameters, and the data type itself
  static constexpr std::string_view type_key = "graph.ConstructorDef";
  static void fields(auto& f) {
    f.add("name", &ConstructorDefNode::name).add("items", &ConstructorDefNode::items);
  }
};
/// `class List[A]: Nil: (); Cons: (A, List[A])`.
struct AdtDefNode : Object {
  using node_set = PartNodes;
  std::string name;
  Array<std::string> params;
  Array<Ref<ConstructorDefNode>> constructors;
  static constexpr std::string_view type_key = "graph.AdtDef";
  static void fields(auto& f) {
    f.add("name", &AdtDefNode::name)
        .add("params", &AdtDefNode::params)
        .add("constructors", &AdtDefNode::constructors);
  }
};
using AdtDef = Ref<AdtDefNode>;

// ---------------------------------------------------------------- builders
using VarRef = Ref<Var>;
Type tensor_type(Array<PrimExpr> shape, DataType dtype);
Type tensor_type_unknown(int64_t ndim, DataType dtype);
Type tuple_type(Array<Type> items);
Type object_type();
Expr shape_expr(Array<PrimExpr> values);
VarRef var(std::string name, Type type = {});
Expr constant(NDArray data);
Expr call(Expr op, Array<Expr> args, ObjectRef attrs = {}, Array<Type> type_args = {});
Expr global(std::string name);
/// The known shape of a tensor type (or of the expression's type), or nullopt.
std::optional<Array<PrimExpr>> known_shape(const Type& type);
std::optional<Array<PrimExpr>> known_shape(const Expr& e);
const TensorType* as_tensor(const Type& type);
inline const TensorType* as_tensor(const Expr& e) { return as_tensor(e->type); }
/// All dimensions constant: their values.
std::optional<std::vector<int64_t>> static_shape(const Type& type);

/// Appends bindings in normal form, naming variables `lv0, lv1, …` (or as asked), uniquely in this builder.
/// `emit` infers the type through `infer` when set (op/infer.h sets it).
class BlockBuilder {
 public:
  using Infer = std::function<Type(const Expr&)>;
  explicit BlockBuilder(Infer infer = {}) : infer_(std::move(infer)) {}
  /// Binds `value` and returns the variable; leaves (Var, Constant, ShapeExpr, GlobalVar, …) come back
  /// unchanged.
  Expr emit(Expr value, std::string name = "");
  VarRef emit_match_cast(Expr value, Type type, std::string name = "");
  void append(const Binding& binding) { bindings_.push_back(binding); }
  /// Everything emitted so far as a sequence ending in `body`; the builder is empty afterwards.
  Expr finish(Expr body);
  std::string fresh_name(const std::string& hint);
  const Array<Binding>& bindings() const { return bindings_; }

 private:
  Infer infer_;
  Array<Binding> bindings_;
  std::unordered_map<std::string, int> names_;
};

/// Gives a function another body. What was known of the old one goes: its memory plan.
void set_body(Ref<Function>& function, Expr body);
/// All bindings of a body, over its blocks in order (empty when it is no SeqExpr), and the result behind
/// them.
std::vector<Binding> bindings_of(const Expr& body);
Expr result_of(const Expr& body);
/// The variables that a pattern binds, from left to right.
void variables_of(const Pattern& pattern, std::vector<VarRef>& out);
/// Values of a match whose type is `type` that no clause takes, as a pattern in words, or nullopt. `find`
/// gives the definition of a data type (null: unknown).
std::optional<std::string> missing_case(const Match& match, const Type& type,
                                        FunctionRef<AdtDef(const std::string&)> find);
/// Types put for type parameters.
Type substitute_types(const Type& type, const std::map<std::string, Type>& map);

}  // namespace tenon::graph
