// SPDX-License-Identifier: Apache-2.0
// Converters: operators that move, cut, join, index and create tensors.
#include <algorithm>
#include <tuple>

#include "analysis/analyzer.h"
#include "analysis/linear.h"
#include "import/onnx/values.h"
#include "ir/structural.h"

namespace tenon::onnx {
namespace {

using namespace op;
using N = NodeContext;
using R = RegisterConverter;
using Shape = Array<PrimExpr>;

Array<int64_t> list(const std::vector<int64_t>& v) { return Array<int64_t>(v); }

/// Replaces the -1 of a reshape when the other sizes divide the number of elements as polynomials of symbolic
/// sizes.
void settle_rest(const Shape& from, Shape& to) {
  PrimExpr all = 1, others = 1;
  size_t at = to.size();
  for (const PrimExpr& d : from) all = all * d;
  for (size_t i = 0; i < to.size(); ++i) {
    const auto v = tir::as_int(to[i]);
    if (v && *v == -1)
      at = i;
    else
      others = others * to[i];
  }
  Analyzer analyzer;
  if (at == to.size() || tir::is_zero(analyzer.simplify(all))) return;
  if (const auto rest = exact_quotient(all, others, analyzer)) to.set(at, analyzer.simplify(*rest));
}

/// Sizes that the run finds to be 0 copy the dimension, too, as written ones do. Where all sizes are computed
/// and none is -1, those of an empty tensor stay what they are: they are what the exporter's tensor had.
void copy_where_zero(const Shape& have, Shape& to) {
  for (size_t i = 0; i < std::min(have.size(), to.size()); ++i) {
    const auto* symbol = to[i].as<tir::Var>();
    if (!symbol) continue;
    const PrimExpr then = simplify(tir::substitute(have[i], {{symbol, PrimExpr(0)}}));
    if (!tir::is_zero(then)) to.set(i, tir::select(tir::eq(to[i], PrimExpr(0)), have[i], to[i]));
  }
}

/// Exporters say a size of the data in other words, such as (n - 1) // 8 + 1 for (n + 7) // 8, which it is
/// unless n is 0. One expression for both lets kernels see that the axis stays; that they are equal is
/// checked when the model runs.
void take_sizes_of(N& n, const Shape& have, Shape& out) {
  Analyzer analyzer;
  for (const Shape& shape : {have, out})
    for (const PrimExpr& size : shape)
      for (const tir::VarRef& v : tir::free_vars(size)) analyzer.assume_size(v, 1);
  for (size_t i = 0; i < out.size(); ++i) {
    if (tir::as_int(out[i]) || out[i].is<tir::Var>()) continue;
    for (const PrimExpr& size : have) {
      if (tir::as_int(size) || !analyzer.can_prove_equal(out[i], size)) continue;
      n.require_equal(out[i], size);
      out.set(i, size);
      break;
    }
  }
}

Values reshape(N& n) {
  if (!known_sizes(n, 1)) return reshape_at_run_time(n);
  Shape want = n.sizes(1, "shape");
  Analyzer analyzer;  // a computed size that is negative stands for the rest, as a written one does
  for (const PrimExpr& size : want)
    if (!tir::as_int(size) && analyzer.can_prove_lt(size, 0)) return reshape_at_run_time(n);
  const bool allowzero = n.attr_int("allowzero", 0) != 0;
  auto have = n.shape(0);
  Shape out;
  int rest = 0;
  bool copies = false;
  for (size_t i = 0; i < want.size(); ++i) {
    const auto v = tir::as_int(want[i]);
    if (v && *v < -1) n.malformed(fmt::format("the size {} in 'shape' of Reshape is negative", *v));
    rest += v && *v == -1;
    if (v && *v == 0 && !allowzero) {
      if (have && i >= have->size())
        n.malformed(fmt::format("'shape' of Reshape copies dimension {}, which the input does not have", i));
      if (!have) n.not_known("Reshape of a tensor whose shape is not known at import is not supported");
      out.push_back((*have)[i]);
      copies = true;
    } else {
      out.push_back(want[i]);
    }
  }
  if (rest > 1) n.malformed("'shape' of Reshape has more than one -1");
  if (have) take_sizes_of(n, *have, out);
  if ((rest == 1 || copies) && have && !allowzero) copy_where_zero(*have, out);
  if (rest == 1 && have) settle_rest(*have, out);
  return {n.op("reshape", {n.in(0), graph::shape_expr(out)})};
}
const R r1("Reshape", {1, 5, 13, 14, 19, 21, 23, 24, 25}, reshape, {.operations = 0, .values = {1}});

Values transpose(N& n) {
  std::vector<int64_t> perm = n.attr_ints("perm");
  const int64_t r = n.rank(0);
  if (!n.has_attr("perm"))
    for (int64_t i = r; i-- > 0;) perm.push_back(i);
  std::vector<int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] != int64_t(i) || int64_t(sorted.size()) != r)
      n.malformed(fmt::format("'perm' of Transpose is no permutation of {} axes", r));
  return {n.transpose(n.in(0), perm)};
}
const R r2("Transpose", {1, 13, 21, 23, 24, 25}, transpose, {.operations = 0});

