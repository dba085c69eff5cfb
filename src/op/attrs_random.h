// SPDX-License-Identifier: Apache-2.0
// Attributes of the operators in random.cpp.
#pragma once
#include "op/attrs.h"

namespace tenon::op {

struct SeedAttrs : Attrs<SeedAttrs> {
  int64_t seed = 0;
  static constexpr std::string_view type_key = "attrs.Seed";
  static constexpr auto fields = std::tuple{field("seed", &SeedAttrs::seed, "all 64 bits count")};
};
struct CountAttrs : Attrs<CountAttrs> {
  int64_t count = 2;
  static constexpr std::string_view type_key = "attrs.Count";
  static constexpr auto fields =
      std::tuple{field("count", &CountAttrs::count, "number of keys, or of samples")};
};
struct RandomAttrs : Attrs<RandomAttrs> {
  double low = 0, high = 1;
  DataType dtype = f32;
  static constexpr std::string_view type_key = "attrs.Random";
  static constexpr auto fields = std::tuple{field("low", &RandomAttrs::low, "least value"),
                                            field("high", &RandomAttrs::high, "end, not included"),
                                            field("dtype", &RandomAttrs::dtype, "type of the result")};
};
struct NormalAttrs : Attrs<NormalAttrs> {
  double mean = 0, scale = 1;
  DataType dtype = f32;
  static constexpr std::string_view type_key = "attrs.Normal";
  static constexpr auto fields =
      std::tuple{field("mean", &NormalAttrs::mean, "added"),
                 field("scale", &NormalAttrs::scale, "standard deviation, or scale of the distribution"),
                 field("dtype", &NormalAttrs::dtype, "type of the result")};
};

}  // namespace tenon::op
