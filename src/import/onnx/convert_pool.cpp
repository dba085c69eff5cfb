// SPDX-License-Identifier: Apache-2.0
// Converters: pooling.
#include <algorithm>

#include "analysis/analyzer.h"
#include "import/onnx/window.h"
#include "op/attrs_place.h"

namespace tenon::onnx {
namespace {

using namespace op;
using N = NodeContext;
using R = RegisterConverter;

Expr beside_size(N& n, const char* op, const Expr& e, const PrimExpr& size) {
  return n.op(op, {e, n.reshape(n.op("shape_to_tensor", {graph::shape_expr({simplify(size)})}), {})});
}
/// Positions in the padded data as positions in the data: one in the padding, where all elements of a window
/// are the least there is, becomes that of the element next to it.
Expr without_padding(N& n, const Expr& at, const Array<PrimExpr>& padded, const Array<PrimExpr>& shape,
                     const Window& w) {
  Expr rest = at, out = n.scalar(0, i64);
  PrimExpr step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    Expr place = beside_size(n, "floor_mod", rest, padded[i]);
    rest = beside_size(n, "floor_divide", rest, padded[i]);
    for (const Window::Same& s : w.same)
      if (s.axis == i) {
        place = n.op("maximum", {beside_size(n, "subtract", place, s.before), n.scalar(0, i64)});
        place = beside_size(n, "minimum", place, shape[i] - PrimExpr(1));
      }
    out = n.op("add", {out, beside_size(n, "multiply", place, step)});
    step = step * shape[i];
  }
  return out;
}
/// Positions count through the whole tensor; storage_order 1 wants them column by column.
Values pool_with_indices(N& n, const ObjectRef& a, const Window& w) {
  const DataType t = n.dtype(0);
  Expr x = n.in(0);
  // Padding is less than what bytes can be.
  if (!w.same.empty() && !t.is_float())
    x = with_same_padding(n, n.cast(x, i32), w, lowest(i32));
  else
    x = with_same_padding(n, x, w, lowest(t));
  const Expr r = n.op("nn.max_pool_with_indices", {x}, a);
  const auto s = n.known_shape(0);
  Expr at = n.item(r, 1);
  if (!w.same.empty()) at = without_padding(n, at, n.shape_of(x), s, w);
  if (n.attr_int("storage_order", 0) != 0) {
    std::vector<PrimExpr> columns{1};  // the step of each axis, then the plane: products, as sizes may be 0
    for (size_t i = 2; i < s.size(); ++i) columns.push_back(columns.back() * s[i]);
    Expr rest = beside_size(n, "floor_mod", at, columns.back());
    at = n.op("subtract", {at, rest});
    for (size_t i = s.size(); i-- > 2;) {  // the last axis has the largest step
      at = n.op("add",
                {at, beside_size(n, "multiply", beside_size(n, "floor_mod", rest, s[i]), columns[i - 2])});
      rest = beside_size(n, "floor_divide", rest, s[i]);
    }
  }
  return {n.cast(n.item(r, 0), t), at};
}
Values pool(N& n) {
  const std::string kind = n.op_type();
  Window w = window(n, n.need_ints("kernel_shape"));
  if (std::ranges::count(w.kernel, 0) > 0)
    n.malformed(fmt::format("'kernel_shape' of {} has the value 0", kind));
  const std::string mode = n.attr_string("auto_pad", "NOTSET");
  auto a = make<PoolAttrs>();
  a.edit()->pool_size = Array<int64_t>(w.kernel), a.edit()->strides = Array<int64_t>(w.strides),
  a.edit()->padding = Array<int64_t>(w.pads), a.edit()->dilation = Array<int64_t>(w.dilations);
  a.edit()->ceil_mode = n.attr_int("ceil_mode", 0) != 0 && (mode == "NOTSET" || mode.empty());
  a.edit()->count_include_pad = n.attr_int("count_include_pad", 0) != 0;
  if (kind == "LpPool") a.edit()->p = double(n.attr_int("p", 2));
  for (size_t i = 0; i < w.kernel.size(); ++i) {
    const int64_t reach = (w.kernel[i] - 1) * w.dilations[i] + 1;
    if (w.pads[i] >= reach || w.pads[i + w.kernel.size()] >= reach)
      n.malformed(
          fmt::format("{} pads by {} where its window reaches {}: whole windows would lie in the padding",
                      kind, std::max(w.pads[i], w.pads[i + w.kernel.size()]), reach));
  }
  const char* name = kind == "MaxPool" ? "max" : kind == "AveragePool" ? "avg" : "lp";
  if (n.wants_output(1)) return pool_with_indices(n, a, w);
  const std::string op = fmt::format("nn.{}_pool{}d", name, w.kernel.size());
  if (w.same.empty()) return {n.op(op, {n.in(0)}, a)};
  const Expr y = n.op(op, {with_same_padding(n, n.in(0), w, kind == "MaxPool" ? lowest(n.dtype(0)) : 0)}, a);
  if (kind != "AveragePool" || a->count_include_pad) return {y};
  // The padding counts in y: its share of each window is taken out.
  Array<PrimExpr> plane = n.known_shape(0);
  plane.set(0, 1), plane.set(1, 1);
  const Expr share = n.op(op, {with_same_padding(n, n.full(plane, 1, n.dtype(0)), w, 0)}, a);
  return {n.op("divide", {y, share})};
}
Values global_pool(N& n) {
  const std::string& kind = n.op_type();
  if (kind == "GlobalLpPool") {
    auto a = make<PoolAttrs>();
    a.edit()->p = double(n.attr_int("p", 2));
    return {n.op("nn.global_lp_pool", {n.in(0)}, a)};
  }
  return {n.op(kind == "GlobalMaxPool" ? "nn.global_max_pool" : "nn.global_avg_pool", {n.in(0)})};
}
const R p1("MaxPool", {1, 8, 10, 11, 12, 22}, pool), p2("AveragePool", {1, 7, 10, 11, 19, 22}, pool),
    p3("LpPool", {1, 2, 11, 18, 22}, pool), p4("GlobalAveragePool", {1, 22}, global_pool),
    p5("GlobalMaxPool", {1, 22}, global_pool), p6("GlobalLpPool", {1, 2, 22}, global_pool);

}  // namespace
}  // namespace tenon::onnx
