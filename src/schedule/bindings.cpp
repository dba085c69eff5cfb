// SPDX-License-Identifier: Apache-2.0
// How iterators are bound to loops: whether different loop values run different block instances, which is
// what parallel, vectorised and reordered loops need.
#include <algorithm>

#include "analysis/iter_map.h"
#include "schedule/state.h"

namespace tenon::sched {

using namespace tir;

bool writes_apart(const State& s, const Ref<Block>& b) {
  Analyzer analyzer = s.analyzer();
  for (const IterVar& v : b->iter_vars) analyzer.bind(v->var, v->dom, true);
  for (const BufferRegion& w : b->writes) {
    // Where something is written, the buffer has elements, which symbolic sizes need not show.
    std::vector<Analyzer::Scope> written;
    for (const PrimExpr& size : w->buffer->shape)
      if (!as_int(size)) written.push_back(analyzer.assume(ge(size, PrimExpr(1))));
    IterMap d(analyzer);
    for (const IterVar& v : b->iter_vars)
      if (v->kind == IterKind::spatial) d.add(v->var, v->dom->min, v->dom->extent);
    Array<PrimExpr> at;
    for (const Range& r : w->region) {
      // One element, or a box that begins where those of all runs do.
      if (is_one(r->extent) || is_zero(r->min)) {
        at.push_back(r->min);
        continue;
      }
      // Boxes side by side: whole steps of at most the step's size.
      const ConstBound size = analyzer.bound(r->extent);
      const PrimExpr step = size.max == ConstBound::pos_inf ? r->extent : PrimExpr(size.max);
      if (!is_zero(analyzer.simplify(floormod(r->min, step)))) return false;
      at.push_back(analyzer.simplify(floordiv(r->min, step)));
    }
    if (!d.run(at).injective) return false;
  }
  return true;
}

/// Do the loops give different values, judged for each group of iterators that share no loop with others?
/// Simplified digits of a loop with a ragged end may have lost the number that they are of: as one number,
/// the iterators of a group are it again.
static bool apart_in_groups(const State& s, Analyzer& analyzer, const std::vector<int32_t>& loops,
                            const Ref<BlockRealize>& r) {
  struct Group {
    std::vector<int32_t> loops;
    std::vector<size_t> iterators;
  };
  std::vector<Group> groups;
  std::vector<int32_t> used;
  for (size_t i = 0; i < r->iter_values.size(); ++i) {
    Group g{{}, {i}};
    for (int32_t l : loops)
      if (uses(r->iter_values[i], s.loop(l)->loop_var.get())) g.loops.push_back(l);
    for (size_t k = groups.size(); k-- > 0;) {
      const std::vector<int32_t>& other = groups[k].loops;
      if (std::find_first_of(other.begin(), other.end(), g.loops.begin(), g.loops.end()) == other.end())
        continue;
      for (int32_t l : other)
        if (std::find(g.loops.begin(), g.loops.end(), l) == g.loops.end()) g.loops.push_back(l);
      g.iterators.insert(g.iterators.begin(), groups[k].iterators.begin(), groups[k].iterators.end());
      groups.erase(groups.begin() + std::ptrdiff_t(k));
    }
    groups.push_back(std::move(g));
  }
  for (const Group& g : groups) {
    used.insert(used.end(), g.loops.begin(), g.loops.end());
    PrimExpr number(0);
    for (size_t i : g.iterators) number = number * r->block->iter_vars[i]->dom->extent + r->iter_values[i];
    IterMap d(analyzer);
    for (int32_t l : g.loops) d.add(s.loop(l)->loop_var, s.loop(l)->min, s.loop(l)->extent);
    if (!d.run({analyzer.simplify(number)}).injective) return false;
  }
  return std::all_of(loops.begin(), loops.end(), [&](int32_t l) {
    return is_one(s.loop(l)->extent) || std::find(used.begin(), used.end(), l) != used.end();
  });
}

Binding State::binding(int32_t block, const std::vector<int32_t>& loops) {
  Ref<BlockRealize> r = realize(block);
  std::vector<ObjectRef> key;
  for (int32_t l : loops) key.push_back(loop(l)->loop_var), key.push_back(loop(l)->extent);
  auto& known = facts->bindings[r.get()];
  for (const auto& f : known)
    if (f.realize.same_as(r) && f.ranges.size() == key.size() &&
        std::equal(key.begin(), key.end(), f.ranges.begin(),
                   [](const ObjectRef& a, const ObjectRef& b) { return a.get() == b.get(); }))
      return f.value;
  Analyzer analyzer = this->analyzer();
  bind_loops(*this, analyzer, block);
  // Instances run only where every extent is at least 1, which symbolic ones need not show.
  std::vector<Analyzer::Scope> running;
  auto runs = [&](const PrimExpr& extent) {
    if (!as_int(extent) && !extent.is<Var>()) running.push_back(analyzer.assume(ge(extent, PrimExpr(1))));
  };
  for (int32_t l : loops_of(block)) runs(loop(l)->extent);
  for (const IterVar& v : r->block->iter_vars) runs(v->dom->extent);
  IterMap d(analyzer);
  for (int32_t l : loops) d.add(loop(l)->loop_var, loop(l)->min, loop(l)->extent);
  Binding value = d.run(r->iter_values);
  // What tells all loops apart tells some of them apart while the others stand still.
  if (const std::vector<int32_t> all = loops_of(block); !value.injective && all.size() > loops.size()) {
    IterMap whole(analyzer);
    for (int32_t l : all) whole.add(loop(l)->loop_var, loop(l)->min, loop(l)->extent);
    Binding of_all = whole.run(r->iter_values);
    if (of_all.injective) value = of_all;
  }
  if (!value.injective) value.injective = apart_in_groups(*this, analyzer, loops, r);
  while (!running.empty()) running.pop_back();
  known.push_back({r, key, value});
  return value;
}

}  // namespace tenon::sched
