// SPDX-License-Identifier: Apache-2.0
// Attributes of the operators in sort.cpp and select.cpp.
#pragma once
#include "op/attrs.h"

namespace tenon::op {

struct SortAttrs : Attrs<SortAttrs> {
  int64_t axis = -1;
  bool descending = false;
  static constexpr std::string_view type_key = "attrs.Sort";
  static void fields(auto& f) {
    f.add("axis", &SortAttrs::axis, "axis; negative counts from the end")
        .add("descending", &SortAttrs::descending, "the largest first; NaN is the largest");
  }
};
struct TopKAttrs : Attrs<TopKAttrs> {
  int64_t axis = -1;
  bool largest = true;
  static constexpr std::string_view type_key = "attrs.TopK";
  static void fields(auto& f) {
    f.add("axis", &TopKAttrs::axis, "axis; negative counts from the end")
        .add("largest", &TopKAttrs::largest, "the largest elements; false: the smallest");
  }
};
struct QuantileAttrs : Attrs<QuantileAttrs> {
  double q = 0.5;
  int64_t axis = -1;
  bool keepdims = false;
  static constexpr std::string_view type_key = "attrs.Quantile";
  static void fields(auto& f) {
    f.add("q", &QuantileAttrs::q, "share of elements below, from 0 to 1")
        .add("axis", &QuantileAttrs::axis, "axis; negative counts from the end")
        .add("keepdims", &QuantileAttrs::keepdims, "keep the axis with extent 1");
  }
};
struct UniqueAttrs : Attrs<UniqueAttrs> {
  int64_t axis = 0;
  bool flat = true, sorted = true;
  static constexpr std::string_view type_key = "attrs.Unique";
  static void fields(auto& f) {
    f.add("axis", &UniqueAttrs::axis, "axis whose slices are compared")
        .add("flat", &UniqueAttrs::flat, "compare elements instead of slices of an axis")
        .add("sorted", &UniqueAttrs::sorted, "in ascending order; false: as they first occur");
  }
};
struct CompressAttrs : Attrs<CompressAttrs> {
  int64_t axis = 0;
  bool flat = false;
  static constexpr std::string_view type_key = "attrs.Compress";
  static void fields(auto& f) {
    f.add("axis", &CompressAttrs::axis, "axis of the slices")
        .add("flat", &CompressAttrs::flat, "pick elements instead of slices of an axis");
  }
};
struct HistogramAttrs : Attrs<HistogramAttrs> {
  int64_t bins = 10;
  double low = 0, high = 1;
  static constexpr std::string_view type_key = "attrs.Histogram";
  static void fields(auto& f) {
    f.add("bins", &HistogramAttrs::bins, "number of parts of equal width")
        .add("low", &HistogramAttrs::low, "where the first part begins")
        .add("high", &HistogramAttrs::high, "where the last part ends; it holds the end itself");
  }
};
struct LengthAttrs : Attrs<LengthAttrs> {
  int64_t length = 0;
  static constexpr std::string_view type_key = "attrs.Length";
  static void fields(auto& f) { f.add("length", &LengthAttrs::length, "size of the result"); }
};

}  // namespace tenon::op
