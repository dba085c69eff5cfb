// SPDX-License-Identifier: Apache-2.0
#include "base/container.h"

#include <gtest/gtest.h>

namespace tenon {
namespace {

TEST(Any, HoldsEachKindAndConverts) {
  EXPECT_TRUE(Any().is_none());
  EXPECT_EQ(Any(true).as<bool>(), true);
  EXPECT_EQ(Any(-3).as<int64_t>(), -3);
  EXPECT_EQ(Any(-3).as<double>(), -3.0);     // ints widen
  EXPECT_FALSE(Any(2.5).try_as<int64_t>());  // floats do not narrow
  EXPECT_EQ(Any("text").as<std::string>(), "text");
  EXPECT_EQ(Any(f16).as<DataType>(), f16);
  int x;
  EXPECT_EQ(Any(static_cast<void*>(&x)).as<void*>(), &x);
  EXPECT_FALSE(Any("text").try_as<int>());
  EXPECT_FALSE(Any(1).try_as<std::string>());
  EXPECT_THROW(Any(1).as<std::string>(), InternalError);
  EXPECT_FALSE(Any().as<String>());  // none is a null handle
  EXPECT_EQ(Any().kind_name(), "none");
  EXPECT_EQ(Any("s").kind_name(), "String");
}

TEST(Any, CountsObjects) {
  auto s = make<StringObj>("x");
  {
    Any a = s, b = a;
    EXPECT_EQ(s.use_count(), 3u);
    Any c = std::move(a);
    EXPECT_EQ(s.use_count(), 3u);
    EXPECT_TRUE(a.is_none());
    EXPECT_TRUE(b.same_as(c));
    b = 5;
    EXPECT_EQ(s.use_count(), 2u);
    c = std::as_const(c);  // itself
    EXPECT_EQ(s.use_count(), 2u);
  }
  EXPECT_EQ(s.use_count(), 1u);
}

TEST(Array, CopiesOnWrite) {
  Array<int> a{1, 2, 3};
  Array<int> b = a;
  EXPECT_EQ(a.get(), b.get());
  b.push_back(4);
  EXPECT_EQ(a.size(), 3u);
  EXPECT_EQ(b.vec(), (std::vector<int>{1, 2, 3, 4}));
  const auto* place = b.get();
  b.set(0, 9);
  EXPECT_EQ(b.get(), place);  // alone: no copy
  b.insert(1, 7);
  b.erase(0);
  b.pop_back();
  EXPECT_EQ(b.vec(), (std::vector<int>{7, 2, 3}));
  EXPECT_THROW(b[3], InternalError);
  EXPECT_EQ(Array<int>().size(), 0u);
  EXPECT_EQ(a.map([](int v) { return std::to_string(v); }).vec(), (std::vector<std::string>{"1", "2", "3"}));
  int sum = 0;
  for (int v : a) sum += v;
  EXPECT_EQ(sum, 6);
}

TEST(Array, SeesHandlesInPlace) {
  auto s = make<StringObj>("x");
  Array<String> a{s, String()};
  const String& first = a[0];
  EXPECT_EQ(first.get(), s.get());
  EXPECT_EQ(s.use_count(), 2u);
  EXPECT_FALSE(a[1]);
}

TEST(Map, KeepsOrderAndFindsByText) {
  Map<std::string, int> m;
  for (int i = 0; i < 100; ++i) m.set("key" + std::to_string((i * 37) % 100), i);
  int n = 0;
  for (auto [k, v] : m) {
    EXPECT_EQ(v, n);
    EXPECT_EQ(k, "key" + std::to_string((n * 37) % 100));
    ++n;
  }
  for (int i = 0; i < 100; ++i) EXPECT_EQ(m.at("key" + std::to_string((i * 37) % 100)), i);
  Map<std::string, int> copy = m;
  copy.set("key0", -1);
  copy.erase("key37");
  EXPECT_EQ(m.at("key0"), 0);
  EXPECT_EQ(copy.at("key0"), -1);
  EXPECT_FALSE(copy.contains("key37"));
  EXPECT_TRUE(m.contains("key37"));
  EXPECT_EQ(copy.size(), 99u);
  for (int i = 0; i < 100; i += 2) copy.erase("key" + std::to_string(i));
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(copy.contains("key" + std::to_string(i)), i % 2 == 1 && i != 37) << i;
  EXPECT_EQ(copy.get_or("none", 5), 5);
  EXPECT_FALSE(copy.find("none"));
  EXPECT_THROW(copy.at("none"), InternalError);
}

TEST(Map, ObjectKeysAreByAddress) {
  auto a = make<StringObj>("same"), b = make<StringObj>("same");
  Map<String, int> by_text;  // strings are by text, also as handles
  by_text.set(a, 1);
  by_text.set(b, 2);
  EXPECT_EQ(by_text.size(), 1u);
  auto x = make<ArrayObj>(), y = make<ArrayObj>();
  Map<Ref<ArrayObj>, int> by_address;
  by_address.set(x, 1);
  by_address.set(y, 2);
  EXPECT_EQ(by_address.at(x), 1);
  EXPECT_EQ(by_address.at(y), 2);
}

TEST(DataType, TextRoundTrips) {
  for (const char* name : {"float32", "float64", "float16", "bfloat16", "int8", "uint64", "int4", "bool",
                           "handle", "float8_e4m3fn", "float8_e5m2fnuz", "float32x4", "boolx8"}) {
    DataType t;
    ASSERT_TRUE(parse_dtype(name, &t)) << name;
    EXPECT_EQ(to_string(t), name);
  }
  DataType t;
  for (const char* name :
       {"f33", "float", "int3", "", "float32x", "float32x1", "float32x99999", "i64 ", "x4"})
    EXPECT_FALSE(parse_dtype(name, &t)) << name;
  EXPECT_TRUE(parse_dtype("bf16", &t));
  EXPECT_EQ(t, DataType::bfloat16());
  EXPECT_EQ(DataType::int_(4).bytes(), 1);
  EXPECT_EQ(f32.with_lanes(3).bytes(), 12);
}

}  // namespace
}  // namespace tenon
