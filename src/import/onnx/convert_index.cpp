// SPDX-License-Identifier: Apache-2.0
// Converters: elements read and written at positions that tensors hold.
#include "import/onnx/values.h"

namespace tenon::onnx {
namespace {

using namespace op;
using N = NodeContext;
using R = RegisterConverter;
using Shape = Array<PrimExpr>;

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

}  // namespace
}  // namespace tenon::onnx
