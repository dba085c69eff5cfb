// SPDX-License-Identifier: Apache-2.0
// dynamic_to_static: sizes that are computed from constants become numbers, and with them the types.
//
//   before   s = R.tensor_to_shape([2, 3]);  lv = R.reshape(x, s)              # lv: some shape of two axes
//            lv1 = R.match_cast(lv, R.Tensor((2, 3)))
//   after    lv = R.reshape(x, R.shape([2, 3]))                                # lv: (2, 3), and lv1 is lv
//
// shape_of a tensor of known shape is that shape; shape_to_tensor of numbers is a constant; a match_cast to
// what a type already says goes. What that reaches is found in one walk, because types follow on the way.
// Needs: types. Keeps: values; types get more exact.
#include "op/body_rewriter.h"
#include "op/build.h"

namespace tenon {
namespace graph {
namespace {

class DynamicToStatic : public BodyRewriter {
 protected:
  bool forward_copies() const override { return true; }

  Expr visit(const Expr& value, const VarRef&) override {
    const Op* op = op_of(value);
    if (!op || !op->pure) return value;
    const Call& call = *value.as<Call>();
    if (op->name == "shape_of") {
      if (auto shape = known_shape(call.args[0]->type)) return shape_expr(*shape);
      return value;
    }
    if (op->name == "tensor_to_shape") {
      const auto* c = call.args[0].as<Constant>();
      if (!c || !c->data.dtype().is_integer() || c->data.ndim() != 1) return value;
      Array<PrimExpr> dims;
      for (int64_t i = 0; i < c->data.size(); ++i) {
        if (c->data.element_int(i) < 0) return value;  // run time refuses it, with a place
        dims.push_back(PrimExpr(c->data.element_int(i)));
      }
      return shape_expr(dims);
    }
    if (op->name == "shape_to_tensor") {
      const auto* s = call.args[0].as<ShapeExpr>();
      if (!s) return value;
      NDArray dims = NDArray::empty({int64_t(s->values.size())}, i64);
      for (size_t i = 0; i < s->values.size(); ++i) {
        auto n = tir::as_int(s->values[i]);
        if (!n) return value;
        dims.set_element_int(int64_t(i), *n);
      }
      return constant(dims);
    }
    return value;
  }

  Expr visit_match_cast(const Expr& value, const Type& type, const VarRef& var) override {
    return without_known_cast(value, type, var);
  }
};

}  // namespace
}  // namespace graph

const Pass& dynamic_to_static_pass = register_pass({
    .name = "dynamic_to_static",
    .run = graph::each_function<graph::DynamicToStatic>,
    .summary = "sizes computed from constants become numbers",
    .needs = {"infer_types"},
});

}  // namespace tenon
