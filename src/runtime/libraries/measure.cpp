// SPDX-License-Identifier: Apache-2.0
// libtenon_measure: peak arithmetic and bandwidth: the fastest of several short runs, all threads started
// together.
#include "runtime/libraries/measure.h"

#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/artifact.h"
#include "runtime/libraries/peak_loops.h"
#include "runtime/libraries/register.h"
#include "runtime/thread_pool.h"

namespace tenon {
namespace {

using Clock = std::chrono::steady_clock;

/// Eight sums, so that loads and not additions set the pace; `n` is a multiple of 512 bytes.
#define TENON_READ_LOOP(NAME, BITS, TARGET)                                               \
  __attribute__((target(TARGET), noinline)) int64_t NAME(const int64_t* data, size_t n) { \
    typedef int64_t Vector __attribute__((vector_size(BITS / 8), aligned(8)));            \
    Vector s[8] = {};                                                                     \
    for (size_t i = 0; i + BITS / 8 <= n; i += BITS / 8) {                                \
      const auto* v = reinterpret_cast<const Vector*>(data + i);                          \
      _Pragma("GCC unroll 8") for (size_t k = 0; k < 8; ++k) s[k] += v[k];                \
    }                                                                                     \
    const Vector t = s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];               \
    return t[0] + t[1];                                                                   \
  }
TENON_READ_LOOP(read_512, 512, "avx512f")
TENON_READ_LOOP(read_256, 256, "avx2")
TENON_READ_LOOP(read_128, 128, "sse2")
#undef TENON_READ_LOOP

/// Short runs, and many of them, because other work on the machine may interrupt some.
constexpr int kTries = 30;

/// A chain of additions: one each cycle on every CPU that there is.
double measure_clock() {
  constexpr int64_t steps = 500'000;
  double best = 0;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const auto begin = Clock::now();
    int64_t x = 1, y = 3;
    for (int64_t s = 0; s < steps; ++s)
      asm volatile(
          "add %1, %0\n\tadd %1, %0\n\tadd %1, %0\n\tadd %1, %0\n\t"
          "add %1, %0\n\tadd %1, %0\n\tadd %1, %0\n\tadd %1, %0"
          : "+r"(x)
          : "r"(y));
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    best = std::max(best, double(steps) * 8 / seconds / 1e9);
  }
  return best;
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

double MachineLimits::fma_gflops(int n) const {
  return n <= 1 || threads <= 1 ? fma_gflops_one : fma_gflops_all * std::min(n, threads) / threads;
}

double MachineLimits::read_gbytes(double bytes, int n) const {
  n = std::clamp(n, 1, std::max(1, threads));
  if (bytes <= double(l2_bytes) * n) return l2_gbytes_one * n;
  const bool all = n > 1;
  if (bytes <= double(l3_bytes)) return all ? l3_gbytes_all * n / threads : l3_gbytes_one;
  return all ? read_gbytes_all : read_gbytes_one;
}

double MachineLimits::arithmetic_ms(const MachineWork& w, int n) const {
  const double scaling = fma_gflops(n) / fma_gflops_one;
  const auto dot = [&](double operations, double gops_one) {
    return operations / (gops_one > 0 ? gops_one * scaling : fma_gflops(n)) * 1e-6;
  };
  return (w.flop - w.dot_bytes - w.dot_bf16) / fma_gflops(n) * 1e-6 + dot(w.dot_bytes, dot_bytes_gops_one) +
         dot(w.dot_bf16, dot_bf16_gops_one);
}

bool MachineLimits::arithmetic_bound(const MachineWork& w, int n) const {
  return arithmetic_ms(w, n) >= w.bytes / read_gbytes(w.bytes, n) * 1e-6;
}

double MachineLimits::least_ms(const MachineWork& w, int n) const {
  return std::max(arithmetic_ms(w, n), w.bytes / read_gbytes(w.bytes, n) * 1e-6);
}

// getrusage would also count the process that started this one.
int64_t peak_memory_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::strtoll(line.c_str() + 6, nullptr, 10) * 1024;
  return 0;
}

