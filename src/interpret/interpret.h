// SPDX-License-Identifier: Apache-2.0
// The interpreters: slow and obvious, they define what every node means. What later stages make of a program
// is judged against them; operators themselves are judged by independent references.
#pragma once
#include <memory>

#include "ir/module.h"

namespace tenon {

class InterpretMemo;  // interpret/memo.h

struct InterpretOptions {
  bool float64 = false;           ///< floating values (f16, bf16, f32) are computed and stored as double
  int64_t max_steps = INT64_MAX;  ///< Error "T0351" beyond
  int max_depth = 1000;           ///< calls; Error "T0352" beyond
  bool reverse_threads = false;   ///< threads of a block run from the last: shows a barrier that is missing
  int64_t max_bytes = INT64_MAX;  ///< of one allocation of a tensor program; Error "T0351" beyond
  int64_t vscale = 1;             ///< of scalable vectors
  std::shared_ptr<InterpretMemo> memo;  ///< optional: what operators gave is looked up there first
};

/// A graph value: NDArray, Tuple (Array<Any>), Shape, int/float scalar, closure.
using Value = Any;

/// Runs a PrimFunc on tensors (and scalars as rank-0 tensors) in parameter order; outputs are written in
/// place. Symbolic sizes are bound from the shapes; a conflict is an Error naming both. Out-of-bounds
/// accesses are Errors that name buffer, index and shape. With float64, all floating arguments must be
/// float64 arrays. Loops bound to "threadIdx.…" are the threads of a block, simulated: each runs until a
/// barrier; memory of scope "shared" is one for the block, other memory allocated inside is each thread's
/// own.
void interpret_prim_func(const tir::PrimFunc& f, const std::vector<NDArray>& args,
                         const IRModule& module = {}, const InterpretOptions& options = {});
/// Runs a graph function of the module.
Value interpret(const IRModule& module, const std::string& function, const std::vector<Value>& args,
                const InterpretOptions& options = {});

}  // namespace tenon
