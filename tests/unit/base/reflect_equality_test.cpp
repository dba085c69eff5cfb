// SPDX-License-Identifier: Apache-2.0
// Equality and hash derive from the field list alone: a type that nobody knows about compares right.
#include <gtest/gtest.h>

#include "base/define_type.h"
#include "ir/structural.h"

namespace tenon {
namespace {

struct Point : Object {
  static constexpr std::string_view type_key = "test.Point";
  int64_t x = 0;
  double y = 0;
  std::string label;
  Array<std::string> tags;
  static void fields(auto& f) {
    f.add("x", &Point::x).add("y", &Point::y).ignored("label", &Point::label).add("tags", &Point::tags);
  }
};

Ref<Point> point(int64_t x, double y, std::string label, Array<std::string> tags) {
  return make<Point>(x, y, std::move(label), std::move(tags));
}

TEST(Reflect, EqualityAndHashFollowTheFields) {
  auto a = point(1, 2.5, "a", {"t"});
  EXPECT_TRUE(structural_equal(a, point(1, 2.5, "other label", {"t"})));
  EXPECT_EQ(structural_hash(a), structural_hash(point(1, 2.5, "other label", {"t"})));
  for (const auto& other : {point(2, 2.5, "a", {"t"}), point(1, 2.25, "a", {"t"}), point(1, 2.5, "a", {"u"}),
                            point(1, 2.5, "a", {"t", "t"}), point(1, 2.5, "a", {})}) {
    EXPECT_FALSE(structural_equal(a, other));
    EXPECT_NE(structural_hash(a), structural_hash(other));
  }
}

}  // namespace
}  // namespace tenon

template struct tenon::DefineTypes<tenon::Point>;
