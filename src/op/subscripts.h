// SPDX-License-Identifier: Apache-2.0
// The labels of an einsum.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tenon::op {

/// Labels per operand and of the result. The axes under "..." get labels of their own: '0' is the last of
/// them.
struct Subscripts {
  std::vector<std::string> inputs;
  std::string output;
  std::string problem;  ///< why the text cannot be read, or empty
};
Subscripts parse_subscripts(const std::string& subscripts, const std::vector<int64_t>& ranks);

}  // namespace tenon::op
