// SPDX-License-Identifier: Apache-2.0
// Further element-wise operators, reductions, scans and rearrangements against definitions in double.
#include "op_test.h"

namespace tenon::op_test {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

TEST(Special, UnaryMatchesItsDefinition) {
  const struct {
    const char* name;
    double (*f)(double);
    double low = -3, high = 3;
  } cases[] = {
      {"cbrt", [](double x) { return std::cbrt(x); }},
      {"exp10", [](double x) { return std::pow(10, x); }, -3, 2},
      {"deg2rad", [](double x) { return x * M_PI / 180; }, -400, 400},
      {"rad2deg", [](double x) { return x * 180 / M_PI; }},
      {"frac", [](double x) { return x - std::trunc(x); }},
      {"logit", [](double x) { return std::log(x / (1 - x)); }, 0.05, 0.95},
      {"sinc", [](double x) { return x == 0 ? 1 : std::sin(M_PI * x) / (M_PI * x); }},
      {"nn.relu6", [](double x) { return std::min(6.0, std::max(0.0, x)); }, -2, 9},
      {"nn.hard_tanh", [](double x) { return std::min(1.0, std::max(-1.0, x)); }},
      {"nn.log_sigmoid", [](double x) { return -std::log1p(std::exp(-x)); }},
      {"nn.tanh_shrink", [](double x) { return x - std::tanh(x); }},
      {"nn.quick_gelu", [](double x) { return x * sigmoid(1.702 * x); }},
      {"nn.squared_relu", [](double x) { return x > 0 ? x * x : 0; }},
      {"nn.hard_shrink", [](double x) { return std::fabs(x) > 0.5 ? x : 0; }},
      {"nn.soft_shrink", [](double x) { return x > 0.5    ? x - 0.5
                                               : x < -0.5 ? x + 0.5
                                                          : 0; }},
      {"nn.swish", [](double x) { return x * sigmoid(x); }},
      {"nn.softcap", [](double x) { return 30 * std::tanh(x / 30); }, -90, 90},
      {"nn.squareplus", [](double x) { return (x + std::sqrt(x * x + 4)) / 2; }},
  };
  for (const auto& k : cases) {
    SCOPED_TRACE(k.name);
    const NDArray x = random({3, 7}, f32, k.low, k.high);
    expect_all(run(k.name, {x}), {3, 7}, [&](const Index& i) { return k.f(at(x, i)); }, 2e-6);
    EXPECT_EQ(run(k.name, {random({0, 2})}).shape(), (Dims{0, 2}));
  }
  const NDArray y = random({9}, f32, -4, 4);
  expect_all(run("nn.swish", {y}, make_attrs<AlphaAttrs>(2.0)), {9},
             [&](const Index& i) { return at(y, i) * sigmoid(2 * at(y, i)); });
  EXPECT_EQ(list(run("popcount", {values({4}, {0, 7, 255, 129}, u8)})), (std::vector<double>{0, 3, 8, 2}));
}

TEST(Special, UnarySpecialValues) {
  const NDArray x = values({6}, {nan, inf, -inf, 0, -0.0, -2});
  using L = std::vector<double>;
  auto expect = [&](const char* name, const L& want) {
    SCOPED_TRACE(name);
    expect_all(run(name, {x}), {6}, [&](const Index& i) { return want[size_t(i[0])]; });
  };
  expect("cbrt", {nan, inf, -inf, 0, 0, std::cbrt(-2.0)});
  expect("isposinf", {0, 1, 0, 0, 0, 0});
  expect("isneginf", {0, 0, 1, 0, 0, 0});
  expect("nan_to_num", {0, 3.4028234663852886e38, -3.4028234663852886e38, 0, 0, -2});
  expect("nn.log_sigmoid", {nan, 0, -inf, -std::log(2.0), -std::log(2.0), -std::log1p(std::exp(2.0))});
  const NDArray signs = run("signbit", {values({4}, {1, -0.0, 0.0, -3})});
  EXPECT_EQ(list(signs), (L{0, 1, 0, 1}));
}

TEST(Special, BinaryMatchesItsDefinition) {
  const struct {
    const char* name;
    double (*f)(double, double);
    double low = -3;
  } cases[] = {
      {"trunc_divide", [](double a, double b) { return std::trunc(a / b); }},
      {"hypot", [](double a, double b) { return std::hypot(a, b); }},
      {"copysign", [](double a, double b) { return std::copysign(a, b); }},
      {"logaddexp", [](double a, double b) { return std::log(std::exp(a) + std::exp(b)); }},
      {"logaddexp2", [](double a, double b) { return std::log2(std::exp2(a) + std::exp2(b)); }},
      {"xlogy", [](double a, double b) { return a * std::log(b); }, 0.1},
      {"xlog1py", [](double a, double b) { return a * std::log1p(b); }, -0.9},
      {"squared_difference", [](double a, double b) { return (a - b) * (a - b); }},
      {"absolute_difference", [](double a, double b) { return std::fabs(a - b); }},
      {"heaviside", [](double a, double b) { return a < 0   ? 0
                                                    : a > 0 ? 1
                                                            : b; }},
      {"fmax", [](double a, double b) { return std::fmax(a, b); }},
      {"fmin", [](double a, double b) { return std::fmin(a, b); }},
  };
  for (const auto& k : cases) {
    SCOPED_TRACE(k.name);
    const NDArray a = random({2, 1, 3}, f32, k.low, 3, 1), b = random({4, 1}, f32, k.low, 3, 2);
    expect_all(
        run(k.name, {a, b}), {2, 4, 3},
        [&](const Index& i) { return k.f(at(a, {i[0], 0, i[2]}), at(b, {i[1], 0})); }, 3e-6);
  }
  const NDArray p = values({5}, {nan, 1, inf, -inf, 0}), q = values({5}, {1, nan, -inf, -inf, 0});
  auto expect = [&](const char* name, std::vector<double> want) {
    SCOPED_TRACE(name);
    expect_all(run(name, {p, q}), {5}, [&](const Index& i) { return want[size_t(i[0])]; });
  };
  expect("fmax", {1, 1, inf, -inf, 0});
  expect("fmin", {1, 1, -inf, -inf, 0});
  expect("hypot", {nan, nan, inf, inf, 0});
  expect("logaddexp", {nan, nan, inf, -inf, std::log(2.0)});
  expect("xlogy", {nan, nan, nan, nan, 0});
  const NDArray big = values({1}, {3e38f});
  EXPECT_NEAR(run("hypot", {values({1}, {3e20f}), values({1}, {4e20f})}).element(0) / 5e20, 1, 1e-6);
  EXPECT_TRUE(std::isfinite(run("logaddexp", {big, big}).element(0)));
  EXPECT_EQ(list(run("absolute_difference", {values({2}, {3, 200}, u8), values({2}, {200, 3}, u8)})),
            (std::vector<double>{197, 197}));
  EXPECT_EQ(list(run("trunc_divide", {values({3}, {7, -7, 5}, i32), values({3}, {2, 2, 0}, i32)})),
            (std::vector<double>{3, -3, 0}));
}

TEST(Special, TernaryBroadcasts) {
  const NDArray x = random({2, 3}), a = random({3}, f32, 1, 2, 2), b = random({2, 1}, f32, 1, 2, 3);
  expect_all(run("lerp", {x, a, b}), {2, 3},
             [&](const Index& i) { return at(x, i) + at(b, {i[0], 0}) * (at(a, {i[1]}) - at(x, i)); });
  expect_all(run("addcmul", {x, a, b}, make_attrs<AlphaAttrs>(0.5)), {2, 3},
             [&](const Index& i) { return at(x, i) + 0.5 * at(a, {i[1]}) * at(b, {i[0], 0}); });
  expect_all(run("addcdiv", {x, a, b}), {2, 3},
             [&](const Index& i) { return at(x, i) + at(a, {i[1]}) / at(b, {i[0], 0}); });
  expect_refused("lerp", {random({2}), random({3}), random({2})}, {}, {"(2,)", "(3,)"});
  expect_refused("lerp", {random({2}), random({2}, f64), random({2})}, {}, {"float64"});
}

}  // namespace
}  // namespace tenon::op_test
