// SPDX-License-Identifier: Apache-2.0
// Schedule state: an indexed tree of the loops and blocks of one tensor program. Entries are named by
// integers that survive every change; `replace` is the only mutator. Used by the primitives of this folder
// only.
#pragma once
#include <memory>
#include <unordered_set>

#include "analysis/index_map.h"
#include "analysis/iter_map.h"
#include "schedule/schedule.h"

namespace tenon::sched {

/// A loop (tir::For) or a block (its tir::BlockRealize) of the program, or one that once was.
struct Entry {
  tir::Stmt node;
  int32_t parent = -1;  ///< entry above; -1 for the root block
  bool alive = true;
  bool is_block = false;
  std::string label;       ///< loop variable or block name
  std::string removed_by;  ///< the step that removed it
};

/// What is known about one iterator binding (see bindings.cpp).
using Binding = IterMap::Answer;

/// A block directly inside a scope (another block), with the loops between.
struct Leaf {
  int32_t id = -1;
  Ref<tir::BlockRealize> realize;
  std::vector<int32_t> loops;  ///< outermost first
  bool reads(const tir::Buffer& b) const;
  bool writes(const tir::Buffer& b) const;
};

/// Blocks of one scope in program order: what producers, consumers and dependencies derive from.
struct Scope {
  int32_t id = -1;
  std::vector<Leaf> leaves;
  int find(int32_t block) const;                         ///< position in program order, or -1
  std::vector<int> writers(const tir::Buffer& b) const;  ///< positions
  std::vector<int> readers(
      const tir::Buffer& b) const;  ///< positions; a block that updates what it wrote counts
};

/// Facts by immutable node: a change makes new nodes, so that what was derived from an untouched subtree
/// stays and what lies on a changed path is forgotten.
struct FactCache {
  std::unordered_map<const Object*, std::pair<ObjectRef, std::shared_ptr<const Scope>>> scopes;
  struct BindingFact {
    ObjectRef realize;
    std::vector<ObjectRef> ranges;
    Binding value;
  };
  std::unordered_map<const Object*, std::vector<BindingFact>> bindings;
};

struct State {
  tir::PrimFunc function;
  uint64_t seed = 0;  ///< of the samplers; each draw moves it on
  std::vector<Entry> entries;
  std::unordered_map<const Object*, int32_t> index;  ///< living nodes
  std::unordered_map<std::string, int32_t> names;    ///< living blocks
  Trace trace;
  int32_t sampled = 0;                      ///< numbers and places that samplers have made
  std::unordered_map<int32_t, int> places;  ///< what sample_compute_location chose: a loop, -1, -2
  /// Queries about the program as it is: a step that uses what they found records them.
  std::vector<TraceStep> queries;
  tir::PrimFunc asked;                      ///< the program that they were asked of
  std::unordered_set<int32_t> named;        ///< handles that the trace has introduced
  bool postproc = false;                    ///< enter_postproc was met
  std::unordered_set<std::string> guarded;  ///< blocks that the program itself restricts by a predicate
  std::string step;                         ///< the primitive being run
  std::shared_ptr<FactCache> facts = std::make_shared<FactCache>();

  explicit State(tir::PrimFunc f, uint64_t seed);

  // Access; T0702 when the entry is gone, T0701 when it never was (or is of the other kind).
  const Entry& entry(int32_t id) const;
  Ref<tir::For> loop(int32_t id) const;
  Ref<tir::BlockRealize> realize(int32_t id) const;
  Ref<tir::Block> block(int32_t id) const { return realize(id)->block; }
  int32_t id_of(const ObjectRef& node) const;  ///< -1 when unknown
  int32_t parent(int32_t id) const { return entries[size_t(id)].parent; }
  bool is_block(int32_t id) const { return entries[size_t(id)].is_block; }
  bool inside(int32_t id, int32_t ancestor) const;  ///< itself counts
  std::vector<int32_t> children(int32_t id) const;  ///< loops and blocks directly below, in program order
  std::vector<int32_t> blocks_below(
      int32_t id) const;               ///< blocks of the same scope below a loop (or the block)
  int32_t scope_of(int32_t id) const;  ///< the block around a loop or block; T0703 for the root block
  std::vector<int32_t> loops_of(int32_t block) const;  ///< up to the scope, outermost first
  std::vector<int32_t> loops_between(int32_t block, int32_t above) const;  ///< strictly below `above`

