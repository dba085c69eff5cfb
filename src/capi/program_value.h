// SPDX-License-Identifier: Apache-2.0
// Values that a caller writes down: expressions over the data types of a program.
#pragma once
#include "ir/module.h"

namespace tenon {

/// The value of an expression of script text, such as `Cons(R.const([1.0, 2.0], "float32"), Nil())`, whose
/// type is one of the module's (`type`, as it is printed). DiagnosticError with the mistakes of the
/// expression.
Any program_value(const IRModule& module, const std::string& type, const std::string& expression);

}  // namespace tenon
