// SPDX-License-Identifier: Apache-2.0
// Blocks for the second cache, copies of operands, and when threads pay.
#include "analysis/cost/cache.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tenon::cost {
namespace {

// ---------------------------------------------------------------- threads
/// Operations (of Facts::cost) that one core does in a nanosecond, when vectors do them.
constexpr double kOperationsPerNs = 4;
/// The last tasks to end leave the other cores idle for at most a quarter of one core's share.
constexpr int64_t kTasksPerCore = 4;

/// Of the first cache, for a tensor between two stages beside what they read and write.
constexpr double kFirstCacheShare = 0.5;

// ---------------------------------------------------------------- blocks of a sum
/// Fewer rows of tiles do not read a panel often enough.
constexpr int64_t kLeastRowTiles = 4, kLeastSteps = 4;
/// A panel larger than this share of the second cache does not stay there beside what passes by, ...
constexpr double kPanelShare = 0.5;
/// ... or this one when more than `kMuchPasses` caches pass by.
constexpr double kPanelShareBesideMuch = 0.25, kMuchPasses = 4;
/// Of the cache, for one block; the operand of the rows and the sums pass by.
constexpr double kBlockShare = 0.125;
constexpr double kBlockTolerance = 2.1;  ///< a divisor so many times longer or shorter will do
constexpr double kGroupShare = 0.5;      ///< of the cache, for the blocks of tiles side by side
constexpr double kSumsShare = 0.25;      ///< of the cache, for the sums of a group of tiles
constexpr int64_t kLeastGroup = 8;       ///< row tiles

// ---------------------------------------------------------------- groups of rows
constexpr double kReadAgainShare = 0.5;  ///< of the second cache; a smaller operand is read again from there
constexpr double kThirdCacheShare = 0.25;  ///< what stays in a third cache that all cores fill
constexpr double kRowsOfGroup = 0.25;      ///< of the second cache, beside panels and results that pass by
constexpr int64_t kLeastGroups = 2;
constexpr double kGroupedTime = 0.95;  ///< what groups take at most: what hides reads differs by more

// ---------------------------------------------------------------- copies
constexpr int64_t kPanelReads = 64;         ///< of each element, for a copy in panels
constexpr double kPanelMatrixShare = 0.25;  ///< of the second cache; a smaller matrix stays there as it lies
constexpr int64_t kPanelRowBytes = 512;     ///< rows that lie closer are read well without panels
constexpr int64_t kNearLanes = 64;          ///< elements; lanes further apart meet a line each
constexpr double kNearReads = 16, kFarReads = 64;
/// Reads of each element that pay for moving it one by one; bytes are widened twice without their
/// instruction.
constexpr int64_t kFloatGroupReads = 96, kByteGroupReads = 32;
constexpr double kFilledReads = 16;  ///< of each element, for a copy whose rows are moved as vectors
/// The same of rows that become groups as vectors, or of groups that lie as such. Cycles for an element: a
/// tenth and a half, where float32 takes a sixteenth for each read and pairs of bf16 half of that.
constexpr int64_t kMovedGroupReads = 24;
constexpr int64_t kLeastMoved = 4;  ///< elements of a vector
constexpr int64_t kSymbolicDimension = 1 << 12;

/// Of a batch of any size, one member walks the weights once in any order. Planes of any size are small where
/// weights leave the second cache.
constexpr double kFewMembers = 2;

// ---------------------------------------------------------------- hints
/// Of the second cache; an operand that is smaller is there before its first rows are through.
constexpr double kStreamShare = 0.5;
constexpr int64_t kStreamRows = 2;  ///< tiles that read the same part
/// Of the second cache, for what is on its way beside what is read.
constexpr double kAheadShare = 0.5;
constexpr double kStreamedShare = 0.9;  ///< of the operand's elements, that the loops meet

// ---------------------------------------------------------------- columns
/// Vectors side by side: as many lines are fetched one after the other, and as many sums hide the latency of
/// one.
constexpr int64_t kMostColumnVectors = 8, kLeastColumnVectors = 2;
/// Of the second cache, for the elements of a panel that several passes read.
constexpr double kColumnShare = 0.25;
/// A panel has at least so many elements beside its results.
constexpr int64_t kLeastColumn = 4;
/// Rows of different pages that the hardware prefetches at the same time; more are read line by line.
constexpr int64_t kStreams = 32;
constexpr double kResultsShare = 0.5;  ///< of the first cache, for the results of a panel
/// Vectors of results that hide the latency of a step, and steps that these take while they are in registers.
constexpr int64_t kLeastChains = 4, kStepsAtOnce = 4;
constexpr int64_t kLongFold = 16;  ///< steps of rows side by side, which are put together behind them

// ---------------------------------------------------------------- padded rows
constexpr double kMostTwice = 2.2;      ///< rows padded for each row read, at most
constexpr double kRowsShare = 1.0 / 3;  ///< of the second cache, for a block of padded rows
constexpr double kWholeShare = 0.5, kWholeReads = 64;

int64_t divisor_below(int64_t n, int64_t limit) {
  for (int64_t d = std::min(n, std::max<int64_t>(1, limit)); d > 1; --d)
    if (n % d == 0) return d;
  return 1;
}

/// No index is made of two iterators (a window), so that a block of the sum reads a block of the operand;
/// the groups of a sum beside their lanes are none.
bool one_iterator_each(const Access& l, int grouped) {
  return std::all_of(l.index.begin(), l.index.end(), [&](const Index& index) {
    return std::count_if(index.iterators.begin(), index.iterators.end(),
                         [&](int i) { return i != grouped; }) <= 1;
  });
}

/// What one step of the sum reads, in bytes.
struct StepBytes {
  double along = 0, beside = 0;  ///< of the operand along the lanes, and of the other
};
StepBytes step_bytes(const Nest& n, const Tile& t, int axis) {
  StepBytes out;
  for (const Access& l : n.loads) {
    if (l.stride[size_t(axis)] == 0) continue;
    const double bytes = double(l.element_bits()) / 8;
    if (l.stride[size_t(t.vector)] != 0)
      out.along += bytes * double(t.width());
    else
      out.beside += bytes * double(l.stride[size_t(t.rows)] != 0 ? t.row_count : 1);
  }
  return out;
}

/// The divisor of `extent`, in whole groups, that comes nearest to `wanted`; 0: none comes near.
int64_t nearest_divisor(int64_t extent, int64_t group, double wanted) {
  int64_t best = 0;
  double least = std::log(kBlockTolerance);
  for (int64_t d = std::max<int64_t>(1, group); d * 2 <= extent; d += group) {
    const double off = std::abs(std::log(double(d) / wanted));
    if (extent % d == 0 && off < least) best = d, least = off;
  }
  return best;
}

/// Row tiles of one group, of `sums` bytes each: its sums stay in the cache as well, and the cores need
/// groups of their own.
int64_t row_tiles_of(int64_t rows, int64_t groups, double sums, const Target& target) {
  int64_t wanted = int64_t(kSumsShare * double(target->l2_bytes) / sums);
  if (const int64_t tasks = tasks_wanted(target); groups < tasks)
    wanted = std::min(wanted, rows * groups / tasks);
  // Groups that fit exactly keep the rows evenly apart; a ragged one would clamp each row by itself.
  wanted = std::max(kLeastGroup, wanted);
  const int64_t exact = divisor_below(rows, wanted);
  return exact * 2 < wanted ? ceil_div(rows, ceil_div(rows, wanted)) : exact;
}

/// Are the lanes or steps of a product of symbolic number?
bool symbolic_part(const Nest& n, const Tile& t) {
  return n.symbolic(t.vector) || std::ranges::any_of(n.reduce, [&](int k) { return n.symbolic(k); });
}
/// Are the lanes, rows or steps of one product of symbolic number? A batch of products may be.
bool symbolic_product(const Nest& n, const Tile& t) {
  auto symbolic = [&](int i) { return i >= 0 && n.symbolic(i); };
  return symbolic_part(n, t) || symbolic(t.rows) || symbolic(t.rows2);
}

/// Elements of a buffer along the dimensions of known size.
double known_elements(const tir::Buffer& b) {
  double elements = 1;
  for (const PrimExpr& d : b->shape) elements *= double(tir::as_int(d).value_or(1));
  return elements;
}

/// Elements of an operand that the iterators meet, each once.
double elements_met(const Nest& n, const Access& l) {
  double elements = 1;
  for (size_t i = 0; i < l.stride.size(); ++i)
    if (l.stride[i] != 0 && n.extent[i] != kUnknown) elements *= double(n.extent[i]);
  return elements;
}

}  // namespace

