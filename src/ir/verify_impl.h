// SPDX-License-Identifier: Apache-2.0
// Shared by the verifier's files.
#pragma once
#include <unordered_map>
#include <unordered_set>

#include "base/function_ref.h"
#include "ir/module.h"
#include "ir/tir.h"

namespace tenon {
/// Longest chain of statements, expressions and types below root; keeps its own stack.
int nesting_of(const ObjectRef& root);
/// Races of parallel loops (T0335), block iterators outside their domain (T0336) and accesses outside of
/// their buffer (T0337), where they are certain. `given`: the program came so, no pass made it.
void verify_loops(const std::string& name, const tir::Stmt& body, DiagnosticList& problems, bool given);
/// Accesses of blocks outside of the regions that they declare (T0319), where they are certain.
void verify_regions(const std::string& name, const tir::Stmt& body, DiagnosticList& problems);
/// What two iterations of a parallel or vectorised loop do to one element, in a sentence, where it is
/// certain; empty: nothing. `own`: memory that is no matter; `around`: values of variables with which the
/// loop runs. `of_two`: not only stores to one element by all iterations.
std::string certain_race(const tir::For& loop, const std::unordered_set<const tir::Var*>& own,
                         const std::unordered_map<const tir::Var*, int64_t>& around, bool of_two);
/// A jump at or below s ends what is around it: not one that a loop inside takes. `next`: one to the next
/// iteration of the loop around counts.
bool jumps_out(const tir::Stmt& s, bool next, bool in_loop = false);
/// Parts of e that computing it computes in any case.
void for_each_computed(const PrimExpr& e, FunctionRef<void(const ObjectRef&)> f);
/// Loads that computing e makes in any case.
void for_each_load(const PrimExpr& e, FunctionRef<void(const tir::BufferLoad&)> f);
/// Jumps that lead nowhere, or out of what they may not leave (T0339; ir/jumps.h).
void verify_jumps(const std::string& name, const tir::Stmt& body, DiagnosticList& problems);
/// What is wrong with the number or the types of a call's arguments, behind "`name` "; nothing when they fit.
std::string call_problem(const tir::Call& n);
}  // namespace tenon
