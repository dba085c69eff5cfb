// SPDX-License-Identifier: Apache-2.0
// What the pictures of graph functions and of programs share.
#pragma once
#include <fmt/format.h>

#include <string>

#include "ir/tir.h"

namespace tenon::dot {

/// For the inside of a quoted string; lines stay lines.
std::string escaped(std::string_view text);
/// At most `width` characters to a line, broken behind `_`, `,` or a space; at most `lines` lines.
std::string wrapped(std::string_view text, size_t width, size_t lines);
/// "1×64×56×56", with the data type before it unless it is float32; "scalar".
std::string shape_words(const Array<PrimExpr>& shape, DataType dtype);
inline std::string attribute(const char* name, std::string_view value) {
  return fmt::format("{}=\"{}\"", name, escaped(value));
}

/// The loops and blocks of a program, as one cluster; ids begin with `prefix`.
std::string draw_program(const std::string& name, const tir::PrimFunc& f, const std::string& prefix);

}  // namespace tenon::dot
