// SPDX-License-Identifier: Apache-2.0
// The model of matrix registers: cycles of a multiplication, of loads and of what happens once per sum.
#include "analysis/cost/matrix.h"

#include <algorithm>

#include "target/matrix_registers.h"

namespace tenon::cost {
namespace {

// Measured on Sapphire Rapids (4th generation Xeon), one thread, in cycles.
constexpr double kLeastMultiply = 9;  ///< one multiplication takes a cycle for each row, and at least so many
constexpr double kPutAway = 28;       ///< a register to memory, from where the epilogue takes its rows
constexpr int64_t kPairOfLines =
    128;                             ///< bytes that the second cache reads at once, of which one line is half
constexpr double kStays = 0.5;       ///< of the first cache, for the operand along the lanes
constexpr int64_t kLeastHeight = 4;  ///< fewer rows leave most of a multiplication unused

/// Largest multiple of `unit` up to `most` that divides n; 0: none.
int64_t divisor(int64_t n, int64_t unit, int64_t most) {
  for (int64_t d = most / unit * unit; d >= unit; d -= unit)
    if (n % d == 0) return d;
  return 0;
}

/// Rows of the shared operand are regular along the iterator, and the other operand stands still. Those of
/// symbolic number are copied up to a whole tile, which windows would multiply.
bool rows_along(const Nest& n, const MatrixOperands& o, int i) {
  const Access& shared = n.loads[o.shared];
  if (i == o.lanes || (!n.symbolic(i) && n.extent[size_t(i)] < 2)) return false;
  if (n.symbolic(i) &&
      std::ranges::any_of(shared.index, [](const Index& x) { return x.iterators.size() > 1; }))
    return false;
  const int64_t step = shared.stride[size_t(i)];
  return step > 0 && step < kIrregular && n.loads[o.along].stride[size_t(i)] == 0 &&
         n.write.stride[size_t(i)] >= n.write.stride[size_t(o.lanes)];
}

/// Cycles for one group of products that counts.
double matrix_time(const Nest& n, const MatrixOperands& o, const MatrixTile& m, const Target& target) {
  const Tile& t = m.tile;
  const double down = double(t.row_count / m.height * t.row2_count), across = double(t.vectors);
  const double groups = double(m.steps / o.group), height = double(m.height);
  const double loads = (down * height + across * groups) / double(target->load_ports);
  const double multiplies = down * across * std::max(kLeastMultiply, height);
  const double bytes = (down * height + across * groups) * double(kMatrixRowBytes);
  double steps = 1;
  for (int k : n.reduce) steps *= double(n.extent[size_t(k)]);
  steps /= double(m.steps);
  const double once = down * across * kPutAway / steps;
  // Lanes of all steps that do not stay in the first cache come from the second in every tile.
  const double lanes_of_step = groups * double(std::max(kPairOfLines, t.vectors * kMatrixRowBytes));
  const bool stays = lanes_of_step * steps <= kStays * double(target->l1d_bytes);
  const double fetches = stays ? 0 : lanes_of_step / target->l2_bandwidth;
  const double cycles =
      std::max({loads, multiplies, fetches}) + bytes * kNotHidden / target->l2_bandwidth + once;
  const int64_t lanes = n.extent[size_t(t.vector)];
  const double use = double(lanes) / double(ceil_div(lanes, t.width()) * t.width()) *
                     row_use(n, t.rows, t.row_count) *
                     (t.rows2 < 0 ? 1.0 : row_use(n, t.rows2, t.row2_count));
  return cycles / (down * height * double(t.width()) * groups * use);
}

}  // namespace

MatrixTile choose_matrix_tile(const Nest& nest, const MatrixOperands& o, const Target& target) {
  const Access &along = nest.loads[o.along], &shared = nest.loads[o.shared];
  MatrixTile best;
  if (!multiplies_matrices(target, shared.buffer->dtype, along.buffer->dtype)) return best;
  if (std::ranges::any_of(nest.reduce, [&](int k) { return nest.symbolic(k); })) return best;
  const int64_t elements = kMatrixRowBytes * 8 / shared.element_bits();
  const int64_t steps = divisor(nest.extent[size_t(o.sum)], o.group, elements);
  if (steps == 0 || shared.step(o.sum, steps) != 1) return best;
  best.tile.time = 1e30;
  auto consider = [&](MatrixTile m) {
    for (int64_t across = 1; across <= kMatrixSums; ++across) {
      m.tile.vectors = across;
      if (m.tile.row_count / m.height * m.tile.row2_count * across > kMatrixSums ||
          along.step(o.lanes, m.tile.width()) != o.group)
        continue;
      const int64_t lanes = ceil_div(nest.extent[size_t(o.lanes)], m.tile.width()) * m.tile.width();
      if (lanes > std::max(along.lane_limit, nest.extent[size_t(o.lanes)])) continue;
      m.tile.time = matrix_time(nest, o, m, target);
      if (m.tile.time < best.tile.time * kClearlyLess) best = m;
    }
  };
  for (int i : nest.spatial) {
    if (!rows_along(nest, o, i)) continue;
    const bool known = !nest.symbolic(i);
    const int64_t most = known ? nest.extent[size_t(i)] : kMatrixRows * kMatrixSums,
                  highest = std::min(kMatrixRows, most);
    for (int64_t height = highest; height >= (known ? kLeastHeight : highest); --height) {
      for (int64_t down = 1; down <= kMatrixSums && height * down <= most; ++down) {
        const int64_t rows = height * down;
        MatrixTile m{{.vector = o.lanes, .rows = i, .lanes = kMatrixLanes, .row_count = rows}, height, steps};
        consider(m);
        for (int j : nest.spatial) {
          if (down > 1 || j == i || nest.symbolic(j) || !rows_along(nest, o, j)) continue;
          for (int64_t second = 2; second <= kMatrixSums; ++second) {
            if (second > nest.extent[size_t(j)]) continue;
            m.tile.rows2 = j, m.tile.row2_count = second;
            consider(m);
          }
          m.tile.rows2 = -1, m.tile.row2_count = 1;
        }
      }
    }
  }
  return best;
}

}  // namespace tenon::cost
