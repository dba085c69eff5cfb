// SPDX-License-Identifier: Apache-2.0
// Primitives that lay things out anew by an index map: transform_layout (a buffer of the program) and
// transform_block_layout (a block's iteration space).
#include <fmt/format.h>

#include "schedule/define.h"

namespace tenon::sched {

using namespace tir;

namespace {
/// A map speaks of its inputs and of sizes of the program.
void require_sizes_only(const State& s, int32_t id, const IndexMap& map) {
  std::unordered_set<const Var*> sizes;
  for (const VarRef& p : s.function->params) sizes.insert(p.get());
  for (auto [p, b] : s.function->buffer_map)
    for (const PrimExpr& d : b->shape)
      for (const VarRef& v : free_vars(d)) sizes.insert(v.get());
  for (const VarRef& v : map->inputs) sizes.insert(v.get());
  for (const VarRef& v : free_vars(map->outputs))
    if (!sizes.count(v.get()))
      s.refuse("T0778", id,
               fmt::format("{} uses '{}', which is neither an input of the map nor a size", to_text(map),
                           v->name));
}
/// The function says whose layout may change: attribute "layout_free_buffers", positions of parameters. From
/// then on the caller passes the parameter laid out by the map (Schedule::param_layouts); what lies in
/// padding is the caller's, too.
int require_free_layout(const State& s, int32_t id, const Buffer& b) {
  int position = -1;
  for (size_t i = 0; i < s.function->params.size(); ++i)
    if (auto x = s.function->buffer_map.find(s.function->params[i]); x && (*x).same_as(b)) position = int(i);
  bool free = false;
  if (auto list = s.function->attrs.find(kLayoutFreeBuffers))
    if (auto positions = list->try_as<Array<Any>>())
      for (const Any& x : *positions) free = free || x.try_as<int64_t>() == position;
  if (position < 0 || !free)
    s.refuse("T0777", id,
             fmt::format("'{}' is not allocated by the program: its layout is the caller's", b->name),
             "use cache_read or cache_write, and lay out the copy; or list the parameter in the function's "
             "attribute layout_free_buffers");
  return position;
}
/// Sizes that the parameter's shape gave must still be known.
void require_known_sizes(const State& s, int32_t id, const Buffer& b, const Array<PrimExpr>& shape) {
  for (const PrimExpr& d : b->shape)
    for (const VarRef& v : free_vars(d)) {
      bool known = false;
      for (const VarRef& p : s.function->params) known = known || p.same_as(v);
      for (const PrimExpr& e : shape) known = known || e.same_as(v);
      for (auto [p, x] : s.function->buffer_map)
        if (!x.same_as(b))
          for (const PrimExpr& e : x->shape) known = known || e.same_as(v);
      if (!known)
        s.refuse(
            "T0777", id,
            fmt::format("the new shape of parameter '{}' no longer tells the size '{}'", b->name, v->name),
            "keep that dimension whole, or pass the size as a parameter");
    }
}

/// The map the other way round, and the shape that it gives. It speaks of elements, so that every size is at
/// least 1, which symbolic ones need not show.
struct Inverse {
  std::optional<InverseMap> map;
  std::optional<Array<PrimExpr>> shape;

