// SPDX-License-Identifier: Apache-2.0
// inject_virtual_thread
//   before: for v in T.thread_binding(2, thread="vthread.x"):
//             L = local(4); L[i] = …; sync; B[v * 4 + i] = L[i]
//   after:  L = local(8); for v in unroll(2): L[v * 4 + i] = …
//           sync; for v in unroll(2): B[v * 4 + i] = L[v * 4 + i]
// Virtual threads share one real thread: each statement runs for all of them before the next, so barriers
// stand once, and each has its own part of memory that is allocated inside.
// Needs: a constant extent, flat buffers. Keeps: what each virtual thread does.
#include "ir/find_node.h"
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;
using tensor_detail::imm;

namespace {

bool is_virtual(const For& n) {
  return n.kind == ForKind::thread_binding &&
         (n.thread_tag.starts_with("vthread") || n.thread_tag.starts_with("cthread"));
}
bool has_sync(const Stmt& s) {
  return any_node(s, not_in_buffers, [&](const ObjectRef& n) {
    const auto* c = n.as<Call>();
    return c && (c->op == "tir.storage_sync" || c->op.starts_with("tir.async_") ||
                 c->op == "tir.thread_allreduce");
  });
}

/// The body of one loop over virtual threads.
class Spread : public tensor_detail::Rewriter {
 public:
  Spread(VarRef v, PrimExpr min, int64_t count) : v_(std::move(v)), min_(std::move(min)), count_(count) {}

  Stmt stmt(const Stmt& s) override {
    if (!s) return s;
    if (const auto* n = s.as<SeqStmt>()) return seq(n->seq.map([&](const Stmt& t) { return stmt(t); }));
    if (const auto* n = s.as<Allocate>(); n && !n->buffer->scope.starts_with("shared")) {
      const PrimExpr size = n->buffer->shape[0];
      Buffer b = n->buffer;
      BufferNode* e = b.edit();
      e->shape = {simplify(size * PrimExpr::int_imm(count_, size.dtype()))};
      e->data = var(n->buffer->data->name, n->buffer->data->dtype);
      const PrimExpr place = cast(size.dtype(), PrimExpr(v_) - min_) * size;
      Stmt body = tensor_detail::moved(n->body, n->buffer, b, place);
      body = stmt(body);
      return tensor_detail::edited<Allocate>(s, [&](Allocate* m) {
        m->buffer = b;
        m->body = body;
      });
    }
    if (s.is<Allocate>() || s.is<AttrStmt>() || s.is<DeclBuffer>() || s.is<AllocateConst>())
      return map_children(s,
                          [&](const ObjectRef& c) -> ObjectRef {
                            return c.is<StmtNode>() ? ObjectRef(stmt(c.cast<StmtNode>())) : c;
                          })
          .cast<StmtNode>();
    if (!has_sync(s)) return repeated(s);
    auto same = [&](const PrimExpr& e) { return !tensor_detail::mentions(e, v_.get()); };
    if (const auto* n = s.as<For>(); n && same(n->min) && same(n->extent))
      return tensor_detail::edited<For>(s, [&](For* m) { m->body = stmt(n->body); });
    if (const auto* n = s.as<IfThenElse>(); n && same(n->condition))
      return tensor_detail::edited<IfThenElse>(s, [&](IfThenElse* m) {
        m->then_case = stmt(n->then_case);
        m->else_case = stmt(n->else_case);
      });
    if (const auto* n = s.as<LetStmt>(); n && same(n->value) && tensor_detail::is_plain(n->value))
      return tensor_detail::edited<LetStmt>(s, [&](LetStmt* m) { m->body = stmt(n->body); });
    if (s.is<tir::Evaluate>() && same(s.as<tir::Evaluate>()->value)) return s;
    tensor_detail::refuse("T0815", "a barrier stands where virtual threads differ", s,
                          "move the barrier out of what depends on the virtual thread");
  }

 private:
  Stmt repeated(const Stmt& s) const {
    const VarRef v = var(v_->name, v_->dtype);
    return for_(v, min_, PrimExpr::int_imm(count_, v->dtype),
                rename_definitions(substitute(s, {{v_.get(), PrimExpr(v)}})), ForKind::unrolled);
  }

  VarRef v_;
  PrimExpr min_;
  int64_t count_;
};

class Inject : public tensor_detail::Rewriter {
 public:
  Stmt stmt(const Stmt& s) override {
    if (!s) return s;
    if (s.is<SeqStmt>()) {
      const Stmt r = below(s);  // a statement may have become several
      return r.same_as(s) ? s : seq(r.as<SeqStmt>()->seq);
    }
    const Stmt r = below(s);
    const auto* n = r.as<For>();
    if (!n || !is_virtual(*n)) return r;
    const auto count = as_int(n->extent);
    if (!count || *count < 1)
      tensor_detail::refuse(
          "T0815", fmt::format("the number of virtual threads of '{}' is not constant", n->loop_var->name),
          s);
    return Spread(n->loop_var, n->min, *count).stmt(n->body);
  }
  PrimExpr expr(const PrimExpr& e) override { return e; }
};

}  // namespace

const Pass& inject_virtual_thread_pass = register_pass({
    .name = "inject_virtual_thread",
    .run = tensor_detail::each_body<Inject>,
    .level = 0,
    .summary = "virtual threads run statement by statement",
    .needs = {"flatten_buffer"},
});

}  // namespace tenon
