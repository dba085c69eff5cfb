// SPDX-License-Identifier: Apache-2.0
// Converters: joining, cutting and repeating.
#include <algorithm>
#include <tuple>

#include "analysis/analyzer.h"
#include "import/onnx/values.h"

namespace tenon::onnx {
namespace {

using namespace op;
using N = NodeContext;
using R = RegisterConverter;
using Shape = Array<PrimExpr>;

Values concat(N& n) {
  Array<Expr> parts;
  for (size_t i = 0; i < n.inputs(); ++i) parts.push_back(n.in(i));
  if (parts.empty()) n.malformed("Concat needs at least one input");
  const int64_t axis = n.axis(n.need_int("axis"), n.rank(0));
  if (parts.size() == 1) return {parts[0]};
  return {n.op("concat", {n.emit(tuple(parts))}, make_attrs<AxisAttrs>(axis))};
}
const R r6("Concat", {1, 4, 11, 13}, concat);

Values split(N& n) {
  if (n.since >= 13 && !known_numbers(n, 1)) return split_at_run_time(n);
  Expr x = n.in(0);
  const int64_t axis = n.axis(n.attr_int("axis", 0), n.rank(0)), parts = n.node.output_size();
  std::vector<int64_t> sizes;
  if (n.since < 13)
    sizes = n.attr_ints("split");
  else if (n.has(1))
    sizes = n.const_ints(1, "split");
  const auto shape = n.shape(0);
  const auto total = shape ? tir::as_int((*shape)[size_t(axis)]) : std::nullopt;
  SplitAttrs a;
  ObjectRef at;
  if (sizes.empty()) {
    const int64_t sections = n.attr_int("num_outputs", parts);
    if (sections != parts || parts < 1)
      n.malformed(fmt::format("Split has {} outputs and num_outputs={}", parts, sections));
    if (total && *total % parts != 0 && n.since < 18)
      n.malformed(fmt::format("Split of {} elements into {} equal parts is not possible", *total, parts));
    if (shape && n.since < 18)
      n.require_equal(tir::floormod((*shape)[size_t(axis)], PrimExpr(parts)), PrimExpr(0));
    at = make_attrs<SplitAttrs>(axis, sections, Array<int64_t>());
  } else {
    if (int64_t(sizes.size()) != parts)
      n.malformed(fmt::format("Split has {} outputs and {} sizes", parts, sizes.size()));
    Array<int64_t> indices;
    int64_t sum = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] < 0 || __builtin_add_overflow(sum, sizes[i], &sum))
        n.malformed(fmt::format("Split has the impossible size {}", sizes[i]));
      if (i + 1 < sizes.size()) indices.push_back(sum);
    }
    if (total && sum != *total)
      n.malformed(fmt::format("the sizes of Split add up to {}, the axis has {}", sum, *total));
    if (shape) n.require_equal((*shape)[size_t(axis)], PrimExpr(sum));
    if (parts == 1) return {x};
    at = make_attrs<SplitAttrs>(axis, int64_t(0), indices);
  }
  Expr t = n.op("split", {x}, at);
  Values out;
  for (int64_t i = 0; i < parts; ++i)
    out.push_back(n.wants_output(size_t(i)) ? Value(n.item(t, i)) : Value());
  return out;
}
const R r7("Split", {1, 2, 11, 13, 18}, split,
           {.operations = 0, .values = {1}, .note = "sizes that do not fit the axis end the run (T0501)"});

/// Steps beyond this leave the first element of any axis, as this one does; sums of it and of sizes stay in
/// 64 bits.
constexpr int64_t kLongestStep = int64_t(1) << 40;
Values slice(N& n) {
  if (n.since >= 10 &&
      !(known_sizes(n, 1) && known_sizes(n, 2) && known_numbers(n, 3) && known_numbers(n, 4)))
    return slice_at_run_time(n);
  const int64_t r = n.rank(0);
  std::vector<int64_t> axes, steps;
  Shape begin, end;
  if (n.since < 10) {
    for (int64_t v : n.need_ints("starts")) begin.push_back(v);
    for (int64_t v : n.need_ints("ends")) end.push_back(v);
    axes = n.attr_ints("axes");
  } else {
    begin = n.sizes(1, "starts"), end = n.sizes(2, "ends");
    if (n.has(3)) axes = n.const_ints(3, "axes");
    if (n.has(4)) steps = n.const_ints(4, "steps");
  }
  if (axes.empty())
    for (size_t i = 0; i < begin.size(); ++i) axes.push_back(int64_t(i));
  if (steps.empty()) steps.assign(axes.size(), 1);
  if (begin.size() != axes.size() || end.size() != axes.size() || steps.size() != axes.size())
    n.malformed("the inputs of Slice have different lengths");
  for (int64_t& a : axes) a = n.axis(a, r);
  for (int64_t& s : steps) {
    if (s == 0) n.malformed("a step of Slice is zero");
    s = std::clamp(s, -kLongestStep, kLongestStep);
  }
  const auto shape = graph::known_shape(n.in(0));
  for (size_t i = 0; shape && i < axes.size(); ++i) {
    // Backward, a start in front of the axis is its first element, where Python takes none.
    const PrimExpr &from = begin[i], size = (*shape)[size_t(axes[i])];
    const auto known = tir::as_int(from);
    if (steps[i] < 0 && !(known && *known >= -1)) begin.set(i, simplify(tir::max(from, PrimExpr(0) - size)));
  }
  return {of_sizes(
      n, n.op("strided_slice", {n.in(0)},
              make_attrs<StridedSliceAttrs>(Array<int64_t>(axes), begin, end, Array<int64_t>(steps))))};
}
const R r8("Slice", {1, 10, 11, 13}, slice, {.operations = 0, .values = {1, 2, 3, 4}});

