// SPDX-License-Identifier: Apache-2.0
// scale_after_product: products of few rows with a matrix of stored bytes multiply the bytes' values, and
// scales come behind the sums.
//
//   before   lv = R.multiply(R.cast(q, "float32"), s);  lv1 = R.matmul(x, lv)   # q bytes, s by column:
//   constants after    lv = R.matmul(x, R.cast(q, "float32"));  lv1 = R.multiply(lv, s)
//   before   lv = R.qnn.block_dequantize(q, s);  lv1 = R.nn.dense(x, lv)         # s by column and block
//   after    lv = R.nn.packed_matmul(x, q in panels, s in panels)
//
// Models whose weights alone are quantised are such; pack_weights keeps the bytes. A zero point is taken off
// before. For products of float32 whose weight is read more than it is multiplied
// (cost::worth_narrow_storage). Before constants are folded. Needs: types, a target. Keeps: values up to
// rounding.
#include <fmt/format.h>

#include "analysis/cost/layout.h"
#include "analysis/cost/tile.h"
#include "op/body_rewriter.h"
#include "op/build.h"
#include "pass/graph/layout/narrow_storage.h"

namespace tenon {
namespace graph {
namespace {

class ScaleAfterProduct : public BodyRewriter {
 public:
  explicit ScaleAfterProduct(Target target) : target_(std::move(target)) {}

 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    const auto sum = op::contraction_of(value);
    if (!sum || sum->spatial > 0 || sum->batch > 0) return value;
    const Call& call = *value.as<Call>();
    const auto* x = as_tensor(call.args[0]);
    const auto shape = static_shape(call.args[1]->type);
    if (!x || x->dtype != f32 || x->ndim < 2 || !shape || shape->size() != 2) return value;
    const int64_t rows = product_rows(call.args[0]);
    if (!cost::worth_narrow_storage(rows, element_count(*shape) * f32.bytes(), target_)) return value;
    const Call* blocks = definition_call(call.args[1], "qnn.block_dequantize");
    if (blocks && sum->weight_out == 0 && as_tensor(call.args[1])->dtype == f32)
      return in_panels(call, *blocks, rows, (*shape)[0], (*shape)[1], var);
    const Call* scaled = definition_call(call.args[1], "multiply");
    if (!scaled) return value;
    for (const size_t i : {0, 1}) {
      const Expr& bytes = scaled->args[i];
      const auto scale = by_column(scaled->args[1 - i], *shape, sum->weight_out);
      if (!scale || !holds_bytes(bytes)) continue;
      const Expr product = op::op_call(op_of(value)->name, {call.args[0], bytes}, call.attrs, call.origin);
      return op::op_call("multiply", {emit(product, var->name + "_sums"), constant(*scale)}, {}, call.origin);
    }
    return value;
  }

 private:
  Expr in_panels(const Call& call, const Call& weight, int64_t rows, int64_t columns, int64_t inputs,
                 const VarRef& var) {
    const int64_t lanes = std::max<int64_t>(1, target_->lanes(f32));
    const int64_t width =
        lanes * cost::panel_vectors(rows > 0 ? rows : cost::kUnknown, columns, inputs, lanes, 1, target_);
    auto packed = [&](const Expr& e, const char* name) {
      return emit(op::op_call("layout_transform", {e},
                              op::make_attrs<op::LayoutTransformAttrs>(std::string("NK"),
                                                                       fmt::format("NK{}n", width)),
                              call.origin),
                  var->name + name);
    };
    return op::op_call("nn.packed_matmul",
                       {call.args[0], packed(weight.args[0], "_panels"), packed(weight.args[1], "_scales")},
                       op::make_attrs<op::PackedMatmulAttrs>(columns, f32, int64_t(1)), call.origin);
  }
  /// Widened constant bytes, maybe without a zero point.
  bool holds_bytes(const Expr& e) const {
    const Call* shifted = definition_call(e, "subtract");
    const Call* wide = definition_call(shifted ? shifted->args[0] : e, "cast");
    const auto *stored = wide ? as_tensor(wide->args[0]) : nullptr, *whole = as_tensor(e);
    return stored && wide->args[0].is<Constant>() && stored->dtype.is_integer() && stored->dtype.bits == 8 &&
           whole->dtype == f32 && stored->ndim == 2;
  }
  /// A factor for each column of the product, or one for all.
  static std::optional<NDArray> by_column(const Expr& e, const std::vector<int64_t>& weight, int64_t axis) {
    const auto* c = e.as<Constant>();
    if (!c || c->data.ndim() > 2) return std::nullopt;
    if (c->data.size() == 1) return c->data.reshape({});
    const int64_t columns = weight[size_t(axis)], from_last = c->data.ndim() - (axis == 0 ? 2 : 1);
    if (c->data.size() != columns || from_last < 0 || c->data.shape()[size_t(from_last)] != columns)
      return std::nullopt;
    return c->data.reshape({columns});
  }

  Target target_;
};

}  // namespace
}  // namespace graph

static IRModule scale_after_product(IRModule module, PassContext& context) {
  Target target = context.target.cast<TargetNode>();
  if (!target) return module;
  return graph::rewrite_functions<graph::ScaleAfterProduct>(std::move(module), target);
}

const Pass& scale_after_product_pass = register_pass({
    .name = "scale_after_product",
    .run = scale_after_product,
    .level = 2,
    .summary = "products of few rows multiply stored bytes, scaled behind the sum or by block",
    .needs = {"infer_types"},
    .changes = Changes::rounding,
});

}  // namespace tenon
