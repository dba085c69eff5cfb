// SPDX-License-Identifier: Apache-2.0
// check_sizes: what operators take for granted of symbolic sizes is checked at run time.
//
//   before   y: R.Tensor((n, m)) = R.reshape(x, R.shape([n, m]))              # x: R.Tensor((k,))
//   after    checked = R.match_cast(R.shape([k]), R.Shape([n * m]));  y = …
//
// Inference refuses sizes that differ and cannot compare symbols: a kernel made from such types would read
// past the end of its arguments. Needs: types. Keeps: values and their types; equal checks of a scope, and
// what the analyzer proves, are made once or not at all, those that the program brings included.
#include <set>

#include "analysis/given_up.h"
#include "ir/structural.h"
#include "ir/symbols.h"
#include "op/body_rewriter.h"
#include "op/infer.h"
#include "pass/graph/lowering/lower_function.h"

namespace tenon {
namespace graph {
namespace {

class CheckSizes : public BodyRewriter {
 public:
  explicit CheckSizes(GivenUpProofs& given_up) : analyzer_(given_up, "check_sizes") {}

 protected:
  void enter_scope() override { scopes_.push_back(made_.size()); }
  void leave_scope() override {
    for (; made_.size() > scopes_.back(); made_.pop_back()) {
      const auto same = by_sizes_.find(made_.back());
      same->second.pop_back();
      if (same->second.empty()) by_sizes_.erase(same);
    }
    scopes_.pop_back();
  }
  Expr visit_match_cast(const Expr& value, const Type& type, const VarRef&) override {
    // What the program checks itself.
    const auto have = known_shape(value->type), want = known_shape(type);
    if (value.is<ShapeExpr>() && have && want && have->size() == want->size()) {
      bool again = true;  // converters of two operators may have asked for the same
      for (size_t i = 0; again && i < have->size(); ++i) again = checked({(*have)[i], (*want)[i], false});
      if (again) return value;
    }
    for (size_t i = 0; have && want && i < have->size() && i < want->size(); ++i)
      note({(*have)[i], (*want)[i], false});
    return {};
  }
  Expr visit(const Expr& value, const VarRef&) override {
    const Op* op = op_of(value);
    if (!op || !op->pure || !has_tensor_def(*op)) return value;
    for (const Expr& arg : value.as<Call>()->args) assume_sizes(arg);
    op::Inference run;
    op::infer_type(run, value);
    for (const op::SizeFact& a : run.facts)
      if (!checked(a)) check(a);
    return value;
  }

 private:
  /// Sizes of a tensor that is there are not negative.
  void assume_sizes(const Expr& arg) {
    const auto shape = arg ? known_shape(arg->type) : std::nullopt;
    if (!shape || !arg->type.is<TensorType>()) return;
    for (const PrimExpr& size : *shape)
      if (size.is<tir::Var>() && assumed_.insert(size.as<tir::Var>()).second)
        analyzer_.assume_size(size.cast<tir::Var>());
  }
  bool checked(const op::SizeFact& a) {
    if (const auto same = by_sizes_.find(hash(a)); same != by_sizes_.end())
      for (const op::SizeFact& b : same->second)
        if ((a.or_one || !b.or_one) &&
            ((structural_equal(a.have, b.have) && structural_equal(a.want, b.want)) ||
             (!a.or_one && !b.or_one && structural_equal(a.have, b.want) &&
              structural_equal(a.want, b.have))))
          return true;
    return analyzer_.can_prove_equal(a.have, a.want);
  }
  void note(const op::SizeFact& a) {
    made_.push_back(hash(a));
    by_sizes_[made_.back()].push_back(a);
  }
  /// The same whichever of the two sizes comes first.
  static uint64_t hash(const op::SizeFact& a) { return symbol_hash(a.have) + symbol_hash(a.want); }
  void check(const op::SizeFact& a) {
    const PrimExpr have = a.or_one ? tir::select(tir::eq(a.have, PrimExpr(1)), a.want, a.have) : a.have;
    const Type wanted = make<ShapeType>(Array<PrimExpr>{a.want}, int64_t(1), true);
    splice(make<MatchCastNode>(var("checked", wanted), shape_expr({have}), wanted));
    note(a);
  }

  std::unordered_map<uint64_t, std::vector<op::SizeFact>> by_sizes_;  ///< what is checked already
  std::vector<uint64_t> made_;                                        ///< keys of `by_sizes_`, in order
  std::vector<size_t> scopes_;
  std::set<const tir::Var*> assumed_;  ///< sizes of tensors
  Analyzer analyzer_;
};

}  // namespace
}  // namespace graph

static IRModule check_sizes(IRModule module, PassContext& context) {
  GivenUpProofs given_up;
  module = graph::rewrite_functions<graph::CheckSizes>(std::move(module), given_up);
  report_given_up(context, given_up);
  return module;
}

const Pass& check_sizes_pass = register_pass({
    .name = "check_sizes",
    .run = check_sizes,
    .level = 0,
    .summary = "what operators take for granted of symbolic sizes is checked",
    .needs = {"infer_types"},
});

}  // namespace tenon
