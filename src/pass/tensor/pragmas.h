// SPDX-License-Identifier: Apache-2.0
// The pragmas of loops and blocks: annotations "pragma_KEY", which Stage::pragma, Schedule::annotate and
// script text write. Each has the effect that stands here or is refused by name (T0823).
#pragma once
#include <span>
#include <string_view>

namespace tenon::tensor_detail {

struct Pragma {
  enum class Value : uint8_t { flag, number, text };
  std::string_view key;      ///< behind "pragma_"
  Value value;               ///< what it may be given; a flag is 0, 1, True or False
  std::string_view effect;   ///< in a sentence
  std::string_view refused;  ///< why there is none, "" where there is one
};

/// All of them, in the order of the page.
std::span<const Pragma> pragmas();
const Pragma* find_pragma(std::string_view key);

// Those that later passes and code generators read, as annotations of loops.
inline constexpr const char* kAutoUnroll = "pragma_auto_unroll_max_step";
inline constexpr const char* kUnrollExplicit = "pragma_unroll_explicit";
inline constexpr const char* kNoUnroll = "pragma_no_unroll";
inline constexpr const char* kPartitionHint = "pragma_loop_partition_hint";

}  // namespace tenon::tensor_detail
