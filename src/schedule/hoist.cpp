// SPDX-License-Identifier: Apache-2.0
// hoist: a block that every run of the block around makes anew, and alike, is made once before them.
#include <fmt/format.h>

#include "schedule/cache_impl.h"
#include "schedule/define.h"

namespace tenon::sched {

using namespace tir;

static void hoist(State& s, int32_t id) {
  const int32_t scope_id = s.scope_of(id), nest = outermost(s, id);
  if (s.parent(scope_id) < 0 || !s.open.count(s.block(scope_id)->name))
    s.refuse("T0750", id, "no block stands around it that a whole program was put into",
             "use block_rows first");
  const Ref<BlockRealize> around = s.realize(scope_id);
  std::unordered_set<const Var*> outside;
  for (const IterVar& v : around->block->iter_vars) outside.insert(v->var.get());
  const Stmt moved = s.entry(nest).node;
  if (uses_any(moved, outside))
    s.refuse("T0750", id, fmt::format("it differs from one run of {} to the next", s.describe(scope_id)));
  const auto all = s.scope(scope_id);
  std::unordered_set<const BufferNode*> made;
  for (const Leaf& leaf : all->leaves) {
    const bool inside = s.inside(leaf.id, nest);
    for (const BufferRegion& w : leaf.realize->block->writes) {
      if (inside) require_owned(s, id, w->buffer);
      if (inside) made.insert(w->buffer.get());
      for (const Leaf& other : all->leaves)
        if (s.inside(other.id, nest) != inside && (inside ? other.writes(w->buffer) : other.reads(w->buffer)))
          s.refuse("T0733", id, fmt::format("{} uses '{}' too", s.describe(other.id), w->buffer->name));
    }
  }
  const int32_t outer = s.scope_of(scope_id);
  Array<Buffer> stay, go = s.block(outer)->alloc_buffers;
  for (const Buffer& b : around->block->alloc_buffers) (made.count(b.get()) ? go : stay).push_back(b);
  Ref<Block> block = around->block;
  {
    Block* e = block.edit();
    e->body =
        clean(rewrite_stmts(e->body, [&](const Stmt& t) { return t.same_as(moved) ? nothing() : Stmt(); }));
    e->alloc_buffers = stay;
  }
  Ref<BlockRealize> rest = around;
  rest.edit()->block = with_regions(block);
  s.replace_body(outer, place(s.block(outer)->body, around.get(), rest, moved, Stmt()), go);
}

const Define<&Schedule::hoist, hoist> hoist_record{
    {.name = "hoist",
     .does = "a block that every run of the block around makes alike is made once, in front of the loops "
             "around that one",
     .legal = "it stands by itself in a block that block_rows made, uses none of its iterators, and reads "
              "nothing that is made there",
     .parameters = {{"block", "moved with its loops"}},
     .sample = {samples::two_products, R"(
d = sch.get_block("D")
part, = sch.block_rows(d, 1, 4)
c = sch.get_block("C")
copy = sch.cache_read(c, 1, "global")
sch.hoist(copy)
)"}}};

}  // namespace tenon::sched
