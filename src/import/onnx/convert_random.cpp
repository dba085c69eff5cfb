// SPDX-License-Identifier: Apache-2.0
// Converters: random numbers, and dropout, which draws them.
#include <bit>

#include "import/onnx/values.h"
#include "op/attrs_random.h"

namespace tenon::onnx {

Expr random_key(NodeContext& n) {
  // FNV-1a of the name: nodes of one model draw different numbers, every run draws the same.
  uint64_t seed = 1469598103934665603ull;
  if (const auto* given = n.attr("seed")) {
    // Random numbers have a seed that is a float, Dropout one that is an integer.
    const bool whole = n.op_type() == "Dropout";
    seed = whole ? uint64_t(given->i()) : std::bit_cast<uint32_t>(float(n.attr_float("seed", 0)));
  } else {
    for (char c : name_of(n.node)) seed = (seed ^ uint8_t(c)) * 1099511628211ull;
  }
  return n.op("random.key", {}, op::make_attrs<op::SeedAttrs>(int64_t(seed)));
}

namespace {

using namespace op;
using N = NodeContext;
using R = RegisterConverter;
using Shape = Array<PrimExpr>;

DataType wanted_type(N& n, DataType otherwise) {
  const int64_t code = n.attr_int("dtype", 0);
  return code ? element_type(int(code)) : otherwise;
}
Values random_fill(N& n) {
  const std::string& kind = n.op_type();
  const bool like = kind.ends_with("Like"), normal = kind.starts_with("RandomNormal");
  Shape size;
  if (like)
    size = n.known_shape(0);
  else
    for (int64_t d : n.need_ints("shape")) size.push_back(d);
  const DataType t = wanted_type(n, like ? n.dtype(0) : f32);
  const Array<Expr> args{random_key(n), graph::shape_expr(size)};
  if (normal)
    return {n.op("random.normal", args,
                 make_attrs<NormalAttrs>(n.attr_float("mean", 0), n.attr_float("scale", 1), t))};
  return {n.op("random.uniform", args,
               make_attrs<RandomAttrs>(n.attr_float("low", 0), n.attr_float("high", 1), t))};
}
Values bernoulli(N& n) {
  const DataType t = wanted_type(n, n.dtype(0));
  return {n.op("random.bernoulli", {random_key(n), n.in(0)}, make_attrs<DTypeAttrs>(t))};
}
Values multinomial(N& n) {
  const DataType t = wanted_type(n, i32);
  return {n.cast(n.op("random.categorical", {random_key(n), n.in(0)},
                      make_attrs<CountAttrs>(n.attr_int("sample_size", 1))),
                 t)};
}
const R r1("RandomNormal", {1, 22}, random_fill), r2("RandomUniform", {1, 22}, random_fill),
    r3("RandomNormalLike", {1, 22}, random_fill), r4("RandomUniformLike", {1, 22}, random_fill),
    r5("Bernoulli", {15, 22}, bernoulli), r6("Multinomial", {7, 22}, multinomial);

/// Dropout in training; where only the run knows the mode, a ratio of 0 keeps everything.
Values dropout_in_training(N& n, const Expr& training) {
  const DataType t = n.dtype(0);
  Expr ratio = scalar_input(n, 1, f32, 0.5);
  if (const auto* c = ratio.as<graph::Constant>(); c && !(c->data.element(0) >= 0 && c->data.element(0) < 1))
    n.malformed("'ratio' of Dropout must be one number from 0 up to 1");
  if (training) ratio = n.op("where", {training, ratio, n.scalar(0, f32)});
  const Expr share = n.op("subtract", {n.scalar(1, f32), ratio});
  const Expr shares = n.op("full_like", {n.in(0), share}, make_attrs<DTypeAttrs>(f32));
  const Expr kept = n.op("random.bernoulli", {random_key(n), shares}, make_attrs<DTypeAttrs>(boolean));
  const Expr scaled = n.op("divide", {n.in(0), n.cast(share, t)});
  return {n.op("where", {kept, scaled, n.scalar(0, t)}), kept};
}
Values dropout(N& n) {
  if (n.opset < 7 && n.attr_int("is_test", 0) == 0)
    n.unsupported("Dropout in training mode is not supported",
                  "export the model in inference mode (model.eval())");
  if (!known_numbers(n, 2)) return dropout_in_training(n, scalar_input(n, 2, boolean, 0));
  if (SmallRef training = n.small(2)) {
    if (training->items.size() != 1) n.malformed("'training_mode' of Dropout must be one truth value");
    if (!tir::is_zero(training->items[0])) return dropout_in_training(n, {});
  }
  Values out{n.in(0)};
  if (n.wants_output(1)) {
    const DataType t =
        n.since < 10 ? n.dtype(0) : boolean;  // the first versions give the mask the data's type
    out.push_back(n.op("full_like", {n.in(0), n.scalar(1, t)}, make_attrs<DTypeAttrs>(t)));
  }
  return out;
}
const R d1("Dropout", {1, 6, 7, 10, 12, 13, 22}, dropout, {.values = {2}, .as_in_six = true});

}  // namespace
}  // namespace tenon::onnx
