// SPDX-License-Identifier: Apache-2.0
// Mathematical functions as expressions of tensor IR: range reduction, polynomials and exact scaling over
// float32 and float64 lanes. The one definition of these functions; every code generator and the interpreter
// run it, and docs/numerics.md states its errors. Used by lower_intrin only.
#pragma once
#include <initializer_list>
#include <limits>
#include <string_view>

#include "ir/tir.h"

namespace tenon::tensor_detail {

inline constexpr double kInf = std::numeric_limits<double>::infinity(),
                        kNaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kLog2e = 1.4426950408889634, kLn2 = 0.6931471805599453;

/// Builds expansions. Values that are used several times are shared nodes; `share` names them.
class MathExpansion {
 public:
  using E = PrimExpr;
  /// `fma`: the target multiplies and adds in one rounding; without it the two are rounded apart. `scales`:
  /// it has an instruction for x · 2ⁿ.
  MathExpansion(bool fma, bool scales) : fma_(fma), scales_(scales) {}

  /// A function of float32 lanes, null when it has no expansion. Arguments are variables or constants.
  E unary(std::string_view name, const E& x) const;
  E binary(std::string_view name, const E& x, const E& y) const;
  /// Float32 or float64.
  E nextafter(const E& x, const E& y) const;
  E fmod(const E& x, const E& y) const;  ///< null: not without fma

 private:
  // expression shorthands (math_expansion.cpp)
  E f(const E& like, double v) const;      ///< floating constant of like's type
  E i(const E& like, int64_t v) const;     ///< int32 constant of like's lanes
  E wide(const E& like, int64_t v) const;  ///< int64 constant of like's lanes
  E fma(const E& a, const E& b, const E& c) const;
  E fused(const E& a, const E& b, const E& c) const;  ///< a·b + c in (nearly) one rounding everywhere
  E poly(const E& x, std::initializer_list<double> high_first) const;
  E clamp(const E& x, double low, double high) const;  ///< a NaN passes

  struct Reduced {
    E n, r;
  };
  Reduced reduce_exp(const E& x) const;  ///< x = n·ln2 + r
  E exp_poly(const E& r) const;          ///< e^r - 1 for |r| ≤ ln2 / 2
  E exp_of(const E& r) const;            ///< e^r, rounded about once
  E scale(const E& p, const E& n) const;
  E exp(const E& x) const;
  E exp2(const E& x, bool ten) const;
  E expm1(const E& x) const;
  E sigmoid(const E& x) const;
  E tanh(const E& x) const;
  E sinh(const E& x) const;
  E cosh(const E& x) const;
  E erf(const E& x) const;
  struct Log {
    E e, f, y;  ///< log x = e·ln2 + f + y
  };
  Log log_parts(const E& x) const;
  E log_special(const E& x, const E& y) const;
  E log(const E& x) const;
  E log_base(const E& x, bool ten) const;
  E log1p(const E& x) const;
  E asinh(const E& x) const;
  E acosh(const E& x) const;
  E atanh(const E& x) const;

  // math_expansion_wide.cpp: what needs float64 on the way
  enum class Trig { sine, cosine, tangent };
  E trig(const E& x, Trig which) const;
  E trig_of(const E& r, const E& quadrant, const E& x, Trig which) const;
  Reduced reduce_far(const E& x) const;
  E asin(const E& x, bool acos) const;
  E atan(const E& x) const;
  E atan2(const E& y, const E& x) const;
  E pow(const E& x, const E& y) const;
  E hypot(const E& x, const E& y) const;

  bool fma_, scales_;
};

/// The graph of e as nested lets: each value that is used several times gets a name, so that the text is as
/// short as the graph. A Let inside e stays as it is.
PrimExpr share(const PrimExpr& e);

// Node builders without conversions or folding: the operands have one type.
PrimExpr add(const PrimExpr& a, const PrimExpr& b);
PrimExpr sub(const PrimExpr& a, const PrimExpr& b);
PrimExpr mul(const PrimExpr& a, const PrimExpr& b);
PrimExpr quotient(const PrimExpr& a, const PrimExpr& b);
PrimExpr pick(const PrimExpr& c, const PrimExpr& a, const PrimExpr& b);
PrimExpr less(const PrimExpr& a, const PrimExpr& b);
PrimExpr same(const PrimExpr& a, const PrimExpr& b);
PrimExpr differ(const PrimExpr& a, const PrimExpr& b);
PrimExpr both(const PrimExpr& a, const PrimExpr& b);
PrimExpr either(const PrimExpr& a, const PrimExpr& b);
PrimExpr negate(const PrimExpr& c);
PrimExpr intrin(const char* name, const PrimExpr& a);
PrimExpr intrin(const char* name, const PrimExpr& a, const PrimExpr& b);
PrimExpr minus(const PrimExpr& x);  ///< the sign changed, of a NaN and of zero too
PrimExpr magnitude(const PrimExpr& x);
PrimExpr with_sign(const PrimExpr& x, const PrimExpr& sign);
PrimExpr bits(const PrimExpr& x);    ///< as an integer of the same width
PrimExpr number(const PrimExpr& x);  ///< an integer's bits as a float of the same width
PrimExpr to_f64(const PrimExpr& x);
PrimExpr to_f32(const PrimExpr& x);
PrimExpr to_i32(const PrimExpr& x);
PrimExpr shift_left(const PrimExpr& x, int by);
PrimExpr shift_right(const PrimExpr& x, int by);
PrimExpr lanes_of(DataType element, const PrimExpr& like, int64_t v);

}  // namespace tenon::tensor_detail
