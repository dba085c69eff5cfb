// SPDX-License-Identifier: Apache-2.0
// The model of a register tile: multiply-adds, loads and latency of one step, what its shape wastes at ragged
// edges, and how evenly the tiles fall on the cores.
#include "analysis/cost/tile.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace tenon::cost {
namespace {

// ---------------------------------------------------------------- what is tried
constexpr int64_t kMinLanes = 4;    ///< narrower vectors are slower than scalars beside their shuffles
constexpr int64_t kMaxVectors = 6;  ///< side by side; more leave too few rows to share their loads
constexpr int64_t kMaxRows = 24, kMaxRows2 = 4;  ///< along one of two axes, and along the other
constexpr double kLeastUse = 0.4;  ///< share of the lanes inside the nest; below, narrower ones do as well
constexpr int64_t kReserved = 1;   ///< a register that holds the mask of lanes at the end

// ---------------------------------------------------------------- ragged edges
/// Expected waste of a tile along a symbolic size, which may be small: for each row beyond the first.
constexpr double kRowRisk = 0.012;
/// The same in a window: the planes of images shrink to a few rows late in a network.
constexpr double kWindowRowRisk = 0.02;
/// Further waste for each of these rows where another symbolic axis comes later in the result: this one is
/// shorter.
constexpr double kShortAxisRisk = 0.03;
/// The last vectors of a symbolic size are often partly empty: of one vector, and of each beyond it.
constexpr double kLanesUse = 0.9, kVectorRisk = 0.15;
/// The latter beside a block of rows, which is there for rows and columns that are many: 0.03 to 0.1 serve
/// attention over 250 and over 1024 keys alike (Zen 5).
constexpr double kLongVectorRisk = 0.06;
constexpr double kWindowVectorRisk =
    0.3;  ///< the same in a window: images are narrower than rows of a matrix
/// The same along images' rows where channels are what lies together and fill such vectors.
constexpr double kShortLanesUse = 0.45;
/// The same across rows of an image: all of a plane has one edge.
constexpr double kPlaneRowRisk = 0.006;
/// Sizes in use are multiples of 16 more often than of 7.
constexpr int64_t kUsualMultiple = 16;
constexpr double kUnusualUse = 0.97;
/// Axes of a sum that a product of matrices may have, too: steps, and groups of them. Windows of images have
/// more.
constexpr size_t kGroupedSum = 2;
/// Sizes of images and of sequences are multiples of 4 and of 2 more often than not.
constexpr double kBy4 = 1.06, kBy2 = 1.02;

// ---------------------------------------------------------------- cycles
/// Up to this stride a vector is loaded with its gaps and shuffled; beyond, it is gathered.
constexpr int64_t kNearStride = 4;
/// Loads that a gather takes as long as: for each lane, and for each line, which is often on a page of its
/// own.
constexpr double kGatherLane = 5, kGatherLine = 1;
/// Chains take turns at the ports, and one that comes late is late for good: no more of them than the latency
/// needs reach 108 Gflop/s in 256 bits where 12 of them reach 116 (Zen 4), and 109 where 12 reach 118
/// (Sapphire Rapids).
constexpr double kChainWait = 1.08;
constexpr double kLoadTie =
    0.02;  ///< cycles of each load, even if a port is free: among equals fewer loads win
/// Windows over planes of symbolic sizes: distances of rows are no constants, so that each step moves
/// pointers, and the place of a tile is found by division.
constexpr double kPointerCycles = 0.5, kPlaceCycles = 30;
/// Rows at symbolic distances there have a pointer each, which moves whenever the last axis of the sum begins
/// anew.
constexpr double kRowPointerCycles = 1;
/// Rows across those of an image have a pointer each, for which x86-64 has so many general registers, and
/// places that are found one from the other.
constexpr int64_t kPlanePointers = 12;
constexpr double kPlaneRowCycles = 3, kPlanePointerCycles = 0.5;
/// A fold of windows shares nothing among its rows: where they lie at symbolic distances, more pointers than
/// these, for each axis of the window, cost more than chains wait (16 channels of 31 × 33 to 56 × 56, Zen 5:
/// maxima and means of 2 × 2 and 3 × 3 take 0.6 to 0.85 of the time with 4 rows rather than 16, those of 5
/// elements with 8).
constexpr int64_t kFoldPointers = 8;
constexpr double kClamped = 1.01;  ///< rows that do not fit are clamped, each at an address of its own
/// Rows that lie far apart, for each row: the prefetcher follows few streams, and a page each.
constexpr int64_t kApart = 128, kFarApart = 2048;  ///< elements
constexpr double kApartRow = 0.01, kFarApartRow = 0.02;
constexpr int64_t kPage = 4096;  ///< addresses a multiple of it apart fall on the same set of the first cache
/// Of the lines of a set, for rows; and of a load whose set is full.
constexpr double kSetShare = 0.75, kCrowdedLoad = 3;
/// Assumed length of a symbolic axis of the sum, over which what happens once per sum is spread.
constexpr int64_t kAssumedSum = 256;

// ---------------------------------------------------------------- choice
constexpr double kEqual = 1.0001;         ///< times that differ less are equal
constexpr int64_t kBalanceFrom = 400000;  ///< multiply-adds; less runs on one core

/// Share of the results inside the nest when an iterator of `size` is cut into tiles of `tile`.
double use_of(int64_t size, int64_t tile) { return double(size) / double(ceil_div(size, tile) * tile); }

/// Windows, and sums over blocks of channels.
bool is_window(const Nest& n) { return n.reduce.size() > 1; }

/// Share of the lanes inside the nest; expected where the size is symbolic.
double lanes_use(const Nest& n, const Tile& t) {
  const int64_t size = n.extent[size_t(t.vector)];
  if (size != kUnknown) return use_of(size, t.width());
  const double risk = is_window(n) ? kWindowVectorRisk : n.is_row_block() ? kLongVectorRisk : kVectorRisk;
  const int64_t apart = n.write.stride[size_t(t.vector)];
  const double use = is_window(n) && apart != 1 && apart >= t.lanes ? kShortLanesUse : kLanesUse;
  return use / (1 + risk * double(t.vectors - 1));
}

/// Expected share of tiles of so many rows inside a symbolic size.
double symbolic_row_use(int64_t rows, double risk = kRowRisk) {
  return (kUsualMultiple % rows == 0 ? 1 : kUnusualUse) / (1 + risk * double(rows - 1));
}

/// Products side by side that read nothing together (the heads of an attention, the channels of a depthwise
/// convolution): rows of one serve better.
bool nothing_shared(const Nest& n, int iterator) {
  return std::all_of(n.loads.begin(), n.loads.end(),
                     [&](const Access& l) { return l.stride[size_t(iterator)] != 0; });
}

/// How much better rows serve that likely divide the size.
double likely_divides(int64_t rows) { return rows % 4 == 0 ? kBy4 : rows % 2 == 0 ? kBy2 : 1; }

}  // namespace

