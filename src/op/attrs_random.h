// SPDX-License-Identifier: Apache-2.0
// Attributes of the operators in random.cpp.
#pragma once
#include "op/attrs.h"

namespace tenon::op {

struct SeedAttrs : Attrs<SeedAttrs> {
  int64_t seed = 0;
  static constexpr std::string_view type_key = "attrs.Seed";
  static void fields(auto& f) { f.add("seed", &SeedAttrs::seed, "all 64 bits count"); }
};
struct CountAttrs : Attrs<CountAttrs> {
  int64_t count = 2;
  static constexpr std::string_view type_key = "attrs.Count";
  static void fields(auto& f) { f.add("count", &CountAttrs::count, "number of keys, or of samples"); }
};
struct RandomAttrs : Attrs<RandomAttrs> {
  double low = 0, high = 1;
  DataType dtype = f32;
  static constexpr std::string_view type_key = "attrs.Random";
  static void fields(auto& f) {
    f.add("low", &RandomAttrs::low, "least value")
        .add("high", &RandomAttrs::high, "end, not included")
        .add("dtype", &RandomAttrs::dtype, "type of the result");
  }
};
struct NormalAttrs : Attrs<NormalAttrs> {
  double mean = 0, scale = 1;
  DataType dtype = f32;
  static constexpr std::string_view type_key = "attrs.Normal";
  static void fields(auto& f) {
    f.add("mean", &NormalAttrs::mean, "added")
        .add("scale", &NormalAttrs::scale, "standard deviation, or scale of the distribution")
        .add("dtype", &NormalAttrs::dtype, "type of the result");
  }
};

}  // namespace tenon::op
