// SPDX-License-Identifier: Apache-2.0
// expand_matmul_of_sum: a product with a sum of matrices becomes a sum of products.
//
//   before   lv = R.matmul(b, c);  lv1 = R.add(w, lv);  lv2 = R.matmul(x, lv1)
//   after    lv2 = R.add(R.matmul(x, w), R.matmul(x, lv))
//
// Together with adjust_matmul_order this keeps a low-rank update (LoRA) of a weight apart: x·(W + B·C)
// becomes x·W + (x·B)·C. Only where a summand is a product itself. Needs: types; normal form. Keeps: values
// up to rounding.
#include "op/body_rewriter.h"
#include "op/build.h"

namespace tenon {
namespace graph {
namespace {

class ExpandMatmulOfSum : public BodyRewriter {
 protected:
  Expr visit(const Expr& value, const VarRef&) override {
    const Op* op = op_of(value);
    if (!op || op->name != "matmul") return value;
    const Call& call = *value.as<Call>();
    const Call* sum = definition_call(call.args[1], "add");
    if (!sum) return value;
    const auto whole = known_shape(call.args[1]);
    for (const Expr& part : sum->args) {  // no broadcasting: each summand is a matrix by itself
      const auto shape = known_shape(part);
      if (!whole || !shape || shape->size() != whole->size()) return value;
      for (size_t i = 0; i < shape->size(); ++i)
        if (tir::as_int((*shape)[i]) != tir::as_int((*whole)[i]) || !tir::as_int((*whole)[i])) return value;
    }
    if (!definition_call(sum->args[0], "matmul") && !definition_call(sum->args[1], "matmul")) return value;
    auto product = [&](const Expr& part) {
      return emit(op::op_call("matmul", {call.args[0], part}, call.attrs, call.origin));
    };
    Expr first = product(sum->args[0]);
    return op::op_call("add", {first, product(sum->args[1])}, {}, call.origin);
  }
};

}  // namespace
}  // namespace graph

const Pass& expand_matmul_of_sum_pass = register_pass({
    .name = "expand_matmul_of_sum",
    .run = graph::each_function<graph::ExpandMatmulOfSum>,
    .summary = "x·(A + B·C) becomes x·A + (x·B)·C",
    .needs = {"infer_types"},
    .changes = Changes::rounding,
});

}  // namespace tenon
