// SPDX-License-Identifier: Apache-2.0
// Converters: sorting, selection, results whose size only the data tells, writes at run-time positions, bits.
#include <cmath>

#include "analysis/analyzer.h"
#include "import/onnx/dynamic.h"
#include "op/attrs_arrange.h"
#include "op/attrs_sort.h"
#include "op/attrs_vision.h"

namespace tenon::onnx {

using namespace op;
using N = NodeContext;
using R = RegisterConverter;
using Shape = Array<PrimExpr>;

PrimExpr size_of_value(N& n, const Expr& value, std::string_view name) {
  if (const auto* c = value.as<graph::Constant>(); c && c->data.size() == 1) return c->data.element_int(0);
  const Expr vector = n.cast(n.reshape(value, {PrimExpr(1)}), i64);
  const Expr shape = n.op("tensor_to_shape", {vector});
  const PrimExpr size = tir::var(n.importer.builder.fresh_name(std::string(name)), i64);
  n.importer.builder.emit_match_cast(shape, make<graph::ShapeType>(Shape{size}, int64_t(1), true), "size");
  return size;
}
PrimExpr size_input(N& n, size_t i, const char* what) {
  if (SmallRef s = n.small(i)) {
    if (s->items.size() != 1) n.malformed(fmt::format("'{}' of {} must be one number", what, n.op_type()));
    return tir::cast(i64, s->items[0]);
  }
  return size_of_value(n, n.in(i), what);
}
Expr first_of(N& n, const Expr& buffer, size_t axis, const PrimExpr& size) {
  auto shape = graph::known_shape(buffer);
  if (!shape) n.unsupported(fmt::format("{} needs a tensor whose shape is known at import", n.op_type()));
  shape->set(axis, size);
  return n.op("slice_to", {buffer, graph::shape_expr(*shape)});
}
Expr scalar_input(N& n, size_t i, DataType t, double otherwise) {
  if (!n.has(i)) return n.scalar(otherwise, t);
  const Expr e = n.in(i);
  const auto shape = graph::known_shape(e);
  return n.cast(shape && shape->empty() ? e : n.reshape(e, {}), t);
}

namespace {

Values topk(N& n) {
  const PrimExpr k = n.since < 10 ? PrimExpr(n.need_int("k")) : size_input(n, 1, "k");
  const bool largest = n.attr_int("largest", 1) != 0;
  const int64_t axis = n.axis(n.attr_int("axis", -1), n.rank(0));
  const Expr r = n.op("topk", {n.in(0), graph::shape_expr({k})}, make_attrs<TopKAttrs>(axis, largest));
  return {n.item(r, 0), n.item(r, 1)};
}
Values nonzero(N& n) {
  n.known_shape(0);
  const Expr r = n.op("nonzero", {n.in(0)});
  return {first_of(n, n.item(r, 0), 1, size_of_value(n, n.item(r, 1), "nonzero"))};
}
/// The input as one axis: positions on it are taken apart by a division each otherwise.
Expr flattened(N& n, size_t input) {
  const Shape shape = n.known_shape(input);
  if (shape.size() == 1) return n.in(input);
  PrimExpr all = 1;
  for (const PrimExpr& d : shape) all = all * d;
  return n.op("reshape", {n.in(input), graph::shape_expr({simplify(all)})});
}
Values compress(N& n) {
  const bool flat = !n.has_attr("axis");
  const Shape shape = n.known_shape(0), conditions = n.known_shape(1, 1, 1);
  const int64_t axis = flat ? 0 : n.axis(n.attr_int("axis", 0), n.rank(0));
  PrimExpr extent = flat ? PrimExpr(1) : shape[size_t(axis)];
  for (size_t i = 0; flat && i < shape.size(); ++i) extent = extent * shape[i];
  extent = simplify(extent);
  const auto most = tir::as_int(extent), given = tir::as_int(conditions[0]);
  const bool within = most && given ? *given <= *most : op::same_dim(conditions[0], extent);
  Expr condition = n.in(1);  // what goes beyond the axis says nothing
  if (!within) condition = n.slice(condition, 0, 0, simplify(tir::min(conditions[0], extent)));
  // Only what is kept is moved: its number is known before it is.
  const Expr found = n.op("nonzero", {condition});
  const PrimExpr kept = size_of_value(n, n.item(found, 1), "kept");
  const Expr at = n.reshape(first_of(n, n.item(found, 0), 1, kept), {kept});
  return {n.op("take", {flat ? flattened(n, 0) : n.in(0), at}, make_attrs<AxisAttrs>(axis))};
}
Values unique(N& n) {
  const bool flat = !n.has_attr("axis");
  n.known_shape(0);
  const int64_t axis = flat ? 0 : n.axis(n.attr_int("axis", 0), n.rank(0));
  const Expr r = n.op("unique", {flat ? flattened(n, 0) : n.in(0)},
                      make_attrs<UniqueAttrs>(axis, flat, n.attr_int("sorted", 1) != 0));
  const PrimExpr count = size_of_value(n, n.item(r, 4), "unique");
  Values out{first_of(n, n.item(r, 0), size_t(axis), count), Value(), Value(), Value()};
  if (n.wants_output(1)) out[1] = first_of(n, n.item(r, 1), 0, count);
  if (n.wants_output(2)) out[2] = n.item(r, 2);
  if (n.wants_output(3)) out[3] = first_of(n, n.item(r, 3), 0, count);
  return out;
}
Values non_max_suppression(N& n) {
  int64_t most_boxes = 0;
  if (SmallRef most = n.small(2); most && most->all_const() && most->items.size() == 1)
    most_boxes = std::max<int64_t>(*tir::as_int(most->items[0]), 0);
  n.known_shape(0), n.known_shape(1);
  const Expr r = n.op("vision.non_max_suppression",
                      {n.in(0), n.in(1), scalar_input(n, 2, i64, 0), scalar_input(n, 3, f32, 0),
                       scalar_input(n, 4, f32, -INFINITY)},
                      make_attrs<NmsAttrs>(n.attr_int("center_point_box", 0) != 0, most_boxes));
  return {first_of(n, n.item(r, 0), 0, size_of_value(n, n.item(r, 1), "boxes"))};
}
const R s1("TopK", {1, 10, 11, 24}, topk, {.values = {1}}), s2("NonZero", {9, 13}, nonzero),
    s3("Compress", {9, 11, 28}, compress), s4("Unique", {11, 28}, unique),
    s5("NonMaxSuppression", {10, 11}, non_max_suppression);

Values reverse_sequence(N& n) {
  const int64_t time = n.attr_int("time_axis", 0);
  Expr lengths = n.in(1);
  if (const auto s = n.shape(0); s && time >= 0 && time < int64_t(s->size()))
    lengths = n.checked_indices(lengths, {(*s)[size_t(time)] + 1}, false);
  return {n.op("reverse_sequence", {n.in(0), lengths},
               make_attrs<SequenceAttrs>(time, n.attr_int("batch_axis", 1)))};
}
Values bitcast(N& n) {
  const DataType to = element_type(int(n.need_int("to")));
  if (to.is_void() || (to.bits < 8 && !to.is_bool())) n.unsupported("BitCast to this type is not supported");
  return {n.op("bitcast", {n.in(0)}, make_attrs<CastAttrs>(to))};
}
/// The update's rows are written from write_indices on, per batch; circular caches wrap.
Values tensor_scatter(N& n) {
  const int64_t rank = n.rank(0), axis = n.axis(n.attr_int("axis", -2), rank);
  const Shape cache = n.known_shape(0), update = n.known_shape(1, cache.size(), cache.size());
  const std::string mode = n.attr_string("mode", "linear");
  if (mode != "linear" && mode != "circular")
    n.malformed(fmt::format("the mode {} of TensorScatter is not known", in_quotes(mode)));
  Shape line, batch;
  for (int64_t i = 0; i < rank; ++i) {
    line.push_back(i == axis ? cache[size_t(i)] : PrimExpr(1));
    batch.push_back(i == 0 ? cache[0] : PrimExpr(1));
  }
  const PrimExpr length = cache[size_t(axis)], rows = update[size_t(axis)];
  n.require_at_most(rows, length, "the update of TensorScatter is longer than its cache");
  Shape wanted = cache;
  wanted.set(size_t(axis), rows);
  const Expr fresh = n.checked(n.in(1), wanted);
  auto prim = [](const PrimExpr& e) { return Expr(make<graph::PrimValue>(e)); };
  Expr at = n.reshape(n.op("arange", {prim(0), prim(length), prim(1)}, make_attrs<DTypeAttrs>(i64)), line);
  if (n.has(2)) {
    // A circular cache may be written from anywhere on.
    const PrimExpr first = mode == "linear" ? simplify(length - rows + 1) : PrimExpr(INT64_MAX);
    const Expr from = n.checked_indices(n.cast(n.in(2), i64), {first}, false);
    at = n.op("subtract", {at, n.reshape(from, batch)});
  }
  auto number = [&](const PrimExpr& e) {
    return n.reshape(n.op("shape_to_tensor", {graph::shape_expr({e})}), Shape());
  };
  if (mode == "circular") at = n.op("floor_mod", {at, number(length)});
  const Expr inside =
      n.op("logical_and", {n.op("greater_equal", {at, n.scalar(0, i64)}), n.op("less", {at, number(rows)})});
  Expr row = n.op("minimum", {n.op("maximum", {at, n.scalar(0, i64)}), number(simplify(rows - 1))});
  row = n.op("broadcast_to", {row, graph::shape_expr(cache)});
  const Expr taken = n.op("gather_elements", {fresh, row}, make_attrs<AxisAttrs>(axis));
  return {n.op("where", {inside, taken, n.in(0)})};
}
const R t1("ReverseSequence", {10, 28}, reverse_sequence), t2("BitCast", {26}, bitcast),
    t3("TensorScatter", {24}, tensor_scatter);

}  // namespace
}  // namespace tenon::onnx
