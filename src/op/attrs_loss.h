// SPDX-License-Identifier: Apache-2.0
// Attributes of the loss functions in loss.cpp.
#pragma once
#include "op/attrs.h"

namespace tenon::op {

/// One parameter; its meaning and default belong to the loss.
struct LossAttrs : Attrs<LossAttrs> {
  std::string reduction = "mean";
  double parameter = 1;
  bool log = false;
  static constexpr std::string_view type_key = "attrs.Loss";
  static void fields(auto& f) {
    f.add("reduction", &LossAttrs::reduction, "'mean' or 'sum' of all elements, or 'none'")
        .add(
            "parameter", &LossAttrs::parameter,
            "smooth_l1: where it becomes straight; huber: delta; margin losses: the margin; others: not used")
        .add("log", &LossAttrs::log, "kl_div: targets are logarithms; poisson_nll: predictions are");
  }
};
struct NllAttrs : Attrs<NllAttrs> {
  std::string reduction = "mean";
  int64_t ignore_index = -100;
  double label_smoothing = 0;
  static constexpr std::string_view type_key = "attrs.Nll";
  static void fields(auto& f) {
    f.add("reduction", &NllAttrs::reduction, "'mean' (weighted) or 'sum' of all elements, or 'none'")
        .add("ignore_index", &NllAttrs::ignore_index, "the class that does not count")
        .add("label_smoothing", &NllAttrs::label_smoothing,
             "share of the target that is spread over all classes (softmax_cross_entropy)");
  }
};

}  // namespace tenon::op
