// SPDX-License-Identifier: Apache-2.0
#include "tools/module_text.h"

#include <fmt/format.h>

#include "base/diagnostic.h"
#include "tools/dot.h"

namespace tenon {

const std::vector<EmitKind>& module_text_kinds() {
  static const auto* kinds = new std::vector<EmitKind>{
      {.name = "tir", .ending = ".tir", .doc = "lowered programs as script text"},
      {.name = "dot", .ending = ".dot", .doc = "a drawing of the graph, for Graphviz"},
      {.name = "svg", .ending = ".svg", .doc = "the same, drawn by Graphviz"},
      {.name = "png", .ending = ".png", .doc = "the same in pixels", .is_text = false}};
  return *kinds;
}

std::string module_text(const std::string& kind, const IRModule& module, const std::string& function,
                        ConstantTable* constants) {
  if (kind == "dot") return to_dot(module, {function});
  if (kind == "svg" || kind == "png") return draw_dot(to_dot(module, {function}), kind);
  if (kind == "tir") {
    PrintOptions options;
    options.constants = constants;
    // Text that no table stands beside can be read again as long as it holds its constants.
    constexpr int64_t kAlone = 64;
    if (!constants) options.inline_elements = kAlone;
    return print(module, options);
  }
  fail("T0920", fmt::format("there is no text of the kind `{}` of a module", kind), {},
       "tir, dot, svg or png", ErrorKind::usage);
}

}  // namespace tenon
