// SPDX-License-Identifier: Apache-2.0
// Schedule: a tensor program being transformed by primitives that each check that they are legal. Blocks and
// loops are named by handles that stay valid over every transformation; every step is recorded in a trace.
#pragma once
#include "analysis/index_map.h"
#include "analysis/region.h"
#include "schedule/arguments.h"

namespace tenon {

// ---------------------------------------------------------------- traces
struct Primitive;  // schedule/primitive.h

/// One recorded step: a primitive, its arguments in the order of the parameters (handles as HandleObj, none
/// where one is left out), and what it made.
struct TraceStep {
  const Primitive* primitive = nullptr;
  std::vector<Any> args;
  std::vector<Handle> results;
  /// The argument of a parameter; CHECK when the primitive has no such parameter.
  Any& operator[](std::string_view parameter);
};
struct Trace {
  std::vector<TraceStep> steps;
  std::string to_json() const;
  static Trace from_json(std::string_view text);    ///< ScheduleError T0790
  std::string to_script() const;                    ///< as the calls a person would write
  static Trace from_script(std::string_view text);  ///< DiagnosticError T02xx, T0790: every mistake, located
};

/// A refused step: what, on which block or loop, why, and what would help. Code T07xx; the rendered text
/// shows the program with the offending block marked.
class ScheduleError : public Error {
 public:
  using Error::Error;
};
/// Runs `f`: what a primitive in it refused, or nothing. The one place where a refusal becomes a value.
std::optional<ScheduleError> refusal_of(FunctionRef<void()> f);

// ---------------------------------------------------------------- schedules
/// The attribute of a program that lists the parameters, by position, whose layout its callers leave to it.
inline constexpr const char* kLayoutFreeBuffers = "layout_free_buffers";
/// A parameter that the caller passes laid out by a map: what transform_layout made of a listed one.
struct ParamLayout {
  int64_t position = 0;
  IndexMap map;
};

/// The record that the primitive of a method has (schedule/define.h).
template <auto method>
inline const Primitive* record_of = nullptr;

class Schedule {
 public:
  explicit Schedule(tir::PrimFunc function, uint64_t seed = 0);
  Schedule(const Schedule&);  ///< O(1) snapshot
  Schedule& operator=(const Schedule&);
  ~Schedule();
  tir::PrimFunc function() const;
  const Trace& trace() const;
  /// In order: a later one of the same parameter is for what the one before made.
  const std::vector<ParamLayout>& param_layouts() const;
  /// Replays a trace recorded on an equal program: the result is identical.
  static Schedule replay(tir::PrimFunc function, const Trace& trace);
  /// The same on this schedule. T0790, T0791: the trace is not for this program; the steps before it are
  /// done.
  void run(const Trace& trace);

  std::vector<BlockRV> blocks() const;  ///< leaf blocks in program order (the root block excluded)
  Ref<tir::Block> get(BlockRV block) const;
  Ref<tir::For> get(LoopRV loop) const;
  Ref<tir::BlockRealize> realize(BlockRV block) const;
  int64_t get(Handle number) const;  ///< what a sampler picked
  /// The primitives whose proofs were given up, on this schedule and all its snapshots: what they then
  /// refused, or guarded, may have been right. Who asks for proofs about the program enters itself, too.
  GivenUpProofs& given_up() const;

  /// Runs a primitive on arguments in the order of its parameters, as a step of a trace holds them, and
  /// records it. T0790: they are not what it takes. The methods below do this with types.
  std::vector<Handle> apply(const Primitive& primitive, std::vector<Any> args);

