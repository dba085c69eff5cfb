// SPDX-License-Identifier: Apache-2.0
// The text that debug information points into: the lowered programs, a line for each statement.
#pragma once
#include <optional>
#include <unordered_map>

#include "ir/module.h"

namespace tenon::codegen {

/// Attribute of a lowered module: the file where the text will stand. Code generators that can
/// (`debug_lines`) then give instructions the lines of their statements.
inline constexpr const char* kDebugFile = "tenon.debug_file";

struct DebugSource {
  std::string file, text;
  /// Lines of functions and statements, from 1 on.
  std::unordered_map<const Object*, int32_t> lines;
};
/// Nothing when the module does not have the attribute. Where the model's node is known that a statement
/// comes from, it stands behind its line; those of a whole program are its attribute "tenon.source".
std::optional<DebugSource> debug_source(const IRModule& lowered);

}  // namespace tenon::codegen
