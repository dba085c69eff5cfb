// SPDX-License-Identifier: Apache-2.0
// Random tensor programs whose accesses may lie anywhere: affine, divided, clamped, from data, under
// conditions and predicates, in blocks and loops of every kind, with sizes that only a run knows.
#pragma once
#include <cstdint>
#include <random>
#include <string>

namespace tenon::test {

struct RandomAccessProgram {
  std::string text;  ///< one function, of buffers A (floats), I (integers), B (floats) and a size n
  int64_t rows = 0, columns = 0;  ///< of A, when `symbolic` its columns are n
  int64_t indices = 0, results = 0;
  bool symbolic = false;
};
/// The program of a number; `name` is that of its function.
RandomAccessProgram random_access_program(uint64_t seed, const std::string& name);

}  // namespace tenon::test
