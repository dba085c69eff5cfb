// SPDX-License-Identifier: Apache-2.0
// Attributes of the operators in sparse.cpp.
#pragma once
#include "op/attrs.h"

namespace tenon::op {

struct SegmentAttrs : Attrs<SegmentAttrs> {
  int64_t num_segments = 1;
  static constexpr std::string_view type_key = "attrs.Segment";
  static void fields(auto& f) {
    f.add("num_segments", &SegmentAttrs::num_segments, "size of the result's first axis");
  }
};
struct BagAttrs : Attrs<BagAttrs> {
  std::string mode = "mean";
  static constexpr std::string_view type_key = "attrs.Bag";
  static void fields(auto& f) { f.add("mode", &BagAttrs::mode, "'sum', 'mean' or 'max' of each bag"); }
};

}  // namespace tenon::op
