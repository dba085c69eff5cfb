// SPDX-License-Identifier: Apache-2.0
// Peak arithmetic and bandwidth: the fastest of several short runs, all threads started together.
#include "cli/measure.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <memory>
#include <thread>

#include "runtime/thread_pool.h"

namespace tenon::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int chains = 12;  // more than latency (4) × ports (2), fewer than registers (16)

/// `steps` × `chains` fused multiply-adds on vectors of `bits`; the sum keeps the compiler from dropping
/// them.
#define TENON_FMA_LOOP(NAME, BITS, TARGET)                                           \
  __attribute__((target(TARGET), noinline)) float NAME(int64_t steps) {              \
    typedef float Vector __attribute__((vector_size(BITS / 8)));                     \
    Vector a[chains];                                                                \
    for (int i = 0; i < chains; ++i) a[i] = Vector{} + float(i);                     \
    Vector x = Vector{} + 0.999999f, y = Vector{} + 1e-7f;                           \
    for (int64_t s = 0; s < steps; ++s) {                                            \
      _Pragma("GCC unroll 12") for (int i = 0; i < chains; ++i) a[i] = a[i] * x + y; \
      asm volatile("" : "+x"(x));                                                    \
    }                                                                                \
    float sum = 0;                                                                   \
    for (int i = 0; i < chains; ++i) sum += a[i][0];                                 \
    return sum;                                                                      \
  }
TENON_FMA_LOOP(fma_512, 512, "avx512f,fma")
TENON_FMA_LOOP(fma_256, 256, "avx2,fma")
TENON_FMA_LOOP(fma_128, 128, "sse2")
#undef TENON_FMA_LOOP

/// Eight sums of 64-byte pieces, so that loads and not additions set the pace.
__attribute__((target("sse2"), noinline)) int64_t read_all(const int64_t* data, size_t n) {
  typedef int64_t Vector __attribute__((vector_size(16), aligned(8)));
  Vector s[8] = {};
  for (size_t i = 0; i + 16 <= n; i += 16) {
    const auto* v = reinterpret_cast<const Vector*>(data + i);
    _Pragma("GCC unroll 8") for (size_t k = 0; k < 8; ++k) s[k] += v[k];
  }
  Vector t = s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
  return t[0] + t[1];
}

volatile double sink;

/// Units of work per second: `work(thread)` does `units` on each of `threads` threads, best of `tries`.
template <class Work>
double best_rate(int threads, double units, int tries, Work work) {
  double best = 0;
  for (int t = 0; t < tries; ++t) {
    std::barrier start(threads);
    std::vector<Clock::time_point> begin(size_t(threads), Clock::time_point{}), end = begin;
    std::vector<std::thread> pool;
    for (int i = 0; i < threads; ++i)
      pool.emplace_back([&, i] {
        start.arrive_and_wait();
        begin[size_t(i)] = Clock::now();
        work(i);
        end[size_t(i)] = Clock::now();
      });
    for (auto& p : pool) p.join();
    const auto first = *std::min_element(begin.begin(), begin.end()),
               last = *std::max_element(end.begin(), end.end());
    best = std::max(best, units * threads / std::chrono::duration<double>(last - first).count());
  }
  return best;
}

}  // namespace

MachineLimits measure_machine() {
  MachineLimits m;
  m.threads = ThreadPool::available_cores();
  float (*fma)(int64_t) = fma_128;
  if (__builtin_cpu_supports("avx512f"))
    fma = fma_512, m.vector_bits = 512;
  else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    fma = fma_256, m.vector_bits = 256;
  const int64_t steps = 4'000'000;
  const double gflop = double(steps) * chains * (m.vector_bits / 32) * 2 / 1e9;
  const auto arithmetic = [&](int) { sink = double(fma(steps)); };
  m.fma_gflops_one = best_rate(1, gflop, 5, arithmetic);
  m.fma_gflops_all = m.threads == 1 ? m.fma_gflops_one : best_rate(m.threads, gflop, 5, arithmetic);

  const size_t words = size_t(64) << 17;  // 64 MB per thread
  std::vector<std::unique_ptr<int64_t[]>> buffers;
  for (int i = 0; i < m.threads; ++i) buffers.push_back(std::make_unique<int64_t[]>(words));
  const double gbytes = double(words) * 8 / 1e9;
  const auto stream = [&](int i) { sink = double(read_all(buffers[size_t(i)].get(), words)); };
  m.read_gbytes_one = best_rate(1, gbytes, 5, stream);
  m.read_gbytes_all = m.threads == 1 ? m.read_gbytes_one : best_rate(m.threads, gbytes, 5, stream);
  const size_t small = size_t(256) << 7;
  m.l2_gbytes_one = best_rate(1, double(small) * 8 * 400 / 1e9, 5, [&](int) {
    for (int r = 0; r < 400; ++r) sink = double(read_all(buffers[0].get(), small));
  });
  return m;
}

}  // namespace tenon::cli
