// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>

namespace tenon {

/// The text of a message: names in a file are any bytes, of which control characters become \\x and two
/// digits, and what is no UTF-8 a question mark. Lines and tabulators stay.
std::string printable(std::string_view text);

}  // namespace tenon
