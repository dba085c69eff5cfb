// SPDX-License-Identifier: Apache-2.0
// Rules for blocks without a reduction: fused loops over contiguous memory, vectors, tiles for
// transpositions; and what is left for blocks that no other rule takes.
#include <algorithm>
#include <functional>
#include <numeric>

#include "analysis/condition.h"
#include "autoschedule/rules.h"
#include "ir/find_node.h"
#include "ir/intrinsic.h"

namespace tenon::rules {

using namespace tir;

namespace {

constexpr int64_t kLeastRow = 2;        ///< vectors, from which on an edge costs less than narrow ones
constexpr int64_t kTransposeTile = 16;  ///< both sides of a tile: a line of floats of 32 bits
/// Fewer rows are a tile of their own where they are turned in whole groups of so many bits
/// (codegen/transposed_loop.h). Lanes so near one another are loaded as well by shuffles: 12 × 196 × 4 floats
/// take 0.9 µs so and 1.1 µs turned, 12 × 196 × 8 2.6 µs and 0.9 µs (Zen 5).
constexpr int64_t kTurnedBits = 128, kNearLanes = 4;
constexpr int64_t kChunk = 64, kLeastChunk = 8;  ///< vectors of one task
/// Rows of one task whose places are so many digits of symbolic sizes: the first divides, counters go on from
/// there (pass/tensor/carry_digits.cpp). One digit takes no longer than the counter (16 × 50 rows of 64
/// floats: 2.0 µs by division, 2.5 µs counted; 4 × 10 × 18 rows of 22, two digits: 10 and 4 µs; Zen 5).
constexpr size_t kManyDigits = 2;
constexpr int64_t kRowsOfTask = 8;
constexpr int64_t kLeastChunked = 16;  ///< vectors; less is not cut into tasks
/// Bytes of a tile's rows, which are read at once where elements are small (codegen/transposed_loop.h).
constexpr int64_t kTransposeBytes = 32;
/// A row of so few vectors or elements is not a task by itself.
constexpr int64_t kShortVectors = 4, kShortRow = 64;

/// Where the loops from which on all may run as one over memory begin: every access steps through them as
/// through one array, or not at all.
size_t contiguous_from(const Facts& f) {
  size_t at = f.extent.size() - 1;
  auto joined = [&](const Access& a, size_t i) {
    if (f.extent[i] == 1 && a.stride[i] != kIrregular && a.stride[i + 1] != kIrregular) return true;
    return walks_as_one(f, a, i);
  };
  for (; at > 0; --at) {
    const size_t i = at - 1;
    if (f.in_value[i] || f.in_value[at] || !joined(f.write, i)) break;
    if (!std::all_of(f.loads.begin(), f.loads.end(), [&](const Access& l) { return joined(l, i); })) break;
  }
  // A digit of one step, in front of one of symbolic size, is not always found to be none.
  while (at + 1 < f.extent.size() && f.extent[at] == 1) ++at;
  return at;
}

bool unit_or_still(const Facts& f, size_t axis) {
  return f.write.stride[axis] == 1 && std::all_of(f.loads.begin(), f.loads.end(), [&](const Access& l) {
           return l.stride[axis] == 0 || l.stride[axis] == 1;
         });
}

/// Neighbours of the last axis, of symbolic size, are one vector of each load or lie in a few of them, which
/// are shuffled (codegen/llvm/emit_load.cpp): every second pixel of a row, or a row turned round.
bool lies_in_few_vectors(const Facts& f) {
  constexpr int64_t kNearStride = 4, kShuffledBits = 32;
  return f.write.stride.back() == 1 && std::ranges::all_of(f.loads, [](const Access& l) {
           const int64_t stride = l.stride.back();
           return stride == 0 || stride == 1 ||
                  (l.element_bits() >= kShuffledBits && stride >= -1 && stride <= kNearStride);
         });
}

/// Conditions of the value are the same for all elements of a panel of `width` along an axis.
bool still_in_panels(const Facts& f, size_t axis, int64_t width) {
  if (!f.in_value[axis]) return true;
  const auto* store = f.block->body.as<BufferStore>();
  if (!store || f.block->iter_vars.size() != f.extent.size()) return false;
  const VarRef panel = var("panel"), column = var("column");
  Analyzer a;
  for (const IterVar& v : f.block->iter_vars) a.bind(v->var, v->dom);
  a.bind(panel, range(PrimExpr(0), PrimExpr(f.extent[axis] / width)));
  a.bind(column, range(PrimExpr(0), PrimExpr(width)));
  const VarMap split{{f.block->iter_vars[axis]->var.get(), panel * PrimExpr(width) + column}};
  bool still = true;
  pre_order(a.simplify(substitute(store->value, split)), [&](const ObjectRef& n) {
    still = still && n.get() != column.get();
    return still && !n.is<BufferLoad>();
  });
  return still;
}

/// Elements along an axis of which every access steps through as many as through one array (heads of an
/// attention side by side, halves of a block from two tensors); 0: none do.
int64_t panel_along(const Facts& f, size_t axis) {
  int64_t out = 0;
  auto takes = [&](const Access& a) {
    if (a.stride[axis] == 0 || a.stride[axis] == 1) return true;
    if (a.panel.empty() || a.panel[axis] == 0 || a.panel_stride[axis] < 0 || a.panel_stride[axis] > 1)
      return false;
    out = std::gcd(out, a.panel[axis]);
    return true;
  };
  if (f.extent[axis] == kUnknown || f.write.stride[axis] != 1) return 0;
  if (!std::all_of(f.loads.begin(), f.loads.end(), takes)) return 0;
  if (out <= 0 || f.extent[axis] % out != 0) return 0;
  // Halves of a panel may have a condition each (sines, then cosines).
  while (out > kMinLanes && out % 2 == 0 && !still_in_panels(f, axis, out)) out /= 2;
  return still_in_panels(f, axis, out) ? out : 0;
}

/// One condition alone says where elements along the last axis, of symbolic size, come from (rows that are
/// joined): what lies on each side of it is cut into vectors of its own, which ask nothing (vectorize_runs).
/// 100 rows of 50 and 33 floats, joined: 0.8 of the time; 20 rows of 500 and 330: 0.4 (Zen 5).
bool is_cut_by_condition(const Facts& f) {
  constexpr int64_t kLeastBits = 32;
  const auto* store = f.block->body.as<BufferStore>();
  const auto wide = [](const Access& a) { return a.element_bits() >= kLeastBits; };
  if (!store || f.extent.size() < 2 || f.extent.back() != kUnknown || !f.in_value.back() || !wide(f.write) ||
      !std::ranges::all_of(f.loads, wide))
    return false;
  const Var* last = f.block->iter_vars.back()->var.get();
  int choices = 0;
  bool ordered = true;
  pre_order(store->value, [&](const ObjectRef& n) {
    const auto* c = n.as<Call>();
    if (c && chooses(*c) && uses_var(c->args[0], last)) {
      ++choices;
      for (const PrimExpr& part : conjuncts(c->args[0]))
        ordered = ordered && (part.is<LT>() || part.is<LE>());
    }
    return !n.is<BufferLoad>();
  });
  return choices == 1 && ordered;
}

bool worth_parallel(const Facts& f, const Target& target) {
  const int64_t total = f.instances(true);
  return total == kUnknown || cost::worth_parallel(double(total) * f.cost, target);
}

/// Panels that are no whole number of vectors (copies of rows of 100 side by side) are rows, each with an
/// edge.
void panels_as_rows(Draft& draft, const Facts& f, int64_t panel, int64_t lanes) {
  Schedule& s = draft.schedule;
  std::vector<LoopRV> rows = s.get_loops(f.id);
  const std::vector<LoopRV> split = s.split(rows.back(), {-1, panel});
  rows.back() = split[0];
  const LoopRV all = s.fuse(rows);
  if (worth_parallel(f, draft.target)) draft.parallel(all);
  s.vectorize(s.split(split[1], {-1, pick_lanes(panel, lanes)})[1]);
}

int64_t product(const Facts& f, size_t from, size_t to) {
  int64_t n = 1;
  for (size_t i = from; i < to; ++i)
    n = n == kUnknown || f.extent[i] == kUnknown ? kUnknown : n * f.extent[i];
  return n;
}

/// The first of the axes from `least` to `last` that all accesses walk as one, where those behind it satisfy
/// `wanted`.
size_t run_from(const Facts& f, size_t least, size_t last, const std::function<bool(int64_t)>& wanted) {
  size_t from = last;
  auto joined = [&](size_t i) {
    auto walks = [&](const Access& a) { return walks_as_one(f, a, i); };
    return wanted(f.extent[i + 1]) && !f.in_value[i] && !f.in_value[i + 1] && walks(f.write) &&
           std::all_of(f.loads.begin(), f.loads.end(), walks);
  };
  while (from > least && joined(from - 1)) --from;
  return from;
}
size_t symbolic_run_from(const Facts& f, size_t least, size_t last) {
  return run_from(f, least, last, [](int64_t extent) { return extent == kUnknown; });
}
/// Axes that no tiles fill by themselves: of symbolic size, or (images of 7×7 or 56×56) of no whole number of
/// them.
size_t ragged_run_from(const Facts& f, size_t least, size_t last) {
  return run_from(f, least, last,
                  [](int64_t extent) { return extent == kUnknown || extent % kTransposeTile; });
}
/// The lanes of a tile run across the rows of an image where that makes whole tiles: those that hang over
/// would be loaded one by one.
size_t columns_from(const Facts& f, size_t least, size_t last) {
  const size_t from = ragged_run_from(f, least, last);
  const int64_t width = product(f, from, last + 1);
  return width == kUnknown || width % kTransposeTile == 0 ? from : symbolic_run_from(f, least, last);
}

/// Whole tiles of the load's elements along the axis are neighbours in blocks (channels of an image in
/// blocks).
bool contiguous_in_blocks(const Facts& f, const Access& l, size_t axis) {
  return !l.panel.empty() && l.panel_stride[axis] == 1 && l.panel[axis] > 0 &&
         l.panel[axis] % kTransposeTile == 0 && f.extent[axis] != kUnknown &&
         f.extent[axis] % kTransposeTile == 0;
}

/// The iterator along which a load is contiguous where the store is along the last one; -1: none.
int transposed(const Facts& f) {
  const size_t last = f.extent.size() - 1;
  int out = -1;
  const auto fills_tile = [&](size_t from, size_t i, int64_t bits) {
    const int64_t size = product(f, from, i + 1);
    return size == kUnknown || size >= kTransposeTile ||
           (size > kNearLanes && size * bits % kTurnedBits == 0);
  };
  if (f.write.stride[last] != 1 || !fills_tile(columns_from(f, 0, last), last, 1)) return out;
  for (const Access& l : f.loads)
    for (size_t i = 0; i < last; ++i)
      if (l.stride[last] > 1 &&
          (contiguous_in_blocks(f, l, i) ||
           (l.stride[i] == 1 && fills_tile(ragged_run_from(f, 0, i), i, l.element_bits()))))
        out = int(i);
  return out;
}

/// Rows of a tile whose elements are the smallest that the nest reads across: more of them where they are
/// small, unless that makes an edge.
int64_t transposed_rows(const Facts& f, size_t other, int64_t rows) {
  if (rows != kUnknown && rows < kTransposeTile) return rows;
  int64_t bits = f.write.element_bits(), block = 0;
  for (const Access& l : f.loads) {
    const bool blocks = contiguous_in_blocks(f, l, other);
    if (blocks) block = std::gcd(block, l.panel[other]);
    if (blocks || l.stride[other] == 1) bits = std::min(bits, l.element_bits());
  }
  const int64_t wide = kTransposeBytes * 8 / std::max<int64_t>(bits, 8);
  if (block % wide != 0) return kTransposeTile;
  const bool fills = rows == kUnknown || (rows >= wide && (rows % wide == 0 || rows % kTransposeTile != 0));
  return fills ? std::max(wide, kTransposeTile) : kTransposeTile;
}

/// A transposition in tiles that fit the first cache. Rows, and columns, that fill no tiles are one run.
void tile_transposition(Draft& draft, const Facts& f, size_t other) {
  Schedule& s = draft.schedule;
  const size_t last = f.extent.size() - 1, first_column = columns_from(f, other + 1, last),
               rows_from = ragged_run_from(f, 0, other);
  if (first_column < last) s.fuse_iterators(f.id, int(first_column), int(last - first_column + 1));
  const int64_t tile = transposed_rows(f, other, product(f, rows_from, other + 1));
  if (rows_from < other) s.fuse_iterators(f.id, int(rows_from), int(other - rows_from + 1));
  other = rows_from;
  const std::vector<LoopRV> loops = s.get_loops(f.id);
  const std::vector<LoopRV> rows = s.split(loops[other], {-1, tile});
  const std::vector<LoopRV> columns = s.split(loops.back(), {-1, kTransposeTile});
  std::vector<LoopRV> outer(loops.begin(), loops.end() - 1);
  outer[other] = rows[0];
  outer.push_back(columns[0]);
  std::vector<LoopRV> order = outer;
  order.insert(order.end(), {rows[1], columns[1]});
  s.reorder(order);
  s.vectorize(columns[1]);
  const LoopRV all = s.fuse(outer);
  if (worth_parallel(f, draft.target)) draft.parallel(all);
}

/// The product of those of the first `count` extents that are known.
int64_t known_product(const Facts& f, size_t count) {
  int64_t n = 1;
  for (size_t i = 0; i < count; ++i) n *= f.extent[i] == kUnknown ? 1 : f.extent[i];
  return n;
}

/// Digits of symbolic sizes that are needed where the first `count` iterators run as one.
size_t symbolic_digits(const Facts& f, size_t count) {
  return count < 2
             ? 0
             : size_t(std::count(f.extent.begin() + 1, f.extent.begin() + std::ptrdiff_t(count), kUnknown));
}

/// Vectors of one task, where a long inner loop of `size` elements runs `outer` times.
int64_t chunk_of(int64_t size, int64_t outer, int64_t lanes, const Target& target) {
  int64_t share = kChunk;
  if (size == kUnknown) return share;
  while (outer > 0 && share > kLeastChunk && size / (share * lanes) * outer < cost::tasks_wanted(target))
    share /= 2;
  while (size % lanes == 0 && share > kLeastChunk && (size / lanes) % share) --share;
  return share;
}

/// A short axis that, with the last one, is in a condition (blocks of two channels, of which the last is
/// filled up): as the loop just around the last one both are straight code; -1: there is none.
int short_condition(const Facts& f) {
  constexpr size_t kAxes = 3;  // of the image, the short one and the last one
  const size_t n = f.extent.size();
  auto is_short = [&](size_t i) {
    return f.extent[i] != kUnknown && f.extent[i] > 1 && f.extent[i] < kMinLanes && f.in_value[i];
  };
  if (n < kAxes || !is_short(n - 1) || std::ranges::find(f.extent, kUnknown) != f.extent.end()) return -1;
  for (size_t i = n - 1; i-- > 0;)
    if (is_short(i)) return int(i);
  return -1;
}

/// Where elements are read is read itself: a row takes longer than its digits, and LLVM makes vectors of it
/// where no counters stand around it.
bool gathers(const Facts& f) {
  return std::ranges::any_of(f.loads, [](const Access& l) {
    return std::any_of(l.indices.begin(), l.indices.end(),
                       [](const PrimExpr& e) { return has_node<BufferLoad>(e); });
  });
}

/// The loops around the axes from `from` on, short vectors or longer ones, as one over tasks.
LoopRV as_tasks(Draft& draft, const Facts& f, std::vector<LoopRV> head, size_t from, bool is_short) {
  Schedule& s = draft.schedule;
  const int64_t wanted = cost::tasks_wanted(draft.target);
  if (product(f, 0, from) == kUnknown) {
    // Digits of symbolic sizes are divisions: the last loop around short vectors stays by itself, and others
    // do where there are enough tasks without them.
    if (is_short && head.size() > 1) head.pop_back();
    while (symbolic_digits(f, head.size()) > 0 && known_product(f, head.size() - 1) >= wanted)
      head.pop_back();
    const LoopRV all = s.fuse(head);
    const bool few = symbolic_digits(f, head.size()) < kManyDigits;
    return few || gathers(f) ? all : s.split(all, {-1, kRowsOfTask})[0];
  }
  // A condition on the last loop around short vectors (the edge of a padded image) would be one on digits;
  // one on other loops is the same for all of the last.
  if (is_short && head.size() > 1 && std::ranges::find(f.in_value, true) != f.in_value.end() &&
      known_product(f, from - 1) >= wanted)
    head.pop_back();
  return s.fuse(head);
}

}  // namespace

RuleOutcome elementwise(Draft& draft, const Site& site) {
  const Facts& f = *site.facts;
  if (f.extent.empty()) return RuleOutcome::applied;
  Schedule& s = draft.schedule;
  if (const int other = transposed(f); other >= 0) {
    tile_transposition(draft, f, size_t(other));
    return RuleOutcome::applied;
  }
  const size_t n = f.extent.size();
  const bool unit = unit_or_still(f, n - 1),
             vectors = (unit || two_rows(s, f) || lies_in_few_vectors(f)) && !is_cut_by_condition(f);
  const size_t from = unit ? contiguous_from(f) : n - 1;
  const int64_t outer = product(f, 0, from), size = product(f, from, n);
  int64_t lanes = vectors ? pick_lanes(size, cost::lanes_for(f, draft.target)) : 1;
  const int64_t panel = vectors ? 0 : panel_along(f, n - 1);
  if (panel >= kMinLanes) {  // lanes stay in a panel
    const int64_t whole = cost::lanes_for(f, draft.target);
    lanes = whole;
    while (lanes > 1 && panel % lanes) lanes /= 2;
    if (lanes < kMinLanes) lanes = 1;
    if (lanes < whole && panel >= (lanes > 1 ? kLeastRow : 1) * whole && outer != kUnknown) {
      panels_as_rows(draft, f, panel, whole);
      return RuleOutcome::applied;
    }
  }
  if (const size_t run = symbolic_run_from(f, 0, n - 1); lanes == 1 && run + 1 < n) {
    s.fuse_iterators(f.id, int(run), int(n - run));
    return elementwise(draft, {f.id, facts_of(s, f.id)});
  }
  // Axes of symbolic size around short vectors that all accesses walk as one array are one loop.
  const bool is_short = size != kUnknown && size <= std::max(kShortVectors * lanes, kShortRow);
  if (const size_t run = from > 0 && is_short ? symbolic_run_from(f, 0, from - 1) : from; run + 1 < from) {
    s.fuse_iterators(f.id, int(run), int(from - run));
    return elementwise(draft, {f.id, facts_of(s, f.id)});
  }
  const std::vector<LoopRV> loops = s.get_loops(f.id);
  if (const int axis = lanes == 1 ? short_condition(f) : -1; axis >= 0) {
    std::vector<LoopRV> pixels(loops.begin(), loops.end() - 1);
    pixels.erase(pixels.begin() + axis);
    std::vector<LoopRV> order = pixels;
    order.insert(order.end(), {loops[size_t(axis)], loops.back()});
    s.reorder(order);
    s.unroll(loops[size_t(axis)]), s.unroll(loops.back());
    const LoopRV all = s.fuse(pixels);
    if (worth_parallel(f, draft.target)) draft.parallel(all);
    return RuleOutcome::applied;
  }
  std::vector<LoopRV> head(loops.begin(), loops.begin() + std::ptrdiff_t(from));
  const LoopRV inner = s.fuse({loops.begin() + std::ptrdiff_t(from), loops.end()});
  // Too few outer iterations: a share of the long inner loop becomes one.
  const bool chunks = vectors && outer != kUnknown && outer < cost::tasks_wanted(draft.target) &&
                      (size == kUnknown || size >= kLeastChunked * lanes);
  if (lanes > 1) {
    std::vector<int64_t> factors{-1, lanes};
    if (chunks) factors = {-1, chunk_of(size, outer, lanes, draft.target), lanes};
    const std::vector<LoopRV> split = s.split(inner, factors);
    s.vectorize(split.back());
    if (chunks || head.empty()) head.push_back(split[0]);
  } else if (head.empty()) {
    head.push_back(inner);
  }
  const LoopRV all = chunks ? s.fuse(head) : as_tasks(draft, f, head, from, is_short);
  if (worth_parallel(f, draft.target)) draft.parallel(all);
  return RuleOutcome::applied;
}

RuleOutcome schedule_copy(Draft& draft, BlockRV copy) {
  Site site{copy, facts_of(draft.schedule, copy)};
  RuleOutcome out = RuleOutcome::opaque;
  if (site.facts && !site.facts->is_reduction())
    out = attempt(draft, "copy", [&](Draft& d) { return elementwise(d, site); });
  if (out != RuleOutcome::applied) out = parallel_outer(draft, site);
  draft.set_scheduled(copy);
  return out;
}

RuleOutcome parallel_outer(Draft& draft, const Site& site) {
  // As many outer loops as are independent.
  std::vector<LoopRV> loops = draft.schedule.get_loops(site.block);
  for (; !loops.empty(); loops.pop_back())
    if (try_step(draft, "", [&](Schedule& s) { draft.parallel(s, s.fuse(loops)); })) break;
  return RuleOutcome::applied;
}

}  // namespace tenon::rules
