// SPDX-License-Identifier: Apache-2.0
// A module at any stage as a file that people read.
#pragma once
#include <string>

#include "ir/text.h"
#include "pipeline/emit.h"

namespace tenon {

/// The kinds of `module_text`: tir, dot, svg and png.
const std::vector<EmitKind>& module_text_kinds();
/// A module as "tir" (large constants into `constants`), "dot", "svg" or "png"; Error "T0920" for another
/// kind. `function`: only this one, in a picture.
std::string module_text(const std::string& kind, const IRModule& module, const std::string& function = {},
                        ConstantTable* constants = nullptr);

}  // namespace tenon
