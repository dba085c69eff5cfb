// SPDX-License-Identifier: Apache-2.0
// Converters: operators of com.microsoft that the standard has in another form, and those of text generation.
#include <cmath>

#include "analysis/analyzer.h"
#include "import/onnx/values.h"
#include "op/attrs_sort.h"
#include "op/attrs_vision.h"

namespace tenon::onnx {
namespace {

using namespace op;
using N = NodeContext;
using R = RegisterConverter;
using Shape = Array<PrimExpr>;

/// The standard operator of that name as it was in an operator set.
template <int64_t Opset>
Values standard(N& n) {
  Array<Expr> inputs;
  for (size_t i = 0; i < n.inputs(); ++i) inputs.push_back(n.opt(i));
  return convert_as(n, n.op_type().c_str(), inputs, Opset);
}
const R s1("com.microsoft::GridSample", {1}, standard<16>),
    s2("com.microsoft::Trilu", {1}, standard<14>, {.values = {1}}),
    s3("com.microsoft::QuantizeLinear", {1}, standard<21>, "per tensor or axis"),
    s4("com.microsoft::DequantizeLinear", {1}, standard<21>, "per tensor or axis"),
    s5("com.microsoft::GatherND", {1}, standard<11>);

Values pad(N& n) {
  Expr widths;  // of one row, too
  if (known_numbers(n, 1)) {
    const auto given = n.const_ints(1, "pads");
    widths = graph::constant(
        array_of(*small_of(i64, {int64_t(given.size())}, std::vector<PrimExpr>(given.begin(), given.end()))));
  } else {
    widths = n.reshape(n.in(1), {PrimExpr(2 * n.rank(0))});
  }
  return convert_as(n, "Pad", {n.in(0), widths, n.has(2) ? n.reshape(n.in(2), {}) : Expr()}, 13);
}
Values expand_dims(N& n) {
  const auto axis = n.const_ints(1, "axis");
  if (axis.size() != 1) n.malformed("'axis' of ExpandDims must be one number");
  const int64_t at = n.axis(axis[0], n.rank(0) + 1);
  return {n.op("expand_dims", {n.in(0)}, make_attrs<AxesAttrs>(Array<int64_t>{at}))};
}
Values range(N& n) {
  return convert_as(n, "Range", {n.in(0), n.in(1), n.has(2) ? n.in(2) : n.scalar(1, n.dtype(0))}, 11);
}
const R p1("com.microsoft::Pad", {1}, pad, {.values = {1}}),
    p2("com.microsoft::ExpandDims", {1}, expand_dims, {.values = {1}}),
    p3("com.microsoft::Range", {1}, range, {.values = {0, 1, 2}});

Values inverse(N& n) {
  const DataType t = n.dtype(0), wide = t.bits < 32 ? f32 : t;
  if (!t.is_float()) n.malformed(fmt::format("Inverse takes floating-point numbers, not {}", to_string(t)));
  return {n.cast(n.op("linalg.inverse", {n.cast(n.in(0), wide)}), t)};
}
/// Distances of rows: of A (m, k) and B (n, k).
Values distances(N& n) {
  const Shape a = n.known_shape(0), b = n.known_shape(1);
  const auto width = a.size() == 2 ? tir::as_int(a[1]) : std::nullopt;
  const auto other = b.size() == 2 ? tir::as_int(b[1]) : std::nullopt;
  if (a.size() != 2 || b.size() != 2 || (width && other && *width != *other))
    n.malformed("CDist takes matrices of equally long rows");
  if (!width || !other) n.require_equal(a[1], b[1]);
  const Expr each = n.op("subtract", {n.reshape(n.in(0), {a[0], PrimExpr(1), a[1]}),
                                      n.reshape(n.in(1), {PrimExpr(1), b[0], a[1]})});
  const Expr square =
      n.op("sum", {n.op("square", {each})}, make_attrs<ReduceAttrs>(Array<int64_t>{2}, false));
  const std::string metric = n.attr_string("metric", "sqeuclidean");
  if (metric != "sqeuclidean" && metric != "euclidean")
    n.unsupported(fmt::format("the metric {} of CDist is not supported", in_quotes(metric)));
  return {metric == "euclidean" ? n.op("sqrt", {square}) : square};
}
/// Values in the order of their first occurrence, the position of each input element among them, and counts.
Values unique(N& n) {
  n.known_shape(0);
  const Expr r = n.op("unique", {n.in(0)}, make_attrs<UniqueAttrs>(int64_t(0), true, false));
  const PrimExpr count = size_of_value(n, n.item(r, 4), "unique");
  return {first_of(n, n.item(r, 0), 0, count), n.item(r, 2), first_of(n, n.item(r, 3), 0, count)};
}
Values crop_and_resize(N& n) {
  const Shape size = known_sizes(n, 3) ? n.sizes(3, "crop_size") : sizes_of(index_input(n, 3), "crop");
  if (size.size() != 2) n.malformed("'crop_size' of CropAndResize needs two values");
  const std::string mode = n.attr_string("mode", "bilinear");
  if (mode != "bilinear" && mode != "nearest")
    n.malformed(fmt::format("the mode {} of CropAndResize is not known", in_quotes(mode)));
  const Expr images = n.checked_indices(n.in(2), {n.known_shape(0, 1)[0]}, false);
  return {n.op("image.crop_and_resize", {n.in(0), n.in(1), images, graph::shape_expr(size)},
               make_attrs<CropAttrs>(std::string(mode == "nearest" ? mode : "linear"),
                                     n.attr_float("extrapolation_value", 0)))};
}
/// All pieces of a length along an axis, which lie on a new last one.
Values unfold(N& n) {
  const int64_t axis = n.axis(n.attr_int("dim", -1), n.rank(0)), size = n.need_int("size"),
                step = n.attr_int("step", 1);
  const Shape s = n.known_shape(0);
  const PrimExpr length = s[size_t(axis)];
  if (const auto l = tir::as_int(length); size < 1 || step < 1 || (l && *l < size))
    n.malformed(fmt::format("UnfoldTensor has no pieces of {} in steps of {}", size, step));
  n.require_at_most(PrimExpr(size), length, "an axis of UnfoldTensor is shorter than its pieces");
  const PrimExpr count = simplify(tir::floordiv(length - size, PrimExpr(step)) + 1);
  const auto numbers = [&](const PrimExpr& of, Shape shape) {
    return n.reshape(iota(n, of), std::move(shape));
  };
  const Expr begin = n.op("multiply", {numbers(count, {count, PrimExpr(1)}), n.scalar(double(step), i64)});
  const Expr at = n.op("add", {begin, numbers(PrimExpr(size), {PrimExpr(1), PrimExpr(size)})});
  const Expr y = n.op("take", {n.in(0), at}, make_attrs<AxisAttrs>(axis));
  std::vector<int64_t> order;
  for (int64_t i = 0; i <= n.rank(0); ++i)
    if (i != axis + 1) order.push_back(i);
  order.push_back(axis + 1);
  return {n.transpose(y, order)};
}
const R o1("com.microsoft::Inverse", {1}, inverse), o2("com.microsoft::CDist", {1}, distances),
    o3("com.microsoft::Unique", {1}, unique),
    o4("com.microsoft::CropAndResize", {1}, crop_and_resize, {.values = {3}}),
    o5("com.microsoft::UnfoldTensor", {1}, unfold);

/// Scores (batch, words) of words that would complete a sequence of `ngram_size` ids (batch, steps) once more
/// become -infinity.
Values ngram_repeat_block(N& n) {
  const int64_t size = n.need_int("ngram_size");
  const Shape s = n.known_shape(0);
  Shape words = n.known_shape(1);
  if (size < 1 || s.size() != 2 || words.size() != 2)
    n.malformed("NGramRepeatBlock takes ids (batch, steps), scores (batch, words) and a size above 0");
  words.set(0, s[0]);
  const Expr scores = n.checked(n.in(1), words);
  const auto steps = tir::as_int(s[1]);
  if (steps && *steps < size) return {scores};
  const PrimExpr starts = simplify(s[1] - (size - 1));
  Expr repeats = n.full({s[0], starts}, 1, boolean);
  for (int64_t i = 0; i + 1 < size; ++i) {
    const Expr before = n.slice(n.in(0), 1, i, simplify(starts + i));
    const Expr end = n.slice(n.in(0), 1, simplify(s[1] - (size - 1 - i)), simplify(s[1] - (size - 2 - i)));
    repeats = n.op("logical_and", {repeats, n.op("equal", {before, end})});
  }
  const Expr next = n.checked_indices(n.slice(n.in(0), 1, size - 1, s[1]), {words[1]}, false);
  const Expr marked = n.op("scatter_elements", {n.full(words, 0, f32), next, n.cast(repeats, f32)},
                           make_attrs<ScatterAttrs>(int64_t(1), std::string("max")));
  return {
      n.op("where", {n.op("greater", {marked, n.scalar(0, f32)}), n.scalar(-INFINITY, n.dtype(1)), scores})};
}
/// Words (count, characters) of character ids: embedded, convolved, and the largest of tanh along each word.
/// A character id of 0 pads.
Values word_conv_embedding(N& n) {
  const Shape s = n.known_shape(0), w = n.known_shape(1);  // weights (units, 1, window, embedding)
  if (w.size() != 4 || s.size() < 1) n.malformed("the weights of WordConvEmbedding have another rank than 4");
  const auto window = tir::as_int(w[2]);
  const PrimExpr letters = s[s.size() - 1];
  PrimExpr count = 1;
  for (size_t i = 0; i + 1 < s.size(); ++i) count = count * s[i];
  count = simplify(count);
  if (!window) n.unsupported("WordConvEmbedding needs a window of known length");
  n.require_at_most(PrimExpr(*window), letters, "the words of WordConvEmbedding are shorter than its window");
  const Expr ids = n.reshape(n.in(0), {count, letters});
  const Expr embedded = n.op("take", {n.in(3), n.checked_indices(ids, {n.known_shape(3, 2, 2)[0]}, false)},
                             make_attrs<AxisAttrs>(int64_t(0)));  // (count, letters, embedding)
  const Expr image = n.reshape(embedded, {count, PrimExpr(1), letters, w[3]});
  Expr y = n.op("nn.conv2d", {image, n.in(1)}, make<ConvAttrs>());
  y = n.op("tanh", {n.op("nn.bias_add", {y, n.in(2)}, make_attrs<AxisAttrs>(int64_t(1)))});
  // Windows that hold padding do not count, but the first one does.
  const PrimExpr windows = simplify(letters - (*window - 1));
  const Expr padded = n.op("equal", {n.slice(ids, 1, *window - 1, letters), n.scalar(0, n.dtype(0))});
  const auto prim = [](const PrimExpr& e) { return Expr(make<graph::PrimValue>(e)); };
  const Expr later = n.op(
      "greater",
      {n.op("arange", {prim(0), prim(windows), prim(1)}, make_attrs<DTypeAttrs>(i64)), n.scalar(0, i64)});
  const Expr hidden = n.reshape(n.op("logical_and", {padded, later}), {count, PrimExpr(1), windows});
  y = n.op("where", {hidden, n.scalar(-INFINITY, f32), n.reshape(y, {count, w[0], windows})});
  y = n.op("max", {y}, make_attrs<ReduceAttrs>(Array<int64_t>{2}, false));
  Shape out = s;
  out.set(s.size() - 1, w[0]);
  return {n.reshape(y, out)};
}
const R t1("com.microsoft::NGramRepeatBlock", {1}, ngram_repeat_block),
    t2("com.microsoft::WordConvEmbedding", {1}, word_conv_embedding);

}  // namespace
}  // namespace tenon::onnx
