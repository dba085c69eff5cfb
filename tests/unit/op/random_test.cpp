// SPDX-License-Identifier: Apache-2.0
// Random numbers: the generator's published vectors, an independent definition of it, and moments of
// distributions.
#include <array>
#include <set>

#include "op/attrs_random.h"
#include "op_test.h"

namespace tenon::op_test {
namespace {

const DataType u32 = DataType::uint(32);
using Four = std::array<uint32_t, 4>;

/// Philox4x32-10 as its paper writes it.
Four philox(Four c, std::array<uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p = uint64_t(0xD2511F53u) * c[0], q = uint64_t(0xCD9E8D57u) * c[2];
    c = {uint32_t(q >> 32) ^ c[1] ^ k[0], uint32_t(q), uint32_t(p >> 32) ^ c[3] ^ k[1], uint32_t(p)};
    k = {k[0] + 0x9E3779B9u, k[1] + 0xBB67AE85u};
  }
  return c;
}
NDArray key_of(uint32_t a, uint32_t b) {
  NDArray k = NDArray::empty({2}, u32);
  k.set_element_int(0, a), k.set_element_int(1, b);
  return k;
}
uint32_t word(const NDArray& a, int64_t i) { return uint32_t(a.element_int(i)); }
uint32_t wanted_word(uint32_t a, uint32_t b, int64_t i) {
  return philox({uint32_t(i / 4), uint32_t(uint64_t(i / 4) >> 32), 0, 0}, {a, b})[size_t(i % 4)];
}

TEST(Random, ThePublishedVectorsHold) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Four{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Four{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  const NDArray bits = run("random.bits", {key_of(0, 0)}, {}, {shape({4})});
  EXPECT_EQ(word(bits, 0), 0x6627e8d5u);
  EXPECT_EQ(word(bits, 3), 0x9b00dbd8u);
}
TEST(Random, BitsKeysAndSplits) {
  const NDArray bits = run("random.bits", {key_of(0x1234567, 0x89abcdef)}, {}, {shape({3, 7})});
  for (int64_t i = 0; i < 21; ++i) EXPECT_EQ(word(bits, i), wanted_word(0x1234567, 0x89abcdef, i));
  const NDArray key = run("random.key", {}, make_attrs<SeedAttrs>(int64_t(0x1122334455667788)));
  EXPECT_EQ(word(key, 0), 0x55667788u);
  EXPECT_EQ(word(key, 1), 0x11223344u);
  const NDArray parts = run("random.split", {key}, make_attrs<CountAttrs>(int64_t(3)));
  ASSERT_EQ(parts.shape(), (Dims{3, 2}));
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(word(parts, i), wanted_word(0x55667788, 0x11223344, i));
  EXPECT_EQ(run("random.bits", {key}, {}, {shape({0})}).size(), 0);
  expect_refused("random.bits", {random({3}, u32, 0, 9)}, {}, {"two uint32 words"}, {shape({1})});
}
double wanted_unit(uint32_t a, uint32_t b, int64_t i, DataType t) {
  if (t == f64)
    return (double(wanted_word(a, b, 2 * i) >> 5) * 67108864.0 + double(wanted_word(a, b, 2 * i + 1) >> 6)) /
           9007199254740992.0;
  return double(wanted_word(a, b, i) >> 8) / 16777216.0;
}
TEST(Random, UniformIsTheDefinition) {
  for (DataType t : {f32, f64}) {
    const NDArray u =
        run("random.uniform", {key_of(7, 8)}, make_attrs<RandomAttrs>(-2.0, 3.0, t), {shape({4, 5})});
    EXPECT_EQ(u.dtype(), t);
    for (int64_t i = 0; i < 20; ++i) EXPECT_NEAR(u.element(i), -2 + 5 * wanted_unit(7, 8, i, t), 1e-6);
  }
  const NDArray half =
      run("random.uniform", {key_of(7, 8)}, make_attrs<RandomAttrs>(0.0, 1.0, f16), {shape({9})});
  for (double v : list(half)) EXPECT_TRUE(v >= 0 && v <= 1);
}
TEST(Random, OtherDistributionsAreTheirDefinitions) {
  const NDArray key = key_of(3, 4);
  auto u = [](int64_t i) { return wanted_unit(3, 4, i, f32); };
  auto drawn = [&](const char* name) {
    return run(name, {key}, make_attrs<NormalAttrs>(1.0, 2.0, f32), {shape({50})});
  };
  const NDArray normal = drawn("random.normal"), exponential = drawn("random.exponential"),
                gumbel = drawn("random.gumbel"), laplace = drawn("random.laplace");
  for (int64_t i = 0; i < 50; ++i) {
    const double r = std::sqrt(-2 * std::log(1 - u(2 * i))) * std::cos(2 * M_PI * u(2 * i + 1));
    EXPECT_NEAR(normal.element(i), 1 + 2 * r, 1e-4);
    EXPECT_NEAR(exponential.element(i), 1 - 2 * std::log(1 - u(i)), 1e-4);
    EXPECT_NEAR(gumbel.element(i), 1 - 2 * std::log(-std::log(1 - u(i))), 1e-3);
    const double twice = 2 * u(i), rest = twice >= 1 ? twice - 1 : twice;
    EXPECT_NEAR(laplace.element(i), 1 + 2 * (twice >= 1 ? -1 : 1) * std::log(1 - rest), 1e-4);
  }
}
TEST(Random, MomentsAreThoseOfTheDistributions) {
  const NDArray key = key_of(11, 12);
  auto moments = [](const NDArray& x) {
    double sum = 0, squares = 0;
    for (double v : list(x)) sum += v, squares += v * v;
    const double mean = sum / double(x.size());
    return std::pair(mean, squares / double(x.size()) - mean * mean);
  };
  auto [um, uv] = moments(run("random.uniform", {key}, {}, {shape({4000})}));
  EXPECT_NEAR(um, 0.5, 0.02);
  EXPECT_NEAR(uv, 1.0 / 12, 0.01);
  auto [nm, nv] = moments(run("random.normal", {key}, {}, {shape({4000})}));
  EXPECT_NEAR(nm, 0, 0.06);
  EXPECT_NEAR(nv, 1, 0.1);
  auto [em, ev] = moments(run("random.exponential", {key}, {}, {shape({4000})}));
  EXPECT_NEAR(em, 1, 0.06);
  EXPECT_NEAR(ev, 1, 0.2);
}
TEST(Random, IntegersBernoulliCategoricalPermutation) {
  const NDArray key = key_of(5, 6);
  const NDArray n = run("random.randint", {key}, make_attrs<RandomAttrs>(-3.0, 4.0, i32), {shape({60})});
  for (int64_t i = 0; i < 60; ++i)
    EXPECT_EQ(n.element_int(i), int64_t((uint64_t(wanted_word(5, 6, i)) * 7) >> 32) - 3);
  const NDArray p = random({30}, f32, 0, 1);
  expect_all(run("random.bernoulli", {key, p}), {30},
             [&](const Index& i) { return wanted_unit(5, 6, i[0], f32) < at(p, i); });
  const NDArray logits = random({2, 5}, f32);
  expect_all(run("random.categorical", {key, logits}, make_attrs<CountAttrs>(int64_t(6))), {2, 6},
             [&](const Index& i) {
               double best = -inf;
               int64_t which = 0;
               for (int64_t c = 0; c < 5; ++c) {
                 const double u = wanted_unit(5, 6, (i[0] * 6 + i[1]) * 5 + c, f32);
                 const double score = at(logits, {i[0], c}) - std::log(-std::log(1 - u));
                 if (score > best) best = score, which = c;
               }
               return double(which);
             });
  const auto order = list(run("random.permutation", {key}, {}, {shape({50})}));
  EXPECT_EQ(std::set<double>(order.begin(), order.end()).size(), 50u);
  for (size_t i = 1; i < order.size(); ++i)
    EXPECT_LE(wanted_word(5, 6, int64_t(order[i - 1])), wanted_word(5, 6, int64_t(order[i])));
  expect_refused("random.randint", {key}, make_attrs<RandomAttrs>(3.0, 3.0, i32), {"no integer"},
                 {shape({1})});
}

}  // namespace
}  // namespace tenon::op_test
