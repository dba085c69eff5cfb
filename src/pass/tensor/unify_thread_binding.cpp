// SPDX-License-Identifier: Apache-2.0
// unify_thread_binding
//   before: for t in threadIdx.x(64): (…; for u in threadIdx.x(32): B[u] = …)
//   after:  for t in threadIdx.x(64): (…; if t < 32: B[t] = …)
// A loop over an axis of threads inside another over the same axis is the iteration of the thread that runs.
// Needs: nothing. Keeps: what each thread does.
#include <map>

#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;

namespace {

class Unify : public tensor_detail::Rewriter {
 public:
  VarMap values;
  Stmt stmt(const Stmt& s) override {
    const auto* n = s ? s.as<For>() : nullptr;
    if (!n || n->kind != ForKind::thread_binding) return s ? below(s) : s;
    auto it = axes_.find(n->thread_tag);
    if (it == axes_.end()) {
      axes_.emplace(n->thread_tag, n);
      const Stmt r = below(s);
      axes_.erase(n->thread_tag);
      return r;
    }
    const For& outer = *it->second;
    const PrimExpr extent = cast(outer.extent.dtype(), n->extent);
    Analyzer analyzer;
    if (!analyzer.can_prove(le(extent, outer.extent)))
      tensor_detail::refuse(
          "T0815",
          fmt::format("loop '{}' over {} needs more threads than the loop '{}' around it has",
                      n->loop_var->name, n->thread_tag, outer.loop_var->name),
          s, "bind the outer loop to the larger extent");
    const PrimExpr place = PrimExpr(outer.loop_var) - outer.min;
    values.emplace(n->loop_var.get(), cast(n->loop_var->dtype, place) + substitute(n->min, values));
    const Stmt body = stmt(n->body);
    return analyzer.can_prove_equal(extent, outer.extent) ? body
                                                          : make<IfThenElse>(lt(place, extent), body, Stmt());
  }
  PrimExpr expr(const PrimExpr& e) override { return e; }

 private:
  std::map<std::string, const For*> axes_;
};

}  // namespace

static IRModule unify_thread_binding(IRModule module, PassContext&) {
  return tensor_detail::map_bodies(module, [](const std::string&, const PrimFunc& f) -> Stmt {
    if (!tensor_detail::has_threads(f->body)) return {};
    Unify u;
    const Stmt body = u.stmt(f->body);
    return u.values.empty() ? Stmt() : substitute(body, u.values);
  });
}

const Pass& unify_thread_binding_pass = register_pass({
    .name = "unify_thread_binding",
    .run = unify_thread_binding,
    .level = 0,
    .summary = "a loop inside another over the same threads is one of them",
});

}  // namespace tenon
