// SPDX-License-Identifier: Apache-2.0
// The cheaper exponentials within the errors that they state, and the operators that place values.
#include "op/device.h"
#include "op_test.h"

namespace tenon::op_test {
namespace {

TEST(Fast, ExponentialsWithinTheirErrors) {
  const NDArray x = random({40, 7}, f32, -8, 8);
  expect_all(run("fast_exp", {x}), {40, 7}, [&](const Index& i) { return std::exp(at(x, i)); }, 1e-6);
  expect_all(run("fast_tanh", {x}), {40, 7}, [&](const Index& i) { return std::tanh(at(x, i)); }, 1e-5);
  expect_all(run("fast_erf", {x}), {40, 7}, [&](const Index& i) { return std::erf(at(x, i)); }, 1e-4);
  const NDArray ends = values({4}, {nan, 1000, -1000, 0});
  EXPECT_TRUE(std::isnan(list(run("fast_exp", {ends}))[0]));
  EXPECT_EQ(list(run("fast_tanh", {ends}))[1], 1);
  EXPECT_EQ(list(run("fast_erf", {ends}))[2], -1);
  EXPECT_EQ(run("fast_exp", {random({0, 2})}).shape(), (Dims{0, 2}));
}

TEST(Fast, RoughFunctionsWithinTheirErrors) {
  NDArray x = NDArray::empty({4001}, f32);
  for (int64_t i = 0; i < x.size(); ++i) x.set_element(i, double(i - 2000) * 0.03);
  const auto sigmoid = list(run("rough_sigmoid", {x})), erf = list(run("rough_erf", {x}));
  for (size_t i = 0; i < sigmoid.size(); ++i) {
    const double v = x.element(int64_t(i)), s = 1 / (1 + std::exp(-v)), e = std::erf(v);
    EXPECT_LE(std::abs(sigmoid[i] - s), 2e-4 * s) << v;
    EXPECT_LE(std::abs(erf[i] - e), std::min(3.1e-5, 1.1e-4 * std::abs(e))) << v;
  }
  const NDArray ends = values({4}, {nan, 1e30, -1e30, 0});
  const auto s = list(run("rough_sigmoid", {ends})), e = list(run("rough_erf", {ends}));
  EXPECT_TRUE(std::isnan(s[0]) && std::isnan(e[0]));
  EXPECT_NEAR(s[1], 1, 2e-4);
  EXPECT_LE(s[2], 1e-30);
  EXPECT_GE(s[2], 0);
  EXPECT_NEAR(e[1], 1, 3.1e-5);
  EXPECT_NEAR(e[2], -1, 3.1e-5);
  EXPECT_EQ(e[3], 0);
}

TEST(Fast, SoftmaxSumsToOne) {
  const NDArray x = random({5, 9}, f32, -4, 4);
  std::vector<double> sums(5, 0);
  for_each_index({5, 9}, [&](const Index& i) { sums[size_t(i[0])] += std::exp(at(x, i)); });
  expect_all(
      run("nn.fast_softmax", {x}), {5, 9},
      [&](const Index& i) { return std::exp(at(x, i)) / sums[size_t(i[0])]; }, 1e-5);
}

TEST(Fast, RoughSoftmaxWithinItsError) {
  const NDArray x = random({5, 37}, f32, -30, 30);
  std::vector<double> sums(5, 0), tops(5, -1e30);
  for_each_index({5, 37},
                 [&](const Index& i) { tops[size_t(i[0])] = std::max(tops[size_t(i[0])], at(x, i)); });
  auto part = [&](const Index& i) { return std::exp(at(x, i) - tops[size_t(i[0])]); };
  for_each_index({5, 37}, [&](const Index& i) { sums[size_t(i[0])] += part(i); });
  const NDArray y = run("nn.rough_softmax", {x});
  for_each_index({5, 37}, [&](const Index& i) {
    const double want = part(i) / sums[size_t(i[0])];
    EXPECT_LE(std::abs(at(y, i) - want), 3e-4 * want) << at(x, i);
  });
  // What is masked has no share, and NaN stays.
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto masked = list(run("nn.rough_softmax", {values({3}, {0, -infinity, -90})}));
  EXPECT_NEAR(masked[0], 1, 3e-4);
  EXPECT_EQ(masked[1], 0);
  EXPECT_EQ(masked[2], 0);
  EXPECT_TRUE(std::isnan(list(run("nn.rough_softmax", {values({2}, {nan, 1})}))[1]));
}

TEST(Device, HintsAndCopiesGiveTheirOperand) {
  const NDArray x = random({3, 4});
  for (const char* name : {"hint_on_device", "to_device"})
    expect_all(
        run(name, {x}, make_attrs<DeviceAttrs>("cpu:1")), {3, 4}, [&](const Index& i) { return at(x, i); },
        0);
}

}  // namespace
}  // namespace tenon::op_test
