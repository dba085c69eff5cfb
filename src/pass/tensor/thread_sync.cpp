// SPDX-License-Identifier: Apache-2.0
// thread_sync
//   before: for t in threadIdx.x: S[t] = A[t]; B[t] = S[31 - t]
//   after:  for t in threadIdx.x: S[t] = A[t]; T.storage_sync("shared"); B[t] = S[31 - t]
// A barrier stands between accesses of different threads to one place of shared or global memory when one of
// them writes, also from one iteration of a loop to the next. Accesses of each thread to its own places need
// none. Where threads take different branches no barrier can stand: what would need one there is refused.
// Needs: lifted loops, flat buffers. Keeps: every statement and its order.
#include <unordered_set>

#include "analysis/condition.h"
#include "analysis/region.h"
#include "ir/structural.h"
#include "pass/tensor/lowering.h"
#include "pass/tensor/own_barriers.h"

namespace tenon {

using namespace tir;

namespace {

struct Access {
  Buffer buffer;
  Array<PrimExpr> at;  ///< empty: anywhere
  bool write = false;
};
/// Accesses since the last barrier, by memory.
using Pending = std::unordered_map<const Var*, std::vector<Access>>;
constexpr size_t per_buffer = 64;  // beyond, all of them count as one access anywhere

class Planner {
 public:
  explicit Planner(std::vector<Ref<For>> threads) : threads_(std::move(threads)) {
    for (const Ref<For>& t : threads_) differs_.insert(t->loop_var.get());
  }

  Stmt plan(const Stmt& s, Pending& pending) {
    if (!s) return s;
    if (const auto* n = s.as<SeqStmt>()) {
      Array<Stmt> out;
      bool changed = false;
      for (const Stmt& t : n->seq) {
        Stmt r = plan(t, pending);
        changed = changed || !r.same_as(t);
        out.push_back(r);
      }
      return changed ? seq(out) : s;
    }
    if (const auto* n = s.as<For>(); n && uniform(n->min) && uniform(n->extent)) return loop(s, *n, pending);
    if (const auto* n = s.as<tir::While>(); n && uniform(n->condition)) {
      const Stmt body = again(n->body, pending, nullptr);
      return tensor_detail::edited<tir::While>(s, [&](tir::While* m) { m->body = body; });
    }
    if (const auto* n = s.as<IfThenElse>(); n && uniform(n->condition)) {
      Pending other = pending;
      const Stmt yes = plan(n->then_case, pending), no = plan(n->else_case, other);
      for (auto& [v, list] : other)
        for (const Access& a : list) remember(pending, a);
      return tensor_detail::edited<IfThenElse>(s, [&](IfThenElse* m) {
        m->then_case = yes;
        m->else_case = no;
      });
    }
    if (const auto* n = s.as<LetStmt>()) {
      if (!uniform(n->value)) differs_.insert(n->var.get());
      std::vector<Access> mine;
      gather(n->value, mine);
      const Stmt wait = before(mine, pending);
      const Stmt body = plan(n->body, pending);
      const Stmt r = tensor_detail::edited<LetStmt>(s, [&](LetStmt* m) { m->body = body; });
      return wait ? seq({wait, r}) : r;
    }
    if (const auto* n = s.as<AttrStmt>(); n && n->key == tensor_detail::kOwnBarriers) {
      std::vector<Access> mine;
      gather(n->body, mine);
      const Stmt wait = before(mine, pending);
      pending.clear();
      return wait ? seq({wait, s}) : s;
    }
    if (s.is<Allocate>() || s.is<AllocateConst>() || s.is<DeclBuffer>() || s.is<AttrStmt>())
      return map_children(s,
                          [&](const ObjectRef& c) -> ObjectRef {
                            return c.is<StmtNode>() ? ObjectRef(plan(c.cast<StmtNode>(), pending)) : c;
                          })
          .cast<StmtNode>();
    if (is_sync(s)) {
      pending.clear();
      return s;
    }
    // A leaf, or what threads go through in different ways: as one.
    std::vector<Access> mine;
    gather(s, mine);
    const auto* branch = s.as<IfThenElse>();
    if (s.is<For>() || s.is<tir::While>() || (branch && !one_thread(branch->condition))) inside(s, mine);
    const Stmt wait = before(mine, pending);
    return wait ? seq({wait, s}) : s;
  }

