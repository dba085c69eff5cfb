// SPDX-License-Identifier: Apache-2.0
// Thread pool and workspaces; the contract is in the header.
#include "runtime/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/task_cost.h"

namespace tenon {
namespace {

constexpr int64_t kUnknownCostNs = 100;  // per iteration, when the compiler does not say
constexpr int64_t kSpinUs = 30;          // about what waking a parked thread takes
/// Times as long, once, when a thread that was woken finds its work done: waking takes up to 240 µs where a
/// virtual machine has to wake the core, too, and whoever asked asks again soon.
constexpr int kLateSpins = 8;
constexpr size_t kHeader = 64;
constexpr size_t kKeptWorkspace = size_t(64) << 20;

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// How long a thread looks for work, or for the others' end, before it parks: $TENON_SPIN_US, at most 10 ms.
/// Longer wins a little between the kernels of one model and burns a core between the calls of many.
std::chrono::microseconds spin_time() {
  static const int64_t us = [] {
    const char* text = std::getenv("TENON_SPIN_US");
    char* end = nullptr;
    const long long n = text ? std::strtoll(text, &end, 10) : kSpinUs;
    return text && (end == text || *end) ? kSpinUs : std::clamp<int64_t>(n, 0, 10'000);
  }();
  return std::chrono::microseconds(us);
}

/// Spins until `done` for so many times the bounded time; false when it is over.
template <class F>
bool spin(F done, int times = 1) {
  if (done()) return true;
  const auto end = std::chrono::steady_clock::now() + spin_time() * times;
  do {
    for (int i = 0; i < 64; ++i) {
      if (done()) return true;
      pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return done();
}

int64_t task_begin(int64_t extent, int tasks, int index) {
  return extent / tasks * index + std::min<int64_t>(index, extent % tasks);
}

void* workspace_allocate(const TenonKernelContext* context, int64_t bytes);
void workspace_release(const TenonKernelContext* context, void* memory);
int32_t serial_for(const TenonKernelContext* context, TenonParallelBody body, void* closure, int64_t extent,
                   int64_t) {
  return extent > 0 ? body(closure, 0, extent, context) : 0;
}

enum : uint32_t { kIdle = 0, kPosted = 1, kStop = 2 };

}  // namespace

// ---- Workspace

struct WorkspaceHeader {
  Workspace::Mark before;
};

void* Workspace::allocate(int64_t bytes) {
  if (bytes < 0 || bytes > (int64_t(1) << 46)) return nullptr;
  const size_t need = ((size_t(bytes) + 63) & ~size_t(63)) + kHeader;
  Mark at = mark_;
  if (blocks_.empty() || blocks_[at.block].size - at.used < need) {
    // The next block holds at least as much as all before it, so that there are few. It takes the place of
    // those that nothing lies in.
    const bool unused = at.block == 0 && at.used == 0;
    const size_t next = unused ? 0 : at.block + 1;
    const size_t size = std::max({need, unused ? size_t(0) : held_bytes(), size_t(64) << 10});
    free_blocks(next);
    char* memory = static_cast<char*>(std::aligned_alloc(64, size));
    if (!memory) return nullptr;
    try {
      blocks_.push_back({memory, size});
    } catch (const std::bad_alloc&) {
      std::free(memory);
      return nullptr;
    }
    at = {next, 0};
  }
  char* address = blocks_[at.block].memory + at.used;
  const WorkspaceHeader header{mark_};
  std::memcpy(address, &header, sizeof header);
  mark_ = {at.block, at.used + need};
  return address + kHeader;
}

void Workspace::release(void* memory) {
  if (!memory) return;
  WorkspaceHeader header;
  std::memcpy(&header, static_cast<char*>(memory) - kHeader, sizeof header);
  rollback(header.before);
}

void Workspace::rollback_slow(Mark mark) {
  mark_ = mark;
  if (mark.block != 0 || mark.used != 0) return;
  // Empty: several blocks become one on the next use, and a very large one goes back to the system.
  if (blocks_.size() > 1 || held_bytes() > kKeptWorkspace) {
    const size_t total = held_bytes();
    free_blocks(0);
    if (total <= kKeptWorkspace)
      if (char* memory = static_cast<char*>(std::aligned_alloc(64, total)))
        blocks_.push_back({memory, total});
  }
}

void Workspace::free_blocks(size_t keep) {
  while (blocks_.size() > keep) {
    std::free(blocks_.back().memory);
    blocks_.pop_back();
  }
}

size_t Workspace::held_bytes() const {
  size_t total = 0;
  for (const Block& b : blocks_) total += b.size;
  return total;
}

// ---- ThreadPool

struct alignas(64) ThreadPool::Worker {
  std::atomic<uint32_t> state{kIdle};
  std::atomic<uint32_t> posts{0};  // so far: who wakes too late for one sees that there was one
  int32_t code = 0;
  TenonKernelContext context;
  Workspace workspace;
  std::thread thread;
  void post(uint32_t what) {
    state.store(what, std::memory_order_release);
    posts.fetch_add(1, std::memory_order_release);
    posts.notify_one();
  }
};

namespace {
int32_t no_call(const TenonKernelContext*, const char*, int64_t*) { return -3; }

/// Of a worker: the workspace is all it has.
struct WorkerRuntime {
  static void* allocate(const TenonKernelContext* c, int64_t bytes) {
    return static_cast<Workspace*>(c->runtime)->allocate(bytes);
  }
  static void release(const TenonKernelContext* c, void* memory) {
    static_cast<Workspace*>(c->runtime)->release(memory);
  }
};
}  // namespace

namespace {
/// The lowest CPU of `set` that shares a core with `cpu`; `cpu` itself where the system does not say.
int first_sibling(int cpu, const cpu_set_t& set) {
  char path[96];
  std::snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
  FILE* file = std::fopen(path, "re");
  if (!file) return cpu;
  int first = cpu, low = 0, high = 0;
  for (int n; (n = std::fscanf(file, "%d-%d", &low, &high)) >= 1;) {  // "0,64" or "0-1,64-65"
    for (int i = low; i <= (n == 2 ? high : low) && i < cpu; ++i)
      if (i >= 0 && CPU_ISSET(i, &set)) first = std::min(first, i);
    if (std::fgetc(file) != ',') break;
  }
  std::fclose(file);
  return first;
}
}  // namespace

int ThreadPool::available_cores() {
  int cores = int(std::max(1u, std::thread::hardware_concurrency()));
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    cores = std::max(1, CPU_COUNT(&set));
    // One of the threads of each physical core: two that share its arithmetic units only get in each other's
    // way. The first CPU of its list of siblings that may be used here stands for a core.
    int physical = 0;
    for (int i = 0; i < CPU_SETSIZE; ++i)
      if (CPU_ISSET(i, &set)) physical += first_sibling(i, set) == i;
    if (physical > 0) cores = physical;
  }
  // A container's quota ("200000 100000": two cores' worth); more threads than that are stopped in turn.
  if (FILE* file = std::fopen("/sys/fs/cgroup/cpu.max", "re")) {
    long long quota = 0, period = 0;
    if (std::fscanf(file, "%lld %lld", &quota, &period) == 2 && quota > 0 && period > 0)
      cores = int(std::clamp<long long>((quota + period - 1) / period, 1, cores));
    std::fclose(file);
  }
  return cores;
}

ThreadPool::ThreadPool(int cores) : cores_(cores > 0 ? std::min(cores, 1024) : available_cores()) {}

ThreadPool::~ThreadPool() {
  for (auto& w : workers_) w->post(kStop);
  for (auto& w : workers_) w->thread.join();
}

struct ThreadPoolForkHandler {
  static void child() {
    ThreadPool& pool = ThreadPool::process();
    // The threads of these records do not exist here, and another thread may have been changing the list
    // when the fork happened: what it holds is given up, never touched.
    new (&pool.workers_) std::vector<std::unique_ptr<ThreadPool::Worker>>();
    pool.pending_.store(0, std::memory_order_relaxed);
    pool.awake_.store(0, std::memory_order_relaxed);
    pool.busy_.clear();
  }
};

ThreadPool& ThreadPool::process() {
  static ThreadPool* pool = [] {
    auto* p = new ThreadPool();
    pthread_atfork(nullptr, nullptr, ThreadPoolForkHandler::child);
    return p;
  }();
  return *pool;
}

void ThreadPool::grow(int workers) {
  while (int(workers_.size()) < workers) {
    auto w = std::make_unique<Worker>();
    w->context = {serial_for, WorkerRuntime::allocate, WorkerRuntime::release, &w->workspace, no_call,
                  nullptr};
    const int index = int(workers_.size()) + 1;
    workers_.push_back(std::move(w));
    Worker& self = *workers_.back();
    try {
      self.thread = std::thread([this, &self, index] { work(self, index); });
    } catch (...) {
      workers_.pop_back();  // a process at its thread limit goes on with what there is
      return;
    }
  }
}

int32_t ThreadPool::run_task(int index, const TenonKernelContext* context) {
  const Job& job = job_;
  const auto begin = job.hook ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point();
  const int32_t code = job.body(job.closure, task_begin(job.extent, job.tasks, index),
                                task_begin(job.extent, job.tasks, index + 1), context);
  if (job.hook) (*job.hook)(begin);
  return code;
}

void ThreadPool::work(Worker& self, int index) {
  awake_.fetch_add(1, std::memory_order_relaxed);
  auto asked = [&] { return self.state.load(std::memory_order_relaxed) != kIdle; };
  for (int times = 1;; times = 1) {
    while (!spin(asked, times)) {
      // Read before the state: a post behind this one is not slept through.
      const uint32_t posts = self.posts.load(std::memory_order_acquire);
      if (asked()) break;
      awake_.fetch_sub(1, std::memory_order_relaxed);
      self.posts.wait(posts, std::memory_order_relaxed);
      awake_.fetch_add(1, std::memory_order_relaxed);
      times = kLateSpins;
    }
    uint32_t seen = kPosted;
    if (self.state.compare_exchange_strong(seen, kIdle, std::memory_order_acq_rel)) {
      self.code = run_task(index, &self.context);
      self.workspace.rollback({});
      if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) pending_.notify_one();
    } else if (seen == kStop) {
      return;
    }
  }
}

int32_t ThreadPool::run(TenonParallelBody body, void* closure, int64_t extent, int64_t cost, int threads,
                        const TenonKernelContext* serial, const TaskHook* hook) {
  if (extent <= 0) return 0;
  int64_t total = 0;
  if (__builtin_mul_overflow(extent, cost > 0 ? cost : kUnknownCostNs, &total)) total = INT64_MAX;
  int64_t tasks = std::min<int64_t>({threads, cores_, extent});
  const int64_t awake = std::min<int64_t>(awake_.load(std::memory_order_relaxed) + 1, total / kAwakeTaskNs);
  tasks = std::min(tasks, std::max(awake, total / kTaskNs));
  if (tasks <= 1 || busy_.test_and_set(std::memory_order_acquire)) return body(closure, 0, extent, serial);
  struct Unlock {
    std::atomic_flag& flag;
    ~Unlock() { flag.clear(std::memory_order_release); }
  } unlock{busy_};

  grow(int(tasks) - 1);
  tasks = std::min<int64_t>(tasks, int64_t(workers_.size()) + 1);
  job_ = {body, closure, extent, int(tasks), hook};
  pending_.store(uint32_t(tasks - 1), std::memory_order_relaxed);
  for (int i = 0; i + 1 < tasks; ++i) workers_[i]->post(kPosted);
  int32_t code = run_task(0, serial);
  // A worker that has not begun (parked, or its core is taken) is not waited for: its task is done here.
  for (int i = int(tasks) - 2; i >= 0; --i) {
    uint32_t seen = kPosted;
    if (!workers_[i]->state.compare_exchange_strong(seen, kIdle, std::memory_order_acq_rel)) continue;
    workers_[i]->code = run_task(i + 1, serial);
    pending_.fetch_sub(1, std::memory_order_acq_rel);
  }
  uint32_t left;
  if (!spin([&] { return pending_.load(std::memory_order_acquire) == 0; }))
    while ((left = pending_.load(std::memory_order_acquire)) != 0)
      pending_.wait(left, std::memory_order_acquire);
  for (int i = 0; i + 1 < tasks && code == 0; ++i) code = workers_[i]->code;
  return code;
}

// ---- KernelContext

KernelContext::KernelContext(ThreadPool& pool, int threads) : pool_(pool) {
  outer_ = {parallel_for, workspace_allocate, workspace_release, this, no_call, nullptr};
  serial_ = {serial_for, workspace_allocate, workspace_release, this, no_call, nullptr};
  set_threads(threads);
}

void KernelContext::set_threads(int threads) {
  threads_ = threads <= 0 ? pool_.cores() : std::min(threads, pool_.cores());
}

int32_t KernelContext::parallel_for(const TenonKernelContext* context, TenonParallelBody body, void* closure,
                                    int64_t extent, int64_t cost) {
  auto* self = static_cast<KernelContext*>(context->runtime);
  if (self->cancelled()) return -2;
  if (self->threads_ == 1) return extent > 0 ? body(closure, 0, extent, &self->serial_) : 0;
  return self->pool_.run(body, closure, extent, cost, self->threads_, &self->serial_,
                         self->task_hook_ ? &self->task_hook_ : nullptr);
}

namespace {
void* workspace_allocate(const TenonKernelContext* context, int64_t bytes) {
  return static_cast<KernelContext*>(context->runtime)->workspace().allocate(bytes);
}
void workspace_release(const TenonKernelContext* context, void* memory) {
  static_cast<KernelContext*>(context->runtime)->workspace().release(memory);
}
}  // namespace

}  // namespace tenon
