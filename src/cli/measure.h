// SPDX-License-Identifier: Apache-2.0
// What this machine reaches: for reports only, no decision of the compiler reads it.
#pragma once
#include <vector>

namespace tenon::cli {

struct MachineLimits {
  double fma_gflops_one = 0, fma_gflops_all = 0;    ///< f32 fused multiply-add, one thread and all
  double read_gbytes_one = 0, read_gbytes_all = 0;  ///< bytes read from memory per second
  double l2_gbytes_one = 0;                         ///< bytes read from a 256 KB buffer per second
  int threads = 1;
  int vector_bits = 128;
};
/// Takes about a second.
MachineLimits measure_machine();

}  // namespace tenon::cli
