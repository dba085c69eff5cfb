// SPDX-License-Identifier: Apache-2.0
// The rule for programs that work row by row (softmax, normalisation, sums along memory): all stages run for
// one row before the next, rows are parallel, sums along memory keep one partial result for each lane.
#include <algorithm>
#include <set>

#include "autoschedule/rules.h"

namespace tenon::rules {

using namespace tir;

namespace {

/// The reduction runs along memory: some load steps by 1 with its last reduction iterator, none gathers.
bool along_memory(const Facts& f) {
  if (f.reduce.empty()) return false;
  const size_t k = size_t(f.reduce.back());
  bool unit = false;
  for (const Access& l : f.loads) {
    if (l.stride[k] == 1)
      unit = true;
    else if (l.stride[k] != 0)
      return false;
  }
  return unit;
}

/// Lanes of partial results for a reduction of `size` steps; 1: not worth it.
int64_t partial_lanes(int64_t size, int64_t lanes) {
  if (size == kUnknown) return lanes;
  if (size >= 16 * lanes) return 4 * lanes;
  while (lanes > 4 && lanes > size) lanes /= 2;
  return lanes * 2 > size ? 1 : lanes;
}

/// Factors the reduction into lanes; the factored block comes out, or id -1.
BlockRV factor(Schedule& s, BlockRV r, const Target& target) {
  auto f = facts_of(s, r);
  BlockRV out;
  if (!f || !f->block->init || !along_memory(*f)) return out;
  // Iterators that step through memory as one are one.
  std::vector<int> joined{f->reduce.back()};
  int64_t size = f->extent[size_t(f->reduce.back())];
  for (size_t i = f->reduce.size() - 1; i-- > 0 && size != kUnknown;) {
    const size_t at = size_t(f->reduce[i]), next = size_t(joined.front());
    bool all = f->extent[at] != kUnknown && at + 1 == next && !f->in_value[at] && !f->in_value[next];
    for (const Access& l : f->loads)
      all = all && l.stride[at] != kIrregular && l.stride[at] == l.stride[next] * f->extent[next];
    if (!all) break;
    joined.insert(joined.begin(), int(at));
    size *= f->extent[at];
  }
  const int64_t lanes = partial_lanes(size, lanes_for(*f, target));
  if (lanes < 2) return out;
  attempt(s, [&](Schedule& t) {
    if (joined.size() > 1) t.fuse_iterators(r, joined[0], int(joined.size()));
    if (size == kUnknown || size % lanes) t.pad_iteration(r, joined[0], lanes);
    out = t.rfactor(t.split(t.get_loops(r)[size_t(joined[0])], {-1, lanes})[1], -1);
  });
  return out;
}

/// Loops of a reduction below the row loop: steps outside, the lanes or the contiguous axis inside.
void arrange(Schedule& s, BlockRV b, size_t outer, const Target& target) {
  attempt(s, [&](Schedule& t) {
    std::vector<LoopRV> loops = t.get_loops(b), spatial, steps;
    const Ref<BlockRealize> r = t.realize(b);
    for (size_t l = outer; l < loops.size(); ++l) {
      const Var* v = t.get(loops[l])->loop_var.get();
      bool reduce = false;
      for (size_t i = 0; i < r->iter_values.size(); ++i) {
        bool uses = false;
        pre_order(r->iter_values[i], [&](const ObjectRef& n) {
          uses = uses || n.get() == v;
          return !uses;
        });
        reduce = reduce || (uses && r->block->iter_vars[i]->kind == IterKind::reduce);
      }
      (reduce ? steps : spatial).push_back(loops[l]);
    }
    if (spatial.empty() || steps.empty()) return;
    // The last spatial loop becomes the inner one, in lanes.
    LoopRV v = spatial.back();
    spatial.pop_back();
    const auto extent = as_int(t.get(v)->extent);
    int64_t lanes = 1;
    const auto* store = r->block->body.as<BufferStore>();
    if (!store) return;
    while (lanes * 2 <= target->vector_bits / std::max<int>(8, store->buffer->dtype.bits)) lanes *= 2;
    std::vector<LoopRV> order = spatial;
    if (extent && (*extent == lanes || *extent == 4 * lanes)) {
      order.insert(order.end(), steps.begin(), steps.end());
      order.push_back(v);
      t.reorder(order);
    } else {
      if (extent && *extent < 4) return;
      while (extent && lanes > *extent) lanes /= 2;
      std::vector<LoopRV> parts = t.split(v, {-1, lanes});
      order.push_back(parts[0]);
      order.insert(order.end(), steps.begin(), steps.end());
      order.push_back(parts[1]);
      t.reorder(order);
      v = parts[1];
    }
    BlockRV init = t.decompose_reduction(b, steps[0]);
    attempt(t, [&](Schedule& x) { x.vectorize(x.get_loops(init).back()); });
    t.vectorize(v);
  });
}

}  // namespace

bool row_cluster(Schedule& s, BlockRV last, const Target& target, std::vector<int32_t>& done) {
  auto is_done = [&](BlockRV b) { return std::find(done.begin(), done.end(), b.id) != done.end(); };
  // Everything that leads to `last` and is not scheduled yet.
  std::set<int32_t> cluster;
  std::vector<BlockRV> stack{last};
  bool reductions = false;
  while (!stack.empty()) {
    BlockRV b = stack.back();
    stack.pop_back();
    if (!cluster.insert(b.id).second) continue;
    Ref<Block> block = s.get(b);
    reductions = reductions || block->init;
    for (BlockRV p : s.get_producers(b))
      if (!is_done(p)) stack.push_back(p);
  }
  if (!reductions) return false;
  auto f = facts_of(s, last);
  if (!f) return false;
  Schedule t = s;
  BlockRV anchor = last;
  std::vector<BlockRV> members;
  for (BlockRV b : t.blocks())
    if (cluster.count(b.id)) members.push_back(b);
  // Sums along memory first get their lanes.
  bool memory = false;
  int64_t work = 0;
  std::vector<BlockRV> all;
  for (BlockRV b : members) {
    auto g = facts_of(t, b);
    const int64_t instances = g ? g->instances(false) : kUnknown;
    work = work == kUnknown || instances == kUnknown ? kUnknown : work + instances;
    if (g && g->is_reduction() && along_memory(*g)) {
      memory = true;
      BlockRV part = factor(t, b, target);
      if (part.id >= 0) all.push_back(part);
    }
    all.push_back(b);
  }
  // Rows: the iterators of the last block that lead to the results of reductions it needs.
  std::vector<bool> row(f->extent.size(), false);
  if (f->is_reduction()) {
    for (int i : f->spatial) row[size_t(i)] = true;
  } else {
    bool any = false;
    for (const Access& l : f->loads) {
      bool of_cluster = false;
      for (BlockRV b : all)
        if (b.id != last.id)
          for (const BufferRegion& w : t.get(b)->writes)
            of_cluster = of_cluster || (w->buffer.same_as(l.buffer) && t.get(b)->init);
      if (!of_cluster) continue;
      for (size_t i = 0; i < row.size(); ++i)
        if (l.stride[i] != 0 && f->extent[i] != 1)
          row[i] = any ? bool(row[i]) : true;
        else
          row[i] = false;
      any = true;
    }
    if (!any) return false;
  }
  if (!memory && !row.empty() && row.back()) {
    row.back() = false;  // reductions across memory: rows of the contiguous axis stay inside, as vectors
  }
  std::vector<LoopRV> loops = t.get_loops(anchor), rows, rest;
  int64_t count = 1;
  for (size_t i = 0; i < loops.size() && i < row.size(); ++i) {
    (row[i] ? rows : rest).push_back(loops[i]);
    if (row[i]) count = count == kUnknown || f->extent[i] == kUnknown ? kUnknown : count * f->extent[i];
  }
  for (size_t i = row.size(); i < loops.size(); ++i) rest.push_back(loops[i]);
  LoopRV around{-1};
  if (!rows.empty()) {
    const bool placed = attempt(t, [&](Schedule& x) {
      std::vector<LoopRV> order = rows;
      order.insert(order.end(), rest.begin(), rest.end());
      if (!rest.empty()) x.reorder(order);
      around = x.fuse(rows);
    });
    if (!placed) return false;
  }
  std::vector<BlockRV> inside;
  if (around.id >= 0) {
    for (size_t i = all.size(); i-- > 0;) {
      BlockRV b = all[i];
      if (b.id == anchor.id) {
        inside.push_back(b);
        continue;
      }
      // What does not differ from row to row stays outside.
      auto g = facts_of(t, b);
      const int64_t made = g ? g->instances(true) : kUnknown;
      if (count != kUnknown && made != kUnknown && made < count) continue;
      if (attempt(t, [&](Schedule& x) { x.compute_at(b, around); })) inside.push_back(b);
    }
  }
  if (around.id >= 0 && inside.size() < 2 && !f->is_reduction()) return false;
  for (BlockRV b : inside) {
    const size_t outer = 1;
    if (t.get(b)->init)
      arrange(t, b, outer, target);
    else
      vectorize_inner(t, b, outer, target);
    done.push_back(b.id);
  }
  // No rows: the stages stand one after the other; each still uses its lanes.
  if (around.id < 0)
    for (BlockRV b : all)
      if (t.get(b)->init) {
        arrange(t, b, 0, target);
        done.push_back(b.id);
      }
  if (around.id >= 0) {
    if (count != 1 && (work == kUnknown || work * 4 > 16384))
      attempt(t, [&](Schedule& x) { x.parallel(around); });
  }
  s = t;
  return true;
}

}  // namespace tenon::rules
