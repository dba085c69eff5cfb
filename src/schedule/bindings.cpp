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
      if (is_one(r->extent)) {
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
  while (!running.empty()) running.pop_back();
  known.push_back({r, key, value});
  return value;
}

}  // namespace tenon::sched
