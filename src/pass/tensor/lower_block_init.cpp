// SPDX-License-Identifier: Apache-2.0
// lower_block_init
//   before: with T.block(): with T.init(): I;  B
//   after:  with T.block(): if v_k == 0: I;  B          (all reduction iterators at their first value)
// Where a loop of the reduction may run not once, the init becomes a block of its own in front of that loop,
// because a reduction over nothing gives its identity:
//   before: for k in range(n): for j in range(8): with T.block("b"): with T.init(): I;  B
//   after:  for j in range(8): with T.block("b_init"): I;  for k in range(n): for j …: with T.block("b"): B
// Needs: blocks. Keeps: everything else, iterators included.
#include <unordered_set>

#include "analysis/condition.h"
#include "ir/find_node.h"
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;

namespace {

using Vars = std::unordered_set<const Object*>;

bool uses_any(const ObjectRef& e, const Vars& vars) {
  return !vars.empty() && any_node(e, [&](const ObjectRef& n) { return vars.count(n.get()); });
}

class LowerInit : public tensor_detail::Rewriter {
 public:
  explicit LowerInit(const PrimFunc& f) {
    for (const VarRef& v : tensor_detail::sizes_of(f)) analyzer_.assume_size(v, 0);
  }

  Stmt stmt(const Stmt& s) override {
    if (!s) return s;
    if (const auto* n = s.as<For>()) {
      analyzer_.bind(n->loop_var, range(n->min, n->extent));
      path_.push_back(n);
      const Stmt body = stmt(n->body);
      path_.pop_back();
      const Stmt loop =
          body.same_as(n->body) ? s : tensor_detail::edited<For>(s, [&](For* m) { m->body = body; });
      auto it = before_.find(n);
      if (it == before_.end()) return loop;
      it->second.push_back(loop);
      return seq(it->second);
    }
    if (const auto* n = s.as<BlockRealize>()) {
      Ref<Block> block = n->block;
      if (block->init) {
        const bool moved = move_out(*n);
        Block* b = block.edit();
        if (!moved) b->body = seq({guarded(*b), b->body});
        b->init = Stmt();
      }
      const std::vector<const For*> outer = std::exchange(path_, {});
      block = stmt(block).cast<Block>();
      path_ = outer;
      if (block.same_as(n->block)) return s;
      return tensor_detail::edited<BlockRealize>(s, [&](BlockRealize* m) { m->block = block; });
    }
    if (const auto* n = s.as<Block>(); n && n->init) {
      return below(tensor_detail::edited<Block>(s, [&](Block* b) {
        b->body = seq({guarded(*b), b->body});
        b->init = Stmt();
      }));
    }
    if (s.is<SeqStmt>() || s.is<AttrStmt>() || s.is<Block>()) return below(s);
    path_.push_back(nullptr);  // what stands here would have to move along
    const Stmt r = below(s);
    path_.pop_back();
    return r;
  }
  PrimExpr expr(const PrimExpr& e) override { return e; }

 private:
  static Stmt guarded(const Block& n) {
    PrimExpr first = true_();
    for (const IterVar& v : n.iter_vars)
      if (v->kind == IterKind::reduce) first = logical_and(first, eq(v->var, v->dom->min));
    return is_one(first) ? n.init : Stmt(make<IfThenElse>(first, n.init, Stmt()));
  }

