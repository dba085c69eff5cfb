// SPDX-License-Identifier: Apache-2.0
// Passes and schedule primitives by their identities, one at a time (scripts/mutate): a pass hands back its
// module, a primitive changes nothing and answers with the handles that it was given.
#include "identity.h"

#include "ir/pass.h"
#include "schedule/schedule.h"

namespace tenon {

using mutate::chosen;
using mutate::next;

// ---------------------------------------------------------------- passes
namespace {
IRModule unchanged(IRModule module, PassContext&) { return module; }
bool replaced(const Pass& p) { return chosen("pass:" + std::string(p.name)); }
}  // namespace

IRModule run_passes(IRModule module, std::span<const Pass> passes, PassContext& context) {
  std::vector<Pass> list(passes.begin(), passes.end());
  for (Pass& p : list)
    if (replaced(p)) p.run = unchanged;
  return next(&run_passes, std::move(module), list, context);
}
const Pass* find_pass(std::string_view name) {
  const Pass* found = next(&find_pass, name);
  if (!found || !replaced(*found)) return found;
  static Pass identity;
  identity = *found;
  identity.run = unchanged;
  return &identity;
}

// ---------------------------------------------------------------- primitives
namespace {
Factors whole(int n) {
  std::vector<IntRV> parts(size_t(n), IntRV(1));
  parts[0] = IntRV(-1);
  return Factors(parts);
}
}  // namespace

BlockRV Schedule::get_block(const std::string& name) {
  if (chosen("primitive:get_block")) return BlockRV();
  return next(this, &Schedule::get_block, name);
}
std::vector<LoopRV> Schedule::get_loops(BlockRV block) {
  if (chosen("primitive:get_loops")) return {};
  return next(this, &Schedule::get_loops, block);
}
std::vector<BlockRV> Schedule::get_child_blocks(LoopRV loop) {
  if (chosen("primitive:get_child_blocks")) return {};
  return next(this, &Schedule::get_child_blocks, loop);
}
std::vector<BlockRV> Schedule::get_producers(BlockRV block) {
  if (chosen("primitive:get_producers")) return {};
  return next(this, &Schedule::get_producers, block);
}
std::vector<BlockRV> Schedule::get_consumers(BlockRV block) {
  if (chosen("primitive:get_consumers")) return {};
  return next(this, &Schedule::get_consumers, block);
}
std::vector<BlockRV> Schedule::get_output_blocks() {
  if (chosen("primitive:get_output_blocks")) return {};
  return next(this, &Schedule::get_output_blocks);
}
std::vector<LoopRV> Schedule::split(LoopRV loop, const std::vector<int64_t>& factors) {
  if (chosen("primitive:split")) return std::vector<LoopRV>(factors.size(), loop);
  return next(
      this,
      static_cast<std::vector<LoopRV> (Schedule::*)(LoopRV, const std::vector<int64_t>&)>(&Schedule::split),
      loop, factors);
}
std::vector<LoopRV> Schedule::split(LoopRV loop, const Factors& factors) {
  if (chosen("primitive:split")) return std::vector<LoopRV>(factors.size(), loop);
  return next(this, static_cast<std::vector<LoopRV> (Schedule::*)(LoopRV, const Factors&)>(&Schedule::split),
              loop, factors);
}
LoopRV Schedule::fuse(const std::vector<LoopRV>& loops) {
  if (chosen("primitive:fuse")) return loops.at(0);
  return next(this, &Schedule::fuse, loops);
}
void Schedule::reorder(const std::vector<LoopRV>& order) {
  if (chosen("primitive:reorder")) return;
  return next(this, &Schedule::reorder, order);
}
void Schedule::parallel(LoopRV loop) {
  if (chosen("primitive:parallel")) return;
  return next(this, &Schedule::parallel, loop);
}
void Schedule::vectorize(LoopRV loop) {
  if (chosen("primitive:vectorize")) return;
  return next(this, &Schedule::vectorize, loop);
}
void Schedule::unroll(LoopRV loop) {
  if (chosen("primitive:unroll")) return;
  return next(this, &Schedule::unroll, loop);
}
void Schedule::bind(LoopRV loop, const std::string& thread_axis) {
  if (chosen("primitive:bind")) return;
  return next(this, &Schedule::bind, loop, thread_axis);
}
LoopRV Schedule::add_unit_loop(BlockRV block) {
  if (chosen("primitive:add_unit_loop")) return get_loops(block).back();
  return next(this, &Schedule::add_unit_loop, block);
}
LoopRV Schedule::add_thread_loop(BlockRV block, const std::string& thread_axis, int64_t extent,
                                 int64_t which) {
  if (chosen("primitive:add_thread_loop")) return get_loops(block).back();
  return next(this, &Schedule::add_thread_loop, block, thread_axis, extent, which);
}
void Schedule::reorder_block_iter_var(BlockRV block, const std::vector<int>& order) {
  if (chosen("primitive:reorder_block_iter_var")) return;
  return next(this, &Schedule::reorder_block_iter_var, block, order);
}
LoopRV Schedule::fuse_iterators(BlockRV block, int first, int count) {
  if (chosen("primitive:fuse_iterators")) return get_loops(block).at(size_t(first));
  return next(this, &Schedule::fuse_iterators, block, first, count);
}
void Schedule::pad_iteration(BlockRV block, int iterator, int64_t multiple, bool clamp) {
  if (chosen("primitive:pad_iteration")) return;
  return next(this, &Schedule::pad_iteration, block, iterator, multiple, clamp);
}
void Schedule::compute_inline(BlockRV block) {
  if (chosen("primitive:compute_inline")) return;
  return next(this, &Schedule::compute_inline, block);
}
void Schedule::reverse_compute_inline(BlockRV block) {
  if (chosen("primitive:reverse_compute_inline")) return;
  return next(this, &Schedule::reverse_compute_inline, block);
}
void Schedule::compute_at(BlockRV block, LoopRV loop) {
  if (chosen("primitive:compute_at")) return;
  return next(this, &Schedule::compute_at, block, loop);
}
void Schedule::reverse_compute_at(BlockRV block, LoopRV loop) {
  if (chosen("primitive:reverse_compute_at")) return;
  return next(this, &Schedule::reverse_compute_at, block, loop);
}
BlockRV Schedule::decompose_reduction(BlockRV block, LoopRV loop) {
  if (chosen("primitive:decompose_reduction")) return block;
  return next(this, &Schedule::decompose_reduction, block, loop);
}
BlockRV Schedule::cache_read(BlockRV block, int read_index, const std::string& scope,
                             const std::vector<BlockRV>& others) {
  if (chosen("primitive:cache_read")) return block;
  return next(this, &Schedule::cache_read, block, read_index, scope, others);
}
BlockRV Schedule::cache_write(BlockRV block, int write_index, const std::string& scope) {
  if (chosen("primitive:cache_write")) return block;
  return next(this, &Schedule::cache_write, block, write_index, scope);
}
BlockRV Schedule::reindex(BlockRV block, int index, const std::string& buffer_index_type) {
  if (chosen("primitive:reindex")) return block;
  return next(this, &Schedule::reindex, block, index, buffer_index_type);
}
BlockRV Schedule::reindex_cache_read(BlockRV block, int read_index, const std::string& scope,
                                     const IndexMap& map) {
  if (chosen("primitive:reindex_cache_read")) return block;
  return next(this, &Schedule::reindex_cache_read, block, read_index, scope, map);
}
BlockRV Schedule::reindex_cache_write(BlockRV block, int write_index, const std::string& scope,
                                      const IndexMap& map) {
  if (chosen("primitive:reindex_cache_write")) return block;
  return next(this, &Schedule::reindex_cache_write, block, write_index, scope, map);
}
std::vector<BlockRV> Schedule::cache_inplace(BlockRV block, int read_index, const std::string& scope) {
  if (chosen("primitive:cache_inplace")) return {block, block};
  return next(this, &Schedule::cache_inplace, block, read_index, scope);
}
std::vector<BlockRV> Schedule::cache_index(BlockRV block, const std::string& scope, int threshold) {
  if (chosen("primitive:cache_index")) return {block};
  return next(this, &Schedule::cache_index, block, scope, threshold);
}
BlockRV Schedule::read_at(LoopRV loop, BlockRV block, int read_index, const std::string& scope) {
  if (chosen("primitive:read_at")) return block;
  return next(this, &Schedule::read_at, loop, block, read_index, scope);
}
BlockRV Schedule::write_at(LoopRV loop, BlockRV block, int write_index, const std::string& scope) {
  if (chosen("primitive:write_at")) return block;
  return next(this, &Schedule::write_at, loop, block, write_index, scope);
}
void Schedule::fuse_reduction_epilogue(BlockRV block, BlockRV epilogue) {
  if (chosen("primitive:fuse_reduction_epilogue")) return;
  return next(this, &Schedule::fuse_reduction_epilogue, block, epilogue);
}
void Schedule::unsafe_hide_buffer_access(BlockRV block, const std::string& buffer_index_type,
                                         const std::vector<int>& indices) {
  if (chosen("primitive:unsafe_hide_buffer_access")) return;
  return next(this, &Schedule::unsafe_hide_buffer_access, block, buffer_index_type, indices);
}
void Schedule::annotate_buffer_access(BlockRV block, int buffer_index, const std::string& buffer_index_type,
                                      const IndexMap& map) {
  if (chosen("primitive:annotate_buffer_access")) return;
  return next(this, &Schedule::annotate_buffer_access, block, buffer_index, buffer_index_type, map);
}
BlockRV Schedule::rfactor(LoopRV loop, int factor_axis) {
  if (chosen("primitive:rfactor")) return get_child_blocks(loop).at(0);
  return next(this, &Schedule::rfactor, loop, factor_axis);
}
BlockRV Schedule::blockize(LoopRV loop) {
  if (chosen("primitive:blockize")) return get_child_blocks(loop).at(0);
  return next(this, &Schedule::blockize, loop);
}
BlockRV Schedule::tensorize(BlockRV block, const std::string& intrin) {
  if (chosen("primitive:tensorize")) return block;
  return next(this, static_cast<BlockRV (Schedule::*)(BlockRV, const std::string&)>(&Schedule::tensorize),
              block, intrin);
}
BlockRV Schedule::tensorize(LoopRV loop, const std::string& intrin) {
  if (chosen("primitive:tensorize")) return get_child_blocks(loop).at(0);
  return next(this, static_cast<BlockRV (Schedule::*)(LoopRV, const std::string&)>(&Schedule::tensorize),
              loop, intrin);
}
void Schedule::transform_layout(BlockRV block, int buffer_index, const std::string& buffer_index_type,
                                const IndexMap& map, PrimExpr pad_value) {
  if (chosen("primitive:transform_layout")) return;
  return next(this, &Schedule::transform_layout, block, buffer_index, buffer_index_type, map,
              std::move(pad_value));
}
void Schedule::transform_block_layout(BlockRV block, const IndexMap& map) {
  if (chosen("primitive:transform_block_layout")) return;
  return next(this, &Schedule::transform_block_layout, block, map);
}
void Schedule::pad_einsum(BlockRV block, const std::vector<int64_t>& padding) {
  if (chosen("primitive:pad_einsum")) return;
  return next(this, &Schedule::pad_einsum, block, padding);
}
BlockRV Schedule::decompose_padding(BlockRV block, LoopRV loop) {
  if (chosen("primitive:decompose_padding")) return block;
  return next(this, &Schedule::decompose_padding, block, loop);
}
void Schedule::storage_align(BlockRV block, int write_index, int axis, int64_t factor, int64_t offset) {
  if (chosen("primitive:storage_align")) return;
  return next(this, &Schedule::storage_align, block, write_index, axis, factor, offset);
}
std::vector<LoopRV> Schedule::loop_partition(LoopRV loop, const std::vector<int64_t>& sizes) {
  if (chosen("primitive:loop_partition")) return std::vector<LoopRV>(sizes.size(), loop);
  return next(this, &Schedule::loop_partition, loop, sizes);
}
LoopRV Schedule::merge(const std::vector<LoopRV>& loops) {
  if (chosen("primitive:merge")) return loops.at(0);
  return next(this, &Schedule::merge, loops);
}
Factors Schedule::sample_perfect_tile(LoopRV loop, int n, int64_t max_innermost,
                                      const std::vector<int64_t>& decision) {
  if (chosen("primitive:sample_perfect_tile")) return whole(n);
  return next(this, &Schedule::sample_perfect_tile, loop, n, max_innermost, decision);
}
Factors Schedule::sample_partitioned_tile(LoopRV loop, int n, int partition_pos, int64_t innerpart_factor,
                                          const std::vector<int64_t>& decision) {
  if (chosen("primitive:sample_partitioned_tile")) return whole(n);
  return next(this, &Schedule::sample_partitioned_tile, loop, n, partition_pos, innerpart_factor, decision);
}
IntRV Schedule::sample_categorical(const std::vector<int64_t>& candidates,
                                   const std::vector<double>& probabilities, std::optional<int> decision) {
  if (chosen("primitive:sample_categorical")) return candidates.at(0);
  return next(this, &Schedule::sample_categorical, candidates, probabilities, decision);
}
LoopRV Schedule::sample_compute_location(BlockRV block, std::optional<int> decision) {
  if (chosen("primitive:sample_compute_location")) return get_loops(block).back();
  return next(this, &Schedule::sample_compute_location, block, decision);
}
void Schedule::set_scope(BlockRV block, int write_index, const std::string& scope) {
  if (chosen("primitive:set_scope")) return;
  return next(this, &Schedule::set_scope, block, write_index, scope);
}
void Schedule::unsafe_set_dtype(BlockRV block, int write_index, DataType dtype) {
  if (chosen("primitive:unsafe_set_dtype")) return;
  return next(this, &Schedule::unsafe_set_dtype, block, write_index, dtype);
}
void Schedule::set_axis_separator(BlockRV block, int buffer_index, const std::string& buffer_index_type,
                                  const std::vector<int>& separators) {
  if (chosen("primitive:set_axis_separator")) return;
  return next(this, &Schedule::set_axis_separator, block, buffer_index, buffer_index_type, separators);
}
void Schedule::rolling_buffer(BlockRV block, int write_index) {
  if (chosen("primitive:rolling_buffer")) return;
  return next(this, &Schedule::rolling_buffer, block, write_index);
}
void Schedule::annotate(BlockRV block, const std::string& key, Any value) {
  if (chosen("primitive:annotate")) return;
  return next(this, static_cast<void (Schedule::*)(BlockRV, const std::string&, Any)>(&Schedule::annotate),
              block, key, std::move(value));
}
void Schedule::annotate(LoopRV loop, const std::string& key, Any value) {
  if (chosen("primitive:annotate")) return;
  return next(this, static_cast<void (Schedule::*)(LoopRV, const std::string&, Any)>(&Schedule::annotate),
              loop, key, std::move(value));
}
void Schedule::unannotate(BlockRV block, const std::string& key) {
  if (chosen("primitive:unannotate")) return;
  return next(this, static_cast<void (Schedule::*)(BlockRV, const std::string&)>(&Schedule::unannotate),
              block, key);
}
void Schedule::unannotate(LoopRV loop, const std::string& key) {
  if (chosen("primitive:unannotate")) return;
  return next(this, static_cast<void (Schedule::*)(LoopRV, const std::string&)>(&Schedule::unannotate), loop,
              key);
}
void Schedule::enter_postproc() {
  if (chosen("primitive:enter_postproc")) return;
  return next(this, &Schedule::enter_postproc);
}

}  // namespace tenon
