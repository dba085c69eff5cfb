// SPDX-License-Identifier: Apache-2.0
// Target records that no machine need have, for the tests of the default schedule.
#pragma once
#include "target/target.h"

namespace tenon::testing {

struct TestMachine {
  int64_t vector_bits = 512, vector_registers = 32, cores = 2;
  int64_t l2_bytes = 0;       ///< 0: as records have it
  bool instructions = false;  ///< x86-64 with the instructions of its vectors, fused multiply-add among them
};

inline Target target_of(const TestMachine& m) {
  Target t = make<TargetNode>();
  TargetNode* n = t.edit();
  n->vector_bits = m.vector_bits;
  n->vector_registers = m.vector_registers;
  n->cores = m.cores;
  if (m.l2_bytes) n->l2_bytes = m.l2_bytes;
  if (!m.instructions) return t;
  n->triple = "x86_64-unknown-linux-gnu";
  n->features = {"sse4_2", "avx", "avx2", "fma", "f16c"};
  if (m.vector_bits == 512)
    for (const char* f : {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512_vnni"})
      n->features.push_back(f);
  n->fma = true;
  return t;
}

/// With small caches, so that the interpreter meets sums that do not fit.
inline Target small_cache(int64_t vector_bits, int64_t vector_registers, int64_t l2_bytes = 8 << 10) {
  return target_of({vector_bits, vector_registers, 2, l2_bytes, true});
}

}  // namespace tenon::testing
