// SPDX-License-Identifier: Apache-2.0
// The printer's state, shared by its files: output text, indentation, and unique names. Private to
// src/ir/print*.
#pragma once
#include <unordered_map>
#include <unordered_set>

#include "ir/jumps.h"
#include "ir/text_lines.h"
#include "ir/tir.h"

namespace tenon::print_detail {

inline constexpr std::string_view iter_kind_names[] = {"spatial", "reduce", "scan", "opaque", "thread_index"};

/// Deeper than this nothing is printed but "...": the verifier refuses such modules anyway.
inline constexpr int kPrintDepth = 2000;

/// Unique names of one function: the hint, then hint_1, hint_2, …, in order of first use.
class Names {
 public:
  bool known(const Object* o) const { return names_.count(o) != 0; }
  const std::string& get(const Object* o, std::string_view hint);
  void reserve(const std::string& name) { used_.insert(name); }

 private:
  std::unordered_map<const Object*, std::string> names_;
  std::unordered_set<std::string> used_;
  std::unordered_map<std::string, int> next_;
};

bool is_identifier(std::string_view s);
std::string quoted(std::string_view s);
std::string float_text(double v);  ///< Python literal; infinities and NaN as float("inf")

// Binding strength of Python's operators, for parentheses.
enum Precedence : int { kLowest = 0, kOr = 2, kAnd, kNot, kCompare, kAdd, kMul, kUnary, kAtom };

class Printer {
 public:
  explicit Printer(const PrintOptions& options, NodeLines* lines = nullptr)
      : options_(options), lines_(lines) {}
  std::string take() { return std::move(out_); }

  // print.cpp
  void node(const ObjectRef& o);
  void module(const IRModuleNode& m);
  void any(const Any& value);  ///< a value among attributes
  void ndarray(const NDArray& a, std::string_view inline_form, std::string_view reference_form);
  void map(const AttrMap& m);

  // print_tir.cpp
  void prim_func(const std::string& name, const tir::PrimFunc& f);
  void expr(const PrimExpr& e, int precedence = kLowest);
  void stmt(const tir::Stmt& s);
  void buffer_region(const tir::BufferRegion& r);
  void iter_var(const tir::IterVar& v);
  void range(const tir::Range& r);
  void comm_reducer(const tir::CommReducer& c);
  const std::string& buffer_name(const tir::Buffer& b);

  // print_graph.cpp
  void graph_function(const std::string& name, const graph::Function& f, const std::string& decorator);
  void graph_expr(const graph::Expr& e);
  void memory_plan(const graph::MemoryPlan& plan);
  void type(const graph::Type& t);
  void bindings(const graph::Expr& body);

 private:
  friend struct Indented;
  void line() {
    out_ += '\n';
    out_.append(size_t(indent_) * 4, ' ');
  }
  /// Notes that the node begins in the last line of the text.
  void begins_here(const Object* node);
  template <class List, class F>
  void list(const List& items, F f) {
    bool first = true;
    for (const auto& x : items) {
      if (!first) out_ += ", ";
      first = false;
      f(x);
    }
  }
  void exprs(const Array<PrimExpr>& items) {
    list(items, [&](const PrimExpr& e) { expr(e); });
  }
  void shape_tuple(const Array<PrimExpr>& shape);

  // tir
  void binary(const PrimExpr& a, const PrimExpr& b, std::string_view op, int level, int precedence,
              bool compare = false);
  void function_call(const tir::Call& c);
  bool view(const tir::Call& c);
  void subscript(const Array<PrimExpr>& indices);
  void variable(const tir::Var* v);
  std::string producer_name(const tir::DataProducer& p);
  void declare_producers(const tir::Stmt& body);
  void buffer_attributes(const tir::Buffer& b, bool with_data);
  void declare_buffer(const tir::Buffer& b);
  void stmt_body(const tir::Stmt& s);  ///< indented, or `pass`
  void sequence(const tir::Stmt& s);   ///< a body with its flat scopes, at the current indent
  /// `T.func_attr(…)`; of attributes that name memory of the body, behind what the body begins with.
  void function_attrs(const AttrMap& attrs);
  bool scope_head(const tir::Stmt& s, bool flat);  ///< LetStmt, Allocate, …: its first line
  void leaf_stmt(const tir::Stmt& s);
  void jump_stmt(tir::Jump jump, const tir::Call& c);
  void for_loops(const tir::For* f);
  void if_chain(const tir::IfThenElse* s);
  void block(const tir::Block& b, const tir::BlockRealize* realize);
  void block_axes(const tir::Block& b, const tir::BlockRealize* realize);

  // graph
  void binding(const graph::Binding& b);
  void call_expr(const graph::Call& c);
  void annotation(const graph::VarRef& v);
  const std::string& var_name(const graph::Var* v) { return names_.get(v, v->name); }
  void params(const Array<graph::VarRef>& params);
  void pattern(const graph::Pattern& p, bool outermost);
  void reserve_types(const graph::Function& f);
  void type_definition(const graph::AdtDefNode& d);
  void branch_result(const graph::Expr& branch, const graph::VarRef& v);

  const PrintOptions& options_;
  NodeLines* lines_;
  std::string out_;
  int indent_ = 0, depth_ = 0;
  /// Begins a level, which `--depth_` ends; true where "..." stands for what is too deep.
  bool too_deep() {
    if (++depth_ <= kPrintDepth) return false;
    --depth_;
    out_ += "...";
    return true;
  }
  size_t counted_ = 0;  ///< up to there, the line breaks of out_ are in line_
  int32_t line_ = 1;
  bool implicit_ = false;  ///< inside a signature or match: unknown names are symbolic sizes defined here
  Names names_;
  const AttrMap* late_attrs_ = nullptr;  ///< of the function, until they are printed
  std::unordered_map<const Object*, const tir::BufferNode*>
      data_owner_;  ///< data variable → first buffer on it
  std::unordered_map<const tir::Var*, const tir::For*> loops_;
  std::unordered_set<const Object*> declared_;
};

struct Indented {
  explicit Indented(Printer& p) : p(p) { ++p.indent_; }
  ~Indented() { --p.indent_; }
  Printer& p;
};

}  // namespace tenon::print_detail
