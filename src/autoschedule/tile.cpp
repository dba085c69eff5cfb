// SPDX-License-Identifier: Apache-2.0
// Rules for reductions whose results form tiles: accumulators live in registers while the reduction runs, the
// epilogue takes them from there. The tile comes from a small model of the core: loads, multiply-adds,
// latency.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "autoschedule/rules.h"

namespace tenon::rules {

using namespace tir;

namespace {

struct Tile {
  int vector = -1, rows = -1, columns = -1;  ///< iterators
  int64_t lanes = 1, vectors = 1, row_count = 1, column_count = 1;
  double time = 1e30;  ///< relative, per useful element and step
};

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
/// Share of the steps along an iterator that fall inside. A symbolic size may be 1 (a batch), so large steps
/// along it are a risk.
double use_of(int64_t size, int64_t step) {
  return size == kUnknown ? 1.0 / (1 + 0.15 * double(step - 1))
                          : double(size) / double(ceil_div(size, step) * step);
}

/// What `count` lines that lie `stride` bytes apart cost more when they do not fit the first cache's sets:
/// pages of 4 KiB fall on the same sets.
double crowding(int64_t stride, int64_t count, const Target& target) {
  if (stride <= 0 || stride >= kIrregular) return 1;
  const int64_t ways = std::max<int64_t>(2, target->l1d_bytes / 4096),
                places = 4096 / std::gcd(stride, int64_t(4096));
  return ceil_div(count, places) > ways * 3 / 4 ? 3 : 1;
}

/// Cycles of one step of a tile, per element: two loads and two multiply-adds a cycle, four cycles of
/// latency.
Tile choose(const Facts& f, const Target& target) {
  Tile best;
  const int64_t widest = lanes_for(f, target);
  const int64_t registers = std::max<int64_t>(8, target->vector_registers);
  const int64_t work = f.instances(false);
  int64_t steps = 1;
  for (int k : f.reduce)
    steps = f.extent[size_t(k)] == kUnknown ? 256 : steps * std::max<int64_t>(1, f.extent[size_t(k)]);
  for (int v : f.spatial) {
    if (f.write.stride[size_t(v)] == 0 || f.extent[size_t(v)] == 1) continue;
    for (int64_t lanes = widest; lanes >= std::min<int64_t>(4, widest); lanes /= 2) {
      if (lanes < 2) break;
      if (f.extent[size_t(v)] != kUnknown && f.extent[size_t(v)] * 2 <= lanes && lanes > 4) continue;
      for (int64_t vectors = 1; vectors <= 6; ++vectors) {
        bool usable = true;
        for (const Access& l : f.loads) usable = usable && l.step(v, lanes * vectors) != kIrregular;
        if (!usable) continue;
        const double used =
            f.extent[size_t(v)] == kUnknown ? 0.9 : use_of(f.extent[size_t(v)], lanes * vectors);
        if (used < 0.4) continue;
        std::vector<int> rows{-1};
        for (int m : f.spatial)
          if (m != v && f.extent[size_t(m)] != 1) rows.push_back(m);
        for (int m : rows)
          for (int64_t count = m < 0 ? 1 : 2; count <= (m < 0 ? 1 : 24); ++count) {
            if (m >= 0 && f.extent[size_t(m)] != kUnknown && count > f.extent[size_t(m)]) break;
            if (m >= 0 && f.write.stride[size_t(m)] == 0) continue;
            for (int c : rows)
              for (int64_t columns = c < 0 ? 1 : 2; columns <= (c < 0 ? 1 : 4); ++columns) {
                if (c >= 0 && (c == m || m < 0 || f.extent[size_t(c)] == kUnknown ||
                               columns > f.extent[size_t(c)] || f.write.stride[size_t(c)] == 0))
                  break;
                // Sums lie as the result does: rows between two lanes would keep them out of registers.
                const int64_t apart_lanes = f.write.stride[size_t(v)];
                if ((m >= 0 && f.write.stride[size_t(m)] < apart_lanes) ||
                    (c >= 0 && f.write.stride[size_t(c)] < apart_lanes))
                  continue;
                const int64_t tile = vectors * count * columns;
                if (tile + vectors * columns + 1 > registers - 1) continue;
                double loads = 0, bytes = 0;
                for (const Access& l : f.loads) {
                  const int64_t sv = l.step(v, lanes * vectors);
                  // Lanes apart in memory each touch a line of their own, often a page.
                  const double each = sv == 0   ? 1.0
                                      : sv == 1 ? 1.0
                                      : sv <= 4 ? 1.0 + double(sv)
                                                : 6.0 * double(lanes);
                  // Rows a multiple of a page apart share the sets of the first cache.
                  const double crowd =
                      m >= 0 && !f.reduce.empty() && l.stride[size_t(f.reduce.back())] == 1
                          ? crowding(l.step(m, count) * l.buffer->dtype.bits / 8, count, target)
                          : 1;
                  const double places = double(m >= 0 && l.step(m, count) != 0 ? count : 1) *
                                        double(c >= 0 && l.step(c, columns) != 0 ? columns : 1);
                  loads += each * double(sv ? vectors : 1) * places * crowd;
                  bytes += double(sv ? vectors * lanes : 1) * places * double(l.buffer->dtype.bits) / 8;
                }
                // A store that is not contiguous is paid once for the whole reduction.
                const double store = f.write.stride[size_t(v)] == 1 ? 0 : double(lanes * tile);
                // Among equals fewer loads win, and rows that lie near one another.
                double apart = 0;
                for (const Access& l : f.loads)
                  if (m >= 0 && l.stride[size_t(m)] >= 128)
                    apart += (l.stride[size_t(m)] >= 2048 ? 0.02 : 0.01) * double(count);
                // What a step reads comes from the second cache at best: near-square tiles read least.
                const double cycles = std::max({double(tile) / 2, loads / 2, 4.0}) + 0.02 * loads + apart +
                                      bytes / 256 + store / double(steps);
                double time = cycles / (double(tile * lanes) * used *
                                        (m < 0 ? 1.0 : use_of(f.extent[size_t(m)], count)) *
                                        (c < 0 ? 1.0 : use_of(f.extent[size_t(c)], columns)));
                if (time > best.time * 1.0001) continue;
                if (work != kUnknown && work > 400000) {
                  int64_t outer = 1;
                  for (int i : f.spatial) {
                    const int64_t e = f.extent[size_t(i)] == kUnknown ? 64 : f.extent[size_t(i)];
                    outer *= i == v   ? ceil_div(e, lanes * vectors)
                             : i == m ? ceil_div(e, count)
                             : i == c ? ceil_div(e, columns)
                                      : e;
                  }
                  const int64_t cores = std::max<int64_t>(1, target->cores);
                  time *= double(ceil_div(outer, cores) * cores) / double(outer);
                }
                if (time < best.time * 0.98 ||
                    (time < best.time * 1.0001 && tile > best.vectors * best.row_count * best.column_count))
                  best = {v, m, c, lanes, vectors, count, columns, time};
              }
          }
      }
    }
  }
  return best;
}

/// Elements of the operands that move with an iterator; unknown sizes count as large.
double footprint(const Facts& f, int iterator) {
  double total = 0;
  for (const Access& l : f.loads) {
    if (l.stride[size_t(iterator)] == 0) continue;
    double n = 1;
    for (const PrimExpr& d : l.buffer->shape) n *= double(as_int(d).value_or(1024));
    total += n;
  }
  return total;
}

/// Which operand is walked once, and which again and again: rows of the tile in the inner loop keep the other
/// operand's panel near and read their own operand for every panel.
bool walks_rows_last(const Facts& f, const Tile& tile, const Target& target) {
  const int64_t columns = f.extent[size_t(tile.vector)], rows = f.extent[size_t(tile.rows)];
  const double across = 4 * footprint(f, tile.vector), along = 4 * footprint(f, tile.rows);
  if (columns == kUnknown || rows == kUnknown) return across > along;
  // What fits the second cache is read again at little cost.
  auto again = [&](double bytes, int64_t times) {
    return bytes * (1 + double(times - 1) * (bytes * 2 < double(target->l2_bytes) ? 0.1 : 1.0));
  };
  return again(along, ceil_div(columns, tile.lanes * tile.vectors)) + across <
         again(across, ceil_div(rows, tile.row_count)) + along;
}

/// Position of the epilogue's iterator that reads dimension `dim` of `b`, when all its reads of `b` are one
/// index made of its own iterators.
std::optional<std::vector<int>> reads_of(const Facts& e, const Buffer& b) {
  std::optional<std::vector<int>> out;
  for (const Access& l : e.loads) {
    if (!l.buffer.same_as(b)) continue;
    if (out) return std::nullopt;
    std::vector<int> at;
    for (const PrimExpr& i : l.indices) {
      int p = -1;
      for (size_t k = 0; k < e.block->iter_vars.size(); ++k)
        if (e.block->iter_vars[k]->var.get() == i.get()) p = int(k);
      if (p < 0 && !is_zero(i)) return std::nullopt;
      at.push_back(p);
    }
    out = at;
  }
  return out;
}
int dim_of(const Facts& f, int iterator) {
  for (size_t d = 0; d < f.write.indices.size(); ++d)
    if (f.write.indices[d].get() == f.block->iter_vars[size_t(iterator)]->var.get()) return int(d);
  return -1;
}
bool trivial_write(const Facts& f) {
  for (int i : f.spatial)
    if (f.extent[size_t(i)] != 1 && dim_of(f, i) < 0) return false;
  for (const PrimExpr& e : f.write.indices)
    if (!e.is<Var>() && !is_zero(e)) return false;
  return true;
}

/// The reduction writes a private buffer and has one reader that follows its index; otherwise a copy is made.
/// Returns the epilogue.
BlockRV private_result(Schedule& t, BlockRV r, BlockRV epilogue) {
  if (epilogue.id >= 0) {
    t.set_scope(r, 0, "local");
    return epilogue;
  }
  return t.cache_write(r, 0, "local");
}

/// Loop of `b` among `loops` that iterator `i` is bound through, or -1.
int loop_of(const Schedule& t, BlockRV b, int i, const std::vector<LoopRV>& loops, size_t first) {
  const PrimExpr value = t.realize(b)->iter_values[size_t(i)];
  for (size_t l = loops.size(); l-- > first;) {
    bool found = false;
    const Var* v = t.get(loops[l])->loop_var.get();
    pre_order(value, [&](const ObjectRef& n) {
      found = found || n.get() == v;
      return !found;
    });
    if (found) return int(l);
  }
  return -1;
}

/// Loops of an epilogue tile: the vector iterator innermost in lanes, the rest unrolled.
void finish_epilogue(Schedule& t, BlockRV e, int vector, size_t outer, int64_t lanes, bool contiguous) {
  std::vector<LoopRV> loops = t.get_loops(e);
  const int at = vector < 0 ? -1 : loop_of(t, e, vector, loops, outer);
  std::vector<LoopRV> others;
  for (size_t l = outer; l < loops.size(); ++l)
    if (int(l) != at) others.push_back(loops[l]);
  if (at >= 0 && contiguous) {
    LoopRV v = loops[size_t(at)];
    const int64_t extent = as_int(t.get(v)->extent).value_or(0);
    if (extent > lanes && extent % lanes == 0) {
      std::vector<LoopRV> parts = t.split(v, {-1, lanes});
      others.push_back(parts[0]);
      v = parts[1];
    }
    if (extent % lanes == 0 || extent < lanes) {
      std::vector<LoopRV> order = others;
      order.push_back(v);
      if (order.size() > 1) t.reorder(order);
      t.vectorize(v);
    }
  } else if (at >= 0) {
    others.push_back(loops[size_t(at)]);
  }
  int64_t product = 1;
  for (LoopRV l : others) product *= as_int(t.get(l)->extent).value_or(1 << 20);
  if (product <= 32)
    for (LoopRV l : others) attempt(t, [&](Schedule& x) { x.unroll(l); });
}

/// Runs of neighbouring spatial iterators that every access walks as one array, as (first, count): a tile may
/// then run across rows.
std::vector<std::pair<int, int>> joinable(const Facts& f) {
  auto joined = [&](const Access& a, size_t i) {
    return a.stride[i] != kIrregular && a.stride[i + 1] != kIrregular &&
           a.stride[i] == a.stride[i + 1] * f.extent[i + 1];
  };
  auto neighbours = [&](size_t i) {
    if (f.block->iter_vars[i]->kind != IterKind::spatial ||
        f.block->iter_vars[i + 1]->kind != IterKind::spatial)
      return false;
    if (f.extent[i] == kUnknown || f.extent[i + 1] == kUnknown || f.extent[i] == 1 || f.extent[i + 1] == 1 ||
        f.in_value[i] || f.in_value[i + 1] || f.write.stride[i + 1] == 0)
      return false;
    bool all = joined(f.write, i);
    for (const Access& l : f.loads) all = all && joined(l, i);
    return all;
  };
  std::vector<std::pair<int, int>> runs;
  for (size_t i = 0; i + 1 < f.extent.size(); ++i) {
    if (!neighbours(i)) continue;
    if (!runs.empty() && runs.back().first + runs.back().second == int(i) + 1)
      ++runs.back().second;
    else
      runs.emplace_back(int(i), 2);
  }
  return runs;
}
/// Facts of the block once those iterators are one.
Facts fused(const Facts& f, int first, int count) {
  Facts g = f;
  const size_t begin = size_t(first), end = begin + size_t(count);
  auto shrink = [&](auto& v, auto value) {
    v.erase(v.begin() + first, v.begin() + std::ptrdiff_t(end));
    v.insert(v.begin() + first, value);
  };
  int64_t extent = 1;
  for (size_t i = begin; i < end; ++i) extent *= f.extent[i];
  shrink(g.extent, extent);
  shrink(g.in_value, false);
  shrink(g.write.stride, f.write.stride[end - 1]);
  for (Access& l : g.loads) {
    shrink(l.stride, l.stride[end - 1]);
    shrink(l.panel, 0);
    shrink(l.panel_stride, 0);
  }
  g.spatial.clear(), g.reduce.clear();
  for (size_t i = 0, j = 0; i < f.extent.size(); ++i) {
    if (i > begin && i < end) continue;
    (f.block->iter_vars[i]->kind == IterKind::reduce ? g.reduce : g.spatial).push_back(int(j++));
  }
  return g;
}

bool tile_with(Schedule& s, BlockRV reduction, BlockRV epilogue, const Facts& before,
               std::pair<int, int> join, const Tile& tile, const Target& target, std::vector<int32_t>& done);

/// `copies`: operands that were laid out anew already.
bool tile(Schedule& s, BlockRV reduction, BlockRV epilogue, const Target& target, std::vector<int32_t>& done,
          const std::vector<Buffer>& copies) {
  auto found = facts_of(s, reduction);
  if (!found || !found->is_reduction() || !found->block->init || !trivial_write(*found)) return false;
  const Tile plain = choose(*found, target);
  // An operand whose lanes lie apart, read again and again, is laid out once for the tile.
  if (plain.vector >= 0 && copies.size() < 2)
    for (const Access& l : found->loads) {
      if (std::any_of(copies.begin(), copies.end(), [&](const Buffer& b) { return b.same_as(l.buffer); }))
        continue;
      const int64_t stride = l.stride[size_t(plain.vector)], all = found->instances(false);
      double elements = 1;
      for (size_t i = 0; i < l.stride.size(); ++i)
        if (l.stride[i] != 0) elements *= double(found->extent[i]);
      if (stride < 2 || stride > 64 || all == kUnknown || double(all) < 16 * elements) continue;
      Schedule t = s;
      BlockRV copy;
      const bool made = attempt(t, [&](Schedule& x) {
        const Ref<Block> b = x.get(reduction);
        for (size_t i = 0; i < b->reads.size(); ++i)
          if (b->reads[i]->buffer.same_as(l.buffer)) copy = x.reindex(reduction, int(i));
        for (BlockRV p : x.get_producers(copy))
          if (x.get_consumers(p).size() == 1) attempt(x, [&](Schedule& y) { y.compute_inline(p); });
      });
      if (!made || copy.id < 0) continue;
      std::vector<Buffer> with = copies;
      with.push_back(t.get(copy)->writes[0]->buffer);
      if (tile(t, reduction, epilogue, target, done, with)) {
        elementwise(t, copy, target);
        s = t;
        return true;
      }
    }
  for (const std::pair<int, int>& join : joinable(*found)) {
    const Tile across = choose(fused(*found, join.first, join.second), target);
    if (across.vector >= 0 && (plain.vector < 0 || across.time < plain.time * 0.97) &&
        tile_with(s, reduction, epilogue, *found, join, across, target, done))
      return true;
  }
  return plain.vector >= 0 && tile_with(s, reduction, epilogue, *found, {0, 1}, plain, target, done);
}

bool tile_with(Schedule& s, BlockRV reduction, BlockRV epilogue, const Facts& before,
               std::pair<int, int> join, const Tile& tile, const Target& target, std::vector<int32_t>& done) {
  const Facts f = join.second > 1 ? fused(before, join.first, join.second) : before;
  // Positions of `before`: where the tile's iterators were (the last of those that are joined).
  auto old = [&](int i) { return i < join.first ? i : i + join.second - 1; };
  bool contiguous = f.write.stride[size_t(tile.vector)] == 1;
  if (epilogue.id >= 0) {
    auto e = facts_of(s, epilogue);
    if (!e || e->is_reduction()) return false;
    auto reads = reads_of(*e, before.write.buffer);
    if (!reads) return false;
    const int dim = dim_of(before, old(tile.vector)), ev = dim < 0 ? -1 : (*reads)[size_t(dim)];
    contiguous = ev >= 0 && e->write.stride[size_t(ev)] == 1;
    for (const Access& l : e->loads)
      contiguous = contiguous && (l.stride[size_t(ev)] == 1 || l.stride[size_t(ev)] == 0);
    for (int i = join.first; i + 1 < join.first + join.second; ++i) {
      // The epilogue must walk its own operands as one array too.
      const int d0 = dim_of(before, i), d1 = dim_of(before, i + 1);
      if (d0 < 0 || d1 < 0) return false;
      const int x = (*reads)[size_t(d0)], y = (*reads)[size_t(d1)];
      if (x < 0 || y != x + 1 || e->in_value[size_t(x)] || e->in_value[size_t(y)]) return false;
      auto joined = [&](const Access& a) {
        return a.stride[size_t(x)] != kIrregular && a.stride[size_t(y)] != kIrregular &&
               a.stride[size_t(x)] == a.stride[size_t(y)] * e->extent[size_t(y)];
      };
      if (!joined(e->write)) return false;
      for (const Access& l : e->loads)
        if (!joined(l)) return false;
    }
  }
  std::optional<Strip> strip;
  if (join.second == 1) {
    std::vector<int64_t> step(f.extent.size(), 1);
    if (tile.rows >= 0) step[size_t(tile.rows)] = tile.row_count;
    if (tile.columns >= 0) step[size_t(tile.columns)] = tile.column_count;
    strip = padding_strip(s, f, step, target);
  }
  auto apply = [&](Schedule& t) {
    BlockRV e = private_result(t, reduction, epilogue);
    auto facts_e = facts_of(t, e);
    CHECK(facts_e, "an epilogue has lost its form");
    auto at = reads_of(*facts_e, t.get(reduction)->writes[0]->buffer);
    CHECK(at, "an epilogue does not follow its reduction");
    int joined_at = 1 << 20;
    auto epilogue_iterator = [&](int i) {
      const int dim = dim_of(before, old(i));
      const int p = dim < 0 ? -1 : (*at)[size_t(dim)];
      return p > joined_at ? p - (join.second - 1) : p;
    };
    if (join.second > 1) {
      joined_at = (*at)[size_t(dim_of(before, join.first))];
      t.fuse_iterators(reduction, join.first, join.second);
      t.fuse_iterators(e, joined_at, join.second);
    }
    const int v = tile.vector, m = tile.rows, c = tile.columns;
    const int ev = epilogue_iterator(v), em = m < 0 ? -1 : epilogue_iterator(m);
    auto ragged = [&](int i, int64_t step) {
      return f.extent[size_t(i)] == kUnknown || f.extent[size_t(i)] % step != 0;
    };
    if (ragged(v, tile.lanes * tile.vectors)) {
      t.pad_iteration(reduction, v, tile.lanes * tile.vectors);
      if (ev >= 0) t.pad_iteration(e, ev, tile.lanes * tile.vectors);
    }
    const int ec = c < 0 ? -1 : epilogue_iterator(c);
    if (c >= 0 && ragged(c, tile.column_count)) {
      t.pad_iteration(reduction, c, tile.column_count, true);
      if (ec >= 0) t.pad_iteration(e, ec, tile.column_count);
    }
    if (m >= 0 && ragged(m, tile.row_count)) {
      t.pad_iteration(reduction, m, tile.row_count, true);
      if (em >= 0) t.pad_iteration(e, em, tile.row_count);
    }
    std::vector<LoopRV> loops = t.get_loops(reduction);
    std::vector<LoopRV> vs = t.split(loops[size_t(v)], {-1, tile.vectors, tile.lanes});
    std::vector<LoopRV> ms;
    if (m >= 0) ms = t.split(loops[size_t(m)], {-1, tile.row_count});
    std::vector<LoopRV> cs;
    if (c >= 0) cs = t.split(loops[size_t(c)], {-1, tile.column_count});
    std::vector<LoopRV> outer, order, steps;
    const bool rows_last = m >= 0 && walks_rows_last(f, tile, target);
    auto outer_loop = [&](int i) {
      return i == v ? vs[0] : i == m ? ms[0] : i == c ? cs[0] : loops[size_t(i)];
    };
    std::vector<LoopRV> around;  // loops of whose iterations each pads a strip of its own
    if (strip) {
      for (int i : strip->apart) around.push_back(outer_loop(i));
      around.push_back(outer_loop(strip->window));
      LoopRV rows{-1};
      if (as_int(t.get(around.back())->extent) != strip->rows) {
        std::vector<LoopRV> parts = t.split(around.back(), {-1, strip->rows});
        around.back() = parts[0];
        rows = parts[1];
      } else {
        around.pop_back();
        rows = outer_loop(strip->window);
      }
      outer = around;
      outer.push_back(rows);
    }
    auto placed = [&](int i) {
      return strip && (i == strip->window ||
                       std::find(strip->apart.begin(), strip->apart.end(), i) != strip->apart.end());
    };
    for (int i : f.spatial)
      if (!(rows_last && i == m) && !placed(i)) outer.push_back(outer_loop(i));
    if (rows_last && !placed(m)) outer.push_back(ms[0]);
    for (int i : f.reduce) steps.push_back(loops[size_t(i)]);
    order = outer;
    order.insert(order.end(), steps.begin(), steps.end());
    if (m >= 0) order.push_back(ms[1]);
    if (c >= 0) order.push_back(cs[1]);
    order.push_back(vs[1]);
    order.push_back(vs[2]);
    t.reorder(order);
    t.reverse_compute_at(e, outer.back());
    finish_epilogue(t, e, ev, outer.size(), tile.lanes, contiguous);
    BlockRV init = t.decompose_reduction(reduction, steps[0]);
    std::vector<LoopRV> init_loops = t.get_loops(init);
    for (size_t i = outer.size(); i < init_loops.size(); ++i) {
      if (i + 1 == init_loops.size())
        t.vectorize(init_loops[i]);
      else
        t.unroll(init_loops[i]);
    }
    t.vectorize(vs[2]);
    t.unroll(vs[1]);
    if (m >= 0) t.unroll(ms[1]);
    if (c >= 0) t.unroll(cs[1]);
    // Short windows are unrolled too, while the code stays small.
    int64_t copies = tile.vectors * tile.row_count * tile.column_count;
    for (size_t i = steps.size(); i-- > 0;) {
      const int64_t extent = as_int(t.get(steps[i])->extent).value_or(1 << 20);
      if (extent > 7 || copies * extent > 72) break;
      copies *= extent;
      if (extent > 1) t.unroll(steps[i]);
    }
    const int64_t work = f.instances(false);
    LoopRV all = t.fuse(strip && !around.empty() ? around : outer);
    if (work == kUnknown || double(work) * f.cost > 16384) t.parallel(all);
    if (strip && !around.empty()) place_padding(t, *strip, all, target);
  };
  if (strip && attempt(s, apply)) {
    done.push_back(strip->pad.id);
    return true;
  }
  strip = std::nullopt;
  return attempt(s, apply);
}

}  // namespace

bool tile_reduction(Schedule& s, BlockRV reduction, BlockRV epilogue, const Target& target,
                    std::vector<int32_t>& done) {
  return tile(s, reduction, epilogue, target, done, {});
}

bool dot_reduction(Schedule& s, BlockRV reduction, BlockRV epilogue, const Target& target) {
  auto found = facts_of(s, reduction);
  if (!found || !found->is_reduction() || !found->block->init || !trivial_write(*found)) return false;
  const Facts f = *found;
  if (f.reduce.size() != 1) return false;
  const int k = f.reduce[0];
  int along = 0;
  for (const Access& l : f.loads) {
    if (l.stride[size_t(k)] != 0 && l.stride[size_t(k)] != 1) return false;
    along += l.stride[size_t(k)] == 1;
  }
  if (along < 2) return false;
  int64_t lanes = lanes_for(f, target);
  if (f.extent[size_t(k)] != kUnknown && f.extent[size_t(k)] < 2 * lanes) return false;
  // Only where lanes along a result axis would have to gather.
  const Tile tile = choose(f, target);
  bool gathers = tile.vector < 0;
  if (!gathers)
    for (const Access& l : f.loads) gathers = gathers || l.step(tile.vector, tile.lanes * tile.vectors) > 4;
  if (!gathers) return false;
  if (epilogue.id >= 0) {
    auto e = facts_of(s, epilogue);
    if (!e || e->is_reduction() || !reads_of(*e, f.write.buffer)) return false;
  }
  return attempt(s, [&](Schedule& t) {
    BlockRV e = epilogue.id >= 0 ? epilogue : t.cache_write(reduction, 0, "local");
    auto facts_e = facts_of(t, e);
    CHECK(facts_e, "an epilogue has lost its form");
    auto at = reads_of(*facts_e, t.get(reduction)->writes[0]->buffer);
    CHECK(at, "an epilogue does not follow its reduction");
    if (f.extent[size_t(k)] == kUnknown || f.extent[size_t(k)] % lanes != 0)
      t.pad_iteration(reduction, k, lanes);
    std::vector<LoopRV> ks = t.split(t.get_loops(reduction)[size_t(k)], {-1, lanes});
    BlockRV partial = t.rfactor(ks[1], -1);
    // Up to 4 × 4 results at once, by divisors: a remainder would put masks around the accumulators.
    std::vector<int> axes;
    for (int i : f.spatial)
      if (f.extent[size_t(i)] != 1 && dim_of(f, i) >= 0) axes.push_back((*at)[size_t(dim_of(f, i))]);
    std::vector<int> tiled;
    for (size_t i = axes.size(); i-- > 0 && tiled.size() < 2;) tiled.push_back(axes[i]);
    std::vector<LoopRV> loops = t.get_loops(e), outer, inner;
    int64_t budget = target->vector_registers > 16 ? 16 : 8;
    for (size_t i = 0; i < loops.size(); ++i) {
      const int64_t extent = facts_e->extent[i];
      const bool wanted = std::find(tiled.begin(), tiled.end(), int(i)) != tiled.end();
      int64_t factor = wanted && extent != kUnknown ? (tiled.size() == 1 ? 8 : 4) : 1;
      factor = std::min(factor, budget);
      while (factor > 1 && extent % factor != 0) --factor;
      if (factor == 1) {
        outer.push_back(loops[i]);
        continue;
      }
      budget /= factor;
      std::vector<LoopRV> parts = t.split(loops[i], {-1, factor});
      outer.push_back(parts[0]);
      inner.push_back(parts[1]);
    }
    std::vector<LoopRV> order = outer;
    order.insert(order.end(), inner.begin(), inner.end());
    if (order.size() > 1) t.reorder(order);
    LoopRV around = t.fuse(outer);
    t.compute_at(reduction, around);
    t.compute_at(partial, around);
    // The partial sums: steps outside, results, lanes inside.
    std::vector<LoopRV> p = t.get_loops(partial);
    std::vector<LoopRV> steps, results;
    LoopRV lane{-1};
    const Ref<BlockRealize> r = t.realize(partial);
    for (size_t l = 1; l < p.size(); ++l) {
      const Var* var = t.get(p[l])->loop_var.get();
      int owner = -1;
      for (size_t i = 0; i < r->iter_values.size(); ++i) {
        bool uses = false;
        pre_order(r->iter_values[i], [&](const ObjectRef& n) {
          uses = uses || n.get() == var;
          return !uses;
        });
        if (uses) owner = int(i);
      }
      if (owner >= 0 && r->block->iter_vars[size_t(owner)]->kind == IterKind::reduce)
        steps.push_back(p[l]);
      else if (owner >= 0 && as_int(t.get(p[l])->extent) == lanes && size_t(owner) == f.spatial.size())
        lane = p[l];
      else
        results.push_back(p[l]);
    }
    if (lane.id < 0 || steps.empty())
      throw ScheduleError(ErrorKind::model, "T0799", "the lanes of a dot product were not found");
    std::vector<LoopRV> arranged = steps;
    arranged.insert(arranged.end(), results.begin(), results.end());
    arranged.push_back(lane);
    t.reorder(arranged);
    BlockRV init = t.decompose_reduction(partial, steps[0]);
    std::vector<LoopRV> init_loops = t.get_loops(init);
    for (size_t i = 1; i < init_loops.size(); ++i) {
      if (i + 1 == init_loops.size())
        t.vectorize(init_loops[i]);
      else
        t.unroll(init_loops[i]);
    }
    t.vectorize(lane);
    for (LoopRV l : results) t.unroll(l);
    // The last sum over lanes, in order.
    std::vector<LoopRV> w = t.get_loops(reduction);
    int64_t copies = 1;
    for (size_t i = 1; i < w.size(); ++i) copies *= as_int(t.get(w[i])->extent).value_or(1 << 20);
    if (copies <= 256)
      for (size_t i = 1; i < w.size(); ++i) t.unroll(w[i]);
    const int64_t work = f.instances(false);
    if (work == kUnknown || double(work) * f.cost > 16384) t.parallel(around);
  });
}

}  // namespace tenon::rules
