// SPDX-License-Identifier: Apache-2.0
// Attributes of the operators in recurrent.cpp.
#pragma once
#include "op/attrs.h"

namespace tenon::op {

struct RecurrentAttrs : Attrs<RecurrentAttrs> {
  bool reverse = false, linear_before_reset = false, input_forget = false;
  double clip = 0;
  static constexpr std::string_view type_key = "attrs.Recurrent";
  static void fields(auto& f) {
    f.add("reverse", &RecurrentAttrs::reverse, "from the last step of each sequence to the first")
        .add("linear_before_reset", &RecurrentAttrs::linear_before_reset,
             "gru: the reset gate works on the product of the state, not on the state")
        .add("input_forget", &RecurrentAttrs::input_forget, "lstm: the forget gate is 1 less the input gate")
        .add("clip", &RecurrentAttrs::clip, "above 0: what goes into an activation is kept in ±clip");
  }
};

}  // namespace tenon::op
