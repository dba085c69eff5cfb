// SPDX-License-Identifier: Apache-2.0
// docs/numerics.md, executed: error of reductions and of composed functions, bits on any thread count and in
// any place, NaN, saturation.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "interpret/interpret.h"
#include "pipeline/runner.h"
#include "support.h"

namespace tenon::graph::testing_graph {
namespace {

std::vector<float> normal_values(size_t n, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<float> draw;
  std::vector<float> out(n);
  for (float& v : out) v = draw(rng);
  return out;
}
NDArray array_of(std::vector<int64_t> shape, const std::vector<float>& values) {
  return NDArray::from_bytes(std::move(shape), f32, values.data(), values.size() * sizeof(float));
}

/// Largest |got - exact| / (sqrt(K) ε Σ|a b|).
double matmul_error(int64_t k) {
  const int64_t rows = 5, columns = 33;
  const std::vector<float> a = normal_values(size_t(rows * k), 1), b = normal_values(size_t(k * columns), 2);
  Model m;
  Runner runner(m.done(m.op("matmul", {m.param("a", {rows, k}), m.param("b", {k, columns})})));
  const NDArray got = runner.run({array_of({rows, k}, a), array_of({k, columns}, b)}).at(0);
  double worst = 0;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      double exact = 0, sizes = 0;
      for (int64_t p = 0; p < k; ++p) {
        const double term = double(a[size_t(i * k + p)]) * double(b[size_t(p * columns + j)]);
        exact += term;
        sizes += std::abs(term);
      }
      const double unit = std::sqrt(double(k)) * std::numeric_limits<float>::epsilon() * sizes;
      worst = std::max(worst, std::abs(got.element(i * columns + j) - exact) / unit);
    }
  return worst;
}

TEST(Numerics, ProductsStayWithinTheStatedBound) {
  for (int64_t k : {1, 7, 64, 1000, 20000}) EXPECT_LT(matmul_error(k), 1.0) << "K = " << k;
}

TEST(Numerics, SumsStayWithinTheStatedBound) {
  for (int64_t k : {3, 100, 4097, 300000}) {
    const std::vector<float> x = normal_values(size_t(2 * k), 3);
    Model m;
    Runner runner(m.done(m.op("sum", {m.param("x", {2, k})},
                              op::make_attrs<op::ReduceAttrs>([](auto& a) { a.axis = Array<int64_t>{1}; }))));
    const NDArray got = runner.run({array_of({2, k}, x)}).at(0);
    for (int64_t r = 0; r < 2; ++r) {
      double exact = 0, sizes = 0;
      for (int64_t i = 0; i < k; ++i) {
        exact += double(x[size_t(r * k + i)]);
        sizes += std::abs(double(x[size_t(r * k + i)]));
      }
      EXPECT_LE(std::abs(got.element(r) - exact),
                std::sqrt(double(k)) * std::numeric_limits<float>::epsilon() * sizes)
          << "K = " << k;
    }
  }
}

/// Error of the sum of `shape` elements 0.1 over `axes`, as a share of the sum.
double error_of_tenths(const NDArray& got, double count) {
  const double exact = double(0.1f) * count;
  return std::abs(got.element(0) - exact) / exact;
}

TEST(Numerics, TheErrorOfLongSumsGrowsSlowerThanTheirLength) {
  // Added one after the other, a million tenths are wrong by 1 %.
  const double root = std::sqrt(double(1 << 20)) * std::numeric_limits<float>::epsilon();
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{1 << 20}, {(1 << 20) + 7}, {64, 1 << 14}, {128, 64, 128}}) {
    double count = 1;
    for (const int64_t n : shape) count *= double(n);
    Model m;
    IRModule module = m.done(m.op("sum", {m.param("x", Array<PrimExpr>(shape.begin(), shape.end()))},
                                  op::make_attrs<op::ReduceAttrs>()));
    const NDArray x = array_of(shape, std::vector<float>(size_t(count), 0.1f));
    EXPECT_LE(error_of_tenths(Runner(module).run({x}).at(0), count), root)
        << shape.size() << " axes, compiled";
    if (shape.size() == 1) {
      EXPECT_LE(error_of_tenths(interpret(module, "main", {x}).as<NDArray>(), count), root) << "interpreted";
    }
  }
}

TEST(Numerics, SumsOfUnknownLengthHaveTheErrorOfABlock) {
  constexpr int64_t block = 64;  // terms that are added up in float32
  const tir::VarRef n = tir::var("n", i64);
  Model m;
  IRModule module =
      m.done(m.op("sum", {m.param("x", Array<PrimExpr>{n})}, op::make_attrs<op::ReduceAttrs>()));
  const NDArray x = array_of({1 << 20}, std::vector<float>(1 << 20, 0.1f));
  EXPECT_LE(error_of_tenths(Runner(module).run({x}).at(0), 1 << 20),
            std::sqrt(double(block)) * std::numeric_limits<float>::epsilon());
}

