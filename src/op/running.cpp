// SPDX-License-Identifier: Apache-2.0
// Running sums and other folds whose every step is a result. Along memory a vector of elements is folded in
// log2 steps, each with the vector moved by some lanes, and the value before it added at once, so that the
// chain from vector to vector is one step long. Across memory whole rows are added, lane by lane.
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "base/define_type.h"
#include "op/family.h"
#include "op/program.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;

/// Elements that are folded at once: a vector of the widest targets.
constexpr int64_t kFoldedLanes = 16;
/// Vectors of a row that one task takes, where steps go across memory: they stay in the first cache from one
/// step to the next.
constexpr int64_t kPanelVectors = 64;

Type infer_running(InferContext& ctx, Domain domain) {
  const auto& x = ctx.tensor(0);
  if (!ctx.expect_domain(x.dtype, domain)) return {};
  if (!ctx.expect_axis(ctx.attrs<CumsumAttrs>().axis, x.ndim)) return {};
  return like(x, x.dtype);
}

/// What a running fold begins with, and how it goes on.
struct Running {
  OpName name;
  const char* doc;
  double identity;
  BinaryRule step;
};
PrimExpr log_of_sum(const PrimExpr& a, const PrimExpr& b) {
  const PrimExpr most = tir::max(a, b);
  const PrimExpr ln2 = splat(constant(a.dtype().element(), std::numbers::ln2), a.dtype().lanes);
  return tir::select(tir::eq(a, b), a + ln2,
                     most + tir::call(a.dtype(), "tir.log1p", {tir::exp(-tir::abs(a - b))}));
}
const Running runnings[] = {
    {"cumsum", "Running sum along an axis.", 0, [](const PrimExpr& a, const PrimExpr& b) { return a + b; }},
    {"cumprod", "Running product along an axis.", 1,
     [](const PrimExpr& a, const PrimExpr& b) { return a * b; }},
    {"cummax", "Largest element so far along an axis; NaN propagates.", -INFINITY, tir::max},
    {"cummin", "Smallest element so far along an axis; NaN propagates.", INFINITY, tir::min},
    {"logcumsumexp", "Running log(sum(exp(x))) along an axis, without overflow.", -INFINITY, log_of_sum},
};
/// The infinities of integers are their ends.
PrimExpr identity_of(DataType t, double v) {
  if (t.is_float() || std::isfinite(v)) return constant(t, v);
  return v > 0 ? tir::max_value(t) : tir::min_value(t);
}

/// The program. Steps are counted in the direction of the fold.
struct RunningFold {
  const Running& rule;
  const CumsumAttrs& a;
  Shape shape;
  size_t axis;
  DataType acc;
  tir::Buffer x, y;

  const PrimExpr& n() const { return shape[axis]; }
  PrimExpr zero() const { return identity_of(acc, rule.identity); }
  /// Where step t is; `rest` are the other indices.
  Shape place(const Shape& rest, const PrimExpr& t) const {
    Shape at = rest;
    at.insert(axis, a.reverse ? simplify(n() - 1 - t) : t);
    return at;
  }
  PrimExpr element(const Shape& at) const {
    const PrimExpr e = tir::load(x, at);
    return tir::cast(acc.with_lanes(e.dtype().lanes), e);
  }

  /// `body` for the elements [from, to) of a row, in vectors and one by one.
  static tir::Stmt in_vectors(const PrimExpr& from, const PrimExpr& to,
                              const std::function<tir::Stmt(const PrimExpr& at, int64_t lanes)>& body) {
    const PrimExpr vectors = simplify(tir::floordiv(to - from, PrimExpr(kFoldedLanes)));
    const PrimExpr rest = simplify(from + vectors * kFoldedLanes);
    return tir::seq(
        {each("v", vectors, [&](const PrimExpr& v) { return body(from + v * kFoldedLanes, kFoldedLanes); }),
         each("i", simplify(to - rest), [&](const PrimExpr& i) { return body(rest + i, 1); })});
  }

  // ---------------------------------------------------------------- across memory
  /// All steps of the elements [from, to) of the last axis; `rest` lacks the axes of the fold and of the
  /// lanes.
  tir::Stmt across(const Shape& rest, const PrimExpr& from, const PrimExpr& to) const {
    auto at = [&](const PrimExpr& t, const PrimExpr& i, int64_t lanes) {
      Shape other = rest;
      other.push_back(lanes == 1 ? i : PrimExpr(make<tir::Ramp>(i, PrimExpr(1), lanes)));
      return place(other, t);
    };
    auto row = [&](const PrimExpr& t, bool first) {
      return in_vectors(from, to, [&](const PrimExpr& i, int64_t lanes) {
        const PrimExpr none = splat(zero(), lanes);
        const PrimExpr before = first ? none : tir::load(y, at(t - 1, i, lanes));
        const PrimExpr own = !a.exclusive ? element(at(t, i, lanes))
                             : first      ? none
                                          : element(at(t - 1, i, lanes));
        return tir::store(y, rule.step(before, own), at(t, i, lanes));
      });
    };
    return tir::seq(
        {each("t", simplify(tir::min(n(), PrimExpr(1))), [&](const PrimExpr& t) { return row(t, true); }),
         each("t", simplify(tir::max(n() - 1, PrimExpr(0))),
              [&](const PrimExpr& t) { return row(t + 1, false); })});
  }
  tir::Stmt all_across() const {
    Shape tasks = shape;
    tasks.erase(axis);
    const PrimExpr width = tasks.back(), panel(kPanelVectors * kFoldedLanes);
    tasks.set(tasks.size() - 1, simplify(tir::ceildiv(width, panel)));
    return each(
        "task", simplify(product(tasks)),
        [&](const PrimExpr& task) {
          Shape rest = unflatten_index(task, tasks);
          const PrimExpr from = simplify(rest.back() * panel);
          rest.pop_back();
          return across(rest, from, simplify(tir::min(from + panel, width)));
        },
        true);
  }