 private:
  static bool is_sync(const Stmt& s) {
    const auto* e = s.as<tir::Evaluate>();
    const auto* c = e ? e->value.as<Call>() : nullptr;
    return c && c->op == "tir.storage_sync";
  }
  static Stmt sync(const char* scope) {
    return make<tir::Evaluate>(
        call(DataType::void_(), "tir.storage_sync", {make<tir::StringImm>(std::string(scope))}));
  }
  bool uniform(const PrimExpr& e) const {
    bool same = true;
    pre_order(e, [&](const ObjectRef& n) {
      same = same && !n.is<BufferLoad>() && !(n.is<Var>() && differs_.count(n.as<Var>())) &&
             !(n.is<Call>() && n.as<Call>()->op.starts_with("tir.warp_"));
      return same && !n.is<BufferNode>();
    });
    return same;
  }

  /// Does the condition hold for one thread of the block only?
  bool one_thread(const PrimExpr& condition) const {
    std::unordered_set<const Var*> fixed;
    for (const PrimExpr& e : conjuncts(condition))
      if (const auto* n = e.as<EQ>()) {
        if (n->a.is<Var>() && uniform(n->b)) fixed.insert(n->a.as<Var>());
        if (n->b.is<Var>() && uniform(n->a)) fixed.insert(n->b.as<Var>());
      }
    for (const Ref<For>& t : threads_)
      if (!is_one(t->extent) && !fixed.count(t->loop_var.get())) return false;
    return true;
  }

  // ---- accesses
  static bool concerns(const Buffer& b) {
    return b->scope == "global" || b->scope == "warp" || b->scope.starts_with("shared");
  }
  static void gather(const ObjectRef& root, std::vector<Access>& out) {
    pre_order(root, [&](const ObjectRef& n) {
      if (const auto* l = n.as<BufferLoad>(); l && concerns(l->buffer))
        out.push_back({l->buffer, l->indices, false});
      if (const auto* l = n.as<BufferStore>(); l && concerns(l->buffer))
        out.push_back({l->buffer, l->indices, true});
      if (const auto* c = n.as<Call>(); c && !c->op.starts_with("tir.atomic_")) {
        // What a pointer is for is not known: anywhere, and written.
        for (const PrimExpr& a : c->args)
          if (const auto* p = a.as<Call>(); p && p->op == "tir.address_of")
            if (const auto* l = p->args[0].as<BufferLoad>(); l && concerns(l->buffer))
              out.push_back({l->buffer, {}, c->op != "tir.prefetch"});
      }
      return !n.is<BufferNode>();
    });
  }
  /// Byte range of a view of known place; empty: unknown.
  static std::optional<std::pair<int64_t, int64_t>> bytes(const Buffer& b) {
    int64_t size = b->dtype.bytes(), start = 0;
    for (const PrimExpr& d : b->shape) {
      const auto n = as_int(d);
      if (!n) return std::nullopt;
      size *= *n;
    }
    if (b->elem_offset) {
      const auto n = as_int(b->elem_offset);
      if (!n) return std::nullopt;
      start = *n * b->dtype.bytes();
    }
    return std::pair{start, start + size};
  }
  /// Different threads, different places: mixed-radix in the threads' numbers.
  bool own_place(const Array<PrimExpr>& at, const Var* carried) const {
    if (at.size() != 1 || at[0].dtype().is_vector()) return false;
    if (carried && tensor_detail::mentions(at[0], carried)) return false;
    std::vector<VarRef> vars;
    for (const Ref<For>& t : threads_) vars.push_back(t->loop_var);
    Analyzer analyzer;
    const auto form = affine_form(at[0], vars, analyzer);
    if (!form) return false;
    bool ok = uniform(form->base);
    std::vector<std::pair<int64_t, int64_t>> digits;
    for (const Ref<For>& t : threads_) {
      const auto extent = as_int(t->extent);
      if (!extent) return false;
      if (*extent == 1) continue;
      int64_t c = 0;
      for (const auto& [v, k] : form->terms)
        if (v.same_as(t->loop_var)) c = std::abs(k);
      digits.emplace_back(c, *extent);
    }
    std::sort(digits.begin(), digits.end());
    int64_t reach = 0;
    for (const auto& [c, extent] : digits) {
      ok = ok && c > reach;
      reach += c * (extent - 1);
    }
    return ok;
  }
  bool conflict(const Access& a, const Access& b, const Var* carried) const {
    if (!a.write && !b.write) return false;
    if (!a.buffer.same_as(b.buffer)) {
      const auto x = bytes(a.buffer), y = bytes(b.buffer);
      if (x && y && (x->second <= y->first || y->second <= x->first)) return false;
      return true;
    }
    if (a.at.empty() || b.at.empty() || !structural_equal(a.at, b.at)) return true;
    return !own_place(a.at, carried);
  }
  static void remember(Pending& pending, const Access& a) {
    std::vector<Access>& list = pending[a.buffer->data.get()];
    for (const Access& x : list)
      if (x.buffer.same_as(a.buffer) && x.write == a.write &&
          (x.at.empty() || (!a.at.empty() && structural_equal(x.at, a.at))))
        return;
    if (list.size() >= per_buffer) {
      bool write = a.write;
      for (const Access& x : list) write = write || x.write;
      list = {{a.buffer, {}, write}};
      return;
    }
    list.push_back(a);
  }
  /// The barrier that `mine` need; null for none. They are pending from here on.
  Stmt before(const std::vector<Access>& mine, Pending& pending) const {
    bool needed = false, warp = true;
    for (const Access& a : mine) {
      auto it = pending.find(a.buffer->data.get());
      if (it == pending.end()) continue;
      for (const Access& b : it->second)
        if (conflict(a, b, carried_)) {
          needed = true;
          warp = warp && a.buffer->scope == "warp";
        }
    }
    if (needed) pending.clear();
    for (const Access& a : mine) remember(pending, a);
    return needed ? sync(warp ? "warp" : "shared") : Stmt();
  }
  void inside(const Stmt& s, const std::vector<Access>& mine) const {
    for (const Access& a : mine)
      for (const Access& b : mine)
        if (a.write && !b.write && conflict(a, b, nullptr) && a.buffer->scope.starts_with("shared"))
          tensor_detail::refuse(
              "T0817",
              fmt::format("buffer '{}' needs a barrier where threads take different ways", a.buffer->name), s,
              "let all threads take the branch, and guard the stores alone");
  }

