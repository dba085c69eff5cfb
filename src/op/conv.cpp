// SPDX-License-Identifier: Apache-2.0
// Convolutions and transposed convolutions of one to three spatial axes: plain, grouped, depthwise, dilated.
#include <fmt/format.h>

#include "op/family.h"

namespace tenon::op {
namespace {

using graph::infer_error;
using Tensors = std::vector<te::Tensor>;
using Ints = std::vector<int64_t>;

const char* const kAxisNames[] = {"d", "h", "w"};
/// "h" and "w" for two spatial axes, "w" for one.
std::string axis_name(size_t spatial, size_t i) { return kAxisNames[3 - spatial + i]; }

void check_layout(const Call& call, const std::string& given, const std::string& wanted) {
  if (!given.empty() && given != wanted)
    infer_error(call, fmt::format("layout '{}' is not supported here", given),
                "transform the tensor to " + wanted);
}

/// Positive values where they must be.
void check_positive(const Call& call, const Ints& values, std::string_view what) {
  for (int64_t v : values)
    if (v < 1) infer_error(call, fmt::format("{} {} is not positive", what, v));
}

struct ConvShape {
  Ints strides, pads, dilation;
};
ConvShape conv_shape(const Call& call, size_t n) {
  const auto& a = attrs_of<ConvAttrs>(call);
  ConvShape c{per_axis(call, a.strides, n, 1, "strides"), paddings(call, a.padding, n),
              per_axis(call, a.dilation, n, 1, "dilation")};
  check_positive(call, c.strides, "stride");
  check_positive(call, c.dilation, "dilation");
  return c;
}

/// Data (n, c, …) and weight of the same rank with known numbers of dimensions.
void check_operands(const Call& call, const graph::TensorType& x, const graph::TensorType& w, size_t n,
                    int64_t groups) {
  expect_rank(call, x, "the data", int64_t(n) + 2);
  expect_rank(call, w, "the weight", int64_t(n) + 2);
  if (groups < 1) infer_error(call, fmt::format("{} groups", groups));
}

Type infer_conv(const Call& call, size_t n) {
  const auto& a = attrs_of<ConvAttrs>(call);
  const auto &x = tensor_arg(call, 0), &w = tensor_arg(call, 1);
  const char* const data[] = {"NCW", "NCHW", "NCDHW"};
  const char* const kernel[] = {"OIW", "OIHW", "OIDHW"};
  check_layout(call, a.data_layout, data[n - 1]);
  check_layout(call, a.kernel_layout, kernel[n - 1]);
  check_operands(call, x, w, n, a.groups);
  const DataType dtype = contraction_type(call, x.dtype, w.dtype, a.out_dtype);
  const ConvShape c = conv_shape(call, n);
  auto p = shape_of(x), q = shape_of(w);
  if (!p || !q) return make_type(std::nullopt, x.ndim, dtype);
  const std::string both = fmt::format("data {} and weight {}", show(*p), show(*q));
  if (differ((*p)[1], simplify((*q)[1] * PrimExpr(a.groups))))
    infer_error(call, fmt::format("{} with {} groups: the numbers of input channels differ", both, a.groups));
  if (auto o = tir::as_int((*q)[0]); o && *o % a.groups)
    infer_error(call,
                fmt::format("{}: {} output channels are not divisible by {} groups", both, *o, a.groups));
  Shape out{(*p)[0], (*q)[0]};
  for (size_t i = 0; i < n; ++i) {
    const PrimExpr window = ((*q)[i + 2] - 1) * PrimExpr(c.dilation[i]) + 1;
    const PrimExpr room = simplify((*p)[i + 2] + PrimExpr(c.pads[i] + c.pads[i + n]) - window);
    if (auto r = tir::as_int(room); r && *r < 0)
      infer_error(call,
                  fmt::format("{}: the kernel is larger than the padded image in spatial axis {}", both, i));
    out.push_back(simplify(tir::floordiv(room, PrimExpr(c.strides[i])) + 1));
  }
  return make_type(out, 0, dtype);
}

Tensors def_conv(const Call& call, const Tensors& in, size_t n) {
  const auto& a = attrs_of<ConvAttrs>(call);
  const TensorInfo out = output_info(call);
  const ConvShape c = conv_shape(call, n);
  const te::Tensor &x = in[0], &w = in[1];
  const DataType acc = accumulator_type(out.dtype);
  Shape before{PrimExpr(0), PrimExpr(0)}, after = before;
  for (size_t i = 0; i < n; ++i) {
    before.push_back(c.pads[i]);
    after.push_back(c.pads[i + n]);
  }
  const te::Tensor padded = pad_with(x, before, after, constant(x.dtype(), 0));
  const bool depthwise = tir::is_one(w.shape()[1]) && a.groups > 1;
  Array<tir::IterVar> ks;
  if (!depthwise) ks.push_back(te::reduce_axis(tir::range(PrimExpr(0), w.shape()[1]), "rc"));
  for (size_t i = 0; i < n; ++i)
    ks.push_back(te::reduce_axis(tir::range(PrimExpr(0), w.shape()[i + 2]), "r" + axis_name(n, i)));
  te::Tensor sum = te::compute(
      out.shape,
      [&](const Vars& v) {
        const PrimExpr channel = depthwise ? PrimExpr(0) : PrimExpr(ks[0]->var);
        Shape ix{v[0]}, iw{v[1], channel};
        if (a.groups == 1) {
          ix.push_back(channel);
        } else {
          const PrimExpr per_group = simplify(tir::floordiv(w.shape()[0], PrimExpr(a.groups)));
          ix.push_back(tir::floordiv(v[1], per_group) * w.shape()[1] + channel);
        }
        for (size_t i = 0; i < n; ++i) {
          const PrimExpr k = ks[i + !depthwise]->var;
          ix.push_back(v[i + 2] * PrimExpr(c.strides[i]) + k * PrimExpr(c.dilation[i]));
          iw.push_back(k);
        }
        return te::sum(tir::cast(acc, padded(ix)) * tir::cast(acc, w(iw)), ks);
      },
      short_name(call));
  return {cast_to(sum, out.dtype)};
}

// ---------------------------------------------------------------- transposed
struct TransposeShape {
  Ints strides, pads, output_padding, dilation;
};
TransposeShape transpose_shape(const Call& call, size_t n) {
  const auto& a = attrs_of<ConvTransposeAttrs>(call);
  TransposeShape c{per_axis(call, a.strides, n, 1, "strides"), paddings(call, a.padding, n),
                   per_axis(call, a.output_padding, n, 0, "output_padding"),
                   per_axis(call, a.dilation, n, 1, "dilation")};
  check_positive(call, c.strides, "stride");
  check_positive(call, c.dilation, "dilation");
  return c;
}

Type infer_transpose(const Call& call, size_t n) {
  const auto& a = attrs_of<ConvTransposeAttrs>(call);
  const auto &x = tensor_arg(call, 0), &w = tensor_arg(call, 1);
  check_operands(call, x, w, n, a.groups);
  const DataType dtype = contraction_type(call, x.dtype, w.dtype, a.out_dtype);
  const TransposeShape c = transpose_shape(call, n);
  auto p = shape_of(x), q = shape_of(w);
  if (!p || !q) return make_type(std::nullopt, x.ndim, dtype);
  if (differ((*p)[1], (*q)[0]))
    infer_error(
        call, fmt::format("data {} and weight {}: the numbers of input channels differ", show(*p), show(*q)),
        "the weight has the shape (inputs, outputs / groups, …)");
  if (auto channels = tir::as_int((*p)[1]); channels && *channels % a.groups)
    infer_error(call, fmt::format("{} input channels are not divisible by {} groups", *channels, a.groups));
  Shape out{(*p)[0], simplify((*q)[1] * PrimExpr(a.groups))};
  for (size_t i = 0; i < n; ++i) {
    const PrimExpr window = ((*q)[i + 2] - 1) * PrimExpr(c.dilation[i]) + 1;
    const PrimExpr size = simplify(((*p)[i + 2] - 1) * PrimExpr(c.strides[i]) + window +
                                   PrimExpr(c.output_padding[i]) - PrimExpr(c.pads[i] + c.pads[i + n]));
    if (auto s = tir::as_int(size); s && *s < 0)
      infer_error(call, fmt::format("data {} and weight {}: the size of spatial axis {} would be {}",
                                    show(*p), show(*q), i, *s));
    out.push_back(size);
  }
  return make_type(out, 0, dtype);
}

/// A gather: output o takes the kernel elements k for which (o + pad - k · dilation) is a multiple of the
/// stride.
Tensors def_transpose(const Call& call, const Tensors& in, size_t n) {
  const auto& a = attrs_of<ConvTransposeAttrs>(call);
  const TensorInfo out = output_info(call);
  const TransposeShape c = transpose_shape(call, n);
  const te::Tensor &x = in[0], &w = in[1];
  const DataType acc = accumulator_type(out.dtype);
  const PrimExpr inputs = simplify(tir::floordiv(x.shape()[1], PrimExpr(a.groups)));
  // Zeros between and around the elements, so that the sum itself has a plain access pattern. `before` is
  // what the window reaches over the first element; it is negative when padding cuts more than that.
  Shape spread_shape{x.shape()[0], x.shape()[1]};
  Shape before;
  for (size_t i = 0; i < n; ++i) {
    const PrimExpr reach = (w.shape()[i + 2] - 1) * PrimExpr(c.dilation[i]);
    before.push_back(simplify(reach - PrimExpr(c.pads[i])));
    spread_shape.push_back(simplify(out.shape[i + 2] + reach));
  }
  const te::Tensor spread = te::compute(
      spread_shape,
      [&](const Vars& v) {
        Shape at{v[0], v[1]};
        PrimExpr inside = tir::true_();
        for (size_t i = 0; i < n; ++i) {
          const PrimExpr shifted = v[i + 2] - before[i], stride = c.strides[i];
          at.push_back(tir::floordiv(shifted, stride));
          inside = tir::logical_and(inside, tir::ge(shifted, PrimExpr(0)));
          inside = tir::logical_and(inside, tir::lt(shifted, (x.shape()[i + 2] - 1) * stride + 1));
          if (c.strides[i] > 1)
            inside = tir::logical_and(inside, tir::eq(tir::floormod(shifted, stride), PrimExpr(0)));
        }
        return tir::if_then_else(inside, x(at), constant(x.dtype(), 0));
      },
      "pad_temp");
  Array<tir::IterVar> ks{te::reduce_axis(tir::range(PrimExpr(0), inputs), "rc")};
  for (size_t i = 0; i < n; ++i)
    ks.push_back(te::reduce_axis(tir::range(PrimExpr(0), w.shape()[i + 2]), "r" + axis_name(n, i)));
  te::Tensor sum = te::compute(
      out.shape,
      [&](const Vars& v) {
        PrimExpr channel = ks[0]->var, output = v[1];
        if (a.groups > 1) {
          channel = tir::floordiv(v[1], w.shape()[1]) * inputs + channel;
          output = tir::floormod(v[1], w.shape()[1]);
        }
        Shape ix{v[0], channel}, iw{channel, output};
        for (size_t i = 0; i < n; ++i) {
          const PrimExpr k = ks[i + 1]->var;
          ix.push_back(v[i + 2] + k * PrimExpr(c.dilation[i]));
          iw.push_back(w.shape()[i + 2] - 1 - k);
        }
        return te::sum(tir::cast(acc, spread(ix)) * tir::cast(acc, w(iw)), ks);
      },
      short_name(call));
  return {cast_to(sum, out.dtype)};
}

const bool registered = [] {
  for (size_t n = 1; n <= 3; ++n) {
    graph::register_op(fmt::format("nn.conv{}d", n),
                       fmt::format("Convolution (cross-correlation) over {} spatial axes.", n))
        .argument("data", "Tensor", "(batch, channels, …)")
        .argument("weight", "Tensor", "(output channels, input channels / groups, …)")
        .attrs<ConvAttrs>()
        .infer([n](const Call& c) { return infer_conv(c, n); })
        .fusion(FusionKind::out_element_wise_fusable)
        .set_attr<TensorDef>(kTensorDef,
                             [n](const Call& c, const Tensors& in) { return def_conv(c, in, n); });
    graph::register_op(fmt::format("nn.conv{}d_transpose", n),
                       fmt::format("Transposed convolution over {} spatial axes.", n))
        .argument("data", "Tensor", "(batch, channels, …)")
        .argument("weight", "Tensor", "(input channels, output channels / groups, …)")
        .attrs<ConvTransposeAttrs>()
        .infer([n](const Call& c) { return infer_transpose(c, n); })
        .fusion(FusionKind::out_element_wise_fusable)
        .set_attr<TensorDef>(kTensorDef,
                             [n](const Call& c, const Tensors& in) { return def_transpose(c, in, n); });
  }
  return true;
}();

}  // namespace
}  // namespace tenon::op
