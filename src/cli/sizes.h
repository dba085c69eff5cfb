// SPDX-License-Identifier: Apache-2.0
// Sizes that are expressions of other sizes, as modules declare them: `n * m`, `n + 1`, `T.max(n - 2, 0)`.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace tenon::cli {

/// A symbol by itself, not an expression.
bool is_size_name(const std::string& text);
/// The value of an expression; names that `sizes` lacks are 1. Nullopt: it is none of + - * // % T.min T.max.
std::optional<int64_t> size_value(const std::string& text, const std::map<std::string, int64_t>& sizes);

}  // namespace tenon::cli