double row_use(const Nest& n, int iterator, int64_t rows) {
  if (!n.symbolic(iterator)) return use_of(n.extent[size_t(iterator)], rows);
  if (iterator == n.plane) return symbolic_row_use(rows, kPlaneRowRisk);
  const double use = symbolic_row_use(rows, is_window(n) ? kWindowRowRisk : kRowRisk);
  if (n.is_row_block() && n.most[size_t(iterator)] > 0) return use_of(n.most[size_t(iterator)], rows) * use;
  bool last = true, other = false;
  for (int i : n.spatial) {
    if (i == iterator || !n.symbolic(i)) continue;
    other = true;
    last = last && n.result_dim(i) < n.result_dim(iterator);
  }
  const bool outermost = n.result_dim(iterator) == 0;
  // Of a sum over channels and both axes of a window, the outermost is a batch of images where all else is
  // known, too; so it is where its rows share no operand. The rows of one matrix are none.
  const bool batch = n.reduce.size() > kGroupedSum || nothing_shared(n, iterator) ||
                     (other && n.spatial.size() > kMatrixAxes);
  if (n.is_batch(iterator) || (outermost && batch)) return 1.0 / double(rows);
  // Rows of a window that are no batch belong to images.
  const double whole = is_window(n) && !outermost ? likely_divides(rows) : 1;
  return whole * (last ? use : use / (1 + kShortAxisRisk * double(rows - 1)));
}

