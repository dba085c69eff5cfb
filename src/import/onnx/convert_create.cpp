// SPDX-License-Identifier: Apache-2.0
// Converters: tensors made of parameters: constants, ranges, shapes as tensors.
#include <limits>

#include "import/onnx/values.h"

namespace tenon::onnx {
namespace {

using namespace op;
using N = NodeContext;
using R = RegisterConverter;
using Shape = Array<PrimExpr>;

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
/// Input i of Range where it is one whole number that is known.
std::optional<int64_t> known_limit(N& n, size_t i) {
  const SmallRef s = n.small(i);
  return s && s->items.size() == 1 ? tir::as_int(s->items[0]) : std::nullopt;
}
/// How many integers there are. A distance of more than 63 bits, which wraps, ends the run.
Expr integers_between(N& n, const Expr& start, const Expr& end, const Expr& step) {
  Index distance(n, n.op("subtract", {end, start}));
  if (known_limit(n, 0) != 0 || known_limit(n, 2).value_or(-1) < 0) {
    const Expr turned = n.op("not_equal", {less(distance, 0), n.op("less", {end, start})}),
               least = equal(distance, std::numeric_limits<int64_t>::min()),  // has no negative
        wrapped = n.op("logical_or", {turned, n.op("logical_and", {least, less(Index(n, step), 0)})});
    distance =
        require(distance, n.op("logical_not", {wrapped}), "Range has more elements than 63 bits count");
  }
  return n.op("negative", {n.op("floor_divide", {n.op("negative", {distance.expr()}), step})});
}
/// The number of elements is computed first; then each is start + i · step.
Values range_at_run_time(N& n) {
  const DataType t = n.dtype(0), wide = t.is_float() ? (t.bits > 32 ? f64 : f32) : i64;
  auto limit = [&](size_t i) { return scalar_input(n, i, wide, 0); };
  const Expr start = limit(0), end = limit(1);
  Expr step = limit(2);
  if (known_limit(n, 2).value_or(0) == 0) {
    const Expr some = n.op("not_equal", {step, n.scalar(0, wide)});
    step = require(Index(n, step), some, "the step of Range is zero").expr();
  }
  const Expr count = t.is_float()
                         ? n.cast(n.op("ceil", {n.op("divide", {n.op("subtract", {end, start}), step})}), i64)
                         : integers_between(n, start, end, step);
  const PrimExpr size = size_of_value(n, n.op("maximum", {count, n.scalar(0, i64)}), "range");
  auto prim = [](const PrimExpr& e) { return Expr(make<graph::PrimValue>(e)); };
  const Expr i = n.cast(n.op("arange", {prim(0), prim(size), prim(1)}, make_attrs<DTypeAttrs>(i64)), wide);
  return {n.cast(n.op("add", {n.op("multiply", {i, step}), start}), t)};
}
/// Limits that sizes are part of are whole numbers, which say how many elements there are; null: one is none.
std::optional<Array<PrimExpr>> whole_limits(const Array<PrimExpr>& limits) {
  Array<PrimExpr> out;
  for (const PrimExpr& e : limits) {
    out.push_back(exact_integer(e));
    if (!out.back()) return std::nullopt;
  }
  return number_of(out.back()) ? std::optional(out) : std::nullopt;
}
Values range(N& n) {
  const DataType t = n.dtype(0);
  Array<PrimExpr> limits;
  for (size_t i = 0; i < 3; ++i) {
    SmallRef s = n.small(i);
    if (!s || s->items.size() != 1) return range_at_run_time(n);
    limits.push_back(s->items[0]);
  }
  if (!number_of(limits[0]) || !number_of(limits[1]) || !number_of(limits[2])) {
    const auto whole = whole_limits(limits);
    if (!whole) return range_at_run_time(n);
    limits = *whole;
  }
  Array<Expr> args;
  for (const PrimExpr& e : limits) args.push_back(make<graph::PrimValue>(e));
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