std::vector<int64_t> axes_input(N& n, int64_t moved) {
  return n.since < moved ? n.attr_ints("axes") : n.has(1) ? n.const_ints(1, "axes") : std::vector<int64_t>();
}

Values squeeze(N& n) {
  if (n.since >= 13 && !known_numbers(n, 1)) return squeeze_at_run_time(n);
  std::vector<int64_t> axes = axes_input(n, 13);
  if (axes.empty() && !n.has_attr("axes") && !n.has(1)) {
    // Whether a symbolic size is 1 is found out at run time, and what follows is compiled for both.
    Shape s = n.known_shape(0);
    for (size_t i = 0; i < s.size(); ++i) {
      const PrimExpr one(1);
      const auto known = tir::as_int(s[i]) ? tir::is_one(s[i]) : n.importer.sizes_equal(s[i], one);
      if (!known && !n.importer.fork_on_sizes(n, {{s[i], one}}))
        n.unsupported("which axes this Squeeze removes is known only when the model runs",
                      "give its axes in the model, or its sizes with --dim");
      if (known == true) axes.push_back(int64_t(i));
    }
  }
  if (axes.empty()) return {n.in(0)};
  Expr x = n.in(0);
  if (auto s = n.shape(0)) {
    // A symbolic size that is squeezed is 1, or it is found out at run time that it is not.
    Shape one = *s;
    for (int64_t a : axes) {
      const size_t at = size_t(n.axis(a, int64_t(one.size())));
      if (!tir::as_int(one[at])) one.set(at, PrimExpr(1));
    }
    x = n.checked(x, one);
  }
  return {n.op("squeeze", {x}, make_attrs<AxesAttrs>(list(axes)))};
}
Values unsqueeze(N& n) {
  if (n.since >= 13 && !known_numbers(n, 1)) return unsqueeze_at_run_time(n);
  std::vector<int64_t> axes = axes_input(n, 13);
  if (axes.empty()) return {n.in(0)};
  // Axes count in the result; the operator's order does not matter.
  const int64_t r = n.rank(0) + int64_t(axes.size());
  for (int64_t& a : axes) a = n.axis(a, r);
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end())
    n.malformed("an axis of Unsqueeze is given twice");
  return {n.op("expand_dims", {n.in(0)}, make_attrs<AxesAttrs>(list(axes)))};
}
Values flatten(N& n) {
  const int64_t r = n.rank(0);
  int64_t axis = n.attr_int("axis", 1);
  if (axis < -r || axis > r) n.malformed(fmt::format("axis {} of Flatten is outside of rank {}", axis, r));
  if (axis < 0) axis += r;
  if (axis == 1 && r == 2) return {n.in(0)};
  Shape s = n.known_shape(0);
  PrimExpr a = 1, b = 1;
  for (int64_t i = 0; i < r; ++i) (i < axis ? a : b) = (i < axis ? a : b) * s[size_t(i)];
  return {n.reshape(n.in(0), {simplify(a), simplify(b)})};
}
const R r3("Squeeze", {1, 11, 13, 21, 23, 24, 25}, squeeze, {.operations = 0, .values = {1}}),
    r4("Unsqueeze", {1, 11, 13, 21, 23, 24, 25}, unsqueeze, {.operations = 0, .values = {1}}),
    r5("Flatten", {1, 9, 11, 13, 21, 23, 24, 25}, flatten);

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

