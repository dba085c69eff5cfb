// SPDX-License-Identifier: Apache-2.0
// A target record for tests whose schedules must not depend on the machine they run on.
#pragma once
#include "target/target.h"

namespace tenon {

inline Target machine() {
  Target t = make<TargetNode>();
  TargetNode* n = t.edit();
  n->triple = "x86_64-pc-linux-gnu";
  n->features = {"avx2", "fma"};
  n->vector_bits = 256;
  n->fma = true;
  n->cores = 4;
  return t;
}

}  // namespace tenon
