// SPDX-License-Identifier: Apache-2.0
// Converters of the domain ai.onnx.ml: encoders of labels and categories, and what prepares features.
#include "import/onnx/text.h"
#include "import/onnx/values.h"

namespace tenon::onnx {
namespace {

using namespace op;
using N = NodeContext;
using R = RegisterConverter;

/// A list that an encoder's attributes give: NAME_tensor, or NAME_strings, NAME_int64s, NAME_floats.
std::optional<Value> list_attribute(N& n, const std::string& name) {
  if (auto* t = n.attr_tensor(name + "_tensor")) return n.importer.tensor_value(*t, n.where());
  if (n.has_attr(name + "_strings")) return strings_constant(n, n.attr_strings(name + "_strings"));
  if (n.has_attr(name + "_int64s")) {
    const std::vector<int64_t> v = n.attr_ints(name + "_int64s");
    return Value(
        Expr(graph::constant(NDArray::from_bytes({int64_t(v.size())}, i64, v.data(), v.size() * 8))));
  }
  if (n.has_attr(name + "_floats")) {
    const std::vector<double> v = n.attr_floats(name + "_floats");
    const NDArray a = NDArray::empty({int64_t(v.size())}, f32);
    for (size_t i = 0; i < v.size(); ++i) a.set_element(int64_t(i), v[i]);
    return Value(Expr(graph::constant(a)));
  }
  return std::nullopt;
}
int64_t length_of(N& n, const Value& v) {
  const auto shape = graph::known_shape(v.expr);
  const auto size = shape && shape->size() == 1 ? tir::as_int((*shape)[0]) : std::nullopt;
  if (!size) n.malformed(fmt::format("the keys and values of {} must be vectors", n.op_type()));
  return *size;
}
/// One element for what no key fits.
Value otherwise(N& n, const Value& values) {
  if (values.form) return strings_constant(n, {n.attr_string("default_string", "_Unused")});
  const DataType t = graph::as_tensor(values.expr)->dtype;
  if (auto* given = n.attr_tensor("default_tensor")) {
    const Value v = n.importer.tensor_value(*given, n.where());
    const auto* c = v.expr.as<graph::Constant>();
    if (!c || c->data.size() != 1 || c->data.dtype() != t)
      n.malformed(fmt::format("'default_tensor' of {} must be one element like the values", n.op_type()));
    return Value(Expr(graph::constant(c->data.reshape({1}))));
  }
  const NDArray a = NDArray::empty({1}, t);
  if (t.is_float())
    a.set_element(0, n.attr_float("default_float", -0.0));
  else
    a.set_element_int(0, n.attr_int("default_int64", -1));
  return Value(Expr(graph::constant(a)));
}
/// values[i] where x is keys[i]; all three are of any elements.
Values mapped(N& n, const Value& keys, const Value& values, const Value& none) {
  const Expr x = n.in(0);
  const bool texts = n.form(0) != nullptr;
  if (texts != (keys.form != nullptr) || n.dtype(0) != graph::as_tensor(keys.expr)->dtype)
    n.malformed(fmt::format("the keys of {} are of another type than its input", n.op_type()));
  if (length_of(n, keys) != length_of(n, values))
    n.malformed(
        fmt::format("{} has {} keys and {} values", n.op_type(), length_of(n, keys), length_of(n, values)));
  const Expr at = n.packed("tenon.string.find", {x, keys.expr}, like(x, i64));
  const Expr all =
      n.op("concat", {n.emit(tuple({values.expr, none.expr}))}, make_attrs<AxisAttrs>(int64_t(0)));
  return {{n.op("take", {all, at}, make_attrs<AxisAttrs>(int64_t(0))), values.form}};
}
Values label_encoder(N& n) {
  if (n.since < 2) {
    const std::vector<std::string> classes = n.attr_strings("classes_strings");
    std::vector<int64_t> numbers(classes.size());
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = int64_t(i);
    const Value texts = strings_constant(n, classes);
    const Value codes(Expr(graph::constant(
        NDArray::from_bytes({int64_t(numbers.size())}, i64, numbers.data(), numbers.size() * 8))));
    const bool encode = n.form(0) != nullptr;
    return mapped(n, encode ? texts : codes, encode ? codes : texts, otherwise(n, encode ? codes : texts));
  }
  const auto keys = list_attribute(n, "keys"), values = list_attribute(n, "values");
  if (!keys || !values) n.malformed("LabelEncoder needs keys and values");
  return mapped(n, *keys, *values, otherwise(n, *values));
}
Values category_mapper(N& n) {
  const bool encode = n.form(0) != nullptr;
  const Value texts = strings_constant(n, n.attr_strings("cats_strings"));
  const std::vector<int64_t> v = n.attr_ints("cats_int64s");
  const Value codes(
      Expr(graph::constant(NDArray::from_bytes({int64_t(v.size())}, i64, v.data(), v.size() * 8))));
  return mapped(n, encode ? texts : codes, encode ? codes : texts, otherwise(n, encode ? codes : texts));
}
const R e1("ai.onnx.ml::LabelEncoder", {1, 2, 4}, label_encoder, "", Forms::any),
    e2("ai.onnx.ml::CategoryMapper", {1}, category_mapper, "", Forms::any);

/// 1 in the column of each element's category; where it is none of them, zeros, or the run ends.
Values one_hot_encoder(N& n) {
  const bool texts = n.form(0) != nullptr;
  const auto keys = list_attribute(n, "cats");
  if (!keys || texts != (keys->form != nullptr))
    n.malformed("OneHotEncoder needs categories of its input's type");
  const int64_t count = length_of(n, *keys);
  Expr x = n.in(0);
  if (!texts) x = n.cast(x, i64);
  Expr at = n.packed("tenon.string.find", {x, keys->expr}, like(x, i64));
  if (n.attr_int("zeros", 1) == 0) at = n.checked_indices(at, {PrimExpr(count)}, false);
  const int64_t rank = n.rank(0);
  const Expr columns =
      n.op("arange", {n.number(0), n.number(count), n.number(1)}, make_attrs<DTypeAttrs>(i64));
  const Expr wide = n.op("expand_dims", {at}, make_attrs<AxesAttrs>(Array<int64_t>{rank}));
  return {n.cast(n.op("equal", {wide, columns}), f32)};
}

// ---------------------------------------------------------------- features
Expr row_of(N& n, const std::vector<double>& values, int64_t width, const char* name) {
  if (values.size() != 1 && int64_t(values.size()) != width)
    n.malformed(
        fmt::format("'{}' of {} has {} entries for {} features", name, n.op_type(), values.size(), width));
  const NDArray a = NDArray::empty({int64_t(values.size())}, f32);
  for (size_t i = 0; i < values.size(); ++i) a.set_element(int64_t(i), values[i]);
  return graph::constant(a);
}
int64_t features(N& n) {
  const auto shape = n.known_shape(0);
  const auto width = shape.empty() ? std::nullopt : tir::as_int(shape[shape.size() - 1]);
  if (!width) n.unsupported(fmt::format("{} needs a known number of features", n.op_type()));
  return *width;
}
Values scaler(N& n) {
  const int64_t width = features(n);
  const Expr x = n.cast(n.in(0), f32);
  return {n.op("multiply", {n.op("subtract", {x, row_of(n, n.attr_floats("offset"), width, "offset")}),
                            row_of(n, n.attr_floats("scale"), width, "scale")})};
}
/// Rows divided by their largest element, their sum of magnitudes, or their length.
Values normalizer(N& n) {
  const std::string norm = n.attr_string("norm", "MAX");
  const Expr x = n.cast(n.in(0), f32);
  auto attrs = make_attrs<ReduceAttrs>([](ReduceAttrs& a) {
    a.axis = {-1};
    a.keepdims = true;
  });
  Expr size;
  if (norm == "MAX")
    size = n.op("max", {n.op("abs", {x})}, attrs);
  else if (norm == "L1")
    size = n.op("sum", {n.op("abs", {x})}, attrs);
  else if (norm == "L2")
    size = n.op("sqrt", {n.op("sum", {n.op("multiply", {x, x})}, attrs)});
  else
    n.malformed(fmt::format("'norm' of Normalizer is {}", in_quotes(norm)));
  const Expr none = n.op("equal", {size, n.scalar(0, f32)});
  return {n.op("divide", {x, n.op("where", {none, n.scalar(1, f32), size})})};
}
Values imputer(N& n) {
  const bool floats = n.dtype(0).is_float();
  const int64_t width = features(n);
  const Expr x = n.in(0);
  const DataType t = n.dtype(0);
  const std::vector<double> real = n.attr_floats("imputed_value_floats");
  const std::vector<int64_t> whole = n.attr_ints("imputed_value_int64s");
  const size_t count = floats ? real.size() : whole.size();
  if (count != 1 && int64_t(count) != width)
    n.malformed(fmt::format("Imputer has {} values for {} features", count, width));
  const NDArray put = NDArray::empty({int64_t(count)}, t);
  for (size_t i = 0; i < count; ++i)
    floats ? put.set_element(int64_t(i), real[i]) : put.set_element_int(int64_t(i), whole[i]);
  const double missing =
      floats ? n.attr_float("replaced_value_float", 0) : double(n.attr_int("replaced_value_int64", 0));
  const Expr gone = missing != missing ? n.op("not_equal", {x, x}) : n.op("equal", {x, n.scalar(missing, t)});
  return {n.op("where", {gone, graph::constant(put), x})};
}
/// The first `width` columns of a matrix; where it has fewer, zeros follow.
Expr columns_of(N& n, const Expr& x, int64_t width) {
  const PrimExpr have = n.shape_of(x)[1];
  if (tir::is_const_int(have, width)) return x;
  return pick_or(n, x, iota(n, PrimExpr(width)), index_of(n, {have})[0], 1, n.scalar(0, f32));
}
Values feature_vectorizer(N& n) {
  Array<Expr> parts;
  const std::vector<int64_t> widths = n.attr_ints("inputdimensions");
  if (!widths.empty() && widths.size() != n.inputs())
    n.malformed(fmt::format("'inputdimensions' of FeatureVectorizer has {} entries for {} inputs",
                            widths.size(), n.inputs()));
  for (size_t i = 0; i < n.inputs(); ++i) {
    Expr x = n.cast(n.in(i), f32);
    if (n.rank(i) == 1) x = n.op("expand_dims", {x}, make_attrs<AxesAttrs>(Array<int64_t>{1}));
    if (n.shape_of(x).size() != 2) n.malformed("FeatureVectorizer takes vectors and matrices");
    parts.push_back(widths.empty() ? x : columns_of(n, x, widths[i]));
  }
  if (parts.empty()) n.malformed("FeatureVectorizer needs an input");
  return {parts.size() == 1 ? parts[0]
                            : n.op("concat", {n.emit(tuple(parts))}, make_attrs<AxisAttrs>(int64_t(1)))};
}
const R f1("ai.onnx.ml::OneHotEncoder", {1}, one_hot_encoder, "", Forms::any),
    f2("ai.onnx.ml::Scaler", {1}, scaler), f3("ai.onnx.ml::Normalizer", {1}, normalizer),
    f4("ai.onnx.ml::Imputer", {1}, imputer), f5("ai.onnx.ml::FeatureVectorizer", {1}, feature_vectorizer);

Values array_feature_extractor(N& n) {
  const int64_t rank = n.rank(0);
  const auto shape = n.shape(0);
  Expr at = n.in(1);
  if (const Array<PrimExpr> given = n.shape_of(at); given.size() != 1)  // one index, or a row of them
    at = n.reshape(at, {op::product(given)});
  if (shape && !shape->empty()) at = n.checked_indices(at, {shape->back()}, false);
  const Expr y = n.op("take", {n.in(0), at}, make_attrs<AxisAttrs>(rank - 1));
  if (rank != 1) return {y};
  const Array<PrimExpr> s = *graph::known_shape(y);
  return {n.reshape(y, {PrimExpr(1), s[s.size() - 1]})};
}
Values binarizer(N& n) {
  const DataType t = n.dtype(0);
  return {n.cast(n.op("greater", {n.in(0), n.scalar(n.attr_float("threshold", 0), t)}), t)};
}
const R x1("ai.onnx.ml::ArrayFeatureExtractor", {1}, array_feature_extractor),
    x2("ai.onnx.ml::Binarizer", {1}, binarizer);

}  // namespace
}  // namespace tenon::onnx
