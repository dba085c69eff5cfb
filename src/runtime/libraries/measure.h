// SPDX-License-Identifier: Apache-2.0
// What this machine reaches: for reports only, no decision of the compiler reads it.
#pragma once
#include <cstdint>

namespace tenon {

/// Arithmetic and memory traffic of a program, as the compiler writes it into an artifact ("work.SYMBOL").
struct MachineWork {
  double flop = 0, bytes = 0;
  double dot_bytes = 0, dot_bf16 = 0;  ///< those of `flop` in sums of products of 8-bit integers, of bf16
};

struct MachineLimits {
  double fma_gflops_one = 0, fma_gflops_all = 0;    ///< f32 fused multiply-add, one thread and all
  double dot_bytes_gops_one = 0;                    ///< vpdpbusd, tdpbusd; 0: it has neither
  double dot_bf16_gops_one = 0;                     ///< vdpbf16ps, tdpbf16ps; 0: it has neither
  double read_gbytes_one = 0, read_gbytes_all = 0;  ///< bytes read from memory per second
  double l2_gbytes_one = 0;                         ///< the same from half a second-level cache
  double l3_gbytes_one = 0, l3_gbytes_all = 0;      ///< from a quarter of the third-level cache, shared out
  double clock_ghz = 0;                             ///< of dependent additions, one a cycle
  int64_t l2_bytes = 0, l3_bytes = 0;               ///< as the system says
  int threads = 1;
  int vector_bits = 128;

  /// The least time, in milliseconds, for that work on `threads` threads: the bytes come from the smallest
  /// level of the memory that holds them all.
  double least_ms(const MachineWork& work, int threads) const;
  /// Whether arithmetic or memory sets that time.
  bool arithmetic_bound(const MachineWork& work, int threads) const;
  /// The least time, in milliseconds, for the arithmetic alone.
  double arithmetic_ms(const MachineWork& work, int threads) const;
  double fma_gflops(int threads) const;
  double read_gbytes(double bytes, int threads) const;
};
/// Most memory this process has held.
int64_t peak_memory_bytes();
/// Takes about a second.
MachineLimits measure_machine();

}  // namespace tenon
