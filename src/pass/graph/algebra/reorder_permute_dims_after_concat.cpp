// SPDX-License-Identifier: Apache-2.0
// reorder_permute_dims_after_concat: parts that are all transposed alike are put together first.
//
//   before   lv = R.permute_dims(a);  lv1 = R.permute_dims(b);  lv2 = R.concat((lv, lv1), axis=1)
//   after    lv = R.concat((a, b), axis=0);  lv2 = R.permute_dims(lv)
//
// One transpose instead of several, and one that a product behind it can take in. Needs: types; normal form.
// Keeps: values bit by bit.
#include "ir/structural.h"
#include "op/body_rewriter.h"
#include "op/build.h"

namespace tenon {
namespace graph {
namespace {

class ReorderPermuteDimsAfterConcat : public BodyRewriter {
 protected:
  Expr visit(const Expr& value, const VarRef&) override {
    const Op* op = op_of(value);
    if (!op || op->name != "concat") return value;
    const Call& call = *value.as<Call>();
    const Expr parts = call.args[0].is<Tuple>() ? call.args[0] : definition(call.args[0]);
    const auto* tuple = parts.as<Tuple>();
    if (!tuple || tuple->items.size() < 2) return value;
    Array<Expr> sources;
    const Call* first = nullptr;
    for (const Expr& item : tuple->items) {
      const Call* p = definition_call(item, "permute_dims");
      if (!p || (first && !structural_equal(p->attrs, first->attrs))) return value;
      if (!first) first = p;
      sources.push_back(p->args[0]);
    }
    const auto* type = as_tensor(sources[0]);
    if (!type || type->ndim <= 0) return value;
    const int64_t rank = type->ndim;
    const auto& axes = op::attrs_of<op::AxesAttrs>(*first).axes;
    const int64_t axis = (op::attrs_of<op::AxisAttrs>(call).axis + rank) % rank;
    const int64_t source = axes.empty() ? rank - 1 - axis : (axes[size_t(axis)] + rank) % rank;
    Expr together = emit_op("concat", {op::tuple(sources)}, op::make_attrs<op::AxisAttrs>(source));
    return op::op_call("permute_dims", {together}, first->attrs, call.origin);
  }
};

}  // namespace
}  // namespace graph

const Pass& reorder_permute_dims_after_concat_pass = register_pass({
    .name = "reorder_permute_dims_after_concat",
    .run = graph::each_function<graph::ReorderPermuteDimsAfterConcat>,
    .level = 2,
    .summary = "transposed parts are put together before they are transposed",
    .needs = {"infer_types"},
});

}  // namespace tenon
