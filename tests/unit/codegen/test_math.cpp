// SPDX-License-Identifier: Apache-2.0
// Mathematical functions over float32: errors in units in the last place against the C library in double,
// over a million values of every magnitude and the special ones; lanes agree with scalars bit by bit.
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "kernels.h"

namespace tenon::test {
namespace {

using namespace tir;

struct Case {
  const char* name;
  double (*meaning)(double);
  double ulps;
  double low = -HUGE_VAL, high = HUGE_VAL;
};
double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
const Case cases[] = {{"exp", std::exp, 1.5},
                      {"exp2", std::exp2, 1.5},
                      {"exp10", [](double x) { return std::pow(10.0, x); }, 2},
                      {"expm1", std::expm1, 2},
                      {"log", std::log, 1.5},
                      {"log2", std::log2, 2},
                      {"log10", std::log10, 2},
                      {"log1p", std::log1p, 2.5},
                      {"tanh", std::tanh, 2},
                      {"sigmoid", sigmoid_of, 2.5},
                      {"erf", std::erf, 1.5},
                      {"sin", std::sin, 2},
                      {"cos", std::cos, 2},
                      {"tan", std::tan, 4},
                      {"asin", std::asin, 2.5},
                      {"acos", std::acos, 2.5},
                      {"atan", std::atan, 3},
                      {"sinh", std::sinh, 3},
                      {"cosh", std::cosh, 2.5},
                      {"asinh", std::asinh, 4},
                      {"acosh", std::acosh, 4},
                      {"atanh", std::atanh, 4},
                      {"sqrt", std::sqrt, 0.5001},
                      {"rsqrt", [](double x) { return 1 / std::sqrt(x); }, 1.5}};

/// Distance in units of the last place of the float nearest to the true value.
double error_in_ulps(float got, double wanted) {
  const float nearest = float(wanted);
  if (std::isnan(wanted)) return std::isnan(got) ? 0 : 1e9;
  if (std::isinf(nearest) || std::isinf(got))
    return got == nearest ? 0 : std::fabs(wanted) > 3.4028e38 && std::fabs(double(got)) > 3.4028e38 ? 0 : 1e9;
  const double unit = std::ldexp(1.0, std::max(std::ilogb(std::max(std::fabs(wanted), 1e-300)) - 23, -149));
  return std::fabs(double(got) - wanted) / unit;
}

std::vector<float> samples() {
  std::vector<float> x = {0.0f,      -0.0f,     1.0f,     -1.0f,           HUGE_VALF,     -HUGE_VALF,
                          NAN,       1e-45f,    -1e-45f,  1.17549435e-38f, 3.4028235e38f, -3.4028235e38f,
                          88.72283f, 88.72284f, -103.97f, -104.0f,         -87.34f,       0.5f,
                          2.0f,      128.0f,    -149.0f};
  std::mt19937 random(1);
  std::uniform_real_distribution<float> narrow(-10, 10), wide(-110, 110), unit(-1, 1);
  while (x.size() < 250000) x.push_back(narrow(random));
  while (x.size() < 500000) x.push_back(wide(random));
  while (x.size() < 600000) x.push_back(unit(random));
  while (x.size() < (1 << 20)) x.push_back(std::bit_cast<float>(uint32_t(random())));
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
  double worst = 0;
  float at = 0;
  for (int64_t i = 0; i < n; ++i) {
    const float got = one.as_ptr<float>()[i];
    const double e = error_in_ulps(got, c.meaning(double(x[size_t(i)])));
    if (e > worst) {
      worst = e;
      at = x[size_t(i)];
    }
    const float lane = many.as_ptr<float>()[i];
    if (std::memcmp(&got, &lane, 4) != 0 && !(std::isnan(got) && std::isnan(lane))) {
      FAIL() << c.name << "(" << x[size_t(i)] << "): scalar " << got << ", lane " << lane;
    }
  }
  EXPECT_LE(worst, c.ulps) << c.name << " is worst at " << at << ": " << c.meaning(at);
  testing::Test::RecordProperty(std::string(c.name) + "_ulps", std::to_string(worst));
}

class Math : public testing::TestWithParam<Case> {};
TEST_P(Math, IsAccurate) { check_unary(GetParam(), host_target()); }
TEST_P(Math, IsAccurateWithoutFma) { check_unary(GetParam(), parse_target("llvm -mcpu=x86-64-v2")); }
INSTANTIATE_TEST_SUITE_P(Unary, Math, testing::ValuesIn(cases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tenon::test