bool worth_parallel(double operations, const Target& target) {
  return operations > kOperationsPerNs * double(target->fork_ns);
}

int64_t tasks_wanted(const Target& target) { return kTasksPerCore * std::max<int64_t>(1, target->cores); }

std::optional<SumBlocks> sum_blocks(const Nest& nest, const Tile& tile, int grouped, int64_t group,
                                    const Target& target) {
  if (tile.rows < 0 || nest.write.stride[size_t(tile.vector)] != 1 || symbolic_product(nest, tile))
    return std::nullopt;
  SumBlocks out;
  int64_t steps = 1;
  for (int k : nest.reduce) {
    steps *= nest.extent[size_t(k)];
    if (grouped >= 0 ? k == grouped : out.axis < 0 || nest.extent[size_t(k)] > nest.extent[size_t(out.axis)])
      out.axis = k;
  }
  for (const Access& l : nest.loads)
    if (!one_iterator_each(l, grouped)) return std::nullopt;
  const StepBytes bytes = step_bytes(nest, tile, out.axis);
  const double cache = double(target->l2_bytes);
  const int64_t rows = ceil_div(nest.extent[size_t(tile.rows)], tile.row_count),
                vectors = ceil_div(nest.extent[size_t(tile.vector)], tile.width());
  if (bytes.along == 0 || bytes.beside == 0 || rows < kLeastRowTiles) return std::nullopt;
  // A panel that takes a quarter of the cache is cut too when all that passes by comes from memory each time.
  const double panel = bytes.along * double(steps), passing = bytes.beside * double(steps) * double(rows);
  if (panel < cache * (passing > kMuchPasses * cache ? kPanelShareBesideMuch : kPanelShare))
    return std::nullopt;
  const int64_t extent = nest.extent[size_t(out.axis)], others = steps / std::max<int64_t>(1, extent);
  out.length =
      nearest_divisor(extent, group, kBlockShare * cache / (bytes.along + bytes.beside) / double(others));
  if (out.length == 0 || out.length * others < kLeastSteps) return std::nullopt;
  out.vector_tiles =
      divisor_below(vectors, int64_t(kGroupShare * cache / (bytes.along * double(out.length * others))));
  int64_t groups = vectors / out.vector_tiles;
  for (int i : nest.spatial)
    if (i != tile.vector && i != tile.rows && !nest.symbolic(i))
      groups *= ceil_div(nest.extent[size_t(i)], tile.size(i));
  const double sums =
      double(nest.write.buffer->dtype.bytes() * out.vector_tiles * tile.width() * tile.row_count);
  out.row_tiles = row_tiles_of(rows, groups, sums, target);
  return out;
}

