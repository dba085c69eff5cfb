// SPDX-License-Identifier: Apache-2.0
// fuse_reduction_epilogue: a block that combines a finished reduction with one more value, by the reduction's
// own combination, becomes its first value: D = (Σ x) + b is D = b, D += x.
#include <fmt/format.h>

#include "ir/structural.h"
#include "schedule/define.h"

namespace tenon::sched {

using namespace tir;

namespace {

/// Both sides of a sum, product, minimum or maximum.
std::optional<std::pair<PrimExpr, PrimExpr>> sides(const PrimExpr& e) {
  std::optional<std::pair<PrimExpr, PrimExpr>> out;
  auto take = [&](const auto* n) {
    if (n) out = {n->a, n->b};
  };
  take(e.as<Add>());
  take(e.as<Mul>());
  take(e.as<Min>());
  take(e.as<Max>());
  return out;
}
PrimExpr combined(const PrimExpr& like, const PrimExpr& a, const PrimExpr& b) {
  if (like.is<Add>()) return a + b;
  if (like.is<Mul>()) return a * b;
  return like.is<Min>() ? min(a, b) : max(a, b);
}

}  // namespace

static void fuse_reduction_epilogue(State& s, int32_t id, int32_t epilogue_id) {
  const Ref<BlockRealize> r = s.realize(id), er = s.realize(epilogue_id);
  const Ref<Block> block = r->block, epilogue = er->block;
  const int32_t scope_id = s.scope_of(id);
  if (s.scope_of(epilogue_id) != scope_id)
    s.refuse("T0750", epilogue_id, fmt::format("{} belongs to another block than it", s.describe(id)));
  if (!is_reduction(block))
    s.refuse("T0760", id, "it is no reduction with its init", "fuse before decompose_reduction");
  const BufferStore* update = only_store(block);
  const auto* first = block->init.as<BufferStore>();
  const auto step = update ? sides(update->value) : std::nullopt;
  auto is_load = [](const PrimExpr& e, const Buffer& b) {
    const auto* l = e.as<BufferLoad>();
    return l && l->buffer.same_as(b);
  };
  if (!step || !first || first->predicate || !first->buffer.same_as(update->buffer) ||
      is_load(step->first, update->buffer) == is_load(step->second, update->buffer))
    s.refuse("T0797", id, "it is no sum, product, minimum or maximum of one value",
             "an epilogue becomes the first value of such a reduction");
  const Buffer c = update->buffer;
  const PrimExpr own = is_load(step->first, c) ? step->first : step->second,
                 source = is_load(step->first, c) ? step->second : step->first;
  if (!structural_equal(own.as<BufferLoad>()->indices, update->indices) ||
      !structural_equal(first->indices, update->indices) || !load_indices(source, c).empty())
    s.refuse("T0797", id, "it does not combine one element with one value");
  if (is_parameter(s, c))
    s.refuse("T0732", id, fmt::format("'{}' is a result of the function and must be stored", c->name));
  require_owned(s, id, c);
  const auto scope = s.scope(scope_id);
  const int at = scope->find(id), last = scope->find(epilogue_id);
  if (scope->writers(c).size() != 1)
    s.refuse("T0733", id, fmt::format("'{}' is written by other blocks too", c->name));
  for (int x : scope->readers(c))
    if (x != last && x != at)
      s.refuse("T0738", scope->leaves[size_t(x)].id, fmt::format("it reads '{}' too", c->name));
  if (!is_complete(epilogue) || s.guarded.count(epilogue->name) || s.guarded.count(block->name))
    s.refuse("T0730", epilogue_id,
             "only element-wise blocks over all of a reduction can become its first value");
  const BufferStore* put = only_store(epilogue);
  if (!put || has_effects(put->value))
    s.refuse("T0731", epilogue_id, "its body is not a single store of a value");
  const Buffer d = put->buffer;
  if (last < at || load_indices(put->value, c).empty())
    s.refuse("T0737", epilogue_id, fmt::format("it does not read '{}' after {}", c->name, s.describe(id)));
  if (!plainly_used(epilogue, c) || !plainly_used(epilogue, d) || !plainly_used(block, c))
    s.refuse(
        "T0736", epilogue_id,
        fmt::format("it uses '{}' or '{}' through a mask, a matched region or a pointer", c->name, d->name));
  // D = C ∘ rest, with the reduction's own ∘.
  const auto value = put->value->type_index == update->value->type_index ? sides(put->value) : std::nullopt;
  if (!value || is_load(value->first, c) == is_load(value->second, c) || d->dtype != c->dtype)
    s.refuse("T0797", epilogue_id,
             fmt::format("it does not combine '{}' with one more value the way {} combines its steps",
                         c->name, s.describe(id)),
             "a bias after a sum, a bound after a maximum; other epilogues follow by reverse_compute_at");
  const PrimExpr whole = is_load(value->first, c) ? value->first : value->second,
                 rest = is_load(value->first, c) ? value->second : value->first;
  if (!load_indices(rest, c).empty())
    s.refuse("T0797", epilogue_id, fmt::format("the other value reads '{}' too", c->name));
  for (const BufferRegion& x : epilogue->reads)
    if (!x->buffer.same_as(c))
      for (int w : scope->writers(x->buffer))
        if (w >= at || x->buffer.same_as(d))
          s.refuse("T0741", epilogue_id,
                   fmt::format("'{}' is made after {} begins", x->buffer->name, s.describe(id)),
                   "compute it before the reduction");
  if (scope->writers(d).size() != 1)
    s.refuse("T0733", epilogue_id, fmt::format("'{}' is written by other blocks too", d->name));
  for (const auto& list : {scope->readers(d)})
    for (int x : list)
      if (x < last)
        s.refuse("T0741", scope->leaves[size_t(x)].id, fmt::format("it reads '{}' before", d->name));
  if (!writes_apart(s, epilogue))
    s.refuse("T0774", epilogue_id,
             fmt::format("it does not write each element of '{}' at an index of its own", d->name));
  // Both run over all of C.
  const auto made = trivial_indices(update->indices, block->iter_vars, c);
  const auto read = trivial_indices(whole.as<BufferLoad>()->indices, epilogue->iter_vars, c);
  if (!made || !read)
    s.refuse("T0734", made ? epilogue_id : id,
             fmt::format("it does not use '{}' at an index made of its own iterators", c->name));
  Analyzer a = s.analyzer();
  bind_loops(s, a, scope_id);
  auto covers = [&](int32_t who, const Ref<Block>& b, const std::vector<int>& positions) {
    for (size_t dim = 0; dim < positions.size(); ++dim) {
      if (positions[dim] < 0) continue;
      const IterVar& v = b->iter_vars[size_t(positions[dim])];
      if (!is_zero(v->dom->min) || !a.can_prove_equal(v->dom->extent, c->shape[dim]))
        s.refuse("T0740", who,
                 fmt::format("iterator '{}' does not run over the whole dimension {} of '{}'", v->var->name,
                             dim, c->name));
    }
  };
  covers(id, block, *made);
  covers(epilogue_id, epilogue, *read);
  VarMap map;
  for (size_t i = 0; i < epilogue->iter_vars.size(); ++i) {
    const IterVar& v = epilogue->iter_vars[i];
    int dim = -1;
    for (size_t k = 0; k < read->size(); ++k)
      if ((*read)[k] == int(i)) dim = int(k);
    if (dim < 0 && !is_one(v->dom->extent))
      s.refuse("T0734", epilogue_id, fmt::format("iterator '{}' is no index of '{}'", v->var->name, c->name));
    map[v->var.get()] = dim < 0 ? v->dom->min : update->indices[size_t(dim)];
  }
  const Array<PrimExpr> to = put->indices.map([&](const PrimExpr& e) { return substitute(e, map); });
  Ref<Block> next = block;
  {
    Block* e = next.edit();
    e->init = store(d, combined(update->value, first->value, substitute(rest, map)), to);
    e->body = store(d, combined(update->value, load(d, to), source), to);
  }
  Ref<BlockRealize> realize = r;
  realize.edit()->block = with_regions(next);
  const Object *old = r.get(), *gone = s.entries[size_t(whole_nest(s, epilogue_id))].node.get();
  const Stmt body =
      rewrite_any(
          s.block(scope_id)->body,
          [&](const ObjectRef& n) -> ObjectRef {
            if (n.get() == gone) return nothing();
            return n.get() == old ? ObjectRef(realize) : ObjectRef();
          },
          [&](const ObjectRef& n) {
            return !n.is<StmtNode>() || (n.is<BlockRealize>() && n.get() != old && n.get() != gone);
          })
          .cast<StmtNode>();
  Array<Buffer> allocs;
  for (const Buffer& x : s.block(scope_id)->alloc_buffers)
    if (!x.same_as(c)) allocs.push_back(x);
  State trial = s;
  trial.facts = std::make_shared<FactCache>();
  trial.replace_body(scope_id, body, allocs);
  for (int32_t p = trial.parent(id); p >= 0 && !trial.is_block(p); p = trial.parent(p))
    if (trial.loop(p)->kind == ForKind::parallel || trial.loop(p)->kind == ForKind::thread_binding)
      require_still_independent(trial, p);
  s = std::move(trial);
}

const Define<&Schedule::fuse_reduction_epilogue, fuse_reduction_epilogue> fuse_reduction_epilogue_record{
    {.name = "fuse_reduction_epilogue",
     .does = "what is combined with a finished reduction becomes its first value; floating sums are added up "
             "in another order",
     .legal = "the epilogue alone reads the result, and combines it with one more value by the reduction's "
              "own sum, product, minimum or maximum",
     .parameters = {{"block", "the reduction"}, {"epilogue", "the block that combines"}},
     .sample = {samples::matmul, R"(
c = sch.get_block("C")
d = sch.get_block("D")
sch.fuse_reduction_epilogue(c, d)
)"}}};

}  // namespace tenon::sched
