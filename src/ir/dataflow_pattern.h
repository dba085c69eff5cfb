// SPDX-License-Identifier: Apache-2.0
// Dataflow patterns: what a stretch of a graph function looks like. A variable stands for the value that it
// is bound to, so patterns nest as expressions do.
//
//   auto dense = is_op("nn.dense", {wildcard(), make<ConstantPattern>()});
//   match_pattern(is_op("nn.relu", {dense}), y, DataflowView(function->body))
//
// finds y where it is nn.relu(nn.dense(x, constant)).
#pragma once
#include <set>

#include "ir/module.h"

namespace tenon::dpl {

/// Base of the kinds below.
struct DFPatternNode : Object {
  static constexpr std::string_view type_key = "dpl.DFPattern";
  static constexpr uint32_t child_slots = 24;
};
template <class T>
struct PatternBase : DFPatternNode {
  using parent_type = DFPatternNode;
};
using DFPattern = Ref<DFPatternNode>;

/// Any value. The same node met twice in a pattern stands for the same value.
struct WildcardPattern : PatternBase<WildcardPattern> {
  static constexpr std::string_view type_key = "dpl.WildcardPattern";
  static void fields(auto&) {}
};
/// This value: an operator, a constant, a function by name, a variable.
struct ExprPattern : PatternBase<ExprPattern> {
  graph::Expr expr;
  static constexpr std::string_view type_key = "dpl.ExprPattern";
  static void fields(auto& f) { f.add("expr", &ExprPattern::expr); }
};
/// Any constant.
struct ConstantPattern : PatternBase<ConstantPattern> {
  static constexpr std::string_view type_key = "dpl.ConstantPattern";
  static void fields(auto&) {}
};
/// A call; `any_args`: whatever its arguments are.
struct CallPattern : PatternBase<CallPattern> {
  DFPattern op;
  Array<DFPattern> args;
  bool any_args = false;
  static constexpr std::string_view type_key = "dpl.CallPattern";
  static void fields(auto& f) {
    f.add("op", &CallPattern::op).add("args", &CallPattern::args).add("any_args", &CallPattern::any_args);
  }
};
/// `pattern`, with these attributes of the call, or of the function.
struct AttrPattern : PatternBase<AttrPattern> {
  DFPattern pattern;
  AttrMap attrs;
  static constexpr std::string_view type_key = "dpl.AttrPattern";
  static void fields(auto& f) { f.add("pattern", &AttrPattern::pattern).add("attrs", &AttrPattern::attrs); }
};
struct TypePattern : PatternBase<TypePattern> {
  DFPattern pattern;
  graph::Type type;
  static constexpr std::string_view type_key = "dpl.TypePattern";
  static void fields(auto& f) { f.add("pattern", &TypePattern::pattern).add("type", &TypePattern::type); }
};
/// A tensor of this shape.
struct ShapePattern : PatternBase<ShapePattern> {
  DFPattern pattern;
  Array<PrimExpr> shape;
  static constexpr std::string_view type_key = "dpl.ShapePattern";
  static void fields(auto& f) { f.add("pattern", &ShapePattern::pattern).add("shape", &ShapePattern::shape); }
};
struct DataTypePattern : PatternBase<DataTypePattern> {
  DFPattern pattern;
  DataType dtype;
  static constexpr std::string_view type_key = "dpl.DataTypePattern";
  static void fields(auto& f) {
    f.add("pattern", &DataTypePattern::pattern).add("dtype", &DataTypePattern::dtype);
  }
};
/// `left`, or where that does not match `right`. An optional operator f over p is `f(p) or p`.
struct OrPattern : PatternBase<OrPattern> {
  DFPattern left, right;
  static constexpr std::string_view type_key = "dpl.OrPattern";
  static void fields(auto& f) { f.add("left", &OrPattern::left).add("right", &OrPattern::right); }
};
struct AndPattern : PatternBase<AndPattern> {
  DFPattern left, right;
  static constexpr std::string_view type_key = "dpl.AndPattern";
  static void fields(auto& f) { f.add("left", &AndPattern::left).add("right", &AndPattern::right); }
};
struct NotPattern : PatternBase<NotPattern> {
  DFPattern reject;
  static constexpr std::string_view type_key = "dpl.NotPattern";
  static void fields(auto& f) { f.add("reject", &NotPattern::reject); }
};
/// `child`, where all that is made of a value of `parent` runs through values of `path` into it.
struct DominatorPattern : PatternBase<DominatorPattern> {
  DFPattern parent, path, child;
  static constexpr std::string_view type_key = "dpl.DominatorPattern";
  static void fields(auto& f) {
    f.add("parent", &DominatorPattern::parent)
        .add("path", &DominatorPattern::path)
        .add("child", &DominatorPattern::child);
  }
};
/// A tuple of these items; `any_items`: whatever it holds.
struct TuplePattern : PatternBase<TuplePattern> {
  Array<DFPattern> items;
  bool any_items = false;
  static constexpr std::string_view type_key = "dpl.TuplePattern";
  static void fields(auto& f) {
    f.add("items", &TuplePattern::items).add("any_items", &TuplePattern::any_items);
  }
};
/// An item of a tuple; index -1: any.
struct TupleGetItemPattern : PatternBase<TupleGetItemPattern> {
  DFPattern tuple;
  int64_t index = -1;
  static constexpr std::string_view type_key = "dpl.TupleGetItemPattern";
  static void fields(auto& f) {
    f.add("tuple", &TupleGetItemPattern::tuple).add("index", &TupleGetItemPattern::index);
  }
};
/// A function whose result is `body` over `params`.
struct FunctionPattern : PatternBase<FunctionPattern> {
  Array<DFPattern> params;
  DFPattern body;
  static constexpr std::string_view type_key = "dpl.FunctionPattern";
  static void fields(auto& f) {
    f.add("params", &FunctionPattern::params).add("body", &FunctionPattern::body);
  }
};
/// Values each of which is an operand of the next; it stands where the last one does. `only_used_by[i]`:
/// value i has no other use than value i + 1.
struct PatternSequence : PatternBase<PatternSequence> {
  Array<DFPattern> patterns;
  Array<int64_t> only_used_by;
  static constexpr std::string_view type_key = "dpl.PatternSequence";
  static void fields(auto& f) {
    f.add("patterns", &PatternSequence::patterns).add("only_used_by", &PatternSequence::only_used_by);
  }
};

/// Patterns by the names that their matches get, in the order in which they are tried.
struct PatternTable : Object {
  Map<std::string, DFPattern> patterns;
  static constexpr std::string_view type_key = "dpl.PatternTable";
  static void fields(auto& f) { f.add("patterns", &PatternTable::patterns); }
};

DFPattern wildcard();
/// A call of the operator. DiagnosticError T0222 when there is none of that name.
DFPattern is_op(std::string_view op, Array<DFPattern> args);

/// Mistakes by which a pattern can match nothing (T1150): a missing part, more arguments than an operator
/// takes, an attribute that it does not have, an item behind a tuple's end, the opposite of everything.
void check_pattern(const DFPattern& pattern);

// ---------------------------------------------------------------- matching
/// What a body binds and who uses it.
class DataflowView {
 public:
  /// `module`: where functions that the body names are looked up; null: nowhere.
  explicit DataflowView(const graph::Expr& body, IRModule module = {});
  /// What a variable is bound to, of a name the function; anything else is itself.
  graph::Expr definition(const graph::Expr& e) const;
  /// The variables whose values use this one, each once, in order.
  const std::vector<graph::VarRef>& users(const graph::Expr& variable) const;
  bool is_result(const graph::Expr& variable) const;  ///< it is seen outside of the body
  const IRModule& module() const { return module_; }

 private:
  IRModule module_;
  graph::Expr body_;  // keeps the keys alive
  std::unordered_map<const Object*, graph::Expr> definitions_;
  std::unordered_map<const Object*, std::vector<graph::VarRef>> users_;
  std::set<const Object*> results_;
};

struct PatternMatch {
  std::unordered_map<const DFPatternNode*, graph::Expr> values;  ///< what each part of the pattern stands for
  std::vector<graph::VarRef> inside;  ///< variables whose definition the pattern describes, each once
};
constexpr int64_t kMatchSteps = 1'000'000;  ///< a match takes thousands; patterns can be made that take years
/// What the value matches, or nullopt. DiagnosticError T1151 when `steps` do not decide it.
std::optional<PatternMatch> match_pattern(const DFPattern& pattern, const graph::Expr& value,
                                          const DataflowView& view, int64_t steps = kMatchSteps);

}  // namespace tenon::dpl
