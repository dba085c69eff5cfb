// SPDX-License-Identifier: Apache-2.0
// A target's text that names several processors: code for each goes into one artifact, whose loader takes the
// best that its machine has.
#pragma once
#include "target/target.h"

namespace tenon {

/// The targets of a text, "llvm -mcpu=x86-64-v2,x86-64-v4", in its order; of any other text the one that it
/// is. DiagnosticError "T0901" for words that are not known, for a processor that is named twice, and for two
/// with the same features, of which no machine would take the second.
std::vector<Target> parse_targets(std::string_view text);
/// Of these the one with the most features that this machine has; the first when it has those of none.
Target best_for_host(const std::vector<Target>& targets);

}  // namespace tenon
