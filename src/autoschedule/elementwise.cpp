// SPDX-License-Identifier: Apache-2.0
// Rules for blocks without a reduction: inlining, fused loops over contiguous memory, vectors, tiles for
// transpositions.
#include <algorithm>

#include "autoschedule/rules.h"

namespace tenon::rules {

using namespace tir;

/// Instances where symbolic sizes count as so many: what matters is how often one element is read.
static double nominal(const Facts& f, bool only_spatial) {
  double n = 1;
  for (size_t i = 0; i < f.extent.size(); ++i)
    if (!only_spatial || std::find(f.spatial.begin(), f.spatial.end(), int(i)) != f.spatial.end())
      n *= f.extent[i] == kUnknown ? 64.0 : double(f.extent[i]);
  return n;
}

void inline_producers(Schedule& s) {
  for (BlockRV b : s.blocks()) {
    if (writes_parameter(s, b)) continue;
    auto f = facts_of(s, b);
    if (!f || f->is_reduction() || f->block->init) continue;
    std::vector<BlockRV> consumers = s.get_consumers(b);
    bool wanted = !consumers.empty();
    const bool moves_only =
        f->cost <= 1.5 && !std::any_of(f->in_value.begin(), f->in_value.end(), [](bool x) { return x; });
    int uses = 0;
    for (BlockRV c : consumers) {
      auto g = facts_of(s, c);
      if (!g) {
        wanted = wanted && f->cost <= 4;
        ++uses;
        continue;
      }
      for (const Access& l : g->loads) {
        if (!l.buffer.same_as(f->write.buffer)) continue;
        ++uses;
        // How often is one element read? More instances than elements means it is computed again each time.
        bool reused = false, irregular = false;
        for (size_t i = 0; i < l.stride.size(); ++i) {
          if (l.stride[i] == 0 && g->extent[i] != 1) reused = true;
          irregular = irregular || l.stride[i] == kIrregular;
        }
        if (nominal(*g, false) > nominal(*f, true) * 2) reused = true;
        if (!reused) continue;
        bool plain_index = moves_only && !irregular;
        for (const Access& from : f->loads)
          for (int64_t st : from.stride) plain_index = plain_index && st < kIrregular;
        if (g->is_reduction() && !plain_index) wanted = false;
        if (f->cost > 8 && !plain_index) wanted = false;
      }
    }
    if (uses > 1 && f->cost > 10) wanted = false;
    if (wanted) attempt(s, [&](Schedule& t) { t.compute_inline(b); });
  }
}

namespace {

/// Where the loops `from`… that may run as one over memory begin: every access steps through them as through
/// one array, or not at all.
size_t contiguous_from(const Facts& f, size_t first) {
  size_t at = f.extent.size() - 1;
  auto joined = [&](const Access& a, size_t i) {
    if (f.extent[i] == 1 && a.stride[i] != kIrregular && a.stride[i + 1] != kIrregular) return true;
    return one_array(f, a, i);
  };
  while (at > first) {
    const size_t i = at - 1;
    if (f.in_value[i] || f.in_value[at]) break;
    bool all = joined(f.write, i);
    for (const Access& l : f.loads) all = all && joined(l, i);
    if (!all) break;
    at = i;
  }
  return at;
}

bool unit_or_still(const Facts& f, size_t axis) {
  if (f.write.stride[axis] != 1) return false;
  for (const Access& l : f.loads)
    if (l.stride[axis] != 0 && l.stride[axis] != 1) return false;
  return true;
}

int64_t pick_lanes(int64_t size, int64_t lanes) {
  if (size == kUnknown) return lanes;
  while (lanes > 4 && lanes > size) lanes /= 2;
  if (lanes > size) return 1;
  if (size % lanes == 0) return lanes;
  if (lanes >= 8 && size % (lanes / 2) == 0 && size < 8 * lanes) return lanes / 2;
  return lanes;
}

}  // namespace

bool elementwise(Schedule& s, BlockRV b, const Target& target) {
  auto found = facts_of(s, b);
  if (!found || found->is_reduction()) return false;
  const Facts f = *found;
  if (f.extent.empty()) return true;
  const size_t n = f.extent.size();
  const int64_t total = f.instances(true);
  const bool small = total != kUnknown && double(total) * f.cost < 16384;
  // A read along another axis than the write: tiles that fit the cache.
  int other = -1;
  for (const Access& l : f.loads)
    for (size_t i = 0; i + 1 < n; ++i)
      if (l.stride[i] == 1 && f.extent[i] >= 16 && l.stride[n - 1] > 1 && f.extent[n - 1] >= 16)
        other = int(i);
  if (other >= 0 && f.write.stride[n - 1] == 1) {
    return attempt(s, [&](Schedule& t) {
      std::vector<LoopRV> loops = t.get_loops(b);
      std::vector<LoopRV> rows = t.split(loops[size_t(other)], {-1, 16}),
                          columns = t.split(loops[n - 1], {-1, 16});
      std::vector<LoopRV> order;
      for (size_t i = 0; i + 1 < n; ++i) order.push_back(int(i) == other ? rows[0] : loops[i]);
      order.push_back(columns[0]);
      std::vector<LoopRV> outer = order;
      order.push_back(rows[1]);
      order.push_back(columns[1]);
      t.reorder(order);
      LoopRV all = t.fuse(outer);
      if (!small) t.parallel(all);
    });
  }
  const bool vectors = unit_or_still(f, n - 1);
  const size_t from = vectors ? contiguous_from(f, 0) : n - 1;
  int64_t size = 1, outer = 1;
  for (size_t i = 0; i < n; ++i) {
    int64_t& x = i >= from ? size : outer;
    if (x == kUnknown || f.extent[i] == kUnknown)
      x = kUnknown;
    else
      x *= f.extent[i];
  }
  const int64_t lanes = vectors ? pick_lanes(size, lanes_for(f, target)) : 1;
  return attempt(s, [&](Schedule& t) {
    std::vector<LoopRV> loops = t.get_loops(b);
    std::vector<LoopRV> tail(loops.begin() + std::ptrdiff_t(from), loops.end()),
        head(loops.begin(), loops.begin() + std::ptrdiff_t(from));
    LoopRV inner = t.fuse(tail);
    // Too few outer iterations: a share of the long inner loop becomes one.
    const bool chunks = vectors && (outer == kUnknown ? false : outer < 4 * target->cores) &&
                        (size == kUnknown || size >= 16 * lanes);
    if (lanes > 1) {
      std::vector<int64_t> factors{-1, lanes};
      if (chunks) {
        int64_t share = 64;  // vectors
        if (size != kUnknown && outer > 0)
          while (share > 8 && size / (share * lanes) * outer < 4 * target->cores) share /= 2;
        if (size != kUnknown && size % lanes == 0)
          while (share > 8 && (size / lanes) % share) --share;
        factors = {-1, share, lanes};
      }
      std::vector<LoopRV> parts = t.split(inner, factors);
      t.vectorize(parts.back());
      if (chunks || head.empty()) head.push_back(parts[0]);
    } else if (head.empty()) {
      head.push_back(inner);
    }
    // Digits of symbolic sizes are divisions: the last loop around short vectors stays by itself.
    bool symbolic = false;
    for (size_t i = 0; i < from; ++i) symbolic = symbolic || f.extent[i] == kUnknown;
    if (symbolic && !chunks && size != kUnknown && size <= std::max<int64_t>(4 * lanes, 64) &&
        head.size() > 1)
      head.pop_back();
    LoopRV all = t.fuse(head);
    if (!small) t.parallel(all);
  });
}

void vectorize_inner(Schedule& s, BlockRV b, size_t outer_loops, const Target& target) {
  // Loops below the outer ones were made by compute_at: read strides off the bindings of the last loop.
  std::vector<LoopRV> loops = s.get_loops(b);
  if (loops.size() <= outer_loops) return;
  Ref<BlockRealize> r = s.realize(b);
  Ref<Block> block = r->block;
  LoopRV last = loops.back();
  Ref<For> loop = s.get(last);
  const auto* store = block->body.as<BufferStore>();
  if (!store) return;
  std::vector<VarRef> vars{loop->loop_var};
  VarMap values;
  for (size_t i = 0; i < r->iter_values.size(); ++i)
    values[block->iter_vars[i]->var.get()] = r->iter_values[i];
  Analyzer a;
  int bits = std::max<int>(8, store->buffer->dtype.bits);
  auto step = [&](const Array<PrimExpr>& indices) -> int64_t {
    int64_t out = 0;
    for (size_t d = 0; d < indices.size(); ++d) {
      PrimExpr e = substitute(indices[d], values);
      auto form = affine_form(e, vars, a);
      if (!form) return kIrregular;
      for (auto& [v, c] : form->terms) out = d + 1 == indices.size() ? out + c : kIrregular;
    }
    return out;
  };
  bool unit = step(store->indices) == 1;
  pre_order(store->value, [&](const ObjectRef& n) {
    if (const auto* l = n.as<BufferLoad>()) {
      const int64_t st = step(l->indices);
      unit = unit && (st == 0 || st == 1);
      bits = std::max<int>(bits, l->buffer->dtype.bits);
      return false;
    }
    return true;
  });
  if (!unit) return;
  int64_t lanes = 1;
  while (lanes * 2 <= target->vector_bits / bits) lanes *= 2;
  lanes = pick_lanes(as_int(loop->extent).value_or(kUnknown), lanes);
  if (lanes < 2) return;
  attempt(s, [&](Schedule& t) {
    if (as_int(loop->extent) == lanes)
      t.vectorize(last);
    else
      t.vectorize(t.split(last, {-1, lanes})[1]);
  });
}

void fallback(Schedule& s, BlockRV b) {
  // Outer loops that are independent, as one, parallel.
  std::vector<LoopRV> loops = s.get_loops(b);
  for (size_t n = loops.size(); n > 0; --n) {
    std::vector<LoopRV> head(loops.begin(), loops.begin() + std::ptrdiff_t(n));
    if (attempt(s, [&](Schedule& t) { t.parallel(t.fuse(head)); })) return;
  }
}

}  // namespace tenon::rules
