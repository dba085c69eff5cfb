// SPDX-License-Identifier: Apache-2.0
// canonicalize_loop
//   before: for i in T.serial(2, n): B[i] = …
//   after:  for i in range(n - 2): B[i + 2] = …
// Needs: nothing. Keeps: the kinds and the order of all loops.
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;

namespace {

class Canonical : public tensor_detail::Rewriter {
 public:
  VarMap starts;
  Stmt stmt(const Stmt& s) override {
    const auto* n = s ? s.as<For>() : nullptr;
    if (!n || is_zero(n->min)) return s ? below(s) : s;
    const VarRef v = var(n->loop_var->name, n->loop_var->dtype);
    // Loops around have their new variables already.
    starts.emplace(n->loop_var.get(), PrimExpr(v) + substitute(n->min, starts));
    return tensor_detail::edited<For>(s, [&](For* m) {
      m->loop_var = v;
      m->min = PrimExpr::int_imm(0, v->dtype);
      m->body = stmt(n->body);
    });
  }
  PrimExpr expr(const PrimExpr& e) override { return e; }
};

}  // namespace

static IRModule canonicalize_loop(IRModule module, PassContext&) {
  return tensor_detail::map_bodies(module, [](const std::string&, const PrimFunc& f) -> Stmt {
    Canonical c;
    const Stmt body = c.stmt(f->body);
    return c.starts.empty() ? Stmt() : substitute(body, c.starts);
  });
}

const Pass& canonicalize_loop_pass = register_pass({
    .name = "canonicalize_loop",
    .run = canonicalize_loop,
    .level = 0,
    .summary = "loops begin at 0",
});

}  // namespace tenon
