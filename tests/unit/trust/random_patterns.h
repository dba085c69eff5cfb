// SPDX-License-Identifier: Apache-2.0
// Patterns that graph passes look for and forms of the language, as script text with places for random sizes,
// operators and alternatives; the generator of random graphs puts them among its operators.
#pragma once
#include <functional>
#include <string>

#include "ir/module.h"

namespace tenon::testing_trust {

/// A random pattern as a module: function `main` and what it calls, under names that end in `_I`. `below(n)`
/// gives a number in [0, n).
///
/// Parameters of main: `w…` are weights, `s…` scales that are not 0, `v…` variances (positive), `i…` indices;
/// others are values of the graph.
struct RandomPattern {
  std::string name;
  IRModule module;
};
RandomPattern random_pattern(const std::function<uint64_t(uint64_t)>& below, int instance);
/// The `index`-th of them; `name` empty when there are not so many.
RandomPattern random_pattern(const std::function<uint64_t(uint64_t)>& below, int instance, size_t index);

}  // namespace tenon::testing_trust
