// SPDX-License-Identifier: Apache-2.0
// The register tile of a reduction: its shape, what a step of it costs on the target's core, and the shape
// that costs least.
#pragma once
#include "analysis/cost/nest.h"

namespace tenon::cost {

/// Of two choices the later one wins when it takes at most this share of the time: the model is not more
/// exact.
inline constexpr double kClearlyLess = 0.98;
/// What a step reads comes from the second cache at best: so much of that is not hidden behind arithmetic,
/// and near-square tiles read least.
inline constexpr double kNotHidden = 0.25;

/// Accumulators that live in registers while the sum runs: rows × rows2 × vectors × lanes of them.
struct Tile {
  int vector = -1;            ///< the iterator of the lanes; -1: no tile
  int rows = -1, rows2 = -1;  ///< the iterators of rows; -1: none
  int64_t lanes = 1, vectors = 1, row_count = 1, row2_count = 1;
  double time = 1e30;  ///< tile_time of it
  explicit operator bool() const { return vector >= 0; }
  int64_t width() const { return lanes * vectors; }
  int64_t accumulators() const { return vectors * row_count * row2_count; }  ///< registers
  /// Values of an iterator in one tile.
  int64_t size(int iterator) const {
    return iterator == vector ? width() : iterator == rows ? row_count : iterator == rows2 ? row2_count : 1;
  }
};

/// Every tile whose accumulators and operands fit the registers; `along` >= 0: only with lanes along that
/// iterator.
std::vector<Tile> tile_candidates(const Nest& nest, const Target& target, int along = -1);
/// Cycles of one core for one multiply-add that counts, by the model (docs/cost_model.md): those of a tile
/// over the results inside the nest, times the imbalance of the cores.
double tile_time(const Nest& nest, const Tile& tile, const Target& target);
/// The same for all multiply-adds of the nest; 0 when a size is symbolic.
double nest_cycles(const Nest& nest, const Tile& tile, const Target& target);
/// The candidate that takes the least time: a later one replaces an earlier one when it is clearly faster, or
/// as fast with more accumulators. `vector` < 0 when there is no candidate: along no iterator are all
/// accesses regular and enough lanes inside the nest.
Tile choose_tile(const Nest& nest, const Target& target, int along = -1);

/// The share of tiles of so many rows that lies inside the iterator's extent. Among symbolic sizes the
/// outermost is most likely a batch, often 1, and the last the longest.
double row_use(const Nest& nest, int iterator, int64_t rows);
/// Can `steps` steps of the sum's iterator `axis` be straight code? What rows of the tile read in one step
/// and their neighbours in the next (a window) is loaded once and stays in registers between them, beside the
/// accumulators; rows at symbolic distances are loaded for all steps at once.
bool fits_unrolled(const Nest& nest, const Tile& tile, int axis, int64_t steps, const Target& target);

/// Which operand is walked once, and which again and again? Rows of the tile in the innermost loop around it
/// keep the other operand's panel in the cache and read their own operand for every panel.
bool rows_innermost(const Nest& nest, const Tile& tile, const Target& target);
/// Those rows, outermost first: of a product both iterators, where the operand of the lanes stands still.
std::vector<int> innermost_rows(const Nest& nest, const Tile& tile);

/// Vectors side by side in a panel of constant weights, for a product of `rows` (kUnknown) by `columns`
/// results, each a sum of `steps` products whose operands (groups of elements) take `bytes`.
int64_t panel_vectors(int64_t rows, int64_t columns, int64_t steps, int64_t lanes, int64_t bytes,
                      const Target& target);

}  // namespace tenon::cost
