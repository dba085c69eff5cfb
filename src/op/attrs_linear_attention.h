// SPDX-License-Identifier: Apache-2.0
// Attributes of the operator in linear_attention.cpp.
#pragma once
#include "op/attrs.h"

namespace tenon::op {

struct LinearAttentionAttrs : Attrs<LinearAttentionAttrs> {
  bool gated = true, delta = true;
  double scale = 0;
  static constexpr std::string_view type_key = "attrs.LinearAttention";
  static void fields(auto& f) {
    f.add("gated", &LinearAttentionAttrs::gated, "the state decays by exp(decay) before each step")
        .add("delta", &LinearAttentionAttrs::delta,
             "what the state already says of the key is taken from the value, times beta")
        .add("scale", &LinearAttentionAttrs::scale, "factor of the queries; 0: 1 / sqrt(key size)");
  }
};

}  // namespace tenon::op
