// SPDX-License-Identifier: Apache-2.0
// `break`, `continue` and `return` of tensor programs: calls that stand as statements of their own.
//   T.evaluate(T.call("tir.break_loop"))     the innermost loop around ends
//   T.evaluate(T.call("tir.continue_loop"))  its present iteration ends
//   T.evaluate(T.call("tir.ret", value))     the program ends
// `lower_jumps` makes conditions of them before anything looks at the program: no analysis knows them.
#pragma once
#include "ir/tir.h"

namespace tenon::tir {

enum class Jump : uint8_t { none, next_iteration, end_of_loop, end_of_program };

/// What the statement itself does, not what is below it.
Jump jump_of(const Stmt& s);
/// The first statement at or below s that jumps, or null.
Stmt find_jump(const Stmt& s);

}  // namespace tenon::tir
