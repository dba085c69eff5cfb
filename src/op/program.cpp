// SPDX-License-Identifier: Apache-2.0
// Loops for tensor definitions, and the merge sort behind sort, argsort, topk, unique and the like.
#include "op/program.h"

#include <fmt/format.h>

#include <bit>

#include "op/codes.h"
#include "op/family.h"

namespace tenon::op {

tir::Stmt each_of(const Shape& shape, const std::function<tir::Stmt(const Shape&)>& body, bool parallel) {
  Vars loops;
  Shape at;
  for (size_t i = 0; i < shape.size(); ++i) {
    loops.push_back(tir::var(fmt::format("i{}", i)));
    at.push_back(loops[i]);
  }
  tir::Stmt s = body(at);
  for (size_t i = shape.size(); i-- > 0;)
    s = tir::for_(loops[i], PrimExpr(0), shape[i], s,
                  parallel && i == 0 ? tir::ForKind::parallel : tir::ForKind::serial);
  return s;
}

tir::Stmt each_doubling(const PrimExpr& n, int64_t bits,
                        const std::function<tir::Stmt(const PrimExpr&, const PrimExpr&)>& pass) {
  auto step = [&](const PrimExpr& i) {
    const PrimExpr width = tir::call(i64, "tir.shift_left", {PrimExpr(int64_t(1) << bits), i});
    return named("width", width, [&](const PrimExpr& w) {
      return pass(w, tir::call(i64, "tir.shift_right", {n + w * 2 - 1, i + (bits + 1)}));
    });
  };
  constexpr int64_t kBits = 64;
  if (const auto known = tir::as_int(n))
    return each(
        "step",
        PrimExpr(std::max<int64_t>(std::bit_width(uint64_t(std::max<int64_t>(*known, 1) - 1)) - bits, 0)),
        step);
  const PrimExpr used = PrimExpr(kBits) - tir::call(i64, "tir.clz", {tir::max(n - 1, PrimExpr(0))});
  return named("passes", tir::max(used - bits, PrimExpr(0)),
               [&](const PrimExpr& passes) { return each("step", passes, step); });
}

PrimExpr comes_before(const PrimExpr& a, const PrimExpr& b, bool descending) {
  const PrimExpr before = descending ? tir::gt(a, b) : tir::lt(a, b);
  if (!a.dtype().is_float()) return before;
  auto is_nan = [](const PrimExpr& e) { return tir::call(boolean, "tir.isnan", {e}); };
  const PrimExpr &most = descending ? a : b, &least = descending ? b : a;
  return tir::logical_or(before, tir::logical_and(is_nan(most), tir::logical_not(is_nan(least))));
}

namespace {

/// One run of the sort. `order` and `spare` hold positions; `state` holds the heads of the two runs that are
/// merged and whether the right head comes first.
struct MergeSort {
  PrimExpr n;
  std::function<PrimExpr(const tir::Buffer&, const PrimExpr&)> get;
  std::function<tir::Stmt(const tir::Buffer&, const PrimExpr&, const PrimExpr&)> put;
  tir::Buffer order, spare, state;
  std::function<PrimExpr(int64_t)> head;
  std::function<tir::Stmt(int64_t, const PrimExpr&)> set_head;
  /// Sets state 2 to whether the element at position a comes strictly before the one at b.
  std::function<tir::Stmt(const PrimExpr& a, const PrimExpr& b)> compare;

