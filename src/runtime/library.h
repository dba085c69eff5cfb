// SPDX-License-Identifier: Apache-2.0
// Libraries beside this one, for what few models and programs need.
#pragma once
#include "base/function.h"

namespace tenon {

/// A function that models and programs call by name: the registry's, else that of the library which has names
/// like it and is loaded for it. Null when there is none. Error "T0615" when that library cannot be loaded.
Function find_function(std::string_view name);

}  // namespace tenon