MachineLimits measure_machine() {
  MachineLimits m;
  m.threads = ThreadPool::available_cores();
  float (*fma)(int64_t) = peak_fma_128;
  int64_t (*read)(const int64_t*, size_t) = read_128;
  if (__builtin_cpu_supports("avx512f"))
    fma = peak_fma_512, read = read_512, m.vector_bits = 512;
  else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    fma = peak_fma_256, read = read_256, m.vector_bits = 256;
  m.clock_ghz = measure_clock();
  const int64_t steps = 500'000;
  const double gflop = double(steps) * PEAK_CHAINS * (m.vector_bits / 32) * 2 / 1e9;
  const auto arithmetic = [&](int) { sink = double(fma(steps)); };
  m.fma_gflops_one = best_rate(1, gflop, kTries, arithmetic);
  m.fma_gflops_all = m.threads == 1
                         ? m.fma_gflops_one
                         : std::max(m.fma_gflops_one, best_rate(m.threads, gflop, kTries, arithmetic));
#ifdef __x86_64__
  const auto dot_peak = [&](float (*dot)(int64_t), int64_t count, int products) {
    return best_rate(1, double(count) * products * 2 / 1e9, kTries, [&](int) { sink = double(dot(count)); });
  };
  if (__builtin_cpu_supports("avx512vnni"))
    m.dot_bytes_gops_one = dot_peak(peak_dot_bytes, steps, peak_dot_products_bytes);
  if (__builtin_cpu_supports("avx512bf16"))
    m.dot_bf16_gops_one = dot_peak(peak_dot_bf16, steps, peak_dot_products_bf16);
  if (missing_features({.features = {"amx_tile", "amx_int8", "amx_bf16"}}).empty()) {
    m.dot_bytes_gops_one = dot_peak(peak_matrix_bytes, steps / 10, peak_matrix_products_bytes);
    m.dot_bf16_gops_one = dot_peak(peak_matrix_bf16, steps / 10, peak_matrix_products_bf16);
  }
#endif

  const auto cache = [](int name, int64_t otherwise) {
    const long bytes = sysconf(name);
    return bytes > 0 ? int64_t(bytes) : otherwise;
  };
  m.l2_bytes = cache(_SC_LEVEL2_CACHE_SIZE, 256 << 10);
  m.l3_bytes = std::max(cache(_SC_LEVEL3_CACHE_SIZE, 0), m.l2_bytes);
  // More than any third-level cache holds, but not more than a small machine has.
  const size_t bytes = std::clamp<size_t>(size_t(m.l3_bytes) * 4, size_t(64) << 20, size_t(256) << 20);
  const size_t words = bytes / size_t(m.threads) / 8 & ~size_t(511);
  std::vector<std::unique_ptr<int64_t[]>> buffers;
  for (int i = 0; i < m.threads; ++i) buffers.push_back(std::make_unique<int64_t[]>(words));
  /// Gigabytes a second when each of `threads` threads reads its own `bytes` as often as fills some time.
  const auto reading = [&](int threads, size_t bytes_each, int tries) {
    const size_t n = std::min(words, bytes_each / 8 & ~size_t(63));
    const int times = int(std::max<size_t>(1, (size_t(64) << 20) / (n * 8)));
    return best_rate(threads, double(n) * 8 * times / 1e9, tries, [&, n, times](int i) {
      for (int r = 0; r < times; ++r) sink = double(read(buffers[size_t(i)].get(), n));
    });
  };
  const auto both = [&](size_t one, size_t all, double& rate_one, double& rate_all) {
    rate_one = reading(1, one, 10);
    rate_all = m.threads == 1 ? rate_one : std::max(rate_one, reading(m.threads, all, 10));
  };
  both(bytes, bytes, m.read_gbytes_one, m.read_gbytes_all);
  const size_t third = size_t(m.l3_bytes) / 4;
  both(third, third / size_t(m.threads), m.l3_gbytes_one, m.l3_gbytes_all);
  m.l2_gbytes_one = reading(1, size_t(m.l2_bytes) / 2, 10);
  return m;
}

namespace {

/// Measured once in a process.
const MachineLimits& this_machine() {
  static const MachineLimits limits = measure_machine();
  return limits;
}

/// (flop, bytes, dot_bytes, dot_bf16, threads; 0: all) → [least milliseconds, "arithmetic" or "memory"].
Any least_time(Arguments a) {
  if (a.size() != 5) argument_count_error("tenon.machine.least_time", 5, a.size());
  const MachineLimits& m = this_machine();
  const MachineWork work{a[0].as<double>(), a[1].as<double>(), a[2].as<double>(), a[3].as<double>()};
  const int threads = a[4].as<int>() > 0 ? a[4].as<int>() : m.threads;
  return Any(Array<Any>{Any(m.least_ms(work, threads)),
                        Any(m.arithmetic_bound(work, threads) ? "arithmetic" : "memory")});
}

[[maybe_unused]] const bool registered = [] {
  register_unless_taken("tenon.machine.least_time", least_time,
                        "the least time of this machine for a kernel's arithmetic and bytes");
  return true;
}();

}  // namespace
}  // namespace tenon
