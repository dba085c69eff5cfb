// SPDX-License-Identifier: Apache-2.0
// Convolutions in other forms than on plain or blocked channels: in any layout, as products, and depthwise
// ones over rows by turns.
#include <algorithm>
#include <numeric>

#include "op/conv.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;

/// Axes that windows move along are whole.
bool whole_windows(const Layout& layout) {
  return std::ranges::all_of(layout.axes,
                             [](const Layout::Axis& a) { return a.block == 0 || a.letter == 'C'; });
}

/// Rows of the padded data by turns, as many as a weight has taps side by side: of each row that a window
/// begins or goes on at, and of those behind it.
struct RowsByTurns {
  int64_t taps, stride, dilation;
  int64_t step() const { return std::gcd(stride, taps * dilation); }  ///< rows from one to the next
};
te::Tensor rows_by_turns(const Tensors& in, const RowsByTurns& rows, const ConvShape& c,
                         const PrimExpr& windows, const PrimExpr& height) {
  const te::Tensor& x = in[0];
  const size_t n = x.ndim() - 3;
  const PrimExpr value = in.size() > 2 ? in[2](Shape()) : constant(x.dtype(), 0);
  Shape shape = x.shape();
  shape.set(2, simplify((windows - 1) * PrimExpr(rows.stride / rows.step()) +
                        (height - 1) * PrimExpr(rows.taps * rows.dilation / rows.step()) + 1));
  for (size_t i = 1; i < n; ++i) shape.set(i + 2, shape[i + 2] + PrimExpr(c.pads[i] + c.pads[i + n]));
  shape.set(n + 2, simplify(shape[n + 2] * PrimExpr(rows.taps)));
  return te::compute(
      shape,
      [&](const Vars& v) {
        const PrimExpr turn = tir::floormod(v.back(), PrimExpr(rows.taps));
        Shape at{v[0], v[1]};
        PrimExpr inside = tir::true_();
        for (size_t i = 0; i < n; ++i) {
          const PrimExpr padded =
              i == 0 ? v[2] * PrimExpr(rows.step()) + turn * PrimExpr(rows.dilation) : PrimExpr(v[i + 2]);
          at.push_back(padded - PrimExpr(c.pads[i]));
          if (c.pads[i] > 0) inside = tir::logical_and(inside, tir::ge(padded, PrimExpr(c.pads[i])));
          if (c.pads[i + n] > 0)
            inside = tir::logical_and(inside, tir::lt(padded, x.shape()[i + 2] + PrimExpr(c.pads[i])));
        }
        at.push_back(tir::floordiv(v.back(), PrimExpr(rows.taps)));
        return tir::if_then_else(inside, x(at), value);
      },
      "rows_by_turns");
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

Tensors define_conv_by_turns(const Call& call, const Tensors& in, size_t n, int64_t taps) {
  const TensorInfo out = output_info(call);
  const ConvShape c = conv_shape(attrs_of<ConvAttrs>(call), n);
  const te::Tensor& w = in[1];
  const RowsByTurns rows{taps, c.strides[0], c.dilation[0]};
  const te::Tensor x = rows_by_turns(in, rows, c, out.shape[2], w.shape()[2]);
  const DataType acc = accumulator_type(out.dtype);
  Array<tir::IterVar> ks;
  for (size_t i = 0; i < n; ++i)
    ks.push_back(te::reduce_axis(tir::range(PrimExpr(0), w.shape()[i + 2]), "r" + spatial_axis_name(n, i)));
  ks.push_back(te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(rows.taps)), "rt"));
  const te::Tensor sum = te::compute(
      out.shape,
      [&](const Vars& v) {
        Shape ix{v[0], v[1]}, iw{v[1], PrimExpr(0)};
        for (size_t i = 0; i < n; ++i) {
          const int64_t stride = i == 0 ? rows.stride / rows.step() : c.strides[i],
                        dilation = i == 0 ? rows.taps * rows.dilation / rows.step() : c.dilation[i];
          ix.push_back(v[i + 2] * PrimExpr(stride) + ks[i]->var * PrimExpr(dilation));
          iw.push_back(ks[i]->var);
        }
        for (Shape* at : {&ix, &iw}) at->push_back(v.back() * PrimExpr(rows.taps) + ks[n]->var);
        return te::sum(tir::cast(acc, x(ix)) * tir::cast(acc, w(iw)), ks);
      },
      short_name(call));
  return {cast_to(sum, out.dtype)};
}

}  // namespace tenon::op
