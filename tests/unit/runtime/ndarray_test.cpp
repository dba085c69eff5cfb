// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "program.h"

namespace tenon {
namespace {
using test::error_code;

TEST(NDArray, HalfAgreesWithTheCompilersType) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto bits = uint16_t(i);
    _Float16 h;
    std::memcpy(&h, &bits, 2);
    const float wide = float(h);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(f16_to_float(bits)));
      EXPECT_TRUE(std::isnan(f16_to_float(float_to_f16(f16_to_float(bits)))));
      continue;
    }
    ASSERT_EQ(f16_to_float(bits), wide) << i;
    ASSERT_EQ(float_to_f16(wide), bits) << i;
  }
  std::mt19937 random(7);
  for (int i = 0; i < 400000; ++i) {
    // All exponents around the range of half, ties included.
    const uint32_t bits = (random() & 0x80000000u) | ((100 + random() % 46) << 23) |
                          (random() & (i % 3 ? 0x7fffffu : 0x7ff000u));
    float f;
    std::memcpy(&f, &bits, 4);
    const _Float16 h = _Float16(f);
    uint16_t wanted;
    std::memcpy(&wanted, &h, 2);
    ASSERT_EQ(float_to_f16(f), wanted) << f;
  }
}

TEST(NDArray, BfloatRoundsToNearestEven) {
  EXPECT_EQ(float_to_bf16(1.0f), 0x3f80);
  EXPECT_EQ(float_to_bf16(1.00390625f), 0x3f80);  // tie, even below
  EXPECT_EQ(float_to_bf16(1.01171875f), 0x3f82);  // tie, even above
  EXPECT_EQ(float_to_bf16(3.4e38f), 0x7f80);      // rounds to infinity
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(NAN))));
  NDArray a = NDArray::zeros({1}, DataType::bfloat16());
  a.set_element(0, 1.00390625 + 1e-12);  // just above the tie: rounding by way of float would lose it
  EXPECT_EQ(a.element(0), 1.0078125);
}

TEST(NDArray, Float8Tables) {
  const TypeCode kinds[] = {TypeCode::Float8_e4m3fn, TypeCode::Float8_e4m3fnuz, TypeCode::Float8_e5m2,
                            TypeCode::Float8_e5m2fnuz};
  const double largest[] = {448, 240, 57344, 57344},
               least[] = {std::ldexp(1, -9), std::ldexp(1, -10), std::ldexp(1, -16), std::ldexp(1, -17)};
  for (int k = 0; k < 4; ++k) {
    double top = 0, bottom = 1e9;
    std::vector<double> finite;
    for (int i = 0; i < 256; ++i) {
      const float v = fp8_to_float(uint8_t(i), kinds[k]);
      if (std::isfinite(v)) {
        EXPECT_EQ(float_to_fp8(v, kinds[k]), i);
        top = std::max<double>(top, v);
        if (v > 0) bottom = std::min<double>(bottom, v);
        finite.push_back(v);
      }
    }
    EXPECT_EQ(top, largest[k]);
    EXPECT_EQ(bottom, least[k]);
    // Nearest: no finite value is closer than the one chosen.
    std::mt19937 random(3);
    for (int i = 0; i < 2000; ++i) {
      const float v = std::ldexp(float(random()) / 4294967296.0f, int(random() % 26) - 18);
      if (v > top) continue;
      const double got = fp8_to_float(float_to_fp8(v, kinds[k]), kinds[k]);
      for (double f : finite) ASSERT_LE(std::fabs(got - v), std::fabs(f - v)) << v << " kind " << k;
    }
  }
  EXPECT_TRUE(std::isnan(fp8_to_float(float_to_fp8(1000, kinds[0]), kinds[0])));
  EXPECT_TRUE(std::isinf(fp8_to_float(float_to_fp8(1e6f, kinds[2]), kinds[2])));
}