int64_t row_group(const Nest& nest, const Tile& tile, int grouped, double cycles, const Target& target) {
  if (tile.rows < 0 || tile.rows2 >= 0 || nest.loads.size() != 2 || symbolic_product(nest, tile)) return 0;
  // Of one of the products side by side: bytes of the operand along the lanes, and of the other one.
  double across = 0, beside = 0, products = 1;
  for (const Access& l : nest.loads) {
    const bool lanes = l.stride[size_t(tile.vector)] != 0, rows = l.stride[size_t(tile.rows)] != 0;
    if (lanes == rows || !one_iterator_each(l, grouped)) return 0;
    double bytes =
        double(l.element_bits()) / 8 * double(nest.extent[size_t(lanes ? tile.vector : tile.rows)]);
    for (int k : nest.reduce)
      if (l.stride[size_t(k)] != 0) bytes *= double(nest.extent[size_t(k)]);
    (lanes ? across : beside) += bytes;
  }
  for (int i : nest.spatial)
    if (i != tile.vector && i != tile.rows && !nest.symbolic(i)) products *= double(nest.extent[size_t(i)]);
  const int64_t rows = ceil_div(nest.extent[size_t(tile.rows)], tile.row_count),
                panels = ceil_div(nest.extent[size_t(tile.vector)], tile.width());
  const double cache = double(target->l2_bytes);
  const int64_t most = int64_t(kRowsOfGroup * cache / (beside / double(rows)));
  const int64_t group = divisor_below(rows, most);
  if (across == 0 || beside == 0 || group * 2 < most || rows / group < kLeastGroups) return 0;
  // Reads of an operand that passes by `times` times, in cycles.
  auto reads = [&](double bytes, int64_t times) {
    const bool stays = bytes <= kReadAgainShare * cache;
    const double again = stays ? target->l2_bandwidth : target->l3_bandwidth;
    return kNotHidden * (bytes / target->l3_bandwidth + bytes * double(times - 1) / again);
  };
  const double tiles = cycles / products,
               plain = rows_innermost(nest, tile, target) ? reads(beside, panels) + reads(across, 1)
                                                          : reads(across, rows) + reads(beside, 1),
               in_groups = reads(beside / double(rows / group), panels) * double(rows / group) +
                           reads(across, rows / group);
  return tiles + in_groups < (tiles + plain) * kGroupedTime ? group : 0;
}

