// SPDX-License-Identifier: Apache-2.0
// Long sums in parts: for one part after the other, all tiles of a group take up what the part adds to them.
// What a part reads of the operand along the lanes stays in the cache, which the whole sum would not.
#include <algorithm>
#include <cmath>

#include "autoschedule/tile.h"

namespace tenon::rules {

using namespace tir;

namespace {

int64_t divisor_below(int64_t n, int64_t limit) {
  for (int64_t d = std::min(n, std::max<int64_t>(1, limit)); d > 1; --d)
    if (n % d == 0) return d;
  return 1;
}

/// No index is made of two iterators (a window), so that a part of the sum reads a part of the operand;
/// groups of the sum beside their lanes are none.
bool one_iterator_each(const Facts& f, const Access& l, const Tile& tile) {
  for (const PrimExpr& index : l.indices) {
    const Object* seen = nullptr;
    bool one = true;
    pre_order(index, [&](const ObjectRef& n) {
      if (n.is<Var>())
        for (size_t i = 0; i < f.block->iter_vars.size(); ++i)
          if (f.block->iter_vars[i]->var.get() == n.get() && int(i) != tile.steps) {
            one = one && (!seen || seen == n.get());
            seen = n.get();
          }
      return one;
    });
    if (!one) return false;
  }
  return true;
}

}  // namespace

std::optional<Parts> parts_of(const Facts& f, const Tile& tile, const Target& target) {
  if (tile.rows < 0 || f.write.stride[size_t(tile.vector)] != 1 || f.instances(false) == kUnknown)
    return std::nullopt;
  Parts p;
  int64_t steps = 1;
  for (int k : f.reduce) {
    steps *= f.extent[size_t(k)];
    if (tile.steps >= 0 ? k == tile.steps : p.sum < 0 || f.extent[size_t(k)] > f.extent[size_t(p.sum)])
      p.sum = k;
  }
  // What one step reads of each operand.
  const int64_t width = tile.lanes * tile.vectors;
  double along = 0, beside = 0;
  for (const Access& l : f.loads) {
    if (!one_iterator_each(f, l, tile)) return std::nullopt;
    if (l.stride[size_t(p.sum)] == 0) continue;
    const double bytes = double(l.buffer->dtype.bits) / 8;
    if (l.stride[size_t(tile.vector)] != 0)
      along += bytes * double(width);
    else
      beside += bytes * double(l.stride[size_t(tile.rows)] != 0 ? tile.row_count : 1);
  }
  const double near = double(target->l2_bytes);
  const int64_t rows = ceil_div(f.extent[size_t(tile.rows)], tile.row_count),
                across = ceil_div(f.extent[size_t(tile.vector)], width);
  if (along == 0 || beside == 0 || rows < 4) return std::nullopt;
  // A panel that takes a quarter of the cache is cut too when all that passes by comes from far away each
  // time.
  const double panel = along * double(steps), passing = beside * double(steps) * double(rows);
  if (panel < near / (passing > 4 * near ? 4 : 2)) return std::nullopt;
  // A part for an eighth of the cache: the operand of the rows and the sums pass by.
  const int64_t extent = f.extent[size_t(p.sum)], others = steps / std::max<int64_t>(1, extent);
  const double wanted = near / 8 / (along + beside) / double(others);
  double best = std::log(2.1);
  for (int64_t d = std::max<int64_t>(1, tile.group); d * 2 <= extent; d += tile.group) {
    const double off = std::abs(std::log(double(d) / wanted));
    if (extent % d == 0 && off < best) p.length = d, best = off;
  }
  if (p.length == 0 || p.length * others < 4) return std::nullopt;
  p.across = divisor_below(across, int64_t(near / 2 / (along * double(p.length * others))));
  // The sums of a group stay near as well, and the cores need groups of their own.
  int64_t groups = across / p.across;
  for (int i : f.spatial)
    if (i != tile.vector && i != tile.rows)
      groups *= i == tile.columns ? ceil_div(f.extent[size_t(i)], tile.column_count) : f.extent[size_t(i)];
  const int64_t tasks = 4 * std::max<int64_t>(1, target->cores);
  const double sums = double(f.write.buffer->dtype.bytes() * p.across * width * tile.row_count);
  int64_t together = int64_t(near / 4 / sums);
  if (groups < tasks) together = std::min(together, rows * groups / tasks);
  // Groups that fit exactly keep the rows evenly apart; a ragged one would clamp each row by itself.
  together = std::max<int64_t>(8, together);
  p.rows = divisor_below(rows, together);
  if (p.rows * 2 < together) p.rows = ceil_div(rows, ceil_div(rows, together));
  return p;
}

void tile_in_parts(Schedule& t, BlockRV reduction, BlockRV e, int ev, const Facts& f, const Tile& tile,
                   const Parts& parts, bool contiguous) {
  const int v = tile.vector, m = tile.rows, c = tile.columns;
  auto place = [&](int i) {
    return int(std::find(f.spatial.begin(), f.spatial.end(), i) - f.spatial.begin());
  };
  // The sums of the parts, each in registers; the reduction adds them up.
  const LoopRV cut = t.split(t.get_loops(reduction)[size_t(parts.sum)], {-1, parts.length})[0];
  const BlockRV sums = t.rfactor(cut, 0);
  t.set_scope(sums, 0, "local");
  const std::vector<LoopRV> loops = t.get_loops(reduction);
  auto loop = [&](int iterator) {
    const int at = loop_of(t, reduction, iterator, loops, 0);
    if (at < 0) throw ScheduleError(ErrorKind::model, "T0799", "a loop of the sum of parts was not found");
    return loops[size_t(at)];
  };
  const LoopRV part = loop(int(f.spatial.size()));
  std::vector<LoopRV> outer, order, vs, ms, cs;
  for (int i : f.spatial) {
    if (f.extent[size_t(i)] == 1) continue;  // bound to no loop
    const LoopRV l = loop(place(i));
    if (i == v)
      vs = t.split(l, {-1, parts.across, tile.lanes * tile.vectors});
    else if (i == m)
      ms = t.split(l, {-1, parts.rows, tile.row_count});
    else if (i == c)
      cs = t.split(l, {-1, tile.column_count});
    outer.push_back(i == v ? vs[0] : i == m ? ms[0] : i == c ? cs[0] : l);
  }
  order = outer;
  for (LoopRV l : {part, ms[1], vs[1], ms[2]}) order.push_back(l);
  if (c >= 0) order.push_back(cs[1]);
  order.push_back(vs[2]);
  t.reorder(order);
  t.compute_at(sums, vs[1]);
  t.reverse_compute_at(e, outer.back());
  finish_epilogue(t, e, ev, outer.size(), tile.lanes, contiguous);
  // A tile of the sums of a part.
  const size_t depth = outer.size() + 3;
  const std::vector<LoopRV> below = t.get_loops(sums);
  std::vector<LoopRV> steps, inner, results;
  LoopRV together{-1};
  for (int i : {m, c})
    if (const int at = i < 0 ? -1 : loop_of(t, sums, place(i), below, depth); at >= 0)
      results.push_back(below[size_t(at)]);
  const int lanes_at = loop_of(t, sums, place(v), below, depth);
  for (size_t k = 0; k < f.reduce.size(); ++k) {
    const int at = loop_of(t, sums, int(f.spatial.size() + 1 + k), below, depth);
    if (at < 0) continue;
    steps.push_back(below[size_t(at)]);
    if (f.reduce[k] != tile.steps) continue;
    std::vector<LoopRV> split = t.split(steps.back(), {-1, tile.group});
    steps.back() = split[0];
    together = split[1];
  }
  if (lanes_at < 0 || steps.empty())
    throw ScheduleError(ErrorKind::model, "T0799", "the lanes of a part were not found");
  std::vector<LoopRV> lanes = t.split(below[size_t(lanes_at)], {tile.vectors, tile.lanes});
  results.push_back(lanes[0]);
  inner = steps;
  inner.insert(inner.end(), results.begin(), results.end());
  inner.push_back(lanes[1]);
  if (together.id >= 0) inner.push_back(together);
  t.reorder(inner);
  const BlockRV zero = t.decompose_reduction(sums, steps[0]);
  const std::vector<LoopRV> zeros = t.get_loops(zero);
  for (size_t i = depth; i < zeros.size(); ++i) {
    if (i + 1 == zeros.size())
      t.vectorize(zeros[i]);
    else
      t.unroll(zeros[i]);
  }
  if (together.id >= 0)
    t.tensorize(lanes[1], tile.intrin);
  else
    t.vectorize(lanes[1]);
  for (LoopRV l : results) t.unroll(l);
  finish_epilogue(t, reduction, place(v), depth, tile.lanes, true);
  t.decompose_reduction(reduction, part);
  t.parallel(t.fuse(outer));
}

}  // namespace tenon::rules
