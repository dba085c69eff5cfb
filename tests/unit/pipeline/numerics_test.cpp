// SPDX-License-Identifier: Apache-2.0
// docs/numerics.md, executed: error of reductions, bits on any thread count, NaN, saturation.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

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

}  // namespace
}  // namespace tenon::graph::testing_graph
