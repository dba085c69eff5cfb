// SPDX-License-Identifier: Apache-2.0
// Element-wise operators against <cmath> in double.
#include "op_test.h"

namespace tenon::op_test {
namespace {

struct UnaryCase {
  const char* name;
  double (*f)(double);
  double low = -2, high = 2;
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double softplus(double x) { return std::log(1 + std::exp(x)); }

const UnaryCase unary_cases[] = {
    {"abs", [](double x) { return std::fabs(x); }},
    {"negative", [](double x) { return -x; }},
    {"sign", [](double x) { return x > 0   ? 1.0
                                   : x < 0 ? -1.0
                                           : 0.0; }},
    {"floor", [](double x) { return std::floor(x); }},
    {"ceil", [](double x) { return std::ceil(x); }},
    {"round", [](double x) { return std::nearbyint(x); }},
    {"trunc", [](double x) { return std::trunc(x); }},
    {"exp", [](double x) { return std::exp(x); }},
    {"exp2", [](double x) { return std::exp2(x); }},
    {"expm1", [](double x) { return std::expm1(x); }},
    {"log", [](double x) { return std::log(x); }, 0.1, 4},
    {"log1p", [](double x) { return std::log1p(x); }, -0.9, 4},
    {"log2", [](double x) { return std::log2(x); }, 0.1, 4},
    {"log10", [](double x) { return std::log10(x); }, 0.1, 4},
    {"sqrt", [](double x) { return std::sqrt(x); }, 0, 4},
    {"rsqrt", [](double x) { return 1 / std::sqrt(x); }, 0.1, 4},
    {"reciprocal", [](double x) { return 1 / x; }, 0.2, 4},
    {"square", [](double x) { return x * x; }},
    {"sin", [](double x) { return std::sin(x); }},
    {"cos", [](double x) { return std::cos(x); }},
    {"tan", [](double x) { return std::tan(x); }, -1, 1},
    {"asin", [](double x) { return std::asin(x); }, -1, 1},
    {"acos", [](double x) { return std::acos(x); }, -1, 1},
    {"atan", [](double x) { return std::atan(x); }},
    {"sinh", [](double x) { return std::sinh(x); }},
    {"cosh", [](double x) { return std::cosh(x); }},
    {"tanh", [](double x) { return std::tanh(x); }},
    {"asinh", [](double x) { return std::asinh(x); }},
    {"acosh", [](double x) { return std::acosh(x); }, 1, 4},
    {"atanh", [](double x) { return std::atanh(x); }, -0.9, 0.9},
    {"erf", [](double x) { return std::erf(x); }},
    {"sigmoid", sigmoid, -6, 6},
    {"nn.relu", [](double x) { return x > 0 ? x : 0; }},
    {"nn.silu", [](double x) { return x * sigmoid(x); }, -6, 6},
    {"nn.hard_swish", [](double x) { return x * std::min(1.0, std::max(0.0, x / 6 + 0.5)); }, -5, 5},
    {"nn.softplus", softplus, -20, 20},
    {"nn.softsign", [](double x) { return x / (1 + std::fabs(x)); }},
    {"nn.mish", [](double x) { return x * std::tanh(softplus(x)); }, -6, 6},
    {"nn.gelu", [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }, -5, 5},
    {"nn.leaky_relu", [](double x) { return x < 0 ? 0.01 * x : x; }},
    {"nn.elu", [](double x) { return x > 0 ? x : std::exp(x) - 1; }},
    {"nn.celu", [](double x) { return std::max(0.0, x) + std::min(0.0, std::exp(x) - 1); }},
    {"nn.selu",
     [](double x) { return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * (std::exp(x) - 1)); }},
    {"nn.thresholded_relu", [](double x) { return x > 1 ? x : 0; }},
    {"nn.hard_sigmoid", [](double x) { return std::min(1.0, std::max(0.0, 0.2 * x + 0.5)); }, -4, 4},
};

TEST(Unary, MatchesItsDefinition) {
  for (const UnaryCase& c : unary_cases) {
    SCOPED_TRACE(c.name);
    const NDArray x = random({3, 5}, f32, c.low, c.high);
    expect_all(run(c.name, {x}), {3, 5}, [&](const Index& i) { return c.f(at(x, i)); });
  }
}

TEST(Unary, NarrowFloatsAreComputedWide) {
  for (const char* name : {"exp", "nn.gelu", "sigmoid", "nn.silu"})
    for (DataType t : {f16, bf16()}) {
      SCOPED_TRACE(name);
      const NDArray x = random({17}, t), y = run(name, {x});
      ASSERT_EQ(y.dtype(), t);
      for (const UnaryCase& c : unary_cases)
        if (std::string(c.name) == name)
          expect_all(
              y, {17}, [&](const Index& i) { return c.f(at(x, i)); }, t == f16 ? 1.0 / 2048 : 1.0 / 256);
    }
}

TEST(Unary, SpecialValues) {
  const NDArray x = values({5}, {nan, inf, -inf, 0, -1});
  EXPECT_EQ(list(run("isnan", {x})), (std::vector<double>{1, 0, 0, 0, 0}));
  EXPECT_EQ(list(run("isinf", {x})), (std::vector<double>{0, 1, 1, 0, 0}));
  EXPECT_EQ(list(run("isfinite", {x})), (std::vector<double>{0, 0, 0, 1, 1}));
  expect_all(run("nn.relu", {x}), {5},
             [&](const Index& i) { return std::vector<double>{nan, inf, 0, 0, 0}[size_t(i[0])]; });
  expect_all(run("sign", {x}), {5},
             [&](const Index& i) { return std::vector<double>{nan, 1, -1, 0, -1}[size_t(i[0])]; });
  expect_all(run("nn.elu", {x}), {5}, [&](const Index& i) {
    return std::vector<double>{nan, inf, -1, 0, std::exp(-1.0) - 1}[size_t(i[0])];
  });
  expect_all(run("nn.softplus", {x}), {5}, [&](const Index& i) {
    return std::vector<double>{nan, inf, 0, std::log(2.0), std::log(1 + std::exp(-1.0))}[size_t(i[0])];
  });
}

TEST(Unary, IntegersAndBooleans) {
  const NDArray x = values({4}, {-128, -3, 0, 127}, DataType::int_(8));
  EXPECT_EQ(list(run("abs", {x})), (std::vector<double>{-128, 3, 0, 127}));
  EXPECT_EQ(list(run("sign", {x})), (std::vector<double>{-1, -1, 0, 1}));
  EXPECT_EQ(list(run("bitwise_not", {x})), (std::vector<double>{127, 2, -1, -128}));
  EXPECT_EQ(list(run("nn.relu", {x})), (std::vector<double>{0, 0, 0, 127}));
  EXPECT_EQ(list(run("logical_not", {values({2}, {0, 1}, boolean)})), (std::vector<double>{1, 0}));
  EXPECT_EQ(list(run("sign", {values({2}, {0, 200}, u8)})), (std::vector<double>{0, 1}));
}

TEST(Unary, EmptyAndScalarTensors) {
  EXPECT_EQ(run("exp", {random({3, 0, 2})}).shape(), (Dims{3, 0, 2}));
  EXPECT_NEAR(run("exp", {values({}, {1})}).element(0), std::exp(1.0), 1e-6);
}

TEST(Unary, Parameters) {
  const NDArray x = random({20}, f32, -4, 4);
  auto with = [&](const char* name, ObjectRef attrs, double (*f)(double)) {
    SCOPED_TRACE(name);
    expect_all(run(name, {x}, attrs), {20}, [&](const Index& i) { return f(at(x, i)); });
  };
  with("clip", make_attrs<ClipAttrs>(-1.0, 2.0), [](double v) { return std::min(2.0, std::max(-1.0, v)); });
  with("clip", make_attrs<ClipAttrs>(-inf, 2.0), [](double v) { return std::min(2.0, v); });
  with("clip", make_attrs<ClipAttrs>(2.0, 1.0), [](double) { return 1.0; });
  with("nn.leaky_relu", make_attrs<AlphaAttrs>(0.3), [](double v) { return v < 0 ? 0.3 * v : v; });
  with("nn.elu", make_attrs<AlphaAttrs>(2.0), [](double v) { return v > 0 ? v : 2 * (std::exp(v) - 1); });
  with("nn.celu", make_attrs<AlphaAttrs>(2.0),
       [](double v) { return std::max(0.0, v) + std::min(0.0, 2 * (std::exp(v / 2) - 1)); });
  with("nn.hard_sigmoid", make_attrs<HardSigmoidAttrs>(1.0 / 6, 0.5),
       [](double v) { return std::min(1.0, std::max(0.0, v / 6 + 0.5)); });
  with("nn.gelu", make_attrs<GeluAttrs>(std::string("tanh")),
       [](double v) { return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v))); });
  const NDArray k = values({3}, {-7, 0, 9}, i64);
  EXPECT_EQ(list(run("clip", {k}, make_attrs<ClipAttrs>(-inf, 5.0))), (std::vector<double>{-7, 0, 5}));
}

