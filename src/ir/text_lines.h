// SPDX-License-Identifier: Apache-2.0
// Script text with the lines of what it shows, for debug information.
#pragma once
#include "ir/text.h"

namespace tenon {

/// Tensor programs and statements, each with the line, from 1 on, where it begins.
using NodeLines = std::vector<std::pair<const Object*, int32_t>>;
/// As `print`.
std::string print_with_lines(const ObjectRef& node, NodeLines& lines);

}  // namespace tenon