int block_iterator(const Nest& nest, const Access& operand, int lanes) {
  const int64_t size = elements_of(operand.buffer);
  int block = -1;
  for (int i : nest.spatial) {
    const int64_t step = operand.stride[size_t(i)];
    if (i == lanes || step == 0 || nest.extent[size_t(i)] == 1) continue;
    if (block >= 0 || nest.symbolic(i) || step * nest.extent[size_t(i)] != size) return -1;
    block = i;
  }
  return block;
}

namespace {

/// The operand in blocks of lanes, the iterator of the blocks, and bytes of that operand and of the others.
struct BlockedOperand {
  int block = -1;
  double bytes = 0, others = 0;
};
BlockedOperand blocked_operand(const Nest& nest, const Tile& tile) {
  const Access* weights = nullptr;
  BlockedOperand out;
  for (const Access& l : nest.loads) {
    const double size = known_elements(l.buffer) * double(l.element_bits()) / 8;
    if (l.stride[size_t(tile.vector)] == 0) {
      out.others += size;
      continue;
    }
    if (weights) return {};
    weights = &l, out.bytes = size;
  }
  if (weights && out.others > 0) out.block = block_iterator(nest, *weights, tile.vector);
  return out;
}

}  // namespace

int blocks_outermost(const Nest& nest, const Tile& tile, const Target& target) {
  auto [block, bytes, others] = blocked_operand(nest, tile);
  if (block < 0) return -1;
  double members = 1;
  for (int i : nest.spatial) {
    if (i >= block) continue;
    if (nest.symbolic(i) && nest.result_dim(i) != 0) return -1;
    if (nest.symbolic(i)) others *= kFewMembers;
    members *= nest.symbolic(i) ? kFewMembers : double(nest.extent[size_t(i)]);
  }
  auto times = [&](double size, double n) {
    return size > kStreamShare * double(target->l2_bytes) ? size * n : size;
  };
  const double by_members = times(bytes, members) + others,
               by_blocks = bytes + times(others, double(nest.extent[size_t(block)]));
  return by_blocks < by_members ? block : -1;
}

int blocks_behind_rows(const Nest& nest, const Tile& tile, double cycles, const Target& target) {
  const auto [block, bytes, others] = blocked_operand(nest, tile);
  if (block < 0 || symbolic_product(nest, tile)) return -1;
  double rows = 1;
  for (int i : nest.spatial)
    if (i > block && i != tile.rows && i != tile.vector) {
      if (nest.symbolic(i)) return -1;
      rows *= double(nest.extent[size_t(i)]);
    }
  const double cache = double(target->l2_bytes),
               passes = double(ceil_div(nest.extent[size_t(block)], tile.size(block)));
  if (rows < 2 || others / rows > kRowsOfGroup * cache) return -1;
  auto reads = [&](double size, double times) {
    const double again = size <= kReadAgainShare * cache                       ? target->l2_bandwidth
                         : size <= kThirdCacheShare * double(target->l3_bytes) ? target->l3_bandwidth
                                                                               : target->memory_bandwidth;
    return kNotHidden * (size / target->l3_bandwidth + size * (times - 1) / again);
  };
  const double plain = reads(others, passes) + reads(bytes, 1),
               behind = reads(others, 1) + reads(bytes, rows);
  return cycles + behind < (cycles + plain) * kGroupedTime ? block : -1;
}

bool parts_outermost(const Nest& nest, const Tile& tile, const Target& target) {
  double bytes = 0;
  for (const Access& l : nest.loads)
    if (l.stride[size_t(tile.vector)] != 0)
      bytes += double(elements_of(l.buffer)) * double(l.element_bits()) / 8;
  return bytes > kStreamShare * double(target->l2_bytes);
}