  /// Puts the init in front of the outermost loop of a reduction that may be empty. False: it cannot be
  /// empty, or the init cannot stand there.
  bool move_out(const BlockRealize& r) {
    const Block& b = *r.block;
    if (!b.match_buffers.empty()) return false;
    auto feeds = [&](const For* loop, IterKind kind) {
      for (size_t i = 0; i < r.iter_values.size(); ++i)
        if (b.iter_vars[i]->kind == kind && uses_any(r.iter_values[i], {loop->loop_var.get()})) return true;
      return false;
    };
    size_t first = path_.size();
    bool may_be_empty = false;
    for (size_t i = path_.size(); i-- > 0 && path_[i];) {
      if (!feeds(path_[i], IterKind::reduce)) continue;
      may_be_empty = may_be_empty || !analyzer_.can_prove_ge(path_[i]->extent, 1);
      if (!is_one(path_[i]->extent)) first = i;
    }
    if (!may_be_empty) return false;

    VarMap fresh;  // loops that carry spatial iterators are made again
    Vars dropped, copied;
    std::vector<const For*> loops;
    for (size_t i = first; i < path_.size(); ++i) {
      const For* loop = path_[i];
      const bool spatial = feeds(loop, IterKind::spatial);
      if (feeds(loop, IterKind::reduce)) {
        if (spatial) return false;
        dropped.insert(loop->loop_var.get());
      } else if (spatial) {
        if (uses_any(loop->min, dropped) || uses_any(loop->extent, dropped)) return false;
        fresh[loop->loop_var.get()] = var(loop->loop_var->name, loop->loop_var->dtype);
        copied.insert(loop->loop_var.get());
        loops.push_back(loop);
      } else if (!is_one(loop->extent)) {
        return false;  // it repeats the reduction
      } else {
        dropped.insert(loop->loop_var.get());
      }
    }
    if (reads_what_changes(b.init, path_[first]->body)) return false;
    PrimExpr predicate = true_();
    for (const PrimExpr& c : conjuncts(r.predicate)) {
      if (!uses_any(c, dropped)) {
        predicate = logical_and(predicate, substitute(c, fresh));
      } else if (uses_any(c, copied)) {
        return false;
      }
    }

    Array<IterVar> iters;
    Array<PrimExpr> values;
    VarMap inside;
    for (size_t i = 0; i < b.iter_vars.size(); ++i) {
      const IterVar& v = b.iter_vars[i];
      if (v->kind == IterKind::reduce) continue;
      iters.push_back(iter_var(v->dom, v->var->name, v->kind));
      inside[v->var.get()] = iters.back()->var;
      values.push_back(substitute(r.iter_values[i], fresh));
    }
    auto block = make<Block>(iters, Array<BufferRegion>(), Array<BufferRegion>(), b.name + "_init",
                             rename_definitions(substitute(b.init, inside)), Stmt(), Array<Buffer>(),
                             Array<MatchBufferRegion>(), AttrMap());
    const AccessRegions access = detect_access_regions(block);
    block.edit()->reads = access.reads;
    block.edit()->writes = access.writes;
    Stmt init = make<BlockRealize>(values, predicate, block);
    for (size_t i = loops.size(); i-- > 0;) {
      const For& l = *loops[i];
      init = for_(fresh.at(l.loop_var.get()).cast<Var>(), substitute(l.min, fresh),
                  substitute(l.extent, fresh), init, l.kind == ForKind::parallel ? ForKind::serial : l.kind);
    }
    before_[path_[first]].push_back(init);
    return true;
  }

  /// Does the init read what `body` writes, beside its own target?
  static bool reads_what_changes(const Stmt& init, const Stmt& body) {
    Vars read, written;
    auto look = [](const ObjectRef& root, Vars& loads, Vars& stores) {
      post_order(root, [&](const ObjectRef& n) {
        if (const auto* l = n.as<BufferLoad>()) loads.insert(l->buffer->data.get());
        if (const auto* st = n.as<BufferStore>()) stores.insert(st->buffer->data.get());
      });
    };
    Vars unused;
    look(init, read, unused);
    if (read.empty()) return false;
    look(body, unused, written);
    for (const Object* v : read)
      if (written.count(v)) return true;
    return false;
  }

  Analyzer analyzer_;
  std::vector<const For*> path_;  ///< loops since the block around; null: anything else
  std::unordered_map<const For*, Array<Stmt>> before_;
};

}  // namespace

const Pass& lower_block_init_pass = register_pass({
    .name = "lower_block_init",
    .run = tensor_detail::each_body<LowerInit>,
    .level = 0,
    .summary = "a block's init becomes an if on its first iteration",
});

}  // namespace tenon
