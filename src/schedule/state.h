// SPDX-License-Identifier: Apache-2.0
// Schedule state: an indexed tree of the loops and blocks of one tensor program. Entries are named by
// integers that survive every change; `replace` is the only mutator. Used by the primitives of this folder
// only.
#pragma once
#include <map>
#include <memory>
#include <unordered_set>

#include "analysis/condition.h"
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

/// What sample_compute_location chose.
struct Location {
  enum class Kind : uint8_t { loop, here, inlined };
  Kind kind = Kind::here;
  int32_t loop = -1;
};

struct State {
  tir::PrimFunc function;
  uint64_t seed = 0;  ///< of the samplers; each draw moves it on
  std::vector<Entry> entries;
  std::unordered_map<const Object*, int32_t> index;  ///< living nodes
  std::unordered_map<std::string, int32_t> names;    ///< living blocks
  Trace trace;
  std::vector<ParamLayout> param_layouts;
  // What samplers have made, by the id of its handle; numbers and locations are counted together.
  std::map<int32_t, int64_t> numbers;
  std::map<int32_t, Location> locations;
  int32_t sampled = 0;
  /// Queries about the program as it is: a step that uses what they found records them.
  std::vector<TraceStep> queries;
  tir::PrimFunc asked;                      ///< the program that they were asked of
  std::unordered_set<int32_t> named;        ///< loops and blocks that the trace has introduced
  bool postproc = false;                    ///< enter_postproc was met
  std::unordered_set<std::string> guarded;  ///< blocks that the program itself restricts by a predicate
  /// Blocks around whole programs (block_rows): what they hold is scheduled as the program was, and their
  /// regions follow it.
  std::unordered_set<std::string> open;
  std::string_view step;  ///< the primitive being run
  std::shared_ptr<FactCache> facts = std::make_shared<FactCache>();
  /// By which primitives; all snapshots of a schedule share it.
  std::shared_ptr<GivenUpProofs> given_up = std::make_shared<GivenUpProofs>();

  explicit State(tir::PrimFunc f, uint64_t seed);
  /// One without bindings, asked by the primitive being run.
  Analyzer analyzer() const { return Analyzer(*given_up, step); }

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

  std::vector<int32_t> leaf_blocks() const;  ///< blocks that hold no other, in program order; not the root
  /// T0701, T0702 unless the handle names a loop, block, number or location of that kind.
  void require(const Handle& handle) const;
  Handle name_number(int64_t value);
  Handle name_location(const Location& location);

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

// ---------------------------------------------------------------- block kinds (blocks.cpp)
/// All iterators spatial, no init, reads nothing it writes.
bool is_complete(const Ref<tir::Block>& b);
/// Spatial and reduction iterators, init, and writes indexed by spatial iterators only; of what it writes it
/// reads the same elements.
bool is_reduction(const Ref<tir::Block>& b);
/// What the block reads of memory that it writes lies where its own iteration of `loops` (around it,
/// outermost first) writes, given that instances write apart: equal in all dimensions that the variables of
/// these loops decide, or ones that stand beside them in a dimension.
bool reads_own_elements(const State& s, int32_t id, const std::vector<int32_t>& loops);
/// Different values of the spatial iterators write different elements (of each buffer written).
bool writes_apart(const State& s, const Ref<tir::Block>& b);
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
/// Does the buffer live outside of the scope, where others may use it? (A parameter lives in the root block.)
bool lives_outside(const State& s, int32_t id, const tir::Buffer& b);
/// T0759 if it does.
void require_owned(const State& s, int32_t id, const tir::Buffer& b);
/// T0759 unless the block lies directly in the root block, or in one around the whole program.
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

// ---------------------------------------------------------------- what primitives share
/// T0710, T0711 unless the loop is serial and carries no annotation.
void require_plain(const State& s, int32_t loop);
/// T0712 to T0717 unless each iteration of `loop` may run on its own thread or, vectorized, lane.
/// `across`: threads may carry a reduction together.
void require_independent(State& s, int32_t loop, tir::ForKind kind, bool across = false);
/// The same for a loop that has a kind already, after a change below it.
void require_still_independent(State& s, int32_t loop);
bool bound_to_threads(const State& s, int32_t loop);  ///< of one group: threadIdx
/// `loop` with another variable and no body: kind and thread axis stay.
Ref<tir::For> loop_like(const Ref<tir::For>& loop, const tir::VarRef& v);
/// Annotations of a block: positions of regions that are stated by hand and stay as they are.
inline const std::string explicit_read_key = "explicit_read_region",
                         explicit_write_key = "explicit_write_region";
/// Annotation of a block: lists of (write index, axis, factor, offset).
inline const std::string storage_align_key = "buffer_dim_align";
// Primitives that others are made of.
void compute_inline(State& s, int32_t block);
void compute_at(State& s, int32_t block, int32_t loop, bool inwards = false);
int32_t blockize(State& s, int32_t loop);

}  // namespace tenon::sched
