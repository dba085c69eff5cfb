// SPDX-License-Identifier: Apache-2.0
// The choice of a register tile from a small model of the core: loads, multiply-adds, latency; and the facts
// about a reduction and its epilogue that the choice and its use share.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "autoschedule/tile.h"

namespace tenon::rules {

using namespace tir;

namespace {

/// Share of the steps along an iterator that fall inside. A symbolic size may be small, so large steps along
/// it are a small risk: what one row too many costs is hidden where weights come from memory.
double use_of(int64_t size, int64_t step) {
  return size == kUnknown ? 1.0 / (1 + 0.012 * double(step - 1))
                          : double(size) / double(ceil_div(size, step) * step);
}

/// Sizes of images and of sequences are multiples of small powers of two more often than not.
double likely_divides(int64_t step) { return step % 4 == 0 ? 1.06 : step % 2 == 0 ? 1.02 : 1; }

/// The same for rows. Among symbolic sizes the outermost is most likely a batch, often 1, and the last the
/// longest; sizes in use are multiples of 8 or 16 more often than of 7.
double row_use(const Facts& f, int iterator, int64_t step) {
  if (f.extent[size_t(iterator)] != kUnknown) return use_of(f.extent[size_t(iterator)], step);
  const double use = use_of(kUnknown, step) * (16 % step == 0 ? 1 : 0.97);
  bool last = true, other = false;
  for (int i : f.spatial) {
    if (i == iterator || f.extent[size_t(i)] != kUnknown) continue;
    other = true;
    last = last && dim_of(f, i) < dim_of(f, iterator);
  }
  if (other && dim_of(f, iterator) == 0) return 1.0 / double(step);
  // Windows and blocks of channels: rows that are no batch belong to images.
  const double whole = f.reduce.size() > 1 && dim_of(f, iterator) != 0 ? likely_divides(step) : 1;
  return whole * (last ? use : use / (1 + 0.03 * double(step - 1)));
}

/// Products side by side that read nothing together (the heads of an attention, the channels of a depthwise
/// convolution): rows of one serve better, even where it is not known how many there are.
bool nothing_shared(const Facts& f, int iterator) {
  return std::all_of(f.loads.begin(), f.loads.end(),
                     [&](const Access& l) { return l.stride[size_t(iterator)] != 0; });
}

/// What `count` lines that lie `stride` bytes apart cost more when they do not fit the first cache's sets:
/// pages of 4 KiB fall on the same sets.
double crowding(int64_t stride, int64_t count, const Target& target) {
  if (stride <= 0 || stride >= kIrregular) return 1;
  const int64_t ways = std::max<int64_t>(2, target->l1d_bytes / 4096),
                places = 4096 / std::gcd(stride, int64_t(4096));
  return ceil_div(count, places) > ways * 3 / 4 ? 3 : 1;
}

}  // namespace

/// Cycles of one step of a tile, per element: two loads and two multiply-adds a cycle, four cycles of
/// latency.
Tile choose_tile(const Facts& f, const Target& target, int along) {
  Tile best;
  const int64_t widest = lanes_for(f, target);
  const int64_t registers = std::max<int64_t>(8, target->vector_registers);
  const int64_t work = f.instances(false);
  int64_t steps = 1;
  for (int k : f.reduce)
    steps = f.extent[size_t(k)] == kUnknown ? 256 : steps * std::max<int64_t>(1, f.extent[size_t(k)]);
  for (int v : f.spatial) {
    if (along >= 0 && v != along) continue;
    if (f.write.stride[size_t(v)] == 0 || f.extent[size_t(v)] == 1) continue;
    for (int64_t lanes = widest; lanes >= std::min<int64_t>(4, widest); lanes /= 2) {
      if (lanes < 2) break;
      if (f.extent[size_t(v)] != kUnknown && f.extent[size_t(v)] * 2 <= lanes && lanes > 4) continue;
      for (int64_t vectors = 1; vectors <= 6; ++vectors) {
        bool usable = true;
        for (const Access& l : f.loads) {
          usable = usable && l.step(v, l.group > 1 ? lanes : lanes * vectors) != kIrregular;
          if (l.room > 0 && l.stride[size_t(v)] != 0)
            usable = usable && ceil_div(f.extent[size_t(v)], lanes * vectors) * lanes * vectors <= l.room;
        }
        if (!usable) continue;
        const double used = f.extent[size_t(v)] == kUnknown ? 0.9 / (1 + 0.15 * double(vectors - 1))
                                                            : use_of(f.extent[size_t(v)], lanes * vectors);
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
                if (c >= 0 && f.extent[size_t(m)] == kUnknown && nothing_shared(f, c)) break;
                // Sums lie as the result does: rows between two lanes would keep them out of registers.
                const int64_t apart_lanes = f.write.stride[size_t(v)];
                if ((m >= 0 && f.write.stride[size_t(m)] < apart_lanes) ||
                    (c >= 0 && f.write.stride[size_t(c)] < apart_lanes))
                  continue;
                const int64_t tile = vectors * count * columns;
                if (tile + vectors * columns + 1 > registers - 1) continue;
                double loads = 0, bytes = 0;
                for (const Access& l : f.loads) {
                  const int64_t sv = l.step(v, l.group > 1 ? lanes : lanes * vectors);
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
                  bytes +=
                      double(sv ? vectors * lanes : 1) * places * double(l.buffer->dtype.bits * l.group) / 8;
                }
                // A store that is not contiguous is paid once for the whole reduction.
                const double store = f.write.stride[size_t(v)] == 1 ? 0 : double(lanes * tile);
                // Among equals fewer loads win, and rows that lie near one another.
                double apart = 0;
                for (const Access& l : f.loads)
                  if (m >= 0 && l.stride[size_t(m)] >= 128)
                    apart += (l.stride[size_t(m)] >= 2048 ? 0.02 : 0.01) * double(count);
                // What a step reads comes from the second cache at best: near-square tiles read least.
                // Rows of a matrix that do not fit are clamped, each at an address of its own.
                const bool clamped = m >= 0 && c < 0 && f.reduce.size() == 1 &&
                                     f.extent[size_t(m)] != kUnknown && f.extent[size_t(m)] % count != 0;
                const double cycles = std::max({double(tile) / 2, loads / 2, 4.0}) * (clamped ? 1.01 : 1) +
                                      0.02 * loads + apart + bytes / 256 + store / double(steps);
                double time = cycles / (double(tile * lanes) * used * (m < 0 ? 1.0 : row_use(f, m, count)) *
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

namespace {
/// Bytes of the operands that move with an iterator; unknown sizes count as large.
double footprint(const Facts& f, int iterator) {
  double total = 0;
  for (const Access& l : f.loads) {
    if (l.stride[size_t(iterator)] == 0) continue;
    double n = double(l.buffer->dtype.bits) / 8;
    for (const PrimExpr& d : l.buffer->shape) n *= double(as_int(d).value_or(1024));
    total += n;
  }
  return total;
}

/// A symbolic size where only the order of loops depends on it.
int64_t likely(int64_t extent) { return extent == kUnknown ? 256 : extent; }

/// The same of one iterator and the sum, which is what the loops of a tile walk.
double walked(const Facts& f, int iterator) {
  double total = 0;
  for (const Access& l : f.loads) {
    if (l.stride[size_t(iterator)] == 0) continue;
    double n = double(l.buffer->dtype.bits) / 8 * double(likely(f.extent[size_t(iterator)]));
    for (int k : f.reduce)
      if (l.stride[size_t(k)] != 0) n *= double(likely(f.extent[size_t(k)]));
    total += n;
  }
  return total;
}

}  // namespace

/// Which operand is walked once, and which again and again: rows of the tile in the inner loop keep the other
/// operand's panel near and read their own operand for every panel.
bool walks_rows_last(const Facts& f, const Tile& tile, const Target& target) {
  const int64_t columns = f.extent[size_t(tile.vector)], rows = f.extent[size_t(tile.rows)];
  const bool plain = f.reduce.size() == 1;  // no window, where rows share what they read
  const bool symbolic = columns == kUnknown || rows == kUnknown;
  const double across = symbolic && plain ? walked(f, tile.vector) : footprint(f, tile.vector),
               along = symbolic && plain ? walked(f, tile.rows) : footprint(f, tile.rows);
  if (symbolic && !plain) return across > along;
  // What fits the second cache is read again at little cost.
  auto again = [&](double bytes, int64_t times) {
    return bytes * (1 + double(times - 1) * (bytes * 2 < double(target->l2_bytes) ? 0.1 : 1.0));
  };
  return again(along, ceil_div(likely(columns), tile.lanes * tile.vectors)) + across <
         again(across, ceil_div(likely(rows), tile.row_count)) + along;
}

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

std::vector<std::pair<int, int>> joinable(const Facts& f) {
  auto joined = [&](const Access& a, size_t i) { return one_array(f, a, i); };
  auto neighbours = [&](size_t i) {
    if (f.block->iter_vars[i]->kind != IterKind::spatial ||
        f.block->iter_vars[i + 1]->kind != IterKind::spatial)
      return false;
    if (f.extent[i] == 1 || f.extent[i + 1] == 1 || f.in_value[i] || f.in_value[i + 1] ||
        f.write.stride[i + 1] == 0)
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
Facts fused(const Facts& f, int first, int count) {
  Facts g = f;
  const size_t begin = size_t(first), end = begin + size_t(count);
  auto shrink = [&](auto& v, auto value) {
    v.erase(v.begin() + first, v.begin() + std::ptrdiff_t(end));
    v.insert(v.begin() + first, value);
  };
  int64_t extent = 1;
  for (size_t i = begin; i < end; ++i)
    extent = extent == kUnknown || f.extent[i] == kUnknown ? kUnknown : extent * f.extent[i];
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

}  // namespace tenon::rules