namespace {

/// Loads that each of `count` rows, `stride` bytes apart, takes as long as: more than one when they compete
/// for the same sets of the first cache.
double crowding(int64_t stride, int64_t count, const Target& target) {
  if (stride <= 0 || stride >= kIrregular) return 1;
  const int64_t ways = std::max<int64_t>(2, target->l1d_bytes / kPage);
  const int64_t sets = kPage / std::gcd(stride, kPage);
  return double(ceil_div(count, sets)) > kSetShare * double(ways) ? kCrowdedLoad : 1;
}

/// The lanes step through every operand regularly, and enough of them are inside.
bool lanes_fit(const Nest& n, const Tile& t) {
  const int64_t extent = n.extent[size_t(t.vector)];
  for (const Access& l : n.loads) {
    if (l.step(t.vector, l.group > 1 ? t.lanes : t.width()) == kIrregular) return false;
    if (l.lane_limit > 0 && l.stride[size_t(t.vector)] != 0 &&
        ceil_div(extent, t.width()) * t.width() > l.lane_limit)
      return false;
  }
  return lanes_use(n, t) >= kLeastUse;
}

/// Lanes and vectors along one iterator.
std::vector<Tile> vector_shapes(const Nest& n, const Target& target, int along) {
  std::vector<Tile> out;
  const int64_t widest = lanes_for(n, target);
  for (int v : n.spatial) {
    const int64_t extent = n.extent[size_t(v)];
    if ((along >= 0 && v != along) || n.write.stride[size_t(v)] == 0 || extent == 1) continue;
    for (int64_t lanes = widest; lanes >= std::max<int64_t>(2, std::min(kMinLanes, widest)); lanes /= 2) {
      if (extent != kUnknown && extent * 2 <= lanes && lanes > kMinLanes) continue;
      for (int64_t vectors = 1; vectors <= kMaxVectors; ++vectors) {
        const Tile t{.vector = v, .lanes = lanes, .vectors = vectors};
        if (lanes_fit(n, t)) out.push_back(t);
      }
    }
  }
  return out;
}

/// Rows along one iterator or two, beside lanes along `vector`; no rows first.
std::vector<Tile> row_shapes(const Nest& n, int vector) {
  // Sums lie as the result does: rows between two lanes would keep them out of registers.
  auto usable = [&](int i) {
    const int64_t stride = n.write.stride[size_t(i)];
    return i != vector && n.extent[size_t(i)] != 1 && stride != 0 && stride >= n.write.stride[size_t(vector)];
  };
  auto most = [&](int i, int64_t limit) {
    return n.symbolic(i) ? limit : std::min(limit, n.extent[size_t(i)]);
  };
  std::vector<Tile> out{Tile{.vector = vector}};
  for (int m : n.spatial) {
    if (!usable(m)) continue;
    const bool alone = nothing_shared(n, m);
    for (int64_t rows = 2; rows <= most(m, kMaxRows); ++rows) {
      out.push_back({.vector = vector, .rows = m, .row_count = rows});
      for (int c : n.spatial) {
        if (alone || c == m || !usable(c) || n.symbolic(c) || nothing_shared(n, c)) continue;
        // Of two known axes either comes first; a symbolic one always does.
        const bool swapped = n.symbolic(m) && rows <= kMaxRows2;
        for (int64_t rows2 = 2; rows2 <= most(c, swapped ? kMaxRows : kMaxRows2); ++rows2)
          out.push_back({.vector = vector, .rows = m, .rows2 = c, .row_count = rows, .row2_count = rows2});
      }
    }
  }
  return out;
}

/// Steps of the sum; kAssumedSum for a symbolic axis.
double steps_of(const Nest& n) {
  double steps = 1;
  for (int k : n.reduce)
    steps *= double(n.symbolic(k) ? kAssumedSum : std::max<int64_t>(1, n.extent[size_t(k)]));
  return steps;
}

/// Does the access read another element in each step of the sum? If not, it is loaded once, before the first.
bool moves_with_sum(const Nest& n, const Access& l) {
  return std::any_of(n.reduce.begin(), n.reduce.end(), [&](int k) { return l.stride[size_t(k)] != 0; });
}

/// Loads of a whole vector that `lanes` elements of `bytes`, `stride` elements apart, take as long as.
double vector_loads(int64_t stride, int64_t bytes, int64_t lanes, const Target& target) {
  if (stride <= 1) return 1;
  if (stride <= kNearStride) return 1 + double(stride);
  const int64_t span = std::min(stride * bytes, target->line_bytes) * (lanes - 1);
  return kGatherLane * double(lanes) + kGatherLine * double(1 + ceil_div(span, target->line_bytes));
}

/// Do the accumulators fit the registers, beside the vectors of the operand along the lanes (for each of the
/// second rows), one value that all lanes share, and `kept` vectors that stay while the sum runs?
bool fits_registers(const Nest& n, const Tile& t, double kept, const Target& target) {
  const int64_t extent = n.extent[size_t(t.vector)];
  const bool masked = extent == kUnknown || extent % t.width() != 0;
  const int64_t used = t.accumulators() + t.vectors * t.row2_count + 1;
  return double(used) + kept <= double(target->vector_registers - (masked ? kReserved : 0));
}

/// Do rows across those of an image, where they read apart from one another, have a pointer each?
bool pointers_fit(const Nest& n, const Tile& t) {
  if (n.plane < 0 || t.size(n.plane) == 1) return true;
  return std::ranges::all_of(n.loads, [&](const Access& l) {
    int64_t pointers = 1;
    for (int i : {t.rows, t.rows2})
      if (i >= 0 && l.stride[size_t(i)] != 0) pointers *= t.size(i);
    return l.stride[size_t(n.plane)] < kIrregular || pointers <= kPlanePointers;
  });
}

/// The same of the rows of a fold of windows.
bool fold_fits(const Nest& n, const Tile& t) {
  const auto axes = int64_t(n.reduce.size());
  return n.loads.size() != 1 || t.rows < 0 || n.loads[0].stride[size_t(t.rows)] < kIrregular ||
         t.row_count * axes <= kFoldPointers ||
         std::ranges::any_of(n.reduce, [&](int k) { return n.symbolic(k); });
}

/// Places along the rows, of those that a step of `axis` reads, that a later step reads again.
int64_t rows_read_again(const Access& l, int rows, int64_t count, int axis, int64_t steps) {
  const int64_t along = rows < 0 ? 0 : l.stride[size_t(rows)], on = l.stride[size_t(axis)];
  if (along == 0 || on == 0 || along >= kIrregular || on >= kIrregular) return 0;
  std::set<int64_t> later;
  int64_t most = 0;
  for (int64_t step = steps; step-- > 0;) {
    int64_t again = 0;
    for (int64_t row = 0; row < count; ++row) again += int64_t(later.count(along * row + on * step));
    for (int64_t row = 0; row < count; ++row) later.insert(along * row + on * step);
    most = std::max(most, again);
  }
  return most;
}

/// Rows of symbolic distance read neighbours in the steps of `axis`, each for all vectors: the address of a
/// row is found from that of the one before, and what its steps read is loaded there, before it is used.
bool rows_load_ahead(const Access& l, const Tile& t, int axis) {
  const int64_t on = l.stride[size_t(axis)];
  if (l.stride[size_t(t.vector)] != 0 || on == 0 || on >= kIrregular) return false;
  const auto apart = [&](int rows) { return rows >= 0 && l.stride[size_t(rows)] >= kIrregular; };
  return apart(t.rows) || apart(t.rows2);
}

/// Vectors of an operand that all rows of a tile read in one step.
double vectors_read(const Access& l, const Tile& t) {
  double vectors = l.stride[size_t(t.vector)] != 0 ? double(t.vectors) : 1;
  for (int rows : {t.rows, t.rows2})
    if (rows >= 0 && l.stride[size_t(rows)] != 0) vectors *= double(t.size(rows));
  return vectors;
}

/// Of the first cache, for an operand that stays there while rows of any number pass by it.
constexpr double kNearShare = 0.5;
bool stays_near(double bytes, const Target& target) {
  return bytes <= kNearShare * double(target->l1d_bytes);
}
/// Does the operand of a product's lanes stay in the first cache while rows of symbolic number pass by?
/// (Windows read images, which are what fills it.)
bool stays_near(const Nest& n, const Access& l, const Tile& t, const Target& target) {
  if (is_window(n) || t.rows < 0 || !n.symbolic(t.rows) || l.stride[size_t(t.rows)] != 0) return false;
  const int64_t elements = elements_of(l.buffer);
  return elements > 0 && stays_near(double(elements) * double(l.element_bits()) / 8, target);
}

/// What one step of the sum loads.
struct Step {
  double loads = 0;  ///< of whole vectors; a slow load counts as several
  double bytes = 0;  ///< that are read
};
Step step_of(const Nest& n, const Tile& t, const Target& target) {
  Step out;
  double kept = 0;  // vectors loaded before the first step
  for (const Access& l : n.loads) {
    const int64_t stride = l.step(t.vector, l.group > 1 ? t.lanes : t.width());
    const double each = vector_loads(stride, l.element_bits() / 8, t.lanes, target);
    double rows = 1, crowded = 1;
    if (t.rows >= 0) {
      const int64_t row = l.step(t.rows, t.row_count);
      if (row != 0) rows *= double(t.row_count);
      if (!n.reduce.empty() && l.stride[size_t(n.reduce.back())] == 1)
        crowded = crowding(row * l.element_bits() / 8, t.row_count, target);
    }
    if (t.rows2 >= 0 && l.step(t.rows2, t.row2_count) != 0) rows *= double(t.row2_count);
    const double vectors = double(stride ? t.vectors : 1) * rows;
    const bool moves = moves_with_sum(n, l);
    const double share = moves ? 1 : 1 / steps_of(n);
    if (!moves) kept += vectors;
    out.loads += each * vectors * crowded * share;
    if (!stays_near(n, l, t, target))
      out.bytes += double(stride ? t.width() : 1) * rows * double(l.element_bits() * l.group) / 8 * share;
  }
  if (!fits_registers(n, t, kept, target))
    out.loads += kept;  // they are spilled, and read again in each step
  return out;
}

/// Cycles of one step of a tile: the ports are busy with multiply-adds, with loads, or the chain of each
/// accumulator waits.
double core_cycles(double accumulators, double loads, const Target& target) {
  return std::max({accumulators / double(target->fma_ports), loads / double(target->load_ports),
                   double(target->fma_latency) * kChainWait});
}

/// The same of a tile. Where the lanes of a window's products are of symbolic number, every other tile is
/// taken for the end of a row, which is a body of half of its vectors.
double core_cycles(const Nest& n, const Tile& t, double loads, const Target& target) {
  const auto accumulators = double(t.accumulators());
  const double whole = core_cycles(accumulators, loads, target);
  if (!is_window(n) || n.loads.size() < 2 || !n.symbolic(t.vector) || t.vectors == 1) return whole;
  return (whole + 2 * core_cycles(accumulators / 2, loads / 2, target)) / 2;
}

/// Cycles of a step for `bytes` from the second cache that are not hidden behind arithmetic.
double read_cycles(double bytes, const Target& target) { return bytes * kNotHidden / target->l2_bandwidth; }

/// Of the second cache, for what a tile reads along its lanes and rows of any number read again.
constexpr double kPanelShare = 0.75;
/// Cycles of a step for a part of an operand that leaves the second cache before the next rows of symbolic
/// number read it again. (Known rows are taken up block by block then.)
double far_panel(const Nest& n, const Tile& t, const Target& target) {
  double cycles = 0;
  for (const Access& l : n.loads) {
    const auto again = [&](int i) { return l.stride[size_t(i)] == 0 && n.symbolic(i) && !n.is_batch(i); };
    if (l.stride[size_t(t.vector)] == 0 || std::ranges::none_of(n.spatial, again)) continue;
    double step = double(t.width() * l.element_bits() * l.group) / 8;
    for (const auto& [i, count] : {std::pair{t.rows, t.row_count}, {t.rows2, t.row2_count}})
      if (i >= 0 && l.stride[size_t(i)] != 0) step *= double(count);
    if (step * steps_of(n) > kPanelShare * double(target->l2_bytes))
      cycles += step * kNotHidden / target->memory_bandwidth;
  }
  return cycles;
}

/// Cycles of a step for rows that are far apart in memory.
double apart_rows(const Nest& n, const Tile& t) {
  double cycles = 0;
  for (const Access& l : n.loads) {
    const int64_t stride = t.rows < 0 ? 0 : l.stride[size_t(t.rows)];
    if (stride >= kApart) cycles += (stride >= kFarApart ? kFarApartRow : kApartRow) * double(t.row_count);
  }
  return cycles;
}

/// Cycles of a step in a window over a plane of symbolic sizes, beside its arithmetic. Channels that share
/// nothing have short sums over planes that end small: larger tiles waste more there than this is.
double symbolic_window(const Nest& n) {
  bool plane = false, alone = false;
  for (int i : n.spatial) {
    plane = plane || (n.symbolic(i) && n.result_dim(i) > 0);
    alone = alone || (n.extent[size_t(i)] != 1 && nothing_shared(n, i));
  }
  return is_window(n) && plane && !alone ? kPointerCycles + kPlaceCycles / steps_of(n) : 0;
}

/// Cycles of a step for pointers to rows that lie at symbolic distances, in a window.
double row_pointers(const Nest& n, const Tile& t) {
  if (!is_window(n)) return 0;
  const int64_t last = n.extent[size_t(n.reduce.back())];
  const double steps = double(last == kUnknown ? kAssumedSum : std::max<int64_t>(1, last));
  if (t.rows >= 0 && t.rows == n.plane)
    return double(t.row_count) * (kPlaneRowCycles / steps_of(n) + kPlanePointerCycles / steps);
  double rows = 0;
  for (const Access& l : n.loads)
    for (int i : {t.rows, t.rows2})
      if (i >= 0 && l.step(i, t.size(i)) >= kIrregular) rows += double(t.size(i));
  return rows * kRowPointerCycles / steps;
}

/// Does a tile at the end repeat the last row, so that each row has an address of its own? (In a window it
/// has one anyway.)
bool clamps_rows(const Nest& n, const Tile& t) {
  return t.rows >= 0 && t.rows2 < 0 && n.reduce.size() == 1 && !n.symbolic(t.rows) &&
         n.extent[size_t(t.rows)] % t.row_count != 0;
}

/// How much longer the busiest core works than all of them would if the tiles fell evenly; 1 for little work.
double imbalance(const Nest& n, const Tile& t, const Target& target) {
  const int64_t work = n.instances(false), cores = std::max<int64_t>(1, target->cores);
  if (work == kUnknown || work <= kBalanceFrom) return 1;
  int64_t tiles = 1;
  for (int i : n.spatial) tiles *= ceil_div(n.extent[size_t(i)], t.size(i));
  return double(ceil_div(tiles, cores) * cores) / double(tiles);
}

/// Elements of the result from one row of a tile to the next.
int64_t row_distance(const Nest& n, const Tile& t) { return t.rows < 0 ? 0 : n.write.stride[size_t(t.rows)]; }

}  // namespace

