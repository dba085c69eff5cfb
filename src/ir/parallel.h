// SPDX-License-Identifier: Apache-2.0
// Work of the compiler on several threads, with the result that one thread gives.
#pragma once
#include <functional>

#include "base/function_ref.h"
#include "ir/tir.h"

namespace tenon {

/// A program and the nodes of a model that it comes from, in words.
std::string words_of(const std::string& name, const tir::PrimFunc& program);

/// Calls f(0) … f(n-1), each once, on up to `threads` threads with large stacks; the caller waits. When
/// several fail, the error of the lowest index is thrown. What runs inside works on one thread.
void for_each_parallel(size_t n, int threads, FunctionRef<void(size_t)> f);

/// While one lives, `IRModule::map_prim` on this thread visits functions on several threads. Its callbacks
/// must not change what they share; passes over programs do not. `cancelled` (it outlives this; may be null)
/// is asked between items of work in this thread: Error "T1003".
class ParallelPrograms {
 public:
  struct Settings {
    int threads = 1;
    const std::function<bool()>* cancelled = nullptr;
  };
  explicit ParallelPrograms(int threads, const std::function<bool()>* cancelled = nullptr);
  ~ParallelPrograms();
  ParallelPrograms(const ParallelPrograms&) = delete;
  static int threads();  ///< of the calling thread; 1 without a scope

 private:
  Settings before_;
};

}  // namespace tenon
