// SPDX-License-Identifier: Apache-2.0
// The first k positions in the order of a row, of elements that have no codes (order.h), by a heap of the k
// that came first so far: O(n log k), where a whole sort takes O(n log n). Its root is the last of them
// (Knuth, The Art of Computer Programming, 3, section 5.2.3).
#include "op/topk.h"

namespace tenon::op {
namespace {

/// One row. `heap` holds k positions; `state` holds the place that is sifted down, -1 once it is in order.
struct HeapSelect {
  std::function<PrimExpr(const PrimExpr&)> element;  ///< of x
  std::function<PrimExpr(const PrimExpr&)> heap;
  std::function<tir::Stmt(const PrimExpr&, const PrimExpr&)> set_heap;
  PrimExpr state;
  std::function<tir::Stmt(const PrimExpr&)> set_state;
  bool descending;

  /// Of two positions: equal elements keep their order.
  PrimExpr comes_after(const PrimExpr& a, const PrimExpr& b) const {
    const PrimExpr x = element(a), y = element(b);
    const PrimExpr equal = tir::logical_not(comes_before(x, y, descending));
    return tir::logical_or(comes_before(y, x, descending), tir::logical_and(equal, tir::gt(a, b)));
  }
  /// The element at `place` moves down until no child comes after it, in a heap of `size`.
  tir::Stmt sift_down(const PrimExpr& place, const PrimExpr& size) const {
    const tir::Stmt step = named("at", state, [&](const PrimExpr& at) {
      const PrimExpr left = at * 2 + 1;
      const PrimExpr right_is_later =
          and_then(tir::lt(left + 1, size), comes_after(heap(left + 1), heap(left)));
      return named("child", left + tir::cast(i64, right_is_later), [&](const PrimExpr& child) {
        const tir::Stmt swap = named("lower", heap(child), [&](const PrimExpr& lower) {
          return tir::seq({set_heap(child, heap(at)), set_heap(at, lower), set_state(child)});
        });
        return when(and_then(tir::lt(child, size), comes_after(heap(child), heap(at))), swap,
                    set_state(PrimExpr(-1)));
      });
    });
    return tir::seq({set_state(place), make<tir::While>(tir::ge(state, PrimExpr(0)), step)});
  }
  tir::Stmt selected(const PrimExpr& n, const PrimExpr& k) const {
    const PrimExpr root(0);
    const tir::Stmt first = each("p", k, [&](const PrimExpr& p) { return set_heap(p, p); });
    const tir::Stmt in_heap = each("parent", tir::floordiv(k, PrimExpr(2)), [&](const PrimExpr& p) {
      return sift_down(tir::floordiv(k, PrimExpr(2)) - 1 - p, k);
    });
    const tir::Stmt rest = each("p", tir::max(n - k, PrimExpr(0)), [&](const PrimExpr& p) {
      return when(comes_before(element(k + p), element(heap(root)), descending),
                  tir::seq({set_heap(root, k + p), sift_down(root, k)}));
    });
    const tir::Stmt in_order = each("p", k - 1, [&](const PrimExpr& p) {
      const PrimExpr end = k - 1 - p;
      return named("last", heap(root), [&](const PrimExpr& last) {
        return tir::seq({set_heap(root, heap(end)), set_heap(end, last), sift_down(root, end)});
      });
    });
    return when(tir::gt(k, PrimExpr(0)), tir::seq({first, in_heap, rest, in_order}));
  }
};

}  // namespace

te::Tensor first_by_comparing(const te::Tensor& x, size_t axis, bool descending, const PrimExpr& count) {
  const PrimExpr n = x.shape()[axis], k = tir::cast(i64, count);
  Shape shape = x.shape(), rows = x.shape(), states;
  shape.set(axis, k);
  rows.erase(axis);
  states = rows;
  states.push_back(PrimExpr(1));
  auto body = [&](const Array<tir::Buffer>& in, const Array<tir::Buffer>& out) {
    return each_of(
        rows,
        [&](const Shape& row) {
          auto at = [&](const PrimExpr& p) {
            Shape index = row;
            index.insert(axis, p);
            return index;
          };
          Shape cell = row;
          cell.push_back(PrimExpr(0));
          HeapSelect select;
          select.element = [&](const PrimExpr& p) { return tir::load(in[0], at(p)); };
          select.heap = [&](const PrimExpr& p) { return tir::load(out[0], at(p)); };
          select.set_heap = [&](const PrimExpr& p, const PrimExpr& v) {
            return tir::store(out[0], v, at(p));
          };
          select.state = tir::load(out[1], cell);
          select.set_state = [&](const PrimExpr& v) { return tir::store(out[1], v, cell); };
          select.descending = descending;
          return select.selected(n, k);
        },
        true);
  };
  return te::external({shape, states}, {i64, i64}, {x}, body, "topk_positions")[0];
}

}  // namespace tenon::op
