// SPDX-License-Identifier: Apache-2.0
// reorder_take_after_matmul: columns are taken from the product, not from its matrix.
//
//   before   lv = R.take(w, ids, axis=1);  lv1 = R.matmul(x, lv)
//   after    lv = R.matmul(x, w);  lv1 = R.take(lv, ids, axis=-1)
//
// The matrix is read as it lies (and can be packed when it is constant) instead of being gathered in every
// call; it pays when most columns are taken, so the pass runs on request. Needs: types; normal form. Keeps:
// values bit by bit where the schedule sums in the same order.
#include "op/body_rewriter.h"
#include "op/build.h"

namespace tenon {
namespace graph {
namespace {

class ReorderTakeAfterMatmul : public BodyRewriter {
 protected:
  Expr visit(const Expr& value, const VarRef&) override {
    const Op* op = op_of(value);
    if (!op || op->name != "matmul") return value;
    const Call& call = *value.as<Call>();
    const Call* take = definition_call(call.args[1], "take");
    const auto *w = take ? as_tensor(take->args[0]) : nullptr,
               *ids = take ? as_tensor(take->args[1]) : nullptr;
    const auto* x = as_tensor(call.args[0]);
    if (!w || !ids || !x || w->ndim != 2 || ids->ndim != 1 || x->ndim < 2) return value;
    const int64_t axis = op::attrs_of<op::AxisAttrs>(*take).axis;
    if (axis != 1 && axis != -1) return value;
    Expr whole = emit(op::op_call("matmul", {call.args[0], take->args[0]}, call.attrs, call.origin));
    return op::op_call("take", {whole, take->args[1]}, op::make_attrs<op::AxisAttrs>(int64_t(-1)),
                       call.origin);
  }
};

}  // namespace
}  // namespace graph

const Pass& reorder_take_after_matmul_pass = register_pass({
    .name = "reorder_take_after_matmul",
    .run = graph::each_function<graph::ReorderTakeAfterMatmul>,
    .summary = "columns are taken from the product, not from its matrix",
    .needs = {"infer_types"},
    .changes = Changes::sum_order,
});

}  // namespace tenon
