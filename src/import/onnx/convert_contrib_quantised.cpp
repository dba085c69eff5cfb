// SPDX-License-Identifier: Apache-2.0
// Converters: quantised operators of com.microsoft, as ONNX Runtime's quantiser writes them. Each is the
// standard operator between dequantisation and quantisation, which fake_quantization_to_integer makes one
// integer program of.
#include "import/onnx/importer.h"
#include "op/attrs_qnn.h"
#include "op/qnn.h"

namespace tenon::onnx {
namespace {

using N = NodeContext;
using R = RegisterConverter;
using namespace op;

/// Scale and zero point at inputs i and i + 1 are scalars (or vectors along `axis` of the tensor); a zero
/// point left out is 0, another one is of the tensor's type.
Expr zero_point(N& n, size_t i, DataType t) {
  if (!n.has(i)) return n.scalar(0, t);
  if (n.dtype(i) != t)
    n.malformed(fmt::format("the zero points of {} are of another type than its data", n.op_type()));
  return n.in(i);
}
ObjectRef along(int64_t axis, DataType out = DataType::void_()) {
  return make_attrs<QuantizeAttrs>([&](QuantizeAttrs& a) { a.axis = axis, a.out_dtype = out; });
}
Expr dequantized(N& n, size_t x, size_t scale, int64_t axis = -1) {
  n.expect_quantised({x});
  return n.op("qnn.dequantize", {n.in(x), n.in(scale), zero_point(n, scale + 1, n.dtype(x))}, along(axis));
}
Expr quantized(N& n, const Expr& y, size_t scale, DataType t) {
  return n.op("qnn.quantize", {y, n.in(scale), zero_point(n, scale + 1, t)}, along(-1, t));
}

Values binary(N& n) {
  const char* op = n.op_type() == "QLinearAdd" ? "Add" : "Mul";
  const Values y = convert_as(n, op, {dequantized(n, 0, 1), dequantized(n, 3, 4)});
  return {quantized(n, y[0].expr, 6, n.dtype(0))};
}
const R q1("com.microsoft::QLinearAdd", {1}, binary), q2("com.microsoft::QLinearMul", {1}, binary);

/// The operator without its prefix QLinear on one tensor; `channels_last` says where its channels lie.
Values unary(N& n) {
  const std::string op = n.op_type().substr(std::string_view("QLinear").size());
  const int64_t rank = n.rank(0), opset = op == "Softmax"      ? n.attr_int("opset", 13)
                                          : op == "ReduceMean" ? 13
                                                               : 0;
  const bool last = n.attr_int("channels_last", 0) != 0;
  std::vector<int64_t> first, back;
  for (int64_t i = 0; i < rank; ++i) {
    first.push_back(i == 0 ? 0 : i == 1 ? rank - 1 : i - 1);
    back.push_back(i == 0 ? 0 : i == rank - 1 ? 1 : i + 1);
  }
  Expr x = dequantized(n, 0, 1);
  if (last) x = n.transpose(x, first);
  Expr y = convert_as(n, op.c_str(), {x}, opset)[0].expr;
  if (last) y = n.transpose(y, back);
  return {quantized(n, y, 3, n.dtype(0))};
}
const R u1("com.microsoft::QLinearLeakyRelu", {1}, unary), u2("com.microsoft::QLinearSigmoid", {1}, unary),
    u3("com.microsoft::QLinearSoftmax", {1}, unary), u4("com.microsoft::QLinearAveragePool", {1}, unary),
    u5("com.microsoft::QLinearGlobalAveragePool", {1}, unary);

Values concat(N& n) {
  Array<Expr> parts;
  if (n.inputs() < 5 || n.inputs() % 3 != 2)
    n.malformed(fmt::format(
        "QLinearConcat takes a scale, a zero point and three inputs for each tensor, not {}", n.inputs()));
  for (size_t i = 2; i < n.inputs(); i += 3) parts.push_back(dequantized(n, i, i + 1));
  return {quantized(n, convert_as(n, "Concat", parts)[0].expr, 0, n.dtype(2))};
}
const R c1("com.microsoft::QLinearConcat", {1}, concat);

Values where(N& n) {
  const Expr y = convert_as(n, "Where", {n.in(0), dequantized(n, 1, 2), dequantized(n, 4, 5)})[0].expr;
  return {quantized(n, y, 7, n.dtype(1))};
}
const R w1("com.microsoft::QLinearWhere", {1}, where);

/// alpha · A · B + C of quantised A and B; the result stays real where no scale is given for it.
Values gemm(N& n) {
  const int64_t channels = n.attr_int("transB", 0) != 0 ? 0 : 1;
  Array<Expr> inputs{dequantized(n, 0, 1), dequantized(n, 3, 4, channels)};
  if (n.has(6)) {
    // The bias counts in products of both scales.
    const Expr steps = n.op("multiply", {n.emit(op::product_of_scales(n.in(1), n.in(4))),
                                         n.scalar(n.attr_float("alpha", 1), f32)});
    inputs.push_back(n.op("multiply", {n.cast(n.in(6), f32), steps}));
  }
  const Expr y = convert_as(n, "Gemm", inputs)[0].expr;
  return {n.has(7) ? quantized(n, y, 7, n.dtype(0)) : y};
}
const R g1("com.microsoft::QGemm", {1}, gemm);

/// Products of integers as real numbers: A, B, their scales and zero points, and a bias.
Values matmul_integer_to_float(N& n) {
  const int64_t rank = n.rank(1);
  auto real = [&](size_t x, size_t scale, size_t zero) {
    return n.op("qnn.dequantize", {n.in(x), n.in(scale), zero_point(n, zero, n.dtype(x))}, along(rank - 1));
  };
  const Expr y = n.op("matmul", {real(0, 2, 4), real(1, 3, 5)});
  return {n.has(6) ? n.op("add", {y, n.in(6)}) : y};
}
const R m1("com.microsoft::MatMulIntegerToFloat", {1}, matmul_integer_to_float);

/// A of floats is quantised to bytes with the scale that fits it, then multiplied.
Values dynamic_quantize_matmul(N& n) {
  const Expr all = n.op("qnn.dynamic_quantize", {n.in(0)});
  const Expr a = n.op("qnn.dequantize", {n.item(all, 0), n.item(all, 1), n.item(all, 2)}, along(-1));
  const Expr b =
      n.op("qnn.dequantize", {n.in(1), n.in(2), zero_point(n, 3, n.dtype(1))}, along(n.rank(1) - 1));
  const Expr y = n.op("matmul", {a, b});
  return {n.has(4) ? n.op("add", {y, n.in(4)}) : y};
}
const R m2("com.microsoft::DynamicQuantizeMatMul", {1}, dynamic_quantize_matmul);

}  // namespace
}  // namespace tenon::onnx
