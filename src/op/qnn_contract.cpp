// SPDX-License-Identifier: Apache-2.0
// Products and concatenations of quantised tensors. Products give int32 sums of (q - zero_point): requantize
// makes them narrow again.
#include <fmt/format.h>

#include "op/attrs_qnn.h"
#include "op/qnn.h"

namespace tenon::op {
namespace {

using Terms = std::vector<Term>;

/// `name` on both operands less their zero points; the weight's may differ along an axis.
Compose product_of(const std::string& name, int64_t weight_axis) {
  return [name, weight_axis](InferContext& ctx, const Terms& args) -> Term {
    for (size_t i = 0; i < 4; ++i)
      if (!ctx.expect_domain(ctx.tensor(i).dtype, Domain::integer)) return {};
    if (!args[0].dims() || !args[1].dims()) return {};
    const Term x = centred(ctx, args[0], args[2], -1), w = centred(ctx, args[1], args[3], weight_axis);
    return x.op(name, {w}, ctx.call.attrs);
  };
}

/// All parts at the scale of the result: the tuple of tensors, then vectors of their scales and zero points.
Term concat(InferContext& ctx, const Terms& args) {
  const auto tensors = ctx.tuple(0);
  if (!tensors) return {};
  if (tensors->empty()) return ctx.error("there is nothing to join");
  const auto n = int64_t(tensors->size());
  for (size_t i : {1, 2}) {
    const auto s = args[i].dims();
    if (!s) return {};
    if (!ctx.require_equal(*s, Shape{PrimExpr(n)}))
      return ctx.error(fmt::format("scales or zero points {} for {} tensors", show(*s), n));
  }
  Terms parts;
  for (int64_t i = 0; i < n; ++i) {
    auto one = [&](size_t from) {
      const Term part = args[from].op(
          "strided_slice", make_attrs<StridedSliceAttrs>(Array<int64_t>{0}, Shape{PrimExpr(i)},
                                                         Shape{PrimExpr(i + 1)}, Array<int64_t>{1}));
      return part.reshaped({}).as(f32);
    };
    const Term x = args[0].item(i);
    if (!ctx.expect_domain(x.dtype(), Domain::integer)) return {};
    const Term scale = along_axis(ctx, args[3], -1, 0), zero = along_axis(ctx, args[4], -1, 0);
    parts.push_back(quantized(dequantized(x, one(1), one(2)), scale, zero, x.dtype()));
  }
  return tuple(parts).op("concat", ctx.call.attrs);
}

const bool qnn_contract_registered = [] {
  auto product = [](OpName name, const std::string& of, const char* doc, int64_t weight_axis) {
    return register_quantized(std::move(name), doc, FusionKind::out_element_wise_fusable,
                              product_of(of, weight_axis))
        .argument("x", "Tensor", "integers")
        .argument("weight", "Tensor", "integers")
        .argument("x_zero_point", "Tensor", "scalar")
        .argument("weight_zero_point", "Tensor", "scalar, or one per output channel");
  };
  const char* const sums = "int32 sums of products of quantised values.";
  product("qnn.dense", "nn.dense", sums, 0).attrs<MatmulAttrs>();
  product("qnn.matmul", "matmul", sums, -1).attrs<MatmulAttrs>();
  const char* const convolution = "Convolution of quantised values, as int32.";
  product("qnn.conv1d", "nn.conv1d", convolution, 0).attrs<ConvAttrs>();
  product("qnn.conv2d", "nn.conv2d", convolution, 0).attrs<ConvAttrs>();
  product("qnn.conv3d", "nn.conv3d", convolution, 0).attrs<ConvAttrs>();
  product("qnn.conv2d_transpose", "nn.conv2d_transpose",
          "Transposed convolution of quantised values, as int32.", 1)
      .attrs<ConvTransposeAttrs>();
  register_quantized("qnn.concat", "Quantised tensors joined, at one scale.", FusionKind::injective, concat)
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