TEST(NDArray, NarrowIntegersArePackedLowFirst) {
  NDArray a = NDArray::zeros({3}, DataType::int_(4));
  EXPECT_EQ(a.byte_size(), 2u);
  a.set_element_int(0, 5);
  a.set_element_int(1, -3);
  a.set_element(2, 100);  // saturates
  EXPECT_EQ(a.as_ptr<uint8_t>()[0], 0xd5);
  EXPECT_EQ(a.element_int(0), 5);
  EXPECT_EQ(a.element_int(1), -3);
  EXPECT_EQ(a.element_int(2), 7);
  NDArray b = NDArray::zeros({5}, DataType::uint(2));
  EXPECT_EQ(b.byte_size(), 2u);
  for (int i = 0; i < 5; ++i) b.set_element_int(i, 3 - i % 4);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(b.element_int(i), 3 - i % 4);
}

TEST(NDArray, FloatToIntegerSaturatesAndNanIsZero) {
  NDArray a = NDArray::zeros({4}, DataType::int_(8));
  for (auto [v, wanted] : {std::pair(300.0, 127), {-300.0, -128}, {NAN, 0}, {-1.9, -1}}) {
    a.set_element(0, v);
    EXPECT_EQ(a.element_int(0), wanted);
  }
  NDArray u = NDArray::zeros({1}, DataType::uint(64));
  u.set_element(0, 1e30);
  EXPECT_EQ(uint64_t(u.element_int(0)), UINT64_MAX);
  u.set_element(0, -5);
  EXPECT_EQ(u.element_int(0), 0);
  NDArray l = NDArray::zeros({1}, i64);
  l.set_element(0, -1e300);
  EXPECT_EQ(l.element_int(0), INT64_MIN);
}

TEST(NDArray, RefusesAbsurdSizes) {
  EXPECT_EQ(error_code([] { NDArray::empty({int64_t(1) << 40, int64_t(1) << 40}, f32); }), "T0401");
  EXPECT_EQ(error_code([] { NDArray::empty({-1}, f32); }), "T0401");
  EXPECT_EQ(error_code([] { NDArray::empty({int64_t(1) << 61}, f64); }), "T0401");
  EXPECT_EQ(error_code([] { NDArray::from_bytes({3}, f32, "abc", 3); }), "T0402");
  EXPECT_EQ(error_code([] { NDArray::zeros({6}, f32).reshape({4}); }), "T0403");
  EXPECT_EQ(NDArray::empty({int64_t(1) << 40, 0, int64_t(1) << 40}, f32).size(),
            0);  // zero wins over overflow
}

TEST(NDArray, ViewsKeepTheirOwnerAndHashesSeeEverything) {
  NDArray view;
  {
    NDArray a = test::floats({1, 2, 3, 4});
    view = a.reshape({2, 2});
  }
  EXPECT_EQ(test::values(view), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(view.hash(), test::floats({1, 2, 3, 4}, {2, 2}).hash());
  EXPECT_NE(view.hash(), test::floats({1, 2, 3, 4}).hash());
  EXPECT_NE(view.hash(), test::floats({1, 2, 3, 5}, {2, 2}).hash());
}

TEST(HashBytes, EveryByteAndLengthCounts) {
  std::vector<unsigned char> data(300);
  for (size_t i = 0; i < data.size(); ++i) data[i] = uint8_t(i * 7);
  std::set<uint64_t> seen;
  size_t count = 0;
  for (size_t n = 0; n <= data.size(); ++n, ++count) seen.insert(hash_bytes(data.data(), n));
  for (size_t i = 0; i < data.size(); ++i)
    for (int bit = 0; bit < 8; ++bit, ++count) {
      data[i] ^= uint8_t(1 << bit);
      seen.insert(hash_bytes(data.data(), data.size()));
      data[i] ^= uint8_t(1 << bit);
    }
  EXPECT_EQ(seen.size(), count);
  EXPECT_EQ(hash_bytes("abc", 3), 0x57ec8f705af55c65u);  // files depend on it: the same on every machine
}

}  // namespace
}  // namespace tenon
