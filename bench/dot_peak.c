/* SPDX-License-Identifier: Apache-2.0
 * The peaks that packed multiplications of narrow types are compared with: dot instructions of this thread in
 * registers only. `kind` 0: bytes (vpdpbusd), 1: bf16 (vdpbf16ps). The fastest of `tries` short runs in giga
 * operations (a multiplication or an addition) a second; 0 where the processor lacks the instruction.
 */
#include <immintrin.h>
#include <stdint.h>
#include <time.h>

#define CHAINS 24 /* more than latency times ports */
#define LOOP(NAME, TARGET, V, ZERO, STEP)                                                            \
  __attribute__((target(TARGET), noinline)) static float NAME(int64_t steps) {                       \
    V a[CHAINS];                                                                                     \
    __m512i x = _mm512_set1_epi32(0x3f803f80), y = _mm512_set1_epi32(0x01010101);                    \
    _Pragma("GCC unroll 24") for (int i = 0; i < CHAINS; ++i) a[i] = ZERO;                           \
    for (int64_t s = 0; s < steps; ++s) {                                                            \
      _Pragma("GCC unroll 24") for (int i = 0; i < CHAINS; ++i) {                                    \
        a[i] = STEP;                                                                                 \
        __asm__ volatile("" : "+v"(a[i]));                                                           \
      }                                                                                              \
      __asm__ volatile("" : "+v"(x), "+v"(y));                                                       \
    }                                                                                                \
    V all = a[0];                                                                                    \
    _Pragma("GCC unroll 24") for (int i = 1; i < CHAINS; ++i) all = (V)((__m512)all + (__m512)a[i]); \
    return ((__m512)all)[0];                                                                         \
  }
LOOP(bytes_512, "avx512f,avx512vnni", __m512i, _mm512_setzero_si512(), _mm512_dpbusd_epi32(a[i], x, y))
LOOP(bf16_512, "avx512f,avx512bf16", __m512, _mm512_setzero_ps(),
     _mm512_dpbf16_ps(a[i], (__m512bh)x, (__m512bh)y))

static volatile float sink;

double tenon_bench_dot_gops(int kind, int tries, int64_t steps) {
  if (kind ? !__builtin_cpu_supports("avx512bf16") : !__builtin_cpu_supports("avx512vnni")) return 0;
  double best = 0;
  for (int t = 0; t < tries; ++t) {
    struct timespec a, b;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
    sink = kind ? bf16_512(steps) : bytes_512(steps);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
    const double seconds = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
    const double rate = (double)steps * CHAINS * (kind ? 32 : 64) * 2 / 1e9 / seconds;
    if (rate > best) best = rate;
  }
  return best;
}
