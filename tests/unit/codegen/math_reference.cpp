// SPDX-License-Identifier: Apache-2.0
#include "math_reference.h"
#include "ir/tir.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#ifdef TENON_MPFR
#include <mpfr.h>
#endif

// The C library's vector functions, several times faster and within 4 units of a double.
#ifdef TENON_LIBMVEC
typedef double MathDoubles __attribute__((vector_size(32)));
extern "C" {
MathDoubles _ZGVdN4v_exp(MathDoubles);
MathDoubles _ZGVdN4v_log(MathDoubles);
MathDoubles _ZGVdN4v_sin(MathDoubles);
MathDoubles _ZGVdN4v_cos(MathDoubles);
// Since version 2.35 of the C library.
[[gnu::weak]] MathDoubles _ZGVdN4v_tanh(MathDoubles);
[[gnu::weak]] MathDoubles _ZGVdN4v_erf(MathDoubles);
[[gnu::weak]] MathDoubles _ZGVdN4v_exp2(MathDoubles);
[[gnu::weak]] MathDoubles _ZGVdN4v_exp10(MathDoubles);
[[gnu::weak]] MathDoubles _ZGVdN4v_expm1(MathDoubles);
[[gnu::weak]] MathDoubles _ZGVdN4v_log2(MathDoubles);
[[gnu::weak]] MathDoubles _ZGVdN4v_log10(MathDoubles);
[[gnu::weak]] MathDoubles _ZGVdN4v_log1p(MathDoubles);
[[gnu::weak]] MathDoubles _ZGVdN4v_tan(MathDoubles);
[[gnu::weak]] MathDoubles _ZGVdN4v_asin(MathDoubles);
[[gnu::weak]] MathDoubles _ZGVdN4v_acos(MathDoubles);
[[gnu::weak]] MathDoubles _ZGVdN4v_atan(MathDoubles);
[[gnu::weak]] MathDoubles _ZGVdN4v_sinh(MathDoubles);
[[gnu::weak]] MathDoubles _ZGVdN4v_cosh(MathDoubles);
[[gnu::weak]] MathDoubles _ZGVdN4v_asinh(MathDoubles);
[[gnu::weak]] MathDoubles _ZGVdN4v_acosh(MathDoubles);
[[gnu::weak]] MathDoubles _ZGVdN4v_atanh(MathDoubles);
}
#endif

