// SPDX-License-Identifier: Apache-2.0
// Products and concatenations of quantised tensors. Products give int32 sums of (q - zero_point): requantize
// makes them narrow again.
#include <fmt/format.h>

#include "op/attrs_qnn.h"
#include "op/qnn.h"

namespace tenon::op {
namespace {

void expect_quantised(const Call& call) {
  for (size_t i = 0; i < 4; ++i) expect_domain(call, tensor_arg(call, i).dtype, Domain::integer);
}
/// `name` on both operands less their zero points; the weight's may differ along an axis.
Compose product_of(const std::string& name, int64_t weight_axis) {
  return [name, weight_axis](const Call& call, const std::vector<Expr>& args) {
    expect_quantised(call);
    known_dims(args[0]), known_dims(args[1]);
    return op_call(name, {centred(call, args[0], args[2], -1), centred(call, args[1], args[3], weight_axis)},
                   call.attrs);
  };
}

/// All parts at the scale of the result: the tuple of tensors, then vectors of their scales and zero points.
Expr concat(const Call& call, const std::vector<Expr>& args) {
  const auto* t = args[0]->type.as<graph::TupleType>();
  if (!t || t->items.empty()) infer_error(call, "there is nothing to join");
  const auto n = int64_t(t->items.size());
  Array<Expr> parts;
  for (int64_t i = 0; i < n; ++i) {
    auto one = [&](size_t from) {
      const Shape s = known_dims(args[from]);
      if (s.size() != 1 || differ(s[0], PrimExpr(n)))
        infer_error(call, fmt::format("scales or zero points {} for {} tensors", show(s), n));
      const Expr part = op_call("strided_slice", {args[from]},
                                make_attrs<StridedSliceAttrs>(Array<int64_t>{0}, Shape{PrimExpr(i)},
                                                              Shape{PrimExpr(i + 1)}, Array<int64_t>{1}));
      return as_type(op_call("reshape", {part, shape({})}), f32);
    };
    const Expr x = get_item(args[0], i);
    expect_domain(call, dtype_of(x), Domain::integer);
    const Expr zero = along_axis(call, args[4], -1, 0), scale = along_axis(call, args[3], -1, 0);
    parts.push_back(quantized(dequantized(x, one(1), one(2)), scale, zero, dtype_of(x)));
  }
  return op_call("concat", {tuple(parts)}, call.attrs);
}

const bool qnn_contract_registered = [] {
  auto product = [](const std::string& name, const std::string& of, const char* doc, int64_t weight_axis) {
    return register_composed("qnn." + name, doc, FusionKind::out_element_wise_fusable,
                             product_of(of, weight_axis))
        .argument("x", "Tensor", "integers")
        .argument("weight", "Tensor", "integers")
        .argument("x_zero_point", "Tensor", "scalar")
        .argument("weight_zero_point", "Tensor", "scalar, or one per output channel");
  };
  const char* const sums = "int32 sums of products of quantised values.";
  product("dense", "nn.dense", sums, 0).attrs<MatmulAttrs>();
  product("matmul", "matmul", sums, -1).attrs<MatmulAttrs>();
  for (int n = 1; n <= 3; ++n)
    product(fmt::format("conv{}d", n), fmt::format("nn.conv{}d", n),
            "Convolution of quantised values, as int32.", 0)
        .attrs<ConvAttrs>();
  product("conv2d_transpose", "nn.conv2d_transpose", "Transposed convolution of quantised values, as int32.",
          1)
      .attrs<ConvTransposeAttrs>();
  register_composed("qnn.concat", "Quantised tensors joined, at one scale.", FusionKind::injective, concat)
      .argument("x", "Tuple", "the tensors")
      .argument("scales", "Tensor", "one per tensor")
      .argument("zero_points", "Tensor", "one per tensor")
      .argument("output_scale", "Tensor", "scalar")
      .argument("output_zero_point", "Tensor", "scalar")
      .attrs<AxisAttrs>();
  return true;
}();

}  // namespace
}  // namespace tenon::op