std::vector<Tile> tile_candidates(const Nest& nest, const Target& target, int along) {
  std::vector<Tile> out, rows;
  for (const Tile& vectors : vector_shapes(nest, target, along)) {
    if (rows.empty() || rows.front().vector != vectors.vector) rows = row_shapes(nest, vectors.vector);
    for (Tile t : rows) {
      t.lanes = vectors.lanes, t.vectors = vectors.vectors;
      if (fits_registers(nest, t, 0, target) && pointers_fit(nest, t) && fold_fits(nest, t)) out.push_back(t);
    }
  }
  return out;
}

double tile_time(const Nest& nest, const Tile& t, const Target& target) {
  const Step step = step_of(nest, t, target);
  // A store that is not contiguous is paid once for the whole reduction.
  const double store =
      nest.write.stride[size_t(t.vector)] == 1 ? 0 : double(t.lanes * t.accumulators()) / steps_of(nest);
  const double cycles = core_cycles(nest, t, step.loads, target) * (clamps_rows(nest, t) ? kClamped : 1) +
                        symbolic_window(nest) + row_pointers(nest, t) + kLoadTie * step.loads +
                        apart_rows(nest, t) + read_cycles(step.bytes, target) + far_panel(nest, t, target) +
                        store;
  const double use = lanes_use(nest, t) * (t.rows < 0 ? 1.0 : row_use(nest, t.rows, t.row_count)) *
                     (t.rows2 < 0 ? 1.0 : use_of(nest.extent[size_t(t.rows2)], t.row2_count));
  return cycles / (double(t.accumulators() * t.lanes) * use) * imbalance(nest, t, target);
}