TEST(Cast, SaturatesWrapsAndTests) {
  auto to = [](DataType t) { return make_attrs<CastAttrs>(t); };
  const NDArray x = values({6}, {nan, -1.9, 300, -inf, 2.5, 0});
  EXPECT_EQ(list(run("cast", {x}, to(i32))), (std::vector<double>{0, -1, 300, -2147483648.0, 2, 0}));
  EXPECT_EQ(list(run("cast", {x}, to(u8))), (std::vector<double>{0, 0, 255, 0, 2, 0}));
  EXPECT_EQ(list(run("cast", {x}, to(boolean))), (std::vector<double>{1, 1, 1, 1, 1, 0}));
  EXPECT_EQ(list(run("cast", {values({2}, {257, -1}, i64)}, to(u8))), (std::vector<double>{1, 255}));
  EXPECT_EQ(run("cast", {values({1}, {0.1})}, to(f16)).element(0), double(f16_to_float(float_to_f16(0.1f))));
}

struct BinaryCase {
  const char* name;
  double (*f)(double, double);
};
double floor_mod(double a, double b) { return a - b * std::floor(a / b); }

TEST(Binary, FloatsBroadcast) {
  const BinaryCase cases[] = {
      {"add", [](double a, double b) { return a + b; }},
      {"subtract", [](double a, double b) { return a - b; }},
      {"multiply", [](double a, double b) { return a * b; }},
      {"divide", [](double a, double b) { return a / b; }},
      {"floor_divide", [](double a, double b) { return std::floor(a / b); }},
      {"mod", [](double a, double b) { return std::fmod(a, b); }},
      {"floor_mod", floor_mod},
      {"maximum", [](double a, double b) { return std::max(a, b); }},
      {"minimum", [](double a, double b) { return std::min(a, b); }},
      {"atan2", [](double a, double b) { return std::atan2(a, b); }},
      {"less", [](double a, double b) { return double(a < b); }},
      {"less_equal", [](double a, double b) { return double(a <= b); }},
      {"greater", [](double a, double b) { return double(a > b); }},
      {"greater_equal", [](double a, double b) { return double(a >= b); }},
      {"equal", [](double a, double b) { return double(a == b); }},
      {"not_equal", [](double a, double b) { return double(a != b); }},
  };
  const NDArray a = random({2, 1, 3}, f32, -3, 3, 1), b = random({4, 1}, f32, -3, 3, 2),
                c = random({4, 3}, f32, -3, 3, 3), s = values({}, {0.75});
  for (const BinaryCase& x : cases) {
    SCOPED_TRACE(x.name);
    expect_all(run(x.name, {a, b}), {2, 4, 3},
               [&](const Index& i) { return x.f(at(a, {i[0], 0, i[2]}), at(b, {i[1], 0})); });
    expect_all(run(x.name, {c, s}), {4, 3}, [&](const Index& i) { return x.f(at(c, i), 0.75); });
    expect_all(run(x.name, {s, c}), {4, 3}, [&](const Index& i) { return x.f(0.75, at(c, i)); });
    expect_all(run(x.name, {c, c}), {4, 3}, [&](const Index& i) { return x.f(at(c, i), at(c, i)); });
    EXPECT_EQ(run(x.name, {random({0, 3}), random({1, 3})}).shape(), (Dims{0, 3}));
  }
  const NDArray base = random({2, 3}, f32, 0.1, 3), e = random({3}, f32, -2, 2, 4);
  expect_all(run("power", {base, e}), {2, 3},
             [&](const Index& i) { return std::pow(at(base, i), at(e, {i[1]})); });
}