  // Derived facts, lazily.
  std::shared_ptr<const Scope> scope(int32_t scope_block);
  /// The binding of `block` seen as a function of `loops` (all others fixed).
  Binding binding(int32_t block, const std::vector<int32_t>& loops);

  /// Puts `with` in place of the loop or block `id`. Handles of what is still there (the same loop variable,
  /// the same block name, or a pair of `renamed`: old name → new name) point to the new nodes; others die.
  void replace(int32_t id, const tir::Stmt& with, const std::map<std::string, std::string>& renamed = {});
  /// The scope's block with a new body (and, if given, buffers).
  void replace_body(int32_t scope_block, const tir::Stmt& body,
                    const std::map<std::string, std::string>& renamed = {});
  void replace_body(int32_t scope_block, const tir::Stmt& body, const Array<tir::Buffer>& allocs,
                    const std::map<std::string, std::string>& renamed = {});
  std::string fresh_block_name(const std::string& hint) const;

  /// The program's loops and blocks, one a line, with the entries in `marked` pointed at.
  std::string sketch(const std::vector<int32_t>& marked) const;
  /// "loop 'k'" or "block 'C'".
  std::string describe(int32_t id) const;
  [[noreturn]] void refuse(std::string_view code, int32_t at, const std::string& why,
                           const std::string& help = {}) const;

