// SPDX-License-Identifier: Apache-2.0
// Work of the compiler on several threads, with the result that one thread gives.
#pragma once
#include "base/function_ref.h"

namespace tenon {

/// Calls f(0) … f(n-1), each once, on up to `threads` threads with large stacks; the caller waits. When
/// several fail, the error of the lowest index is thrown. What runs inside works on one thread.
void for_each_parallel(size_t n, int threads, FunctionRef<void(size_t)> f);

/// While one lives, `IRModule::map_prim` on this thread visits functions on several threads. Its callbacks
/// must not change what they share; passes over programs do not.
class ParallelPrograms {
 public:
  explicit ParallelPrograms(int threads);
  ~ParallelPrograms();
  ParallelPrograms(const ParallelPrograms&) = delete;
  static int threads();  ///< of the calling thread; 1 without a scope

 private:
  int before_;
};

}  // namespace tenon
