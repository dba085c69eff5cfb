// SPDX-License-Identifier: Apache-2.0
// The face of a schedule: handles in and out, one recorded step for each primitive, copies on write.
#include "schedule/schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "schedule/replay.h"
#include "schedule/state.h"
#include "schedule/trace_impl.h"

namespace tenon {

using namespace tir;

struct Schedule::State : sched::State {
  using sched::State::State;
};

namespace {
std::vector<int32_t> ids(const std::vector<LoopRV>& loops) {
  std::vector<int32_t> out;
  for (LoopRV l : loops) out.push_back(l.id);
  return out;
}
std::vector<LoopRV> as_loops(const std::vector<int32_t>& ids) {
  std::vector<LoopRV> out;
  for (int32_t i : ids) out.push_back({i});
  return out;
}
std::vector<BlockRV> as_blocks(const std::vector<int32_t>& ids) {
  std::vector<BlockRV> out;
  for (int32_t i : ids) out.push_back({i});
  return out;
}
AttrMap attr(const char* key, Any value) {
  AttrMap map;
  map.set(key, std::move(value));
  return map;
}

template <class T>
Any numbers(const std::vector<T>& values) {
  Array<Any> list;
  for (T v : values) list.push_back(Any(int64_t(v)));
  return Any(list);
}
void require_kind_of_region(const std::string& type) {
  if (type != "read" && type != "write")
    throw ScheduleError(ErrorKind::model, "T0771", fmt::format("'{}' is no kind of region", type), {},
                        "it is read or write");
}

/// Introduces handles that no earlier step made, so that the trace stands alone: by the query that found
/// them, or by name.
void introduce(sched::State& s, const std::vector<int32_t>& inputs, std::vector<TraceStep>& before,
               size_t known = SIZE_MAX) {
  auto name_block = [&](int32_t id) {
    if (!s.named.insert(id).second) return;
    before.push_back({"get_block", {}, {id}, attr("name", Any(s.entries[size_t(id)].label))});
  };
  for (int32_t id : inputs) {
    if (s.named.count(id)) continue;
    size_t found = 0;
    const size_t queries = s.asked.same_as(s.function) ? std::min(known, s.queries.size()) : 0;
    for (; found < queries; ++found) {
      const std::vector<int32_t>& out = s.queries[found].outputs;
      if (std::find(out.begin(), out.end(), id) != out.end()) break;
    }
    if (found < queries) {
      const TraceStep q = s.queries[found];
      std::vector<int32_t> in;
      for (const Any& a : q.inputs) in.push_back(a.as<int32_t>());
      introduce(s, in, before, found);  // a query is asked about what was found before
      before.push_back(q);
      s.named.insert(q.outputs.begin(), q.outputs.end());
      continue;
    }
    if (s.is_block(id)) {
      name_block(id);
      continue;
    }
    std::vector<int32_t> below = s.blocks_below(id);
    CHECK(!below.empty(), "a loop without a block below cannot be named in a trace");
    name_block(below[0]);
    std::vector<int32_t> loops = s.loops_of(below[0]);
    before.push_back({"get_loops", {Any(below[0])}, loops, {}});
    s.named.insert(loops.begin(), loops.end());
  }
}
/// Remembers what was found.
std::vector<int32_t> asked(sched::State& s, const char* name, const std::vector<int32_t>& inputs,
                           std::vector<int32_t> found) {
  if (!s.asked.same_as(s.function)) {
    s.asked = s.function;
    s.queries.clear();
  }
  if (found.empty()) return found;
  for (int32_t id : found)  // a handle is introduced once, by the first query that found it
    if (!s.named.count(id)) {
      TraceStep q{name, {}, found, {}};
      for (int32_t i : inputs) q.inputs.emplace_back(i);
      for (const TraceStep& old : s.queries)
        if (old.name == q.name && old.outputs == q.outputs) return found;
      s.queries.push_back(std::move(q));
      break;
    }
  return found;
}

/// Runs one primitive on the state and records it. A refused step leaves no trace and changes nothing.
template <class S, class F>
std::vector<int32_t> step(std::shared_ptr<S>& state, std::string name, const std::vector<int32_t>& inputs,
                          AttrMap attrs, F run) {
  if (state.use_count() > 1) {
    state = std::make_shared<S>(*state);
    state->facts = std::make_shared<sched::FactCache>(*state->facts);
  }
  sched::State& s = *state;
  for (int32_t id : inputs)
    if (!s.places.count(id)) s.entry(id);
  s.step = name;
  std::vector<TraceStep> before;
  const std::unordered_set<int32_t> named = s.named;
  introduce(s, inputs, before);
  std::vector<int32_t> out;
  try {
    out = run(s);
  } catch (...) {
    s.named = named;
    throw;
  }
  for (TraceStep& b : before) s.trace.steps.push_back(std::move(b));
  TraceStep t{std::move(name), {}, out, std::move(attrs)};
  for (int32_t id : inputs) t.inputs.emplace_back(id);
  s.trace.steps.push_back(std::move(t));
  s.named.insert(out.begin(), out.end());
  return out;
}
/// A step that picks factors: each is a number of its own in the trace.
template <class S, class F>
Factors sampled_factors(std::shared_ptr<S>& state, const char* name, LoopRV loop, const AttrMap& attrs,
                        F pick) {
  std::vector<int64_t> picked;
  const std::vector<int32_t> names = step(state, name, {loop.id}, attrs, [&](sched::State& s) {
    picked = pick(s);
    std::vector<int32_t> out;
    for (size_t i = 0; i < picked.size(); ++i) out.push_back(IntRV::first + s.sampled++);
    return out;
  });
  state->trace.steps.back().attrs.set("decision", numbers(picked));
  std::vector<IntRV> items;
  for (size_t i = 0; i < picked.size(); ++i) items.emplace_back(names[i], picked[i]);
  return Factors(items);
}
}  // namespace

Schedule::Schedule(PrimFunc function, uint64_t seed)
    : state_(std::make_shared<State>(std::move(function), seed)) {}
Schedule::Schedule(const Schedule&) = default;
Schedule& Schedule::operator=(const Schedule&) = default;
Schedule::~Schedule() = default;
PrimFunc Schedule::function() const { return state_->function; }
const Trace& Schedule::trace() const { return state_->trace; }

Schedule Schedule::replay(PrimFunc function, const Trace& trace) {
  Schedule s(std::move(function));
  sched::replay_steps(s, trace);
  return s;
}

// ---------------------------------------------------------------- handles
BlockRV Schedule::get_block(const std::string& name) {
  auto it = state_->names.find(name);
  if (it == state_->names.end()) {
    std::string known;
    for (const sched::Leaf& l : state_->scope(state_->id_of(state_->function->body))->leaves)
      known += (known.empty() ? "" : ", ") + l.realize->block->name;
    throw ScheduleError(ErrorKind::model, "T0704", fmt::format("the program has no block '{}'", name),
                        state_->sketch({}), known.empty() ? "" : "its blocks are " + known);
  }
  return {it->second};
}
std::vector<BlockRV> Schedule::blocks() const {
  std::vector<BlockRV> out;
  std::vector<int32_t> stack{state_->id_of(state_->function->body)};
  while (!stack.empty()) {
    int32_t id = stack.back();
    stack.pop_back();
    std::vector<int32_t> below = state_->children(id);
    if (state_->is_block(id) && below.empty() && state_->parent(id) >= 0) out.push_back({id});
    stack.insert(stack.end(), below.rbegin(), below.rend());
  }
  return out;
}
std::vector<LoopRV> Schedule::get_loops(BlockRV block) {
  state_->realize(block.id);
  return as_loops(state_->loops_of(block.id));
}
std::vector<BlockRV> Schedule::get_child_blocks(LoopRV loop) {
  state_->loop(loop.id);
  return as_blocks(asked(*state_, "get_child_blocks", {loop.id}, state_->blocks_below(loop.id)));
}
static std::vector<int32_t> related(sched::State& s, int32_t block, bool producers) {
  auto scope = s.scope(s.scope_of(block));
  Ref<Block> b = s.block(block);
  std::vector<int32_t> out;
  for (const sched::Leaf& l : scope->leaves) {
    if (l.id == block) continue;
    bool related = false;
    for (const BufferRegion& r : producers ? b->reads : b->writes)
      related = related || (producers ? l.writes(r->buffer) : l.reads(r->buffer));
    if (related) out.push_back(l.id);
  }
  return out;
}
std::vector<BlockRV> Schedule::get_producers(BlockRV block) {
  state_->realize(block.id);
  return as_blocks(asked(*state_, "get_producers", {block.id}, related(*state_, block.id, true)));
}
std::vector<BlockRV> Schedule::get_consumers(BlockRV block) {
  state_->realize(block.id);
  return as_blocks(asked(*state_, "get_consumers", {block.id}, related(*state_, block.id, false)));
}
std::vector<BlockRV> Schedule::get_output_blocks() {
  std::vector<int32_t> out;
  for (BlockRV b : blocks())
    for (const BufferRegion& w : state_->block(b.id)->writes)
      if (sched::is_parameter(*state_, w->buffer)) {
        out.push_back(b.id);
        break;
      }
  return as_blocks(asked(*state_, "get_output_blocks", {}, out));
}
Ref<Block> Schedule::get(BlockRV block) const { return state_->block(block.id); }
Ref<For> Schedule::get(LoopRV loop) const { return state_->loop(loop.id); }
Ref<BlockRealize> Schedule::realize(BlockRV block) const { return state_->realize(block.id); }

// ---------------------------------------------------------------- primitives
using sched::State;
using Ids = std::vector<int32_t>;

std::vector<LoopRV> Schedule::split(LoopRV loop, const std::vector<int64_t>& factors) {
  Array<Any> list;
  for (int64_t f : factors) list.push_back(Any(f));
  return as_loops(step(state_, "split", {loop.id}, attr("factors", Any(list)),
                       [&](sched::State& s) { return sched::split(s, loop.id, factors); }));
}
std::vector<LoopRV> Schedule::split(LoopRV loop, const Factors& factors) {
  Array<Any> list;
  for (const IntRV& f : factors.items)
    list.push_back(f.id < 0 ? Any(f.value) : Any(sched::handle_text('v', f.id)));
  return as_loops(step(state_, "split", {loop.id}, attr("factors", Any(list)),
                       [&](sched::State& s) { return sched::split(s, loop.id, factors); }));
}
LoopRV Schedule::fuse(const std::vector<LoopRV>& loops) {
  return {step(state_, "fuse", ids(loops), {},
               [&](sched::State& s) { return Ids{sched::fuse(s, ids(loops))}; })[0]};
}
void Schedule::reorder(const std::vector<LoopRV>& order) {
  step(state_, "reorder", ids(order), {}, [&](sched::State& s) {
    sched::reorder(s, ids(order));
    return Ids();
  });
}
void Schedule::parallel(LoopRV loop) {
  step(state_, "parallel", {loop.id}, {}, [&](sched::State& s) {
    sched::set_kind(s, loop.id, ForKind::parallel);
    return Ids();
  });
}
void Schedule::vectorize(LoopRV loop) {
  step(state_, "vectorize", {loop.id}, {}, [&](sched::State& s) {
    sched::set_kind(s, loop.id, ForKind::vectorized);
    return Ids();
  });
}
void Schedule::unroll(LoopRV loop) {
  step(state_, "unroll", {loop.id}, {}, [&](sched::State& s) {
    sched::set_kind(s, loop.id, ForKind::unrolled);
    return Ids();
  });
}
void Schedule::bind(LoopRV loop, const std::string& thread_axis) {
  step(state_, "bind", {loop.id}, attr("thread_axis", Any(thread_axis)), [&](sched::State& s) {
    sched::bind(s, loop.id, thread_axis);
    return Ids();
  });
}
void Schedule::reorder_block_iter_var(BlockRV block, const std::vector<int>& order) {
  step(state_, "reorder_block_iter_var", {block.id}, attr("order", numbers(order)), [&](sched::State& s) {
    sched::reorder_block_iter_var(s, block.id, order);
    return Ids();
  });
}
LoopRV Schedule::add_unit_loop(BlockRV block) {
  return {step(state_, "add_unit_loop", {block.id}, {},
               [&](sched::State& s) { return Ids{sched::add_unit_loop(s, block.id)}; })[0]};
}
LoopRV Schedule::add_thread_loop(BlockRV block, const std::string& thread_axis, int64_t extent,
                                 int64_t which) {
  AttrMap attrs = attr("thread_axis", Any(thread_axis));
  attrs.set("extent", Any(extent));
  attrs.set("which", Any(which));
  return {step(state_, "add_thread_loop", {block.id}, attrs, [&](sched::State& s) {
    return Ids{sched::add_thread_loop(s, block.id, thread_axis, extent, which)};
  })[0]};
}
LoopRV Schedule::fuse_iterators(BlockRV block, int first, int count) {
  AttrMap attrs = attr("first", Any(first));
  attrs.set("count", Any(count));
  return {step(state_, "fuse_iterators", {block.id}, attrs,
               [&](sched::State& s) { return Ids{sched::fuse_iterators(s, block.id, first, count)}; })[0]};
}
void Schedule::pad_iteration(BlockRV block, int iterator, int64_t multiple, bool clamp) {
  AttrMap attrs = attr("iterator", Any(iterator));
  attrs.set("multiple", Any(multiple));
  attrs.set("clamp", Any(clamp));
  step(state_, "pad_iteration", {block.id}, attrs, [&](sched::State& s) {
    sched::pad_iteration(s, block.id, iterator, multiple, clamp);
    return Ids();
  });
}
void Schedule::compute_inline(BlockRV block) {
  step(state_, "compute_inline", {block.id}, {}, [&](sched::State& s) {
    sched::compute_inline(s, block.id);
    return Ids();
  });
}
void Schedule::reverse_compute_inline(BlockRV block) {
  step(state_, "reverse_compute_inline", {block.id}, {}, [&](sched::State& s) {
    sched::reverse_compute_inline(s, block.id);
    return Ids();
  });
}
void Schedule::compute_at(BlockRV block, LoopRV loop) {
  step(state_, "compute_at", {block.id, loop.id}, {}, [&](sched::State& s) {
    auto place = s.places.find(loop.id);
    if (place == s.places.end())
      sched::compute_at(s, block.id, loop.id);
    else if (place->second >= 0)
      sched::compute_at(s, block.id, place->second);
    else if (place->second == -2)
      sched::compute_inline(s, block.id);
    else
      s.realize(block.id);  // stays; it must be a block
    return Ids();
  });
}
void Schedule::reverse_compute_at(BlockRV block, LoopRV loop) {
  step(state_, "reverse_compute_at", {block.id, loop.id}, {}, [&](sched::State& s) {
    sched::reverse_compute_at(s, block.id, loop.id);
    return Ids();
  });
}
BlockRV Schedule::decompose_reduction(BlockRV block, LoopRV loop) {
  return {step(state_, "decompose_reduction", {block.id, loop.id}, {},
               [&](sched::State& s) { return Ids{sched::decompose_reduction(s, block.id, loop.id)}; })[0]};
}
BlockRV Schedule::cache_read(BlockRV block, int read_index, const std::string& scope,
                             const std::vector<BlockRV>& others) {
  AttrMap attrs = attr("read_index", Any(read_index));
  attrs.set("scope", Any(scope));
  Ids readers{block.id};
  for (BlockRV x : others) readers.push_back(x.id);
  return {step(state_, "cache_read", readers, attrs, [&](sched::State& s) {
    return Ids{sched::cache_read(s, block.id, read_index, scope, Ids(readers.begin() + 1, readers.end()))};
  })[0]};
}
BlockRV Schedule::cache_write(BlockRV block, int write_index, const std::string& scope) {
  AttrMap attrs = attr("write_index", Any(write_index));
  attrs.set("scope", Any(scope));
  return {step(state_, "cache_write", {block.id}, attrs,
               [&](sched::State& s) { return Ids{sched::cache_write(s, block.id, write_index, scope)}; })[0]};
}
BlockRV Schedule::reindex(BlockRV block, int index, const std::string& buffer_index_type) {
  require_kind_of_region(buffer_index_type);
  const bool write = buffer_index_type == "write";
  return {step(state_, "reindex", {block.id}, attr(write ? "write_index" : "read_index", Any(index)),
               [&](sched::State& s) {
                 return Ids{write ? sched::reindex_write(s, block.id, index)
                                  : sched::reindex(s, block.id, index)};
               })[0]};
}
static AttrMap cached(const char* index_name, int index, const std::string& scope) {
  AttrMap attrs = attr(index_name, Any(index));
  attrs.set("scope", Any(scope));
  return attrs;
}
BlockRV Schedule::reindex_cache_read(BlockRV block, int read_index, const std::string& scope,
                                     const IndexMap& map) {
  AttrMap attrs = cached("read_index", read_index, scope);
  attrs.set("index_map", Any(map));
  return {step(state_, "reindex_cache_read", {block.id}, attrs, [&](sched::State& s) {
    return Ids{sched::reindex_cache(s, block.id, read_index, false, scope, map)};
  })[0]};
}
BlockRV Schedule::reindex_cache_write(BlockRV block, int write_index, const std::string& scope,
                                      const IndexMap& map) {
  AttrMap attrs = cached("write_index", write_index, scope);
  attrs.set("index_map", Any(map));
  return {step(state_, "reindex_cache_write", {block.id}, attrs, [&](sched::State& s) {
    return Ids{sched::reindex_cache(s, block.id, write_index, true, scope, map)};
  })[0]};
}
std::vector<BlockRV> Schedule::cache_inplace(BlockRV block, int read_index, const std::string& scope) {
  return as_blocks(
      step(state_, "cache_inplace", {block.id}, cached("read_index", read_index, scope),
           [&](sched::State& s) { return sched::cache_inplace(s, block.id, read_index, scope); }));
}
std::vector<BlockRV> Schedule::cache_index(BlockRV block, const std::string& scope, int threshold) {
  AttrMap attrs = attr("scope", Any(scope));
  attrs.set("threshold", Any(threshold));
  return as_blocks(step(state_, "cache_index", {block.id}, attrs,
                        [&](sched::State& s) { return sched::cache_index(s, block.id, scope, threshold); }));
}
BlockRV Schedule::read_at(LoopRV loop, BlockRV block, int read_index, const std::string& scope) {
  return {
      step(state_, "read_at", {loop.id, block.id}, cached("read_index", read_index, scope),
           [&](sched::State& s) { return Ids{sched::read_at(s, loop.id, block.id, read_index, scope)}; })[0]};
}
BlockRV Schedule::write_at(LoopRV loop, BlockRV block, int write_index, const std::string& scope) {
  return {step(
      state_, "write_at", {loop.id, block.id}, cached("write_index", write_index, scope),
      [&](sched::State& s) { return Ids{sched::write_at(s, loop.id, block.id, write_index, scope)}; })[0]};
}
void Schedule::fuse_reduction_epilogue(BlockRV block, BlockRV epilogue) {
  step(state_, "fuse_reduction_epilogue", {block.id, epilogue.id}, {}, [&](sched::State& s) {
    sched::fuse_reduction_epilogue(s, block.id, epilogue.id);
    return Ids();
  });
}
void Schedule::unsafe_hide_buffer_access(BlockRV block, const std::string& buffer_index_type,
                                         const std::vector<int>& indices) {
  require_kind_of_region(buffer_index_type);
  AttrMap attrs = attr("buffer_index_type", Any(buffer_index_type));
  attrs.set("indices", numbers(indices));
  step(state_, "unsafe_hide_buffer_access", {block.id}, attrs, [&](sched::State& s) {
    sched::unsafe_hide_buffer_access(s, block.id, buffer_index_type == "write", indices);
    return Ids();
  });
}
void Schedule::annotate_buffer_access(BlockRV block, int buffer_index, const std::string& buffer_index_type,
                                      const IndexMap& map) {
  require_kind_of_region(buffer_index_type);
  AttrMap attrs = attr("buffer_index", Any(buffer_index));
  attrs.set("buffer_index_type", Any(buffer_index_type));
  attrs.set("index_map", Any(map));
  step(state_, "annotate_buffer_access", {block.id}, attrs, [&](sched::State& s) {
    sched::annotate_buffer_access(s, block.id, buffer_index, buffer_index_type == "write", map);
    return Ids();
  });
}
void Schedule::enter_postproc() {
  step(state_, "enter_postproc", {}, {}, [&](sched::State& s) {
    sched::enter_postproc(s);
    return Ids();
  });
}
BlockRV Schedule::rfactor(LoopRV loop, int factor_axis) {
  return {step(state_, "rfactor", {loop.id}, attr("factor_axis", Any(factor_axis)),
               [&](sched::State& s) { return Ids{sched::rfactor(s, loop.id, factor_axis)}; })[0]};
}
BlockRV Schedule::blockize(LoopRV loop) {
  return {step(state_, "blockize", {loop.id}, {},
               [&](sched::State& s) { return Ids{sched::blockize(s, loop.id)}; })[0]};
}
BlockRV Schedule::tensorize(BlockRV block, const std::string& intrin) {
  return {step(state_, "tensorize", {block.id}, attr("tensor_intrin", Any(intrin)),
               [&](sched::State& s) { return Ids{sched::tensorize(s, block.id, intrin)}; })[0]};
}
BlockRV Schedule::tensorize(LoopRV loop, const std::string& intrin) {
  return tensorize(BlockRV{loop.id}, intrin);
}
void Schedule::transform_layout(BlockRV block, int buffer_index, const std::string& buffer_index_type,
                                const IndexMap& map, PrimExpr pad_value) {
  require_kind_of_region(buffer_index_type);
  AttrMap attrs = attr("buffer_index", Any(buffer_index));
  attrs.set("buffer_index_type", Any(buffer_index_type));
  attrs.set("index_map", Any(map));
  if (pad_value) attrs.set("pad_value", Any(pad_value));
  step(state_, "transform_layout", {block.id}, attrs, [&](sched::State& s) {
    sched::transform_layout(s, block.id, buffer_index, buffer_index_type == "write", map, pad_value);
    return Ids();
  });
}
void Schedule::transform_block_layout(BlockRV block, const IndexMap& map) {
  step(state_, "transform_block_layout", {block.id}, attr("index_map", Any(map)), [&](sched::State& s) {
    sched::transform_block_layout(s, block.id, map);
    return Ids();
  });
}
void Schedule::pad_einsum(BlockRV block, const std::vector<int64_t>& padding) {
  step(state_, "pad_einsum", {block.id}, attr("padding", numbers(padding)), [&](sched::State& s) {
    sched::pad_einsum(s, block.id, padding);
    return Ids();
  });
}
BlockRV Schedule::decompose_padding(BlockRV block, LoopRV loop) {
  return {step(state_, "decompose_padding", {block.id, loop.id}, {},
               [&](sched::State& s) { return Ids{sched::decompose_padding(s, block.id, loop.id)}; })[0]};
}
void Schedule::storage_align(BlockRV block, int write_index, int axis, int64_t factor, int64_t offset) {
  AttrMap attrs = attr("write_index", Any(write_index));
  attrs.set("axis", Any(axis));
  attrs.set("factor", Any(factor));
  attrs.set("offset", Any(offset));
  step(state_, "storage_align", {block.id}, attrs, [&](sched::State& s) {
    sched::storage_align(s, block.id, write_index, axis, factor, offset);
    return Ids();
  });
}
std::vector<LoopRV> Schedule::loop_partition(LoopRV loop, const std::vector<int64_t>& sizes) {
  return as_loops(step(state_, "loop_partition", {loop.id}, attr("sizes", numbers(sizes)),
                       [&](sched::State& s) { return sched::loop_partition(s, loop.id, sizes); }));
}
LoopRV Schedule::merge(const std::vector<LoopRV>& loops) {
  return {step(state_, "merge", ids(loops), {},
               [&](sched::State& s) { return Ids{sched::merge(s, ids(loops))}; })[0]};
}
Factors Schedule::sample_perfect_tile(LoopRV loop, int n, int64_t max_innermost,
                                      const std::vector<int64_t>& decision) {
  AttrMap attrs = attr("n", Any(n));
  attrs.set("max_innermost", Any(max_innermost));
  return sampled_factors(state_, "sample_perfect_tile", loop, attrs, [&](sched::State& s) {
    return sched::sample_perfect_tile(s, loop.id, n, max_innermost, decision);
  });
}
Factors Schedule::sample_partitioned_tile(LoopRV loop, int n, int partition_pos, int64_t innerpart_factor,
                                          const std::vector<int64_t>& decision) {
  AttrMap attrs = attr("n", Any(n));
  attrs.set("partition_pos", Any(partition_pos));
  attrs.set("innerpart_factor", Any(innerpart_factor));
  return sampled_factors(state_, "sample_partitioned_tile", loop, attrs, [&](sched::State& s) {
    return sched::sample_partitioned_tile(s, loop.id, n, partition_pos, innerpart_factor, decision);
  });
}
IntRV Schedule::sample_categorical(const std::vector<int64_t>& candidates,
                                   const std::vector<double>& probabilities, std::optional<int> decision) {
  Array<Any> probs;
  for (double p : probabilities) probs.push_back(Any(p));
  AttrMap attrs = attr("candidates", numbers(candidates));
  attrs.set("probs", Any(probs));
  int64_t chosen = 0;
  const Ids out = step(state_, "sample_categorical", {}, attrs, [&](sched::State& s) {
    chosen = sched::sample_categorical(s, candidates, probabilities, decision.value_or(-1));
    return Ids{IntRV::first + s.sampled++};
  });
  state_->trace.steps.back().attrs.set("decision", Any(chosen));
  return {out[0], candidates[size_t(chosen)]};
}
LoopRV Schedule::sample_compute_location(BlockRV block, std::optional<int> decision) {
  std::pair<int32_t, int> chosen;
  const Ids out = step(state_, "sample_compute_location", {block.id}, {}, [&](sched::State& s) {
    chosen = sched::sample_compute_location(s, block.id, decision);
    const int32_t place = IntRV::first + s.sampled++;
    s.places.emplace(place, chosen.first);
    return Ids{place};
  });
  state_->trace.steps.back().attrs.set("decision", Any(chosen.second));
  return {out[0]};
}
void Schedule::set_scope(BlockRV block, int write_index, const std::string& scope) {
  AttrMap attrs = attr("write_index", Any(write_index));
  attrs.set("scope", Any(scope));
  step(state_, "set_scope", {block.id}, attrs, [&](sched::State& s) {
    sched::set_scope(s, block.id, write_index, scope);
    return Ids();
  });
}
void Schedule::unsafe_set_dtype(BlockRV block, int write_index, DataType dtype) {
  AttrMap attrs = attr("write_index", Any(write_index));
  attrs.set("dtype", Any(dtype));
  step(state_, "unsafe_set_dtype", {block.id}, attrs, [&](sched::State& s) {
    sched::unsafe_set_dtype(s, block.id, write_index, dtype);
    return Ids();
  });
}
void Schedule::set_axis_separator(BlockRV block, int buffer_index, const std::string& buffer_index_type,
                                  const std::vector<int>& separators) {
  require_kind_of_region(buffer_index_type);
  AttrMap attrs = attr("buffer_index", Any(buffer_index));
  attrs.set("buffer_index_type", Any(buffer_index_type));
  attrs.set("separators", numbers(separators));
  step(state_, "set_axis_separator", {block.id}, attrs, [&](sched::State& s) {
    sched::set_axis_separator(s, block.id, buffer_index, buffer_index_type == "write", separators);
    return Ids();
  });
}
void Schedule::rolling_buffer(BlockRV block, int write_index) {
  step(state_, "rolling_buffer", {block.id}, attr("write_index", Any(write_index)), [&](sched::State& s) {
    sched::rolling_buffer(s, block.id, write_index);
    return Ids();
  });
}
static AttrMap annotation(const std::string& key, const Any& value) {
  AttrMap attrs = attr("key", Any(key));
  attrs.set("value", value);
  return attrs;
}
void Schedule::annotate(BlockRV block, const std::string& key, Any value) {
  state_->realize(block.id);
  step(state_, "annotate", {block.id}, annotation(key, value), [&](sched::State& s) {
    sched::annotate(s, block.id, key, value);
    return Ids();
  });
}
void Schedule::annotate(LoopRV loop, const std::string& key, Any value) {
  state_->loop(loop.id);
  step(state_, "annotate", {loop.id}, annotation(key, value), [&](sched::State& s) {
    sched::annotate(s, loop.id, key, value);
    return Ids();
  });
}
void Schedule::unannotate(BlockRV block, const std::string& key) {
  state_->realize(block.id);
  step(state_, "unannotate", {block.id}, attr("key", Any(key)), [&](sched::State& s) {
    sched::unannotate(s, block.id, key);
    return Ids();
  });
}
void Schedule::unannotate(LoopRV loop, const std::string& key) {
  state_->loop(loop.id);
  step(state_, "unannotate", {loop.id}, attr("key", Any(key)), [&](sched::State& s) {
    sched::unannotate(s, loop.id, key);
    return Ids();
  });
}

}  // namespace tenon
