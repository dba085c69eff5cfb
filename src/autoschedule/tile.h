// SPDX-License-Identifier: Apache-2.0
// The recipe of a register tile, which all rules for tiled reductions end with.
#pragma once
#include "autoschedule/rules.h"

namespace tenon::rules {

using cost::Tile;

inline constexpr double kFusedTime = 0.97;  ///< a tile across fused axes must save so much

/// A tile given by the annotation "tile" of the block; DiagnosticError "T0746" when it does not fit.
struct GivenTile {
  Fusion fusion;
  Tile tile;  ///< of the fused nest
};
std::optional<GivenTile> given_tile(const Facts& f);
/// The tile as the annotation gives it, with the names of the block's iterators.
AttrMap tile_annotation(const Facts& f, const Fusion& fusion, const Tile& tile);

/// What a rule has decided before the recipe begins.
struct TileRequest {
  BlockRV reduction, epilogue;  ///< epilogue.id < 0: none
  Facts facts;                  ///< of the reduction as it is
  Fusion fusion = {};           ///< iterators that become one first; `tile` counts the iterators behind that
  Tile tile = {};
  /// A tensor intrinsic that takes `group` steps of the iterator `grouped` at once, in place of
  /// multiply-adds.
  std::string intrin = {};
  int grouped = -1;
  int64_t group = 1;
  int64_t matrix_rows = 0;  ///< of a matrix register that holds sums; 0: they are in vector registers
  BlockRV panels = {};      ///< a copy of the operand of the lanes, made panel by panel; id < 0: none
};

/// Rows that a padding block makes, a block of them at a time, where the reduction reads them.
struct PadRows {
  BlockRV pad;
  int window = -1;          ///< the reduction's iterator that moves along the rows
  int64_t rows = 0;         ///< steps of that iterator (tiles, when it is tiled) in a block; kUnknown: all
  std::vector<int> planes;  ///< iterators of which each value reads other elements
  bool moves(int iterator) const;
};
/// Null when the reduction reads no padding that can be made so, or a whole copy costs less.
std::optional<PadRows> pad_rows(Schedule& s, const Facts& f, const Tile& tile, const Target& target);

/// What the steps of the recipe read: which axes are tiled, which rows are padded where they are read,
/// whether the sum is cut into blocks. A step decides only the order of the loops that it makes and which of
/// them are unrolled.
struct TilePlan : TileRequest {
  Facts nest = {};  ///< the reduction with the fused iterators as one
  std::optional<PadRows> pad = {};
  std::optional<cost::SumBlocks> blocks = {};
  bool contiguous = false;  ///< the epilogue's accesses are contiguous along the lanes
  /// The epilogue's iterator that reads each dimension of the result, as both are before fuse_axes; -1: none.
  std::vector<int> reads = {};
  /// The copy of sums from matrix registers, which the epilogue reads; id < 0: none.
  BlockRV registers = {-1};
  BlockRV row_copy = {-1};  ///< `copy_rows`; id < 0: none
  /// The iterator of `registers`, behind fuse_axes, that follows iterator `i` of the nest.
  int result_iterator(int i) const;
  /// The epilogue's iterator, behind fuse_axes, that follows iterator `i` of the nest; -1: none.
  int epilogue_iterator(int i) const;
};

/// Makes the tile: with rows padded where they are read (`pad_rows`) where that pays, else with the sum in
/// blocks (`cost::sum_blocks`) where that pays. When a primitive refuses either, the plain tile is made.
RuleOutcome make_tile(Draft& draft, const TileRequest& request);
/// The steps of a tile whose sum is taken up block by block, from split to parallel; the axes are padded.
RuleOutcome tile_in_blocks(Draft& draft, const TilePlan& plan);

/// Rows of symbolic number: a copy of their operand, with whole tiles of them and the sum along memory, from
/// which matrix registers are loaded. id < 0: the reduction does not read it.
BlockRV copy_rows(Draft& draft, const TilePlan& plan);
/// The same of a tile whose sums are in matrix registers: the last rows are a whole tile that begins earlier.
RuleOutcome tile_in_matrices(Draft& draft, const TilePlan& plan);

// Steps that recipes share.

/// The result lives in a private buffer that the epilogue, or a copy made for it, takes it from. That block.
BlockRV private_result(Schedule& s, BlockRV reduction, BlockRV epilogue);
/// Finishes the loops of an epilogue below the `outer` first ones: its iterator `vector` innermost in lanes,
/// the rest unrolled while they are few.
void finish_epilogue(Draft& draft, BlockRV e, int vector, size_t outer, int64_t lanes, bool contiguous);
/// The first value of a reduction, before `loop`: below the `outer` first loops lanes innermost, the rest
/// unrolled.
void zero_accumulators(Schedule& s, BlockRV reduction, LoopRV loop, size_t outer);
/// Position among `loops`, from `first` on, of the loop that iterator `i` of the block is bound through; -1:
/// none.
int loop_of(const Schedule& s, BlockRV b, int i, const std::vector<LoopRV>& loops, size_t first);
/// A copy of the operand `l` for the reduction alone, laid out by its iterators; what made the operand is
/// inlined. id < 0: the reduction does not read it.
BlockRV copy_operand(Draft& draft, BlockRV reduction, const Access& l);

}  // namespace tenon::rules