  Inverse(const IndexMap& forward, const Array<PrimExpr>& from, Analyzer& a)
      : shape(map_shape(forward, from, a)) {
    std::vector<Analyzer::Scope> some;
    for (const PrimExpr& size : from)
      if (!as_int(size)) some.push_back(a.assume(ge(size, PrimExpr(1))));
    map = invert(forward, from, a);
    if (!shape) shape = map_shape(forward, from, a);
    while (!some.empty()) some.pop_back();
  }
};
}  // namespace

static void transform_layout(State& s, int32_t id, int index, BufferIndexType type, const IndexMap& map,
                             const PrimExpr& pad_value) {
  const bool of_write = type == BufferIndexType::write;
  Ref<Block> block = s.block(id);
  s.scope_of(id);
  const Array<BufferRegion>& regions = of_write ? block->writes : block->reads;
  if (index < 0 || size_t(index) >= regions.size())
    s.refuse("T0771", id,
             fmt::format("it has {} {} regions, there is no number {}", regions.size(),
                         of_write ? "write" : "read", index));
  const Buffer b = regions[size_t(index)]->buffer;
  int32_t owner = -1;
  for (int32_t p = s.parent(id); p >= 0 && owner < 0; p = s.parent(p))
    if (s.is_block(p))
      for (const Buffer& x : s.block(p)->alloc_buffers)
        if (x.same_as(b)) owner = p;
  const int parameter = owner < 0 ? require_free_layout(s, id, b) : -1;
  if (owner < 0) owner = s.id_of(s.function->body);
  if (map->inputs.size() != b->shape.size())
    s.refuse("T0778", id,
             fmt::format("the index map takes {} indices, '{}' has {} dimensions", map->inputs.size(),
                         b->name, b->shape.size()));
  if (map->outputs.empty()) s.refuse("T0778", id, "the index map gives no index");
  require_sizes_only(s, id, map);
  bool matched = !b->strides.empty() || b->elem_offset;
  pre_order(s.block(owner)->body, [&](const ObjectRef& n) {
    const auto* x = n.as<Block>();
    if (x && !x->match_buffers.empty())
      for (const auto* list : {&x->reads, &x->writes})
        for (const BufferRegion& r : *list) matched = matched || r->buffer.same_as(b);
    return n.is<StmtNode>() || n.is<ArrayObj>();
  });
  if (matched || !plainly_used(s.block(owner)->body, b))
    s.refuse("T0736", id, fmt::format("'{}' is used through a mask, a matched region or a pointer", b->name),
             "transform layouts before tensorize and pad_iteration");
  Analyzer a = s.analyzer();
  bind_loops(s, a, owner);
  const Inverse found(map, b->shape, a);
  const auto& inverse = found.map;
  if (!inverse || !found.shape)
    s.refuse("T0778", id,
             fmt::format("{} does not provably give each element of '{}' a place of its own", to_text(map),
                         b->name),
             "outputs are sums of digits (i // c, i % c, i * c + j) in which every index is found again");
  if (pad_value && (!(pad_value.is<IntImm>() || pad_value.is<FloatImm>())))
    s.refuse("T0779", id, "the padding's value is no number");
  const Array<PrimExpr> shape = *found.shape;
  if (parameter >= 0) {
    require_known_sizes(s, id, b, shape);
    if (pad_value)
      s.refuse("T0779", id,
               fmt::format("what lies in the padding of parameter '{}' is the caller's", b->name));
  }
  Buffer next = b;
  {
    BufferNode* e = next.edit();
    e->shape = shape;
    e->data = var(b->data->name, b->data->dtype);
    e->axis_separators = Array<int64_t>();
  }
  Ref<BlockRealize> root = s.realize(owner);
  // Loops and iterators between keep their ranges for the new indices.
  pre_order(s.block(owner)->body, [&](const ObjectRef& n) {
    if (const auto* l = n.as<For>()) a.bind(l->loop_var, range(l->min, l->extent), true);
    if (const auto* x = n.as<Block>())
      for (const IterVar& v : x->iter_vars) a.bind(v->var, v->dom, true);
    return n.is<StmtNode>() || n.is<ArrayObj>();
  });
  Stmt body = rewrite_any(
                  s.block(owner)->body,
                  [&](const ObjectRef& n) -> ObjectRef {
                    if (const auto* l = n.as<BufferLoad>(); l && l->buffer.same_as(b))
                      return load(next, apply(map, l->indices, a));
                    if (const auto* t = n.as<BufferStore>(); t && t->buffer.same_as(b)) {
                      Stmt out = store(next, t->value, apply(map, t->indices, a));
                      return out;
                    }
                    if (const auto* x = n.as<Block>()) {
                      bool mentions = false;
                      for (const auto* list : {&x->reads, &x->writes})
                        for (const BufferRegion& r : *list) mentions = mentions || r->buffer.same_as(b);
                      return mentions ? ObjectRef(with_regions(n.cast<Block>())) : ObjectRef();
                    }
                    return {};
                  },
                  [](const ObjectRef& n) { return n.is<BufferNode>() || n.is<BufferRegionNode>(); })
                  .cast<StmtNode>();
  std::string pad_name;
  if (!inverse->exact && pad_value) {
    pad_name = s.fresh_block_name(b->name + "_padding");
    Array<IterVar> iters;
    Array<PrimExpr> values, at;
    VarMap to_loop;
    std::vector<VarRef> loops;
    for (size_t d = 0; d < shape.size(); ++d) {
      VarRef x = var(fmt::format("ax{}", d));
      IterVar v = iter_var(range(PrimExpr(0), shape[d]), fmt::format("v{}", d));
      loops.push_back(x);
      iters.push_back(v);
      values.push_back(x);
      at.push_back(v->var);
      to_loop[inverse->map->inputs[d].get()] = x;
    }
    auto made = make<Block>(iters, Array<BufferRegion>(), Array<BufferRegion>(), pad_name,
                            store(next, cast(b->dtype, pad_value), at), Stmt(), Array<Buffer>(),
                            Array<MatchBufferRegion>(), AttrMap());
    Stmt pad =
        make<BlockRealize>(values, logical_not(substitute(inverse->inside, to_loop)), with_regions(made));
    for (size_t d = loops.size(); d-- > 0;) pad = for_(loops[d], PrimExpr(0), shape[d], pad);
    Array<Stmt> all;
    bool placed = false;
    const auto* q = body.as<SeqStmt>();
    for (const Stmt& t : q ? q->seq : Array<Stmt>{body}) {
      if (!placed && uses(t, next->data.get())) {
        all.push_back(pad);
        placed = true;
      }
      all.push_back(t);
    }
    body = seq(all);
    s.guarded.insert(pad_name);
  }
  Array<Buffer> allocs;
  for (const Buffer& x : s.block(owner)->alloc_buffers) allocs.push_back(x.same_as(b) ? next : x);
  if (parameter >= 0) {
    PrimFuncNode* f = s.function.edit();
    f->buffer_map.set(f->params[size_t(parameter)], next);
    s.param_layouts.push_back({parameter, map});
  }
  s.replace_body(owner, body, allocs);
}

static void transform_block_layout(State& s, int32_t id, const IndexMap& map) {
  Ref<BlockRealize> r = s.realize(id);
  Ref<Block> block = r->block;
  const int32_t scope_id = s.scope_of(id);
  (void)scope_id;
  if (!is_complete(block) && !is_reduction(block))
    s.refuse("T0752", id, "it is neither complete nor a reduction with its init",
             "transform it before decompose_reduction");
  if (map->inputs.size() != block->iter_vars.size())
    s.refuse("T0778", id,
             fmt::format("the index map takes {} indices, the block has {} iterators", map->inputs.size(),
                         block->iter_vars.size()));
  if (map->outputs.empty()) s.refuse("T0778", id, "the index map gives no index");
  require_sizes_only(s, id, map);
  if (!is_const_int(r->predicate, 1)) s.refuse("T0742", id, "it is restricted by a predicate");
  if (!block->match_buffers.empty() || has_effects(block->body))
    s.refuse("T0731", id, "its body has effects, matches regions or takes an address");
  const std::vector<int32_t> loops = s.loops_of(id);
  Analyzer a = s.analyzer();
  bind_loops(s, a, id);
  std::vector<int32_t> own(block->iter_vars.size(), -1);
  std::unordered_set<const Var*> bound;
  Array<PrimExpr> extents;
  for (size_t i = 0; i < block->iter_vars.size(); ++i) {
    const IterVar& v = block->iter_vars[i];
    extents.push_back(v->dom->extent);
    bool good = is_zero(v->dom->min);
    if (!(is_one(v->dom->extent) && is_zero(r->iter_values[i]))) {
      int32_t loop_id = -1;
      for (int32_t l : loops)
        if (s.loop(l)->loop_var.get() == r->iter_values[i].get()) loop_id = l;
      good = good && loop_id >= 0 && bound.insert(s.loop(loop_id)->loop_var.get()).second &&
             is_zero(s.loop(loop_id)->min) && a.can_prove_equal(s.loop(loop_id)->extent, v->dom->extent);
    }
    if (!good)
      s.refuse("T0783", id,
               fmt::format("iterator '{}' is not bound to a whole loop of its own", v->var->name),
               "transform before split, fuse and compute_at");
  }
  for (int32_t l : loops) {
    Ref<For> x = s.loop(l);
    if (s.children(l).size() != 1 || (!bound.count(x->loop_var.get()) && !is_one(x->extent)))
      s.refuse("T0783", id, fmt::format("{} does not belong to this block alone", s.describe(l)),
               "transform before compute_at");
    if (x->kind != ForKind::serial || !x->annotations.empty())
      s.refuse("T0710", l, "the loop already has a kind or an annotation", "transform first");
  }
  if (loops.empty() || whole_nest(s, id) != loops[0])
    s.refuse("T0783", id, "no loops belong to this block alone", "add_unit_loop makes one");
  const Inverse found(map, extents, a);
  const auto& inverse = found.map;
  if (!inverse || !found.shape)
    s.refuse("T0778", id,
             fmt::format("{} does not provably give each iteration a place of its own", to_text(map)),
             "outputs are sums of digits (i // c, i % c, i * c + j) in which every iterator is found again");
  if (!inverse->exact)
    s.refuse(
        "T0778", id,
        fmt::format("{} leaves places that are no iteration, because a size is not divisible", to_text(map)),
        "pad_einsum or pad_iteration makes whole tiles");
  const Array<PrimExpr> shape = *found.shape;
  Array<IterVar> iters;
  Array<PrimExpr> values;
  std::vector<VarRef> vars;
  VarMap to_iter;
  for (size_t j = 0; j < shape.size(); ++j) {
    bool spatial = false, reduce = false;
    for (size_t i = 0; i < block->iter_vars.size(); ++i)
      if (uses(map->outputs[j], map->inputs[i].get()))
        (block->iter_vars[i]->kind == IterKind::reduce ? reduce : spatial) = true;
    if (spatial && reduce)
      s.refuse("T0778", id,
               fmt::format("output {} of {} mixes spatial and reduction iterators", j, to_text(map)));
    VarRef x = var(fmt::format("ax{}", j));
    IterVar v = iter_var(range(PrimExpr(0), shape[j]), fmt::format("v{}", j),
                         reduce ? IterKind::reduce : IterKind::spatial);
    a.bind(v->var, v->dom, true);
    vars.push_back(x);
    iters.push_back(v);
    values.push_back(x);
    to_iter[inverse->map->inputs[j].get()] = v->var;
  }
  VarMap old;
  for (size_t i = 0; i < block->iter_vars.size(); ++i)
    old[block->iter_vars[i]->var.get()] = a.simplify(substitute(inverse->map->outputs[i], to_iter));
  auto moved = [&](const Stmt& t) -> Stmt {
    if (!t) return t;
    return rewrite_any(
               substitute(t, old),
               [&](const ObjectRef& n) -> ObjectRef {
                 auto simple = [&](const PrimExpr& e) { return a.simplify(e); };
                 if (const auto* l = n.as<BufferLoad>())
                   return load(l->buffer, l->indices.map(simple), l->predicate);
                 if (const auto* w = n.as<BufferStore>())
                   return store(w->buffer, w->value, w->indices.map(simple), w->predicate);
                 return {};
               },
               [](const ObjectRef& n) { return n.is<BufferNode>() || n.is<BufferRegionNode>(); })
        .cast<StmtNode>();
  };
  Ref<Block> next = block;
  {
    Block* e = next.edit();
    e->iter_vars = iters;
    e->body = moved(block->body);
    e->init = moved(block->init);
  }
  Stmt nest = make<BlockRealize>(values, true_(), with_regions(next));
  for (size_t j = vars.size(); j-- > 0;) nest = for_(vars[j], PrimExpr(0), shape[j], nest);
  s.replace(loops[0], nest);
}

const Define<&Schedule::transform_layout, transform_layout> transform_layout_record{
    {.name = "transform_layout",
     .does = "a buffer's elements lie where a map says",
     .legal = "the program allocates the buffer (or the function leaves its layout free), every access names "
              "it, and the map provably keeps elements apart",
     .parameters = {{"block", "that uses the buffer"},
                    {"buffer_index", "which of its regions"},
                    {"buffer_index_type", "of those that it reads or of those that it writes"},
                    {"index_map", "from an element's old index to its new one"},
                    {"pad_value", "a number for places that no element takes; without it they are undefined",
                     Any()}},
     .sample = {samples::matmul, R"(
c = sch.get_block("C")
sch.transform_layout(c, buffer_index=0, buffer_index_type="write", index_map=lambda i, j: (j, i))
)"}}};
const Define<&Schedule::transform_block_layout, transform_block_layout> transform_block_layout_record{
    {.name = "transform_block_layout",
     .does = "a block's iterators become a map of them, its loops new",
     .legal = "each iterator is bound to a whole loop of its own around this block alone, and the map takes "
              "iterations one to one without mixing spatial and reduction iterators",
     .parameters = {{"block", "whose iterators"}, {"index_map", "from the old iterators to the new ones"}},
     .sample = {samples::transpose, R"(
c = sch.get_block("C")
sch.transform_block_layout(c, index_map=lambda i, j: (i * 6 + j,))
)"}}};

}  // namespace tenon::sched
