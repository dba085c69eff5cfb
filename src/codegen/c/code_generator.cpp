// SPDX-License-Identifier: Apache-2.0
// The target c: text for any C compiler; the one of this machine makes machine code of it.
#include "codegen/c/c.h"
#include "codegen/c/c_entry.h"
#include "codegen/elf.h"
#include "codegen/lowered.h"

namespace tenon::codegen {
namespace {

const bool c_registered = [] {
  register_code_generator(
      {.target = {.name = "c", .doc = "C11, for any C compiler", .options = processor_options()},
       .check = [](const IRModule& lowered, const Target&) { collect_kernels(lowered); },
       .texts = {{.name = "c",
                  .ending = ".c",
                  .doc = "C11 with `tenon_run` over static memory",
                  .kernels = [](const IRModule& lowered, const Target& target,
                                int) { return c_source(lowered, target); },
                  .model = c_entry}},
       .object = [](const IRModule& lowered, const Target& target, int,
                    int) { return c_object(lowered, target); },
       .link = link_elf,
       .load = load_elf});
  return true;
}();

}  // namespace
}  // namespace tenon::codegen
