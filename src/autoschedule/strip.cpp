// SPDX-License-Identifier: Apache-2.0
// Padding in strips: what a tiled reduction reads through a padded copy is padded a few rows at a time, where
// it is used, instead of as a whole through memory; of symbolic sizes, one plane at a time.
#include <algorithm>

#include "autoschedule/rules.h"

namespace tenon::rules {

using namespace tir;

namespace {

bool mentions(const PrimExpr& e, const VarRef& v) {
  bool found = false;
  pre_order(e, [&](const ObjectRef& n) {
    found = found || n.get() == v.get();
    return !found;
  });
  return found;
}

bool is_padding(const Facts& f) {
  const auto* store = f.block->body.as<BufferStore>();
  const auto* call = store ? store->value.as<Call>() : nullptr;
  return call && call->op == "tir.if_then_else" && f.loads.size() == 1 && !f.is_reduction() && !f.block->init;
}

/// Rows for one strip among the divisors of `steps`: little is padded twice, the strip fits the cache, and
/// the cores have enough of them. 0: none does.
int64_t rows_of(int64_t steps, int64_t stride, int64_t window, double row_bytes, int64_t others,
                const Target& target) {
  int64_t best = 0;
  double least = 2.2;
  for (int64_t rows = 1; rows <= steps; ++rows) {
    if (steps % rows || steps / rows * others < 4 * std::max<int64_t>(1, target->cores)) continue;
    const double held = double((rows - 1) * stride + window);
    if (held * row_bytes > double(target->l2_bytes) / 3) continue;
    const double twice = std::max(1.0, held / double(rows * stride));
    if (twice < least * 0.98) best = rows, least = twice;
  }
  return best;
}

}  // namespace

std::optional<Strip> padding_strip(Schedule& s, const Facts& f, const std::vector<int64_t>& step,
                                   const Target& target) {
  for (BlockRV p : s.get_producers(f.id)) {
    auto g = facts_of(s, p);
    if (!g || !is_padding(*g) || writes_parameter(s, p) || s.get_consumers(p).size() != 1) continue;
    const Access* read = nullptr;
    for (const Access& l : f.loads) {
      if (!l.buffer.same_as(g->write.buffer)) continue;
      if (read) return std::nullopt;
      read = &l;
    }
    if (!read) continue;
    // Dimensions with a window: an iterator of the result and one of the reduction.
    Strip strip;
    strip.pad = p;
    bool symbolic = false;
    double row_bytes = double(g->write.buffer->dtype.bytes());
    int64_t stride = 0, window = 1;
    std::vector<bool> windowed(f.extent.size(), false);
    for (size_t d = 0; d < read->indices.size(); ++d) {
      int moves = -1, slides = -1;
      for (int i : f.spatial)
        if (f.extent[size_t(i)] != 1 && mentions(read->indices[d], f.block->iter_vars[size_t(i)]->var))
          moves = i;
      for (int k : f.reduce)
        if (mentions(read->indices[d], f.block->iter_vars[size_t(k)]->var)) slides = k;
      const auto size = as_int(read->buffer->shape[d]);
      if (moves >= 0 && slides >= 0) {
        windowed[size_t(moves)] = true;
        if (strip.window < 0) {
          Analyzer a;
          std::vector<VarRef> vars{f.block->iter_vars[size_t(moves)]->var,
                                   f.block->iter_vars[size_t(slides)]->var};
          auto form = affine_form(read->indices[d], vars, a);
          if (!form || f.extent[size_t(slides)] == kUnknown) return std::nullopt;
          symbolic = symbolic || !size || f.extent[size_t(moves)] == kUnknown;
          strip.window = moves;
          for (auto& [v, c] : form->terms) {
            if (v.get() == vars[0].get()) stride = c;
            if (v.get() == vars[1].get()) window += c * (f.extent[size_t(slides)] - 1);
          }
          continue;
        }
      } else if (moves >= 0) {
        continue;  // one strip for each of its values
      }
      symbolic = symbolic || !size;
      row_bytes *= double(size.value_or(1));
    }
    if (strip.window < 0 || stride < 1) continue;
    int64_t others = 1;
    for (int i : f.spatial) {
      if (read->stride[size_t(i)] == 0 || windowed[size_t(i)] || f.extent[size_t(i)] == 1) continue;
      strip.apart.push_back(i);
      if (read->stride[size_t(i)] != 1 && f.extent[size_t(i)] != kUnknown) others *= f.extent[size_t(i)];
    }
    // Of symbolic sizes all rows are one strip, where enough strips stand side by side (the channels of
    // depthwise convolutions): it is read again while it is near, or else costs what the whole copy does.
    if (symbolic) {
      if (others < 4 * std::max<int64_t>(1, target->cores)) return std::nullopt;
      strip.rows = kUnknown;
      return strip;
    }
    // A copy that stays in the cache and is read often costs less than short strips.
    double bytes = double(g->write.buffer->dtype.bytes());
    for (const PrimExpr& d : g->write.buffer->shape) bytes *= double(as_int(d).value_or(1));
    const double reads = double(f.instances(false)) * double(g->write.buffer->dtype.bytes()) / bytes;
    if (reads > 64 && bytes < double(target->l2_bytes) / 2) continue;
    int64_t steps = f.extent[size_t(strip.window)];
    const int64_t at_once = step[size_t(strip.window)];
    if (steps % at_once) continue;
    window += (at_once - 1) * stride;
    steps /= at_once, stride *= at_once;
    strip.rows = rows_of(steps, stride, window, row_bytes, others, target);
    if (strip.rows > 0) return strip;
  }
  return std::nullopt;
}

void place_padding(Schedule& s, const Strip& strip, LoopRV around, const Target& target) {
  s.compute_at(strip.pad, around);
  vectorize_inner(s, strip.pad, 1, target);
}

}  // namespace tenon::rules
