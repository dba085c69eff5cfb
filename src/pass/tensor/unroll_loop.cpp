// SPDX-License-Identifier: Apache-2.0
// unroll_loop
//   before: for i in T.unroll(2): B[i] = A[i]
//   after:  B[0] = A[0]; B[1] = A[1]
// A loop of symbolic extent, or one that would grow beyond the limit, becomes serial with the annotation
// "unroll_refused" that says why. Serial loops with "pragma_auto_unroll_max_step" are unrolled, too,
// innermost first, where that makes no more statements; with "pragma_unroll_explicit": 0 loops to unroll
// stay, for the code generator's library to unroll. Needs: nothing. Keeps: the order of execution.
#include "pass/tensor/lowering.h"
#include "pass/tensor/pragmas.h"

namespace tenon {

using namespace tir;

namespace {

constexpr int64_t kUnrolledNodes = 40000;

class Unroll : public tensor_detail::Rewriter {
 public:
  Stmt stmt(const Stmt& s) override {
    if (!s) return s;
    const Stmt r = below(s);
    const auto* n = r.as<For>();
    if (!n || (n->kind != ForKind::unrolled && !within_limit(*n))) return r;
    const auto extent = as_int(n->extent);
    const char* reason = nullptr;
    if (!extent)
      reason = "the number of iterations is not constant";
    else if (*extent > 0 && tensor_detail::size_of(n->body, kUnrolledNodes) > kUnrolledNodes / *extent)
      reason = "the unrolled body would be too large";
    if (reason) {
      return tensor_detail::edited<For>(r, [&](For* m) {
        m->kind = ForKind::serial;
        m->annotations.set("unroll_refused", Any(reason));
      });
    }
    if (*extent <= 0) return tensor_detail::no_op();
    if (n->annotations.get_or(tensor_detail::kUnrollExplicit, Any(int64_t(1))).as<int64_t>() == 0)
      return tensor_detail::edited<For>(r, [](For* m) { m->kind = ForKind::unrolled; });
    Array<Stmt> all;
    for (int64_t i = 0; i < *extent; ++i) {
      const PrimExpr at = simplify(n->min + PrimExpr::int_imm(i, n->min.dtype()));
      Stmt copy = substitute(n->body, {{n->loop_var.get(), at}});
      all.push_back(i == 0 ? copy : rename_definitions(copy));
    }
    return seq(all);
  }

 private:
  /// May the loop's own pragma unroll it? It holds no other loop then.
  static bool within_limit(const For& n) {
    const auto limit = n.annotations.find(tensor_detail::kAutoUnroll);
    const auto extent = as_int(n.extent);
    if (!limit || !extent || n.kind != ForKind::serial || n.annotations.contains(tensor_detail::kNoUnroll))
      return false;
    int64_t steps = 0;
    bool loops = false;
    pre_order(n.body, [&](const ObjectRef& o) {
      steps += o.is<BufferStore>() || o.is<tir::Evaluate>() || o.is<AssertStmt>();
      loops = loops || o.is<For>() || o.is<tir::While>();
      return !loops && (o.is<StmtNode>() || o.is<ArrayObj>());
    });
    return !loops && (steps == 0 || *extent <= limit->as<int64_t>() / steps);
  }
};

}  // namespace

const Pass& unroll_loop_pass = register_pass({
    .name = "unroll_loop",
    .run = tensor_detail::each_body<Unroll>,
    .level = 0,
    .summary = "unrolled loops become their iterations",
});

}  // namespace tenon
