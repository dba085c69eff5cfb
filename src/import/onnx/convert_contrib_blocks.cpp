// SPDX-License-Identifier: Apache-2.0
// Converters: weights of com.microsoft in blocks of few bits, each block with its own scale, and recurrent
// layers with quantised weights.
#include "analysis/analyzer.h"
#include "import/onnx/blocks.h"
#include "op/attrs_qnn.h"

namespace tenon::onnx {
using namespace op;
using N = NodeContext;
using R = RegisterConverter;
using Shape = Array<PrimExpr>;

Expr unpacked(N& n, const Expr& bytes, int64_t bits) {
  if (bits == 8) return bytes;
  Shape s = n.shape_of(bytes);
  const int64_t per = 8 / bits;
  const DataType t = graph::as_tensor(bytes)->dtype;
  Array<Expr> parts;
  for (int64_t i = 0; i < per; ++i) {
    const Expr low = i == 0 ? bytes : n.op("right_shift", {bytes, n.scalar(double(i * bits), t)});
    const Expr value = n.op("bitwise_and", {low, n.scalar(double((1 << bits) - 1), t)});
    parts.push_back(n.op("expand_dims", {value}, make_attrs<AxesAttrs>(Array<int64_t>{int64_t(s.size())})));
  }
  const Expr all = n.concat(parts, int64_t(s.size()));
  s.set(s.size() - 1, simplify(s[s.size() - 1] * per));
  return n.reshape(all, s);
}

Expr from_blocks(N& n, const Expr& x, const Expr& scale, const Expr& zero, int64_t block) {
  const Shape s = n.shape_of(scale);
  const DataType t = graph::as_tensor(scale)->dtype;
  const auto each = [&](const Expr& e) { return n.reshape(n.cast(e, t), {s[0], s[1], PrimExpr(1)}); };
  const Expr whole = n.reshape(n.cast(x, t), {s[0], s[1], PrimExpr(block)});
  const Expr y = n.op("multiply", {n.op("subtract", {whole, each(zero)}), each(scale)});
  return n.reshape(y, {s[0], simplify(s[1] * block)});
}

namespace {

int64_t bits_of(N& n) {
  const int64_t bits = n.attr_int("bits", 4);
  if (bits != 2 && bits != 4 && bits != 8)
    n.unsupported(fmt::format("{} with {} bits is not supported", n.op_type(), bits));
  return bits;
}

/// Sizes that attributes give: products of a few of them stay in 64 bits.
bool is_size(int64_t n) { return n >= 1 && n <= INT32_MAX; }

/// Bytes (rows, blocks · block) less the zero point of their block (rows, blocks), as int8, which holds it.
Expr centred(N& n, const Expr& x, const Expr& zero, int64_t block) {
  const Shape s = n.shape_of(zero);
  const DataType i16 = DataType::int_(16);
  const Expr whole = n.reshape(n.cast(x, i16), {s[0], s[1], PrimExpr(block)});
  const Expr less = n.op("subtract", {whole, n.reshape(n.cast(zero, i16), {s[0], s[1], PrimExpr(1)})});
  return n.reshape(n.cast(less, DataType::int_(8)), {s[0], simplify(s[1] * block)});
}

/// A (…, K) times the transposed weights (N, K), which lie in blocks along K.
Values matmul_n_bits(N& n) {
  const int64_t bits = bits_of(n), block = n.need_int("block_size"), units = n.need_int("N"),
                depth = n.need_int("K");
  if (!is_size(block) || !is_size(units) || !is_size(depth) || block % (8 / bits) != 0)
    n.malformed("the sizes of MatMulNBits do not fit one another");
  if (n.has(4)) n.unsupported("MatMulNBits with groups in another order is not supported");
  if (n.attr_int("weight_prepacked", 0) != 0)
    n.unsupported("MatMulNBits with weights in a machine's own layout is not supported");
  const int64_t blocks = (depth + block - 1) / block;
  const Expr bytes = n.reshape(n.in(1), {PrimExpr(units), PrimExpr(blocks * block * bits / 8)});
  const Expr scale = n.reshape(n.in(2), {PrimExpr(units), PrimExpr(blocks)});
  const bool whole_zero = !n.has(3) || n.dtype(3) == tenon::u8;
  Expr zero = n.full({PrimExpr(units), PrimExpr(blocks)}, double(1 << (bits - 1)),
                     whole_zero ? tenon::u8 : n.dtype(2));
  if (n.has(3) && whole_zero) {
    const int64_t row = (blocks * bits + 7) / 8;
    zero = n.slice(unpacked(n, n.reshape(n.in(3), {PrimExpr(units), PrimExpr(row)}), bits), 1, 0, blocks);
  } else if (n.has(3)) {
    zero = n.reshape(n.in(3), {PrimExpr(units), PrimExpr(blocks)});
  }
  // Differences of numbers of few bits fit int8, and so do those of bytes from their middle.
  const bool fits = whole_zero && (bits < 8 || !n.has(3)) && blocks * block == depth;
  Expr w = fits ? n.op("qnn.block_dequantize", {centred(n, unpacked(n, bytes, bits), zero, block), scale})
                : from_blocks(n, unpacked(n, bytes, bits), scale, zero, block);
  if (blocks * block != depth) w = n.slice(w, 1, 0, depth);
  // Products are made in the type of A.
  Shape s = n.known_shape(0);
  const DataType t = n.dtype(0);
  PrimExpr rows = 1;
  for (size_t i = 0; i + 1 < s.size(); ++i) rows = rows * s[i];
  Expr y = n.op("nn.dense", {n.reshape(n.in(0), {simplify(rows), PrimExpr(depth)}), n.cast(w, t)});
  if (n.has(5)) y = n.op("add", {y, n.in(5)});
  s.set(s.size() - 1, PrimExpr(units));
  return {n.reshape(y, s)};
}
const R m1("com.microsoft::MatMulNBits", {1}, matmul_n_bits, "2, 4 or 8 bits");

/// The 16 numbers of a code of bitsandbytes: floats of three bits behind a sign, and quantiles of a normal
/// distribution.
constexpr double kFloats[] = {0, 0.00520833333, 2.0 / 3, 1, 1.0 / 3, 0.5, 1.0 / 6, 0.25},
                 kQuantiles[] = {-1.0,
                                 -0.6961928009986877,
                                 -0.5250730514526367,
                                 -0.39491748809814453,
                                 -0.28444138169288635,
                                 -0.18477343022823334,
                                 -0.09105003625154495,
                                 0.0,
                                 0.07958029955625534,
                                 0.16093020141124725,
                                 0.24611230194568634,
                                 0.33791524171829224,
                                 0.44070982933044434,
                                 0.5626170039176941,
                                 0.7229568362236023,
                                 1.0};
/// A (…, K) times weights (N, K), or those transposed, whose numbers lie in a row: blocks of codes with a
/// largest magnitude each, the first code of a byte in its upper half.
Values matmul_bnb4(N& n) {
  const int64_t block = n.need_int("block_size"), units = n.need_int("N"), depth = n.need_int("K"),
                kind = n.need_int("quant_type");
  if (!is_size(block) || !is_size(units) || !is_size(depth) || (kind != 0 && kind != 1))
    n.malformed("the sizes of MatMulBnb4 do not fit one another");
  const int64_t count = units * depth, blocks = (count + block - 1) / block;
  const DataType t = n.dtype(0);
  NDArray table = NDArray::empty({16}, t);
  for (int64_t i = 0; i < 16; ++i)
    table.set_element(i, kind == 1 ? kQuantiles[i] : i < 8 ? kFloats[i] : -kFloats[i - 8]);
  const Expr bytes = n.reshape(n.in(1), {PrimExpr((count + 1) / 2), PrimExpr(1)});
  const Expr codes = n.concat(
      {n.op("right_shift", {bytes, n.scalar(4, u8)}), n.op("bitwise_and", {bytes, n.scalar(15, u8)})}, 1);
  Expr numbers = n.op("take", {graph::constant(table), n.cast(n.reshape(codes, {(count + 1) / 2 * 2}), i32)},
                      make_attrs<AxisAttrs>(int64_t(0)));
  const Expr most =
      n.op("repeat", {n.reshape(n.in(2), {PrimExpr(blocks)})}, make_attrs<RepeatAttrs>(block, int64_t(0)));
  numbers = n.op("multiply", {n.slice(numbers, 0, 0, count), n.slice(n.cast(most, t), 0, 0, count)});
  const bool across = n.attr_int("transB", 1) != 0;
  Expr w = n.reshape(numbers, {PrimExpr(units), PrimExpr(depth)});
  if (!across) w = n.transpose(w, {1, 0});
  const int64_t in = across ? depth : units, out = across ? units : depth;
  Shape s = n.known_shape(0);
  PrimExpr rows = 1;
  for (size_t i = 0; i + 1 < s.size(); ++i) rows = rows * s[i];
  const Expr y = n.op("nn.dense", {n.reshape(n.in(0), {simplify(rows), PrimExpr(in)}), w});
  s.set(s.size() - 1, PrimExpr(out));
  return {n.reshape(y, s)};
}
const R m3("com.microsoft::MatMulBnb4", {1}, matmul_bnb4);

/// Rows of a table in blocks of few bits. Bytes hold unsigned numbers whose usual zero point is half of their
/// range; other types hold one number in each element, and their usual zero point is 0.
Values gather_block_quantized(N& n) {
  const int64_t bits = bits_of(n), block = n.attr_int("block_size", 128), rank = n.rank(0),
                along = n.axis(n.attr_int("quantize_axis", 1), rank),
                axis = n.axis(n.attr_int("gather_axis", 0), rank);
  const bool packed = n.dtype(0) == tenon::u8;
  const Shape whole = n.known_shape(0), steps = n.known_shape(2);
  bool same_rows = whole.size() == steps.size();
  for (size_t i = 0; same_rows && i + 1 < whole.size(); ++i)
    same_rows = is_zero(simplify(whole[i] - steps[i]));
  if (axis == along || along != rank - 1)
    n.unsupported(
        "GatherBlockQuantized is supported where blocks lie along the last axis and rows are gathered along "
        "another");
  const Expr at = n.checked_indices(n.in(1), {n.known_shape(0)[size_t(axis)]}, true);
  const auto rows = [&](const Expr& e) { return n.op("take", {e, at}, make_attrs<AxisAttrs>(axis)); };
  Expr data = rows(packed ? n.in(0) : n.cast(n.in(0), DataType::int_(8))), scale = rows(n.in(2));
  if (packed) data = unpacked(n, data, bits);
  const Shape out = n.shape_of(data), s = n.shape_of(scale);
  PrimExpr count = 1;
  for (size_t i = 0; i + 1 < s.size(); ++i) count = count * s[i];
  count = simplify(count);
  const PrimExpr blocks = s[s.size() - 1];
  Expr zero = n.full({count, blocks}, packed ? double(1 << (bits - 1)) : 0, n.dtype(2));
  if (n.has(3)) {
    Expr z = rows(packed ? n.in(3) : n.cast(n.in(3), DataType::int_(8)));
    if (packed) z = n.slice(unpacked(n, z, bits), int64_t(s.size()) - 1, 0, blocks);
    zero = n.reshape(z, {count, blocks});
  }
  const PrimExpr width = out[out.size() - 1];
  const auto w = tir::as_int(width), b = tir::as_int(blocks);
  if (!w || !b || !is_size(block) || *w > *b * block || *b * block - *w >= block || !same_rows)
    n.malformed("the scales of GatherBlockQuantized do not fit its data");
  data = n.reshape(data, {count, width});
  if (*w != *b * block)
    data = n.op("pad", {data},
                make_attrs<PadAttrs>(Array<int64_t>{0, 0, 0, *b * block - *w}, std::string("constant"), 0.0));
  Expr y = from_blocks(n, data, n.reshape(scale, {count, blocks}), zero, block);
  if (*w != *b * block) y = n.slice(y, 1, 0, width);
  return {n.reshape(y, out)};
}
const R m2("com.microsoft::GatherBlockQuantized", {1}, gather_block_quantized, "blocks along the last axis");

/// An LSTM of real weights: inputs and states are not quantised, which is more exact than ONNX Runtime is.
Values dynamic_quantize_lstm(N& n) {
  const auto weights = [&](size_t i, size_t scale) {
    const Shape s = n.known_shape(i);  // (directions, inputs, gates · hidden)
    if (s.size() != 3) n.malformed("the weights of DynamicQuantizeLSTM have another rank than 3");
    const auto each = [&](size_t k) {
      const Shape p = n.known_shape(k);
      return n.reshape(n.cast(n.in(k), f32), {s[0], PrimExpr(1), p.size() == 2 ? p[1] : PrimExpr(1)});
    };
    const Expr steps = n.op("subtract", {n.cast(n.in(i), f32), each(scale + 1)});
    return n.transpose(n.op("multiply", {steps, each(scale)}), {0, 2, 1});
  };
  return convert_as(
      n, "LSTM", {n.in(0), weights(1, 8), weights(2, 10), n.opt(3), n.opt(4), n.opt(5), n.opt(6), n.opt(7)});
}
const R l1("com.microsoft::DynamicQuantizeLSTM", {1}, dynamic_quantize_lstm, "inputs stay real numbers");

}  // namespace
}  // namespace tenon::onnx
