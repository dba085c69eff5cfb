// SPDX-License-Identifier: Apache-2.0
// hoist_expression
//   before: for i: x = n * 3 + 1; if n > 4 and i < x: B[i] = …
//   after:  x = n * 3 + 1; if n > 4: for i: if i < x: B[i] = …
// What a serial or unrolled loop does not change leaves it: values given names, parts of a conjunction, and
// the choice between two bodies.
// Needs: nothing. Keeps: what runs. Moves no access of memory and nothing that may fail.
#include "analysis/condition.h"
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;

namespace {

constexpr int64_t copy_limit = 400;  // nodes of a body that may stand twice

class HoistExpression : public tensor_detail::Rewriter {
 public:
  Stmt stmt(const Stmt& s) override {
    if (!s) return s;
    Stmt r = below(s);
    const auto* n = r.as<For>();
    if (!n || (n->kind != ForKind::serial && n->kind != ForKind::unrolled)) return r;
    const Var* v = n->loop_var.get();
    auto moves = [&](const PrimExpr& e) {
      return !tensor_detail::mentions(e, v) && tensor_detail::is_plain(e);
    };
    auto around = [&](const Stmt& body) {
      return stmt_again(tensor_detail::edited<For>(r, [&](For* m) { m->body = body; }));
    };
    if (const auto* l = n->body.as<LetStmt>(); l && moves(l->value))
      return make<LetStmt>(l->var, l->value, around(l->body));
    const auto* c = n->body.as<IfThenElse>();
    if (!c) return r;
    if (moves(c->condition)) {
      if (!c->else_case) return make<IfThenElse>(c->condition, around(c->then_case), Stmt());
      if (tensor_detail::size_of(c->else_case, copy_limit) > copy_limit) return r;
      const Stmt other = rename_definitions(around(c->else_case));
      return make<IfThenElse>(c->condition, around(c->then_case), other);
    }
    if (c->else_case) return r;
    PrimExpr outside, inside;
    for (const PrimExpr& e : conjuncts(c->condition)) {
      PrimExpr& to = moves(e) ? outside : inside;
      to = to ? logical_and(to, e) : e;
    }
    if (!outside || !inside) return r;
    return make<IfThenElse>(outside, around(make<IfThenElse>(inside, c->then_case, Stmt())), Stmt());
  }
  PrimExpr expr(const PrimExpr& e) override { return e; }

 private:
  /// The loop with its new body may have more to give; what is below has given all.
  Stmt stmt_again(const Stmt& s) {
    const auto* n = s.as<For>();
    const auto* l = n->body.as<LetStmt>();
    const auto* c = n->body.as<IfThenElse>();
    return l || c ? HoistExpression().stmt(s) : s;
  }
};

}  // namespace

const Pass& hoist_expression_pass = register_pass({
    .name = "hoist_expression",
    .run = tensor_detail::each_body<HoistExpression>,
    .level = 2,
    .summary = "values and conditions that a loop does not change leave it",
});

}  // namespace tenon
