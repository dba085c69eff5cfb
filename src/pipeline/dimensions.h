// SPDX-License-Identifier: Apache-2.0
// Symbolic dimensions of a model's inputs: their values, and the most that they may be.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "ir/module.h"

namespace tenon {

/// As a map of the language.
std::map<std::string, int64_t> sizes_of(const Map<std::string, int64_t>& named);

/// Symbolic dimensions replaced by numbers, by name; types follow. `missing_become_one`: the others too.
/// DiagnosticError "T0903" for a name that no input has.
IRModule specialize_dims(IRModule module, const std::map<std::string, int64_t>& dims,
                         bool missing_become_one = false);

/// The bounds of symbolic dimensions of `main` by the names that the module has for them; those of dimensions
/// with a value in `dims` are left out. DiagnosticError "T0903" for a name that no input has, or a negative
/// bound.
std::map<std::string, int64_t> known_bounds(const IRModule& module,
                                            const std::map<std::string, int64_t>& bounds,
                                            const std::map<std::string, int64_t>& dims);

}  // namespace tenon
