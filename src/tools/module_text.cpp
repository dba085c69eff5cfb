// SPDX-License-Identifier: Apache-2.0
#include "tools/module_text.h"

#include <fmt/format.h>

#include "base/diagnostic.h"
#include "tools/dot.h"

namespace tenon {

bool is_module_text(const std::string& kind) { return kind == "tir" || kind == "dot" || kind == "svg"; }

std::string module_text(const std::string& kind, const IRModule& module, const std::string& function,
                        ConstantTable* constants) {
  if (kind == "dot") return to_dot(module, {function});
  if (kind == "svg") return dot_to_svg(to_dot(module, {function}));
  if (kind == "tir") {
    PrintOptions options;
    options.constants = constants;
    return print(module, options);
  }
  fail("T0920", fmt::format("there is no text of the kind `{}` of a module", kind), {}, "tir, dot or svg",
       ErrorKind::usage);
}

}  // namespace tenon