int64_t stream_ahead(const Nest& nest, const Access& operand, const Tile& tile, int64_t rows,
                     const Target& target) {
  const size_t v = size_t(tile.vector);
  const auto size = double(elements_of(operand.buffer));
  const double bytes = double(operand.element_bits()) / 8;
  const bool few =
      rows == kUnknown ? symbolic_part(nest, tile) : rows < kStreamRows || symbolic_product(nest, tile);
  if (few || operand.stride[v] == 0 || size * bytes < kStreamShare * double(target->l2_bytes) ||
      elements_met(nest, operand) < kStreamedShare * size)
    return 0;
  auto in_time = [&](int64_t ahead) {
    return double(ahead) * bytes < kAheadShare * double(target->l2_bytes) ? ahead : 0;
  };
  if (const int block = block_iterator(nest, operand, tile.vector); block >= 0)
    return in_time(operand.stride[size_t(block)] * tile.size(block));
  // A tile that begins inside a panel reads to the end of the next one.
  const int64_t panel = operand.panel.empty() ? 0 : operand.panel[v];
  if (panel == 0 && nest.extent[v] > tile.width()) return 0;  // a tile's part lies in pieces
  int64_t ahead = panel > 0 ? ceil_div(tile.width(), panel) * panel : tile.width();
  for (int k : nest.reduce)
    if (operand.stride[size_t(k)] != 0) ahead *= nest.extent[size_t(k)];
  return in_time(ahead);
}

bool leaves_first_cache(int64_t bytes, const Target& target) {
  return double(bytes) > kFirstCacheShare * double(target->l1d_bytes);
}

bool worth_panels(const Nest& nest, const Access& operand, const Tile& tile, const Target& target) {
  const size_t v = size_t(tile.vector);
  if (operand.stride[v] != 1 || tile.rows < 0 || operand.stride[size_t(tile.rows)] != 0 ||
      !operand.all_plain())
    return false;
  const int64_t all = nest.instances_of_one();
  if (all == kUnknown) return false;
  double matrix = double(operand.buffer->dtype.bytes());  // of one panel's rows, without batches
  for (size_t i = 0; i < operand.stride.size(); ++i)
    if (operand.stride[i] != 0 &&
        (i == v || std::find(nest.reduce.begin(), nest.reduce.end(), int(i)) != nest.reduce.end()))
      matrix *= double(nest.extent[i]);
  const int64_t row = operand.stride[size_t(nest.reduce.back())] * operand.buffer->dtype.bytes();
  return double(all) >= double(kPanelReads) * elements_met(nest, operand) &&
         matrix > kPanelMatrixShare * double(target->l2_bytes) && row >= kPanelRowBytes;
}

bool worth_copy(const Nest& nest, const Access& operand, const Tile& tile) {
  const int64_t stride = operand.stride[size_t(tile.vector)];
  if (stride < 2 || stride >= kIrregular) return false;
  const bool far = stride > kNearLanes;
  // Symbolic sizes that the operand has, too, cancel out; of others one step is certain.
  if (nest.known_instances() < (far ? kFarReads : kNearReads) * elements_met(nest, operand)) return false;
  // Lanes that lie far apart are worth a copy where the lanes of all operands are neighbours then.
  return !far || std::all_of(nest.loads.begin(), nest.loads.end(), [&](const Access& o) {
    const int64_t step = o.step(tile.vector, tile.lanes);
    return &o == &operand || (step >= 0 && step <= 1);
  });
}

bool pays_for_groups(int64_t reads) { return reads >= kMovedGroupReads; }

bool worth_filling(const Nest& nest, const Access& operand, const Grouped& as) {
  if (operand.stride[size_t(as.sum)] != 1) return worth_groups(nest, operand, as);
  const int64_t instances = nest.instances_of_one();
  return instances != kUnknown && double(instances) >= kFilledReads * elements_met(nest, operand);
}

bool worth_groups(const Nest& nest, const Access& operand, const Grouped& as) {
  const int64_t all = nest.instances_of_one();
  if (all == kUnknown) return true;
  // Iterators of a window meet the same elements.
  int64_t met = 1, held = 1;
  for (const PrimExpr& d : operand.buffer->shape)
    held *= std::max<int64_t>(1, tir::as_int(d).value_or(kSymbolicDimension));
  for (size_t i = 0; i < operand.stride.size(); ++i)
    if (operand.stride[i] != 0 && nest.extent[i] != kUnknown) met *= nest.extent[i];
  int64_t reads = nest.write.buffer->dtype.is_float() ? kFloatGroupReads : kByteGroupReads;
  if (as.lanes >= 0) {
    const bool rows = operand.stride[size_t(as.lanes)] == 1 && nest.extent[size_t(as.lanes)] >= kLeastMoved,
               groups = operand.stride[size_t(as.sum)] == 1 && nest.extent[size_t(as.sum)] % as.group == 0;
    if (rows || groups) reads = std::min(reads, kMovedGroupReads);
  }
  return all >= reads * std::min(met, held);
}

