// SPDX-License-Identifier: Apache-2.0
// The texts of random patterns.
//
// In the texts: $a … $h are random sizes, the same letter the same size; ${a*b}, ${a+1}, ${a-1} computed
// ones; $U a unary and $B a binary operator, drawn anew each time; {{x|y|z}} one of several texts; $I the
// instance. F(…) is a float32 tensor type. Some texts are whole functions, others the body of main under a
// line of parameters.
#pragma once
#include <span>

namespace tenon::testing_trust {

struct PatternText {
  const char* name;
  const char* text;
  const char* types = "";
};

/// What graph passes look for: operators that they merge, move or replace.
std::span<const PatternText> texts_for_passes();
/// Forms of the language: functions as values, recursion, data types, branches, loops.
std::span<const PatternText> texts_of_language();

}  // namespace tenon::testing_trust
