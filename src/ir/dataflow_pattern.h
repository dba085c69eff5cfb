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
  static constexpr uint32_t child_slots = 32;
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
/// A variable of this name; an empty name: any. `local`: one that the body binds and does not give back.
struct VarPattern : PatternBase<VarPattern> {
  std::string name;
  bool local = false;
  static constexpr std::string_view type_key = "dpl.VarPattern";
  static void fields(auto& f) { f.add("name", &VarPattern::name).add("local", &VarPattern::local); }
};
/// A function of the module by its name; an empty name: any.
struct GlobalVarPattern : PatternBase<GlobalVarPattern> {
  std::string name;
  static constexpr std::string_view type_key = "dpl.GlobalVarPattern";
  static void fields(auto& f) { f.add("name", &GlobalVarPattern::name); }
};
/// A packed function by its name; an empty name: any.
struct ExternFuncPattern : PatternBase<ExternFuncPattern> {
  std::string symbol;
  static constexpr std::string_view type_key = "dpl.ExternFuncPattern";
  static void fields(auto& f) { f.add("symbol", &ExternFuncPattern::symbol); }
};
/// Any constant.
struct ConstantPattern : PatternBase<ConstantPattern> {
  static constexpr std::string_view type_key = "dpl.ConstantPattern";
  static void fields(auto&) {}
};
/// A call; `any_args`: whatever arguments follow these.
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
/// `pattern`, whose shape is known and equal to that of what `other`, another part of the whole, stands for.
struct SameShapePattern : PatternBase<SameShapePattern> {
  DFPattern pattern, other;
  static constexpr std::string_view type_key = "dpl.SameShapePattern";
  static void fields(auto& f) {
    f.add("pattern", &SameShapePattern::pattern).add("other", &SameShapePattern::other);
  }
};
/// A value that is a shape: these sizes.
struct PrimArrPattern : PatternBase<PrimArrPattern> {
  Array<PrimExpr> values;
  static constexpr std::string_view type_key = "dpl.PrimArrPattern";
  static void fields(auto& f) { f.add("values", &PrimArrPattern::values); }
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
/// A tuple of these items; `any_items`: whatever it holds, `unordered`: in any order.
struct TuplePattern : PatternBase<TuplePattern> {
  Array<DFPattern> items;
  bool any_items = false, unordered = false;
  static constexpr std::string_view type_key = "dpl.TuplePattern";
  static void fields(auto& f) {
    f.add("items", &TuplePattern::items)
        .add("any_items", &TuplePattern::any_items)
        .add("unordered", &TuplePattern::unordered);
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
/// A function whose result is `body` over `params`; `any_params`: whatever it takes.
struct FunctionPattern : PatternBase<FunctionPattern> {
  Array<DFPattern> params;
  DFPattern body;
  bool any_params = false;
  static constexpr std::string_view type_key = "dpl.FunctionPattern";
  static void fields(auto& f) {
    f.add("params", &FunctionPattern::params)
        .add("body", &FunctionPattern::body)
        .add("any_params", &FunctionPattern::any_params);
  }
};
/// A choice by its condition and what its ways give.
struct IfPattern : PatternBase<IfPattern> {
  DFPattern condition, true_branch, false_branch;
  static constexpr std::string_view type_key = "dpl.IfPattern";
  static void fields(auto& f) {
    f.add("condition", &IfPattern::condition)
        .add("true_branch", &IfPattern::true_branch)
        .add("false_branch", &IfPattern::false_branch);
  }
};
/// `body`, in which what `var` stands for is bound to `value`.
struct LetPattern : PatternBase<LetPattern> {
  DFPattern var, value, body;
  static constexpr std::string_view type_key = "dpl.LetPattern";
  static void fields(auto& f) {
    f.add("var", &LetPattern::var).add("value", &LetPattern::value).add("body", &LetPattern::body);
  }
};
/// Values each of which is an operand of the next; it stands where the last one does. `only_used_by[i]`:
/// value i has no other use than value i + 1. `argument[i]`: it is that argument of the call; -1, and beyond
/// the end of the list: any operand.
struct PatternSequence : PatternBase<PatternSequence> {
  Array<DFPattern> patterns;
  Array<int64_t> only_used_by, argument;
  static constexpr std::string_view type_key = "dpl.PatternSequence";
  static void fields(auto& f) {
    f.add("patterns", &PatternSequence::patterns)
        .add("only_used_by", &PatternSequence::only_used_by)
        .add("argument", &PatternSequence::argument);
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

/// One sequence: the last value of `left` is an operand of the first of `right` (`only`: of nothing else,
/// `argument`: that one, -1: any).
DFPattern in_sequence(const DFPattern& left, const DFPattern& right, bool only, int64_t argument = -1);
/// A call of a tensor program of the module, of a packed function in destination-passing style, of a packed
/// function; an empty name: any. `args` null: whatever they are.
DFPattern is_call_tir(const std::string& name, const DFPattern& args);
DFPattern is_call_dps_packed(const std::string& name, const DFPattern& args);
DFPattern is_call_packed(const std::string& name, const std::optional<Array<DFPattern>>& args);

/// The patterns that this one is made of, in the order of its fields.
std::vector<DFPattern> direct_parts(const DFPattern& pattern);
/// Mistakes by which a pattern can match nothing (T1150): a missing part, more arguments than an operator
/// takes, an attribute that it does not have, an item behind a tuple's end, the opposite of everything, two
/// things that no value is at once, a shape or variable of a part that the pattern does not hold.
void check_pattern(const DFPattern& pattern);
/// What a conjunction says of its value that no value has at once (two element types, two operators); empty:
/// nothing.
std::string contradiction(const DFPattern& pattern);

// ---------------------------------------------------------------- matching
/// What a body binds and who uses it.
class DataflowView {
 public:
  /// `module`: where functions that the body names are looked up; null: nowhere. `outer`: of the body around
  /// this one, whose variables it may use; it must live as long.
  explicit DataflowView(const graph::Expr& body, IRModule module = {}, const DataflowView* outer = nullptr);
  /// What a variable is bound to, of a name the function; anything else is itself.
  graph::Expr definition(const graph::Expr& e) const;
  /// The variables whose values use this one, each once, in order.
  const std::vector<graph::VarRef>& users(const graph::Expr& variable) const;
  bool is_result(const graph::Expr& variable) const;  ///< it is seen outside of the body
  bool is_local(const graph::Expr& variable) const;   ///< bound by the body and not seen outside
  const IRModule& module() const { return module_; }

 private:
  /// The view whose body binds the variable; of what none binds, parameters, the outermost.
  const DataflowView& of(const graph::Expr& variable) const;

  IRModule module_;
  const DataflowView* outer_;
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
