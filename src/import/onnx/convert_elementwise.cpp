// SPDX-License-Identifier: Apache-2.0
// Converters: element-wise operators, activations, casts, quantisation.
#include <cmath>

#include "base/stored_types.h"
#include "import/onnx/codes.h"
#include "import/onnx/text.h"
#include "op/attrs_qnn.h"

namespace tenon::onnx {
namespace {

using namespace op;
using N = NodeContext;
using R = RegisterConverter;

// ---------------------------------------------------------------- one operand
const std::map<std::string, const char*>& unary_names() {
  static const std::map<std::string, const char*> names{{"Abs", "abs"},
                                                        {"Neg", "negative"},
                                                        {"Sign", "sign"},
                                                        {"Floor", "floor"},
                                                        {"Ceil", "ceil"},
                                                        {"Round", "round"},
                                                        {"Exp", "exp"},
                                                        {"Log", "log"},
                                                        {"Sqrt", "sqrt"},
                                                        {"Sin", "sin"},
                                                        {"Cos", "cos"},
                                                        {"Tan", "tan"},
                                                        {"Asin", "asin"},
                                                        {"Acos", "acos"},
                                                        {"Atan", "atan"},
                                                        {"Sinh", "sinh"},
                                                        {"Cosh", "cosh"},
                                                        {"Tanh", "tanh"},
                                                        {"Asinh", "asinh"},
                                                        {"Acosh", "acosh"},
                                                        {"Atanh", "atanh"},
                                                        {"Erf", "erf"},
                                                        {"Sigmoid", "sigmoid"},
                                                        {"Not", "logical_not"},
                                                        {"BitwiseNot", "bitwise_not"},
                                                        {"IsNaN", "isnan"},
                                                        {"Relu", "nn.relu"},
                                                        {"Softplus", "nn.softplus"},
                                                        {"Softsign", "nn.softsign"},
                                                        {"HardSwish", "nn.hard_swish"},
                                                        {"Mish", "nn.mish"},
                                                        {"Reciprocal", "reciprocal"}};
  return names;
}
Values unary(N& n) { return {n.op(unary_names().at(n.op_type()), {n.in(0)})}; }

const R u1("Abs", {1, 6, 13}, unary, {.operations = 1, .as_in_six = true}),
    u2("Neg", {1, 6, 13}, unary, {.operations = 1, .as_in_six = true}), u3("Sign", {9, 13}, unary),
    u4("Floor", {1, 6, 13}, unary, {.as_in_six = true}), u5("Ceil", {1, 6, 13}, unary, {.as_in_six = true}),
    u6("Round", {11, 22}, unary), u7("Exp", {1, 6, 13}, unary, {.operations = 2, .as_in_six = true}),
    u8("Log", {1, 6, 13}, unary, {.operations = 2, .as_in_six = true}),
    u9("Sqrt", {1, 6, 13}, unary, {.operations = 1, .as_in_six = true}),
    u10("Reciprocal", {1, 6, 13}, unary, {.operations = 1, .as_in_six = true}), u11("Sin", {7, 22}, unary),
    u12("Cos", {7, 22}, unary), u13("Tan", {7, 22}, unary), u14("Asin", {7, 22}, unary),
    u15("Acos", {7, 22}, unary), u16("Atan", {7, 22}, unary), u17("Sinh", {9, 22}, unary),
    u18("Cosh", {9, 22}, unary), u19("Tanh", {1, 6, 13}, unary, {.operations = 4, .as_in_six = true}),
    u20("Asinh", {9, 22}, unary), u21("Acosh", {9, 22}, unary), u22("Atanh", {9, 22}, unary),
    u23("Erf", {9, 13}, unary, {.operations = 4}),
    u24("Sigmoid", {1, 6, 13}, unary, {.operations = 4, .as_in_six = true}), u25("Not", {1}, unary),
    u26("BitwiseNot", {18}, unary), u27("IsNaN", {9, 13, 20}, unary),
    u28("Relu", {1, 6, 13, 14}, unary, {.operations = 1, .as_in_six = true}), u29("Softplus", {1, 22}, unary),
    u30("Softsign", {1, 22}, unary), u31("HardSwish", {14, 22}, unary, {.operations = 5}),
    u32("Mish", {18, 22}, unary);

Values is_inf(N& n) {
  Expr x = n.in(0);
  const bool neg = n.attr_int("detect_negative", 1) != 0, pos = n.attr_int("detect_positive", 1) != 0;
  Expr inf = n.op("isinf", {x});
  if (neg && pos) return {inf};
  if (!neg && !pos) return {n.op("logical_and", {inf, n.op("logical_not", {inf})})};
  return {n.op("logical_and", {inf, n.op(pos ? "greater" : "less", {x, n.scalar(0, n.dtype(0))})})};
}
const R inf("IsInf", {10, 20}, is_inf);

Values alpha_op(N& n) {
  struct Row {
    const char* op;
    double alpha;
  };
  static const std::map<std::string, Row> rows{{"LeakyRelu", {"nn.leaky_relu", 0.01}},
                                               {"Elu", {"nn.elu", 1}},
                                               {"Celu", {"nn.celu", 1}},
                                               {"ThresholdedRelu", {"nn.thresholded_relu", 1}}};
  const Row& r = rows.at(n.op_type());
  return {n.op(r.op, {n.in(0)}, make_attrs<AlphaAttrs>(n.attr_float("alpha", r.alpha)))};
}
const R a1("LeakyRelu", {1, 6, 16}, alpha_op, {.operations = 2, .as_in_six = true}),
    a2("Elu", {1, 6, 22}, alpha_op, {.as_in_six = true}), a3("Celu", {12, 28}, alpha_op),
    a4("ThresholdedRelu", {10, 22}, alpha_op);

Values selu(N& n) {
  return {n.op("nn.selu", {n.in(0)},
               make_attrs<SeluAttrs>(n.attr_float("alpha", 1.67326319217681884765625),
                                     n.attr_float("gamma", 1.05070102214813232421875)))};
}
Values hard_sigmoid(N& n) {
  return {n.op("nn.hard_sigmoid", {n.in(0)},
               make_attrs<HardSigmoidAttrs>(n.attr_float("alpha", 0.2), n.attr_float("beta", 0.5)))};
}
Values gelu(N& n) {
  const std::string kind = n.attr_string("approximate", "none");
  if (kind != "none" && kind != "tanh")
    n.malformed("the attribute 'approximate' of Gelu must be 'none' or 'tanh'");
  return {n.op("nn.gelu", {n.in(0)}, make_attrs<GeluAttrs>(kind))};
}
Values swish(N& n) {
  const double alpha = n.attr_float("alpha", 1);
  if (alpha == 1) return {n.op("nn.silu", {n.in(0)})};
  Expr x = n.in(0);
  return {n.op("multiply", {x, n.op("sigmoid", {n.op("multiply", {x, n.scalar(alpha, n.dtype(0))})})})};
}
Values swiglu(N& n) {
  // Both operands have one shape: nothing is stretched.
  if (n.rank(0) != n.rank(1))
    n.malformed(fmt::format("SwiGLU of tensors of rank {} and {}", n.rank(0), n.rank(1)));
  const auto a = graph::known_shape(n.in(0)), b = graph::known_shape(n.in(1));
  for (size_t i = 0; a && b && i < a->size(); ++i) n.require_equal((*b)[i], (*a)[i]);
  return {n.op("multiply", {swish(n)[0].expr, n.in(1)})};
}
Values prelu(N& n) {
  Expr slope = n.in(1);
  if (n.opset < 7 && n.rank(1) == 1 && n.rank(0) > 2) {  // one slope per channel
    Array<PrimExpr> shape{n.known_shape(1)[0]};
    for (int64_t i = 2; i < n.rank(0); ++i) shape.push_back(PrimExpr(1));
    slope = n.reshape(slope, shape);
  }
  Expr x = n.in(0);
  n.align(x, slope, true);
  return {n.op("nn.prelu", {x, slope})};
}
Values shrink(N& n) {
  // Integers are compared with the attributes and shifted by them as real numbers.
  const DataType t = n.dtype(0).is_float() ? n.dtype(0) : f64;
  Expr x = n.cast(n.in(0), t);
  const double bias = n.attr_float("bias", 0), lambd = n.attr_float("lambd", 0.5);
  Expr above = n.op("subtract", {x, n.scalar(bias, t)}), below = n.op("add", {x, n.scalar(bias, t)});
  Expr inner = n.op("where", {n.op("less", {x, n.scalar(-lambd, t)}), below, n.scalar(0, t)});
  return {n.cast(n.op("where", {n.op("greater", {x, n.scalar(lambd, t)}), above, inner}), n.dtype(0))};
}
const R b1("Selu", {1, 6, 22}, selu),
    b2("HardSigmoid", {1, 6, 22}, hard_sigmoid, {.operations = 3, .as_in_six = true}),
    b3("Gelu", {20}, gelu, {.operations = 6}), b4("Swish", {24}, swish),
    b5("PRelu", {1, 6, 7, 9, 16}, prelu, {.operations = 2, .as_in_six = true}), b6("Shrink", {9}, shrink),
    b7("SwiGLU", {28}, swiglu);

Values clip(N& n) {
  Expr x = n.in(0);
  const DataType t = n.dtype(0);
  if (n.since < 11) {
    const double lo = n.attr_float("min", -INFINITY), hi = n.attr_float("max", INFINITY);
    return {n.op("clip", {x}, make_attrs<ClipAttrs>(lo, hi))};
  }
  auto bound = [&](size_t i) -> std::optional<double> {
    if (!n.has(i)) return i == 1 ? -INFINITY : INFINITY;
    if (n.dtype(i) != t) n.malformed("the bounds of Clip are of another type than its input");
    const auto* c = n.in(i).as<graph::Constant>();
    if (c && c->data.size() == 1) return c->data.element(0);
    return std::nullopt;
  };
  const auto lo = bound(1), hi = bound(2);
  if (t.is_float() && lo && hi && !std::isnan(*lo) && !std::isnan(*hi))
    return {n.op("clip", {x}, make_attrs<ClipAttrs>(*lo, *hi))};
  if (n.has(1)) x = n.op("maximum", {x, n.in(1)});
  if (n.has(2)) x = n.op("minimum", {x, n.in(2)});
  return {x};
}
const R c1("Clip", {1, 6, 11, 12, 13}, clip, {.operations = 2, .as_in_six = true});

// ---------------------------------------------------------------- two operands and more
const std::map<std::string, const char*>& binary_names() {
  static const std::map<std::string, const char*> names{{"Add", "add"},
                                                        {"Sub", "subtract"},
                                                        {"Mul", "multiply"},
                                                        {"Div", "divide"},
                                                        {"Equal", "equal"},
                                                        {"Less", "less"},
                                                        {"Greater", "greater"},
                                                        {"LessOrEqual", "less_equal"},
                                                        {"GreaterOrEqual", "greater_equal"},
                                                        {"And", "logical_and"},
                                                        {"Or", "logical_or"},
                                                        {"Xor", "logical_xor"},
                                                        {"BitwiseAnd", "bitwise_and"},
                                                        {"BitwiseOr", "bitwise_or"},
                                                        {"BitwiseXor", "bitwise_xor"},
                                                        {"Max", "maximum"},
                                                        {"Min", "minimum"},
                                                        {"Sum", "add"}};
  return names;
}
/// Input 1. Before version 7 operands have equal shapes, or the attribute `broadcast` says that the second
/// one is stretched, its axes beginning at `axis`.
Expr old_broadcast(N& n) {
  Expr b = n.in(1);
  if (n.opset >= 7) return b;
  const int64_t ra = n.rank(0), rb = n.rank(1);
  if (n.attr_int("broadcast", 0) == 0) {
    if (ra != rb)
      n.malformed(fmt::format("{} of tensors of rank {} and {} without 'broadcast'", n.op_type(), ra, rb));
    return b;
  }
  if (!n.has_attr("axis") || rb == 0) return b;
  const int64_t axis = n.axis(n.attr_int("axis", 0), ra);
  if (axis + rb > ra)
    n.malformed(
        fmt::format("{} cannot stretch rank {} from axis {} over rank {}", n.op_type(), rb, axis, ra));
  Array<PrimExpr> shape = n.known_shape(1);
  for (int64_t i = axis + rb; i < ra; ++i) shape.push_back(PrimExpr(1));
  return n.reshape(b, shape);
}
Values binary(N& n) {
  if (n.inputs() != 2) n.malformed(fmt::format("{} takes 2 inputs, {} are given", n.op_type(), n.inputs()));
  return {n.binary(binary_names().at(n.op_type()), n.in(0), old_broadcast(n))};
}
const R d1("Add", {1, 6, 7, 13, 14}, binary, {.operations = 1, .as_in_six = true}),
    d2("Sub", {1, 6, 7, 13, 14}, binary, {.operations = 1, .as_in_six = true}),
    d3("Mul", {1, 6, 7, 13, 14}, binary, {.operations = 1, .as_in_six = true}),
    d4("Div", {1, 6, 7, 13, 14}, binary, {.operations = 1, .as_in_six = true}),
    d5("Equal", {1, 7, 11, 13, 19}, binary), d6("Less", {1, 7, 9, 13}, binary),
    d7("Greater", {1, 7, 9, 13}, binary), d8("LessOrEqual", {12, 16}, binary),
    d9("GreaterOrEqual", {12, 16}, binary), d10("And", {1, 7}, binary), d11("Or", {1, 7}, binary),
    d12("Xor", {1, 7}, binary), d13("BitwiseAnd", {18}, binary), d14("BitwiseOr", {18}, binary),
    d15("BitwiseXor", {18}, binary);

Values variadic(N& n) {
  Expr x = n.in(0);
  const char* name = n.op_type() == "Mean" ? "add" : binary_names().at(n.op_type());
  for (size_t i = 1; i < n.inputs(); ++i) x = n.binary(name, x, n.in(i));
  if (n.op_type() == "Mean" && n.inputs() > 1)
    x = n.op("divide", {x, n.scalar(double(n.inputs()), n.dtype(0))});
  return {x};
}
const R e1("Sum", {1, 6, 8, 13}, variadic, {.operations = 1, .as_in_six = true}),
    e2("Mean", {1, 6, 8, 13}, variadic, {.operations = 1, .as_in_six = true}),
    e3("Max", {1, 6, 8, 12, 13}, variadic, {.operations = 1, .as_in_six = true}),
    e4("Min", {1, 6, 8, 12, 13}, variadic, {.operations = 1, .as_in_six = true});

Values pow(N& n) {
  Expr a = n.in(0), b = old_broadcast(n);
  n.align(a, b);
  const DataType t = n.dtype(0), u = n.dtype(1);
  if (t == u) return {n.op("power", {a, b})};
  // The result has the base's type; a fractional exponent must not be cut off before.
  if (t.is_integer() && u.is_float()) return {n.cast(n.op("power", {n.cast(a, u), b}), t)};
  return {n.op("power", {a, n.cast(b, t)})};
}
Values mod(N& n) {
  const bool fmod = n.attr_int("fmod", 0) != 0;
  const int64_t floats_since = 28;
  if (!fmod && n.dtype(0).is_float() && n.since < floats_since)
    n.malformed("Mod of floating numbers needs fmod=1 before operator set 28");
  return {n.binary(fmod ? "mod" : "floor_mod", n.in(0), n.in(1))};
}
Values bit_shift(N& n) {
  const std::string direction = n.attr_string("direction", "");
  if (direction != "LEFT" && direction != "RIGHT")
    n.malformed("the attribute 'direction' of BitShift must be 'LEFT' or 'RIGHT'");
  return {n.binary(direction == "LEFT" ? "left_shift" : "right_shift", n.in(0), n.in(1))};
}
Values where(N& n) {
  Expr c = n.in(0), x = n.in(1), y = n.in(2);
  n.align(x, y);
  n.align(x, c);
  n.align(y, c);
  return {n.op("where", {c, x, y})};
}
const R f1("Pow", {1, 7, 12, 13, 15}, pow, {.operations = 4}), f2("Mod", {10, 13, 28}, mod),
    f3("BitShift", {11, 28}, bit_shift), f4("Where", {9, 16}, where, {.operations = 1});

// ---------------------------------------------------------------- types
Expr saturated(N& n, const Expr& x, DataType to) {
  const double most = to.code == TypeCode::Float8_e4m3fn     ? 448
                      : to.code == TypeCode::Float8_e4m3fnuz ? 240
                                                             : 57344;
  return n.op("clip", {x}, make_attrs<ClipAttrs>(-most, most));
}
bool holds_strings(N& n, size_t i) { return n.form(i) && n.form(i)->kind == Form::strings; }
Values cast(N& n) {
  DataType to;
  const bool to_text = n.op_type() == "CastLike" ? holds_strings(n, 1) : n.need_int("to") == kString;
  if (to_text && holds_strings(n, 0)) return {n.value(0)};
  if (to_text) return {strings_of_numbers(n, number_input(n, 0))};
  if (n.op_type() == "CastLike") {
    to = n.form(1) ? n.form(1)->element : n.dtype(1);
  } else {
    const int64_t code = n.need_int("to");
    to = stored_type(int(code));
    if (to.is_void() || code != int(code))
      n.unsupported(fmt::format("a cast to {} is not supported", onnx_type_name(int(code))));
  }
  // A string that becomes one of the stored types is a float first.
  Expr x = holds_strings(n, 0) ? numbers_of_strings(n, n.in(0), is_stored_only(to) ? f32 : to)
                               : number_input(n, 0);
  const DataType from = graph::as_tensor(x)->dtype;
  if (is_stored_only(to)) {
    const std::string mode = n.attr_string("round_mode", "up");
    if (mode != "up" && mode != "down" && mode != "nearest")
      n.malformed(fmt::format("'round_mode' of {} is {}", n.op_type(), in_quotes(mode)));
    return {codes_of(n, from.is_float() ? x : n.cast(x, f32), to,
                     mode == "up"     ? CodeRounding::up
                     : mode == "down" ? CodeRounding::down
                                      : CodeRounding::nearest,
                     n.attr_int("saturate", 1) != 0)};
  }
  // Values beyond an 8-bit float's range become its largest one unless asked otherwise; beyond a 4-bit
  // integer's they wrap.
  if (to.is_float8() && !from.is_float8() && n.attr_int("saturate", 1) != 0) x = saturated(n, x, to);
  if (to.is_integer() && to.bits < 8 && from.is_float()) x = n.cast(x, i32);
  return {n.cast(x, to)};
}
const R g1("Cast", {1, 6, 9, 13, 19, 21, 23, 24, 25, 28}, cast, "", Forms::any),
    g2("CastLike", {15, 19, 21, 23, 24, 25}, cast, "", Forms::any);

// ---------------------------------------------------------------- quantisation
/// A per-axis vector shaped to broadcast against x: (…, 1, C, 1, …). Scalars and vectors of one pass through.
Expr along(N& n, const Expr& v, int64_t rank, int64_t axis) {
  const auto* t = graph::as_tensor(v);
  const auto s = graph::known_shape(v);
  if (!t || !s) n.unsupported("quantisation parameters of unknown shape are not supported");
  if (s->size() == 0) return v;
  if (s->size() > 1) n.unsupported("blocked quantisation is not supported");
  if (tir::is_const_int((*s)[0], 1)) return n.reshape(v, {});
  Array<PrimExpr> shape;
  for (int64_t i = 0; i < rank; ++i) shape.push_back(i == axis ? (*s)[0] : PrimExpr(1));
  return n.reshape(v, shape);
}
/// A vector of scales or zero points, of more than one element, has one for each of the axis.
void expect_along(N& n, const Expr& v, const PrimExpr& size) {
  const auto s = graph::known_shape(v);
  if (!s || s->size() != 1 || !tir::as_int((*s)[0]) || tir::is_one((*s)[0])) return;
  if (tir::as_int(size).value_or(*tir::as_int((*s)[0])) != *tir::as_int((*s)[0]))
    n.malformed(fmt::format("{} has {} scales or zero points for an axis of {} elements", n.op_type(),
                            *tir::as_int((*s)[0]), *tir::as_int(size)));
  n.require_equal(size, (*s)[0]);
}
/// Zero points are as many as scales.
void expect_as_many(N& n, const Expr& scale, const Expr& zero) {
  const auto count = [](const Expr& v) -> PrimExpr {
    const auto s = v ? graph::known_shape(v) : std::nullopt;
    if (!s || s->size() > 1) return {};
    return s->empty() ? PrimExpr(1) : (*s)[0];
  };
  const PrimExpr scales = count(scale), points = count(zero);
  if (!scales || !points) return;
  const auto p = tir::as_int(scales), q = tir::as_int(points);
  if (p && q && *p != *q)
    n.malformed(fmt::format("{} has {} scales and {} zero points", n.op_type(), *p, *q));
  n.require_equal(points, scales);
}
/// Whether qnn.quantize and qnn.dequantize say it: steps of float32, and integers whose difference from the
/// zero point a float32 holds; of wide ones (biases), that of 0.
bool is_qnn(DataType integers, const Expr& scale, const Expr& zero) {
  if (!integers.is_integer() || graph::as_tensor(scale)->dtype != f32) return false;
  if (integers.bits <= 16) return true;
  const auto* z = zero.as<graph::Constant>();
  for (int64_t i = 0; z && i < z->data.size(); ++i)
    if (z->data.element_int(i) != 0) return false;
  return z || !zero;
}
Value quantize(N& n, const Expr& x, const Expr& scale, const Expr& zero, DataType to) {
  const DataType wide = graph::as_tensor(scale)->dtype;
  if (is_stored_only(to)) {
    const Expr q = n.op("divide", {n.cast(x, wide), scale});
    return codes_of(n, zero ? n.op("add", {q, n.cast(zero, wide)}) : q, to, CodeRounding::nearest, true);
  }
  Expr q = n.op("round", {n.op("divide", {n.cast(x, wide), scale})});
  if (to.is_float8()) {
    q = n.op("divide", {n.cast(x, wide), scale});
    return n.cast(saturated(n, zero ? n.op("add", {q, n.cast(zero, wide)}) : q, to), to);
  }
  if (zero) q = n.op("add", {q, n.cast(zero, wide)});
  const double lo = to.is_int() ? -std::ldexp(1.0, to.bits - 1) : 0,
               hi = std::ldexp(1.0, to.bits - (to.is_int() ? 1 : 0)) - 1;
  return n.cast(n.op("clip", {q}, make_attrs<ClipAttrs>(lo, hi)), to);
}
Expr dequantize(N& n, const Expr& x, const Expr& scale, const Expr& zero) {
  const DataType wide = graph::as_tensor(scale)->dtype;
  const DataType step = graph::as_tensor(x)->dtype.is_float() ? wide : i32;
  Expr v = n.cast(x, step);
  if (zero) v = n.op("subtract", {v, n.cast(zero, step)});
  return n.op("multiply", {n.cast(v, wide), scale});
}
/// What a quantisation makes.
DataType quantized_type(N& n) {
  DataType to = !n.has(2) ? tenon::u8 : n.form(2) ? n.form(2)->element : n.dtype(2);
  if (const int64_t code = n.attr_int("output_dtype", 0); code != 0) {
    const DataType wanted = stored_type(int(code));
    if (n.has(2) && wanted != to)
      n.malformed(fmt::format("the zero points of {} are of another type than 'output_dtype'", n.op_type()));
    to = wanted;
  }
  constexpr int kMostBits = 16;  // int32 is what sums are dequantised from, never what values become
  if ((!to.is_integer() || to.is_bool() || to.bits > kMostBits) && !to.is_float8() && !is_stored_only(to))
    n.unsupported("quantisation to this type is not supported");
  return to;
}
/// Scales are real, and zero points are numbers of what is quantised.
void expect_scales(N& n) {
  if (!n.form(1) && (!n.dtype(1).is_float() || n.dtype(1) == f64))
    n.malformed(fmt::format("the scales of {} are {}, which is no type of scales", n.op_type(),
                            to_string(n.dtype(1))));
  if (!n.has(2) || n.op_type() == "QuantizeLinear") return;
  const auto stored = [&](size_t i) { return n.form(i) ? n.form(i)->element : n.dtype(i); };
  if (stored(0) != stored(2))
    n.malformed(fmt::format("the zero points of {} are of another type than its data", n.op_type()));
}
/// A scale for each so many elements of an axis.
Values quantize_blocks(N& n, int64_t block) {
  const auto s = n.known_shape(0), p = n.known_shape(1);
  const int64_t axis = n.axis(n.attr_int("axis", 1), n.rank(0));
  bool fits = block >= 1 && p.size() == s.size();
  for (size_t i = 0; fits && i < s.size(); ++i) {
    const auto have = tir::as_int(p[i]), size = tir::as_int(s[i]);
    const int64_t each = int64_t(i) == axis ? block : 1;
    fits = !have || !size || *have == *size / each + int64_t(*size % each != 0);
  }
  if (!fits) n.malformed(fmt::format("the scales of {} do not fit its blocks", n.op_type()));
  auto spread = [&](const Expr& e) {
    const Expr all = n.op("repeat", {e}, make_attrs<RepeatAttrs>(block, axis));
    return n.op("slice_to", {all, graph::shape_expr(s)});
  };
  const Expr scale = spread(n.in(1)), zero = n.has(2) ? spread(number_input(n, 2)) : Expr();
  if (n.op_type() == "DequantizeLinear") return {dequantize(n, number_input(n, 0), scale, zero)};
  const DataType to = quantized_type(n);
  return {quantize(n, n.in(0), scale, zero, to)};
}
Values quantize_linear(N& n) {
  expect_scales(n);
  if (const int64_t block = n.attr_int("block_size", 0)) return quantize_blocks(n, block);
  const int64_t rank = n.rank(0),
                axis = rank == 0 ? 0
                                 : n.axis(n.attr_int("axis", 1) >= rank && n.attr_int("axis", 1) == 1
                                              ? rank - 1
                                              : n.attr_int("axis", 1),
                                          rank);
  const bool back = n.op_type() == "DequantizeLinear";
  const Expr x = number_input(n, 0), step = number_input(n, 1),
             point = n.has(2) ? number_input(n, 2) : Expr();
  if (const auto shape = n.shape(0); shape && rank > 0)
    for (const Expr& v : {step, point})
      if (v) expect_along(n, v, (*shape)[size_t(axis)]);
  expect_as_many(n, step, point);
  const DataType to = back ? graph::as_tensor(x)->dtype : quantized_type(n);
  if (!to.is_integer() && !to.is_float8() && !is_stored_only(to) && !n.form(0))
    n.unsupported("quantisation of this type is not supported");
  if (is_qnn(to, n.in(1), point) && n.rank(1) <= 1 && (back || graph::as_tensor(n.in(0))->dtype == f32))
    return {n.op(back ? "qnn.dequantize" : "qnn.quantize", {x, n.in(1), point ? point : n.scalar(0, to)},
                 make_attrs<QuantizeAttrs>([&](QuantizeAttrs& a) {
                   a.axis = axis;
                   if (!back) a.out_dtype = to;
                 }))};
  Expr scale = along(n, n.in(1), rank, axis);
  Expr zero = point ? along(n, point, rank, axis) : Expr();
  return {back ? Value(dequantize(n, x, scale, zero)) : quantize(n, x, scale, zero, to)};
}
const R q1("QuantizeLinear", {10, 13, 19, 21, 23, 24, 25, 28}, quantize_linear, "per tensor, axis or block",
           Forms::any),
    q2("DequantizeLinear", {10, 13, 19, 21, 23, 24, 25, 28}, quantize_linear, "per tensor, axis or block",
       Forms::any);

Values dynamic_quantize(N& n) {
  Expr x = n.in(0);
  auto all = make_attrs<ReduceAttrs>();
  Expr lo = n.op("minimum", {n.op("min", {x}, all), n.scalar(0, f32)}),
       hi = n.op("maximum", {n.op("max", {x}, all), n.scalar(0, f32)});
  Expr scale = n.op("divide", {n.op("subtract", {hi, lo}), n.scalar(255, f32)});
  // Nothing but zeros, or no elements: any scale does, but 0.
  scale = n.op("where", {n.op("equal", {scale, n.scalar(0, f32)}), n.scalar(1, f32), scale});
  Expr zero = n.op("round", {n.op("clip", {n.op("divide", {n.op("negative", {lo}), scale})},
                                  make_attrs<ClipAttrs>(0.0, 255.0))});
  Expr zero8 = n.cast(zero, tenon::u8);
  return {quantize(n, x, scale, zero8, tenon::u8), scale, zero8};
}
const R q3("DynamicQuantizeLinear", {11}, dynamic_quantize);

}  // namespace
}  // namespace tenon::onnx
