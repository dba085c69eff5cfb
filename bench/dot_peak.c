/* SPDX-License-Identifier: Apache-2.0
 * The peaks that packed multiplications of narrow types are compared with: dot instructions of this thread in
 * registers only, those of matrix registers where the system gives them. `kind` 0: bytes (vpdpbusd), 1: bf16
 * (vdpbf16ps). The fastest of `tries` short runs in giga operations (a multiplication or an addition) a
 * second; 0 where the processor lacks the instruction.
 */
#include <immintrin.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

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

/* Four registers of 16 x 16 sums, operands of 64 bytes a row. */
#define MATRIX_PRODUCTS (4 * 16 * 16 * 64)
#define MATRIX_LOOP(NAME, MULTIPLY)                                                                     \
  static float NAME(int64_t steps) {                                                                    \
    static uint8_t shape[64] __attribute__((aligned(64))) = {1};                                        \
    for (int i = 0; i < 8; ++i) shape[16 + 2 * i] = 64, shape[48 + i] = 16;                             \
    __asm__ volatile("ldtilecfg %0\n\ttilezero %%tmm4\n\ttilezero %%tmm5" ::"m"(shape));                \
    for (int64_t s = 0; s < steps; ++s)                                                                 \
      __asm__ volatile(MULTIPLY " %tmm5, %tmm4, %tmm0\n\t" MULTIPLY " %tmm5, %tmm4, %tmm1\n\t" MULTIPLY \
                                " %tmm5, %tmm4, %tmm2\n\t" MULTIPLY " %tmm5, %tmm4, %tmm3");            \
    __asm__ volatile("tilerelease");                                                                    \
    return 0;                                                                                           \
  }
MATRIX_LOOP(matrix_bytes, "tdpbusd")
MATRIX_LOOP(matrix_bf16, "tdpbf16ps")

/* Asks the system (arch_prctl, ARCH_REQ_XCOMP_PERM) for the registers' data. */
static int has_matrices(void) { return syscall(SYS_arch_prctl, 0x1023, 18) == 0; }

static volatile float sink;

double tenon_bench_dot_gops(int kind, int tries, int64_t steps) {
  if (kind ? !__builtin_cpu_supports("avx512bf16") : !__builtin_cpu_supports("avx512vnni")) return 0;
  const int matrices = has_matrices(), products = kind ? 32 : 64;
  double best = 0;
  for (int t = 0; t < tries; ++t) {
    struct timespec a, b;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
    if (matrices)
      sink = kind ? matrix_bf16(steps) : matrix_bytes(steps);
    else
      sink = kind ? bf16_512(steps) : bytes_512(steps);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
    const double seconds = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
    const double rate =
        (double)steps * (matrices ? MATRIX_PRODUCTS / 64 : CHAINS) * products * 2 / 1e9 / seconds;
    if (rate > best) best = rate;
  }
  return best;
}
