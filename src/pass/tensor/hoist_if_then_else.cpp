// SPDX-License-Identifier: Apache-2.0
// hoist_if_then_else
//   before: for i: if n > 4: B[i] = …                  for i: B[i] = if_then_else(n > 4, x, y)
//   after:  if n > 4: for i: B[i] = …                  if n > 4: for i: B[i] = x   else: for i: B[i] = y
// Only conditions without memory accesses move, and only past serial and unrolled loops; whole statements
// only without divisions. A choice of values leaves the innermost loop, so that its two forms can be vectors:
// rows of one operand of a concat, rows inside the padding. Needs: nothing. Keeps: what runs.
#include "ir/find_node.h"
#include "ir/structural.h"
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;

namespace {

/// Loops that one innermost loop may become, and nodes of its body that may stand in each.
constexpr int kMostForms = 8;
constexpr int64_t kLargestBody = 200;

bool has_access_or_call(const PrimExpr& e) { return has_node<BufferLoad, Call>(e); }

class Hoist : public tensor_detail::Rewriter {
 public:
  Stmt stmt(const Stmt& s) override {
    if (!s) return s;
    const Stmt r = below(s);
    const auto* n = r.as<For>();
    if (!n || (n->kind != ForKind::serial && n->kind != ForKind::unrolled)) return r;
    if (const auto* store = n->body.as<BufferStore>();
        store && !store->predicate && tensor_detail::size_of(n->body, kLargestBody) <= kLargestBody) {
      int forms = kMostForms;
      return forms_of(r, forms);
    }
    const auto* c = n->body.as<IfThenElse>();
    if (!c || c->else_case || tensor_detail::mentions(c->condition, n->loop_var.get()) ||
        !tensor_detail::is_plain(c->condition))
      return r;
    const Stmt loop = tensor_detail::edited<For>(r, [&](For* m) { m->body = c->then_case; });
    return make<IfThenElse>(c->condition, loop, Stmt());
  }

 private:
  /// The loop over one store, or a choice of such loops by what it does not change.
  static Stmt forms_of(const Stmt& loop, int& forms) {
    const auto* n = loop.as<For>();
    const PrimExpr value = n->body.as<BufferStore>()->value;
    PrimExpr condition;
    pre_order(value, [&](const ObjectRef& e) {
      const auto* c = e.as<Call>();
      if (!condition && c && c->op == "tir.if_then_else" && !c->dtype.is_vector() &&
          !tensor_detail::mentions(c->args[0], n->loop_var.get()) && !has_access_or_call(c->args[0]))
        condition = c->args[0];
      return !condition && !e.is<BufferNode>() && !e.is<Let>();  // a condition may use what a Let names
    });
    if (!condition || forms < 2) return loop;
    --forms;
    const auto form = [&](size_t branch) {
      const PrimExpr chosen = rewrite(value, [&](const Call& c) -> PrimExpr {
        return c.op == "tir.if_then_else" && structural_equal(c.args[0], condition) ? c.args[branch]
                                                                                    : PrimExpr();
      });
      const Stmt body =
          tensor_detail::edited<BufferStore>(n->body, [&](BufferStore* m) { m->value = chosen; });
      return forms_of(tensor_detail::edited<For>(loop, [&](For* m) { m->body = body; }), forms);
    };
    const Stmt holds = form(1);
    return make<IfThenElse>(condition, holds, rename_definitions(form(2)));
  }
};

}  // namespace

const Pass& hoist_if_then_else_pass = register_pass({
    .name = "hoist_if_then_else",
    .run = tensor_detail::each_body<Hoist>,
    .level = 1,
    .summary = "conditions that a loop does not change move out of it",
});

}  // namespace tenon
