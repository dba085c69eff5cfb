// SPDX-License-Identifier: Apache-2.0
// join_versions
//   before: def f(A: T.Buffer((n * 24,), "float32"), …, n: T.int64): body
//           def f_one_row(A: T.Buffer((24,), "float32"), …): one   # "tenon.one_row_of": "f"
//   after:  def f(A, …, n): if n == 1: one  else: body
// What `one_row_versions` made stands in the program that it is a version of.
// Needs: flat buffers. Keeps: values; the other programs.
#include <algorithm>

#include "ir/find_node.h"
#include "ir/symbols.h"
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;

namespace {

/// A version and its program: `single` where the sizes say that it is for them, `body` over the program's
/// parameters.
struct Version {
  PrimExpr single;
  Stmt body;
};

Version version_of(const PrimFunc& f, const PrimFunc& one) {
  Version out;
  std::unordered_map<const Object*, VarRef> same;
  size_t at = 0;
  for (const VarRef& p : f->params) {
    const auto b = f->buffer_map.find(p);
    if (!b) continue;
    while (!one->buffer_map.contains(one->params[at])) ++at;
    const VarRef& own = one->params[at++];
    same[own.get()] = p;
    same[one->buffer_map.at(own)->data.get()] = (*b)->data;
  }
  const auto rows = one->attrs.at(kRowSizesAttr).as<Array<int64_t>>();
  const std::vector<VarRef> sizes = kernel_scalars(f), own = kernel_scalars(one);
  at = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (std::find(rows.begin(), rows.end(), int64_t(i)) == rows.end()) {
      same[own.at(at++).get()] = sizes[i];
      continue;
    }
    const PrimExpr is_one = eq(sizes[i], PrimExpr(1));
    out.single = out.single ? logical_and(out.single, is_one) : is_one;
  }
  Stmt body = rename_definitions(one->body);
  for (const auto& [p, b] : one->buffer_map)
    if (mentions(body, b.get())) body = make<DeclBuffer>(b, body);
  out.body = rewrite_any(body, [&](const ObjectRef& x) -> ObjectRef {
               const auto it = same.find(x.get());
               return it == same.end() ? ObjectRef() : ObjectRef(it->second);
             }).cast<StmtNode>();
  return out;
}

}  // namespace

static IRModule join_versions(IRModule module, PassContext&) {
  const IRModule given = module;
  for (const auto& [name, object] : given.functions()) {
    const auto one = object.cast<PrimFuncNode>();
    const auto of = one ? one->attrs.find(kOneRowOfAttr) : std::nullopt;
    PrimFunc f = of ? module.find(of->as<std::string>()).cast<PrimFuncNode>() : PrimFunc();
    if (!f) continue;  // a version alone, as programs are lowered one by one for their time
    module.erase(name);
    const Version version = version_of(f, one);
    f.edit()->body = make<IfThenElse>(version.single, version.body, f->body);
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
