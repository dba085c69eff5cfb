// SPDX-License-Identifier: Apache-2.0
// The loops around register tiles: their order, the copies that are made between them, and threads.
#pragma once
#include "autoschedule/tile.h"

namespace tenon::rules {

/// The loops of a tiled reduction.
struct TileLoops {
  std::vector<LoopRV> axis;  ///< of each iterator: over its tiles, or its only one; id < 0: none
  std::vector<LoopRV> tile;  ///< inside a tile, lanes last
  LoopRV group{-1};          ///< innermost: the steps that an intrinsic takes at once
  std::vector<LoopRV> outer, steps;
  std::vector<int> sum;        ///< the iterator of each of the steps
  std::vector<int> last_rows;  ///< iterators of rows whose tiles are the innermost loops
  int block = -1;              ///< the iterator whose tiles are the outermost loop, out of order; -1: none
  int64_t row_group = 0;       ///< tiles of rows that pass by all panels before the next ones; 0: all of them
  std::vector<LoopRV> around;  ///< the outer ones of whose iterations each makes the copies that it reads
  bool walks_last(int i) const { return std::find(last_rows.begin(), last_rows.end(), i) != last_rows.end(); }
};

/// Loops around the tiles (`axis`) in the order that keeps a panel in the cache, or a group of rows: `outer`
/// and what goes with it.
void order_tiles(Schedule& s, const TilePlan& plan, const Target& target, TileLoops& loops);
/// The iterators of the sum, outermost first. It walks the operand along the lanes as it lies, which is then
/// one stream: it is read once for each tile, while what the rows share stays in the first cache.
std::vector<int> sum_order(const TilePlan& plan);
/// The loops around tiles, or around copies that tiles share, are one, parallel where that pays.
LoopRV fuse_tasks(Draft& draft, const TilePlan& plan, const TileLoops& loops);
/// Padded rows and panels are made just before the tiles that read them.
void place_copies(Draft& draft, const TilePlan& plan, const TileLoops& loops, LoopRV tasks);
/// Weights that the loops walk once are prefetched ahead of the sum (annotation "stream_NAME", which
/// inject_prefetch carries out): the hints are a part of its innermost step, because a statement between
/// steps has no place while accumulators are in registers.
void prefetch_weights(Schedule& s, const TilePlan& plan, const Target& target, const TileLoops& loops);

}  // namespace tenon::rules
