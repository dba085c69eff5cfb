// SPDX-License-Identifier: Apache-2.0
// plan_buffer_allocation
//   before: root block allocates B; for i: (producer of B[i..], consumer of B[i..])
//   after:  for i: block allocates B: (producer, consumer)
// A buffer moves to the innermost loop or block that holds all its uses, but never under a loop that carries
// values of it from one iteration to the next: the first access there must be a plain store, and no
// reduction into the buffer may run over the loop.
// Needs: blocks with their iterators. Keeps: every access.
#include <unordered_set>

#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;

namespace {

/// Where each buffer is used: the common path of loops and blocks from the function's body.
class Uses {
 public:
  struct Info {
    std::vector<const StmtNode*> path;  ///< common ancestors, outermost first
    bool seen = false, opaque = false, first_is_store = false;
    std::unordered_set<const Var*> carried;  ///< loops that a reduction into it runs over
  };
  std::unordered_map<const Var*, Info> info;  // by data variable

  void stmt(const Stmt& s) {
    if (!s) return;
    const bool scope = s.is<For>() || s.is<Block>();
    if (scope) path_.push_back(s.get());
    if (const auto* n = s.as<BlockRealize>()) {
      exprs(n->iter_values);
      expr(n->predicate);
      for (size_t i = 0; i < n->block->iter_vars.size(); ++i) {
        const IterVar& v = n->block->iter_vars[i];
        values_[v->var.get()] = n->iter_values[i];
        if (v->kind != IterKind::spatial) reductions_.push_back(n->iter_values[i]);
      }
      const size_t kept = reductions_.size();
      const bool reduces = std::any_of(n->block->iter_vars.begin(), n->block->iter_vars.end(),
                                       [](const IterVar& v) { return v->kind == IterKind::reduce; });
      const bool outer = in_reduction_;
      in_reduction_ = reduces;
      stmt(n->block);
      in_reduction_ = outer;
      reductions_.resize(std::min(kept, reductions_.size()));
      for (const IterVar& v : n->block->iter_vars)
        if (v->kind != IterKind::spatial) reductions_.pop_back();
    } else if (const auto* n = s.as<IfThenElse>()) {
      expr(n->condition);
      // The init of a reduction block runs in its first iteration: that is a store.
      const bool guarded = !in_reduction_;
      conditional_ += guarded;
      stmt(n->then_case);
      stmt(n->else_case);
      conditional_ -= guarded;
    } else if (const auto* n = s.as<tir::While>()) {
      expr(n->condition);
      ++conditional_;
      stmt(n->body);
      --conditional_;
    } else if (const auto* n = s.as<BufferStore>()) {
      expr(n->value);
      expr(n->predicate);
      exprs(n->indices);
      use(n->buffer, conditional_ == 0 && !n->predicate, true);
    } else if (const auto* n = s.as<Block>()) {
      // What the block does to its view of a region it may do to all of it.
      for (const MatchBufferRegion& m : n->match_buffers) use(m->source->buffer, false, true);
      stmt(n->init);
      stmt(n->body);
      // What a block declares to touch lives around it, even if no other block uses it.
      for (const BufferRegion& r : n->reads) around(r->buffer);
      for (const BufferRegion& r : n->writes) around(r->buffer);
    } else {
      for (const ObjectRef& c : children(s)) {
        if (c.is<PrimExprNode>())
          expr(PrimExpr(c.cast<PrimExprNode>()));
        else if (c.is<StmtNode>())
          stmt(c.cast<StmtNode>());
      }
    }
    if (scope) path_.pop_back();
  }

