// SPDX-License-Identifier: Apache-2.0
// Structural equality and hash, derived from field lists: variables are equal when they are defined at the
// same place (alpha-equivalence), constants when their content is.
#pragma once
#include "ir/module.h"

namespace tenon {

/// `map_free`: variables that are free on both sides may be paired one to one.
bool structural_equal(const ObjectRef& a, const ObjectRef& b, bool map_free = false);
/// Equal objects have equal hashes; stable over runs and machines.
uint64_t structural_hash(const ObjectRef& a, bool map_free = false);
/// Path to the first difference ("functions.main.body.value: tir.Add vs tir.Sub"), or "".
std::string first_difference(const ObjectRef& a, const ObjectRef& b, bool map_free = false);

}  // namespace tenon
