// SPDX-License-Identifier: Apache-2.0
// Verifiers: what every pass may rely on. All problems are collected; codes T03xx.
#pragma once
#include "ir/module.h"

namespace tenon {

/// Nesting of statements and expressions that recursive visitors may meet.
inline constexpr int kMaxNesting = 1000;

/// Tensor level: variables and buffers defined before use and once, types, block bindings, iterator domains,
/// index counts, predicates' types, nesting. Graph level: normal form, each variable bound once and before
/// use, known callees, argument counts, attributes of the declared type, types present (when `typed`).
void verify(const IRModule& module, DiagnosticList& problems, bool typed = false);
/// Programs that were found right. Nobody can change them while they are held here.
using VerifiedPrograms = std::unordered_map<const Object*, ObjectRef>;
/// The same of what a pass left, without the programs that are in `known`, which holds those of the module
/// behind it. On the threads of ParallelPrograms. Two iterations of a parallel loop that touch one element
/// are looked for in given modules only, as are races under a condition: what a pass makes of a program may
/// show what was hidden in it.
void verify(const IRModule& module, DiagnosticList& problems, bool typed, VerifiedPrograms& known);
void verify_prim_func(const std::string& name, const tir::PrimFunc& f, DiagnosticList& problems,
                      bool given = false);
void verify_graph_function(const std::string& name, const Ref<graph::Function>& f, const IRModule& module,
                           DiagnosticList& problems, bool typed);
/// Throws DiagnosticError with all problems.
void verify_or_throw(const IRModule& module, bool typed = false);

}  // namespace tenon
