// SPDX-License-Identifier: Apache-2.0
// Primitives on what a block says that it touches: unsafe_hide_buffer_access, annotate_buffer_access.
#include <fmt/format.h>

#include "ir/attr_keys.h"
#include "schedule/define.h"

namespace tenon::sched {

using namespace tir;

static void unsafe_hide_buffer_access(State& s, int32_t id, BufferIndexType type,
                                      const std::vector<int>& indices) {
  const bool of_write = type == BufferIndexType::write;
  s.scope_of(id);
  Ref<BlockRealize> r = s.realize(id);
  const Array<BufferRegion>& regions = of_write ? r->block->writes : r->block->reads;
  if (indices.empty()) s.refuse("T0799", id, "no region is named", "give the positions of those to hide");
  std::vector<bool> hidden(regions.size());
  for (int i : indices) {
    region_buffer(s, id, i, of_write);
    if (hidden[size_t(i)]) s.refuse("T0799", id, fmt::format("region {} is given twice", i));
    hidden[size_t(i)] = true;
  }
  Array<BufferRegion> kept;
  for (size_t i = 0; i < regions.size(); ++i)
    if (!hidden[i]) kept.push_back(regions[i]);
  Ref<Block> block = r->block;
  (of_write ? block.edit()->writes : block.edit()->reads) = kept;
  block.edit()->annotations.set(kHidesAccessAttr, Any(true));  // else the verifier takes it for a mistake
  r.edit()->block = block;
  s.replace(id, r);
}

static void annotate_buffer_access(State& s, int32_t id, int index, BufferIndexType type,
                                   const IndexMap& map) {
  const bool of_write = type == BufferIndexType::write;
  s.scope_of(id);
  Ref<BlockRealize> r = s.realize(id);
  Ref<Block> block = r->block;
  const Buffer b = region_buffer(s, id, index, of_write);
  if (map->inputs.size() != block->iter_vars.size() || map->outputs.size() != 2 * b->shape.size())
    s.refuse(
        "T0799", id,
        fmt::format(
            "the map takes {} indices and gives {}; the block has {} iterators and '{}' {} dimensions",
            map->inputs.size(), map->outputs.size(), block->iter_vars.size(), b->name, b->shape.size()),
        "give the first index and the one behind the last of each dimension, from the block's iterators");
  VarMap to_block;
  for (size_t i = 0; i < block->iter_vars.size(); ++i)
    to_block[map->inputs[i].get()] = block->iter_vars[i]->var;
  Analyzer a = s.analyzer();
  bind_loops(s, a, id);
  std::unordered_set<const Var*> known;
  for (const IterVar& v : block->iter_vars) {
    a.bind(v->var, v->dom, true);
    known.insert(v->var.get());
  }
  for (const VarRef& p : s.function->params) known.insert(p.get());
  for (auto [p, x] : s.function->buffer_map)
    for (const PrimExpr& d : x->shape)
      for (const VarRef& v : free_vars(d)) known.insert(v.get());
  Array<Range> region;
  for (size_t d = 0; d < b->shape.size(); ++d) {
    const PrimExpr from = substitute(map->outputs[2 * d], to_block),
                   end = substitute(map->outputs[2 * d + 1], to_block), low = a.simplify(from),
                   high = a.simplify(end);
    // A trace holds the map as it is given.
    for (const PrimExpr& e : {from, end})
      for (const VarRef& v : free_vars(e))
        if (!known.count(v.get()))
          s.refuse("T0799", id,
                   fmt::format("the region uses '{}', which is neither an iterator nor a size", v->name));
    const PrimExpr extent = a.simplify(high - low);
    region.push_back(range(cast(extent.dtype(), low), extent));  // numbers take the other end's type
  }
  // A statement may say more than can be derived, but nothing that is provably wrong.
  Ref<Block> plain = block;
  plain.edit()->annotations = AttrMap();
  plain = with_regions(plain);
  for (const BufferRegion& x : of_write ? plain->writes : plain->reads) {
    if (!x->buffer.same_as(b)) continue;
    for (size_t d = 0; d < region.size(); ++d) {
      const Range &said = region[d], &found = x->region[d];
      if (is_one(found->extent) &&
          (a.can_prove(lt(found->min, said->min)) || a.can_prove(ge(found->min, said->min + said->extent))))
        s.refuse(
            "T0799", id,
            fmt::format("dimension {} of '{}' is accessed outside the region that is stated", d, b->name),
            "a region holds all that one run of the block touches");
      if (a.can_prove(le(said->extent, PrimExpr(0))))
        s.refuse("T0799", id, fmt::format("the region stated for dimension {} of '{}' is empty", d, b->name));
    }
  }
  Block* e = block.edit();
  (of_write ? e->writes : e->reads).set(size_t(index), make<BufferRegionNode>(b, region));
  const std::string& key = of_write ? explicit_write_key : explicit_read_key;
  Array<Any> list;
  if (auto old = e->annotations.find(key))
    for (const Any& x : old->as<Array<Any>>())
      if (x.as<int>() != index) list.push_back(x);
  list.push_back(Any(index));
  e->annotations.set(key, Any(list));
  r.edit()->block = block;
  s.replace(id, r);
}

const Define<&Schedule::unsafe_hide_buffer_access, unsafe_hide_buffer_access>
    unsafe_hide_buffer_access_record{
        {.name = "unsafe_hide_buffer_access",
         .trusts_caller = true,
         .does = "regions vanish from what a block says that it touches, until a later step derives them "
                 "anew; no check sees them",
         .legal = "each region is named once",
         .parameters = {{"block", "that touches them"},
                        {"buffer_index_type", "regions that it reads or that it writes"},
                        {"indices", "their positions"}},
         .sample = {samples::matmul, R"(
d = sch.get_block("D")
sch.unsafe_hide_buffer_access(d, buffer_index_type="read", indices=[1])
)"}}};
const Define<&Schedule::annotate_buffer_access, annotate_buffer_access> annotate_buffer_access_record{
    {.name = "annotate_buffer_access",
     .calls = CallOrder::kept,
     .trusts_caller = true,
     .does = "a region that a block touches is stated by hand",
     .legal = "the region is made of the block's iterators and of sizes, and not provably smaller than what "
              "the block touches",
     .parameters = {{"block", "that touches it"},
                    {"buffer_index", "which of its regions"},
                    {"buffer_index_type", "of those that it reads or of those that it writes"},
                    {"index_map",
                     "from all iterators to the first index and the one behind the last of each dimension"}},
     .sample = {samples::matmul, R"(
d = sch.get_block("D")
sch.annotate_buffer_access(d, buffer_index=0, buffer_index_type="read", index_map=lambda i, j: (i, i + 1, 0, 8))
)"}}};

}  // namespace tenon::sched