/// Inference allows for ends that are negative or before the start; symbols of a model are sizes, which are
/// neither. The shape is said without those cases, and nothing is cut off.
Expr of_sizes(N& n, const Expr& x) {
  const auto shape = graph::known_shape(x);
  if (!shape) return x;
  Analyzer analyzer;
  Shape simple;
  bool changed = false;
  for (const PrimExpr& d : *shape) {
    for (const tir::VarRef& v : tir::free_vars(d)) analyzer.assume_size(v, 0);
    simple.push_back(analyzer.simplify(d));
    changed = changed || !structural_equal(simple.back(), d);
  }
  return changed ? n.op("slice_to", {x, graph::shape_expr(simple)}) : x;
}
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
  return {of_sizes(n, n.op("strided_slice", {n.in(0)},
                           make_attrs<StridedSliceAttrs>(list(axes), begin, end, list(steps))))};
}
const R r8("Slice", {1, 10, 11, 13}, slice, {.operations = 0, .values = {1, 2, 3, 4}});

/// Padding whose widths follow from symbolic sizes, as of an image to the next multiple: what is added is a
/// tensor of its own beside the data. Null where a width may be negative or is not known.
Expr pad_by_sizes(N& n) {
  if (!known_sizes(n, 1) || !known_numbers(n, 2) || !known_numbers(n, 3) || !n.shape(0)) return {};
  const Shape widths = n.sizes(1, "pads");
  const int64_t r = n.rank(0);
  std::vector<int64_t> axes;
  if (n.has(3)) axes = n.const_ints(3, "axes");
  for (int64_t i = 0; !n.has(3) && i < r; ++i) axes.push_back(i);
  if (widths.size() != 2 * axes.size()) return {};
  for (const PrimExpr& w : widths)
    if (!not_negative(w)) return {};
  const auto value = n.has(2) ? n.const_floats(2, "constant_value") : std::vector<double>{0};
  if (value.size() != 1) return {};
  Expr x = n.in(0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = n.axis(axes[i], r);
    const auto added = [&](const PrimExpr& width) {
      Shape shape = *graph::known_shape(x);
      shape.set(size_t(axis), width);
      return n.full(shape, value[0], n.dtype(0));
    };
    Array<Expr> parts;
    if (!tir::is_zero(widths[i])) parts.push_back(added(widths[i]));
    parts.push_back(x);
    if (!tir::is_zero(widths[i + axes.size()])) parts.push_back(added(widths[i + axes.size()]));
    x = n.concat(parts, axis);
  }
  return x;
}

