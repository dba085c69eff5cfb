// SPDX-License-Identifier: Apache-2.0
// Rules for reductions whose results form tiles: accumulators live in registers while the reduction runs, the
// epilogue takes them from there.
#include <algorithm>

#include "autoschedule/tile.h"

namespace tenon::rules {

using namespace tir;

namespace {

/// The reduction writes a private buffer and has one reader that follows its index; otherwise a copy is made.
/// Returns the epilogue.
BlockRV private_result(Schedule& t, BlockRV r, BlockRV epilogue) {
  if (epilogue.id >= 0) {
    t.set_scope(r, 0, "local");
    return epilogue;
  }
  return t.cache_write(r, 0, "local");
}

}  // namespace

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

namespace {

/// An operand whose rows lie apart, too large for the near cache and read again by many rows of the tile:
/// worth a copy in panels as wide as the tile.
bool wants_panels(const Facts& f, const Access& l, const Tile& plain, const Target& target) {
  const size_t v = size_t(plain.vector);
  if (l.stride[v] != 1 || plain.rows < 0 || l.stride[size_t(plain.rows)] != 0) return false;
  int64_t elements = 1, matrix = l.buffer->dtype.bytes();
  for (size_t i = 0; i < l.stride.size(); ++i) {
    if (l.stride[i] == 0) continue;
    elements *= f.extent[i];
    if (i == v || f.block->iter_vars[i]->kind == IterKind::reduce) matrix *= f.extent[i];
  }
  for (const PrimExpr& index : l.indices)
    if (!index.is<Var>() && !is_zero(index)) return false;
  const int64_t all = f.instances(false), apart = l.stride[size_t(f.reduce.back())];
  return all != kUnknown && all >= 64 * elements && matrix * 4 > target->l2_bytes &&
         apart * l.buffer->dtype.bytes() >= 512;
}

/// A tile whose rows read that copy, which is made panel by panel, just before they do.
bool tile_over_panels(Schedule& s, BlockRV reduction, BlockRV epilogue, const Facts& f, const Access& l,
                      const Tile& plain, const Target& target, std::vector<int32_t>& done) {
  return attempt(s, [&](Schedule& t) {
    auto refuse = [](const char* why) { throw ScheduleError(ErrorKind::model, "T0799", why); };
    const Ref<Block> b = t.get(reduction);
    int at = -1, dim = 0;
    for (size_t i = 0; i < b->reads.size(); ++i)
      if (b->reads[i]->buffer.same_as(l.buffer)) at = int(i);
    if (at < 0) refuse("an operand of a product was not found");
    const BlockRV copy = t.reindex(reduction, at);
    for (BlockRV p : t.get_producers(copy))
      if (t.get_consumers(p).size() == 1) attempt(t, [&](Schedule& x) { x.compute_inline(p); });
    // The copy's dimensions are the iterators that its index has: those of the reduction first.
    for (int i : f.reduce) dim += l.stride[size_t(i)] != 0;
    for (int i : f.spatial)
      if (i < plain.vector) dim += l.stride[size_t(i)] != 0;
    t.pad_iteration(copy, dim, plain.lanes * plain.vectors);
    auto now = facts_of(t, reduction);
    if (!now) refuse("a product has lost its form");
    Tile tile = choose_tile(*now, target, plain.vector);
    if (tile.vector < 0 || tile.rows < 0 || tile.columns >= 0 ||
        plain.lanes * plain.vectors % (tile.lanes * tile.vectors) != 0)
      refuse("no tile fits the panels");
    tile.near = copy;
    if (!tile_with(t, reduction, epilogue, *now, {0, 1}, tile, target, done)) refuse("a primitive refused");
    done.push_back(copy.id);
  });
}

/// `copies`: operands that were laid out anew already.
bool tile(Schedule& s, BlockRV reduction, BlockRV epilogue, const Target& target, std::vector<int32_t>& done,
          const std::vector<Buffer>& copies) {
  auto found = facts_of(s, reduction);
  if (!found || !found->is_reduction() || !found->block->init || !trivial_write(*found)) return false;
  const Tile plain = choose_tile(*found, target);
  // An operand whose lanes lie apart, read again and again, is laid out once for the tile.
  if (plain.vector >= 0 && copies.size() < 2)
    for (const Access& l : found->loads) {
      if (std::any_of(copies.begin(), copies.end(), [&](const Buffer& b) { return b.same_as(l.buffer); }))
        continue;
      if (wants_panels(*found, l, plain, target) && !parts_of(*found, plain, target) &&
          tile_over_panels(s, reduction, epilogue, *found, l, plain, target, done))
        return true;
      const int64_t stride = l.stride[size_t(plain.vector)], all = found->instances(false);
      double elements = 1;
      for (size_t i = 0; i < l.stride.size(); ++i)
        if (l.stride[i] != 0) elements *= double(found->extent[i]);
      if (stride < 2 || stride >= kIrregular || all == kUnknown ||
          double(all) < (stride > 64 ? 64 : 16) * elements)
        continue;
      // Lanes far apart are worth a copy where all lanes are side by side then.
      auto beside = [&](const Access& o) {
        return &o == &l || (o.step(plain.vector, plain.lanes) >= 0 && o.step(plain.vector, plain.lanes) <= 1);
      };
      if (stride > 64 && !std::all_of(found->loads.begin(), found->loads.end(), beside)) continue;
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
    const Tile across = choose_tile(fused(*found, join.first, join.second), target);
    // A run of symbolic axes has fewer edges than its last.
    bool symbolic = false;
    for (int i = 0; i < join.second; ++i)
      symbolic = symbolic || found->extent[size_t(join.first + i)] == kUnknown;
    if (across.vector >= 0 && (plain.vector < 0 || across.time < plain.time * (symbolic ? 1.01 : 0.97)) &&
        tile_with(s, reduction, epilogue, *found, join, across, target, done))
      return true;
  }
  return plain.vector >= 0 && tile_with(s, reduction, epilogue, *found, {0, 1}, plain, target, done);
}

}  // namespace

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
      auto joined = [&](const Access& a) { return one_array(*e, a, size_t(x)); };
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
  std::optional<Parts> parts = parts_of(f, tile, target);
  if (parts && (strip || tile.near.id >= 0)) parts = std::nullopt;
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
    const int64_t row_step = tile.row_count * (parts ? parts->rows : 1);
    if (m >= 0 && ragged(m, row_step)) {
      t.pad_iteration(reduction, m, row_step, true);
      if (em >= 0) t.pad_iteration(e, em, row_step);
    }
    if (parts) return tile_in_parts(t, reduction, e, ev, f, tile, *parts, contiguous);
    std::vector<LoopRV> loops = t.get_loops(reduction);
    std::vector<LoopRV> vs = t.split(loops[size_t(v)], {-1, tile.vectors, tile.lanes});
    std::vector<LoopRV> ms;
    if (m >= 0) ms = t.split(loops[size_t(m)], {-1, tile.row_count});
    std::vector<LoopRV> cs;
    if (c >= 0) cs = t.split(loops[size_t(c)], {-1, tile.column_count});
    std::vector<LoopRV> outer, order, steps;
    const bool rows_last = m >= 0 && (tile.near.id >= 0 || walks_rows_last(f, tile, target));
    auto outer_loop = [&](int i) {
      return i == v ? vs[0] : i == m ? ms[0] : i == c ? cs[0] : loops[size_t(i)];
    };
    std::vector<LoopRV> around;  // loops of whose iterations each pads a strip of its own
    if (strip) {
      for (int i : strip->apart) around.push_back(outer_loop(i));
      around.push_back(outer_loop(strip->window));
      LoopRV rows{-1};
      if (strip->rows != kUnknown && as_int(t.get(around.back())->extent) != strip->rows) {
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
    LoopRV together{-1};
    for (int i : f.reduce) {
      steps.push_back(loops[size_t(i)]);
      if (i != tile.steps) continue;
      std::vector<LoopRV> parts = t.split(steps.back(), {-1, tile.group});
      steps.back() = parts[0];
      together = parts[1];
    }
    order = outer;
    order.insert(order.end(), steps.begin(), steps.end());
    if (m >= 0) order.push_back(ms[1]);
    if (c >= 0) order.push_back(cs[1]);
    order.push_back(vs[1]);
    order.push_back(vs[2]);
    if (together.id >= 0) order.push_back(together);
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
    if (together.id >= 0)
      t.tensorize(vs[2], tile.intrin);
    else
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
    if (tile.near.id >= 0 && !strip) around.assign(outer.begin(), outer.end() - 1);  // all but the rows
    std::vector<LoopRV> tasks = around.empty() ? outer : around;
    // Digits of symbolic sizes are divisions: the last loop stays by itself, and one task is a row of tiles.
    if (around.empty() && tasks.size() > 2 && work == kUnknown) tasks.pop_back();
    LoopRV all = t.fuse(tasks);
    if (work == kUnknown || double(work) * f.cost > 16384) t.parallel(all);
    if (strip && !around.empty()) place_padding(t, *strip, all, target);
    if (tile.near.id >= 0) {
      t.compute_at(tile.near, all);
      vectorize_inner(t, tile.near, 1, target);
    }
  };
  if (strip && attempt(s, apply)) {
    done.push_back(strip->pad.id);
    return true;
  }
  strip = std::nullopt;
  if (parts && attempt(s, apply)) return true;
  parts = std::nullopt;
  return attempt(s, apply);
}

bool tile_reduction(Schedule& s, BlockRV reduction, BlockRV epilogue, const Target& target,
                    std::vector<int32_t>& done) {
  return tile(s, reduction, epilogue, target, done, {});
}

}  // namespace tenon::rules