bool fits_unrolled(const Nest& nest, const Tile& t, int axis, int64_t steps, const Target& target) {
  double kept = 0;
  for (const Access& l : nest.loads) {
    double again = 0;
    for (const auto& [rows, count] : {std::pair(t.rows, t.row_count), std::pair(t.rows2, t.row2_count)})
      if (const int64_t n = rows_read_again(l, rows, count, axis, steps))
        again = std::max(again, vectors_read(l, t) * double(n) / double(count));
    // What all lanes share is one of the elements that stay.
    if (again > 0)
      kept += l.stride[size_t(t.vector)] == 0 ? again - 1 : again;
    else if (rows_load_ahead(l, t, axis))
      kept += vectors_read(l, t) * double(steps);
  }
  return fits_registers(nest, t, kept, target);
}

double nest_cycles(const Nest& nest, const Tile& tile, const Target& target) {
  const int64_t steps = nest.instances(false);
  return steps == kUnknown ? 0 : tile_time(nest, tile, target) * double(steps);
}

Tile choose_tile(const Nest& nest, const Target& target, int along) {
  Tile best;
  for (Tile t : tile_candidates(nest, target, along)) {
    t.time = tile_time(nest, t, target);
    // Among equals the larger one reads less often, and rows that lie together are one stream.
    const bool larger = t.accumulators() > best.accumulators(),
               nearer = t.accumulators() == best.accumulators() && t.lanes == best.lanes &&
                        row_distance(nest, t) < row_distance(nest, best);
    if (t.time < best.time * kClearlyLess || (t.time < best.time * kEqual && (larger || nearer))) best = t;
  }
  return best;
}

