// SPDX-License-Identifier: Apache-2.0
// Random tensor programs whose accesses may lie anywhere: affine, divided, clamped, from data, under
// conditions and predicates, in blocks, in loops of every kind and behind jumps, with sizes that only a run
// knows and elements of several types.
#pragma once
#include <cstdint>
#include <string>

#include "runtime/ndarray.h"

namespace tenon::test {

struct RandomAccessProgram {
  std::string text;  ///< one function, of buffers A and B (elements) and I (integers), sizes n and m
  int64_t rows = 0, columns = 0;     ///< of A; its columns are n when `symbolic`
  int64_t indices = 0, results = 0;  ///< of I and B; the latter is m when `symbolic_results`
  DataType element, index;           ///< of A and B, and of I
  bool symbolic = false, symbolic_results = false;
};
/// The program of a number; `name` is that of its function.
RandomAccessProgram random_access_program(uint64_t seed, const std::string& name);

}  // namespace tenon::test
