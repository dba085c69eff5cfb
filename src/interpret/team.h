// SPDX-License-Identifier: Apache-2.0
// Simulated threads of a GPU's block: bodies that run one after the other, each until it ends or waits at a
// barrier. The order is fixed, so a program with a missing barrier gives the same wrong answer every time.
#pragma once
#include <cstdint>

#include "base/function_ref.h"

namespace tenon::interpret_detail {

class Team {
 public:
  Team();
  ~Team();
  Team(const Team&) = delete;
  struct Hooks {
    FunctionRef<void(int64_t)> enter, leave;  ///< around each stretch that body k runs
    FunctionRef<void(int64_t)> body;
  };
  /// Runs body(0) … body(n-1), from the last when `reverse`. Bodies may call `run` themselves; a barrier
  /// holds all of them. Error "T0361" when some bodies wait where others do not. The first error of a body is
  /// thrown once all bodies have been left.
  void run(int64_t n, bool reverse, const Hooks& hooks);
  /// Called inside a body: returns once every body has called it with the same `site`.
  void barrier(const void* site);
  bool inside() const { return current_ != nullptr; }

 private:
  struct Fiber;
  static void start(unsigned high, unsigned low);
  void resume(Fiber& f);
  void yield(const void* site);
  Fiber* current_ = nullptr;
};

}  // namespace tenon::interpret_detail
