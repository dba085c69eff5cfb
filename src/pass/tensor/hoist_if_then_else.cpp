// SPDX-License-Identifier: Apache-2.0
// hoist_if_then_else
//   before: for i: if n > 4: B[i] = …
//   after:  if n > 4: for i: B[i] = …
// Only conditions without memory accesses and divisions move, and only past serial and unrolled loops.
// Needs: nothing. Keeps: what runs.
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;

namespace {

class Hoist : public tensor_detail::Rewriter {
 public:
  Stmt stmt(const Stmt& s) override {
    if (!s) return s;
    const Stmt r = below(s);
    const auto* n = r.as<For>();
    if (!n || (n->kind != ForKind::serial && n->kind != ForKind::unrolled)) return r;
    const auto* c = n->body.as<IfThenElse>();
    if (!c || c->else_case || tensor_detail::mentions(c->condition, n->loop_var.get()) ||
        !tensor_detail::is_plain(c->condition))
      return r;
    const Stmt loop = tensor_detail::edited<For>(r, [&](For* m) { m->body = c->then_case; });
    return make<IfThenElse>(c->condition, loop, Stmt());
  }
};

}  // namespace

static IRModule hoist_if_then_else(IRModule module, PassContext&) {
  return tensor_detail::map_bodies(
      module, [](const std::string&, const PrimFunc& f) { return Hoist().stmt(f->body); });
}

const Pass& hoist_if_then_else_pass = register_pass({
    .name = "hoist_if_then_else",
    .run = hoist_if_then_else,
    .level = 1,
    .summary = "conditions that a loop does not change move out of it",
});

}  // namespace tenon
