// SPDX-License-Identifier: Apache-2.0
// annotate_irregular_loop
//   before: for i in range(n): if A[i] < 0: break
//   after:  for i in T.serial(n, annotations={"irregular_loop": 1}): …
// Loops that may be left in the middle, or whose iterations hold loops without a count, are marked, so that
// passes which copy or reorder iterations leave them alone.
// Needs: nothing. Keeps: everything else.
#include "ir/attr_keys.h"
#include "ir/jumps.h"
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;

namespace {

class Mark : public tensor_detail::Rewriter {
 public:
  Stmt stmt(const Stmt& s) override {
    if (!s) return s;
    if (s.is<tir::While>() || jump_of(s) != Jump::none) ++irregular_;
    const int64_t before = irregular_;
    const Stmt r = below(s);
    if (!s.is<For>() || irregular_ == before) return r;
    return tensor_detail::edited<For>(r,
                                      [](For* m) { m->annotations.set("irregular_loop", Any(int64_t(1))); });
  }
  PrimExpr expr(const PrimExpr& e) override { return e; }

 private:
  int64_t irregular_ = 0;
};

}  // namespace

static IRModule annotate_irregular_loop(IRModule module, PassContext&) {
  return module.map_prim([](const std::string&, const PrimFunc& f) -> ObjectRef {
    if (f->attrs.contains(kKernelAttr) || !f->body) return {};
    PrimFunc out = f;
    out.edit()->body = Mark().stmt(f->body);
    return out;
  });
}

const Pass& annotate_irregular_loop_pass = register_pass({
    .name = "annotate_irregular_loop",
    .run = annotate_irregular_loop,
    .level = 0,
    .summary = "loops that may be left early are marked",
});

}  // namespace tenon