 private:
  void reindex(const tir::Stmt& root, int32_t parent, const std::unordered_map<const Object*, int32_t>& loops,
               const std::map<std::string, int32_t>& blocks);
  void forget(int32_t id);
};

// ---------------------------------------------------------------- statements
/// Loops and block realizations reached from s without passing through another, in program order.
std::vector<tir::Stmt> direct_children(const tir::Stmt& s);
/// A statement that does nothing; `clean` removes it and whatever becomes empty.
tir::Stmt nothing();
bool is_nothing(const tir::Stmt& s);
tir::Stmt clean(const tir::Stmt& s);
/// Rewrites statements only (expressions and what `f` does not touch are shared).
tir::Stmt rewrite_stmts(const tir::Stmt& s, FunctionRef<tir::Stmt(const tir::Stmt&)> f);
/// The largest loop or block that holds nothing but this block: it goes when the block goes.
int32_t whole_nest(const State& s, int32_t block);
Ref<tir::For> with_body(const Ref<tir::For>& loop, tir::Stmt body);
std::vector<PrimExpr> conjuncts(const PrimExpr& predicate);

// ---------------------------------------------------------------- block kinds (blocks.cpp)
/// All iterators spatial, no init, reads nothing it writes.
bool is_complete(const Ref<tir::Block>& b);
/// Spatial and reduction iterators, init, and writes indexed by spatial iterators only.
bool is_reduction(const Ref<tir::Block>& b);
/// Different values of the spatial iterators write different elements (of each buffer written).
bool writes_apart(const Ref<tir::Block>& b);
/// The block is a step of a scan that none of `loops` drives, and a step reads of what it writes only what
/// other steps wrote: within these loops it is like a block without scan iterators.
bool steps_lie_outside(const State& s, int32_t id, const std::vector<int32_t>& loops);
bool uses(const ObjectRef& e, const tir::Var* v);
bool uses_any(const ObjectRef& e, const std::unordered_set<const tir::Var*>& vars);
bool is_parameter(const State& s, const tir::Buffer& b);
/// Every run of the block stores all of its region of `b`: no condition cuts a part off.
bool surely_writes(const State& s, const Leaf& leaf, const tir::Buffer& b);
/// The buffer of a region by number; T0771 when there is none.
tir::Buffer region_buffer(const State& s, int32_t block, int index, bool of_write);
/// The block that allocates `b`, around `id`; -1: the caller does.
int32_t owner_of(const State& s, int32_t id, const tir::Buffer& b);
/// T0759 unless the buffer lives in the scope itself (a parameter lives in the root block): outside it others
/// may use it.
void require_owned(const State& s, int32_t id, const tir::Buffer& b);
/// T0759 unless the block lies directly in the root block.
void require_root_scope(const State& s, int32_t id);
/// Does the block hold something that is not plain loads, stores and arithmetic (calls with effects,
/// pointers)?
bool has_effects(const ObjectRef& body);
/// Reads and writes computed from the body anew.
Ref<tir::Block> with_regions(Ref<tir::Block> b);
/// Positions in `iters` of the iterators that are the indices, each index one distinct iterator (or 0 in a
/// dimension of size 1, given as -1).
std::optional<std::vector<int>> trivial_indices(const Array<PrimExpr>& indices,
                                                const Array<tir::IterVar>& iters, const tir::Buffer& b);
enum class LoopRole { unused, spatial, reduce, mixed };
/// One load or store of a buffer by a block, with its indices; false from f ends the walk.
std::vector<Array<PrimExpr>> load_indices(const ObjectRef& body, const tir::Buffer& b);
/// The block's only store, when its body is nothing but that store without a mask.
const tir::BufferStore* only_store(const Ref<tir::Block>& b);
/// Every mention of `b` in `body` is a plain, unmasked load or store (no match_buffer, no pointer).
bool plainly_used(const ObjectRef& body, const tir::Buffer& b);
LoopRole role_of(const Ref<tir::BlockRealize>& r, const tir::Var* loop);
void bind_loops(const State& s, Analyzer& a, int32_t id);  ///< ranges of every loop around id (and of itself)
/// `region` of a block as a region over the loops outside `above` (exclusive bound: loops strictly below are
/// relaxed).
tir::BufferRegion region_below(const State& s, const Leaf& leaf, const tir::BufferRegion& region,
                               int32_t above, Analyzer& a);
/// The same box, not cut off at the buffer's ends.
Array<tir::Range> window_below(const State& s, const Leaf& leaf, const tir::BufferRegion& region,
                               int32_t above, Analyzer& a);
/// Below `above`, the block stores exactly the elements of its region's window that lie in the buffer.
bool makes_box(State& s, const Leaf& leaf, const tir::BufferRegion& region, int32_t above, Analyzer& a);

// ---------------------------------------------------------------- primitives, one file per group
/// T0710, T0711 unless the loop is serial and carries no annotation.
void require_plain(const State& s, int32_t loop);
/// Annotations of a block: positions of regions that are stated by hand and stay as they are.
inline const std::string explicit_read_key = "explicit_read_region",
                         explicit_write_key = "explicit_write_region";
/// Annotation of a block: lists of (write index, axis, factor, offset).
inline const std::string storage_align_key = "buffer_dim_align";
std::vector<int32_t> split(State& s, int32_t loop, std::vector<int64_t> factors);
int32_t fuse(State& s, const std::vector<int32_t>& loops);
void reorder(State& s, const std::vector<int32_t>& order);
/// T0712 to T0717 unless each iteration of `loop` may run on its own thread or, vectorized, lane.
/// `across`: threads may carry a reduction together.
void require_independent(State& s, int32_t loop, tir::ForKind kind, bool across = false);
/// The same for a loop that has a kind already, after a change below it.
void require_still_independent(State& s, int32_t loop);
void bind(State& s, int32_t loop, const std::string& thread_axis);
bool bound_to_threads(const State& s, int32_t loop);  ///< of one group: threadIdx
/// `loop` with another variable and no body: kind and thread axis stay.
Ref<tir::For> loop_like(const Ref<tir::For>& loop, const tir::VarRef& v);
void reorder_block_iter_var(State& s, int32_t block, const std::vector<int>& order);
void unsafe_set_dtype(State& s, int32_t block, int write_index, DataType dtype);
void set_axis_separator(State& s, int32_t block, int index, bool of_write,
                        const std::vector<int>& separators);
void rolling_buffer(State& s, int32_t block, int write_index);
void set_kind(State& s, int32_t loop, tir::ForKind kind);
int32_t add_unit_loop(State& s, int32_t block);
int32_t add_thread_loop(State& s, int32_t block, const std::string& tag, int64_t extent, int64_t which);
void compute_inline(State& s, int32_t block);
void reverse_compute_inline(State& s, int32_t block);
void compute_at(State& s, int32_t block, int32_t loop);
void reverse_compute_at(State& s, int32_t block, int32_t loop);
int32_t decompose_reduction(State& s, int32_t block, int32_t loop);
int32_t rfactor(State& s, int32_t loop, int factor_axis);
int32_t cache_read(State& s, int32_t block, int read_index, const std::string& scope,
                   const std::vector<int32_t>& others = {});
int32_t cache_write(State& s, int32_t block, int write_index, const std::string& scope);
std::vector<int32_t> cache_inplace(State& s, int32_t block, int read_index, const std::string& scope);
std::vector<int32_t> cache_index(State& s, int32_t block, const std::string& scope, int threshold);
int32_t reindex(State& s, int32_t block, int read_index);
int32_t reindex_write(State& s, int32_t block, int write_index);
int32_t reindex_cache(State& s, int32_t block, int index, bool of_write, const std::string& scope,
                      const IndexMap& map);
int32_t read_at(State& s, int32_t loop, int32_t block, int read_index, const std::string& scope);
int32_t write_at(State& s, int32_t loop, int32_t block, int write_index, const std::string& scope);
void fuse_reduction_epilogue(State& s, int32_t block, int32_t epilogue);
void unsafe_hide_buffer_access(State& s, int32_t block, bool of_write, const std::vector<int>& indices);
void annotate_buffer_access(State& s, int32_t block, int index, bool of_write, const IndexMap& map);
void enter_postproc(State& s);
void set_scope(State& s, int32_t block, int write_index, const std::string& scope);
int32_t blockize(State& s, int32_t loop);
void transform_layout(State& s, int32_t block, int index, bool of_write, const IndexMap& map,
                      const PrimExpr& pad_value);
void transform_block_layout(State& s, int32_t block, const IndexMap& map);
void pad_einsum(State& s, int32_t block, const std::vector<int64_t>& padding);
int32_t decompose_padding(State& s, int32_t block, int32_t loop);
void storage_align(State& s, int32_t block, int write_index, int axis, int64_t factor, int64_t offset);
std::vector<int32_t> loop_partition(State& s, int32_t loop, std::vector<int64_t> factors);
int32_t merge(State& s, const std::vector<int32_t>& loops);
std::vector<int64_t> sample_perfect_tile(State& s, int32_t loop, int n, int64_t max_innermost,
                                         const std::vector<int64_t>& decision);
std::vector<int64_t> sample_partitioned_tile(State& s, int32_t loop, int n, int partition_pos,
                                             int64_t innerpart_factor, const std::vector<int64_t>& decision);
int64_t sample_categorical(State& s, const std::vector<int64_t>& candidates, const std::vector<double>& probs,
                           int decision);
/// The loop, or -1 (where it is) or -2 (inlined), and the decision that was taken.
std::pair<int32_t, int> sample_compute_location(State& s, int32_t block, std::optional<int> decision);
int32_t tensorize(State& s, int32_t id, const std::string& intrin);
int32_t fuse_iterators(State& s, int32_t block, int first, int count);
void pad_iteration(State& s, int32_t block, int iterator, int64_t multiple, bool clamp);
void annotate(State& s, int32_t id, const std::string& key, const Any& value);
void unannotate(State& s, int32_t id, const std::string& key);

}  // namespace tenon::sched
