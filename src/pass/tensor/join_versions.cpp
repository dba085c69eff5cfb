// SPDX-License-Identifier: Apache-2.0
// join_versions
//   before: def f(A: T.Buffer((n * 24,), "float32"), …, n: T.int64): body
//           def f_one_row(A: T.Buffer((24,), "float32"), …): one   # "tenon.one_row_of": "f"
//   after:  def f(A, …, n): if n == 1: one  else: body
// What `one_row_versions` made stands in the program that it is a version of.
// Needs: flat buffers. Keeps: values; the other programs.
#include "ir/find_node.h"
#include "ir/symbols.h"
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;

namespace {

/// Its body over the memory of the parameters of `f`.
Stmt over_memory_of(const PrimFunc& f, const PrimFunc& one) {
  std::unordered_map<const Object*, VarRef> memory;
  size_t at = 0;
  for (const VarRef& p : f->params) {
    const auto b = f->buffer_map.find(p);
    if (!b) continue;
    const VarRef& own = one->params[at++];
    memory[own.get()] = p;
    memory[one->buffer_map.at(own)->data.get()] = (*b)->data;
  }
  Stmt body = rename_definitions(one->body);
  for (const auto& [p, b] : one->buffer_map)
    if (mentions(body, b.get())) body = make<DeclBuffer>(b, body);
  return rewrite_any(body,
                     [&](const ObjectRef& x) -> ObjectRef {
                       const auto it = memory.find(x.get());
                       return it == memory.end() ? ObjectRef() : ObjectRef(it->second);
                     })
      .cast<StmtNode>();
}

}  // namespace

static IRModule join_versions(IRModule module, PassContext&) {
  const IRModule given = module;
  for (const auto& [name, object] : given.functions()) {
    const auto one = object.cast<PrimFuncNode>();
    const auto of = one ? one->attrs.find(kOneRowOfAttr) : std::nullopt;
    if (!of) continue;
    module.erase(name);
    PrimFunc f = module.find(of->as<std::string>()).cast<PrimFuncNode>();
    PrimExpr single;
    for (const VarRef& n : kernel_scalars(f)) {
      const PrimExpr is_one = eq(n, PrimExpr(1));
      single = single ? logical_and(single, is_one) : is_one;
    }
    f.edit()->body = make<IfThenElse>(single, over_memory_of(f, one), f->body);
    module.set(of->as<std::string>(), f);
  }
  return module;
}

const Pass& join_versions_pass = register_pass({
    .name = "join_versions",
    .run = join_versions,
    .level = 0,
    .summary = "programs choose between their versions",
    .needs = {"flatten_buffer"},
});

}  // namespace tenon