TEST(Numerics, AnyThreadCountGivesTheSameBits) {
  Model m;
  auto x = m.param("x", {64, 3000});
  Expr y = m.op("nn.softmax", {m.op("matmul", {x, m.weight({3000, 70})})}, op::make_attrs<op::AxisAttrs>(-1));
  Runner runner(m.done(m.op("sum", {m.op("multiply", {y, y})},
                            op::make_attrs<op::ReduceAttrs>([](auto& a) { a.axis = Array<int64_t>{0}; }))));
  const NDArray input = array_of({64, 3000}, normal_values(64 * 3000, 4));
  std::vector<char> first;
  for (int threads : {1, 2, 3, 7}) {
    runner.session().set_threads(threads);
    const NDArray out = runner.run({input}).at(0);
    std::vector<char> bits(out.byte_size());
    std::memcpy(bits.data(), out.data(), bits.size());
    if (first.empty()) first = bits;
    EXPECT_EQ(first, bits) << threads << " threads";
  }
}

TEST(Numerics, NanPropagatesAndCastsSaturate) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  Model m;
  auto x = m.param("x", {8});
  Runner runner(m.done(m.op("nn.relu", {x})));
  const NDArray relu = runner.run({array_of({8}, {nan, -1, 2, inf, -inf, 0, -0.0f, 1e-42f})}).at(0);
  EXPECT_TRUE(std::isnan(relu.element(0)));
  EXPECT_EQ(relu.element(1), 0);
  EXPECT_EQ(relu.element(3), double(inf));
  EXPECT_EQ(float(relu.element(7)), 1e-42f) << "subnormals are kept";
  Model n;
  auto z = n.param("z", {5});
  Runner cast(n.done(n.op("cast", {z}, op::make_attrs<op::CastAttrs>(i32))));
  const NDArray ints = cast.run({array_of({5}, {nan, 3e9f, -3e9f, 1.9f, -1.9f})}).at(0);
  const int64_t want[] = {0, INT32_MAX, INT32_MIN, 1, -1};
  for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(ints.element_int(i), want[i]) << i;
}

/// Maxima of softmax do not tell NaN (pass order_maxima): its exponentials do.
TEST(Numerics, ANanReachesAllSharesOfItsRow) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  constexpr int64_t rows = 3;
  for (const char* name : {"nn.softmax", "nn.log_softmax"})
    for (int64_t axis : {0, 1})
      for (bool known : {true, false})
        for (int64_t length : {1, 4, 16, 19, 40, 200}) {
          const tir::VarRef n = tir::var("n", i64);
          const PrimExpr size = known ? PrimExpr(length) : PrimExpr(n);
          Model m;
          const Expr x = m.param(
              "x", axis == 1 ? Array<PrimExpr>{PrimExpr(rows), size} : Array<PrimExpr>{size, PrimExpr(rows)});
          Runner runner(m.done(m.op(name, {x}, op::make_attrs<op::AxisAttrs>(axis))));
          for (int64_t place : {int64_t(0), length / 2, length - 1}) {
            std::vector<float> values = normal_values(size_t(rows * length), 5);
            auto at = [&](int64_t row, int64_t k) { return axis == 1 ? row * length + k : k * rows + row; };
            values[size_t(at(1, place))] = nan;
            for (int64_t k = 0; k < length; ++k) values[size_t(at(2, k))] = k == place ? nan : -inf;
            const NDArray got = runner.run(
                {array_of(axis == 1 ? std::vector<int64_t>{rows, length} : std::vector<int64_t>{length, rows},
                          values)})[0];
            for (int64_t row = 0; row < rows; ++row)
              for (int64_t k = 0; k < length; ++k)
                EXPECT_EQ(std::isnan(got.element(at(row, k))), row > 0)
                    << name << " along " << axis << ", " << length << ": " << row << ", " << k;
          }
        }
}

// ---------------------------------------------------------------- functions of one operand
double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
double softplus_of(double x) { return std::log1p(std::exp(-std::fabs(x))) + std::max(x, 0.0); }
double phi_of(double x) { return std::erfc(-x * M_SQRT1_2) / 2; }

