// SPDX-License-Identifier: Apache-2.0
// Schedule: a tensor program being transformed by primitives that each check that they are legal. Blocks and
// loops are named by handles that stay valid over every transformation; every step is recorded in a trace.
#pragma once
#include "analysis/index_map.h"
#include "analysis/region.h"

namespace tenon {

struct BlockRV {
  int32_t id = -1;
  bool operator==(const BlockRV&) const = default;
};
struct LoopRV {
  int32_t id = -1;
  bool operator==(const LoopRV&) const = default;
  /// What sample_compute_location chose: a loop, "where it is" or "inlined", for compute_at only.
  bool is_place() const { return id >= (1 << 28); }
};

/// A number that a sampler picked (`id` names it in the trace), or that is given.
struct IntRV {
  static constexpr int32_t first = 1 << 28;  ///< ids of sampled numbers
  int64_t value = 0;
  int32_t id = -1;
  IntRV(int64_t v) : value(v) {}
  IntRV(int32_t name, int64_t v) : value(v), id(name) {}
  operator int64_t() const { return value; }
};
/// Factors of a split, sampled or given: a trace keeps which, so that another decision gives another program.
struct Factors {
  std::vector<IntRV> items;
  explicit Factors(std::vector<IntRV> list) : items(std::move(list)) {}
  operator std::vector<int64_t>() const { return {items.begin(), items.end()}; }
  bool operator==(const std::vector<int64_t>& o) const { return std::vector<int64_t>(*this) == o; }
  size_t size() const { return items.size(); }
  const IntRV& operator[](size_t i) const { return items[i]; }
};

/// One recorded step: typed instruction over handles.
struct TraceStep {
  std::string name;              ///< primitive: "split"
  std::vector<Any> inputs;       ///< handles as ints, expressions, numbers, texts
  std::vector<int32_t> outputs;  ///< handles made
  AttrMap attrs;
};
struct Trace {
  std::vector<TraceStep> steps;
  std::string to_json() const;
  static Trace from_json(std::string_view text);
  std::string to_script() const;  ///< as the calls a person would write
};

/// A refused step: what, on which block or loop, why, and what would help. Code T07xx; the rendered text
/// shows the program with the offending block marked.
class ScheduleError : public Error {
 public:
  using Error::Error;
};

class Schedule {
 public:
  explicit Schedule(tir::PrimFunc function, uint64_t seed = 0);
  Schedule(const Schedule&);  ///< O(1) snapshot
  Schedule& operator=(const Schedule&);
  ~Schedule();
  tir::PrimFunc function() const;
  const Trace& trace() const;
  /// Replays a trace recorded on an equal program: the result is identical.
  static Schedule replay(tir::PrimFunc function, const Trace& trace);

  // Handles. Queries change nothing; a trace shows them where a later step uses what they found.
  BlockRV get_block(const std::string& name);
  std::vector<BlockRV> blocks() const;           ///< leaf blocks in program order (the root block excluded)
  std::vector<LoopRV> get_loops(BlockRV block);  ///< outermost first
  std::vector<BlockRV> get_child_blocks(LoopRV loop);
  std::vector<BlockRV> get_producers(BlockRV block);
  std::vector<BlockRV> get_consumers(BlockRV block);
  std::vector<BlockRV> get_output_blocks();
  Ref<tir::Block> get(BlockRV block) const;
  Ref<tir::For> get(LoopRV loop) const;
  Ref<tir::BlockRealize> realize(BlockRV block) const;

