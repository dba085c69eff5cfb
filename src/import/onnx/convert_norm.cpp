// SPDX-License-Identifier: Apache-2.0
// Converters: normalisations, softmax and its kin.
#include "analysis/analyzer.h"
#include "import/onnx/window.h"
#include "op/attrs_place.h"

namespace tenon::onnx {
namespace {

using namespace op;
using N = NodeContext;
using R = RegisterConverter;
using Ints = std::vector<int64_t>;

Values batch_norm(N& n) {
  if (n.since >= 14 && n.attr_int("training_mode", 0) != 0) {
    auto a = make<BatchNormTrainAttrs>();
    a.edit()->epsilon = n.attr_float("epsilon", 1e-5), a.edit()->momentum = n.attr_float("momentum", 0.9);
    const Expr r = n.op("nn.batch_norm_train", {n.in(0), n.in(1), n.in(2), n.in(3), n.in(4)}, a);
    return {n.item(r, 0), n.item(r, 1), n.item(r, 2)};
  }
  if (n.opset < 7 && n.attr_int("is_test", 0) == 0)
    n.unsupported("BatchNormalization in training mode is not supported",
                  "export the model in inference mode (model.eval())");
  if (n.since < 9 && n.attr_int("spatial", 1) == 0)
    n.unsupported("BatchNormalization with spatial=0 is not supported");
  for (size_t i = 1; i < size_t(n.node.output_size()); ++i)
    if (n.wants_output(i))
      n.unsupported("BatchNormalization with outputs of training is not supported",
                    "export the model in inference mode (model.eval())");
  Expr x = n.in(0);
  const DataType t = n.dtype(0);
  auto a = make<BatchNormAttrs>();
  a.edit()->epsilon = n.attr_float("epsilon", 1e-5);
  // Statistics may be wider than the data.
  const DataType wide = n.dtype(3);
  Array<Expr> args{n.cast(x, wide)};
  for (size_t i = 1; i < 5; ++i) args.push_back(n.cast(n.in(i), wide));
  Expr y = n.op("nn.batch_norm", args, a);
  if (y->type.is<graph::TupleType>()) y = n.item(y, 0);
  return {n.cast(y, t)};
}
Values instance_norm(N& n) {
  auto a = make<BatchNormAttrs>();
  a.edit()->epsilon = n.attr_float("epsilon", 1e-5);
  return {n.op("nn.instance_norm", {n.in(0), n.in(1), n.in(2)}, a)};
}
Values group_norm(N& n) {
  const int64_t groups = n.need_int("num_groups");
  auto a = make<GroupNormAttrs>();
  a.edit()->epsilon = n.attr_float("epsilon", 1e-5), a.edit()->num_groups = groups;
  Expr gamma = n.in(1), beta = n.in(2);
  auto s = n.known_shape(0);
  const auto channels = s.size() > 1 ? tir::as_int(s[1]) : std::nullopt;
  if (groups < 1 || (channels && *channels % groups != 0))
    n.malformed(fmt::format("GroupNormalization cannot split the channels into {} groups", groups));
  if (n.since < 21) {
    // The first version scales per group: every channel of a group takes its value.
    if (!channels) n.unsupported("GroupNormalization of an unknown number of channels is not supported");
    auto spread = [&](const Expr& v) {
      return n.op("repeat", {v}, make_attrs<RepeatAttrs>(*channels / groups, int64_t(0)));
    };
    gamma = spread(gamma), beta = spread(beta);
  }
  return {n.op("nn.group_norm", {n.in(0), gamma, beta}, a)};
}
Values layer_norm(N& n) {
  const bool rms = n.op_type() == "RMSNormalization";
  const int64_t r = n.rank(0), axis = n.axis(n.attr_int("axis", -1), r);
  Expr x = n.in(0);
  // Mean and deviation are floats, or bfloat16 where the attribute says so, whatever x is.
  const DataType stash = element_type(int(n.attr_int("stash_type", 1))) == DataType::bfloat16()
                             ? DataType::bfloat16()
                             : f32,
                 wide = n.dtype(0) == f64 ? f64 : f32;
  auto a = make<LayerNormAttrs>();
  for (int64_t i = axis; i < r; ++i) a.edit()->axes.push_back(i);
  a.edit()->epsilon = n.attr_float("epsilon", 1e-5);
  // A scale of another shape than the normalised axes is multiplied afterwards.
  auto fits = [&](size_t i) {
    const auto s = n.shape(i), d = n.shape(0);
    if (!s || !d || int64_t(s->size()) != r - axis) return false;
    for (size_t k = 0; k < s->size(); ++k) {
      const auto p = tir::as_int((*s)[k]), q = tir::as_int((*d)[size_t(axis) + k]);
      if (!(p && q && *p == *q) && !(*s)[k].same_as((*d)[size_t(axis) + k])) return false;
    }
    return true;
  };
  const bool inside = (!n.has(1) || fits(1)) && (rms || !n.has(2) || fits(2)) && (n.has(1) || !n.has(2));
  a.edit()->scale = inside && n.has(1);
  a.edit()->center = !rms && inside && n.has(2);
  Array<Expr> args{x};
  if (a->scale) args.push_back(n.in(1));
  if (a->center) args.push_back(n.in(2));
  Expr y = n.op(rms ? "nn.rms_norm" : "nn.layer_norm", args, a);
  if (!inside) {
    if (n.has(1)) y = n.onto("multiply", y, n.in(1));
    if (!rms && n.has(2)) y = n.onto("add", y, n.in(2));
  }
  Values out{y};
  if (!rms && (n.wants_output(1) || n.wants_output(2))) {
    Expr w = n.cast(x, wide);
    auto axes = make_attrs<ReduceAttrs>(a->axes, true);
    out.push_back(n.cast(n.op("mean", {w}, axes), stash));
    const Expr variance = n.op("add", {n.op("variance", {w}, axes), n.scalar(a->epsilon, wide)});
    out.push_back(n.cast(n.op("rsqrt", {variance}), stash));
  }
  return out;
}
Values lrn(N& n) {
  auto a = make<LrnAttrs>();
  a.edit()->size = n.need_int("size"), a.edit()->alpha = n.attr_float("alpha", 1e-4),
  a.edit()->beta = n.attr_float("beta", 0.75), a.edit()->bias = n.attr_float("bias", 1);
  if (a->size < 1 || a->size > (int64_t(1) << 31)) n.malformed(fmt::format("LRN has the size {}", a->size));
  return {n.op("nn.lrn", {n.in(0)}, a)};
}
Values lp_norm(N& n) {
  const int64_t p = n.attr_int("p", 2);
  if (p != 1 && p != 2) n.malformed("'p' of LpNormalization must be 1 or 2");
  Array<int64_t> axis{n.axis(n.attr_int("axis", -1), n.rank(0))};
  Expr norm = n.op(p == 1 ? "l1_norm" : "l2_norm", {n.in(0)}, make_attrs<ReduceAttrs>(axis, true));
  Expr zero = n.scalar(0, n.dtype(0)), y = n.op("divide", {n.in(0), norm});
  return {n.op("where", {n.op("equal", {norm, zero}), zero, y})};
}
Values mvn(N& n) {
  Ints axes = n.attr_ints("axes");
  if (!n.has_attr("axes")) axes = {0, 2, 3};
  auto a = make_attrs<ReduceAttrs>(Array<int64_t>(axes), true);
  Expr x = n.in(0), centred = n.op("subtract", {x, n.op("mean", {x}, a)});
  Expr deviation = n.op("sqrt", {n.op("mean", {n.op("square", {centred})}, a)});
  return {n.op("divide", {centred, n.op("add", {deviation, n.scalar(1e-9, n.dtype(0))})})};
}
const R m1("BatchNormalization", {1, 6, 7, 9, 14, 15}, batch_norm,
           {.operations = 2, .note = "inference", .as_in_six = true}),
    m2("InstanceNormalization", {1, 6, 22}, instance_norm, {.operations = 8, .as_in_six = true}),
    m3("GroupNormalization", {18, 21}, group_norm),
    m4("LayerNormalization", {1, 17}, layer_norm, {.operations = 8}),
    m5("RMSNormalization", {23}, layer_norm), m6("LRN", {1, 13}, lrn, {.operations = 8}),
    m7("LpNormalization", {1, 22}, lp_norm), m8("MeanVarianceNormalization", {9, 13}, mvn);

Values softmax(N& n) {
  const char* name = n.op_type() == "Softmax" ? "nn.softmax" : "nn.log_softmax";
  const int64_t r = n.rank(0);
  if (r == 0) n.malformed(fmt::format("{} of a scalar", n.op_type()));
  const int64_t axis = n.axis(n.attr_int("axis", n.since < 13 ? 1 : -1), r);
  auto last = make_attrs<AxisAttrs>(axis);
  if (n.since >= 13 || axis == r - 1) return {n.op(name, {n.in(0)}, last)};
  // Up to version 12 all axes from `axis` on are one.
  auto s = n.known_shape(0);
  PrimExpr a = 1, b = 1;
  for (int64_t i = 0; i < r; ++i) (i < axis ? a : b) = (i < axis ? a : b) * s[size_t(i)];
  Expr y = n.op(name, {n.reshape(n.in(0), {simplify(a), simplify(b)})}, make_attrs<AxisAttrs>(int64_t(1)));
  return {n.reshape(y, s)};
}
Values hardmax(N& n) {
  const int64_t r = n.rank(0), axis = n.axis(n.attr_int("axis", n.since < 13 ? 1 : -1), r);
  auto s = n.known_shape(0);
  Expr x = n.in(0);
  PrimExpr a = 1, b = 1;
  const bool flat = n.since < 13 && axis != r - 1;
  for (int64_t i = 0; i < r; ++i) (i < axis ? a : b) = (i < axis ? a : b) * s[size_t(i)];
  if (flat) x = n.reshape(x, {simplify(a), simplify(b)});
  const PrimExpr extent = flat ? simplify(b) : s[size_t(axis)];
  const int64_t at = flat ? 1 : axis;
  auto args = make<ArgReduceAttrs>();
  args.edit()->axis = at, args.edit()->keepdims = true;
  auto prim = [](const PrimExpr& e) { return Expr(make<graph::PrimValue>(e)); };
  Array<PrimExpr> line;
  line.resize(size_t(flat ? 2 : r), PrimExpr(1));
  line.set(size_t(at), extent);
  const Expr positions =
      n.reshape(n.op("arange", {prim(0), prim(extent), prim(1)}, make_attrs<DTypeAttrs>(i64)), line);
  // There is no largest of nothing, and nothing that it would be compared with: behind the elements lies one
  // that is never found, for the first of equals is.
  if (tir::as_int(extent).value_or(0) < 1) {
    std::vector<int64_t> widths(2 * line.size(), 0);
    widths[size_t(2 * at + 1)] = 1;
    x = n.op("pad", {x},
             make_attrs<PadAttrs>(Array<int64_t>(widths), std::string("constant"), lowest(n.dtype(0))));
  }
  const Expr y = n.cast(n.op("equal", {positions, n.op("argmax", {x}, args)}), n.dtype(0));
  return {flat ? n.reshape(y, s) : y};
}
const R s1("Softmax", {1, 11, 13}, softmax, {.operations = 5}),
    s2("LogSoftmax", {1, 11, 13}, softmax, {.operations = 6}), s3("Hardmax", {1, 11, 13}, hardmax);

}  // namespace
}  // namespace tenon::onnx