 private:
  void exprs(const Array<PrimExpr>& a) {
    for (const PrimExpr& e : a) expr(e);
  }
  void expr(const PrimExpr& e) {
    if (!e) return;
    pre_order(e, [&](const ObjectRef& n) {
      if (const auto* l = n.as<BufferLoad>()) {
        exprs(l->indices);
        expr(l->predicate);
        use(l->buffer, false, false);
        return false;
      }
      if (const auto* v = n.as<Var>(); v && v->dtype.is_handle()) info[v].opaque = true;
      if (const auto* c = n.as<Call>(); c && c->op == "tir.address_of" && c->args[0].is<BufferLoad>())
        opaque(c->args[0].as<BufferLoad>()->buffer);
      return !n.is<BufferNode>();
    });
  }
  void opaque(const Buffer& b) {
    info[b->data.get()].opaque = true;
    use(b, false, false);
  }
  void around(const Buffer& b) {
    Info& u = info[b->data.get()];
    if (!u.seen) return;
    auto& path = u.path;
    size_t n = 0;
    while (n < path.size() && n + 1 < path_.size() && path[n] == path_[n]) ++n;
    path.resize(n);
  }
  void use(const Buffer& b, bool plain_store, bool writes) {
    Info& u = info[b->data.get()];
    if (!u.seen) {
      u.path = path_;
      u.first_is_store = plain_store;
      u.seen = true;
    } else {
      size_t n = 0;
      while (n < u.path.size() && n < path_.size() && u.path[n] == path_[n]) ++n;
      u.path.resize(n);
    }
    if (!writes) return;
    // Loops that drive a reduction into b, through block iterators to loop variables.
    std::vector<PrimExpr> todo(reductions_.begin(), reductions_.end());
    std::unordered_set<const Object*> met;
    while (!todo.empty()) {
      PrimExpr e = todo.back();
      todo.pop_back();
      post_order(e, [&](const ObjectRef& n) {
        const auto* v = n.as<Var>();
        if (!v || !met.insert(v).second) return;
        u.carried.insert(v);
        if (auto it = values_.find(v); it != values_.end()) todo.push_back(it->second);
      });
    }
  }

  std::vector<const StmtNode*> path_;
  VarMap values_;
  std::vector<PrimExpr> reductions_;
  bool in_reduction_ = false;
  int conditional_ = 0;
};

class Placer : public tensor_detail::Rewriter {
 public:
  explicit Placer(std::unordered_map<const StmtNode*, Array<Buffer>> at) : at_(std::move(at)) {}
  Stmt stmt(const Stmt& s) override {
    if (!s) return s;
    auto it = at_.find(s.get());
    if (const auto* n = s.as<Block>()) {
      Array<Buffer> allocs = it == at_.end() ? Array<Buffer>() : it->second;
      const Stmt below_ = below(s);
      if (allocs.empty() && n->alloc_buffers.empty()) return below_;
      return tensor_detail::edited<Block>(below_, [&](Block* b) { b->alloc_buffers = allocs; });
    }
    if (s.is<For>() && it != at_.end()) {
      return tensor_detail::edited<For>(below(s), [&](For* n) {
        auto block = make<Block>(Array<IterVar>(), Array<BufferRegion>(), Array<BufferRegion>(),
                                 std::string("scratch"), n->body, Stmt(), it->second,
                                 Array<MatchBufferRegion>(), AttrMap());
        const AccessRegions touched = detect_access_regions(block);
        block.edit()->reads = touched.reads;
        block.edit()->writes = touched.writes;
        n->body = make<BlockRealize>(Array<PrimExpr>(), true_(), block);
      });
    }
    return below(s);
  }

 private:
  std::unordered_map<const StmtNode*, Array<Buffer>> at_;
};

Stmt plan(const PrimFunc& f) {
  Uses uses;
  uses.stmt(f->body);
  std::unordered_map<const StmtNode*, Array<Buffer>> at;
  bool any = false;
  pre_order(f->body, [&](const ObjectRef& node) {
    const auto* block = node.as<Block>();
    if (!block) return node.is<StmtNode>();
    for (const Buffer& b : block->alloc_buffers) {
      const StmtNode* place = block;
      auto it = uses.info.find(b->data.get());
      any = true;
      if (it == uses.info.end() || !it->second.seen) {  // no use: no memory
        if (it == uses.info.end()) continue;
      } else if (!it->second.opaque && it->second.first_is_store) {
        const auto& path = it->second.path;
        bool below = false;
        for (const StmtNode* s : path) {
          if (!below) {
            below = s == block;
            continue;
          }
          // Its size must be known there: that holds further in whenever it holds here.
          if (const auto* loop = Stmt(Ref<StmtNode>(s)).as<For>()) {
            if (it->second.carried.count(loop->loop_var.get()) || loop->kind == ForKind::vectorized ||
                loop->kind == ForKind::unrolled)
              break;
            place = s;
          } else {
            place = s;
          }
        }
      }
      at[place].push_back(b);
    }
    return true;
  });
  if (!any) return f->body;
  return Placer(std::move(at)).stmt(f->body);
}

}  // namespace

static IRModule plan_buffer_allocation(IRModule module, PassContext&) {
  return tensor_detail::map_bodies(module, [](const std::string&, const PrimFunc& f) { return plan(f); });
}

const Pass& plan_buffer_allocation_pass = register_pass({
    .name = "plan_buffer_allocation",
    .run = plan_buffer_allocation,
    .level = 0,
    .summary = "buffers move to where all uses are below",
});

}  // namespace tenon