TEST(Binary, RemaindersOfNothingHaveTheSignOfTheDivisor) {
  const NDArray a = values({6}, {0.0, -0.0, 0.0, -0.0, 4, -4}), b = values({6}, {3, 3, -3, -3, -2, 2});
  const NDArray r = run("floor_mod", {a, b});
  for (int64_t i = 0; i < 6; ++i) {
    EXPECT_EQ(r.element(i), 0) << i;
    EXPECT_EQ(std::signbit(r.element(i)), b.element(i) < 0) << i;
  }
}

TEST(Binary, NaNPropagatesThroughExtremes) {
  const NDArray a = values({4}, {nan, 1, inf, -inf}), b = values({4}, {1, nan, 2, 2});
  expect_all(run("maximum", {a, b}), {4},
             [](const Index& i) { return std::vector<double>{nan, nan, inf, 2}[size_t(i[0])]; });
  expect_all(run("minimum", {a, b}), {4},
             [](const Index& i) { return std::vector<double>{nan, nan, 2, -inf}[size_t(i[0])]; });
}

TEST(Binary, Integers) {
  const NDArray a = values({6}, {7, -7, 7, -7, 5, 0}, i32), b = values({6}, {2, 2, -2, -2, 0, 3}, i32);
  using L = std::vector<double>;
  EXPECT_EQ(list(run("divide", {a, b})), (L{3, -3, -3, 3, 0, 0}));
  EXPECT_EQ(list(run("floor_divide", {a, b})), (L{3, -4, -4, 3, 0, 0}));
  EXPECT_EQ(list(run("mod", {a, b})), (L{1, -1, 1, -1, 0, 0}));
  EXPECT_EQ(list(run("floor_mod", {a, b})), (L{1, 1, -1, -1, 0, 0}));
  const NDArray p = values({6}, {2, -3, -1, 1, 2, 0}, i32), q = values({6}, {10, 3, 41, -5, -1, 0}, i32);
  EXPECT_EQ(list(run("power", {p, q})), (L{1024, -27, -1, 1, 0, 1}));
  EXPECT_EQ(list(run("power", {values({1}, {3}, i64), values({1}, {39}, i64)})), (L{4052555153018976267.0}));
  EXPECT_EQ(list(run("add", {values({2}, {255, 1}, u8), values({2}, {1, 1}, u8)})), (L{0, 2}));
  EXPECT_EQ(list(run("bitwise_and", {a, b})), (L{7 & 2, -7 & 2, 7 & -2, -7 & -2, 0, 0}));
  EXPECT_EQ(list(run("bitwise_or", {a, b})), (L{7 | 2, -7 | 2, 7 | -2, -7 | -2, 5, 3}));
  EXPECT_EQ(list(run("bitwise_xor", {a, b})), (L{7 ^ 2, -7 ^ 2, 7 ^ -2, -7 ^ -2, 5, 3}));
  EXPECT_EQ(list(run("left_shift", {values({3}, {1, 3, 128}, u8), values({3}, {3, 7, 9}, u8)})),
            (L{8, 128, 0}));
  EXPECT_EQ(list(run("right_shift", {values({2}, {-9, 9}, i32), values({2}, {1, 1}, i32)})), (L{-5, 4}));
}

