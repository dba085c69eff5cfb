// SPDX-License-Identifier: Apache-2.0
// inject_prefetch
//   before: T.prefetch(A[i : i + 1, 0:64])
//   after:  for p in range(4): T.prefetch(T.address_of(A[i, p * 16]))
// A region that is announced becomes one hint for each cache line.
// Needs: buffers with their shapes. Keeps: everything else.
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;
using tensor_detail::imm;

namespace {

Stmt hints(const Prefetch& n) {
  std::vector<VarRef> vars;
  std::vector<PrimExpr> extents;
  Array<PrimExpr> at;
  for (size_t d = 0; d < n.bounds.size(); ++d) {
    const DataType t = n.bounds[d]->min.dtype();
    const bool last = d + 1 == n.bounds.size();
    const int64_t step = last ? std::max<int64_t>(1, 64 / n.buffer->dtype.bytes()) : 1;
    const PrimExpr lines = simplify(ceildiv(n.bounds[d]->extent, PrimExpr::int_imm(step, t)));
    const VarRef v = var("line", t);
    vars.push_back(v);
    extents.push_back(lines);
    at.push_back(simplify(n.bounds[d]->min + PrimExpr(v) * PrimExpr::int_imm(step, t)));
  }
  Stmt s = make<tir::Evaluate>(call(DataType::void_(), "tir.prefetch",
                                    {call(DataType::handle(), "tir.address_of", {load(n.buffer, at)})}));
  for (size_t d = vars.size(); d-- > 0;) {
    if (is_one(extents[d]))
      s = substitute(s, {{vars[d].get(), PrimExpr::int_imm(0, vars[d]->dtype)}});
    else
      s = for_(vars[d], PrimExpr::int_imm(0, vars[d]->dtype), extents[d], s);
  }
  return simplify(s);
}

}  // namespace

IRModule inject_prefetch(IRModule module, PassContext&) {
  return tensor_detail::map_bodies(module, [](const std::string&, const PrimFunc& f) -> Stmt {
    if (!tensor_detail::has_statement<Prefetch>(f->body)) return {};
    return rewrite(f->body, [](const Prefetch& n) -> Stmt { return hints(n); });
  });
}

}  // namespace tenon
