// SPDX-License-Identifier: Apache-2.0
// The C text of kernels, from the registry of code generators as the pipeline has it.
#pragma once
#include "codegen/codegen.h"
#include "target/target.h"

namespace tenon::test {

inline std::string c_text(const IRModule& lowered) {
  const Target target = parse_target("c");
  return codegen::code_generator(target).texts.front().kernels(lowered, target, 2, {});
}

}  // namespace tenon::test
