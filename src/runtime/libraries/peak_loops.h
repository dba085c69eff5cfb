// SPDX-License-Identifier: Apache-2.0
// Loops that keep one unit of a core busy with arithmetic in registers alone: multiply-adds of float32, dot
// instructions, products of matrix registers. What they return keeps a compiler from dropping them. C and
// C++: the library of limits measures with them, and so does the benchmark (bench/peaks.c).
#pragma once
#include <stdint.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#define PEAK_CHAINS 12 /* more than latency (4) times ports (2), fewer than registers (16) */

#define PEAK_FMA_LOOP(NAME, BITS, TARGET)                                                 \
  __attribute__((target(TARGET), noinline)) static float NAME(int64_t steps) {            \
    typedef float Vector __attribute__((vector_size(BITS / 8)));                          \
    Vector a[PEAK_CHAINS], zero = {0}, x = zero + 0.999999f, y = zero + 1e-7f;            \
    for (int i = 0; i < PEAK_CHAINS; ++i) a[i] = zero + (float)i;                         \
    for (int64_t s = 0; s < steps; ++s) {                                                 \
      _Pragma("GCC unroll 12") for (int i = 0; i < PEAK_CHAINS; ++i) a[i] = a[i] * x + y; \
      __asm__ volatile("" : "+x"(x));                                                     \
    }                                                                                     \
    float sum = 0;                                                                        \
    for (int i = 0; i < PEAK_CHAINS; ++i) sum += a[i][0];                                 \
    return sum;                                                                           \
  }
PEAK_FMA_LOOP(peak_fma_512, 512, "avx512f,fma")
PEAK_FMA_LOOP(peak_fma_256, 256, "avx2,fma")
PEAK_FMA_LOOP(peak_fma_128, 128, "sse2")
#undef PEAK_FMA_LOOP

#ifdef __x86_64__
#define PEAK_DOT_CHAINS 24 /* as many as the registers of AVX-512 hold */
#define PEAK_DOT_LOOP(NAME, TARGET, VECTOR, ZERO, STEP)                                     \
  __attribute__((target(TARGET), noinline)) static float NAME(int64_t steps) {              \
    VECTOR a[PEAK_DOT_CHAINS];                                                              \
    __m512i x = _mm512_set1_epi32(0x3f803f80), y = _mm512_set1_epi32(0x01010101);           \
    _Pragma("GCC unroll 24") for (int i = 0; i < PEAK_DOT_CHAINS; ++i) a[i] = ZERO;         \
    for (int64_t s = 0; s < steps; ++s) {                                                   \
      _Pragma("GCC unroll 24") for (int i = 0; i < PEAK_DOT_CHAINS; ++i) {                  \
        a[i] = STEP;                                                                        \
        __asm__ volatile("" : "+v"(a[i]));                                                  \
      }                                                                                     \
      __asm__ volatile("" : "+v"(x), "+v"(y));                                              \
    }                                                                                       \
    __m512 sum = _mm512_setzero_ps();                                                       \
    _Pragma("GCC unroll 24") for (int i = 0; i < PEAK_DOT_CHAINS; ++i) sum += (__m512)a[i]; \
    return sum[0];                                                                          \
  }
PEAK_DOT_LOOP(peak_dot_bytes, "avx512f,avx512vnni", __m512i, _mm512_setzero_si512(),
              _mm512_dpbusd_epi32(a[i], x, y))
PEAK_DOT_LOOP(peak_dot_bf16, "avx512f,avx512bf16", __m512, _mm512_setzero_ps(),
              _mm512_dpbf16_ps(a[i], (__m512bh)x, (__m512bh)y))
#undef PEAK_DOT_LOOP
enum { peak_dot_products_bytes = PEAK_DOT_CHAINS * 64, peak_dot_products_bf16 = PEAK_DOT_CHAINS * 32 };

// Four registers of 16 × 16 sums, whose operands have rows of 64 bytes.
#define PEAK_MATRIX_LOOP(NAME, MULTIPLY)                                                                \
  static float NAME(int64_t steps) {                                                                    \
    uint8_t shape[64] __attribute__((aligned(64))) = {1};                                               \
    for (int i = 0; i < 8; ++i) shape[16 + 2 * i] = 64, shape[48 + i] = 16;                             \
    __asm__ volatile("ldtilecfg %0" ::"m"(shape));                                                      \
    __asm__ volatile("tilezero %tmm4\n\ttilezero %tmm5");                                               \
    for (int64_t s = 0; s < steps; ++s)                                                                 \
      __asm__ volatile(MULTIPLY " %tmm5, %tmm4, %tmm0\n\t" MULTIPLY " %tmm5, %tmm4, %tmm1\n\t" MULTIPLY \
                                " %tmm5, %tmm4, %tmm2\n\t" MULTIPLY " %tmm5, %tmm4, %tmm3");            \
    __asm__ volatile("tilerelease");                                                                    \
    return 0;                                                                                           \
  }
PEAK_MATRIX_LOOP(peak_matrix_bytes, "tdpbusd")
PEAK_MATRIX_LOOP(peak_matrix_bf16, "tdpbf16ps")
#undef PEAK_MATRIX_LOOP
enum {
  peak_matrix_products_bytes = 4 * 16 * 16 * 64,
  peak_matrix_products_bf16 = peak_matrix_products_bytes / 2
};
#endif
