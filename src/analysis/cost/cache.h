// SPDX-License-Identifier: Apache-2.0
// What stays in a cache while it is read again, and what threads cost: the choices around a register tile.
#pragma once
#include <optional>

#include "analysis/cost/tile.h"

namespace tenon::cost {

/// Does a loop of so many operations pay for waking other threads?
bool worth_parallel(double operations, const Target& target);
/// Iterations of a parallel loop that let all cores finish at about the same time.
int64_t tasks_wanted(const Target& target);

/// A long sum taken up block by block of its steps, so that what a block reads of the operand along the lanes
/// stays in the cache while the rows of the other pass by (the KC, NC and MC blocks of a matrix product).
struct SumBlocks {
  int axis = -1;             ///< the iterator of the sum that is cut
  int64_t length = 0;        ///< steps of a block; divides the extent
  int64_t vector_tiles = 1;  ///< tiles along the lanes that take up a block together
  int64_t row_tiles = 1;     ///< and along the rows, which are padded to whole groups
};
/// The blocks for a sum of which `grouped` (-1: none) is taken `group` steps at a time; null when the
/// operands of a tile stay in the cache anyway, or nothing reads them again.
std::optional<SumBlocks> sum_blocks(const Nest& nest, const Tile& tile, int grouped, int64_t group,
                                    const Target& target);

/// Tiles of rows that pass by all panels of the operand along the lanes before the next ones do, so that what
/// they read comes from the second cache then (the MC block of a matrix product); 0: rows are not grouped.
/// `grouped` as of sum_blocks; `cycles`: of the tiles alone, tile_time over the whole nest.
int64_t row_group(const Nest& nest, const Tile& tile, int grouped, double cycles, const Target& target);

/// The iterator beside the lanes along which the operand lies block by block, each with all steps of the sum;
/// -1: there is none.
int block_iterator(const Nest& nest, const Access& operand, int lanes);
/// The iterator of blocks of lanes (of an operand that lies so) that is walked outermost, before the members
/// of a batch: all of them read a block while it is near, where each would take the whole operand from behind
/// the second cache. -1: there is none, or the rest would be read more often than that saves.
int blocks_outermost(const Nest& nest, const Tile& tile, const Target& target);
/// The iterator of blocks of lanes that is walked behind the rows of an image, so that a row is near while
/// all blocks read it: the image leaves the second cache, and all blocks are little beside it. `cycles` as of
/// row_group. -1: there is none.
int blocks_behind_rows(const Nest& nest, const Tile& tile, double cycles, const Target& target);
/// Does the operand along the lanes leave the second cache before the next row of a plane reads it again, so
/// that all rows that are near pass by a part of it before the next part comes?
bool parts_outermost(const Nest& nest, const Tile& tile, const Target& target);
/// Elements by which hints run ahead of a tile's sum on the operand along the lanes, which the loops walk
/// once: those of the next tiles beside it are on their way to the cache while rows read these. `rows`: how
/// often a tile's part is read (kUnknown: rows are of any number). 0: it stays in the cache, or is not read
/// often enough to hide what comes. Of an operand in blocks of lanes, hints run a block ahead.
int64_t stream_ahead(const Nest& nest, const Access& operand, const Tile& tile, int64_t rows,
                     const Target& target);

/// Is a tensor of so many bytes, made and read again beside what makes it, too large for the first cache?
bool leaves_first_cache(int64_t bytes, const Target& target);

/// Is an operand, read again by many rows of the tile, worth a copy in panels as wide as the tile?
bool worth_panels(const Nest& nest, const Access& operand, const Tile& tile, const Target& target);
/// Is an operand whose lanes lie apart read often enough for a copy in which they are neighbours?
bool worth_copy(const Nest& nest, const Access& operand, const Tile& tile);
/// Reads of each element of a product's second operand that pay for a copy in groups whose elements move as
/// vectors, or groups as they are.
bool pays_for_groups(int64_t reads);
/// How a copy in groups sees its operand: the iterators of the sum and the lanes (-1: it has none), and the
/// size of a group.
struct Grouped {
  int sum = -1, lanes = -1;
  int64_t group = 1;
};
/// The same of a copy in groups for a dot instruction.
bool worth_groups(const Nest& nest, const Access& operand, const Grouped& as);
/// The same of one that keeps its order and is only filled up to whole groups along the sum.
bool worth_filling(const Nest& nest, const Access& operand, const Grouped& as);

/// Columns that are folded across memory, each element read for one result.
struct ColumnFold {
  int64_t rows = 1;     ///< of results; those of one are neighbours
  int64_t vectors = 1;  ///< of a row
  int64_t steps = 1;    ///< elements of a column; -1: not known
  int64_t inner = 1;    ///< of these the ones along the innermost axis that is folded
  double bytes = 0;     ///< of a vector
  int64_t passes = 1;   ///< folds one after the other over the same elements
};
/// Vectors of a panel that is folded at a time; 0: panels do not pay.
int64_t column_vectors(const ColumnFold& fold, const Target& target);

/// Does a fold read so much, in so many rows, that it should come as one stream, a whole row at a time?
bool one_stream(const ColumnFold& fold, const Target& target);
/// Rows of `width` results that are folded side by side, so that they are whole vectors and enough of them;
/// 1: they are as they lie, or the fold is too short.
int64_t rows_side_by_side(const ColumnFold& fold, int64_t width, int64_t lanes);
/// A fold in the order of its rows: vectors of results that stay in the first cache (a panel), those that are
/// in registers, and the steps that these take at once. Each divides what it is part of.
struct FoldTile {
  int64_t panel = 1, vectors = 1, steps = 1;
};
FoldTile fold_tile(const ColumnFold& fold, const Target& target);
/// Pieces of the steps, each folded by itself, that give all cores something to do; 1: there are results
/// enough, the fold is too short, or nothing divides it.
int64_t pieces_of_fold(const ColumnFold& fold, double cost, const Target& target);

/// Padded rows that a window walks, made a block at a time where they are read.
struct PaddedRows {
  int64_t steps = 0;   ///< of the window along the rows (tiles, when it is tiled)
  int64_t stride = 1;  ///< rows from one step to the next
  int64_t window = 1;  ///< rows that a step reads
  double row_bytes = 0;
  int64_t others = 1;  ///< blocks side by side: values of the other iterators
};
/// Steps of one block, among the divisors of `steps`: little is padded twice, the block fits the cache, and
/// the cores have enough of them. 0: none does.
int64_t rows_of_block(const PaddedRows& rows, const Target& target);
/// Does a whole padded copy of `bytes`, each read `reads` times, stay in the cache?
bool worth_whole_copy(double bytes, double reads, const Target& target);

}  // namespace tenon::cost
