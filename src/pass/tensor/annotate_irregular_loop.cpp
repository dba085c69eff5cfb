// SPDX-License-Identifier: Apache-2.0
// annotate_irregular_loop
//   before: for i in range(n): if A[i] < 0: T.ret(i)
//   after:  for i in T.serial(n, annotations={"irregular_loop": 1}): …
// Loops that may be left in the middle, or whose iterations hold loops without a count, are marked, so that
// passes which copy or reorder iterations leave them alone.
// Needs: nothing. Keeps: everything else.
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;

namespace {

class Mark : public tensor_detail::Rewriter {
 public:
  Stmt stmt(const Stmt& s) override {
    if (!s) return s;
    if (s.is<tir::While>() || leaves(s)) ++irregular_;
    const int64_t before = irregular_;
    const Stmt r = below(s);
    if (!s.is<For>() || irregular_ == before) return r;
    return tensor_detail::edited<For>(r,
                                      [](For* m) { m->annotations.set("irregular_loop", Any(int64_t(1))); });
  }
  PrimExpr expr(const PrimExpr& e) override { return e; }

 private:
  static bool leaves(const Stmt& s) {
    const auto* e = s.as<tir::Evaluate>();
    const auto* c = e ? e->value.as<Call>() : nullptr;
    return c && c->op == "tir.ret";
  }
  int64_t irregular_ = 0;
};

}  // namespace

static IRModule annotate_irregular_loop(IRModule module, PassContext&) {
  return tensor_detail::map_bodies(
      module, [](const std::string&, const PrimFunc& f) { return Mark().stmt(f->body); });
}

const Pass& annotate_irregular_loop_pass = register_pass({
    .name = "annotate_irregular_loop",
    .run = annotate_irregular_loop,
    .level = 0,
    .summary = "loops that may be left early are marked",
});

}  // namespace tenon