TEST(Numerics, TheLastElementsAreLikeTheOthers) {
  // A kernel for all sizes and kernels of one size: whether an element is in a full vector or in what is left
  // over, its bits are the same.
  const char* names[] = {"exp", "log", "tanh", "erf", "sin", "cos", "sigmoid", "expm1", "nn.gelu"};
  auto model = [&](const PrimExpr& n) {
    Model m;
    const Expr x = m.param("x", {n});
    Array<Expr> all;
    for (const char* name : names)
      all.push_back(
          m.op(name, {x},
               std::string(name) == "nn.gelu" ? op::make_attrs<op::GeluAttrs>([](auto&) {}) : ObjectRef()));
    return m.done(make<Tuple>(all));
  };
  constexpr int64_t most = 70;
  std::vector<float> x = normal_values(size_t(most), 5);
  for (size_t i = 0; i < x.size(); ++i) x[i] *= float(i % 5 ? 2 : 30);
  std::vector<NDArray> whole;
  auto compare = [&](Runner& runner, int64_t n) {
    const std::vector<NDArray> got = runner.run({array_of({n}, {x.begin(), x.begin() + n})});
    if (whole.empty()) whole = got;
    for (size_t k = 0; k < got.size(); ++k)
      EXPECT_EQ(std::memcmp(got[k].data(), whole[k].data(), size_t(n) * 4), 0) << names[k] << " of " << n;
  };
  Runner any(model(tir::var("n")));
  for (int64_t n = most; n > 0; --n) compare(any, n);
  for (int64_t n : {5, 16, 37}) {
    Runner one(model(PrimExpr(n)));
    compare(one, n);
  }
}

TEST(Numerics, ActivationsStayWithinTheStatedErrors) {
  struct Activation {
    const char* name;
    double (*meaning)(double);
    double units;  ///< of 2^-24: of the result, or of what it is a difference of
    double (*size)(double) = nullptr;
    ObjectRef attrs = {};
  };
  auto of_x = [](double x) { return std::fabs(x); };
  const ObjectRef tanh_attrs = op::make_attrs<op::GeluAttrs>([](auto& a) { a.approximate = "tanh"; });
  const Activation list[] = {
      {"nn.gelu", [](double x) { return x * phi_of(x); }, 3, of_x,
       op::make_attrs<op::GeluAttrs>([](auto&) {})},
      {"nn.gelu",
       [](double x) { return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }, 3,
       of_x, tanh_attrs},
      {"nn.silu", [](double x) { return x * sigmoid_of(x); }, 5},
      {"nn.swish", [](double x) { return x * sigmoid_of(x); }, 5},
      {"nn.quick_gelu", [](double x) { return x * sigmoid_of(1.702 * x); }, 4, of_x},
      {"nn.softplus", softplus_of, 5},
      {"nn.log_sigmoid", [](double x) { return -softplus_of(-x); }, 5},
      {"nn.mish", [](double x) { return x * std::tanh(softplus_of(x)); }, 6},
      {"nn.elu", [](double x) { return x > 0 ? x : std::expm1(x); }, 3},
      {"nn.celu", [](double x) { return x > 0 ? x : std::expm1(x); }, 3},
      {"nn.selu",
       [](double x) { return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * std::expm1(x)); }, 4,
       nullptr, op::make_attrs<op::SeluAttrs>([](auto&) {})},
      {"nn.softsign", [](double x) { return x / (1 + std::fabs(x)); }, 3},
      {"nn.hard_swish", [](double x) { return x * std::min(1.0, std::max(0.0, x / 6 + 0.5)); }, 3, of_x},
      {"nn.tanh_shrink", [](double x) { return x - std::tanh(x); }, 2, of_x},
      {"nn.softcap", [](double x) { return 30 * std::tanh(x / 30); }, 4},
      {"nn.squareplus", [](double x) { return (x + std::sqrt(x * x + 4)) / 2; }, 3,
       [](double x) { return std::sqrt(x * x + 4); }},
      {"sinc", [](double x) { return x == 0 ? 1 : std::sin(M_PI * x) / (M_PI * x); }, 3,
       [](double) { return 1.0; }},
      {"cbrt", [](double x) { return std::cbrt(x); }, 3},
      {"exp10", [](double x) { return ::exp10(x); }, 2},
  };
  constexpr int64_t n = 1 << 15;
  std::mt19937_64 random(8);
  std::uniform_real_distribution<float> small(-4, 4), large(-30, 30);
  std::vector<float> x(static_cast<size_t>(n));
  for (size_t i = 0; i < x.size(); ++i) x[i] = i % 2 ? small(random) : large(random);
  Model m;
  const Expr in = m.param("x", {n});
  Array<Expr> all;
  for (const Activation& a : list) all.push_back(m.op(a.name, {in}, a.attrs));
  Runner runner(m.done(make<Tuple>(all)));
  const std::vector<NDArray> got = runner.run({array_of({n}, x)});
  for (size_t k = 0; k < got.size(); ++k) {
    const Activation& a = list[k];
    double worst = 0, at = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double wanted = a.meaning(double(x[i])), size = a.size ? a.size(double(x[i])) : std::fabs(wanted);
      const double e = std::fabs(got[k].element(int64_t(i)) - wanted) / std::max(size * 0x1p-24, 0x1p-149);
      if (e > worst) worst = e, at = double(x[i]);
    }
    EXPECT_LE(worst, a.units) << a.name << " at " << at;
    RecordProperty(fmt::format("{}_{}", a.name, k), fmt::format("{:.2f}", worst));
  }
}

}  // namespace
}  // namespace tenon::graph::testing_graph