  // Loops
  std::vector<LoopRV> split(
      LoopRV loop,
      const std::vector<int64_t>& factors);  ///< one factor may be -1: inferred; uneven splits are guarded
  std::vector<LoopRV> split(LoopRV loop, const Factors& factors);
  LoopRV fuse(const std::vector<LoopRV>& loops);
  void reorder(const std::vector<LoopRV>& order);
  void parallel(LoopRV loop);
  void vectorize(LoopRV loop);
  void unroll(LoopRV loop);
  /// Iterations become threads: blockIdx.x …, threadIdx.x …, vthread. A loop of a reduction may be bound to
  /// threadIdx: the threads then reduce together.
  void bind(LoopRV loop, const std::string& thread_axis);
  LoopRV add_unit_loop(BlockRV block);
  /// `extent` threads around the block, of which number `which` runs it.
  LoopRV add_thread_loop(BlockRV block, const std::string& thread_axis, int64_t extent, int64_t which = 0);
  /// The block's iterators in another order: position i holds what was at `order[i]`.
  void reorder_block_iter_var(BlockRV block, const std::vector<int>& order);
  /// `count` neighbouring iterators from position `first` on (each bound to a loop of its own) become one,
  /// with the matching dimensions of a private result; the fused loop.
  LoopRV fuse_iterators(BlockRV block, int first, int count);
  /// The iterator (by position, bound to a loop of its own) runs to the next multiple. A private result
  /// grows, a parameter's store is masked; loads beyond the end are masked to 0 or, with `clamp`, repeat the
  /// last element.
  void pad_iteration(BlockRV block, int iterator, int64_t multiple, bool clamp = false);

  // Blocks
  void compute_inline(BlockRV block);
  void reverse_compute_inline(BlockRV block);
  void compute_at(BlockRV block, LoopRV loop);  ///< a loop, or what sample_compute_location chose
  void reverse_compute_at(BlockRV block, LoopRV loop);
  BlockRV decompose_reduction(BlockRV block, LoopRV loop);
  /// `others` read the copy, too.
  BlockRV cache_read(BlockRV block, int read_index, const std::string& scope,
                     const std::vector<BlockRV>& others = {});
  /// Of one result, or (-1) of all results of the block, which one block then copies.
  BlockRV cache_write(BlockRV block, int write_index, const std::string& scope);
  /// A copy of what the block reads, laid out by its iterators (those of the reduction first): strided and
  /// gathered operands become contiguous; or ("write") of what it writes, laid out by its spatial iterators.
  /// The copying block.
  BlockRV reindex(BlockRV block, int index, const std::string& buffer_index_type = "read");
  /// A copy of what the block reads (or writes), laid out by a map of all its iterators.
  BlockRV reindex_cache_read(BlockRV block, int read_index, const std::string& scope, const IndexMap& map);
  BlockRV reindex_cache_write(BlockRV block, int write_index, const std::string& scope, const IndexMap& map);
  /// The block reads and writes the buffer: it works on a copy that is filled before and copied back after.
  /// Both copying blocks.
  std::vector<BlockRV> cache_inplace(BlockRV block, int read_index, const std::string& scope);
  /// Parts of the indices of what the block reads that occur more than `threshold` times are computed before
  /// it, into buffers. The computing blocks.
  std::vector<BlockRV> cache_index(BlockRV block, const std::string& scope, int threshold = 0);
  /// Each iteration of the loop begins by copying what the block below reads in it. The copying block.
  BlockRV read_at(LoopRV loop, BlockRV block, int read_index, const std::string& scope);
  /// Each iteration of the loop ends by copying back what the block below has written in it.
  BlockRV write_at(LoopRV loop, BlockRV block, int write_index, const std::string& scope);
  /// `epilogue` combines the finished reduction with one more value, by the reduction's own combination: that
  /// value becomes the reduction's first. Floating sums are added up in another order.
  void fuse_reduction_epilogue(BlockRV block, BlockRV epilogue);
  /// Regions ("read" or "write", by number) vanish from what the block says that it touches, until a later
  /// step derives them anew. Unsafe: no check sees them.
  void unsafe_hide_buffer_access(BlockRV block, const std::string& buffer_index_type,
                                 const std::vector<int>& indices);
  /// The region is stated by hand: the map gives the first index and the one behind the last of each
  /// dimension, from the block's iterators.
  void annotate_buffer_access(BlockRV block, int buffer_index, const std::string& buffer_index_type,
                              const IndexMap& map);
  BlockRV rfactor(LoopRV loop, int factor_axis);
  /// The loop and all below it (one block) become one block over the tiles that the loops outside drive; what
  /// it holds can be scheduled on its own, and matched by tensorize. The new block.
  BlockRV blockize(LoopRV loop);
  /// The block (or the loop, blockized first) computes what the named intrinsic describes
  /// (schedule/tensor_intrin.h) and becomes its implementation. The block.
  BlockRV tensorize(BlockRV block, const std::string& intrin);
  BlockRV tensorize(LoopRV loop, const std::string& intrin);
  /// A buffer that the program allocates is laid out anew: element x lies at map(x). Places that no element
  /// takes are undefined or, where given, hold `pad_value`.
  void transform_layout(BlockRV block, int buffer_index, const std::string& buffer_index_type,
                        const IndexMap& map, PrimExpr pad_value = {});
  /// The block's iterators become map(iterators), its loops new.
  void transform_block_layout(BlockRV block, const IndexMap& map);
  /// A sum of products runs over multiples of `padding` (one for each iterator): operands are copied and
  /// filled up with 0, the result is copied back.
  void pad_einsum(BlockRV block, const std::vector<int64_t>& padding);
  /// A block that stores a value where a condition holds and a number elsewhere becomes a fill before `loop`
  /// and a copy of what lies inside. The fill.
  BlockRV decompose_padding(BlockRV block, LoopRV loop);
  /// In memory, the stride of `axis` leaves the remainder `offset` when divided by `factor`.
  void storage_align(BlockRV block, int write_index, int axis, int64_t factor, int64_t offset = 0);
  /// Consecutive loops over `sizes` iterations; one of them may be -1: the rest.
  std::vector<LoopRV> loop_partition(LoopRV loop, const std::vector<int64_t>& sizes);
  /// Loops of neighbouring nests of one shape become one (the first), which runs all their bodies.
  LoopRV merge(const std::vector<LoopRV>& loops);

