// SPDX-License-Identifier: Apache-2.0
#include "codegen/debug_source.h"

#include "ir/text_lines.h"
#include "ir/tir.h"

namespace tenon::codegen {

std::optional<DebugSource> debug_source(const IRModule& lowered) {
  const auto file = lowered->attrs.find(kDebugFile);
  if (!file) return std::nullopt;
  DebugSource out;
  out.file = file->as<std::string>();
  IRModule shown = lowered;
  shown.edit()->attrs.erase(kDebugFile);
  NodeLines lines;
  out.text = print_with_lines(shown, lines);
  for (const auto& [node, line] : lines) out.lines.emplace(node, line);
  return out;
}

}  // namespace tenon::codegen
