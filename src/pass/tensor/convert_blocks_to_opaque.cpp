// SPDX-License-Identifier: Apache-2.0
// convert_blocks_to_opaque
//   before: with T.block(): v = T.axis.spatial(n, i * 4 + j); T.where(P); B[v] = …
//   after:  if P: with T.block(): B[i * 4 + j] = …
// Needs: no init. Keeps: blocks as holders of allocations, matches and annotations.
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;

namespace {

class Converter : public tensor_detail::Rewriter {
 public:
  Stmt stmt(const Stmt& s) override {
    if (!s) return s;
    const auto* n = s.as<BlockRealize>();
    if (!n) return below(s);
    if (n->block->init)
      tensor_detail::refuse("T0805", fmt::format("block '{}' still has an init", n->block->name), s,
                            "run lower_block_init first");
    VarMap map;
    for (size_t i = 0; i < n->block->iter_vars.size(); ++i)
      map.emplace(n->block->iter_vars[i]->var.get(), n->iter_values[i]);
    Ref<Block> block = n->block;
    block.edit()->iter_vars = Array<IterVar>();
    // One substitution for the whole block, so that a buffer whose shape names an iterator stays one buffer.
    const Stmt inside = substitute(Stmt(block), map);
    Stmt out = make<BlockRealize>(Array<PrimExpr>(), true_(), below(inside).cast<Block>());
    out.edit()->origin = s->origin;
    if (n->predicate && !is_one(n->predicate)) out = make<IfThenElse>(n->predicate, out, Stmt());
    return out;
  }
};

}  // namespace

const Pass& convert_blocks_to_opaque_pass = register_pass({
    .name = "convert_blocks_to_opaque",
    .run = tensor_detail::each_body<Converter>,
    .level = 0,
    .summary = "block iterators become their bindings",
    .needs = {"lower_block_init"},
});

}  // namespace tenon
