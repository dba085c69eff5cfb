// SPDX-License-Identifier: Apache-2.0
// How many of a tensor program's tensors are its results.
#pragma once
#include "ir/tir.h"

namespace tenon::tir {

/// "num_outputs": so many of the tensor parameters, the last ones, are results; one where it does not say.
inline int64_t num_outputs(const PrimFunc& f) {
  return f->attrs.get_or("num_outputs", Any(int64_t(1))).as<int64_t>();
}

}  // namespace tenon::tir