int64_t panel_vectors(int64_t rows, int64_t columns, int64_t steps, int64_t lanes, int64_t bytes,
                      const Target& target) {
  constexpr int64_t kPanelRows = 14;      ///< more rows than registers beside two vectors
  constexpr double kBroadcastPart = 0.6;  ///< of a load: most broadcasts are part of a multiply-add
  const bool apart = target->has("avx2") && !target->has("avx512f");  // it takes no element from memory
  const double broadcast_load = apart ? 1 : kBroadcastPart;
  constexpr double kClearlyFaster = 1.001;
  int64_t best = 1;
  double most = 0;
  const bool near = rows == kUnknown && stays_near(double(columns * steps * bytes), target);
  for (int64_t vectors : {1, 2, 3, 4, 5, 6}) {
    if (vectors == 5 && rows != kUnknown) continue;  // known rows keep the widths that were measured
    for (int64_t m = 1; m <= (rows == kUnknown ? kPanelRows : std::min(kPanelRows, rows)); ++m) {
      const int64_t accumulators = m * vectors;
      if (accumulators + vectors + 1 > target->vector_registers - kReserved) continue;
      const double cycles =
          core_cycles(double(accumulators), double(vectors) + broadcast_load * double(m), target) +
          read_cycles(double(((near ? 0 : vectors * lanes) + m) * bytes), target);
      const double use =
          use_of(columns, vectors * lanes) * (rows == kUnknown ? symbolic_row_use(m) : use_of(rows, m));
      const double speed = double(accumulators) / cycles * use;
      if (speed > most * kClearlyFaster) most = speed, best = vectors;
    }
  }
  return best;
}

