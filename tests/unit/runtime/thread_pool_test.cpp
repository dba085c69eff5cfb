// SPDX-License-Identifier: Apache-2.0
#include "runtime/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <numeric>

namespace tenon {
namespace {

struct Marks {
  std::vector<std::atomic<int>> count;
  explicit Marks(size_t n) : count(n) {}
  static int32_t body(void* closure, int64_t begin, int64_t end, const TenonKernelContext*) {
    for (int64_t i = begin; i < end; ++i)
      static_cast<Marks*>(closure)->count[size_t(i)].fetch_add(1, std::memory_order_relaxed);
    return 0;
  }
};

int32_t run(const KernelContext& c, TenonParallelBody body, void* closure, int64_t extent, int64_t cost) {
  return c.get()->parallel_for(c.get(), body, closure, extent, cost);
}

TEST(ThreadPool, EveryIterationRunsOnce) {
  ThreadPool pool(8);
  for (int threads : {1, 2, 3, 8}) {
    KernelContext context(pool, threads);
    for (int64_t extent : {0, 1, 2, 7, 8, 9, 1000}) {
      Marks marks(static_cast<size_t>(extent));
      EXPECT_EQ(run(context, Marks::body, &marks, extent, 100'000), 0);
      for (auto& c : marks.count) ASSERT_EQ(c.load(), 1);
    }
  }
}

TEST(ThreadPool, SmallRegionsStayOnTheCaller) {
  ThreadPool pool(8);
  KernelContext context(pool);
  struct Seen {
    std::thread::id caller;
    int elsewhere = 0, calls = 0;
  } seen{std::this_thread::get_id()};
  auto body = [](void* closure, int64_t, int64_t, const TenonKernelContext*) -> int32_t {
    auto* s = static_cast<Seen*>(closure);
    ++s->calls;
    if (std::this_thread::get_id() != s->caller) ++s->elsewhere;
    return 0;
  };
  run(context, body, &seen, 1000, 10);  // 10 µs
  EXPECT_EQ(seen.calls, 1);
  EXPECT_EQ(seen.elsewhere, 0);

  // A thread that still spins behind a larger region takes part in smaller ones, down to some limit.
  auto nothing = [](void*, int64_t, int64_t, const TenonKernelContext*) -> int32_t { return 0; };
  for (int repeat = 0; repeat < 50; ++repeat) {
    seen.calls = 0;
    run(context, nothing, nullptr, 1000, 1000);
    run(context, body, &seen, 1000, 5);  // 5 µs
    EXPECT_EQ(seen.calls, 1);
  }
}

TEST(ThreadPool, TheLowestFailingRangeWinsForAnyThreadCount) {
  ThreadPool pool(8);
  auto body = [](void*, int64_t begin, int64_t end, const TenonKernelContext*) -> int32_t {
    for (int64_t i = begin; i < end; ++i)
      if (i >= 37) return int32_t(i);
    return 0;
  };
  for (int threads : {1, 2, 5, 8}) {
    KernelContext context(pool, threads);
    for (int repeat = 0; repeat < 50; ++repeat) ASSERT_EQ(run(context, body, nullptr, 100, 100'000), 37);
  }
}

TEST(ThreadPool, NestedRegionsAreSerialAndWorkspaceIsPerThread) {
  ThreadPool pool(4);
  KernelContext context(pool);
  struct Sum {
    std::atomic<int64_t> total{0};
  } sum;
  auto outer = [](void* closure, int64_t begin, int64_t end, const TenonKernelContext* c) -> int32_t {
    for (int64_t i = begin; i < end; ++i) {
      auto* scratch = static_cast<int64_t*>(c->workspace(c, 1000 * 8));
      if (!scratch || reinterpret_cast<uintptr_t>(scratch) % 64) return 1;
      auto inner = [](void* place, int64_t b, int64_t e, const TenonKernelContext*) -> int32_t {
        if (b != 0 || e != 1000) return 2;  // serial: the whole range at once
        for (int64_t k = b; k < e; ++k) static_cast<int64_t*>(place)[k] = k;
        return 0;
      };
      if (int32_t code = c->parallel_for(c, inner, scratch, 1000, 1'000'000)) return code;
      static_cast<Sum*>(closure)->total += std::accumulate(scratch, scratch + 1000, int64_t(0));
      c->workspace_release(c, scratch);
    }
    return 0;
  };
  EXPECT_EQ(run(context, outer, &sum, 64, 100'000), 0);
  EXPECT_EQ(sum.total.load(), 64 * 499500);
}

TEST(ThreadPool, ManyCallersShareOnePool) {
  ThreadPool pool(8);
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t)
    callers.emplace_back([&, t] {
      KernelContext context(pool, 1 + t % 8);
      for (int repeat = 0; repeat < 300; ++repeat) {
        Marks marks(64);
        if (run(context, Marks::body, &marks, 64, 1000) != 0) ++wrong;
        for (auto& c : marks.count)
          if (c.load() != 1) ++wrong;
      }
    });
  for (auto& c : callers) c.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST(ThreadPool, WakesFromParking) {
  ThreadPool pool(4);
  KernelContext context(pool);
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // far longer than the spin
    Marks marks(4);
    EXPECT_EQ(run(context, Marks::body, &marks, 4, 1'000'000), 0);
    for (auto& c : marks.count) ASSERT_EQ(c.load(), 1);
  }
}

TEST(ThreadPool, AThreadThatWakesTooLateIsThereForTheNextRegion) {
  ThreadPool pool(2);
  KernelContext context(pool);
  auto nothing = [](void*, int64_t, int64_t, const TenonKernelContext*) -> int32_t { return 0; };
  auto counted = [](void* calls, int64_t, int64_t, const TenonKernelContext*) -> int32_t {
    static_cast<std::atomic<int>*>(calls)->fetch_add(1);
    return 0;
  };
  int most = 0;
  for (int attempt = 0; attempt < 5000 && most < 2; ++attempt) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // it parks
    run(context, nothing, nullptr, 2, 1'000'000);               // is woken, and all is done before it comes
    const auto come = std::chrono::steady_clock::now() + std::chrono::microseconds(150);
    while (std::chrono::steady_clock::now() < come) continue;
    std::atomic<int> calls{0};
    run(context, counted, &calls, 2, 4'000);  // so little is for threads that are awake
    most = std::max(most, calls.load());
  }
  EXPECT_EQ(most, 2) << "it went to sleep again at once";
}

TEST(ThreadPool, IdleThreadsTakeNoTime) {
  ThreadPool pool(4);
  KernelContext context(pool);
  Marks marks(1000);
  for (int i = 0; i < 10; ++i) run(context, Marks::body, &marks, 1000, 100'000);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // longer than the bounded spin
  auto cpu_ms = [] {
    timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return double(t.tv_sec) * 1e3 + double(t.tv_nsec) * 1e-6;
  };
  const double before = cpu_ms();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(cpu_ms() - before, 15) << "of 300 ms in which nobody had work";
}

TEST(ThreadPool, CancelEndsLaterRegions) {
  ThreadPool pool(4);
  KernelContext context(pool);
  context.cancel();
  Marks marks(4);
  EXPECT_EQ(run(context, Marks::body, &marks, 4, 1'000'000), -2);
  EXPECT_EQ(marks.count[0].load(), 0);
  context.clear_cancel();
  EXPECT_EQ(run(context, Marks::body, &marks, 4, 1'000'000), 0);
}

TEST(ThreadPool, NeverMoreThreadsThanCores) {
  KernelContext context(ThreadPool::process(), 10'000);
  EXPECT_LE(context.threads(), ThreadPool::available_cores());
  EXPECT_GE(context.threads(), 1);
}

#ifndef __SANITIZE_THREAD__  // the sanitizer does not follow threads into a forked child
TEST(ThreadPool, AForkedChildWorksOn) {
  KernelContext context;
  Marks before(8);
  run(context, Marks::body, &before, 8, 1'000'000);
  const pid_t child = fork();
  if (child == 0) {
    Marks marks(8);
    const int32_t code = run(context, Marks::body, &marks, 8, 1'000'000);
    int wrong = code;
    for (auto& c : marks.count) wrong += c.load() != 1;
    _exit(wrong);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}
#endif

TEST(Workspace, IsAStack) {
  Workspace w;
  EXPECT_EQ(w.allocate(-1), nullptr);
  EXPECT_EQ(w.allocate(INT64_MAX), nullptr);
  void* first = w.allocate(100);
  const Workspace::Mark mark = w.mark();
  std::vector<void*> places;
  for (int i = 0; i < 100; ++i) {
    void* p = w.allocate(10'000);
    ASSERT_NE(p, nullptr);
    ASSERT_EQ(reinterpret_cast<uintptr_t>(p) % 64, 0u);
    std::memset(p, i, 10'000);
    places.push_back(p);
  }
  for (int i = 0; i < 100; ++i) ASSERT_EQ(static_cast<unsigned char*>(places[size_t(i)])[9'999], i);
  while (!places.empty()) {
    w.release(places.back());
    places.pop_back();
  }
  EXPECT_EQ(w.mark().block, mark.block);
  EXPECT_EQ(w.mark().used, mark.used);
  w.release(first);
  const size_t held = w.held_bytes();
  for (int i = 0; i < 1000; ++i) w.release(w.allocate(500'000));
  EXPECT_EQ(w.held_bytes(), held);  // the same memory, again and again
  for (const int64_t bytes : {2'000'000, 20'000'000, 45'000'000}) w.release(w.allocate(bytes));
  EXPECT_LT(w.held_bytes(), size_t(46'000'000));  // what is too small makes room, and the largest is kept
  EXPECT_GE(w.held_bytes(), size_t(45'000'000));
}

}  // namespace
}  // namespace tenon