Values pad(N& n) {
  const int64_t r = n.rank(0);
  std::vector<int64_t> pads;
  double value = 0;
  std::vector<int64_t> axes;
  const std::string mode = n.attr_string("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap")
    n.malformed(fmt::format("the mode {} of Pad is not known", in_quotes(mode)));
  if (n.since >= 11 && !(known_numbers(n, 1) && known_numbers(n, 2) && known_numbers(n, 3))) {
    if (const Expr padded = mode == "constant" ? pad_by_sizes(n) : Expr()) return {padded};
    return pad_at_run_time(n, mode);
  }
  if (n.since < 11) {
    pads = n.need_ints("pads");
    value = n.attr_float("value", 0);
  } else {
    pads = n.const_ints(1, "pads");
    if (n.has(2)) {
      const auto v = n.const_floats(2, "constant_value");
      if (v.size() != 1) n.malformed("'constant_value' of Pad must be one number");
      value = v[0];
    }
    if (n.has(3)) axes = n.const_ints(3, "axes");
  }
  if (axes.empty() && !(n.since >= 18 && n.has(3)))
    for (int64_t i = 0; i < r; ++i) axes.push_back(i);
  if (pads.size() != 2 * axes.size())
    n.malformed(fmt::format("Pad needs {} widths, {} are given", 2 * axes.size(), pads.size()));
  std::vector<int64_t> widths(size_t(2 * r), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t a = size_t(n.axis(axes[i], r));
    for (size_t side = 0; side < 2; ++side) {
      const int64_t w = pads[i + side * axes.size()];
      if (w > (int64_t(1) << 40) || w < -(int64_t(1) << 40))
        n.malformed(fmt::format("Pad has the absurd width {}", w));
      widths[2 * a + side] = w;
    }
  }
  return {n.op("pad", {n.in(0)}, make_attrs<PadAttrs>(list(widths), mode, value))};
}
const R r9("Pad", {1, 2, 11, 13, 18, 19, 21, 23, 24, 25}, pad,
           {.operations = 0,
            .values = {1, 3},
            .note = "reflections beyond an axis go on back and forth, as NumPy's"});

Values expand(N& n) {
  if (!known_sizes(n, 1)) return expand_at_run_time(n);
  Shape want = n.sizes(1, "shape"), have = n.known_shape(0), out;
  const size_t rank = std::max(want.size(), have.size());
  for (size_t i = 0; i < rank; ++i) {
    const size_t from_end = rank - i;
    PrimExpr w = from_end <= want.size() ? want[want.size() - from_end] : PrimExpr(1);
    PrimExpr h = from_end <= have.size() ? have[have.size() - from_end] : PrimExpr(1);
    if (auto v = tir::as_int(w); v && *v < 0)
      n.malformed(fmt::format("'shape' of Expand has the negative size {}", *v));
    const auto known = tir::as_int(h), asked = tir::as_int(w);
    if (known && asked && *known != *asked && *known != 1 && *asked != 1)
      n.malformed(fmt::format("Expand cannot stretch {} to {}", *known, *asked));
    const auto sizes = n.broadcast_sizes(h, w);
    if (!sizes) return expand_at_run_time(n);
    n.require_equal(w, sizes->second);
    std::tie(h, w) = *sizes;
    out.push_back(tir::is_one(w) ? h : w);
    if (from_end <= have.size()) have.set(have.size() - from_end, h);
  }
  return {n.op("broadcast_to", {n.checked(n.in(0), have), graph::shape_expr(out)})};
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
  Expr x = n.op("tile", {n.in(0)}, make_attrs<TileAttrs>(list(known)));
  for (size_t i = 0; symbolic && i < repeats.size(); ++i)
    if (!tir::as_int(repeats[i])) x = repeated(n, x, i, repeats[i]);
  return {x};
}
const R r11("Tile", {1, 6, 13}, tile, {.operations = 0, .values = {1, 2}});

