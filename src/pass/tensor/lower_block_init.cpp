// SPDX-License-Identifier: Apache-2.0
// lower_block_init
//   before: with T.block(): with T.init(): I;  B
//   after:  with T.block(): if v_k == 0: I;  B          (all reduction iterators at their first value)
// Needs: blocks. Keeps: everything else, iterators included.
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;

IRModule lower_block_init(IRModule module, PassContext&) {
  return tensor_detail::map_bodies(module, [](const std::string&, const PrimFunc& f) {
    return rewrite(f->body, [](const Block& n) -> Stmt {
      if (!n.init) return {};
      PrimExpr first = true_();
      for (const IterVar& v : n.iter_vars)
        if (v->kind == IterKind::reduce) first = logical_and(first, eq(v->var, v->dom->min));
      Ref<Block> out(&n);
      Block* b = out.edit();
      const Stmt init = is_one(first) ? n.init : Stmt(make<IfThenElse>(first, n.init, Stmt()));
      b->body = seq({init, n.body});
      b->init = Stmt();
      return out;
    });
  });
}

}  // namespace tenon
