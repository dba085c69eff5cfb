// SPDX-License-Identifier: Apache-2.0
// Attributes of the operators in signal.cpp and linalg.cpp.
#pragma once
#include "op/attrs.h"

namespace tenon::op {

struct DftAttrs : Attrs<DftAttrs> {
  int64_t axis = 1;
  bool inverse = false, onesided = false;
  static constexpr std::string_view type_key = "attrs.Dft";
  static void fields(auto& f) {
    f.add("axis", &DftAttrs::axis, "axis of the signal; the last axis holds real and imaginary part")
        .add("inverse", &DftAttrs::inverse, "the other direction, divided by the length")
        .add("onesided", &DftAttrs::onesided,
             "the first half of the frequencies only; with inverse: from the first half, to real numbers");
  }
};
struct StftAttrs : Attrs<StftAttrs> {
  int64_t frame_step = 1;
  bool onesided = true;
  static constexpr std::string_view type_key = "attrs.Stft";
  static void fields(auto& f) {
    f.add("frame_step", &StftAttrs::frame_step, "distance of neighbouring frames")
        .add("onesided", &StftAttrs::onesided, "the first half of the frequencies only");
  }
};
struct FrameAttrs : Attrs<FrameAttrs> {
  int64_t length = 1, step = 1;
  static constexpr std::string_view type_key = "attrs.Frame";
  static void fields(auto& f) {
    f.add("length", &FrameAttrs::length, "elements of a frame")
        .add("step", &FrameAttrs::step, "distance of neighbouring frames");
  }
};
struct PeriodicAttrs : Attrs<PeriodicAttrs> {
  bool periodic = true;
  DataType dtype = f32;
  static constexpr std::string_view type_key = "attrs.Periodic";
  static void fields(auto& f) {
    f.add("periodic", &PeriodicAttrs::periodic, "one period of a longer window; false: both ends are alike")
        .add("dtype", &PeriodicAttrs::dtype, "type of the result");
  }
};
struct MelAttrs : Attrs<MelAttrs> {
  int64_t bins = 1, dft_length = 1, sample_rate = 1;
  double low = 0, high = 1;
  DataType dtype = f32;
  static constexpr std::string_view type_key = "attrs.Mel";
  static void fields(auto& f) {
    f.add("bins", &MelAttrs::bins, "columns of the result")
        .add("dft_length", &MelAttrs::dft_length, "length of the transform; half of it, and one, are rows")
        .add("sample_rate", &MelAttrs::sample_rate, "samples a second")
        .add("low", &MelAttrs::low, "lowest frequency in hertz")
        .add("high", &MelAttrs::high, "highest frequency in hertz")
        .add("dtype", &MelAttrs::dtype, "type of the result");
  }
};
struct TriangularAttrs : Attrs<TriangularAttrs> {
  bool lower = true, unit_diagonal = false;
  static constexpr std::string_view type_key = "attrs.Triangular";
  static void fields(auto& f) {
    f.add("lower", &TriangularAttrs::lower, "the lower triangle counts; false: the upper")
        .add("unit_diagonal", &TriangularAttrs::unit_diagonal, "the diagonal is taken to be 1");
  }
};

}  // namespace tenon::op
