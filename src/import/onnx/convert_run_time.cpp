// SPDX-License-Identifier: Apache-2.0
// Operators that move and create elements, with parameters that only the run knows: positions are computed
// and elements are picked there.
#include <limits>
#include <numbers>

#include "import/onnx/values.h"

namespace tenon::onnx {

using namespace op;
using N = NodeContext;
using Shape = Array<PrimExpr>;

namespace {
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
/// Widths of padding whose sums with a size stay in 64 bits; no memory holds that many elements.
constexpr int64_t kWidest = int64_t(1) << 61;

Index numbers(N& n, int64_t count, int64_t v) {
  return index_of(n, Shape(std::vector<PrimExpr>(size_t(count), v)));
}
Expr not_(N& n, const Expr& a) { return n.op("logical_not", {a}); }
/// Input i as one number.
Index index_scalar(N& n, size_t i) {
  const Index v = index_input(n, i);
  if (v.length() != 1) n.malformed(fmt::format("input {} of {} must be one number", i, n.op_type()));
  return v.shaped({});
}
}  // namespace

Values reshape_at_run_time(N& n) {
  Index want = index_input(n, 1);
  const auto [x, shape] = with_shape(n, 0);
  const Index have = index_of(n, shape);
  const int64_t count = want.length(), rank = int64_t(shape.size());
  if (n.attr_int("allowzero", 0) == 0) {
    Shape copied;
    for (int64_t i = 0; i < count; ++i) copied.push_back(i < rank ? shape[size_t(i)] : PrimExpr(0));
    want = where(equal(want, 0), index_of(n, copied), want);
  }
  const Expr open = equal(want, -1);  // other sizes below 0 end the run
  const Index rest = floor_div(product(have), product(where(open, numbers(n, count, 1), want)));
  return {n.reshape(x, sizes_of(where(open, rest, want), "size"))};
}

Values squeeze_at_run_time(N& n) {
  const auto [x, shape] = with_shape(n, 0);
  const int64_t rank = int64_t(shape.size());
  const RunTimeAxes axes = run_time_axes(index_input(n, 1), rank);
  if (axes.count > rank) n.malformed(fmt::format("Squeeze takes {} axes of {} away", axes.count, rank));
  const Index kept = axes.order().range(0, rank - axes.count);
  return {n.reshape(x, sizes_of({n, pick(n, index_of(n, shape), kept, 0)}, "size"))};
}
Values unsqueeze_at_run_time(N& n) {
  const auto [x, shape] = with_shape(n, 0);
  const Index given = index_input(n, 1);
  const int64_t rank = int64_t(shape.size()) + given.length();
  const RunTimeAxes axes = run_time_axes(given, rank);
  if (shape.empty()) return {n.reshape(x, Shape(std::vector<PrimExpr>(size_t(rank), PrimExpr(1))))};
  const Index at = running_sum(numbers(n, rank, 1) - axes.marks) - 1;
  const Index sizes(n, pick(n, index_of(n, shape), max(at, 0), 0));
  return {n.reshape(x, sizes_of(where(equal(axes.marks, 1), numbers(n, rank, 1), sizes), "size"))};
}

Values slice_at_run_time(N& n) {
  auto [x, shape] = with_shape(n, 0);
  const int64_t rank = int64_t(shape.size());
  Index begin = index_input(n, 1), end = index_input(n, 2);
  const int64_t count = begin.length();
  Index step = n.has(4) ? index_input(n, 4) : numbers(n, count, 1);
  std::vector<int64_t> axes;
  Index extent = index_of(n, shape);
  if (known_numbers(n, 3)) {
    if (n.has(3)) axes = n.const_ints(3, "axes");
    for (int64_t i = 0; !n.has(3) && i < count; ++i) axes.push_back(i);
    Shape of;
    for (int64_t& a : axes) a = n.axis(a, rank), of.push_back(shape[size_t(a)]);
    extent = index_of(n, of);
  } else {
    const RunTimeAxes at = run_time_axes(index_input(n, 3), rank);
    begin = at.spread(begin, numbers(n, rank, 0));
    end = at.spread(end, extent);
    step = at.spread(step, numbers(n, rank, 1));
    for (int64_t i = 0; i < rank; ++i) axes.push_back(i);
  }
  const int64_t cut = int64_t(axes.size());
  if (begin.length() != cut || end.length() != cut || step.length() != cut)
    n.malformed("the inputs of Slice have different lengths");
  const Expr backward = less(step, 0);
  const Index zero = numbers(n, cut, 0), first = where(backward, zero - 1, zero),
              last = where(backward, extent - 1, extent);
  auto inside = [&](const Index& v) { return max(min(where(less(v, 0), v + extent, v), last), first); };
  // Backward, a start in front of the axis is its first element, where Python takes none.
  begin = max(inside(begin), min(zero, last)), end = inside(end);
  step = require(step, n.op("all", {not_(n, equal(step, 0))}), "a step of Slice is zero");
  const Index sizes = max(zero - floor_div(begin - end, step), 0);
  const Shape out = sizes_of(sizes, "size");
  for (int64_t i = 0; i < cut; ++i)
    x = pick(n, x, iota(n, out[size_t(i)]) * step[i] + begin[i], axes[size_t(i)]);
  return {x};
}

Values split_at_run_time(N& n) {
  const auto [x, shape] = with_shape(n, 0);
  const int64_t axis = n.axis(n.attr_int("axis", 0), int64_t(shape.size()));
  Index parts = index_input(n, 1);
  const int64_t count = parts.length();
  if (count != n.node.output_size())
    n.malformed(fmt::format("Split has {} outputs and {} sizes", n.node.output_size(), count));
  const Index extent = index_of(n, {shape[size_t(axis)]})[0];
  parts = require(parts, equal(sum(parts, 0), extent), "the sizes of Split do not add up to its axis");
  const Index begin = running_sum(parts) - parts;
  const Shape sizes = sizes_of(parts, "part");
  Values out(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    if (n.wants_output(size_t(i))) out[size_t(i)] = pick(n, x, iota(n, sizes[size_t(i)]) + begin[i], axis);
  return out;
}

Values expand_at_run_time(N& n) {
  auto [x, shape] = with_shape(n, 0);
  const Index want = index_input(n, 1);
  const int64_t count = want.length(), have = int64_t(shape.size()), rank = std::max(count, have);
  Shape from(std::vector<PrimExpr>(size_t(rank - have), PrimExpr(1)));
  for (const PrimExpr& d : shape) from.push_back(d);
  Shape out;
  const Index extent = index_of(n, from);
  for (int64_t i = 0; i < rank; ++i) {
    const PrimExpr& d = from[size_t(i)];
    const auto known = tir::as_int(d);
    if (i < rank - count) {
      out.push_back(d);
      continue;
    }
    const Index asked = want[i - (rank - count)], e = extent[i];
    const Expr fits =
        n.op("logical_or", {equal(e, asked), n.op("logical_or", {equal(e, 1), equal(asked, 1)})});
    const Index size = require(where(equal(e, 1), asked, e).shaped({PrimExpr(1)}), fits,
                               "Expand cannot stretch a size that is not 1 to another");
    out.push_back(known && *known != 1 ? d : sizes_of(size, "size")[0]);
  }
  x = n.reshape(x, from);
  for (int64_t i = 0; i < rank; ++i)  // a symbolic size may be 1
    if (!tir::as_int(from[size_t(i)])) x = stretch(n, x, i, out[size_t(i)]);
  return {n.op("broadcast_to", {x, graph::shape_expr(out)})};
}

Values tile_at_run_time(N& n) {
  auto [x, shape] = with_shape(n, 0);
  const int64_t rank = int64_t(shape.size());
  const Index extent = index_of(n, shape);
  Index repeats = index_input(n, 1);
  if (repeats.length() != rank)
    n.malformed(fmt::format("Tile needs {} repeats, {} are given", rank, repeats.length()));
  const Expr beyond = less(floor_div(numbers(n, rank, kMost), max(extent, 1)), repeats);
  repeats = require(repeats, n.op("all", {not_(n, n.op("logical_or", {less(repeats, 0), beyond}))}),
                    "a repeat of Tile is negative, or a size does not fit in 64 bits");
  const Shape out = sizes_of(repeats * extent, "size");
  for (int64_t i = 0; i < rank; ++i) x = pick(n, x, floor_mod(iota(n, out[size_t(i)]), extent[i]), i);
  return {x};
}

Values pad_at_run_time(N& n, const std::string& mode) {
  auto [x, shape] = with_shape(n, 0);
  const int64_t rank = int64_t(shape.size());
  const DataType t = n.dtype(0);
  const Index all = index_of(n, shape);
  Index pads = index_input(n, 1);
  const int64_t half = pads.length() / 2;
  pads = require(pads,
                 n.op("all", {n.op("logical_and",
                                   {less(pads, kWidest), less(numbers(n, pads.length(), -kWidest), pads)})}),
                 "a width of Pad is too large");
  if (pads.length() % 2 != 0) n.malformed("'pads' of Pad has an odd number of widths");
  Index before = pads.range(0, half), after = pads.range(half, 2 * half);
  std::vector<int64_t> axes;
  if (known_numbers(n, 3)) {
    if (n.has(3)) axes = n.const_ints(3, "axes");
    for (int64_t i = 0; !n.has(3) && i < rank; ++i) axes.push_back(i);
    for (int64_t& a : axes) a = n.axis(a, rank);
  } else {
    const RunTimeAxes at = run_time_axes(index_input(n, 3), rank);
    before = at.spread(before, numbers(n, rank, 0)), after = at.spread(after, numbers(n, rank, 0));
    for (int64_t i = 0; i < rank; ++i) axes.push_back(i);
  }
  if (before.length() != int64_t(axes.size()))
    n.malformed(fmt::format("Pad needs {} widths, {} are given", 2 * axes.size(), 2 * half));
  const Expr value = scalar_input(n, 2, t, 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = axes[i], k = int64_t(i);
    const Index d = all[axis];
    const PrimExpr size = sizes_of((before[k] + d + after[k]).shaped({PrimExpr(1)}), "size")[0];
    Index at = iota(n, size) - before[k];
    if (mode == "constant") {
      x = pick_or(n, x, at, d, axis, value);
      continue;
    }
    // Negative widths crop first; the others pad what is left.
    const Index first = max(before[k] * -1, 0), left = d - first - max(after[k] * -1, 0);
    const Expr some = n.op("logical_or", {less(index_of(n, {size})[0], 1), not_(n, less(left, 1))});
    at = at - require(first, some, fmt::format("axis {} of Pad has no elements to pad with", axis));
    if (mode == "wrap") at = floor_mod(at, left);
    if (mode == "reflect") {
      const Index period = max((left - 1) * 2, 1);
      at = floor_mod(at, period);
      at = min(at, period - at);
    }
    x = pick(n, x, max(min(at, left - 1), 0) + first, axis);
  }
  return {x};
}

Values one_hot_at_run_time(N& n) {
  const int64_t rank = n.rank(0) + 1, axis = n.axis(n.attr_int("axis", -1), rank);
  const Expr depth_value = n.rank(1) == 0 ? n.reshape(n.in(1), {PrimExpr(1)}) : n.in(1);
  const Index depth(n, n.cast(depth_value, i64));
  if (depth.length() != 1) n.malformed("the depth of OneHot must be one number");
  const PrimExpr size = sizes_of(depth, "depth")[0];
  Index at(n, n.cast(n.in(0), i64));
  at = where(less(at, 0), at + depth[0], at);
  const Expr places = n.op("expand_dims", {at}, make_attrs<AxesAttrs>(Array<int64_t>{axis}));
  const Expr here = equal(Index(n, places), iota(n, size).shaped(beside(size, axis, rank)));
  const Expr values = n.checked(n.in(2), {PrimExpr(2)});
  auto value = [&](int64_t i) {
    return n.reshape(
        n.op("strided_slice", {values},
             make_attrs<StridedSliceAttrs>(Array<int64_t>{0}, Shape{i}, Shape{i + 1}, Array<int64_t>{1})),
        {});
  };
  return {n.op("where", {here, value(1), value(0)})};
}

Values trilu_at_run_time(N& n) {
  const auto [x, shape] = with_shape(n, 0);
  const size_t rank = shape.size();
  if (rank < 2) n.malformed("Trilu takes matrices");
  const PrimExpr rows = shape[rank - 2], columns = shape[rank - 1];
  const Index row = iota(n, rows).shaped({rows, PrimExpr(1)}) + index_scalar(n, 1);
  const Index column = iota(n, columns).shaped({PrimExpr(1), columns});
  const Expr kept = n.attr_int("upper", 1) != 0 ? not_(n, less(column, row)) : not_(n, less(row, column));
  return {n.op("where", {kept, x, n.scalar(0, n.dtype(0))})};
}

Values crop_pad_at_run_time(N& n) {
  auto [x, shape] = with_shape(n, 0);
  const int64_t rank = int64_t(shape.size());
  const Index want = index_input(n, 1);
  std::vector<int64_t> axes = n.attr_ints("axes");
  for (int64_t i = 0; !n.has_attr("axes") && i < rank; ++i) axes.push_back(i);
  if (want.length() != int64_t(axes.size()))
    n.malformed(fmt::format("CenterCropPad needs {} sizes, {} are given", axes.size(), want.length()));
  const Shape out = sizes_of(want, "size");
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = n.axis(axes[i], rank);
    const Index have = index_of(n, {shape[size_t(axis)]})[0], asked = want[int64_t(i)];
    const Index cut = floor_div(have - asked, 2), added = floor_div(asked - have, 2);
    const Index first = where(less(asked, have), cut, added * -1);
    x = pick_or(n, x, iota(n, out[i]) + first, have, axis, n.scalar(0, n.dtype(0)));
  }
  return {x};
}

Values window_at_run_time(N& n) {
  const DataType t = element_type(int(n.attr_int("output_datatype", 1)));
  if (t.is_void()) n.unsupported(fmt::format("{} of this type is not supported", n.op_type()));
  const Index size = index_input(n, 0);
  const Index steps = n.attr_int("periodic", 1) != 0 ? size[0] : size[0] - 1;
  const Expr at = n.cast(iota(n, sizes_of(size, "size")[0]), f64);
  auto scaled = [&](const Expr& e, double by) { return n.op("multiply", {e, n.scalar(by, f64)}); };
  const Expr angle = n.op("divide", {scaled(at, 2 * std::numbers::pi), n.cast(steps, f64)});
  auto cosine = [&](double by, int64_t times) {
    return scaled(n.op("cos", {scaled(angle, double(times))}), by);
  };
  const bool hann = n.op_type() == "HannWindow", hamming = n.op_type() == "HammingWindow";
  Expr w = hann      ? n.op("add", {cosine(-0.5, 1), n.scalar(0.5, f64)})
           : hamming ? n.op("add", {cosine(-21.0 / 46, 1), n.scalar(25.0 / 46, f64)})
                     : n.op("add", {n.op("add", {cosine(-0.5, 1), n.scalar(0.42, f64)}), cosine(0.08, 2)});
  return {n.cast(w, t)};
}

}  // namespace tenon::onnx
