// SPDX-License-Identifier: Apache-2.0
// lift_thread_binding
//   before: for b in blockIdx.x: S = shared; for t in threadIdx.x: S[t] = …; for t in threadIdx.x: B[…] =
//   S[31 - t] after:  for b in blockIdx.x: for t in threadIdx.x: S = shared; S[t] = …; B[…] = S[31 - t]
// A kernel has one loop for each axis of threads, outside everything else. What stood outside the threads is
// done by the first of them; memory that was allocated there is the block's. Barriers come with thread_sync.
// Needs: no blocks. Keeps: what each thread does, and its order.
#include <map>
#include <set>

#include "ir/find_node.h"
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;

namespace {

bool is_gpu(const Stmt& s) {
  const auto* n = s.as<For>();
  return n && n->kind == ForKind::thread_binding &&
         (n->thread_tag.starts_with("threadIdx.") || n->thread_tag.starts_with("blockIdx."));
}

class Lift : public tensor_detail::Rewriter {
 public:
  Stmt stmt(const Stmt& s) override {
    if (!s || !tensor_detail::has_threads(s)) return s;
    const auto* a = s.as<Allocate>();
    const bool host = (a && a->buffer->scope == "global") || s.is<LetStmt>() || s.is<DeclBuffer>() ||
                      s.is<AllocateConst>() || s.is<AttrStmt>() || s.is<SeqStmt>() || s.is<IfThenElse>() ||
                      s.is<tir::While>() || (s.is<For>() && s.as<For>()->kind != ForKind::thread_binding);
    return host ? below(s) : kernel(s);
  }
  PrimExpr expr(const PrimExpr& e) override { return e; }

 private:
  struct Axis {
    VarRef var;
    PrimExpr extent;
    std::string tag;
  };
  using Tags = std::set<std::string>;

  Stmt kernel(const Stmt& s) {
    axes_.clear();
    std::set<const Var*> inside;
    pre_order(s, [&](const ObjectRef& n) {
      if (const auto* l = n.as<For>()) inside.insert(l->loop_var.get());
      if (const auto* l = n.as<LetStmt>()) inside.insert(l->var.get());
      return n.is<StmtNode>() || n.is<ArrayObj>();
    });
    pre_order(s, [&](const ObjectRef& n) {
      const auto* l = n.as<For>();
      if (l && is_gpu(l->body ? Stmt(Ref<For>(l)) : Stmt())) add_axis(*l, inside);
      return n.is<StmtNode>() || n.is<ArrayObj>();
    });
    VarMap starts;
    starts_ = &starts;
    Stmt body = substitute(inner(s, {}), starts);
    for (auto it = axes_.begin(); it != axes_.end(); ++it)
      if (it->first.starts_with("threadIdx.")) body = around(it->second, body);
    for (auto it = axes_.begin(); it != axes_.end(); ++it)
      if (it->first.starts_with("blockIdx.")) body = around(it->second, body);
    return body;
  }
  static Stmt around(const Axis& a, const Stmt& body) {
    Stmt s = for_(a.var, PrimExpr::int_imm(0, a.var->dtype), a.extent, body, ForKind::thread_binding);
    return tensor_detail::edited<For>(s, [&](For* m) { m->thread_tag = a.tag; });
  }

  void add_axis(const For& n, const std::set<const Var*>& inside) {
    for (const VarRef& v : free_vars(n.extent))
      if (inside.count(v.get()))
        tensor_detail::refuse(
            "T0815",
            fmt::format("the number of threads of loop '{}' changes inside its kernel", n.loop_var->name),
            Stmt(Ref<For>(&n)), "take a bound that holds for all, and a predicate");
    auto [it, fresh] = axes_.try_emplace(n.thread_tag, Axis{});
    if (fresh) {
      it->second = {var(n.loop_var->name, n.loop_var->dtype), n.extent, n.thread_tag};
      return;
    }
    Axis& a = it->second;
    const PrimExpr e = cast(a.extent.dtype(), n.extent);
    const auto x = as_int(a.extent), y = as_int(e);
    if (x && y)
      a.extent = *x < *y ? e : a.extent;
    else if (!Analyzer().can_prove_equal(a.extent, e))
      a.extent = simplify(max(a.extent, e));
  }

  bool missing_below(const Stmt& s, const Tags& have) const {
    return any_node(s, in_statements, [&](const ObjectRef& n) {
      const auto* l = n.as<For>();
      return l && l->kind == ForKind::thread_binding && axes_.count(l->thread_tag) &&
             !have.count(l->thread_tag);
    });
  }

  Stmt inner(const Stmt& s, const Tags& have) {
    if (!s) return s;
    if (is_gpu(s) && !have.count(s.as<For>()->thread_tag)) {
      const auto* n = s.as<For>();
      const Axis& a = axes_.at(n->thread_tag);
      starts_->emplace(n->loop_var.get(), cast(n->loop_var->dtype, a.var) + substitute(n->min, *starts_));
      Tags more = have;
      more.insert(n->thread_tag);
      Stmt body = inner(n->body, more);
      const PrimExpr extent = cast(a.var->dtype, n->extent);
      return Analyzer().can_prove_equal(extent, a.extent) ? body
                                                          : make<IfThenElse>(lt(a.var, extent), body, Stmt());
    }
    if (const auto* n = s.as<Allocate>()) return allocation(s, *n, have);
    if (missing_below(s, have))
      return map_children(s,
                          [&](const ObjectRef& c) -> ObjectRef {
                            return c.is<StmtNode>() ? ObjectRef(inner(c.cast<StmtNode>(), have)) : c;
                          })
          .cast<StmtNode>();
    // One thread does what stands outside the threads.
    PrimExpr first = true_();
    for (const auto& [tag, a] : axes_)
      if (!have.count(tag)) first = logical_and(first, eq(a.var, PrimExpr::int_imm(0, a.var->dtype)));
    return is_one(first) || tensor_detail::is_no_op(s) ? s : make<IfThenElse>(first, s, Stmt());
  }

  Stmt allocation(const Stmt& s, const Allocate& n, const Tags& have) {
    const std::string& scope = n.buffer->scope;
    size_t threads = 0, around = 0;
    for (const auto& [tag, a] : axes_)
      if (tag.starts_with("threadIdx.")) {
        ++threads;
        around += have.count(tag);
      }
    std::string wanted = scope;
    if (scope == "global" || scope == "local") wanted = around == threads ? "local" : "shared";
    if (wanted == "shared" && around > 0 && around < threads && !scope.starts_with("shared"))
      tensor_detail::refuse(
          "T0815", fmt::format("buffer '{}' belongs to some of the axes of threads only", n.buffer->name), s,
          "give it the scope shared and a dimension for these axes");
    Stmt body = inner(n.body, have);
    Buffer b = n.buffer;
    if (wanted != scope) {
      b.edit()->scope = wanted;
      body = replace_buffers(body, {{n.buffer.get(), b}});
    }
    return tensor_detail::edited<Allocate>(s, [&](Allocate* m) {
      m->buffer = b;
      m->body = body;
    });
  }

  std::map<std::string, Axis> axes_;
  VarMap* starts_ = nullptr;
};

}  // namespace

const Pass& lift_thread_binding_pass = register_pass({
    .name = "lift_thread_binding",
    .run = tensor_detail::each_body<Lift>,
    .level = 0,
    .summary = "a kernel has one loop for each axis of threads",
    .needs = {"lower_opaque_block"},
});

}  // namespace tenon