// ---------------------------------------------------------------- indexing
/// Input 1, indices into `axis` of input 0.
Expr indices_into(N& n, int64_t axis) {
  const auto shape = n.shape(0);
  return shape ? n.checked_indices(n.in(1), {(*shape)[size_t(axis)]}) : n.in(1);
}
/// Input 1, whose last axis names as many axes of input 0, from `first` on.
Expr tuples_into(N& n, int64_t first) {
  const auto shape = n.shape(0), at = n.shape(1);
  const auto count = at && !at->empty() ? tir::as_int(at->back()) : std::nullopt;
  if (!shape || !count || *count < 1 || first < 0 || *count > int64_t(shape->size()) - first) return n.in(1);
  return n.checked_indices(n.in(1), Shape(shape->begin() + first, shape->begin() + first + *count));
}
Values gather(N& n) {
  const int64_t axis = n.axis(n.attr_int("axis", 0), n.rank(0));
  return {n.op("take", {n.in(0), indices_into(n, axis)}, make_attrs<AxisAttrs>(axis))};
}
Values gather_elements(N& n) {
  const int64_t axis = n.axis(n.attr_int("axis", 0), n.rank(0));
  return {n.op("gather_elements", {n.in(0), indices_into(n, axis)}, make_attrs<AxisAttrs>(axis))};
}
Values gather_nd(N& n) {
  const int64_t batch = n.attr_int("batch_dims", 0);
  return {n.op("gather_nd", {n.in(0), tuples_into(n, batch)}, make_attrs<GatherNdAttrs>(batch))};
}
std::string reduction(N& n) {
  const std::string r = n.attr_string("reduction", "none");
  if (r == "none") return "update";
  if (r != "add" && r != "mul" && r != "max" && r != "min")
    n.malformed(fmt::format("the reduction {} of {} is not known", in_quotes(r), n.op_type()));
  return r;
}
Values scatter_elements(N& n) {
  const int64_t axis = n.axis(n.attr_int("axis", 0), n.rank(0));
  return {n.op("scatter_elements", {n.in(0), indices_into(n, axis), n.in(2)},
               make_attrs<ScatterAttrs>(axis, reduction(n)))};
}
Values scatter_nd(N& n) {
  return {n.op("scatter_nd", {n.in(0), tuples_into(n, 0), n.in(2)},
               make_attrs<ScatterAttrs>(int64_t(0), reduction(n)))};
}
const char* const outside = "an index outside of its axis ends the run (T0509)";
const R i1("Gather", {1, 11, 13}, gather, {.operations = 0, .note = outside}),
    i2("GatherElements", {11, 13}, gather_elements, outside),
    i3("GatherND", {11, 12, 13}, gather_nd, outside),
    i4("ScatterElements", {11, 13, 16, 18}, scatter_elements, outside),
    i5("Scatter", {9, 11}, scatter_elements, outside), i6("ScatterND", {11, 13, 16, 18}, scatter_nd, outside);

Values one_hot(N& n) {
  if (!known_numbers(n, 1)) return one_hot_at_run_time(n);
  const auto depth = n.const_floats(1, "depth");
  if (depth.size() != 1 || !(depth[0] >= 1) || depth[0] > double(int64_t(1) << 40))
    n.malformed("'depth' of OneHot must be one positive number");
  Expr indices = n.dtype(0).is_integer() ? n.in(0) : n.cast(n.in(0), i64);
  const Expr values = n.checked(n.in(2), {PrimExpr(2)});
  auto value = [&](int64_t i) {
    Expr one =
        n.op("strided_slice", {values},
             make_attrs<StridedSliceAttrs>(Array<int64_t>{0}, Shape{i}, Shape{i + 1}, Array<int64_t>{1}));
    return n.op("reshape", {one, graph::shape_expr({})});
  };
  Expr off, on;
  if (const auto* c = values.as<graph::Constant>(); c && c->data.size() == 2) {
    off = n.scalar(c->data.element(0), c->data.dtype()), on = n.scalar(c->data.element(1), c->data.dtype());
  } else {
    off = value(0), on = value(1);
  }
  return {n.op("one_hot", {indices, on, off},
               make_attrs<OneHotAttrs>(int64_t(depth[0]), n.attr_int("axis", -1)))};
}
Values trilu(N& n) {
  if (!known_numbers(n, 1)) return trilu_at_run_time(n);
  int64_t k = 0;
  if (n.has(1)) {
    const auto v = n.const_ints(1, "k");
    if (v.size() != 1) n.malformed("'k' of Trilu must be one number");
    k = v[0];
  }
  return {n.op(n.attr_int("upper", 1) != 0 ? "triu" : "tril", {n.in(0)}, make_attrs<DiagonalAttrs>(k))};
}
const R i7("OneHot", {9, 11, 28}, one_hot, {.values = {1}}), i8("Trilu", {14}, trilu, {.values = {1}});

