/* SPDX-License-Identifier: Apache-2.0
 * The peaks that packed multiplications are compared with. A shared library, so that a peak is measured in
 * the very process that times the model, between its slots. Each is the fastest of `tries` short runs of this
 * thread, in giga operations (a multiplication or an addition) a second.
 */
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../src/runtime/libraries/peak_loops.h"

static volatile float sink;

static double best_rate(float (*loop)(int64_t), int tries, int64_t steps, double products) {
  double best = 0;
  for (int t = 0; t < tries; ++t) {
    struct timespec a, b;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
    sink = loop(steps);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
    const double seconds = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
    const double rate = (double)steps * products * 2 / 1e9 / seconds;
    if (rate > best) best = rate;
  }
  return best;
}

/* Multiply-adds of float32. */
double tenon_bench_fma_gflops(int tries, int64_t steps) {
  if (__builtin_cpu_supports("avx512f")) return best_rate(peak_fma_512, tries, steps, PEAK_CHAINS * 16);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return best_rate(peak_fma_256, tries, steps, PEAK_CHAINS * 8);
  return best_rate(peak_fma_128, tries, steps, PEAK_CHAINS * 4);
}

/* Asks the system (arch_prctl, ARCH_REQ_XCOMP_PERM) for the data of matrix registers. */
static int has_matrices(void) { return syscall(SYS_arch_prctl, 0x1023, 18) == 0; }

/* The same of dot instructions (`kind` 0: bytes, vpdpbusd; 1: bf16, vdpbf16ps), or of matrix registers where
 * the system gives them; 0 where the processor lacks the instruction. */
double tenon_bench_dot_gops(int kind, int tries, int64_t steps) {
  if (kind ? !__builtin_cpu_supports("avx512bf16") : !__builtin_cpu_supports("avx512vnni")) return 0;
  if (has_matrices())
    return kind ? best_rate(peak_matrix_bf16, tries, steps, peak_matrix_products_bf16)
                : best_rate(peak_matrix_bytes, tries, steps, peak_matrix_products_bytes);
  return kind ? best_rate(peak_dot_bf16, tries, steps, peak_dot_products_bf16)
              : best_rate(peak_dot_bytes, tries, steps, peak_dot_products_bytes);
}
