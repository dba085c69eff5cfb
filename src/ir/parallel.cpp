// SPDX-License-Identifier: Apache-2.0
#include "ir/parallel.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/time_limit.h"

namespace tenon {
namespace {

// Of the thread: several compilations may run side by side, each with its own number, and what runs on a
// worker stays on its thread. Passes call map_prim without a number.
thread_local ParallelPrograms::Settings settings;

/// Address space only: pages appear when they are touched.
constexpr size_t kStack = size_t(512) << 20;

struct Shared {
  FunctionRef<void(size_t)> f;
  size_t n;
  TimeLimit::Thread caller = TimeLimit::of_this_thread();
  std::atomic<size_t> next{0};
  std::mutex lock;
  std::exception_ptr error;
  size_t error_at = SIZE_MAX;

  /// `cancelled`: asked before each item, by the calling thread alone; no further item is begun then.
  void work(const std::function<bool()>* cancelled) {
    const ParallelPrograms one(1);
    for (size_t k = next++; k < n; k = next++) {
      try {
        if (cancelled && *cancelled) poll(*cancelled);
        f(k);
      } catch (...) {
        std::lock_guard guard(lock);
        if (k < error_at) {
          error_at = k;
          error = std::current_exception();
        }
      }
    }
  }
  void poll(const std::function<bool()>& cancelled) {
    try {
      if (cancelled()) throw Error(ErrorKind::interrupted, "T1003", "compilation was cancelled");
    } catch (...) {
      next = n;
      throw;
    }
  }
};

}  // namespace

void for_each_parallel(size_t n, int threads, FunctionRef<void(size_t)> f) {
  Shared shared{f, n};
  std::vector<pthread_t> others;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStack);
  const auto wanted = size_t(std::max(1, std::min<int>(threads, int(std::min<size_t>(n, 1024)))));
  while (others.size() + 1 < wanted) {
    pthread_t thread;
    const int failed = pthread_create(
        &thread, &attributes,
        [](void* s) -> void* {
          auto* shared = static_cast<Shared*>(s);
          TimeLimit::take_over(shared->caller);
          shared->work(nullptr);
          return nullptr;
        },
        &shared);
    if (failed) break;  // a process at its thread limit goes on with what there is
    others.push_back(thread);
  }
  pthread_attr_destroy(&attributes);
  shared.work(settings.cancelled);
  for (const pthread_t t : others) pthread_join(t, nullptr);
  if (shared.error) std::rethrow_exception(shared.error);
}

ParallelPrograms::ParallelPrograms(int threads, const std::function<bool()>* cancelled)
    : before_(std::exchange(settings, {std::max(1, threads), cancelled})) {}
ParallelPrograms::~ParallelPrograms() { settings = before_; }
int ParallelPrograms::threads() { return settings.threads; }

}  // namespace tenon
