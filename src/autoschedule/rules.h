// SPDX-License-Identifier: Apache-2.0
// The rules behind default_schedule and the facts they read: strides of each access along each iterator.
#pragma once
#include "autoschedule/default.h"

namespace tenon::rules {

inline constexpr int64_t kUnknown = -1;         ///< a symbolic extent
inline constexpr int64_t kIrregular = 1 << 30;  ///< a stride that is no small constant

/// One buffer access of a block, seen along its iterators.
struct Access {
  tir::Buffer buffer;
  Array<PrimExpr> indices;
  std::vector<int64_t> stride;  ///< elements per step of each iterator; 0: not used; kIrregular
  /// An irregular iterator that is cut into panels (i / 32 and i % 32): their width, else 0, and its stride
  /// inside.
  std::vector<int64_t> panel = {}, panel_stride = {};
  int64_t group = 1;  ///< neighbours that one instruction takes together, so that lanes alone must be regular
  int64_t room = 0;   ///< whole lanes of groups that there are, when that is limited
  /// Stride of an iterator inside aligned tiles of that size.
  int64_t step(int iterator, int64_t tile) const {
    const size_t i = size_t(iterator);
    return stride[i] == kIrregular && i < panel.size() && panel[i] > 0 && panel[i] % tile == 0
               ? panel_stride[i]
               : stride[i];
  }
};

/// A block whose body is one store and whose iterators are each bound to a loop of their own, in order.
struct Facts {
  BlockRV id;
  Ref<tir::Block> block;
  Access write;
  std::vector<Access> loads;         ///< the accumulator's own loads left out
  std::vector<int64_t> extent;       ///< of each iterator; kUnknown when symbolic
  std::vector<int> spatial, reduce;  ///< positions
  std::vector<bool> in_value;        ///< the iterator is used outside indices (a condition, a cast)
  double cost = 1;                   ///< rough operations of one instance
  bool is_reduction() const { return !reduce.empty(); }
  int64_t instances(bool only_spatial) const;  ///< kUnknown when symbolic
};
std::optional<Facts> facts_of(Schedule& s, BlockRV b);
/// The access walks the iterators i and i + 1 as one array (or neither of them), maybe of symbolic size.
bool one_array(const Facts& f, const Access& a, size_t i);
bool writes_parameter(const Schedule& s, BlockRV b);
/// Vector lanes for the widest type a block touches.
int64_t lanes_for(const Facts& f, const Target& target);

/// Runs f on a snapshot and keeps the result if nothing refused.
bool attempt(Schedule& s, FunctionRef<void(Schedule&)> f);

/// Each rule returns false when it does not apply, leaving the schedule as it was.
void inline_producers(Schedule& s);
/// epilogue.id < 0: none. Scheduled producers are added to `done`.
bool tile_reduction(Schedule& s, BlockRV reduction, BlockRV epilogue, const Target& target,
                    std::vector<int32_t>& done);
/// A tile made by an instruction of the target that multiplies groups of narrow values. Operands that do not
/// lie in groups are laid out anew where that pays.
bool grouped_reduction(Schedule& s, BlockRV reduction, BlockRV epilogue, const Target& target,
                       std::vector<int32_t>& done);
bool dot_reduction(Schedule& s, BlockRV reduction, BlockRV epilogue, const Target& target);
/// A padded copy that a reduction reads, made a few rows at a time.
struct Strip {
  BlockRV pad;
  int window = -1;         ///< the reduction's iterator that moves along the rows
  int64_t rows = 0;        ///< steps of that iterator (tiles, when it is tiled) in a strip; kUnknown: all
  std::vector<int> apart;  ///< iterators of which each value reads other elements
};
/// The strip for a reduction whose iterators are taken `step` at a time.
std::optional<Strip> padding_strip(Schedule& s, const Facts& f, const std::vector<int64_t>& step,
                                   const Target& target);
/// The copy moves into the loop around its strip (the outermost one) and runs in vectors.
void place_padding(Schedule& s, const Strip& strip, LoopRV around, const Target& target);
/// Scheduled blocks are added to `done`.
bool row_cluster(Schedule& s, BlockRV last, const Target& target, std::vector<int32_t>& done);
bool elementwise(Schedule& s, BlockRV b, const Target& target);
/// Vectorises the loops of a complete block below `above` (all loops when above.id < 0).
void vectorize_inner(Schedule& s, BlockRV b, size_t outer_loops, const Target& target);
void fallback(Schedule& s, BlockRV b);

}  // namespace tenon::rules
