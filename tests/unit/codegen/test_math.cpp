// SPDX-License-Identifier: Apache-2.0
// Mathematical functions over float32, from tensor IR through every way to run it. Errors are counted in
// units in the last place against double precision, whose own error is below one of its units (checked here);
// where that could decide, MPFR does. By default a sample: seeded, special values, neighbourhoods of
// breakpoints. TENON_ALL_FLOATS=exp,log (or `all`) compares every float, and says where the worst one is.
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "kernels.h"
#include "pass/tensor/passes.h"
#ifdef TENON_MPFR
#include <mpfr.h>
#endif

namespace tenon::test {
namespace {

using namespace tir;

struct Case {
  const char* name;
  double (*meaning)(double);
  double ulps;       ///< with fused multiply-add
  double plain = 0;  ///< without it; 0: the same
};
double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
double exp10_of(double x) { return ::exp10(x); }
double rsqrt_of(double x) { return 1 / std::sqrt(x); }
// docs/numerics.md states these bounds.
const Case cases[] = {{"exp", std::exp, 1},         {"exp2", std::exp2, 1.5},   {"exp10", exp10_of, 2},
                      {"expm1", std::expm1, 2},     {"log", std::log, 1},       {"log2", std::log2, 2},
                      {"log10", std::log10, 2},     {"log1p", std::log1p, 2.5}, {"tanh", std::tanh, 1},
                      {"sigmoid", sigmoid_of, 2.5}, {"erf", std::erf, 1},       {"sin", std::sin, 1},
                      {"cos", std::cos, 1},         {"tan", std::tan, 4},       {"asin", std::asin, 2.5},
                      {"acos", std::acos, 2.5},     {"atan", std::atan, 3},     {"sinh", std::sinh, 3},
                      {"cosh", std::cosh, 2.5},     {"asinh", std::asinh, 4},   {"acosh", std::acosh, 4},
                      {"atanh", std::atanh, 4},     {"sqrt", std::sqrt, 0.5},   {"rsqrt", rsqrt_of, 1.5}};

double unit_of(double wanted) {
  return std::ldexp(1.0, std::max(std::ilogb(std::max(std::fabs(wanted), 1e-300)) - 23, -149));
}
/// Distance from the true value in units in the last place of a float there.
double error_in_ulps(float got, double wanted) {
  const float nearest = float(wanted);
  if (std::isnan(wanted)) return std::isnan(got) ? 0 : 1e9;
  if (std::isinf(nearest) || std::isinf(got)) {
    // Beside the largest float the next step is infinity.
    const bool beside = std::fabs(wanted) > 3.4028e38 && std::fabs(double(got)) > 3.4028e38;
    return got == nearest || (beside && std::signbit(got) == std::signbit(nearest)) ? 0 : 1e9;
  }
  if (wanted == 0 && got == 0) return std::signbit(wanted) == std::signbit(got) ? 0 : 1e9;
  return std::fabs(double(got) - wanted) / unit_of(wanted);
}

#ifdef TENON_MPFR
struct Precise {
  Precise() { mpfr_init2(v, 200); }
  ~Precise() { mpfr_clear(v); }
  Precise(const Precise&) = delete;
  mpfr_t v;
};
bool precise(const std::string& name, double x, mpfr_ptr y) {
  mpfr_set_d(y, x, MPFR_RNDN);
  const std::pair<const char*, int (*)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t)> known[] = {
      {"exp", mpfr_exp},     {"exp2", mpfr_exp2},     {"exp10", mpfr_exp10}, {"expm1", mpfr_expm1},
      {"log", mpfr_log},     {"log2", mpfr_log2},     {"log10", mpfr_log10}, {"log1p", mpfr_log1p},
      {"tanh", mpfr_tanh},   {"erf", mpfr_erf},       {"sin", mpfr_sin},     {"cos", mpfr_cos},
      {"tan", mpfr_tan},     {"asin", mpfr_asin},     {"acos", mpfr_acos},   {"atan", mpfr_atan},
      {"sinh", mpfr_sinh},   {"cosh", mpfr_cosh},     {"asinh", mpfr_asinh}, {"acosh", mpfr_acosh},
      {"atanh", mpfr_atanh}, {"rsqrt", mpfr_rec_sqrt}};
  for (auto& [n, f] : known)
    if (name == n) {
      f(y, y, MPFR_RNDN);
      return true;
    }
  return false;
}
/// The error against 200 bits.
double true_error(const std::string& name, float x, float got, double unit, double otherwise) {
  Precise y;
  if (!precise(name, x, y.v)) return otherwise;
  mpfr_sub_d(y.v, y.v, double(got), MPFR_RNDN);
  return std::fabs(mpfr_get_d(y.v, MPFR_RNDU)) / unit;
}
TEST(Math, TheReferenceIsWithinOneUnitOfADouble) {
  std::mt19937 random(7);
  for (const Case& c : cases)
    for (int k = 0; k < 3000; ++k) {
      const float x = k % 2 ? std::bit_cast<float>(uint32_t(random())) : float(random() % 20000) / 1000 - 10;
      const double got = c.meaning(double(x));
      Precise y;
      if (!std::isfinite(got) || got == 0 || !precise(c.name, x, y.v)) continue;
      mpfr_sub_d(y.v, y.v, got, MPFR_RNDN);
      const double unit = std::ldexp(1.0, std::max(std::ilogb(got) - 52, -1074));
      ASSERT_LE(std::fabs(mpfr_get_d(y.v, MPFR_RNDU)) / unit, 2) << c.name << "(" << x << ")";
    }
}
#else
double true_error(const std::string&, float, float, double, double otherwise) { return otherwise; }
#endif

struct Worst {
  double ulps = 0;
  float at = 0;
  int64_t inexact = 0;
  void see(const Case& c, double limit, float x, float got, bool count = true) {
    const double wanted = c.meaning(double(x));
    const float nearest = float(wanted);
    if (std::bit_cast<uint32_t>(nearest) == std::bit_cast<uint32_t>(got)) {
      if (ulps >= 0.5) return;  // the nearest one: at most half a unit
    } else {
      inexact += count;
    }
    double e = error_in_ulps(got, wanted);
    // The double is off by at most 2^-28 of a float's unit.
    if (std::fabs(e - limit) < 0x1p-26) e = true_error(c.name, x, got, unit_of(wanted), limit);
    if (e > ulps) {
      ulps = e;
      at = x;
    }
  }
};

/// The unit in the last place just below a normal float.
double quick_unit(float v) {
  const uint32_t n = std::bit_cast<uint32_t>(v);
  return double(std::bit_cast<float>(n & 0x7f800000)) * (n & 0x7fffff ? 0x1p-23 : 0x1p-24);
}

// The C library's vector functions, several times faster and within 4 units of a double.
#ifdef TENON_LIBMVEC
typedef double Doubles __attribute__((vector_size(32)));
extern "C" {
Doubles _ZGVdN4v_exp(Doubles);
Doubles _ZGVdN4v_log(Doubles);
Doubles _ZGVdN4v_tanh(Doubles);
Doubles _ZGVdN4v_erf(Doubles);
Doubles _ZGVdN4v_sin(Doubles);
Doubles _ZGVdN4v_cos(Doubles);
}
/// Values of the function named over n floats; false when there is no fast one.
__attribute__((target("avx2"))) bool approximate(const std::string& name, const float* x, double* y,
                                                 int64_t n) {
  if (!__builtin_cpu_supports("avx2")) return false;
  Doubles (*f)(Doubles) = name == "exp"    ? _ZGVdN4v_exp
                          : name == "log"  ? _ZGVdN4v_log
                          : name == "tanh" ? _ZGVdN4v_tanh
                          : name == "erf"  ? _ZGVdN4v_erf
                          : name == "sin"  ? _ZGVdN4v_sin
                          : name == "cos"  ? _ZGVdN4v_cos
                                           : nullptr;
  for (int64_t i = 0; f && i < n; i += 4) {
    const Doubles v = f(Doubles{x[i], x[i + 1], x[i + 2], x[i + 3]});
    std::memcpy(y + i, &v, sizeof v);
  }
  return f != nullptr;
}
#else
bool approximate(const std::string&, const float*, double*, int64_t) { return false; }
#endif

std::vector<float> samples() {
  std::vector<float> x = {0.0f,      -0.0f,     1.0f,     -1.0f,           HUGE_VALF,     -HUGE_VALF,
                          NAN,       1e-45f,    -1e-45f,  1.17549435e-38f, 3.4028235e38f, -3.4028235e38f,
                          88.72283f, 88.72284f, -103.97f, -104.0f,         -87.34f,       0.5f,
                          2.0f,      128.0f,    -149.0f};
  // Where the expansions change their way, and multiples of what they reduce by.
  std::vector<float> points = {
      0.0f,       0x1p-126f, 0.41421357f, 0.5f,     0.70710677f, 0.9f,      1.0f,  1.4142135f, 2.0f,
      2.4142137f, 3.95f,     9.01f,       10.0f,    30.0f,       42.0f,     50.0f, 80.0f,      88.72283f,
      88.02969f,  103.972f,  110.0f,      128.0f,   140.0f,      149.0f,    1e4f,  0x1p20f,    0x1p46f,
      0x1p47f,    0x1p71f,   0x1p95f,     0x1p119f, 0x1p127f,    38.53184f, 45.0f, 126.0f,     3.4028235e38f};
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
}

Program unary_program(const std::string& name, int64_t n, int lanes) {
  const Buffer a = flat("a", n, f32), b = flat("b", n, f32);
  const VarRef i = var("i");
  PrimExpr at = i;
  if (lanes > 1) at = make<Ramp>(i * PrimExpr(int64_t(lanes)), PrimExpr(int64_t(1)), int64_t(lanes));
  return program(
      "k_" + name, {a, b}, {},
      for_(i, 0, n / lanes, store(b, call(f32.with_lanes(lanes), "tir." + name, {load(a, {at})}), {at})));
}

void check_unary(const Case& c, const Target& target) {
  static const std::vector<float> x = samples();
  const int64_t n = int64_t(x.size());
  const NDArray in = NDArray::from_bytes({n}, f32, x.data(), x.size() * 4), one = NDArray::zeros({n}, f32),
                many = NDArray::zeros({n}, f32);
  ASSERT_EQ(run_llvm(unary_program(c.name, n, 1).lowered, {in, one}, {}, 2, target), 0);
  ASSERT_EQ(run_llvm(unary_program(c.name, n, 16).lowered, {in, many}, {}, 2, target), 0);
  const double limit = c.plain > 0 && !target->fma ? c.plain : c.ulps;
  Worst worst;
  for (int64_t i = 0; i < n; ++i) {
    const float got = one.as_ptr<float>()[i], lane = many.as_ptr<float>()[i];
    worst.see(c, limit, x[size_t(i)], got);
    if (std::memcmp(&got, &lane, 4) != 0 && !(std::isnan(got) && std::isnan(lane)))
      FAIL() << c.name << "(" << x[size_t(i)] << "): scalar " << got << ", lane " << lane;
  }
  EXPECT_LE(worst.ulps, limit) << c.name << " is worst at " << worst.at << ": " << c.meaning(worst.at);
  testing::Test::RecordProperty(std::string(c.name) + "_ulps", std::to_string(worst.ulps));
}

class Functions : public testing::TestWithParam<Case> {};
TEST_P(Functions, AreAccurate) { check_unary(GetParam(), host_target()); }
TEST_P(Functions, AreAccurateWithoutFma) { check_unary(GetParam(), parse_target("llvm -mcpu=x86-64-v2")); }
INSTANTIATE_TEST_SUITE_P(Unary, Functions, testing::ValuesIn(cases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Math, EveryFloat) {
  const char* asked = std::getenv("TENON_ALL_FLOATS");
  if (!asked) GTEST_SKIP() << "TENON_ALL_FLOATS=exp,log,… or all";
  const std::string names = std::string(",") + asked + ",";
  const char* cpu = std::getenv("TENON_ALL_FLOATS_TARGET");
  const Target target = cpu ? parse_target(cpu) : host_target();
  constexpr int64_t n = 1 << 14;  // stays in the cache
  const NDArray in = NDArray::zeros({n}, f32), out = NDArray::zeros({n}, f32);
  for (const Case& c : cases) {
    if (names != ",all," && names.find("," + std::string(c.name) + ",") == std::string::npos) continue;
    const auto jit = codegen::jit_load(
        codegen::llvm_object(as_code_takes_it({unary_program(c.name, n, 16).lowered}, target), target),
        target);
    const auto kernel = reinterpret_cast<TenonKernel>(jit.find(std::string("k_") + c.name));
    ASSERT_NE(kernel, nullptr);
    TestContext context;
    void* pointers[] = {in.data(), out.data()};
    const double limit = c.plain > 0 && !target->fma ? c.plain : c.ulps;
    Worst worst;
    std::vector<double> about(size_t(n), 0.0);
    const bool quick = approximate(c.name, in.as_ptr<float>(), about.data(), 0);
    // Of an odd or even function one half is compared, and the other half with the first.
    const std::string_view name = c.name;
    const bool even = name == "cos", odd = name == "sin" || name == "tanh" || name == "erf";
    const NDArray other = NDArray::zeros({n}, f32), mirrored = NDArray::zeros({n}, f32);
    void* mirror[] = {other.data(), mirrored.data()};
    for (uint64_t first = 0; first < (uint64_t(1) << (even || odd ? 31 : 32)); first += n) {
      for (int64_t i = 0; i < n; ++i) in.as_ptr<uint32_t>()[i] = uint32_t(first + uint64_t(i));
      ASSERT_EQ(kernel(pointers, nullptr, &context.context), 0);
      if (even || odd) {
        for (int64_t i = 0; i < n; ++i)
          other.as_ptr<uint32_t>()[i] = uint32_t(first + uint64_t(i)) | 0x80000000u;
        ASSERT_EQ(kernel(mirror, nullptr, &context.context), 0);
        int64_t wrong = 0;
        for (int64_t i = 0; i < n; ++i) {
          const uint32_t there = mirrored.as_ptr<uint32_t>()[i] ^ (odd ? 0x80000000u : 0);
          wrong += there != out.as_ptr<uint32_t>()[i] && !std::isnan(out.as_ptr<float>()[i]);
        }
        ASSERT_EQ(wrong, 0) << c.name << " near " << in.as_ptr<float>()[0];
      }
      if (quick) approximate(c.name, in.as_ptr<float>(), about.data(), n);
      for (int64_t i = 0; i < n; ++i) {
        const float got = out.as_ptr<float>()[i];
        if (quick) {
          const float nearest = float(about[size_t(i)]);
          if (std::bit_cast<uint32_t>(nearest) == std::bit_cast<uint32_t>(got) ||
              (std::isnan(nearest) && std::isnan(got)))
            continue;
          ++worst.inexact;
          // Not the worst one so far by far: no need for the better reference.
          const double off = std::fabs(double(got) - about[size_t(i)]);
          if (off < (worst.ulps - 0x1p-20) * quick_unit(got) && std::fabs(nearest) > 0x1p-120f) continue;
          worst.see(c, limit, in.as_ptr<float>()[i], got, false);
        } else {
          worst.see(c, limit, in.as_ptr<float>()[i], got);
        }
      }
    }
    if (even || odd) worst.inexact *= 2;
    std::printf("%s: worst %.6f ULP at %a; not the nearest float: %lld of 2^32\n", c.name, worst.ulps,
                worst.at, static_cast<long long>(worst.inexact));
    std::fflush(stdout);
    EXPECT_LE(worst.ulps, limit) << c.name << " at " << worst.at;
  }
}

// ---------------------------------------------------------------- the same bits everywhere
TEST(Math, EveryWayGivesTheSameBits) {
  // Without fused multiply-add nothing is left to the code generators' choice.
  const std::vector<float> all = samples();
  constexpr int64_t n = 512;
  const NDArray in = NDArray::zeros({n}, f32);
  for (int64_t i = 0; i < n; ++i)
    in.as_ptr<float>()[i] = i < 21 ? all[size_t(i)] : all[size_t(i) * 1021 % all.size()];
  std::vector<Buffer> buffers = {flat("x", n, f32)};
  std::vector<NDArray> arrays = {in};
  std::vector<Stmt> body;

  for (const Case& c : cases) {
    buffers.push_back(flat(c.name + std::string("_y"), n, f32));
    arrays.push_back(NDArray::zeros({n}, f32));
    const VarRef i = var("i");
    const PrimExpr at = make<Ramp>(i * PrimExpr(int64_t(8)), PrimExpr(int64_t(1)), int64_t(8));
    body.push_back(
        for_(i, 0, n / 8,
             store(buffers.back(),
                   call(f32.with_lanes(8), std::string("tir.") + c.name, {load(buffers[0], {at})}), {at})));
  }
  const Program p = program("all", buffers, {}, seq(Array<Stmt>(body)));
  const Target plain = parse_target("llvm -mcpu=x86-64-v2");
  const std::vector<NDArray> machine = copies(arrays), text = copies(arrays);
  ASSERT_EQ(run_llvm(p.lowered, machine, {}, 2, plain), 0);
  ASSERT_EQ(run_c(p.lowered, "gcc", text), 0);
  std::vector<NDArray> meaning = copies(arrays);
  PassContext context;
  context.target = plain;
  IRModule module = IRModule::create();
  module.set("all", p.plain);
  module = lower_intrin(module, context);
  interpret_prim_func(module.find("all").cast<PrimFuncNode>(), meaning);
  for (size_t k = 1; k < arrays.size(); ++k)
    for (int64_t i = 0; i < n; ++i) {
      const float a = machine[k].as_ptr<float>()[i], b = text[k].as_ptr<float>()[i],
                  m = meaning[k].as_ptr<float>()[i];
      const std::string what = fmt::format("{}({})", cases[k - 1].name, in.as_ptr<float>()[i]);
      ASSERT_TRUE(std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) ||
                  (std::isnan(a) && std::isnan(b)))
          << what << ": machine code " << a << ", C " << b;
      ASSERT_TRUE(std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(m) ||
                  (std::isnan(a) && std::isnan(m)))
          << what << ": machine code " << a << ", interpreter " << m;
    }
}

// ---------------------------------------------------------------- two arguments
TEST(Math, FunctionsOfTwoArguments) {
  struct Two {
    const char* name;
    double (*meaning)(double, double);
    double ulps;
  };
  const Two list[] = {{"pow", std::pow, 1}, {"atan2", std::atan2, 4}, {"hypot", std::hypot, 1}};
  const float special[] = {0.0f, -0.0f,     1.0f,       -1.0f, 0.5f,  -0.5f,  2.0f,  -2.0f,
                           3.0f, HUGE_VALF, -HUGE_VALF, NAN,   1e38f, 1e-40f, -3.0f, 16777217.0f};
  std::vector<float> x, y;
  for (float a : special)
    for (float b : special) {
      x.push_back(a);
      y.push_back(b);
    }
  std::mt19937 random(3);
  std::uniform_real_distribution<float> near(-8, 8), base(0, 50), power(-20, 20);
  while (x.size() < 1 << 16) {
    const int kind = int(x.size() % 3);
    x.push_back(kind == 0   ? near(random)
                : kind == 1 ? base(random)
                            : std::bit_cast<float>(uint32_t(random())));
    y.push_back(kind == 0   ? std::round(near(random))
                : kind == 1 ? power(random)
                            : std::bit_cast<float>(uint32_t(random())));
  }
  const int64_t n = int64_t(x.size());
  for (const char* cpu : {"llvm", "llvm -mcpu=x86-64-v2"})
    for (const Two& c : list) {
      const Buffer a = flat("a", n, f32), b = flat("b", n, f32), r = flat("r", n, f32);
      const VarRef i = var("i");
      const PrimExpr at = make<Ramp>(i * PrimExpr(int64_t(16)), PrimExpr(int64_t(1)), int64_t(16));
      const Program p = program(
          "two", {a, b, r}, {},
          for_(
              i, 0, n / 16,
              store(r, call(f32.with_lanes(16), std::string("tir.") + c.name, {load(a, {at}), load(b, {at})}),
                    {at})));
      const NDArray out = NDArray::zeros({n}, f32);
      ASSERT_EQ(run_llvm(p.lowered,
                         {NDArray::from_bytes({n}, f32, x.data(), x.size() * 4),
                          NDArray::from_bytes({n}, f32, y.data(), y.size() * 4), out},
                         {}, 2, parse_target(cpu)),
                0);
      double worst = 0;
      for (int64_t k = 0; k < n; ++k) {
        const double wanted = c.meaning(double(x[size_t(k)]), double(y[size_t(k)]));
        const double e = error_in_ulps(out.as_ptr<float>()[k], wanted);
        ASSERT_LE(e, c.ulps) << c.name << "(" << x[size_t(k)] << ", " << y[size_t(k)]
                             << ") = " << out.as_ptr<float>()[k] << " instead of " << wanted;
        worst = std::max(worst, e);
      }
      testing::Test::RecordProperty(std::string(c.name) + "_ulps", std::to_string(worst));
    }
}

}  // namespace
}  // namespace tenon::test
