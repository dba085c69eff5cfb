// SPDX-License-Identifier: Apache-2.0
// The C text of kernels made machine code by this machine's C compiler, so that the target c runs as others
// do.
#include "codegen/c/c.h"
#include "codegen/c_compiler.h"
#include "codegen/calls.h"
#include "ir/attr_keys.h"
#include "ir/tir.h"

namespace tenon::codegen {

ObjectCode c_object(const IRModule& lowered, const Target& target) {
  ObjectCode out;
  out.externals = external_functions(lowered);
  for (const auto& [name, object] : lowered.functions())
    if (const auto* f = object.as<tir::PrimFuncNode>(); f && f->attrs.contains(kKernelAttr))
      out.symbols.push_back(f->attrs.get_or("global_symbol", Any(name)).as<std::string>());
  out.objects.push_back(compile_c(c_source(lowered), target, "the kernels", {"T0819", ErrorKind::internal}));
  return out;
}

}  // namespace tenon::codegen
