/* SPDX-License-Identifier: Apache-2.0
 * The peak that a packed multiplication is compared with: f32 fused multiply-adds of this thread in registers
 * only. A shared library, so that the peak is measured in the very process that times the model, between its
 * slots. The fastest of `tries` short runs, in GFLOP/s. Twelve chains: more than latency (4) times ports (2).
 */
#include <stdint.h>
#include <time.h>

#define LOOP(NAME, BITS, TARGET)                                                 \
  __attribute__((target(TARGET), noinline)) static float NAME(int64_t steps) {   \
    typedef float V __attribute__((vector_size(BITS / 8)));                      \
    V a[12], x = (V){} + 0.999999f, y = (V){} + 1e-7f;                           \
    for (int i = 0; i < 12; ++i) a[i] = (V){} + (float)i;                        \
    for (int64_t s = 0; s < steps; ++s) {                                        \
      _Pragma("GCC unroll 12") for (int i = 0; i < 12; ++i) a[i] = a[i] * x + y; \
      __asm__ volatile("" : "+x"(x));                                            \
    }                                                                            \
    float sum = 0;                                                               \
    for (int i = 0; i < 12; ++i) sum += a[i][0];                                 \
    return sum;                                                                  \
  }
LOOP(fma_512, 512, "avx512f,fma")
LOOP(fma_256, 256, "avx2,fma")
LOOP(fma_128, 128, "sse2")

static volatile float sink;

double tenon_bench_fma_gflops(int tries, int64_t steps) {
  float (*fma)(int64_t) = fma_128;
  int bits = 128;
  if (__builtin_cpu_supports("avx512f"))
    fma = fma_512, bits = 512;
  else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    fma = fma_256, bits = 256;
  double best = 0;
  for (int t = 0; t < tries; ++t) {
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    sink = fma(steps);
    clock_gettime(CLOCK_MONOTONIC, &b);
    const double seconds = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
    const double rate = (double)steps * 12 * (bits / 32) * 2 / 1e9 / seconds;
    if (rate > best) best = rate;
  }
  return best;
}
