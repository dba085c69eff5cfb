// SPDX-License-Identifier: Apache-2.0
// annotate_entry_func
//   before: a module with one tensor function, or with one called main
//   after:  T.func_attr({"tir.is_entry_func": True})
// Needs: nothing. Keeps: the programs.
#include "ir/attr_keys.h"
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;

static IRModule annotate_entry_func(IRModule module, PassContext&) {
  std::string entry;
  int count = 0;
  for (const auto& [name, f] : module.functions())
    if (const auto* p = f.as<PrimFuncNode>(); p && !p->attrs.contains(kInternalAttr)) {
      ++count;
      if (entry != "main") entry = name;
    }
  if (count == 0 || (count > 1 && entry != "main")) return module;
  return module.map_prim([&](const std::string& name, const PrimFunc& f) -> ObjectRef {
    if (name != entry || f->attrs.contains("tir.is_entry_func")) return {};
    PrimFunc out = f;
    out.edit()->attrs.set("tir.is_entry_func", Any(true));
    return out;
  });
}

const Pass& annotate_entry_func_pass = register_pass({
    .name = "annotate_entry_func",
    .run = annotate_entry_func,
    .level = 0,
    .summary = "the function that a user calls is marked",
});

}  // namespace tenon