  // The primitives. What each does, takes and refuses stands in its record, and from there in
  // docs/schedule.md. Queries change nothing; a trace shows them where a later step uses what they found.
  BlockRV get_block(const std::string& name) { return step<&Schedule::get_block>(name); }
  std::vector<LoopRV> get_loops(BlockRV block) { return step<&Schedule::get_loops>(block); }
  std::vector<BlockRV> get_child_blocks(LoopRV loop) { return step<&Schedule::get_child_blocks>(loop); }
  std::vector<BlockRV> get_producers(BlockRV block) { return step<&Schedule::get_producers>(block); }
  std::vector<BlockRV> get_consumers(BlockRV block) { return step<&Schedule::get_consumers>(block); }
  std::vector<BlockRV> get_output_blocks() { return step<&Schedule::get_output_blocks>(); }
  // Loops
  std::vector<LoopRV> split(LoopRV loop, const Factors& factors) {
    return step<&Schedule::split>(loop, factors);
  }
  LoopRV fuse(const std::vector<LoopRV>& loops) { return step<&Schedule::fuse>(loops); }
  void reorder(const std::vector<LoopRV>& loops) { step<&Schedule::reorder>(loops); }
  LoopRV merge(const std::vector<LoopRV>& loops) { return step<&Schedule::merge>(loops); }
  std::vector<LoopRV> loop_partition(LoopRV loop, const std::vector<int64_t>& sizes) {
    return step<&Schedule::loop_partition>(loop, sizes);
  }
  LoopRV add_unit_loop(BlockRV block) { return step<&Schedule::add_unit_loop>(block); }
  void parallel(LoopRV loop) { step<&Schedule::parallel>(loop); }
  void vectorize(LoopRV loop) { step<&Schedule::vectorize>(loop); }
  void unroll(LoopRV loop) { step<&Schedule::unroll>(loop); }
  void bind(LoopRV loop, const std::string& thread_axis) { step<&Schedule::bind>(loop, thread_axis); }
  LoopRV add_thread_loop(BlockRV block, const std::string& thread_axis, int64_t extent, int64_t which = 0) {
    return step<&Schedule::add_thread_loop>(block, thread_axis, extent, which);
  }
  // Iterators of a block
  void reorder_block_iter_var(BlockRV block, const std::vector<int>& order) {
    step<&Schedule::reorder_block_iter_var>(block, order);
  }
  LoopRV fuse_iterators(BlockRV block, int first, int count) {
    return step<&Schedule::fuse_iterators>(block, first, count);
  }
  void pad_iteration(BlockRV block, int iterator, int64_t multiple, bool clamp = false) {
    step<&Schedule::pad_iteration>(block, iterator, multiple, clamp);
  }
  void transform_block_layout(BlockRV block, const IndexMap& index_map) {
    step<&Schedule::transform_block_layout>(block, index_map);
  }
  // The whole program
  std::vector<LoopRV> block_rows(BlockRV block, int64_t parts, int64_t rows) {
    return step<&Schedule::block_rows>(block, parts, rows);
  }
  void hoist(BlockRV block) { step<&Schedule::hoist>(block); }
  // Where a block is computed
  void compute_inline(BlockRV block) { step<&Schedule::compute_inline>(block); }
  void reverse_compute_inline(BlockRV block) { step<&Schedule::reverse_compute_inline>(block); }
  void compute_at(BlockRV block, LoopOrLocation loop, bool inwards = false) {
    step<&Schedule::compute_at>(block, loop, inwards);
  }
  void reverse_compute_at(BlockRV block, LoopRV loop) { step<&Schedule::reverse_compute_at>(block, loop); }
  void rolling_buffer(BlockRV block, int write_index) { step<&Schedule::rolling_buffer>(block, write_index); }
  // Reductions and padding
  BlockRV decompose_reduction(BlockRV block, LoopRV loop) {
    return step<&Schedule::decompose_reduction>(block, loop);
  }
  BlockRV rfactor(LoopRV loop, int factor_axis) { return step<&Schedule::rfactor>(loop, factor_axis); }
  void fuse_reduction_epilogue(BlockRV block, BlockRV epilogue) {
    step<&Schedule::fuse_reduction_epilogue>(block, epilogue);
  }
  void pad_einsum(BlockRV block, const std::vector<int64_t>& padding) {
    step<&Schedule::pad_einsum>(block, padding);
  }
  BlockRV decompose_padding(BlockRV block, LoopRV loop) {
    return step<&Schedule::decompose_padding>(block, loop);
  }
  // Copies
  BlockRV cache_read(BlockRV block, int read_index, const std::string& scope,
                     const std::vector<BlockRV>& others = {}) {
    return step<&Schedule::cache_read>(block, read_index, scope, others);
  }
  BlockRV cache_write(BlockRV block, int write_index, const std::string& scope) {
    return step<&Schedule::cache_write>(block, write_index, scope);
  }
  std::vector<BlockRV> cache_inplace(BlockRV block, int read_index, const std::string& scope) {
    return step<&Schedule::cache_inplace>(block, read_index, scope);
  }
  std::vector<BlockRV> cache_index(BlockRV block, const std::string& scope, int threshold = 0) {
    return step<&Schedule::cache_index>(block, scope, threshold);
  }
  BlockRV reindex(BlockRV block, std::optional<int> read_index = {}, std::optional<int> write_index = {}) {
    return step<&Schedule::reindex>(block, read_index, write_index);
  }
  BlockRV reindex_cache_read(BlockRV block, int read_index, const std::string& scope,
                             const IndexMap& index_map) {
    return step<&Schedule::reindex_cache_read>(block, read_index, scope, index_map);
  }
  BlockRV reindex_cache_write(BlockRV block, int write_index, const std::string& scope,
                              const IndexMap& index_map) {
    return step<&Schedule::reindex_cache_write>(block, write_index, scope, index_map);
  }
  BlockRV read_at(LoopRV loop, BlockRV block, int read_index, const std::string& scope) {
    return step<&Schedule::read_at>(loop, block, read_index, scope);
  }
  BlockRV write_at(LoopRV loop, BlockRV block, int write_index, const std::string& scope) {
    return step<&Schedule::write_at>(loop, block, write_index, scope);
  }
  // Buffers
  void set_scope(BlockRV block, int write_index, const std::string& scope) {
    step<&Schedule::set_scope>(block, write_index, scope);
  }
  void storage_align(BlockRV block, int write_index, int axis, int64_t factor, int64_t offset = 0) {
    step<&Schedule::storage_align>(block, write_index, axis, factor, offset);
  }
  void unsafe_set_dtype(BlockRV block, int write_index, DataType dtype) {
    step<&Schedule::unsafe_set_dtype>(block, write_index, dtype);
  }
  void set_axis_separator(BlockRV block, int buffer_index, BufferIndexType buffer_index_type,
                          const std::vector<int>& separators) {
    step<&Schedule::set_axis_separator>(block, buffer_index, buffer_index_type, separators);
  }
  void transform_layout(BlockRV block, int buffer_index, BufferIndexType buffer_index_type,
                        const IndexMap& index_map, PrimExpr pad_value = {}) {
    step<&Schedule::transform_layout>(block, buffer_index, buffer_index_type, index_map, pad_value);
  }
  void unsafe_hide_buffer_access(BlockRV block, BufferIndexType buffer_index_type,
                                 const std::vector<int>& indices) {
    step<&Schedule::unsafe_hide_buffer_access>(block, buffer_index_type, indices);
  }
  void annotate_buffer_access(BlockRV block, int buffer_index, BufferIndexType buffer_index_type,
                              const IndexMap& index_map) {
    step<&Schedule::annotate_buffer_access>(block, buffer_index, buffer_index_type, index_map);
  }
  // Intrinsics
  BlockRV blockize(LoopRV loop) { return step<&Schedule::blockize>(loop); }
  BlockRV tensorize(BlockOrLoop block_or_loop, const std::string& tensor_intrin) {
    return step<&Schedule::tensorize>(block_or_loop, tensor_intrin);
  }
  // Annotations and markers
  void annotate(BlockOrLoop block_or_loop, const std::string& key, Any value) {
    step<&Schedule::annotate>(block_or_loop, key, value);
  }
  void unannotate(BlockOrLoop block_or_loop, const std::string& key) {
    step<&Schedule::unannotate>(block_or_loop, key);
  }
  void enter_postproc() { step<&Schedule::enter_postproc>(); }
  // Samplers: decided by the schedule's generator, or as given; the trace records the decision.
  Factors sample_perfect_tile(LoopRV loop, int n, int64_t max_innermost = 16,
                              const std::vector<int64_t>& decision = {}) {
    return step<&Schedule::sample_perfect_tile>(loop, n, max_innermost, decision);
  }
  Factors sample_partitioned_tile(LoopRV loop, int n, int partition_pos, int64_t innerpart_factor,
                                  const std::vector<int64_t>& decision = {}) {
    return step<&Schedule::sample_partitioned_tile>(loop, n, partition_pos, innerpart_factor, decision);
  }
  IntRV sample_categorical(const std::vector<int64_t>& candidates, const std::vector<double>& probs,
                           std::optional<int> decision = {}) {
    return step<&Schedule::sample_categorical>(candidates, probs, decision);
  }
  LocationRV sample_compute_location(BlockRV block, std::optional<int> decision = {}) {
    return step<&Schedule::sample_compute_location>(block, decision);
  }

 private:
  struct State;
  template <class R, class... A>
  static R result_of(R (Schedule::*)(A...));
  template <auto method, class... A>
  auto step(const A&... args) -> decltype(result_of(method)) {
    return typed<decltype(result_of(method))>(*this, apply(*record_of<method>, {Argument<A>::pack(args)...}));
  }
  std::shared_ptr<State> state_;
};

}  // namespace tenon
