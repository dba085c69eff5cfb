// SPDX-License-Identifier: Apache-2.0
// Primitives that change the shape of loops: split, loop_partition, fuse, reorder, add_unit_loop.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "schedule/define.h"

namespace tenon::sched {

using namespace tir;

void require_plain(const State& s, int32_t id) {
  Ref<For> l = s.loop(id);
  if (l->kind != ForKind::serial)
    s.refuse("T0710", id, "the loop is already parallel, vectorised or unrolled",
             "change its shape first and choose its kind last");
  if (!l->annotations.empty())
    s.refuse("T0711", id,
             fmt::format("the loop carries the annotation '{}'", (*l->annotations.begin()).first),
             "unannotate it first");
}

namespace {

/// `body` with `loop` variables replaced by expressions and `guard` added to the predicates of the blocks
/// directly below; statements outside blocks are guarded by an if. Bindings are simplified under `analyzer`.
Stmt rebind(const Stmt& body, const VarMap& map, const PrimExpr& guard, Analyzer& analyzer) {
  Stmt mapped = substitute(body, map);
  bool outside = false;  // something below is no block
  Stmt out = rewrite_any(
                 mapped,
                 [&](const ObjectRef& n) -> ObjectRef {
                   if (const auto* l = n.as<For>()) {
                     PrimExpr min = analyzer.simplify(l->min), extent = analyzer.simplify(l->extent);
                     if (min.same_as(l->min) && extent.same_as(l->extent)) return {};
                     Ref<For> copy = n.cast<For>();
                     copy.edit()->min = min;
                     copy.edit()->extent = extent;
                     return copy;
                   }
                   return {};
                 },
                 [&](const ObjectRef& n) {
                   if (n.is<BufferStore>() || n.is<Evaluate>()) outside = true;
                   return !n.is<StmtNode>() || n.is<BlockRealize>();
                 })
                 .cast<StmtNode>();
  // Blocks under inner loops know those loops' ranges too: bind them on the way down.
  struct Walk {
    const PrimExpr& guard;
    Analyzer& analyzer;
    bool outside;
    Stmt run(const Stmt& s, int depth) {
      CHECK(depth < 1000, "statements nest too deeply");
      if (const auto* r = s.as<BlockRealize>()) {
        Ref<BlockRealize> copy = s.cast<BlockRealize>();
        Array<PrimExpr> values;
        for (const PrimExpr& v : r->iter_values) values.push_back(analyzer.simplify(v));
        PrimExpr predicate = analyzer.simplify(r->predicate);
        if (guard && !outside) predicate = logical_and(predicate, guard);
        BlockRealize* e = copy.edit();
        e->iter_values = values;
        e->predicate = predicate;
        return copy;
      }
      if (const auto* l = s.as<For>()) analyzer.bind(l->loop_var, range(l->min, l->extent), true);
      ObjectRef next = map_children(s, [&](const ObjectRef& c) -> ObjectRef {
        return c.is<StmtNode>() ? ObjectRef(run(c.cast<StmtNode>(), depth + 1)) : c;
      });
      return next.cast<StmtNode>();
    }
  };
  out = Walk{guard, analyzer, outside}.run(out, 0);
  if (guard && outside) out = make<IfThenElse>(guard, out, Stmt());
  return out;
}

/// Is `inner` the whole body of `outer`?
bool perfectly_nested(const State& s, int32_t outer, int32_t inner) {
  return s.loop(outer)->body.same_as(s.loop(inner));
}

}  // namespace

static std::vector<int32_t> split(State& s, int32_t loop_id, std::vector<int64_t> factors) {
  require_plain(s, loop_id);
  Ref<For> loop = s.loop(loop_id);
  if (factors.empty())
    s.refuse("T0718", loop_id, "no factors are given",
             "give one factor for each new loop; one of them may be -1");
  int inferred = -1;
  int64_t product = 1;
  for (size_t i = 0; i < factors.size(); ++i) {
    if (factors[i] == -1) {
      if (inferred >= 0) s.refuse("T0718", loop_id, "two factors are -1, only one can be inferred");
      inferred = int(i);
    } else if (factors[i] < 1 || product > (int64_t(1) << 40) / factors[i]) {
      s.refuse("T0718", loop_id,
               fmt::format("the factor {} is not a usable number of iterations", factors[i]),
               "factors are 1 or more; one may be -1");
    } else {
      product *= factors[i];
    }
  }
  Analyzer analyzer = s.analyzer();
  bind_loops(s, analyzer, s.parent(loop_id));
  Array<PrimExpr> extents;
  for (size_t i = 0; i < factors.size(); ++i)
    extents.push_back(int(i) == inferred ? analyzer.simplify(ceildiv(loop->extent, PrimExpr(product)))
                                         : PrimExpr(factors[i]));
  if (inferred < 0 && !analyzer.can_prove(le(loop->extent, PrimExpr(product))))
    s.refuse("T0719", loop_id,
             fmt::format("the factors make {} iterations, which may be fewer than the loop has", product),
             "use -1 for one factor");
  std::vector<VarRef> vars;
  PrimExpr value = PrimExpr(0), total = PrimExpr(1);
  for (size_t i = 0; i < factors.size(); ++i) {
    vars.push_back(var(fmt::format("{}_{}", loop->loop_var->name, i), loop->loop_var->dtype));
    analyzer.bind(vars[i], range(PrimExpr(0), extents[i]), true);
    value = value * extents[i] + vars[i];
    total = total * extents[i];
  }
  value = analyzer.simplify(value);
  PrimExpr guard;
  if (!analyzer.can_prove_equal(total, loop->extent)) guard = lt(value, loop->extent);
  if (guard && analyzer.can_prove(guard)) guard = PrimExpr();
  Stmt body = rebind(loop->body, {{loop->loop_var.get(), is_zero(loop->min) ? value : loop->min + value}},
                     guard, analyzer);
  for (size_t i = factors.size(); i-- > 0;) body = for_(vars[i], PrimExpr(0), extents[i], body);
  s.replace(loop_id, body);
  std::vector<int32_t> out;
  Stmt at = body;
  for (size_t i = 0; i < factors.size(); ++i, at = at.as<For>()->body) out.push_back(s.id_of(at));
  return out;
}

static std::vector<int32_t> loop_partition(State& s, int32_t loop_id, std::vector<int64_t> factors) {
  require_plain(s, loop_id);
  Ref<For> loop = s.loop(loop_id);
  s.scope_of(loop_id);
  int inferred = -1;
  int64_t sum = 0;
  for (size_t i = 0; i < factors.size(); ++i) {
    if (factors[i] == -1 && inferred < 0) {
      inferred = int(i);
    } else if (factors[i] < 1 || factors[i] > (int64_t(1) << 40)) {
      s.refuse("T0718", loop_id, fmt::format("{} is not a usable number of iterations", factors[i]),
               "sizes are 1 or more; one may be -1");
    } else {
      sum += factors[i];
    }
  }
  if (factors.size() < 2) s.refuse("T0718", loop_id, "fewer than two parts are given");
  Analyzer analyzer = s.analyzer();
  bind_loops(s, analyzer, s.parent(loop_id));
  const PrimExpr rest = analyzer.simplify(loop->extent - sum);
  // Sizes may be 0: a part that always runs must always be there.
  Analyzer any_size = s.analyzer();
  for (auto [p, b] : s.function->buffer_map)
    for (const PrimExpr& d : b->shape)
      if (const auto* v = d.as<Var>()) any_size.assume_size(VarRef(v), 0);
  for (int32_t p = s.parent(loop_id); p >= 0; p = s.parent(p))
    if (const auto* l = s.entries[size_t(p)].node.as<For>())
      any_size.bind(l->loop_var, range(l->min, l->extent), true);
  if (inferred < 0 ? !is_zero(rest) : is_zero(rest) || !any_size.can_prove(ge(rest, PrimExpr(0))))
    s.refuse("T0719", loop_id,
             fmt::format("the parts have {} iterations, which is not provably what the loop has", sum),
             "use -1 for one part, and parts that always fit");
  for (int32_t b : s.blocks_below(loop_id)) {
    Ref<Block> block = s.block(b);
    const LoopRole role = role_of(s.realize(b), loop->loop_var.get());
    if (block->init && role != LoopRole::spatial)
      s.refuse(
          "T0714", b,
          fmt::format("loop '{}' carries its reduction, and only the first part would begin with its init",
                      loop->loop_var->name),
          "decompose_reduction first");
  }
  std::vector<VarRef> vars;
  Array<Stmt> parts;
  PrimExpr start = loop->min;
  std::set<std::string> taken;
  for (size_t i = 0; i < factors.size(); ++i) {
    const PrimExpr extent = int(i) == inferred ? rest : PrimExpr(factors[i]);
    VarRef v = var(fmt::format("{}_{}", loop->loop_var->name, i), loop->loop_var->dtype);
    analyzer.bind(v, range(PrimExpr(0), extent), true);
    Stmt body =
        rebind(loop->body, {{loop->loop_var.get(), analyzer.simplify(start + v)}}, PrimExpr(), analyzer);
    if (i > 0) {
      body = rewrite_stmts(rename_definitions(body), [&](const Stmt& n) -> Stmt {
        const auto* b = n.as<Block>();
        if (!b) return {};
        std::string name = s.fresh_block_name(fmt::format("{}_{}", b->name, i));
        for (int k = 1; !taken.insert(name).second; ++k)
          name = s.fresh_block_name(fmt::format("{}_{}_{}", b->name, i, k));
        if (s.guarded.count(b->name)) s.guarded.insert(name);
        Ref<Block> copy = n.cast<Block>();
        copy.edit()->name = name;
        return copy;
      });
    }
    vars.push_back(v);
    parts.push_back(for_(v, PrimExpr(0), extent, body));
    start = analyzer.simplify(start + extent);
  }
  const int32_t above = s.parent(loop_id);
  s.replace(loop_id, seq(parts));
  // The sequence may stand in another one now.
  if (s.is_block(above))
    s.replace_body(above, s.block(above)->body);
  else
    s.replace(above, with_body(s.loop(above), clean(s.loop(above)->body)));
  std::vector<int32_t> out;
  for (const VarRef& v : vars)
    for (size_t id = 0; id < s.entries.size(); ++id)
      if (const auto* l = s.entries[id].node.as<For>(); l && s.entries[id].alive && l->loop_var.same_as(v))
        out.push_back(int32_t(id));
  return out;
}

static int32_t fuse(State& s, const std::vector<int32_t>& loops) {
  if (loops.empty()) throw ScheduleError(ErrorKind::model, "T0720", "fuse needs at least one loop");
  for (int32_t l : loops) require_plain(s, l);
  for (size_t i = 0; i + 1 < loops.size(); ++i)
    if (!perfectly_nested(s, loops[i], loops[i + 1]))
      s.refuse("T0720", loops[i + 1],
               fmt::format("it is not the only thing directly inside {}", s.describe(loops[i])),
               "give adjacent loops, outermost first; reorder brings loops together");
  for (size_t i = 0; i < loops.size(); ++i)
    for (size_t j = i + 1; j < loops.size(); ++j) {
      Ref<For> inner = s.loop(loops[j]);
      const Var* outer = s.loop(loops[i])->loop_var.get();
      if (uses(inner->extent, outer) || uses(inner->min, outer))
        s.refuse(
            "T0721", loops[j],
            fmt::format("its bounds depend on {}, so the two do not form a rectangle", s.describe(loops[i])));
    }
  if (loops.size() == 1) return loops[0];
  Analyzer analyzer = s.analyzer();
  bind_loops(s, analyzer, s.parent(loops[0]));
  std::string name;
  PrimExpr extent = PrimExpr(1);
  for (int32_t l : loops) {
    Ref<For> loop = s.loop(l);
    name += (name.empty() ? "" : "_") + loop->loop_var->name;
    extent = analyzer.simplify(extent * loop->extent);
  }
  if (name.size() > 40)
    name = s.loop(loops[0])->loop_var->name + "_fused";
  else
    name += "_fused";
  VarRef fused = var(name, s.loop(loops[0])->loop_var->dtype);
  analyzer.bind(fused, range(PrimExpr(0), extent), true);
  VarMap map;
  PrimExpr rest = fused;
  for (size_t i = loops.size(); i-- > 0;) {
    Ref<For> loop = s.loop(loops[i]);
    PrimExpr digit = i == 0 ? rest : floormod(rest, loop->extent);
    if (is_one(loop->extent)) digit = PrimExpr(0);
    map[loop->loop_var.get()] = analyzer.simplify(digit + loop->min);
    if (i > 0) rest = is_one(loop->extent) ? rest : floordiv(rest, loop->extent);
  }
  Stmt body = rebind(s.loop(loops.back())->body, map, PrimExpr(), analyzer);
  Stmt made = for_(fused, PrimExpr(0), extent, body);
  s.replace(loops[0], made);
  return s.id_of(made);
}

static void reorder(State& s, const std::vector<int32_t>& order) {
  if (order.size() < 2) return;
  for (size_t i = 0; i < order.size(); ++i) {
    s.loop(order[i]);
    for (size_t j = 0; j < i; ++j)
      if (order[i] == order[j]) s.refuse("T0722", order[i], "it is given twice");
  }
  // The innermost of them: all others lie above it.
  int32_t bottom = order[0];
  for (int32_t l : order)
    if (s.inside(l, bottom)) bottom = l;
  std::vector<int32_t> chain;  // outermost first
  size_t met = 0;
  for (int32_t p = bottom; p >= 0 && !s.is_block(p); p = s.parent(p)) {
    chain.push_back(p);
    if (std::find(order.begin(), order.end(), p) != order.end() && ++met == order.size()) break;
  }
  if (met != order.size())
    for (int32_t l : order)
      if (!s.inside(bottom, l))
        s.refuse("T0722", l, fmt::format("it is not on the same chain of loops as {}", s.describe(bottom)),
                 "reorder takes loops that are nested in one another");
  std::reverse(chain.begin(), chain.end());
  for (size_t i = 0; i + 1 < chain.size(); ++i)
    if (!perfectly_nested(s, chain[i], chain[i + 1]))
      s.refuse("T0723", chain[i], fmt::format("it holds more than {}", s.describe(chain[i + 1])),
               "move the other block with compute_at, or decompose after reordering");
  std::vector<int32_t> next = chain;
  size_t at = 0;
  for (int32_t& c : next)
    if (std::find(order.begin(), order.end(), c) != order.end()) c = order[at++];
  if (next == chain) return;
  for (size_t i = 0; i < next.size(); ++i)
    for (size_t j = i + 1; j < next.size(); ++j) {
      Ref<For> outer = s.loop(next[i]);
      const Var* inner = s.loop(next[j])->loop_var.get();
      if (uses(outer->extent, inner) || uses(outer->min, inner))
        s.refuse("T0724", next[i],
                 fmt::format("its bounds depend on {}, which would come inside it", s.describe(next[j])));
    }
  // Blocks whose instances may run in any order of these loops.
  std::vector<int32_t> blocks = s.blocks_below(chain[0]);
  std::vector<int32_t> below = s.children(bottom);
  for (int32_t b : blocks) {
    Ref<Block> block = s.block(b);
    bool step = false;  // of a scan whose loop lies outside
    for (const IterVar& iter : block->iter_vars)
      if (iter->kind == IterKind::scan && steps_lie_outside(s, b, chain))
        step = true;
      else if (iter->kind != IterKind::spatial && iter->kind != IterKind::reduce)
        s.refuse("T0725", b, fmt::format("iterator '{}' runs in a fixed order", iter->var->name));
    if (is_complete(block)) continue;
    if (!step && !reads_own_elements(s, b, chain))
      s.refuse("T0725", b, "it reads elements that it writes in other iterations, so their order matters");
    if (!s.binding(b, s.loops_between(b, s.parent(chain[0]))).injective)
      s.refuse("T0725", b, "some of its reduction steps are repeated by these loops, so their order matters",
               "reorder before compute_at");
    if (!block->init) continue;
    // The init must stay first: a loop that moves may not carry both kinds.
    for (size_t i = 0; i < next.size(); ++i)
      if (next[i] != chain[i] && role_of(s.realize(b), s.loop(next[i])->loop_var.get()) == LoopRole::mixed)
        s.refuse(
            "T0725", b,
            fmt::format("{} mixes spatial and reduction iterators, so the init would no longer come first",
                        s.describe(next[i])),
            "do not fuse spatial loops with loops of the reduction, or decompose_reduction first");
  }
  if (blocks.size() > 1) {
    auto scope = s.scope(s.scope_of(bottom));
    for (int32_t b : blocks)
      for (const BufferRegion& w : s.block(b)->writes)
        for (int at2 : scope->readers(w->buffer)) {
          const Leaf& reader = scope->leaves[size_t(at2)];
          if (reader.id == b || !s.inside(reader.id, bottom)) continue;
          const Leaf& writer = scope->leaves[size_t(scope->find(b))];
          Analyzer a = s.analyzer();
          bind_loops(s, a, bottom);
          BufferRegion made = region_below(s, writer, w, bottom, a);
          for (const BufferRegion& x : reader.realize->block->reads)
            if (x->buffer.same_as(w->buffer) &&
                !(surely_writes(s, writer, w->buffer) &&
                  region_covers(made, region_below(s, reader, x, bottom, a), a)))
              s.refuse(
                  "T0726", reader.id,
                  fmt::format(
                      "it reads elements of '{}' that an earlier iteration of these loops may have written",
                      w->buffer->name),
                  "reorder before compute_at");
          for (int32_t l : next) {
            LoopRole role = role_of(s.realize(b), s.loop(l)->loop_var.get());
            if (role == LoopRole::reduce || role == LoopRole::mixed)
              s.refuse("T0726", reader.id,
                       fmt::format("it reads '{}' while loop '{}' still adds to it", w->buffer->name,
                                   s.loop(l)->loop_var->name));
          }
        }
  }
  Stmt body = s.loop(bottom)->body;
  for (size_t i = next.size(); i-- > 0;) body = with_body(s.loop(next[i]), body);
  s.replace(chain[0], body);
}

static int32_t add_unit_loop(State& s, int32_t block) {
  Ref<BlockRealize> r = s.realize(block);
  s.scope_of(block);
  Stmt made = for_(var("u"), PrimExpr(0), PrimExpr(1), r);
  s.replace(block, made);
  return s.id_of(made);
}

const Define<&Schedule::split, split> split_record{
    {.name = "split",
     .calls = CallOrder::kept,
     .does = "a loop becomes nested loops; what is too much is cut off by a predicate",
     .legal =
         "the loop is serial and has no annotation, and the factors make no fewer iterations than it has",
     .parameters = {{"loop", "to split"},
                    {"factors", "iterations of each new loop, outermost first; one may be -1: the rest"}},
     .sample = {R"(
@T.prim_func
def main(A: T.Buffer((m,), "float32"), B: T.Buffer((m,), "float32")):
    for i in range(m):
        with T.block("B"):
            vi = T.axis.spatial(m, i)
            B[vi] = A[vi] + T.float32(1)
)",
                R"(
b = sch.get_block("B")
i, = sch.get_loops(b)
outer, inner = sch.split(i, factors=[-1, 4])
)"}}};
const Define<&Schedule::loop_partition, loop_partition> loop_partition_record{
    {.name = "loop_partition",
     .does = "a loop becomes consecutive loops over parts of its range",
     .legal = "the parts are provably all of the loop, and it carries no reduction with its init",
     .parameters = {{"loop", "to cut"}, {"sizes", "iterations of each part; one may be -1: the rest"}},
     .sample = {samples::transpose, R"(
c = sch.get_block("C")
i, j = sch.get_loops(c)
first, middle, last = sch.loop_partition(j, sizes=[1, -1, 2])
)"}}};
const Define<&Schedule::fuse, fuse> fuse_record{
    {.name = "fuse",
     .calls = CallOrder::kept,
     .does = "nested loops become one over the product of their extents",
     .legal = "the loops are serial, each holds nothing but the next, and no bound depends on one of them",
     .parameters = {{"loops", "adjacent, outermost first"}},
     .sample = {samples::transpose, R"(
c = sch.get_block("C")
i, j = sch.get_loops(c)
ij = sch.fuse([i, j])
)"}}};
const Define<&Schedule::reorder, reorder> reorder_record{
    {.name = "reorder",
     .does = "nested loops change places",
     .legal = "the loops are nested with nothing beside them, no bound leaves what it depends on, and the "
              "blocks inside may run in any order of these loops",
     .parameters = {{"loops", "in the new order, outermost first; loops between them stay"}},
     .sample = {samples::matmul, R"(
c = sch.get_block("C")
i, j, k = sch.get_loops(c)
sch.reorder([k, i])
)"}}};
const Define<&Schedule::add_unit_loop, add_unit_loop> add_unit_loop_record{
    {.name = "add_unit_loop",
     .calls = CallOrder::kept,
     .does = "a loop of one iteration around a block",
     .parameters = {{"block", "that the loop is put around"}},
     .sample = {samples::matmul, R"(
d = sch.get_block("D")
one = sch.add_unit_loop(d)
)"}}};

}  // namespace tenon::sched
