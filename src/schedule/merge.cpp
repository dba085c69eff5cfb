// SPDX-License-Identifier: Apache-2.0
// merge: neighbouring nests of equal loops become one nest that runs both bodies in each iteration.
#include <fmt/format.h>

#include <algorithm>

#include "schedule/define.h"

namespace tenon::sched {

using namespace tir;

namespace {

/// Boxes of different iterations of the analyzer's `loops` do not meet.
bool boxes_apart(const BufferRegion& box, const std::vector<Ref<For>>& loops, Analyzer& a) {
  IterMap d(a);
  for (const Ref<For>& l : loops) d.add(l->loop_var, l->min, l->extent);
  Array<PrimExpr> at;
  for (const Range& r : box->region) {
    if (is_one(r->extent)) {
      at.push_back(r->min);
      continue;
    }
    const ConstBound size = a.bound(r->extent);
    const PrimExpr step = size.max == ConstBound::pos_inf ? r->extent : PrimExpr(size.max);
    if (is_zero(step) || !is_zero(a.simplify(floormod(r->min, step)))) return false;
    at.push_back(a.simplify(floordiv(r->min, step)));
  }
  return d.run(at).injective;
}

void merge_two(State& s, int32_t first, int32_t second) {
  // Up to the lowest loop or block that holds both.
  std::vector<int32_t> a{first}, b{second};
  std::vector<int32_t> above;
  for (int32_t p = s.parent(first); p >= 0; p = s.parent(p)) above.push_back(p);
  int32_t lca = s.parent(second);
  while (lca >= 0 && std::find(above.begin(), above.end(), lca) == above.end()) {
    b.push_back(lca);
    lca = s.parent(lca);
  }
  if (first == second || lca < 0 || lca == first || s.inside(second, first) || s.inside(first, second))
    s.refuse("T0792", second, fmt::format("it and {} are not beside one another", s.describe(first)),
             "merge takes loops of neighbouring nests");
  for (int32_t p = s.parent(first); p != lca; p = s.parent(p)) a.push_back(p);
  std::reverse(a.begin(), a.end());
  std::reverse(b.begin(), b.end());
  for (const auto* chain : {&a, &b})
    for (int32_t l : *chain)
      if (s.is_block(l))
        s.refuse("T0792", l, "a block lies between the loop and what holds both", "merge inside one block");
  if (a.size() != b.size())
    s.refuse("T0792", second,
             fmt::format("it lies {} loops deep, {} {}", b.size(), s.describe(first), a.size()),
             "split or add_unit_loop gives both nests one depth");
  for (const auto* chain : {&a, &b})
    for (size_t i = 0; i < chain->size(); ++i) {
      require_plain(s, (*chain)[i]);
      if (i + 1 < chain->size() && !s.loop((*chain)[i])->body.same_as(s.loop((*chain)[i + 1])))
        s.refuse("T0792", (*chain)[i], fmt::format("it holds more than {}", s.describe((*chain)[i + 1])));
    }
  const Stmt holder = s.is_block(lca) ? s.block(lca)->body : s.loop(lca)->body;
  const auto* q = holder.as<SeqStmt>();
  size_t at = 0;
  if (q)
    while (at + 1 < q->seq.size() && !q->seq[at].same_as(s.loop(a[0]))) ++at;
  if (!q || at + 1 >= q->seq.size() || !q->seq[at + 1].same_as(s.loop(b[0])))
    s.refuse("T0792", second, fmt::format("its nest does not directly follow that of {}", s.describe(first)),
             "give the earlier loop first; compute_at moves what lies between");
  VarMap to_first;
  std::vector<Ref<For>> loops;
  Analyzer analyzer = s.analyzer();
  bind_loops(s, analyzer, first);
  for (size_t i = 0; i < a.size(); ++i) {
    Ref<For> x = s.loop(a[i]), y = s.loop(b[i]);
    if (!analyzer.can_prove_equal(x->min, substitute(y->min, to_first)) ||
        !analyzer.can_prove_equal(x->extent, substitute(y->extent, to_first)))
      s.refuse("T0792", b[i], fmt::format("it does not provably run as often as {}", s.describe(a[i])));
    to_first[y->loop_var.get()] = x->loop_var;
    loops.push_back(x);
  }
  // What both touch and one writes must be apart in different iterations.
  auto scope = s.scope(s.scope_of(first));
  Analyzer other = s.analyzer();
  bind_loops(s, other, second);
  for (int32_t x : s.blocks_below(first))
    for (int32_t y : s.blocks_below(second)) {
      const Leaf &one = scope->leaves[size_t(scope->find(x))], &two = scope->leaves[size_t(scope->find(y))];
      struct Access {
        BufferRegion region;
        bool write;
      };
      auto accesses = [](const Leaf& l) {
        std::vector<Access> out;
        for (const BufferRegion& r : l.realize->block->writes) out.push_back({r, true});
        for (const BufferRegion& r : l.realize->block->reads) out.push_back({r, false});
        return out;
      };
      for (const Access& u : accesses(one))
        for (const Access& v : accesses(two)) {
          if (!u.region->buffer.same_as(v.region->buffer) || (!u.write && !v.write)) continue;
          const BufferRegion early = region_below(s, one, u.region, first, analyzer);
          BufferRegion late = region_below(s, two, v.region, second, other);
          Array<Range> mapped;
          for (const Range& r : late->region)
            mapped.push_back(range(analyzer.simplify(substitute(r->min, to_first)),
                                   analyzer.simplify(substitute(r->extent, to_first))));
          late = make<BufferRegionNode>(late->buffer, mapped);
          const bool covers = region_covers(early, late, analyzer);
          if ((covers || region_covers(late, early, analyzer)) &&
              boxes_apart(covers ? early : late, loops, analyzer))
            continue;
          s.refuse(
              "T0729", y,
              fmt::format("it and {} touch elements of '{}' in different iterations of the merged loops, so "
                          "their order would change",
                          s.describe(x), u.region->buffer->name),
              "merge loops over dimensions that both index alike");
        }
    }
  Stmt body = seq({s.loop(first)->body, substitute(s.loop(second)->body, to_first)});
  for (size_t i = a.size(); i-- > 0;) body = with_body(s.loop(a[i]), body);
  Array<Stmt> list;
  for (size_t i = 0; i < q->seq.size(); ++i)
    if (i != at + 1) list.push_back(i == at ? body : q->seq[i]);
  if (s.is_block(lca))
    s.replace_body(lca, seq(list));
  else
    s.replace(lca, with_body(s.loop(lca), seq(list)));
}

}  // namespace

static int32_t merge(State& s, const std::vector<int32_t>& loops) {
  for (int32_t l : loops) s.loop(l);
  if (loops.size() < 2) {
    if (loops.empty()) throw ScheduleError(ErrorKind::model, "T0792", "merge needs two loops or more");
    s.refuse("T0792", loops[0], "one loop alone cannot be merged", "give two loops or more");
  }
  State trial = s;
  trial.facts = std::make_shared<FactCache>();
  for (size_t i = 1; i < loops.size(); ++i) merge_two(trial, loops[0], loops[i]);
  s = std::move(trial);
  return loops[0];
}

const Define<&Schedule::merge, merge> merge_record{
    {.name = "merge",
     .does = "neighbouring nests of one shape become one, which runs all their bodies",
     .legal = "the nests follow one another, are equally deep and run equally often, and what one writes the "
              "others touch in the same iteration",
     .parameters = {{"loops",
                     "the innermost to merge of each nest, in the program's order; the first stays"}},
     .sample = {samples::transpose, R"(
c = sch.get_block("C")
i, j = sch.get_loops(c)
d = sch.get_block("D")
x, y = sch.get_loops(d)
both = sch.merge([j, y])
)"}}};

}  // namespace tenon::sched