namespace tenon::test {

using namespace tir;

namespace {
double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
double exp10_of(double x) { return ::exp10(x); }
double rsqrt_of(double x) { return 1 / std::sqrt(x); }

/// A double is off by at most 2^-28 of a float's unit: where that could decide, 200 bits do.
constexpr double kDoubt = 0x1p-26;

double unit_of(double wanted, int digits, int least_exponent) {
  const int exponent = std::ilogb(std::max(std::fabs(wanted), 1e-320));
  return std::ldexp(1.0, std::max(exponent, least_exponent) - digits + 1);
}
/// The unit in the last place just below a normal float.
double quick_unit(float v) {
  const uint32_t n = std::bit_cast<uint32_t>(v);
  return double(std::bit_cast<float>(n & 0x7f800000)) * (n & 0x7fffff ? 0x1p-23 : 0x1p-24);
}

#ifdef TENON_LIBMVEC
/// Values of the function named over n floats; false when there is no fast one.
__attribute__((target("avx2"))) bool approximate(const std::string& name, const float* x, double* y,
                                                 int64_t n) {
  if (!__builtin_cpu_supports("avx2")) return false;
  using F = MathDoubles (*)(MathDoubles);
  static const std::pair<const char*, F> known[] = {
      {"exp", _ZGVdN4v_exp},     {"log", _ZGVdN4v_log},     {"sin", _ZGVdN4v_sin},
      {"cos", _ZGVdN4v_cos},     {"tanh", _ZGVdN4v_tanh},   {"erf", _ZGVdN4v_erf},
      {"exp2", _ZGVdN4v_exp2},   {"exp10", _ZGVdN4v_exp10}, {"expm1", _ZGVdN4v_expm1},
      {"log2", _ZGVdN4v_log2},   {"log10", _ZGVdN4v_log10}, {"log1p", _ZGVdN4v_log1p},
      {"tan", _ZGVdN4v_tan},     {"asin", _ZGVdN4v_asin},   {"acos", _ZGVdN4v_acos},
      {"atan", _ZGVdN4v_atan},   {"sinh", _ZGVdN4v_sinh},   {"cosh", _ZGVdN4v_cosh},
      {"asinh", _ZGVdN4v_asinh}, {"acosh", _ZGVdN4v_acosh}, {"atanh", _ZGVdN4v_atanh},
      {"sigmoid", _ZGVdN4v_exp}};
  F f = nullptr;
  for (const auto& [key, function] : known)
    if (name == key) f = function;
  const double sign = name == "sigmoid" ? -1 : 1;
  for (int64_t i = 0; f && i < n; i += 4) {
    MathDoubles v = f(sign * MathDoubles{x[i], x[i + 1], x[i + 2], x[i + 3]});
    if (sign < 0) v = 1 / (1 + v);
    std::memcpy(y + i, &v, sizeof v);
  }
  return f != nullptr;
}
#else
bool approximate(const std::string&, const float*, double*, int64_t) { return false; }
#endif
}  // namespace

std::span<const MathCase> math_cases() {
  using C = MathCase;
  static const MathCase cases[] = {{"exp", std::exp, 1},
                                   {"exp2", std::exp2, 1.5},
                                   {"exp10", exp10_of, 2},
                                   {"expm1", std::expm1, 2},
                                   {"log", std::log, 1},
                                   {"log2", std::log2, 2},
                                   {"log10", std::log10, 2},
                                   {"log1p", std::log1p, 2.5},
                                   {"tanh", std::tanh, 1, C::odd},
                                   {"sigmoid", sigmoid_of, 2.5},
                                   {"erf", std::erf, 1, C::odd},
                                   {"sin", std::sin, 1, C::odd},
                                   {"cos", std::cos, 1, C::even},
                                   {"tan", std::tan, 4, C::odd},
                                   {"asin", std::asin, 2.5, C::odd},
                                   {"acos", std::acos, 2.5},
                                   {"atan", std::atan, 3, C::odd},
                                   {"sinh", std::sinh, 3, C::odd},
                                   {"cosh", std::cosh, 3, C::even},
                                   {"asinh", std::asinh, 4, C::odd},
                                   {"acosh", std::acosh, 4},
                                   {"atanh", std::atanh, 4, C::odd},
                                   {"sqrt", std::sqrt, 0.5},
                                   {"rsqrt", rsqrt_of, 1.5}};
  return cases;
}

double error_in_ulps(float got, double wanted) {
  const float nearest = float(wanted);
  if (std::isnan(wanted)) return std::isnan(got) ? 0 : 1e9;
  if (std::isinf(nearest) || std::isinf(got)) {
    // Beside the largest float the next step is infinity.
    const bool beside = std::fabs(wanted) > 3.4028e38 && std::fabs(double(got)) > 3.4028e38;
    return got == nearest || (beside && std::signbit(got) == std::signbit(nearest)) ? 0 : 1e9;
  }
  if (wanted == 0 && got == 0) return std::signbit(wanted) == std::signbit(got) ? 0 : 1e9;
  return std::fabs(double(got) - wanted) / unit_of(wanted, 24, -126);
}

#ifdef TENON_MPFR
double true_error(const std::string& name, double x, double got, int digits, int least_exponent) {
  struct Precise {
    Precise() { mpfr_init2(v, 200); }
    ~Precise() { mpfr_clear(v); }
    Precise(const Precise&) = delete;
    mpfr_t v;
  };
  using F = int (*)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t);
  static const std::pair<const char*, F> known[] = {
      {"exp", mpfr_exp},     {"exp2", mpfr_exp2},      {"exp10", mpfr_exp10}, {"expm1", mpfr_expm1},
      {"log", mpfr_log},     {"log2", mpfr_log2},      {"log10", mpfr_log10}, {"log1p", mpfr_log1p},
      {"tanh", mpfr_tanh},   {"erf", mpfr_erf},        {"sin", mpfr_sin},     {"cos", mpfr_cos},
      {"tan", mpfr_tan},     {"asin", mpfr_asin},      {"acos", mpfr_acos},   {"atan", mpfr_atan},
      {"sinh", mpfr_sinh},   {"cosh", mpfr_cosh},      {"asinh", mpfr_asinh}, {"acosh", mpfr_acosh},
      {"atanh", mpfr_atanh}, {"rsqrt", mpfr_rec_sqrt}, {"sqrt", mpfr_sqrt}};
  F f = nullptr;
  for (const auto& [key, function] : known)
    if (name == key) f = function;
  if (!f && name != "sigmoid") return -1;
  Precise y;
  mpfr_set_d(y.v, x, MPFR_RNDN);
  if (f) {
    f(y.v, y.v, MPFR_RNDN);
  } else {
    mpfr_neg(y.v, y.v, MPFR_RNDN);
    mpfr_exp(y.v, y.v, MPFR_RNDN);
    mpfr_add_ui(y.v, y.v, 1, MPFR_RNDN);
    mpfr_ui_div(y.v, 1, y.v, MPFR_RNDN);
  }
  const double unit = unit_of(mpfr_get_d(y.v, MPFR_RNDN), digits, least_exponent);
  mpfr_sub_d(y.v, y.v, got, MPFR_RNDN);
  mpfr_div_d(y.v, y.v, unit, MPFR_RNDA);
  return std::fabs(mpfr_get_d(y.v, MPFR_RNDA));
}
#else
double true_error(const std::string&, double, double, int, int) { return -1; }
#endif

