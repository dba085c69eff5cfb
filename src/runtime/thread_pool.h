// SPDX-License-Identifier: Apache-2.0
// The thread pool behind TenonKernelContext: one per process, a static split, the caller works too.
//
// What a kernel may rely on: the iterations [0, extent) are split into contiguous ranges, each run once, and
// the code returned is that of the lowest failing range. How many ranges there are depends on the thread
// count, so a kernel must give the same bits for any split; the compiler's reductions do.
//
// Processes that fork: the child of a fork has no workers. A handler makes the child's pool empty, and it
// grows again on first use. A fork during a parallel region of another thread is safe for the same reason.
// The library is linked with -z nodelete, because parked workers outlive any dlclose.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/kernel.h"

namespace tenon {

/// Scratch memory of one thread, given out and taken back like a stack; 64-byte aligned.
class Workspace {
 public:
  Workspace() = default;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() { free_blocks(0); }
  void* allocate(int64_t bytes);  ///< null when memory ends or `bytes` is negative
  void release(void* memory);     ///< gives back this and everything allocated after it
  struct Mark {
    size_t block = 0, used = 0;
  };
  Mark mark() const { return mark_; }
  /// Back to an earlier mark: what a failed kernel left behind is reclaimed here.
  void rollback(Mark mark) {
    if (mark.block != mark_.block || mark.used != mark_.used) rollback_slow(mark);
  }
  size_t held_bytes() const;

 private:
  struct Block {
    char* memory = nullptr;
    size_t size = 0;
  };
  void rollback_slow(Mark mark);
  void free_blocks(size_t keep);
  std::vector<Block> blocks_;
  Mark mark_;
};

/// Called behind each part of a parallel region, on the thread that ran it: when the part began.
using TaskHook = std::function<void(std::chrono::steady_clock::time_point begin)>;

class ThreadPool {
 public:
  /// `cores`: the most threads a region uses, the caller included; 0: the cores this process may run on.
  explicit ThreadPool(int cores = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  static ThreadPool& process();  ///< the one pool; never destroyed
  int cores() const { return cores_; }
  /// Cores this process may use: its affinity mask, and the quota of its container.
  static int available_cores();

  /// Runs body over [0, extent) on at most `threads` threads. `serial` is what bodies on the calling thread
  /// see. Another caller holding the pool means: this one runs alone, which is what an oversubscribed machine
  /// wants. `hook` (null: none) hears of the parts of a region that is split.
  int32_t run(TenonParallelBody body, void* closure, int64_t extent, int64_t cost, int threads,
              const TenonKernelContext* serial, const TaskHook* hook = nullptr);

 private:
  struct Worker;
  struct Job {
    TenonParallelBody body = nullptr;
    void* closure = nullptr;
    int64_t extent = 0;
    int tasks = 0;
    const TaskHook* hook = nullptr;
  };
  void grow(int workers);
  void work(Worker& self, int index);
  int32_t run_task(int index, const TenonKernelContext* context);

  int cores_;
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
  std::vector<std::unique_ptr<Worker>> workers_;  // touched by the holder of busy_ only
  Job job_;
  std::atomic<int> awake_{0};  // workers that are not parked
  alignas(64) std::atomic<uint32_t> pending_{0};
  friend struct ThreadPoolForkHandler;
};

/// What one caller (a session) hands to its kernels. Belongs to one thread at a time.
class KernelContext {
 public:
  explicit KernelContext(ThreadPool& pool = ThreadPool::process(), int threads = 0);
  KernelContext(const KernelContext&) = delete;
  KernelContext& operator=(const KernelContext&) = delete;
  const TenonKernelContext* get() const { return &outer_; }
  void set_threads(int threads);  ///< 0: all cores; more than cores: cores
  int threads() const { return threads_; }
  Workspace& workspace() { return workspace_; }
  void set_task_hook(TaskHook hook) { task_hook_ = std::move(hook); }  ///< null: off
  /// How kernels call packed functions, on the thread that runs them.
  void set_calls(int32_t (*call)(const TenonKernelContext*, const char*, int64_t*), void* calls) {
    outer_.call = call;
    outer_.calls = calls;
  }
  /// May be called from any thread: regions that begin later return -2.
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }
  void clear_cancel() { cancelled_.store(false, std::memory_order_relaxed); }

 private:
  static int32_t parallel_for(const TenonKernelContext* context, TenonParallelBody body, void* closure,
                              int64_t extent, int64_t cost);
  TenonKernelContext outer_, serial_;
  Workspace workspace_;
  ThreadPool& pool_;
  int threads_ = 1;
  TaskHook task_hook_;
  std::atomic<bool> cancelled_{false};
};

}  // namespace tenon
