// SPDX-License-Identifier: Apache-2.0
// Convolutions in other forms than on plain or blocked channels: in any layout, and as products.
#include <algorithm>

#include "op/conv.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;

/// Axes that windows move along are whole.
bool whole_windows(const Layout& layout) {
  return std::ranges::all_of(layout.axes,
                             [](const Layout::Axis& a) { return a.block == 0 || a.letter == 'C'; });
}

}  // namespace

std::optional<Tensors> define_conv_anywhere(const Call& call, const Tensors& in, const LayoutNames& names,
                                            size_t n) {
  const Layout data = *Layout::parse(names.data), kernel = *Layout::parse(names.kernel),
               result = *Layout::parse(names.out), plain = data_layout(n), plain_kernel = kernel_layout(n);
  const auto& a = attrs_of<ConvAttrs>(call);
  const te::Tensor &x = in[0], &w = in[1];
  const PrimExpr outputs = simplify(kernel.size('O', w.shape())),
                 inputs = simplify(kernel.size('I', w.shape()));
  const int64_t block = result.block('C');
  if (!whole_windows(data) || !whole_windows(result) ||
      (block != 1 && !tir::is_zero(simplify(tir::floormod(outputs, PrimExpr(block))))))
    return std::nullopt;
  const TensorInfo out = output_info(call);
  const ConvShape c = conv_shape(a, n);
  const DataType acc = accumulator_type(out.dtype);
  Shape before;
  before.resize(x.ndim(), PrimExpr(0));
  Shape after = before;
  Array<tir::IterVar> ks;
  const bool depthwise = a.groups > 1 && tir::is_one(inputs);
  if (!depthwise) ks.push_back(te::reduce_axis(tir::range(PrimExpr(0), inputs), "rc"));
  for (size_t i = 0; i < n; ++i) {
    const char letter = plain.axes[i + 2].letter;
    const auto at = size_t(std::ranges::find(data.axes, Layout::Axis{letter}) - data.axes.begin());
    before.set(at, PrimExpr(c.pads[i]));
    after.set(at, PrimExpr(c.pads[i + n]));
    ks.push_back(te::reduce_axis(tir::range(PrimExpr(0), simplify(kernel.size(letter, w.shape()))),
                                 "r" + spatial_axis_name(n, i)));
  }
  const te::Tensor padded = padded_data(in, before, after);
  const PrimExpr per_group = simplify(tir::floordiv(outputs, PrimExpr(a.groups)));
  te::Tensor sum = te::compute(
      out.shape,
      [&](const Vars& v) {
        const Shape at = plain.index(result, indices(v));
        const PrimExpr channel = depthwise ? PrimExpr(0) : PrimExpr(ks[0]->var);
        const PrimExpr group = a.groups == 1 ? PrimExpr(0) : tir::floordiv(at[1], per_group);
        Shape ix{at[0], a.groups == 1 ? channel : group * inputs + channel}, iw{at[1], channel};
        for (size_t i = 0; i < n; ++i) {
          const PrimExpr k = ks[i + !depthwise]->var;
          ix.push_back(at[i + 2] * PrimExpr(c.strides[i]) + k * PrimExpr(c.dilation[i]));
          iw.push_back(k);
        }
        return te::sum(
            tir::cast(acc, padded(data.index(plain, ix))) * tir::cast(acc, w(kernel.index(plain_kernel, iw))),
            ks);
      },
      short_name(call));
  return Tensors{cast_to(sum, out.dtype)};
}

Tensors define_conv_as_product(const Call& call, const Tensors& in, size_t n) {
  const TensorInfo out = output_info(call);
  const ConvShape c = conv_shape(attrs_of<ConvAttrs>(call), n);
  const te::Tensor &x = in[0], &w = in[1];
  const DataType acc = accumulator_type(out.dtype);
  Shape before{PrimExpr(0), PrimExpr(0)}, after = before;
  for (size_t i = 0; i < n; ++i) {
    before.push_back(PrimExpr(c.pads[i]));
    after.push_back(PrimExpr(c.pads[i + n]));
  }
  const te::Tensor padded = padded_data(in, before, after);
  // Rows of the matrix: channel and place in the window. Columns: places of the result.
  PrimExpr window = 1, places = 1;
  for (size_t i = 0; i < n; ++i) {
    window = window * w.shape()[i + 2];
    places = places * out.shape[i + 2];
  }
  window = simplify(window), places = simplify(places);
  const Shape kernel(w.shape().begin() + 2, w.shape().end()), image(out.shape.begin() + 2, out.shape.end());
  const te::Tensor columns = te::compute(
      {x.shape()[0], simplify(x.shape()[1] * window), places},
      [&](const Vars& v) {
        const Shape k = unflatten_index(tir::floormod(v[1], window), kernel),
                    o = unflatten_index(v[2], image);
        Shape at{v[0], tir::floordiv(v[1], window)};
        for (size_t i = 0; i < n; ++i)
          at.push_back(o[i] * PrimExpr(c.strides[i]) + k[i] * PrimExpr(c.dilation[i]));
        return padded(at);
      },
      "columns");
  const te::Tensor rows = reshape_to(w, {w.shape()[0], simplify(x.shape()[1] * window)}, "rows");
  const tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), columns.shape()[1]), "k");
  const te::Tensor product = te::compute(
      {x.shape()[0], w.shape()[0], places},
      [&](const Vars& v) {
        return te::sum(tir::cast(acc, rows({v[1], k->var})) * tir::cast(acc, columns({v[0], k->var, v[2]})),
                       {k});
      },
      short_name(call) + "_product");
  return {cast_to(reshape_to(product, out.shape, short_name(call)), out.dtype)};
}

}  // namespace tenon::op