TEST(Binary, Booleans) {
  const NDArray a = values({4}, {0, 0, 1, 1}, boolean), b = values({4}, {0, 1, 0, 1}, boolean);
  using L = std::vector<double>;
  EXPECT_EQ(list(run("logical_and", {a, b})), (L{0, 0, 0, 1}));
  EXPECT_EQ(list(run("logical_or", {a, b})), (L{0, 1, 1, 1}));
  EXPECT_EQ(list(run("logical_xor", {a, b})), (L{0, 1, 1, 0}));
  EXPECT_EQ(list(run("bitwise_xor", {a, b})), (L{0, 1, 1, 0}));
  EXPECT_EQ(list(run("equal", {a, b})), (L{1, 0, 0, 1}));
}

TEST(Where, BroadcastsThreeWays) {
  const NDArray c = values({2, 1}, {1, 0}, boolean), x = random({3}, f32), y = random({2, 1, 1}, f32, 5, 6);
  expect_all(run("where", {c, x, y}), {2, 2, 3},
             [&](const Index& i) { return at(c, {i[1], 0}) != 0 ? at(x, {i[2]}) : at(y, {i[0], 0, 0}); });
}

TEST(PRelu, BroadcastsTheSlopeOnly) {
  const NDArray x = random({2, 3, 4}), slope = random({3, 1}, f32, 0, 1, 7);
  expect_all(run("nn.prelu", {x, slope}), {2, 3, 4},
             [&](const Index& i) { return at(x, i) < 0 ? at(x, i) * at(slope, {i[1], 0}) : at(x, i); });
  expect_refused("nn.prelu", {random({3}), random({2, 3})}, {}, {"nn.prelu", "(2, 3)", "(3,)"});
}

