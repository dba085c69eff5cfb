// SPDX-License-Identifier: Apache-2.0
#include "import/onnx/small_arithmetic.h"

#include <algorithm>
#include <cmath>

#include "analysis/analyzer.h"
#include "import/onnx/small.h"

namespace tenon::onnx {

PrimExpr number(DataType t, double v) {
  return t.is_float() ? PrimExpr::float_imm(t == f32 ? double(float(v)) : v, t)
                      : PrimExpr::int_imm(int64_t(v), t);
}
PrimExpr integer(DataType t, int64_t v) {
  if (t.is_bool()) return PrimExpr::int_imm(v != 0, t);
  const int shift = 64 - t.bits;
  if (shift > 0)
    v = t.is_int() ? int64_t(uint64_t(v) << shift) >> shift : int64_t(uint64_t(v) << shift >> shift);
  return PrimExpr::int_imm(v, t);
}

namespace {

/// A number of uint64 from 2⁶³ on, which is held as a negative one.
bool is_huge(const PrimExpr& e) {
  const auto v = tir::as_int(e);
  return v && *v < 0 && e.dtype().is_uint();
}
/// What a float becomes that may be beyond the type: its nearest number, of NaN 0.
PrimExpr nearest_integer(DataType t, double v) {
  if (std::isnan(v)) return integer(t, 0);
  const double top = std::ldexp(1.0, t.is_uint() ? t.bits : t.bits - 1);
  if (t.is_uint() && v < 0) return integer(t, 0);
  if (v >= top) return integer(t, t.is_uint() ? -1 : int64_t(~uint64_t(0) >> (65 - t.bits)));
  if (v < -top) return integer(t, int64_t(uint64_t(-1) << (t.bits - 1)));
  return std::abs(v) < 9e15 ? integer(t, int64_t(v)) : PrimExpr();
}

/// Simplified, unless there is nothing to simplify.
PrimExpr tidy(const PrimExpr& e) { return e.is<tir::IntImm>() || e.is<tir::Var>() ? e : simplify(e); }

/// Minus an integer number; the least one stays what it is.
PrimExpr negative(const PrimExpr& e) { return integer(e.dtype(), int64_t(-uint64_t(*tir::as_int(e)))); }

/// -1, 0 or 1 where the order is known; of NaN it is not.
std::optional<int> compare(const PrimExpr& a, const PrimExpr& b) {
  const auto x = number_of(a), y = number_of(b);
  if (is_huge(a) || is_huge(b)) return std::nullopt;
  if (x && y) {
    const auto i = tir::as_int(a), j = tir::as_int(b);
    if (i && j) return *i < *j ? -1 : *i > *j;
    if (std::isnan(*x) || std::isnan(*y)) return std::nullopt;
    return *x < *y ? -1 : *x > *y;
  }
  if (a.dtype() != i64 || b.dtype() != i64) return std::nullopt;
  PrimExpr d = tidy(a - b);
  if (auto v = tir::as_int(d)) return *v < 0 ? -1 : *v > 0;
  // A size is never a negative number.
  if (auto v = tir::as_int(b); v && *v < 0 && not_negative(a)) return 1;
  if (auto v = tir::as_int(a); v && *v < 0 && not_negative(b)) return -1;
  return std::nullopt;
}

PrimExpr of_floats(const std::string& op, DataType t, double x, double y) {
  if (op == "Add") return number(t, x + y);
  if (op == "Sub") return number(t, x - y);
  if (op == "Mul") return number(t, x * y);
  if (op == "Div") return number(t, x / y);
  if (op == "Min") return number(t, std::isnan(x) || std::isnan(y) ? NAN : std::min(x, y));
  if (op == "Max") return number(t, std::isnan(x) || std::isnan(y) ? NAN : std::max(x, y));
  return {};
}

PrimExpr of_integers(const std::string& op, DataType t, int64_t i, int64_t j, bool huge) {
  if (op == "Add") return integer(t, int64_t(uint64_t(i) + uint64_t(j)));
  if (op == "Sub") return integer(t, int64_t(uint64_t(i) - uint64_t(j)));
  if (op == "Mul") return integer(t, int64_t(uint64_t(i) * uint64_t(j)));
  if (huge) return {};
  if (op == "Min") return integer(t, std::min(i, j));
  if (op == "Max") return integer(t, std::max(i, j));
  if (j == 0 || (j == -1 && i == INT64_MIN)) return {};
  if (op == "Div") return integer(t, i / j);
  const int64_t rest = i % j;
  if (op == "Mod") return integer(t, rest != 0 && (rest < 0) != (j < 0) ? rest + j : rest);
  return {};
}

/// Div and Mod of integers.
PrimExpr divided(const std::string& op, const PrimExpr& i, const PrimExpr& j) {
  const auto c = tir::as_int(j);
  if (c ? *c <= 0 : !not_negative(j)) return {};
  const PrimExpr divisor = c ? j : tir::max(j, PrimExpr(1));  // nothing traps where a size is 0
  if (op == "Mod") return tir::floormod(i, divisor);
  if (not_negative(i)) return tir::floordiv(i, divisor);
  // Rounds towards 0, which between -c and 0 is all there is below.
  const PrimExpr up = tir::floordiv(tir::max(i, PrimExpr(0)), divisor);
  if (c && not_negative(i + (*c - 1))) return up;
  return up - tir::floordiv(tir::max(PrimExpr(0) - i, PrimExpr(0)), divisor);
}

PrimExpr of_sizes(const std::string& op, DataType t, const PrimExpr& i, const PrimExpr& j) {
  if (op == "Add") return i + j;
  if (op == "Sub") return i - j;
  if (op == "Mul") return i * j;
  if (op == "Min") return tir::min(i, j);
  if (op == "Max") return tir::max(i, j);
  if (op == "Div" && is_one(j)) return i;
  if ((op == "Div" || op == "Mod") && t.is_integer()) return divided(op, i, j);
  // A float division of sizes is a size only when it comes out even.
  const auto c = tir::as_int(j);
  if (op != "Div" || !c || *c == 0 || *c == INT64_MIN) return {};
  const PrimExpr by = PrimExpr(std::abs(*c));
  if (!is_zero(tidy(tir::floormod(i, by)))) return {};
  return tir::floordiv(*c > 0 ? i : PrimExpr(0) - i, by);
}

}  // namespace

bool compares(const std::string& op) {
  return op == "Equal" || op == "Less" || op == "Greater" || op == "LessOrEqual" || op == "GreaterOrEqual";
}

PrimExpr arithmetic(const std::string& op, DataType t, const PrimExpr& a, const PrimExpr& b) {
  if (compares(op)) {
    const auto o = compare(a, b);
    if (!o) return {};
    return integer(boolean, op == "Equal"         ? *o == 0
                            : op == "Less"        ? *o < 0
                            : op == "Greater"     ? *o > 0
                            : op == "LessOrEqual" ? *o <= 0
                                                  : *o >= 0);
  }
  if (op == "And" || op == "Or") {
    const auto p = tir::as_int(a), q = tir::as_int(b);
    if (!p || !q) return {};
    return integer(boolean, op == "And" ? *p && *q : *p || *q);
  }
  const auto x = number_of(a), y = number_of(b);
  if (x && y)
    return t.is_float() ? of_floats(op, t, *x, *y)
                        : of_integers(op, t, *tir::as_int(a), *tir::as_int(b), is_huge(a) || is_huge(b));
  const PrimExpr i = exact_integer(a), j = exact_integer(b);
  if (!i || !j || i.dtype() != i64 || j.dtype() != i64) return {};
  const PrimExpr r = of_sizes(op, t, i, j);
  if (!r) return {};
  return t == i64 ? tidy(r) : tir::cast(t, tidy(r));
}

PrimExpr arithmetic(const std::string& op, DataType t, const PrimExpr& e) {
  const auto v = number_of(e);
  if (!v) {
    if ((op == "Floor" || op == "Ceil" || op == "Round") && exact_integer(e)) return e;
    if (op == "Abs" && not_negative(e)) return e;
    return op == "Neg" && t == i64 ? tidy(PrimExpr(0) - e) : PrimExpr();
  }
  if (op == "Floor") return number(t, std::floor(*v));
  if (op == "Ceil") return number(t, std::ceil(*v));
  if (op == "Round") return number(t, std::nearbyint(*v));
  if (op == "Sqrt") return number(t, std::sqrt(*v));
  if (op == "Not") return integer(boolean, *v == 0);
  if (op == "Neg") return t.is_float() ? number(t, -*v) : negative(e);
  if (op != "Abs") return {};
  if (t.is_float()) return number(t, std::abs(*v));
  return *tir::as_int(e) < 0 && !is_huge(e) ? negative(e) : e;
}

PrimExpr convert(DataType t, const PrimExpr& e) {
  if (e.dtype() == t) return e;
  if (const auto i = tir::as_int(e)) {
    if (!t.is_float()) return integer(t, *i);
    if (is_huge(e)) return {};
    return number(t, t == f32 ? double(float(*i)) : double(*i));
  }
  if (const auto v = number_of(e)) {
    if (t.is_float()) return number(t, *v);
    if (t.is_bool()) return integer(t, *v != 0);
    return nearest_integer(t, *v);
  }
  if (e.dtype() == i64 && (t == f32 || t == f64)) return tir::cast(t, e);  // exact_integer looks inside
  if (e.dtype() == i64 && t == i32) return tir::cast(t, e);
  if (PrimExpr i = exact_integer(e); i && t == i64) return i;
  if (const auto* c = e.as<tir::Cast>(); c && e.dtype() == i32 && c->value.dtype() == i64)
    return convert(t, c->value);
  return {};
}

}  // namespace tenon::onnx
