// SPDX-License-Identifier: Apache-2.0
// Words of errors. Each term of a sum of texts is code of its own, which the runtime library has no room for.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace tenon {

[[gnu::cold]] std::string joined(std::initializer_list<std::string_view> parts);
[[gnu::cold]] std::string shape_text(std::span<const int64_t> shape);  ///< "[2, 3]"

}  // namespace tenon
