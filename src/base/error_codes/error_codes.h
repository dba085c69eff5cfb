// SPDX-License-Identifier: Apache-2.0
// Every error code with its meaning, its cause and its remedy. `tenon explain` prints them, docs/errors.md
// lists them, scripts/check_errors holds them against the codes that the sources use. Compiler side only: the
// runtime throws its codes, and their texts stand here.
#pragma once
#include <span>
#include <string_view>
#include <vector>

namespace tenon {

struct ErrorCode {
  std::string_view code;      ///< "T0501"
  std::string_view sentence;  ///< what is wrong, in general; the error thrown says it of the case
  std::string_view cause;
  std::string_view remedy;  ///< empty where there is nothing to do
};

/// The codes that share the first two digits.
struct ErrorGroup {
  std::string_view prefix;  ///< "T05"
  std::string_view title;
  std::vector<ErrorCode> codes;  ///< rising
};

/// All codes by group, rising.
const std::vector<ErrorGroup>& error_groups();

}  // namespace tenon
