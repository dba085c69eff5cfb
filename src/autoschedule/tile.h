// SPDX-License-Identifier: Apache-2.0
// What the rules for tiled reductions share: the choice of a register tile, and how an epilogue follows.
#pragma once
#include "autoschedule/rules.h"

namespace tenon::rules {

/// A register tile: rows × columns × vectors × lanes of accumulators.
struct Tile {
  int vector = -1, rows = -1, columns = -1;  ///< iterators
  int64_t lanes = 1, vectors = 1, row_count = 1, column_count = 1;
  double time = 1e30;  ///< relative, per useful element and step
  /// A tensor intrinsic that takes `group` steps of the iterator `steps` at once, in place of multiply-adds.
  std::string intrin = {};
  int steps = -1;
  int64_t group = 1;
  BlockRV near =
      {};  ///< a copy of the operand of the lanes, made for each panel before the rows pass by; id < 0: none
};

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// The tile whose useful elements take the least time by the model of the core; vector < 0 when there is
/// none.
/// `along` >= 0: the iterator of its lanes.
Tile choose_tile(const Facts& f, const Target& target, int along = -1);
/// Makes the tile of a reduction whose iterators `join` (first, count) are one; false when a primitive
/// refuses.
bool tile_with(Schedule& s, BlockRV reduction, BlockRV epilogue, const Facts& before,
               std::pair<int, int> join, const Tile& tile, const Target& target, std::vector<int32_t>& done);
/// Finishes the loops of an epilogue below the `outer` first ones: its iterator `vector` innermost in lanes,
/// the rest unrolled while they are few.
void finish_epilogue(Schedule& t, BlockRV e, int vector, size_t outer, int64_t lanes, bool contiguous);
/// Position among `loops`, from `first` on, of the loop that iterator `i` of the block is bound through; -1:
/// none.
int loop_of(const Schedule& t, BlockRV b, int i, const std::vector<LoopRV>& loops, size_t first);

/// A long sum in parts, so that what a part reads of one operand stays in the cache while the rows of the
/// other pass by.
struct Parts {
  int sum = -1;        ///< the iterator that is cut
  int64_t length = 0;  ///< of a part
  int64_t across = 1;  ///< tiles along the lanes that pass by a part together
  int64_t rows = 1;    ///< and along the rows, which are padded to whole groups
};
/// Null when the operands of a tile stay near anyway, or nothing reads them again.
std::optional<Parts> parts_of(const Facts& f, const Tile& tile, const Target& target);
/// Tiles a reduction with a private result, padded to whole tiles, and its epilogue `e` part by part; `ev` is
/// the epilogue's iterator of the lanes.
void tile_in_parts(Schedule& t, BlockRV reduction, BlockRV e, int ev, const Facts& f, const Tile& tile,
                   const Parts& parts, bool contiguous);
/// Is the inner loop along the tile's rows, so that the other operand's panel stays near?
bool walks_rows_last(const Facts& f, const Tile& tile, const Target& target);

/// Position of the epilogue's iterator that reads dimension `dim` of `b`, when all its reads of `b` are one
/// index made of its own iterators.
std::optional<std::vector<int>> reads_of(const Facts& e, const tir::Buffer& b);
/// The dimension of the result that an iterator is the index of, or -1.
int dim_of(const Facts& f, int iterator);
/// Every index of the result is an iterator of its own, or 0.
bool trivial_write(const Facts& f);

/// Runs of neighbouring spatial iterators that every access walks as one array, as (first, count): a tile may
/// then run across rows.
std::vector<std::pair<int, int>> joinable(const Facts& f);
/// Facts of the block once those iterators are one.
Facts fused(const Facts& f, int first, int count);

}  // namespace tenon::rules