void WorstError::see(const MathCase& c, float x, float got, bool count) {
  const double wanted = c.meaning(double(x));
  const float nearest = float(wanted);
  if (std::bit_cast<uint32_t>(nearest) == std::bit_cast<uint32_t>(got)) {
    if (ulps >= 0.5) return;  // the nearest one: at most half a unit
  } else {
    inexact += count;
  }
  double e = error_in_ulps(got, wanted);
  if (std::fabs(e - c.ulps) < kDoubt) {
    const double better = true_error(c.name, double(x), double(got), 24, -126);
    e = better < 0 ? c.ulps : better;
  }
  if (e > ulps) {
    ulps = e;
    at = x;
  }
}

void judge(const MathCase& c, const float* x, const float* got, int64_t n, double* about, WorstError& worst) {
  if (!about || !approximate(c.name, x, about, n)) {
    for (int64_t i = 0; i < n; ++i) worst.see(c, x[i], got[i]);
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    const float nearest = float(about[i]);
    if (std::bit_cast<uint32_t>(nearest) == std::bit_cast<uint32_t>(got[i]) ||
        (std::isnan(nearest) && std::isnan(got[i])))
      continue;
    ++worst.inexact;
    // Not the worst one so far by far: no need for the better reference.
    const double off = std::fabs(double(got[i]) - about[i]);
    if (off < (worst.ulps - 0x1p-20) * quick_unit(got[i]) && std::fabs(nearest) > 0x1p-120f) continue;
    worst.see(c, x[i], got[i], false);
  }
}

const std::vector<float>& math_samples() {
  static const std::vector<float> all = [] {
    std::vector<float> x = {0.0f,      -0.0f,     1.0f,     -1.0f,           HUGE_VALF,     -HUGE_VALF,
                            NAN,       1e-45f,    -1e-45f,  1.17549435e-38f, 3.4028235e38f, -3.4028235e38f,
                            88.72283f, 88.72284f, -103.97f, -104.0f,         -87.34f,       0.5f,
                            2.0f,      128.0f,    -149.0f};
    // Where the expansions change their way, and multiples of what they reduce by.
    std::vector<float> points = {0.0f,      0x1p-126f,  0.41421357f, 0.5f,       0.70710677f, 0.9f,
                                 1.0f,      1.4142135f, 2.0f,        2.4142137f, 3.95f,       9.01f,
                                 10.0f,     30.0f,      42.0f,       50.0f,      80.0f,       88.72283f,
                                 88.02969f, 103.972f,   110.0f,      128.0f,     140.0f,      149.0f,
                                 1e4f,      0x1p20f,    0x1p46f,     0x1p47f,    0x1p71f,     0x1p95f,
                                 0x1p119f,  0x1p127f,   38.53184f,   45.0f,      126.0f,      3.4028235e38f};
    for (int k = 1; k < 200; ++k)
      for (double step : {0.34657359027997264, 0.7853981633974483, 0.5, 0.15051499783199057})
        points.push_back(float(k * step));
    for (float p : points)
      for (int k = -40; k <= 40; ++k) {
        const int64_t n = int64_t(std::bit_cast<uint32_t>(p)) + k;
        if (n < 0 || n > 0x7f800000) continue;
        x.push_back(std::bit_cast<float>(uint32_t(n)));
        x.push_back(-x.back());
      }
    std::mt19937 random(1);
    std::uniform_real_distribution<float> narrow(-10, 10), wide(-110, 110), unit(-1, 1);
    while (x.size() < 250000) x.push_back(narrow(random));
    while (x.size() < 400000) x.push_back(wide(random));
    while (x.size() < 450000) x.push_back(unit(random));
    while (x.size() < (1 << 19)) x.push_back(std::bit_cast<float>(uint32_t(random())));
    return x;
  }();
  return all;
}

Program unary_program(const std::string& name, int64_t n, int lanes, DataType type) {
  const Buffer a = flat("a", n, type), b = flat("b", n, type);
  const VarRef i = var("i");
  PrimExpr at = i;
  if (lanes > 1) at = make<Ramp>(i * PrimExpr(int64_t(lanes)), PrimExpr(int64_t(1)), int64_t(lanes));
  return program(
      "k_" + name, {a, b}, {},
      for_(i, 0, n / lanes, store(b, call(type.with_lanes(lanes), "tir." + name, {load(a, {at})}), {at})));
}

}  // namespace tenon::test
