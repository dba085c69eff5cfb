// SPDX-License-Identifier: Apache-2.0
// Padding where it is read: what a tiled reduction reads through a padded copy is padded a block of rows at a
// time, just before it is used, instead of as a whole through memory; of symbolic sizes, one plane at a time.
#include <algorithm>

#include "autoschedule/tile.h"

namespace tenon::rules {

using namespace tir;

namespace {

bool is_padding(const Facts& f) {
  const auto* store = f.block->body.as<BufferStore>();
  const auto* call = store ? store->value.as<Call>() : nullptr;
  return call && call->op == "tir.if_then_else" && f.loads.size() == 1 && !f.is_reduction() && !f.block->init;
}

/// A padded dimension that a window walks: an iterator of the result moves it, one of the sum slides in it.
struct Window {
  int moves = -1, slides = -1;
};
Window window_of(const Facts& f, const cost::Index& index) {
  Window out;
  for (int i : index.iterators) {
    const bool sum = std::find(f.reduce.begin(), f.reduce.end(), i) != f.reduce.end();
    if (sum)
      out.slides = i;
    else if (f.extent[size_t(i)] != 1)
      out.moves = i;
  }
  return out;
}

/// How a reduction reads a padded copy.
struct PaddedRead {
  cost::PaddedRows rows;  ///< one by one
  int window = -1;        ///< the iterator that moves along the rows; -1: no window
  std::vector<int> planes;
  bool symbolic = false;
};

/// Rows along the first dimension with a window; null when its window is not affine.
std::optional<PaddedRead> read_of(const Facts& f, const Access& read) {
  PaddedRead out;
  out.rows.row_bytes = double(read.buffer->dtype.bytes());
  std::vector<bool> windowed(f.extent.size(), false);
  for (size_t d = 0; d < read.indices.size(); ++d) {
    const Window w = window_of(f, read.index[d]);
    const auto size = as_int(read.buffer->shape[d]);
    const bool window = w.moves >= 0 && w.slides >= 0;
    if (window) windowed[size_t(w.moves)] = true;
    if (w.moves >= 0 && !window) continue;  // a block for each of its values
    if (window && out.window < 0) {
      Analyzer a;
      const int64_t taps = f.extent[size_t(w.slides)];
      const std::vector<VarRef> vars{f.block->iter_vars[size_t(w.moves)]->var,
                                     f.block->iter_vars[size_t(w.slides)]->var};
      const auto form = affine_form(read.indices[d], vars, a);
      if (!form || taps == kUnknown) return std::nullopt;
      out.symbolic = out.symbolic || !size || f.symbolic(w.moves);
      out.window = w.moves;
      out.rows.stride = 0;
      for (auto& [v, c] : form->terms) {
        if (v.get() == vars[0].get()) out.rows.stride = c;
        if (v.get() == vars[1].get()) out.rows.window += c * (taps - 1);
      }
      continue;
    }
    out.symbolic = out.symbolic || !size;
    out.rows.row_bytes *= double(size.value_or(1));
  }
  for (int i : f.spatial) {
    if (read.stride[size_t(i)] == 0 || windowed[size_t(i)] || f.extent[size_t(i)] == 1) continue;
    out.planes.push_back(i);
    if (read.stride[size_t(i)] != 1 && !f.symbolic(i)) out.rows.others *= f.extent[size_t(i)];
  }
  return out;
}

/// Would a whole copy stay in the cache and be read often?
bool whole_copy_pays(const Facts& f, const Buffer& padded, const Target& target) {
  double bytes = double(padded->dtype.bytes());
  for (const PrimExpr& d : padded->shape) bytes *= double(as_int(d).value_or(1));
  return cost::worth_whole_copy(bytes, double(f.instances(false)) * double(padded->dtype.bytes()) / bytes,
                                target);
}

/// The only read of what `pad` makes; null when the reduction reads it more than once, or not.
const Access* read_by(const Facts& f, const Facts& pad) {
  const Access* read = nullptr;
  for (const Access& l : f.loads) {
    if (!l.buffer.same_as(pad.write.buffer)) continue;
    if (read) return nullptr;
    read = &l;
  }
  return read;
}

}  // namespace

std::optional<PadRows> pad_rows(Schedule& s, const Facts& f, const Tile& tile, const Target& target) {
  for (BlockRV p : s.get_producers(f.id)) {
    const auto pad = facts_of(s, p);
    if (!pad || !is_padding(*pad) || writes_parameter(s, p) || s.get_consumers(p).size() != 1) continue;
    const Access* read = read_by(f, *pad);
    if (!read) continue;
    const auto found = read_of(f, *read);
    if (!found) return std::nullopt;
    if (found->window < 0 || found->rows.stride < 1) continue;
    PadRows out{p, found->window, kUnknown, found->planes};
    cost::PaddedRows rows = found->rows;
    // Of symbolic sizes all rows are one block, where a plane for each core stands side by side (the channels
    // of depthwise convolutions): it is read again while it is in the cache, or else costs what the whole
    // copy does.
    // A single row of an image is read before it has reached the cache.
    const bool single =
        std::ranges::any_of(out.planes, [&](int i) { return f.symbolic(i) && f.result_dim(i) > 0; });
    if (found->symbolic) return single || rows.others < target->cores ? std::nullopt : std::optional(out);
    if (whole_copy_pays(f, pad->write.buffer, target)) continue;
    // Rows of a tile are one step.
    const int64_t at_once = out.window == tile.vector ? 1 : tile.size(out.window);
    rows.steps = f.extent[size_t(out.window)];
    if (rows.steps % at_once) continue;
    rows.window += (at_once - 1) * rows.stride;
    rows.steps /= at_once, rows.stride *= at_once;
    out.rows = cost::rows_of_block(rows, target);
    if (out.rows > 0) return out;
  }
  return std::nullopt;
}

}  // namespace tenon::rules