  // ---------------------------------------------------------------- along memory
  PrimExpr lane_of(const PrimExpr& v, int64_t lane) const {
    return make<tir::Shuffle>(Array<PrimExpr>{v}, Array<int64_t>{lane});
  }
  /// The lanes of v, `by` steps later; the first ones hold the identity.
  PrimExpr later(const PrimExpr& v, int64_t by) const {
    Array<int64_t> order;
    for (int64_t l = 0; l < kFoldedLanes; ++l) {
      const int64_t from = a.reverse ? l + by : l - by;
      order.push_back(from >= 0 && from < kFoldedLanes ? from : kFoldedLanes);
    }
    return make<tir::Shuffle>(Array<PrimExpr>{v, splat(zero(), kFoldedLanes)}, order);
  }
  /// `body` with the fold of each lane and all before it.
  tir::Stmt folded(const PrimExpr& v, int64_t by,
                   const std::function<tir::Stmt(const PrimExpr&)>& body) const {
    if (by >= kFoldedLanes) return body(v);
    return named("folded", rule.step(later(v, by), v),
                 [&](const PrimExpr& next) { return folded(next, by * 2, body); });
  }
  /// The vector of steps from t on; `carry` holds the fold of those before.
  tir::Stmt vector(const Shape& row, const PrimExpr& t, const tir::Buffer& carry) const {
    const PrimExpr first = simplify(a.reverse ? n() - kFoldedLanes - t : t);
    Shape at = row;
    at.insert(axis, make<tir::Ramp>(first, PrimExpr(1), kFoldedLanes));
    return named("own", element(at), [&](const PrimExpr& own) {
      return folded(own, 1, [&](const PrimExpr& all) {
        const PrimExpr before = splat(tir::load(carry, {PrimExpr(0)}), kFoldedLanes);
        const PrimExpr shown = a.exclusive ? later(all, 1) : all;
        return tir::seq({tir::store(y, rule.step(before, shown), at),
                         tir::store(carry,
                                    rule.step(tir::load(carry, {PrimExpr(0)}),
                                              lane_of(all, a.reverse ? 0 : kFoldedLanes - 1)),
                                    {PrimExpr(0)})});
      });
    });
  }
  tir::Stmt one(const Shape& row, const PrimExpr& t, const tir::Buffer& carry) const {
    const Shape at = place(row, t);
    return named("before", tir::load(carry, {PrimExpr(0)}), [&](const PrimExpr& before) {
      return named("after", rule.step(before, element(at)), [&](const PrimExpr& after) {
        return tir::seq({tir::store(y, a.exclusive ? rule.step(before, zero()) : after, at),
                         tir::store(carry, after, {PrimExpr(0)})});
      });
    });
  }
  tir::Stmt all_along() const {
    Shape rows = shape;
    rows.erase(axis);
    return each(
        "row", simplify(product(rows)),
        [&](const PrimExpr& row) {
          const Shape at = unflatten_index(row, rows);
          const tir::Buffer carry = tir::buffer("carry", {PrimExpr(1)}, acc, "local");
          return tir::Stmt(make<tir::Allocate>(carry,
                                               tir::seq({tir::store(carry, zero(), {PrimExpr(0)}),
                                                         in_vectors(PrimExpr(0), n(),
                                                                    [&](const PrimExpr& t, int64_t lanes) {
                                                                      return lanes == 1
                                                                                 ? one(at, t, carry)
                                                                                 : vector(at, t, carry);
                                                                    })}),
                                               AttrMap()));
        },
        true);
  }
};

/// Axes of one element behind the fold leave it along memory.
Tensors def_running(const Call& call, const Tensors& in, const Running& rule) {
  const auto& a = attrs_of<CumsumAttrs>(call);
  const te::Tensor& x = in[0];
  const auto axis = size_t(normal_axis(a.axis, int64_t(x.ndim())));
  const DataType acc = wide_type(x.dtype());
  Shape behind;
  for (size_t i = axis + 1; i < x.ndim(); ++i) behind.push_back(x.shape()[i]);
  const bool along = tir::is_one(simplify(product(behind)));
  auto body = [&](const Array<tir::Buffer>& ins, const Array<tir::Buffer>& outs) {
    const RunningFold p{rule, a, x.shape(), axis, acc, ins[0], outs[0]};
    return along ? p.all_along() : p.all_across();
  };
  return {cast_to(te::external({x.shape()}, {acc}, {x}, body, rule.name.text)[0], x.dtype())};
}

const bool running_registered = [] {
  for (const Running& r : runnings) {
    const Running* rule = &r;
    const Domain domain = r.step == log_of_sum ? Domain::floating : Domain::number;
    register_op(r.name, r.doc)
        .argument("x", "Tensor", "the operand")
        .infer([domain](InferContext& ctx) { return infer_running(ctx, domain); })
        .fusion(FusionKind::opaque)
        .tensor_def([rule](const Call& c, const Tensors& in) { return def_running(c, in, *rule); })
        .attrs<CumsumAttrs>();
  }
  return true;
}();

}  // namespace
}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::CumsumAttrs>;