namespace {

/// A symbolic size where only the order of loops depends on it.
constexpr int64_t kLikelyExtent = 256;
/// Each dimension of a buffer whose size is not known.
constexpr int64_t kLikelyDimension = 1024;
/// Of the second cache, for what is read again from there rather than from memory.
constexpr double kCacheShare = 0.5;
/// Bytes that come from memory while one piece of a far row is written: 23 ns of a core of Sapphire Rapids
/// (1500×64 by 64×1500 floats, 14.6 ms against 8.1 for four).
constexpr double kFarPiece = 384;

/// Bytes of the operands that move with an iterator; unknown sizes count as large.
double footprint(const Nest& n, int iterator) {
  double total = 0;
  for (const Access& l : n.loads) {
    if (l.stride[size_t(iterator)] == 0) continue;
    double bytes = double(l.element_bits()) / 8;
    for (const PrimExpr& d : l.buffer->shape) bytes *= double(tir::as_int(d).value_or(kLikelyDimension));
    total += bytes;
  }
  return total;
}

int64_t likely(int64_t extent) { return extent == kUnknown ? kLikelyExtent : extent; }

/// The same of one iterator and the sum, which is what the loops of a tile walk.
double walked(const Nest& n, int iterator) {
  double total = 0;
  for (const Access& l : n.loads) {
    if (l.stride[size_t(iterator)] == 0) continue;
    double bytes = double(l.element_bits()) / 8 * double(likely(n.extent[size_t(iterator)]));
    for (int k : n.reduce)
      if (l.stride[size_t(k)] != 0) bytes *= double(likely(n.extent[size_t(k)]));
    total += bytes;
  }
  return total;
}

/// What it costs that the tiles of one column after the other write a result that leaves the second cache,
/// where rows lie pages apart: no prefetcher follows such pieces. As bytes from memory.
double far_rows(const Nest& n, const Tile& t, const Target& target) {
  const int64_t bytes = n.write.element_bits() / 8, row = n.write.stride[size_t(t.rows)] * bytes;
  const int64_t rows = likely(n.extent[size_t(t.rows)]), columns = likely(n.extent[size_t(t.vector)]);
  if (n.write.stride[size_t(t.vector)] != 1 || row < kPage || rows * columns * bytes < target->l2_bytes)
    return 0;
  return kFarPiece * double(rows * ceil_div(columns, t.width()));
}

}  // namespace