Values depth_to_space(N& n) {
  const int64_t block = n.need_int("blocksize");
  if (block < 1 || block > (int64_t(1) << 20))
    n.malformed(fmt::format("the block size {} of {} is not possible", block, n.op_type()));
  const std::string mode = n.attr_string("mode", "DCR");
  if (mode != "DCR" && mode != "CRD")
    n.malformed(fmt::format("the mode {} of {} is not known", in_quotes(mode), n.op_type()));
  return {n.op(n.op_type() == "DepthToSpace" ? "depth_to_space" : "space_to_depth", {n.in(0)},
               make_attrs<BlockSizeAttrs>(block, mode))};
}
const R i9("DepthToSpace", {1, 11, 13, 28}, depth_to_space, {.operations = 0}),
    i10("SpaceToDepth", {1, 13, 28}, depth_to_space, {.operations = 0});

// ---------------------------------------------------------------- creation

Values constant_of_shape(N& n) {
  Shape shape = known_sizes(n, 0) ? n.sizes(0, "input") : sizes_of(index_input(n, 0), "size");
  Expr value = n.scalar(0, f32);
  DataType t = f32;
  if (auto* p = n.attr_tensor("value")) {
    const Expr given = n.importer.constant_of(*p, n.where());
    const auto* c = given.as<graph::Constant>();
    if (c->data.size() != 1) n.malformed("'value' of ConstantOfShape must be one number");
    t = c->data.dtype();
    value = graph::constant(c->data.reshape({}));
  }
  n.check_size(shape, t);
  return {n.op("full", {graph::shape_expr(shape), value}, make_attrs<DTypeAttrs>(t))};
}
Values shape_of(N& n) {
  if (n.op_type() == "Size")
    n.not_known("Size of a tensor whose shape is not known at import is not supported");
  Expr s = n.op("shape_to_tensor", {n.op("shape_of", {n.in(0)})});
  if (n.has_attr("start") || n.has_attr("end")) {
    const int64_t b = n.attr_int("start", 0), e = n.attr_int("end", INT64_MAX);
    s = n.op("strided_slice", {s},
             make_attrs<StridedSliceAttrs>(Array<int64_t>{0}, Shape{b}, Shape{e}, Array<int64_t>{1}));
  }
  return {s};
}
/// The number of elements is computed first; then each is start + i · step.
Values range_at_run_time(N& n) {
  const DataType t = n.dtype(0), wide = t.is_float() ? (t.bits > 32 ? f64 : f32) : i64;
  auto limit = [&](size_t i) { return scalar_input(n, i, wide, 0); };
  const Expr start = limit(0), step = limit(2), distance = n.op("subtract", {limit(1), start});
  Expr count;
  if (t.is_float())
    count = n.cast(n.op("ceil", {n.op("divide", {distance, step})}), i64);
  else
    count = n.op("negative", {n.op("floor_divide", {n.op("negative", {distance}), step})});
  const PrimExpr size = size_of_value(n, n.op("maximum", {count, n.scalar(0, i64)}), "range");
  auto prim = [](const PrimExpr& e) { return Expr(make<graph::PrimValue>(e)); };
  const Expr i = n.cast(n.op("arange", {prim(0), prim(size), prim(1)}, make_attrs<DTypeAttrs>(i64)), wide);
  return {n.cast(n.op("add", {n.op("multiply", {i, step}), start}), t)};
}
Values range(N& n) {
  const DataType t = n.dtype(0);
  Array<Expr> args;
  for (size_t i = 0; i < 3; ++i) {
    SmallRef s = n.small(i);
    if (!s || s->items.size() != 1) return range_at_run_time(n);
    args.push_back(make<graph::PrimValue>(s->items[0]));
  }
  return {of_sizes(n, n.op("arange", args, make_attrs<DTypeAttrs>(t)))};
}
Values eye_like(N& n) {
  Shape s = n.known_shape(0);
  if (s.size() != 2) n.malformed("EyeLike takes a matrix");
  DataType t = n.dtype(0);
  if (const int64_t code = n.attr_int("dtype", 0); code != 0) t = element_type(int(code));
  if (t.is_void()) n.unsupported("EyeLike of this type is not supported");
  return {n.op("eye", {make<graph::PrimValue>(s[0]), make<graph::PrimValue>(s[1])},
               make_attrs<EyeAttrs>(n.attr_int("k", 0), t))};
}
Values constant(N& n) {
  auto vector = [&](DataType t, std::vector<double> v, bool scalar) {
    NDArray a = NDArray::empty(scalar ? std::vector<int64_t>{} : std::vector<int64_t>{int64_t(v.size())}, t);
    for (size_t i = 0; i < v.size(); ++i) a.set_element(int64_t(i), v[i]);
    return Values{graph::constant(a)};
  };
  int given = 0;
  for (const auto& a : n.node.attribute())
    given += a.name().starts_with("value") || a.name() == "sparse_value";
  if (given > 1) n.malformed("Constant has more than one value");
  if (auto* t = n.attr_tensor("value")) return {n.importer.tensor_value(*t, n.where())};
  if (n.has_attr("value_float")) return vector(f32, {n.attr_float("value_float", 0)}, true);
  if (n.has_attr("value_floats")) return vector(f32, n.attr_floats("value_floats"), false);
  auto integers = [&](const std::vector<int64_t>& v, bool scalar) {
    NDArray a =
        NDArray::empty(scalar ? std::vector<int64_t>{} : std::vector<int64_t>{int64_t(v.size())}, i64);
    std::copy(v.begin(), v.end(), a.as_ptr<int64_t>());
    return Values{graph::constant(a)};
  };
  if (n.has_attr("value_int")) return integers({n.attr_int("value_int", 0)}, true);
  if (n.has_attr("value_ints")) return integers(n.attr_ints("value_ints"), false);
  if (n.has_attr("value_string") || n.has_attr("value_strings")) {
    proto::TensorProto t;
    t.set_data_type(8);
    if (n.has_attr("value_string")) {
      t.add_string_data(n.attr_string("value_string", ""));
    } else {
      for (const std::string& s : n.attr_strings("value_strings")) t.add_string_data(s);
      t.add_dims(t.string_data_size());
    }
    return {n.importer.tensor_value(t, n.where())};
  }
  if (const auto* a = n.attr("sparse_value"); a && a->has_sparse_tensor())
    return {n.importer.dense_of(*const_cast<proto::AttributeProto*>(a)->mutable_sparse_tensor(), n.where())};
  n.malformed("Constant has no value");
}
const R k1("ConstantOfShape", {9, 20, 21, 23, 24, 25}, constant_of_shape, {.operations = 0, .values = {0}}),
    k2("Shape", {1, 13, 15, 19, 21, 23, 24, 25}, shape_of, {.operations = 0}),
    k3("Size", {1, 13, 19, 21, 23, 24, 25}, shape_of, {.operations = 0}),
    k4("Range", {11}, range, {.values = {0, 1, 2}}), k5("EyeLike", {9, 22}, eye_like),
    k6("Constant", {1, 9, 11, 12, 13, 19, 21, 23, 24, 25}, constant, "sparse values become dense");

Values identity(N& n) { return {n.in(0)}; }
const R k7("Identity", {1, 13, 14, 16, 19, 21, 23, 24, 25}, identity);

}  // namespace
}  // namespace tenon::onnx
