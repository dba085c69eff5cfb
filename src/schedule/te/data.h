// SPDX-License-Identifier: Apache-2.0
// What a schedule of tensor expressions remembers until `apply`: stages in producer order and the requests on
// each. Used by this folder only.
#pragma once
#include "schedule/te/te_schedule.h"

namespace tenon::te {

enum class RelationKind { split, fuse, reorder };
struct Relation {
  RelationKind kind = RelationKind::split;
  std::vector<tir::IterVar> in, out;  ///< split: parent → outer, inner; fuse: parts → fused; reorder: in only
  int64_t factor = 0;
  bool parts = false;  ///< split: `factor` is the number of outer iterations
};

enum class LoopRequestKind { parallel, vectorize, unroll, bind, annotate };
/// What one loop becomes when all loops are in place.
struct LoopRequest {
  LoopRequestKind kind = LoopRequestKind::annotate;
  tir::IterVar axis, thread;
  std::string key;
  Any value;
  Tensor tensor;  ///< what a prefetch fetches
};
enum class BlockRequestKind { set_scope, storage_align, double_buffer, rolling_buffer, set_axis_separators };
/// What becomes of the stage's result in memory.
struct BlockRequest {
  BlockRequestKind kind = BlockRequestKind::set_scope;
  std::string scope;
  std::vector<int64_t> numbers;  ///< storage_align: axis, factor, offset; or the separators
};

enum class Attach { root, inlined, at };
struct StageData {
  Operation op;  ///< as it is now
  std::string name;
  /// Axes in the order of the block's iterators, and the loops as the caller sees them, outermost first.
  std::vector<tir::IterVar> roots, leaves;
  std::vector<Relation> relations;
  std::vector<LoopRequest> loops;
  std::vector<BlockRequest> block;
  std::vector<std::pair<tir::IterVar, std::string>> tensorize;
  Attach attach = Attach::root;
  int at_stage = -1;
  tir::IterVar at_axis;
  std::vector<std::pair<tir::IterVar, int64_t>>
      guards;  ///< set_store_predicate: which of a thread's values stores
  std::vector<tir::IterVar> env;
  std::vector<int> group;  ///< members; not empty: a group, not an operation
  bool is_group = false;
};

enum class ChangeKind { cache_read, cache_write, rfactor, transform_layout };
/// A change of which blocks there are, carried out in the order of the calls, before anything else.
struct Change {
  ChangeKind kind = ChangeKind::cache_read;
  int stage = -1;           ///< cache_read: the reader
  std::vector<int> others;  ///< cache_read: the other readers
  int results = 1;          ///< cache_write: of how many results
  int made = -1;            ///< the new stage
  Tensor tensor;            ///< cache_read: of what
  std::string scope;
  std::vector<Relation> relations;   ///< rfactor: on the axes of the reduction
  std::vector<tir::IterVar> reduce;  ///< rfactor: the axes that the reduction had
  tir::IterVar axis;
  int factor_axis = 0;
  IndexMap buffer_map, block_map;
};

struct ScheduleData {
  std::vector<Tensor> outputs;
  std::vector<StageData> stages;
  std::vector<int> order;  ///< stages, producers first
  std::unordered_map<const OperationNode*, int> of;
  std::vector<Operation> kept;  ///< keys of `of` stay alive
  std::vector<Change> changes;

  void key(const Operation& op, int stage) {
    of[op.get()] = stage;
    kept.push_back(op);
  }
};

/// ScheduleError T0795.
[[noreturn]] void refuse_request(const std::string& why, const std::string& where, const std::string& hint);
/// "stage 'C'", as refusals name it.
std::string where_of(const StageData& s);
/// Refused where the stage has no operation, or no loops, that could be told to do `what`.
void require_operation(const StageData& s, std::string_view what);
void require_loops(const StageData& s, std::string_view what);
/// Position of an axis among the loops of a stage; refused when it is none of them.
size_t leaf_at(const StageData& s, const tir::IterVar& axis);
/// Some request on the loops of the stage, or on its place, was made.
bool changed(const StageData& s);

/// An operation without what it computes: names, axes and shape.
Operation shell(const std::string& name, const Array<PrimExpr>& shape, DataType dtype,
                Array<tir::IterVar> axis, Array<tir::IterVar> reduce);
/// An axis for each dimension, with names that end in `suffix`.
Array<tir::IterVar> fresh_axes(const Array<PrimExpr>& shape, const std::string& suffix);
/// The loops of the stage are the axes of its operation.
void reset_axes(StageData& s);

}  // namespace tenon::te
