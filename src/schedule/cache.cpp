// SPDX-License-Identifier: Apache-2.0
// Primitives that put a buffer between a block and memory: cache_read, cache_write, cache_inplace; and
// set_scope.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/structural.h"
#include "schedule/cache_impl.h"
#include "schedule/define.h"

namespace tenon::sched {

using namespace tir;

namespace {

/// What a block uses of a buffer, over all its runs inside of one of the block around: empty where that is
/// all of it, null where it is unknown.
std::optional<Array<Range>> part_of(State& s, int32_t id, const BufferRegion& region) {
  const int32_t scope_id = s.scope_of(id);
  const auto all = s.scope(scope_id);
  Analyzer a = s.analyzer();
  bind_loops(s, a, scope_id);
  // One run of the block around is looked at; its iterators are the same all along.
  for (const IterVar& v : s.block(scope_id)->iter_vars) a.bind(v->var, v->dom, true);
  const Array<Range> box = region_below(s, all->leaves[size_t(all->find(id))], region, scope_id, a)->region;
  bool smaller = false;
  std::unordered_set<const Var*> loops;
  for (int32_t l : s.loops_of(id)) loops.insert(s.loop(l)->loop_var.get());
  for (const IterVar& v : s.block(id)->iter_vars) loops.insert(v->var.get());
  for (size_t d = 0; d < box.size(); ++d) {
    const PrimExpr &low = box[d]->min, &size = box[d]->extent, &shape = region->buffer->shape[d];
    if (uses_any(low, loops) || uses_any(size, loops)) return std::nullopt;
    if (!as_int(size) || *as_int(size) < 1) {
      if (!a.can_prove_equal(size, shape)) return std::nullopt;
    } else {
      smaller = smaller || !a.can_prove_equal(size, shape);
    }
    if (!a.can_prove(ge(low, PrimExpr(0))) || !a.can_prove(le(low + size, shape))) return std::nullopt;
  }
  return smaller ? box : Array<Range>();
}
/// What of a buffer a copy is to hold that goes back. Each run of the block around leaves as it is what
/// others wrote, where the buffer lives outside.
Array<Range> part_to_write(State& s, int32_t id, const BufferRegion& region) {
  const auto part = part_of(s, id, region);
  if (!lives_outside(s, id, region->buffer)) return part.value_or(Array<Range>());
  const int32_t scope_id = s.scope_of(id);
  const auto all = s.scope(scope_id);
  Analyzer a = s.analyzer();
  bind_loops(s, a, id);
  if (!part || !makes_box(s, all->leaves[size_t(all->find(id))], region, scope_id, a))
    s.refuse("T0774", id,
             fmt::format("what it makes in one run of {} is not provably a box of '{}'", s.describe(scope_id),
                         region->buffer->name),
             "use cache_write before its loops change");
  return *part;
}
Array<PrimExpr> shape_of(const Buffer& b, const Array<Range>& part) {
  return part.empty() ? b->shape : part.map([](const Range& r) { return r->extent; });
}
/// A block that copies `parts` of `whole` (all of it when empty) to buffers of one shape, or back.
Stmt copy_nest(const std::vector<Buffer>& whole, const std::vector<Array<Range>>& parts,
               const std::vector<Buffer>& copies, bool back, const std::string& name) {
  Array<IterVar> iters;
  Array<PrimExpr> at_copy;
  for (size_t d = 0; d < copies[0]->shape.size(); ++d) {
    iters.push_back(iter_var(range(PrimExpr(0), copies[0]->shape[d]), fmt::format("v{}", d)));
    at_copy.push_back(iters.back()->var);
  }
  Array<Stmt> all;
  for (size_t i = 0; i < whole.size(); ++i) {
    Array<PrimExpr> at_whole;
    for (size_t d = 0; d < iters.size(); ++d)
      at_whole.push_back(parts[i].empty() || is_zero(parts[i][d]->min) ? PrimExpr(iters[d]->var)
                                                                       : iters[d]->var + parts[i][d]->min);
    all.push_back(back ? store(whole[i], load(copies[i], at_copy), at_whole)
                       : store(copies[i], load(whole[i], at_whole), at_copy));
  }
  return nest_of(iters, seq(all), name);
}
Stmt copy_nest(const Buffer& whole, const Array<Range>& part, const Buffer& copy, bool back,
               const std::string& name) {
  return copy_nest(std::vector{whole}, std::vector{part}, std::vector{copy}, back, name);
}
/// `block` (that of `id`) on `copy`, which holds `part` of `b`.
Ref<Block> redirect_part(State& s, int32_t id, const Ref<Block>& block, const Buffer& b,
                         const Array<Range>& part, const Buffer& copy) {
  if (part.empty()) return redirect(block, b, copy);
  Analyzer a = s.analyzer();
  bind_loops(s, a, id);
  for (const IterVar& v : block->iter_vars) a.bind(v->var, v->dom, true);
  auto moved = [&](const Array<PrimExpr>& at) {
    Array<PrimExpr> out;
    for (size_t d = 0; d < at.size(); ++d)
      out.push_back(is_zero(part[d]->min) ? at[d] : a.simplify(at[d] - part[d]->min));
    return out;
  };
  auto changed = [&](const Stmt& t) -> Stmt {
    if (!t) return t;
    return rewrite_any(
               t,
               [&](const ObjectRef& x) -> ObjectRef {
                 if (const auto* l = x.as<BufferLoad>(); l && l->buffer.same_as(b))
                   return load(copy, moved(l->indices));
                 if (const auto* w = x.as<BufferStore>(); w && w->buffer.same_as(b))
                   return store(copy, w->value, moved(w->indices));
                 if (const auto* y = x.as<Block>()) return with_regions(Ref<Block>(y));
                 return {};
               },
               [](const ObjectRef& x) { return x.is<BufferNode>() || x.is<BufferRegionNode>(); })
        .cast<StmtNode>();
  };
  Ref<Block> next = block;
  Block* e = next.edit();
  e->body = changed(block->body);
  e->init = changed(block->init);
  return with_regions(next);
}

}  // namespace

void require_memory(const State& s, int32_t id, const std::string& scope) {
  if (std::ranges::find(kMemoryScopes, scope) == std::end(kMemoryScopes))
    s.refuse("T0770", id, fmt::format("'{}' is no memory scope", scope),
             fmt::format("scopes are {}", fmt::join(kMemoryScopes, ", ")));
}
/// The nest around a block that stands directly in its scope's body.
int32_t outermost(const State& s, int32_t id) {
  while (s.parent(id) >= 0 && !s.is_block(s.parent(id))) id = s.parent(id);
  return id;
}
Stmt nest_of(const Array<IterVar>& iters, const Stmt& put, const std::string& name) {
  Array<PrimExpr> values;
  std::vector<VarRef> loops;
  for (size_t d = 0; d < iters.size(); ++d) {
    loops.push_back(var(fmt::format("ax{}", d)));
    values.push_back(loops.back());
  }
  auto block = make<Block>(iters, Array<BufferRegion>(), Array<BufferRegion>(), name, put, Stmt(),
                           Array<Buffer>(), Array<MatchBufferRegion>(), AttrMap());
  Stmt s = make<BlockRealize>(values, true_(), with_regions(block));
  for (size_t d = loops.size(); d-- > 0;) s = for_(loops[d], iters[d]->dom->min, iters[d]->dom->extent, s);
  return s;
}
/// Uses of `from` inside `block` become uses of `to` (regions too).
Ref<Block> redirect(const Ref<Block>& block, const Buffer& from, const Buffer& to) {
  return replace_buffers(block, {{from.get(), to}}).cast<Block>();
}
/// `body` with `realize` replaced by `next`, and statements put before and after the top-level part around
/// it.
Stmt place(const Stmt& body, const Object* realize, const Ref<BlockRealize>& next, const Stmt& before,
           const Stmt& after) {
  const auto* q = body.as<SeqStmt>();
  Array<Stmt> out;
  for (const Stmt& t : q ? q->seq : Array<Stmt>{body}) {
    Stmt u = rewrite_any(
                 t,
                 [&](const ObjectRef& n) -> ObjectRef {
                   return n.get() == realize ? ObjectRef(next) : ObjectRef();
                 },
                 [&](const ObjectRef& n) {
                   return !n.is<StmtNode>() || (n.is<BlockRealize>() && n.get() != realize);
                 })
                 .cast<StmtNode>();
    const bool here = !u.same_as(t);
    if (here && before) out.push_back(before);
    out.push_back(u);
    if (here && after) out.push_back(after);
  }
  return seq(out);
}

namespace {

/// The number of the region of `b` among what the block reads; T0737 when there is none.
int read_of(State& s, int32_t id, const Buffer& b) {
  const Ref<Block> block = s.block(id);
  for (size_t i = 0; i < block->reads.size(); ++i)
    if (block->reads[i]->buffer.same_as(b)) return int(i);
  s.refuse("T0737", id, fmt::format("it does not read '{}'", b->name), "name blocks that read it");
}
void require_cacheable_read(State& s, int32_t id, const Buffer& b, int32_t nest, int at) {
  const Ref<Block> block = s.block(id);
  for (const BufferRegion& w : block->writes)
    if (w->buffer.same_as(b))
      s.refuse("T0772", id, fmt::format("it also writes '{}'", b->name), "use cache_write");
  if (!plainly_used(block, b))
    s.refuse("T0736", id,
             fmt::format("it reads '{}' through a mask, a matched region or a pointer", b->name));
  auto all = s.scope(s.scope_of(id));
  for (int w : all->writers(b))
    if (w > at || s.inside(all->leaves[size_t(w)].id, nest))
      s.refuse(
          "T0773", id,
          fmt::format("'{}' is written by {} inside the same loops, so no whole copy can be made before them",
                      b->name, s.describe(all->leaves[size_t(w)].id)),
          "use cache_read before compute_at");
}

}  // namespace

static int32_t cache_read(State& s, int32_t id, int read_index, const std::string& scope,
                          const std::vector<int32_t>& others) {
  Ref<BlockRealize> r = s.realize(id);
  const int32_t scope_id = s.scope_of(id);
  require_root_scope(s, id);
  require_memory(s, id, scope);
  if (read_index < 0 || size_t(read_index) >= r->block->reads.size())
    s.refuse(
        "T0771", id,
        fmt::format("it has {} read regions, there is no number {}", r->block->reads.size(), read_index));
  const Buffer b = r->block->reads[size_t(read_index)]->buffer;
  auto all = s.scope(scope_id);
  // The copy is made before the first of the readers.
  std::vector<int32_t> readers{id};
  for (int32_t o : others) {
    if (s.scope_of(o) != scope_id)
      s.refuse("T0750", o, fmt::format("{} belongs to another block than it", s.describe(id)));
    read_of(s, o, b);
    if (std::find(readers.begin(), readers.end(), o) == readers.end()) readers.push_back(o);
  }
  std::sort(readers.begin(), readers.end(),
            [&](int32_t x, int32_t y) { return all->find(x) < all->find(y); });
  const int at = all->find(readers[0]);
  for (int32_t x : readers) require_cacheable_read(s, x, b, outermost(s, x), at);
  const Array<Range> part = readers.size() == 1
                                ? part_of(s, id, r->block->reads[size_t(read_index)]).value_or(Array<Range>())
                                : Array<Range>();
  Buffer copy = buffer(fmt::format("{}_{}", b->name, scope), shape_of(b, part), b->dtype, scope);
  const std::string name = s.fresh_block_name(copy->name);
  Stmt body = s.block(scope_id)->body;
  for (int32_t x : readers) {
    const Ref<BlockRealize> old = s.realize(x);
    Ref<BlockRealize> next = old;
    next.edit()->block = redirect_part(s, x, old->block, b, part, copy);
    body = place(body, old.get(), next, x == readers[0] ? copy_nest(b, part, copy, false, name) : Stmt(),
                 Stmt());
  }
  Array<Buffer> allocs = s.block(scope_id)->alloc_buffers;
  allocs.push_back(copy);
  s.replace_body(scope_id, body, allocs);
  return s.names.at(name);
}

static int32_t cache_write(State& s, int32_t id, int write_index, const std::string& scope) {
  Ref<BlockRealize> r = s.realize(id);
  const int32_t scope_id = s.scope_of(id);
  require_root_scope(s, id);
  require_memory(s, id, scope);
  const bool whole = write_index == -1;
  if (r->block->writes.empty() || write_index < -1 ||
      (!whole && size_t(write_index) >= r->block->writes.size()))
    s.refuse(
        "T0771", id,
        fmt::format("it has {} write regions, there is no number {}", r->block->writes.size(), write_index));
  if (s.guarded.count(r->block->name))
    s.refuse("T0742", id,
             "the program itself restricts the block by a predicate, so a whole copy would read what was "
             "never written");
  auto all = s.scope(scope_id);
  const int32_t nest = outermost(s, id);
  std::vector<Buffer> from, to;
  std::vector<Array<Range>> parts;
  for (size_t i = 0; i < r->block->writes.size(); ++i) {
    if (!whole && int(i) != write_index) continue;
    const Buffer b = r->block->writes[i]->buffer;
    if (!plainly_used(r->block, b))
      s.refuse("T0736", id,
               fmt::format("it uses '{}' through a mask, a matched region or a pointer", b->name));
    if (all->writers(b).size() != 1)
      s.refuse("T0733", id, fmt::format("'{}' is written by other blocks too", b->name),
               "use cache_write before decompose_reduction");
    for (int x : all->readers(b))
      if (all->leaves[size_t(x)].id != id && (x < all->find(id) || s.inside(all->leaves[size_t(x)].id, nest)))
        s.refuse("T0773", id,
                 fmt::format("'{}' is read by {} inside the same loops, before a whole copy could be made",
                             b->name, s.describe(all->leaves[size_t(x)].id)),
                 "use cache_write before reverse_compute_at");
    from.push_back(b);
    parts.push_back(part_to_write(s, id, r->block->writes[i]));
    to.push_back(buffer(fmt::format("{}_{}", b->name, scope), shape_of(b, parts.back()), b->dtype, scope));
  }
  if (!writes_apart(s, r->block))
    s.refuse("T0774", id,
             fmt::format("it does not write each element of '{}' at an index of its own", from[0]->name));
  for (const Buffer& c : to)
    if (!structural_equal(c->shape, to[0]->shape))
      s.refuse("T0774", id,
               fmt::format("'{}' and '{}' are of different shapes, and one block is to copy all",
                           from[0]->name, from[size_t(&c - to.data())]->name),
               "name one of the results");
  Ref<BlockRealize> next = r;
  for (size_t i = 0; i < from.size(); ++i)
    next.edit()->block = redirect_part(s, id, next->block, from[i], parts[i], to[i]);
  const std::string name = s.fresh_block_name(to[0]->name);
  Stmt body = place(s.block(scope_id)->body, r.get(), next, Stmt(), copy_nest(from, parts, to, true, name));
  Array<Buffer> allocs = s.block(scope_id)->alloc_buffers;
  for (const Buffer& c : to) allocs.push_back(c);
  s.replace_body(scope_id, body, allocs);
  return s.names.at(name);
}

static std::vector<int32_t> cache_inplace(State& s, int32_t id, int read_index, const std::string& scope) {
  Ref<BlockRealize> r = s.realize(id);
  const int32_t scope_id = s.scope_of(id);
  require_root_scope(s, id);
  require_memory(s, id, scope);
  const Buffer b = region_buffer(s, id, read_index, false);
  bool updated = false;
  for (const BufferRegion& w : r->block->writes) updated = updated || w->buffer.same_as(b);
  if (!updated)
    s.refuse("T0772", id, fmt::format("it reads '{}' and does not write it", b->name), "use cache_read");
  require_owned(s, id, b);
  if (!plainly_used(r->block, b))
    s.refuse("T0736", id, fmt::format("it uses '{}' through a mask, a matched region or a pointer", b->name));
  auto all = s.scope(scope_id);
  const int32_t nest = outermost(s, id);
  for (const auto& list : {all->writers(b), all->readers(b)})
    for (int x : list)
      if (const Leaf& l = all->leaves[size_t(x)]; l.id != id && s.inside(l.id, nest))
        s.refuse("T0773", id,
                 fmt::format("{} inside the same loops uses '{}' too", s.describe(l.id), b->name),
                 "use cache_inplace before compute_at, and decompose_reduction outside all loops");
  Buffer copy = buffer(fmt::format("{}_{}", b->name, scope), b->shape, b->dtype, scope);
  Ref<BlockRealize> next = r;
  next.edit()->block = redirect(r->block, b, copy);
  const std::string in = s.fresh_block_name(copy->name + "_in"),
                    out = s.fresh_block_name(copy->name + "_out");
  Stmt body = place(s.block(scope_id)->body, r.get(), next, copy_nest(b, {}, copy, false, in),
                    copy_nest(b, {}, copy, true, out));
  Array<Buffer> allocs = s.block(scope_id)->alloc_buffers;
  allocs.push_back(copy);
  s.replace_body(scope_id, body, allocs);
  return {s.names.at(in), s.names.at(out)};
}

static void set_scope(State& s, int32_t id, int write_index, const std::string& scope) {
  Ref<Block> block = s.block(id);
  const int32_t scope_id = s.scope_of(id);
  require_memory(s, id, scope);
  if (write_index < 0 || size_t(write_index) >= block->writes.size())
    s.refuse(
        "T0771", id,
        fmt::format("it has {} write regions, there is no number {}", block->writes.size(), write_index));
  const Buffer b = block->writes[size_t(write_index)]->buffer;
  if (b->scope == scope) return;
  bool owned = false;
  for (const Buffer& x : s.block(scope_id)->alloc_buffers) owned = owned || x.same_as(b);
  if (!owned)
    s.refuse("T0775", id,
             fmt::format("'{}' is not allocated by the program: its scope is the caller's", b->name),
             "use cache_write");
  Buffer copy = buffer(b->name, b->shape, b->dtype, scope);
  Ref<BlockRealize> root = s.realize(scope_id);
  Stmt next = replace_buffers(root, {{b.get(), copy}});
  s.replace(scope_id, next);
}

const Define<&Schedule::cache_read, cache_read> cache_read_record{
    {.name = "cache_read",
     .does = "a block, others with it, reads a copy of what it read; the copying block",
     .legal = "the block does not write the buffer, and no loop around it holds a writer",
     .parameters = {{"block", "the reader"},
                    {"read_index", "which of its read regions"},
                    {"scope", kCopyMemory},
                    {"others", "blocks that read the copy, too; it is made before the first of them", Any()}},
     .sample = {samples::matmul, R"(
c = sch.get_block("C")
copy = sch.cache_read(c, read_index=1, scope="local")
)"}}};
const Define<&Schedule::cache_write, cache_write> cache_write_record{
    {.name = "cache_write",
     .does =
         "a block writes a buffer of its own, which is copied to the old one behind it; the copying block",
     .legal = "the block alone writes the buffer, each element at an index of its own, and no loop around it "
              "holds a reader; of a buffer from outside of the block around, a run of which makes a box",
     .parameters = {{"block", "the writer"},
                    {"write_index", "which of its write regions; -1: all of them, copied by one block"},
                    {"scope", kCopyMemory}},
     .sample = {samples::matmul, R"(
c = sch.get_block("C")
copy = sch.cache_write(c, write_index=0, scope="local")
)"}}};
const Define<&Schedule::cache_inplace, cache_inplace> cache_inplace_record{
    {.name = "cache_inplace",
     .does = "a block updates a copy of what it updated in place; the blocks that fill it and copy it back",
     .legal =
         "the block reads and writes the buffer, which the block around owns, and no loop around it holds "
         "another block that uses it",
     .parameters = {{"block", "that updates"},
                    {"read_index", "which of its read regions"},
                    {"scope", kCopyMemory}},
     .sample = {samples::matmul, R"(
c = sch.get_block("C")
i, j, k = sch.get_loops(c)
init = sch.decompose_reduction(c, i)
before, behind = sch.cache_inplace(c, read_index=0, scope="local")
)"}}};
const Define<&Schedule::set_scope, set_scope> set_scope_record{
    {.name = "set_scope",
     .calls = CallOrder::kept,
     .does = "a buffer lives in another memory",
     .legal = "the block around allocates the buffer",
     .parameters = {{"block", "a writer of the buffer"},
                    {"write_index", "which of its write regions"},
                    {"scope", "global, local, shared, warp, matrix"}},
     .sample = {samples::matmul, R"(
c = sch.get_block("C")
sch.set_scope(c, write_index=0, scope="shared")
)"}}};

}  // namespace tenon::sched
