// SPDX-License-Identifier: Apache-2.0
// Judges programs with random accesses: interpreted, compiled by LLVM and as C text they end alike, with the
// same bytes or with an error of the same kind, and nothing around their buffers is touched.
#pragma once
#include <vector>

#include "ir/tir.h"
#include "random_access.h"

namespace tenon::test {

enum class AccessFault : uint8_t {
  none,
  unread,   ///< the text does not parse or verify
  refused,  ///< by a code that is none of an access, without a line, or though nothing is wrong
  differs,  ///< one ends with an error, another without, or their bytes differ
  error,    ///< the error is not that of an access
  outside,  ///< memory beside a buffer was written, or the sanitizer says so
};

struct AccessCase {
  RandomAccessProgram program;
  uint64_t seed = 0;
  std::string name;
  std::string refused;      ///< by which code, empty: compiled
  std::string interpreted;  ///< the code with which the interpreter ends it
  AccessFault fault = AccessFault::none;
  std::string said;  ///< what is wrong

  tir::PrimFunc native, text;  ///< as LLVM and the writer of C take it
  std::vector<NDArray> inputs, wanted;
  std::vector<int64_t> scalars;
};

enum class WithC : uint8_t { no, optimised, sanitized };

/// The case of a seed's program, or of another text for its buffers.
AccessCase access_case(const RandomAccessProgram& program, uint64_t seed, const std::string& name);
/// Fills in `fault` of each.
void judge(std::vector<AccessCase>& cases, WithC with_c);
/// The text with as few lines as have the same fault.
std::string reduced(const AccessCase& c, WithC with_c);

}  // namespace tenon::test
