// SPDX-License-Identifier: Apache-2.0
// Attributes of the operators in place.cpp and composites.cpp.
#pragma once
#include "op/attrs.h"

namespace tenon::op {

struct IndexingAttrs : Attrs<IndexingAttrs> {
  std::string indexing = "ij";
  static constexpr std::string_view type_key = "attrs.Indexing";
  static void fields(auto& f) {
    f.add("indexing", &IndexingAttrs::indexing,
          "'ij': axes in the vectors' order; 'xy': the first two swapped");
  }
};
struct LinspaceAttrs : Attrs<LinspaceAttrs> {
  double start = 0, stop = 1;
  bool endpoint = true;
  DataType dtype = f32;
  static constexpr std::string_view type_key = "attrs.Linspace";
  static void fields(auto& f) {
    f.add("start", &LinspaceAttrs::start, "first value")
        .add("stop", &LinspaceAttrs::stop, "end")
        .add("endpoint", &LinspaceAttrs::endpoint, "the end is the last value")
        .add("dtype", &LinspaceAttrs::dtype, "type of the result");
  }
};
struct BatchMatmulAttrs : Attrs<BatchMatmulAttrs> {
  bool transpose_a = false, transpose_b = true;
  DataType out_dtype = DataType::void_();
  static constexpr std::string_view type_key = "attrs.BatchMatmul";
  static void fields(auto& f) {
    f.add("transpose_a", &BatchMatmulAttrs::transpose_a, "a is (batch, k, m)")
        .add("transpose_b", &BatchMatmulAttrs::transpose_b, "b is (batch, n, k)")
        .add("out_dtype", &BatchMatmulAttrs::out_dtype, "type of the result; void: the operands'");
  }
};
struct BatchNormTrainAttrs : Attrs<BatchNormTrainAttrs> {
  int64_t axis = 1;
  double epsilon = 1e-5, momentum = 0.9;
  static constexpr std::string_view type_key = "attrs.BatchNormTrain";
  static void fields(auto& f) {
    f.add("axis", &BatchNormTrainAttrs::axis, "channel axis")
        .add("epsilon", &BatchNormTrainAttrs::epsilon, "added to the variance")
        .add("momentum", &BatchNormTrainAttrs::momentum, "share of the old in the running mean and variance");
  }
};
struct RotaryAttrs : Attrs<RotaryAttrs> {
  bool interleaved = false;
  static constexpr std::string_view type_key = "attrs.Rotary";
  static void fields(auto& f) {
    f.add("interleaved", &RotaryAttrs::interleaved, "pairs are neighbours; false: halves of the last axis");
  }
};

}  // namespace tenon::op
