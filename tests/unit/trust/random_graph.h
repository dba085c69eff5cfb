// SPDX-License-Identifier: Apache-2.0
// Typed random graphs: operators drawn from the registry with random operands and attributes, kept when type
// inference accepts them, patterns that passes look for, branches, loops, functions of all kinds and symbolic
// sizes among them. Small shapes, so that the interpreter is quick.
#pragma once
#include <map>
#include <random>

#include "ir/module.h"

namespace tenon::testing_trust {

struct RandomGraphOptions {
  int min_operators = 3, max_operators = 12;
  bool control_flow = true;    ///< branches and loops
  bool functions = true;       ///< private functions that main calls
  bool symbolic_sizes = true;  ///< sometimes the first axis of a parameter has no number
  bool patterns = true;        ///< what passes look for, and forms of the language (random_patterns.h)
  bool recorded = true;        ///< operators as their tests call them (operators.tir)
};

/// The same seed gives the same module: one function `main`. Values whose last bit a pass may change never
/// reach an operator that jumps (rounding, comparison, arg-reduction, conversion to integers), so that
/// results can be compared within a tolerance. `uses`: how often each operator was drawn, added up.
IRModule random_graph(uint64_t seed, const RandomGraphOptions& options = {},
                      std::map<std::string, int64_t>* uses = nullptr);

}  // namespace tenon::testing_trust