Values expand(N& n) {
  if (!known_sizes(n, 1)) return expand_at_run_time(n);
  Shape want = n.sizes(1, "shape"), have = n.known_shape(0), out;
  const size_t rank = std::max(want.size(), have.size());
  Expr x = n.in(0);
  for (size_t i = 0; i < rank; ++i) {
    const size_t from_end = rank - i;
    PrimExpr w = from_end <= want.size() ? want[want.size() - from_end] : PrimExpr(1);
    PrimExpr h = from_end <= have.size() ? have[have.size() - from_end] : PrimExpr(1);
    if (auto v = tir::as_int(w); v && *v < 0)
      n.malformed(fmt::format("'shape' of Expand has the negative size {}", *v));
    const auto known = tir::as_int(h), asked = tir::as_int(w);
    if (known && asked && *known != *asked && *known != 1 && *asked != 1)
      n.malformed(fmt::format("Expand cannot stretch {} to {}", *known, *asked));
    if (const auto sizes = n.broadcast_sizes(h, w)) {
      n.require_equal(w, sizes->second);
      std::tie(h, w) = *sizes;
    } else {
      const PrimExpr size = broadcast_size(n, h, w);
      if (from_end <= have.size()) x = stretch(n, x, int64_t(have.size() - from_end), size);
      h = w = size;
    }
    out.push_back(tir::is_one(w) ? h : w);
    if (from_end <= have.size()) have.set(have.size() - from_end, h);
  }
  return {n.op("broadcast_to", {n.checked(x, have), graph::shape_expr(out)})};
}
const R r10("Expand", {8, 13}, expand, {.operations = 0, .values = {1}});

/// Copies of x along one axis, as many as a size says: an axis of that extent in front of it, joined with it.
Expr repeated(N& n, const Expr& x, size_t axis, const PrimExpr& times) {
  const Shape have = *graph::known_shape(x);
  std::vector<PrimExpr> wide(have.begin(), have.end());
  Shape out = have;
  out.set(axis, simplify(have[axis] * times));
  wide.insert(wide.begin() + ptrdiff_t(axis), PrimExpr(1));
  const Expr apart = n.reshape(x, Shape(wide));
  wide[axis] = times;
  return n.reshape(n.op("broadcast_to", {apart, graph::shape_expr(Shape(wide))}), out);
}

Values tile(N& n) {
  if (!known_sizes(n, 1)) return tile_at_run_time(n);
  const int64_t r = n.rank(0);
  const Shape repeats = n.sizes(1, "repeats");
  if (int64_t(repeats.size()) != r)
    n.malformed(fmt::format("Tile needs {} repeats, {} are given", r, repeats.size()));
  std::vector<int64_t> known;
  for (const PrimExpr& e : repeats) {
    known.push_back(tir::as_int(e).value_or(1));
    if (known.back() < 0) n.malformed(fmt::format("Tile has the negative repeat {}", known.back()));
  }
  const bool symbolic = !known_numbers(n, 1);
  if (symbolic && !graph::known_shape(n.in(0))) return tile_at_run_time(n);
  Expr x = n.op("tile", {n.in(0)}, make_attrs<TileAttrs>(Array<int64_t>(known)));
  for (size_t i = 0; symbolic && i < repeats.size(); ++i)
    if (!tir::as_int(repeats[i])) x = repeated(n, x, i, repeats[i]);
  return {x};
}
const R r11("Tile", {1, 6, 13}, tile, {.operations = 0, .values = {1, 2}});

}  // namespace
}  // namespace tenon::onnx