  // ---- loops
  Stmt loop(const Stmt& s, const For& n, Pending& pending) {
    const Stmt body = again(n.body, pending, n.loop_var.get());
    return tensor_detail::edited<For>(s, [&](For* m) { m->body = body; });
  }
  /// A body that runs several times: what its end leaves open meets its beginning.
  Stmt again(const Stmt& body, Pending& pending, const Var* loop_var) {
    const Pending start = pending;
    Stmt planned = plan(body, pending);
    Pending carried = pending;
    const Var* outer = carried_;
    carried_ = loop_var;
    const bool meets = !plan(planned, carried).same_as(planned);
    carried_ = outer;
    if (!meets) return planned;
    Pending clean;
    planned = plan(body, clean);
    pending = clean;
    return seq({sync("shared"), planned});
  }

  std::vector<Ref<For>> threads_;
  std::unordered_set<const Var*> differs_;
  const Var* carried_ = nullptr;
};

class Sync : public tensor_detail::Rewriter {
 public:
  Stmt stmt(const Stmt& s) override {
    const auto* n = s ? s.as<For>() : nullptr;
    if (!n || !tensor_detail::is_thread_loop(*n)) return s ? below(s) : s;
    std::vector<Ref<For>> threads;
    Stmt body = s;
    while (const auto* f = body.as<For>()) {
      if (!tensor_detail::is_thread_loop(*f)) break;
      threads.push_back(body.cast<For>());
      body = f->body;
    }
    Pending pending;
    const Stmt planned = Planner(threads).plan(body, pending);
    if (planned.same_as(body)) return s;
    Stmt r = planned;
    for (size_t i = threads.size(); i-- > 0;)
      r = tensor_detail::edited<For>(threads[i], [&](For* m) { m->body = r; });
    return r;
  }
  PrimExpr expr(const PrimExpr& e) override { return e; }
};

}  // namespace

const Pass& thread_sync_pass = register_pass({
    .name = "thread_sync",
    .run = tensor_detail::each_body_with_threads<Sync>,
    .level = 0,
    .summary = "barriers between accesses of different threads",
    .needs = {"lift_thread_binding", "flatten_buffer"},
});

}  // namespace tenon
