// SPDX-License-Identifier: Apache-2.0
// Inputs on which two tensor programs of one signature are compared: whole numbers, random ones and corners,
// at several sizes where sizes are symbolic. The same for the same program, always.
#pragma once
#include <vector>

#include "ir/tir.h"

namespace tenon::tir {

struct Trial {
  std::string values;          ///< "whole numbers", "one NaN among whole numbers", …
  bool few_values = false;     ///< equal terms of a sum are rounded alike: errors add up
  std::vector<int64_t> sizes;  ///< of symbolic sizes, in order of appearance
  std::vector<NDArray> inputs;
};

/// The program with numbers for its symbolic sizes and scalar parameters.
PrimFunc at_sizes(const PrimFunc& f, const std::vector<int64_t>& sizes);

/// The trials of a program, one after the other.
class ProgramTrials {
 public:
  /// `num_outputs` of the tensors, the last ones, are results.
  ProgramTrials(PrimFunc program, int64_t num_outputs);
  int count() const { return count_; }
  Trial trial(int number) const;
  /// "x_d0 = 3, x_d2 = 17"; empty where no size is symbolic.
  std::string sizes_text(const Trial& trial) const;

 private:
  std::vector<int64_t> sizes_of(int number) const;

  PrimFunc program_;
  int64_t num_outputs_;
  std::vector<std::string> symbols_;
  bool accumulates_ = false;
  int count_ = 0;
};

/// The longest sum (or other reduction) of a program at these sizes, 1 where there is none.
double longest_reduction(const PrimFunc& f);

}  // namespace tenon::tir