TEST(Elementwise, RefusesWithCodeAndWords) {
  expect_refused("add", {random({2, 3}), random({4, 3})}, {}, {"add", "(2, 3)", "(4, 3)"});
  expect_refused("add", {random({2}), random({2}, f64)}, {}, {"float32", "float64"});
  expect_refused("exp", {random({2}, i32)}, {}, {"exp", "floating", "int32"});
  expect_refused("logical_and", {random({2}), random({2})}, {}, {"booleans", "float32"});
  expect_refused("where", {random({2}), random({2}), random({2})}, {}, {"condition"});
  expect_refused("nn.gelu", {random({2})}, make_attrs<GeluAttrs>(std::string("fast")), {"fast"});
  expect_refused([] { op_call("exp", {}); }, "T1103", {"exp", "0 arguments"});
  expect_refused([] { typed_call("exp", {random({2}), random({2})}); }, "T1103", {"2 arguments"});
}

TEST(Elementwise, SymbolicSizes) {
  PrimExpr n = tir::var("n"), m = tir::var("m");
  Expr x = input("x", Shape{n, 3}), y = input("y", Shape{3}), z = input("z", Shape{n, 1}),
       w = input("w", Shape{m, 3});
  EXPECT_EQ(shape_text(op_call("add", {x, y})), "(n, 3)");
  EXPECT_EQ(shape_text(op_call("add", {z, y})), "(n, 3)");
  EXPECT_EQ(shape_text(op_call("add", {x, w})), "unknown");  // n = m, or one of them is 1: not known here
  EXPECT_EQ(op_call("add", {x, w})->type.as<graph::TensorType>()->ndim, 2);
  const NDArray a = random({4, 3}), b = random({3}, f32, -1, 1, 2);
  expect_all(run_call(op_call("multiply", {x, y}), {a, b})[0], {4, 3},
             [&](const Index& i) { return at(a, i) * at(b, {i[1]}); });
  // A symbolic axis against a constant one is 1 or the same; both work.
  Expr v = input("v", Shape{n});
  Expr sum = op_call("add", {v, y});
  EXPECT_EQ(shape_text(sum), "(3,)");
  const NDArray one = values({1}, {10}), three = random({3}, f32, 0, 1, 9);
  expect_all(run_call(sum, {one, b})[0], {3}, [&](const Index& i) { return 10 + at(b, i); });
  expect_all(run_call(sum, {three, b})[0], {3}, [&](const Index& i) { return at(three, i) + at(b, i); });
}

}  // namespace
}  // namespace tenon::op_test