  tir::Stmt take(const PrimExpr& p, const PrimExpr& mid, const PrimExpr& high) const {
    const PrimExpr left = head(0), right = head(1);
    const tir::Stmt choose = when(
        tir::ge(left, mid), set_head(2, PrimExpr(1)),
        when(tir::ge(right, high), set_head(2, PrimExpr(0)), compare(get(order, right), get(order, left))));
    const tir::Stmt from_right = tir::seq({put(spare, p, get(order, right)), set_head(1, right + 1)});
    const tir::Stmt from_left = tir::seq({put(spare, p, get(order, left)), set_head(0, left + 1)});
    return tir::seq({choose, when(tir::ne(head(2), PrimExpr(0)), from_right, from_left)});
  }
  tir::Stmt merge(const PrimExpr& width, const PrimExpr& run) const {
    return named("low", run * width * 2, [&](const PrimExpr& low) {
      return named("mid", tir::min(low + width, n), [&](const PrimExpr& mid) {
        return named("high", tir::min(low + width * 2, n), [&](const PrimExpr& high) {
          return tir::seq({set_head(0, low), set_head(1, mid), each("p", high - low, [&](const PrimExpr& p) {
                             return take(low + p, mid, high);
                           })});
        });
      });
    });
  }
  tir::Stmt sorted() const {
    auto pass = [&](const PrimExpr& width, const PrimExpr& runs) {
      return tir::seq({each("run", runs, [&](const PrimExpr& run) { return merge(width, run); }),
                       each("p", n, [&](const PrimExpr& p) { return put(order, p, get(spare, p)); })});
    };
    return tir::seq(
        {each("p", n, [&](const PrimExpr& p) { return put(order, p, p); }), each_doubling(n, 0, pass)});
  }
};

}  // namespace

te::Tensor order_by_comparing(const te::Tensor& x, size_t axis, bool descending) {
  Shape rows = x.shape(), states;
  rows.erase(axis);
  states = rows;
  states.push_back(PrimExpr(3));
  auto body = [&](const Array<tir::Buffer>& in, const Array<tir::Buffer>& out) {
    return each_of(
        rows,
        [&](const Shape& row) {
          auto at = [&](const PrimExpr& p) {
            Shape index = row;
            index.insert(axis, p);
            return index;
          };
          auto cell = [&](int64_t i) {
            Shape index = row;
            index.push_back(PrimExpr(i));
            return index;
          };
          MergeSort sort;
          sort.n = x.shape()[axis];
          sort.order = out[0], sort.spare = out[1], sort.state = out[2];
          sort.get = [&](const tir::Buffer& b, const PrimExpr& p) { return tir::load(b, at(p)); };
          sort.put = [&](const tir::Buffer& b, const PrimExpr& p, const PrimExpr& v) {
            return tir::store(b, v, at(p));
          };
          sort.head = [&](int64_t i) { return tir::load(out[2], cell(i)); };
          sort.set_head = [&](int64_t i, const PrimExpr& v) { return tir::store(out[2], v, cell(i)); };
          sort.compare = [&](const PrimExpr& a, const PrimExpr& b) {
            const PrimExpr before =
                comes_before(tir::load(in[0], at(a)), tir::load(in[0], at(b)), descending);
            return sort.set_head(2, tir::cast(i64, before));
          };
          return sort.sorted();
        },
        true);
  };
  return te::external({x.shape(), x.shape(), states}, {i64, i64, i64}, {x}, body, "argsort")[0];
}

te::Tensor order_of_rows(const te::Tensor& x) {
  const PrimExpr n = x.shape()[0], m = x.shape()[1];
  auto body = [&](const Array<tir::Buffer>& in, const Array<tir::Buffer>& out) {
    MergeSort sort;
    sort.n = n;
    sort.order = out[0], sort.spare = out[1], sort.state = out[2];
    sort.get = [](const tir::Buffer& b, const PrimExpr& p) { return tir::load(b, {p}); };
    sort.put = [](const tir::Buffer& b, const PrimExpr& p, const PrimExpr& v) {
      return tir::store(b, v, {p});
    };
    sort.head = [&](int64_t i) { return tir::load(out[2], {PrimExpr(i)}); };
    sort.set_head = [&](int64_t i, const PrimExpr& v) { return tir::store(out[2], v, {PrimExpr(i)}); };
    // State 3: whether the rows differ already. The first difference decides.
    sort.compare = [&](const PrimExpr& a, const PrimExpr& b) {
      if (tir::is_one(m)) {
        const PrimExpr u = tir::load(in[0], {a, PrimExpr(0)}), v = tir::load(in[0], {b, PrimExpr(0)});
        return sort.set_head(2, tir::cast(i64, comes_before(u, v, false)));
      }
      const tir::Stmt steps = each("k", m, [&](const PrimExpr& k) {
        const PrimExpr u = tir::load(in[0], {a, k}), v = tir::load(in[0], {b, k});
        const PrimExpr less = comes_before(u, v, false), more = comes_before(v, u, false);
        return when(tir::logical_and(tir::eq(sort.head(3), PrimExpr(0)), tir::logical_or(less, more)),
                    tir::seq({sort.set_head(2, tir::cast(i64, less)), sort.set_head(3, PrimExpr(1))}));
      });
      return tir::seq({sort.set_head(2, PrimExpr(0)), sort.set_head(3, PrimExpr(0)), steps});
    };
    return sort.sorted();
  };
  return te::external({Shape{n}, Shape{n}, Shape{PrimExpr(4)}}, {i64, i64, i64}, {x}, body,
                      "argsort_rows")[0];
}

te::Tensor as_rows(const te::Tensor& x, std::optional<size_t> axis) {
  if (!axis) return reshape_to(x, {simplify(product(x.shape())), PrimExpr(1)}, "flat");
  Shape rest = x.shape();
  const PrimExpr n = rest[*axis];
  rest.erase(*axis);
  return te::compute(
      {n, simplify(product(rest))},
      [&](const Vars& v) {
        Shape at = unflatten_index(v[1], rest);
        at.insert(*axis, v[0]);
        return x(at);
      },
      "rows");
}

}  // namespace tenon::op