std::vector<int> innermost_rows(const Nest& nest, const Tile& tile) {
  const bool both = tile.rows2 >= 0 && !is_window(nest) &&
                    std::all_of(nest.loads.begin(), nest.loads.end(), [&](const Access& l) {
                      return l.stride[size_t(tile.vector)] == 0 || l.stride[size_t(tile.rows2)] == 0;
                    });
  if (!both) return {tile.rows};
  return {std::min(tile.rows, tile.rows2), std::max(tile.rows, tile.rows2)};
}

bool rows_innermost(const Nest& nest, const Tile& tile, const Target& target) {
  const bool window = is_window(nest);  // where rows share what they read
  const bool symbolic = nest.symbolic(tile.vector) || nest.symbolic(tile.rows);
  // Only what one product of a batch walks is read again.
  const auto bytes = window ? footprint : walked;
  const double across = bytes(nest, tile.vector), along = bytes(nest, tile.rows);
  if (symbolic && window) return across > along;
  auto again = [&](double bytes, int64_t times) {
    const bool cached = bytes < kCacheShare * double(target->l2_bytes);
    const double each = cached ? target->memory_bandwidth / target->l2_bandwidth : 1;
    return bytes * (1 + double(times - 1) * each);
  };
  auto tiles = [&](int i) { return ceil_div(likely(nest.extent[size_t(i)]), tile.size(i)); };
  int64_t rows = 1;
  for (int i : innermost_rows(nest, tile)) rows *= tiles(i);
  return again(along, tiles(tile.vector)) + across + far_rows(nest, tile, target) <
         again(across, rows) + along;
}

}  // namespace tenon::cost
