// SPDX-License-Identifier: Apache-2.0
// remove_no_op
//   before: for i in range(0): …; A[0] = A[0]; B[1] = x; B[1] = y; if c: pass
//   after:  B[1] = y
// Statements without an effect go, and stores that the next statement overwrites.
// Needs: nothing. Keeps: every value that is read.
#include "ir/find_node.h"
#include "ir/intrinsic.h"
#include "ir/structural.h"
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;
using tensor_detail::is_no_op;
using tensor_detail::no_op;

namespace {

/// No effect, and no element is read that might not be there.
bool is_pure(const PrimExpr& e) {
  bool pure = true;
  if (e)
    pre_order(e, [&](const ObjectRef& n) {
      if (const auto* c = n.as<Call>()) {
        const Intrinsic* i = find_intrinsic(c->op);
        pure = pure && i && i->pure;
      }
      return pure && !n.is<BufferNode>();
    });
  return pure;
}

bool reads(const ObjectRef& e, const Buffer& b) {
  return any_node(e, not_in_buffers, [&](const ObjectRef& n) {
    const auto* l = n.as<BufferLoad>();
    const auto* c = n.as<Call>();
    return (l && l->buffer->data.same_as(b->data)) || (c && !find_intrinsic(c->op)->pure);
  });
}

class Remove : public tensor_detail::Rewriter {
 public:
  Stmt stmt(const Stmt& s) override {
    if (!s) return s;
    const Stmt r = below(s);
    if (const auto* n = r.as<For>())
      return (is_no_op(n->body) && is_pure(n->extent)) || is_zero(n->extent) ? no_op() : r;
    if (const auto* n = r.as<IfThenElse>()) {
      if (auto c = as_int(n->condition)) return *c ? n->then_case : n->else_case ? n->else_case : no_op();
      const bool without = !n->else_case || is_no_op(n->else_case);
      if (without && is_no_op(n->then_case)) return is_pure(n->condition) ? no_op() : r;
      if (without && n->else_case)
        return tensor_detail::edited<IfThenElse>(r, [](IfThenElse* m) { m->else_case = Stmt(); });
      if (is_no_op(n->then_case)) return make<IfThenElse>(logical_not(n->condition), n->else_case, Stmt());
      return r;
    }
    if (const auto* n = r.as<LetStmt>()) return is_no_op(n->body) && is_pure(n->value) ? no_op() : r;
    if (const auto* n = r.as<Allocate>()) return is_no_op(n->body) ? no_op() : r;
    if (const auto* n = r.as<AllocateConst>()) return is_no_op(n->body) ? no_op() : r;
    if (const auto* n = r.as<DeclBuffer>()) return is_no_op(n->body) ? no_op() : r;
    if (const auto* n = r.as<AttrStmt>()) return is_no_op(n->body) ? no_op() : r;
    if (const auto* n = r.as<tir::Evaluate>()) return is_pure(n->value) ? no_op() : r;
    if (const auto* n = r.as<BufferStore>()) {
      const auto* l = n->value.as<BufferLoad>();
      return l && !n->predicate && !l->predicate && l->buffer.same_as(n->buffer) &&
                     structural_equal(l->indices, n->indices, false)
                 ? no_op()
                 : r;
    }
    if (const auto* n = r.as<SeqStmt>()) {
      Array<Stmt> kept;
      for (size_t i = 0; i < n->seq.size(); ++i) {
        if (is_no_op(n->seq[i])) continue;
        if (i + 1 < n->seq.size() && overwritten(n->seq[i], n->seq[i + 1])) continue;
        kept.push_back(n->seq[i]);
      }
      if (kept.empty()) return no_op();
      return kept.size() == n->seq.size() ? r : seq(kept);
    }
    return r;
  }
  PrimExpr expr(const PrimExpr& e) override { return e; }

 private:
  static bool overwritten(const Stmt& a, const Stmt& b) {
    const auto* x = a.as<BufferStore>();
    const auto* y = b.as<BufferStore>();
    if (!x || !y || !x->buffer.same_as(y->buffer) || y->predicate || !is_pure(x->value)) return false;
    if (reads(y->value, x->buffer) || reads(y->indices, x->buffer)) return false;
    return structural_equal(x->indices, y->indices, false);
  }
};

}  // namespace

const Pass& remove_no_op_pass = register_pass({
    .name = "remove_no_op",
    .run = tensor_detail::each_body<Remove>,
    .level = 0,
    .summary = "statements without an effect go",
});

}  // namespace tenon
