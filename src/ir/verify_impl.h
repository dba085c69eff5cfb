// SPDX-License-Identifier: Apache-2.0
// Shared by the verifier's files.
#pragma once
#include "ir/module.h"

namespace tenon {
/// Longest chain of statements, expressions and types below root; keeps its own stack.
int nesting_of(const ObjectRef& root);
/// Races of parallel loops (T0335), block iterators outside their domain (T0336) and accesses outside of
/// their buffer (T0337), where they are certain.
void verify_loops(const std::string& name, const tir::Stmt& body, DiagnosticList& problems);
/// Jumps that lead nowhere, or out of what they may not leave (T0339; ir/jumps.h).
void verify_jumps(const std::string& name, const tir::Stmt& body, DiagnosticList& problems);
/// What is wrong with the number or the types of a call's arguments, behind "`name` "; nothing when they fit.
std::string call_problem(const tir::Call& n);
}  // namespace tenon