  // Samplers: decided by the schedule's generator, or as given; the trace records the decision.
  /// `n` factors whose product is the loop's extent, the last at most `max_innermost`.
  Factors sample_perfect_tile(LoopRV loop, int n, int64_t max_innermost = 16,
                              const std::vector<int64_t>& decision = {});
  /// `n` factors whose product is the loop's extent, the product of those from `partition_pos` on a multiple
  /// of `innerpart_factor`.
  Factors sample_partitioned_tile(LoopRV loop, int n, int partition_pos, int64_t innerpart_factor,
                                  const std::vector<int64_t>& decision = {});
  IntRV sample_categorical(const std::vector<int64_t>& candidates, const std::vector<double>& probabilities,
                           std::optional<int> decision = {});
  /// Where compute_at accepts the block: a loop (decision 0, 1, …, outermost first), where it is (-1) or
  /// inlined into its consumers (-2). compute_at takes all of them, so that a trace with another decision
  /// replays.
  LoopRV sample_compute_location(BlockRV block, std::optional<int> decision = {});
  void set_scope(BlockRV block, int write_index, const std::string& scope);
  /// What the program allocates holds another type: stores convert to it, loads back. Unsafe: a narrower type
  /// changes results.
  void unsafe_set_dtype(BlockRV block, int write_index, DataType dtype);
  /// Dimensions [0, s0), [s0, s1), … of a buffer of the program are the axes of the memory that it lives in.
  void set_axis_separator(BlockRV block, int buffer_index, const std::string& buffer_index_type,
                          const std::vector<int>& separators);
  /// The block is computed under a loop whose iterations need overlapping parts of its result: these stay in
  /// a circular buffer, and each iteration computes only what is new.
  void rolling_buffer(BlockRV block, int write_index);
  void annotate(BlockRV block, const std::string& key, Any value);
  void annotate(LoopRV loop, const std::string& key, Any value);
  void unannotate(BlockRV block, const std::string& key);
  void unannotate(LoopRV loop, const std::string& key);
  /// Marks in the trace where steps that finish a schedule begin; once.
  void enter_postproc();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tenon
