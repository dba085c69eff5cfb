// SPDX-License-Identifier: Apache-2.0
#include "op/step_products.h"

#include <algorithm>

#include "op/program.h"
#include "target/matrix_registers.h"

namespace tenon::op {

using tir::Buffer;
using tir::Stmt;

Stmt products_one_by_one(const StepProducts& p) {
  const DataType t = p.sums->dtype;
  return each("k", p.units, [&](const PrimExpr& k) {
    Array<Stmt> terms;
    for (int64_t g = p.from; g < p.to; ++g)
      for (size_t i = 0; i < p.n.size(); ++i) {
        const tir::VarRef lane = tir::var("lane");
        const PrimExpr w = tir::cast(t, tir::load(p.weights, {p.at, PrimExpr(g), k, lane})),
                       at = p.sum_at(PrimExpr(int64_t(i)), g, lane);
        const Stmt gain = tir::store(p.sums, tir::load(p.sums, {at}) + p.of(p.n[i], k) * w, {at});
        terms.push_back(tir::for_(lane, PrimExpr(0), PrimExpr(p.block), gain, tir::ForKind::vectorized));
      }
    return tir::seq(terms);
  });
}

Stmt products_by_groups(const StepProducts& p, int64_t lanes) {
  auto ramp = [](const PrimExpr& begin, int64_t n) {
    return PrimExpr(make<tir::Ramp>(begin, PrimExpr(1), n));
  };
  const int64_t width = std::min(lanes, p.block);
  const DataType type = p.sums->dtype.with_lanes(int(width));
  return each("k", simplify(tir::floordiv(p.units, PrimExpr(p.group))), [&](const PrimExpr& k) {
    Array<Stmt> terms;
    for (int64_t g = p.from; g < p.to; ++g)
      for (int64_t lane = 0; lane < p.block; lane += width)
        for (size_t i = 0; i < p.n.size(); ++i) {
          const PrimExpr at = ramp(simplify(p.sum_at(PrimExpr(int64_t(i)), g, PrimExpr(lane))), width);
          const PrimExpr w =
              tir::load(p.weights, {p.at, PrimExpr(g), k, ramp(PrimExpr(lane * p.group), width * p.group)});
          const PrimExpr x = p.of(p.n[i], ramp(k * PrimExpr(p.group), p.group));
          terms.push_back(
              tir::store(p.sums, tir::call(type, "tir.dot", {tir::load(p.sums, {at}), x, w}), {at}));
        }
    return tir::seq(terms);
  });
}

namespace {

/// A few registers of sums: `count` from the first one on, in the order of gates and of lanes.
struct HeldSums {
  const StepProducts& p;
  int64_t first, count;
  Buffer matrix;

  int64_t rows() const { return int64_t(p.n.size()); }
  /// Loops over each register (target/matrix_registers.h).
  template <class F>
  Stmt each_register(F body) const {
    const int64_t in_block = p.block / kMatrixLanes;
    AttrMap says;
    says.set(kMatrixLoops, Any(true));
    Array<Stmt> all;
    for (int64_t m = 0; m < count; ++m) {
      const tir::VarRef row = tir::var("row"), lane = tir::var("lane");
      const int64_t gate = p.from + (first + m) / in_block;
      const PrimExpr in_gate = PrimExpr((first + m) % in_block * kMatrixLanes) + lane;
      const Stmt inner =
          body(Array<PrimExpr>{PrimExpr(m * rows()) + row, lane}, gate, PrimExpr(row), in_gate);
      all.push_back(make<tir::For>(row, PrimExpr(0), PrimExpr(rows()), tir::ForKind::serial,
                                   tir::for_(lane, PrimExpr(0), PrimExpr(kMatrixLanes), inner), std::string(),
                                   says));
    }
    return tir::seq(all);
  }
  Stmt zeros() const {
    return each_register([&](const Array<PrimExpr>& at, int64_t, const PrimExpr&, const PrimExpr&) {
      return tir::store(matrix, constant(matrix->dtype, 0), at);
    });
  }
  Stmt products() const {
    const DataType t = matrix->dtype;
    const int64_t neighbours = kMatrixRowBytes / p.weights->dtype.bytes();
    return each("k", simplify(tir::floordiv(p.units, PrimExpr(neighbours))), [&](const PrimExpr& k) {
      return each_register(
          [&](const Array<PrimExpr>& at, int64_t gate, const PrimExpr& row, const PrimExpr& lane) {
            return each("neighbour", PrimExpr(neighbours), [&](const PrimExpr& q) {
              const PrimExpr unit = k * PrimExpr(neighbours) + q, group(p.group);
              const PrimExpr w = tir::load(p.weights, {p.at, PrimExpr(gate), tir::floordiv(unit, group),
                                                       lane * group + tir::floormod(unit, group)});
              const PrimExpr product = tir::cast(t, p.of(p.n[0] + row, unit)) * tir::cast(t, w);
              return tir::store(matrix, tir::load(matrix, at) + product, at);
            });
          });
    });
  }
  Stmt copies() const {
    return each_register(
        [&](const Array<PrimExpr>& at, int64_t gate, const PrimExpr& row, const PrimExpr& lane) {
          return tir::store(p.sums, tir::load(matrix, at), {p.sum_at(row, gate, lane)});
        });
  }
};

}  // namespace

Stmt products_in_matrix_registers(const StepProducts& p) {
  const int64_t all = (p.to - p.from) * (p.block / kMatrixLanes), rows = int64_t(p.n.size());
  const int64_t passes = (all + kMatrixSums - 1) / kMatrixSums, held = (all + passes - 1) / passes;
  Array<Stmt> out;
  for (int64_t first = 0; first < all; first += held) {
    const int64_t count = std::min(held, all - first);
    const HeldSums h{
        p, first, count,
        tir::buffer("matrix", {PrimExpr(count * rows), PrimExpr(kMatrixLanes)}, p.sums->dtype, kMatrixScope)};
    out.push_back(make<tir::Allocate>(h.matrix, tir::seq({h.zeros(), h.products(), h.copies()}), AttrMap()));
  }
  return tir::seq(out);
}

}  // namespace tenon::op