int64_t column_vectors(const ColumnFold& f, const Target& target) {
  const bool known = f.rows != kUnknown && f.steps != kUnknown;
  // One pass of an unknown number has a tile, which does as well.
  if ((!known && f.passes < 2) || (f.steps != kUnknown && f.steps < kLeastColumn)) return 0;
  int64_t most = std::min(f.steps == kUnknown ? kLeastChains : kMostColumnVectors, f.vectors);
  if (f.passes > 1 && f.steps != kUnknown) {
    const double panel = double(f.steps) * f.bytes;
    most = std::min(most, int64_t(kColumnShare * double(target->l2_bytes) / panel));
  }
  // Every core has a panel of its own.
  while (f.rows != kUnknown && most >= kLeastColumnVectors &&
         f.rows * ceil_div(f.vectors, most) < target->cores)
    --most;
  for (int64_t v = most; v >= kLeastColumnVectors; --v)
    if (f.vectors % v == 0) return v;
  return 0;
}

bool one_stream(const ColumnFold& f, const Target& target) {
  return f.passes == 1 && f.steps > kStreams &&
         double(f.rows * f.steps * f.vectors) * f.bytes > double(target->l2_bytes);
}

int64_t rows_side_by_side(const ColumnFold& f, int64_t width, int64_t lanes) {
  const int64_t whole = lanes / std::gcd(width, lanes);  // rows that fill vectors
  const int64_t vectors = whole * width / lanes;
  const bool few = f.rows * f.vectors < kLeastChains;
  if ((whole == 1 && !few) || vectors > kMostColumnVectors) return 1;
  // Lanes of several rows would be digits of several axes, which are no neighbours that vectors know.
  if (whole > 1 && f.inner != f.steps) return 1;
  // Rows side by side are of one run of the innermost axis; one axis alone may be filled up at its end.
  const int64_t most = whole * (kMostColumnVectors / vectors);
  int64_t rows = f.inner == f.steps ? most : 1;
  for (int64_t fewer = most; fewer > 0; fewer -= whole)
    if (f.inner % fewer == 0) {
      rows = fewer;
      break;
    }
  return f.steps >= rows * kLongFold ? rows : 1;
}

FoldTile fold_tile(const ColumnFold& f, const Target& target) {
  FoldTile out;
  out.panel = divisor_below(f.vectors, int64_t(kResultsShare * double(target->l1d_bytes) / f.bytes));
  out.vectors = out.panel;
  if (out.panel <= kMostColumnVectors) return out;
  out.vectors = divisor_below(out.panel, kLeastChains);
  out.steps = divisor_below(f.steps, kStepsAtOnce);
  return out;
}

int64_t pieces_of_fold(const ColumnFold& f, double cost, const Target& target) {
  const FoldTile tile = fold_tile(f, target);
  const int64_t results = f.rows * (f.vectors / tile.panel);
  if (results >= target->cores || !worth_parallel(double(results * tile.panel * f.steps) * cost, target))
    return 1;
  const int64_t most = ceil_div(tasks_wanted(target), results);
  for (const int64_t evenly : {int64_t(target->cores), int64_t(1)})
    for (int64_t pieces = most; pieces >= target->cores; --pieces)
      if (pieces % evenly == 0 && f.steps % pieces == 0) return pieces;
  return 1;
}

int64_t rows_of_block(const PaddedRows& r, const Target& target) {
  int64_t best = 0;
  double least = kMostTwice;
  for (int64_t rows = 1; rows <= r.steps; ++rows) {
    if (r.steps % rows || r.steps / rows * r.others < tasks_wanted(target)) continue;
    const double held = double((rows - 1) * r.stride + r.window);
    if (held * r.row_bytes > kRowsShare * double(target->l2_bytes)) continue;
    const double twice = std::max(1.0, held / double(rows * r.stride));
    if (twice < least * kClearlyLess) best = rows, least = twice;
  }
  return best;
}

bool worth_whole_copy(double bytes, double reads, const Target& target) {
  return reads > kWholeReads && bytes < kWholeShare * double(target->l2_bytes);
}

}  // namespace tenon::cost
