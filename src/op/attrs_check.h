// SPDX-License-Identifier: Apache-2.0
// Attributes of check_indices in index.cpp.
#pragma once
#include "op/attrs.h"

namespace tenon::op {

struct CheckIndicesAttrs : Attrs<CheckIndicesAttrs> {
  bool from_end = true;
  std::string what;
  static constexpr std::string_view type_key = "attrs.CheckIndices";
  static void fields(auto& f) {
    f.add("from_end", &CheckIndicesAttrs::from_end, "negative ones count from the end; else they are outside")
        .add("what", &CheckIndicesAttrs::what, "whose indices they are, for the message");
  }
};

}  // namespace tenon::op
