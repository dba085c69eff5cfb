// SPDX-License-Identifier: Apache-2.0
// Pictures of modules for Graphviz: any module at any stage.
#pragma once
#include <string>

#include "ir/module.h"

namespace tenon {

struct DotOptions {
  /// Only this function, graph or tensor program. Empty: the graph functions, or where a module has none, its
  /// programs.
  std::string function;
};

/// Graph functions: a node for each call, its kernel's or operator's name and small constants on it, shapes
/// on the edges; clusters for functions, for what is fused into one kernel, for branches, loops and closures.
/// Programs: loops and blocks as a tree, what blocks read and write beside them. The same module gives the
/// same text. Error "T0926" when there is no such function.
std::string to_dot(const IRModule& module, const DotOptions& options = {});

/// The same drawn by the program `dot` of Graphviz ($TENON_DOT, or found in $PATH). `form`: "svg" or "png".
/// Errors: "T0925" when it is not installed, "T0927" when it fails.
std::string draw_dot(const std::string& dot, const std::string& form);

}  // namespace tenon
