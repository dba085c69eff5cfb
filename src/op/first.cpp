// SPDX-License-Identifier: Apache-2.0
// The first k of a row by codes (order.h). The last code found so far is a limit: blocks of elements whose
// least key is not below it are passed over, in vectors. A few codes are kept in order; more of them are a
// heap whose root is the last, so that n elements take O(n + k log k log n) where they come in no order.
#include "op/codes.h"
#include "op/order.h"
#include "op/topk.h"

namespace tenon::op {
namespace {

using tir::Buffer;
using tir::Stmt;

/// Elements of a vector, and vectors of a block that is passed over at once.
constexpr int64_t kScannedLanes = 16, kBlockVectors = 4, kBlock = kScannedLanes * kBlockVectors;

PrimExpr ramp(const PrimExpr& first, int64_t lanes = kScannedLanes) {
  return lanes == 1 ? first : PrimExpr(make<tir::Ramp>(first, PrimExpr(1), lanes));
}
/// The first few codes in order, of one row or of as many rows as there are lanes.
struct Kept {
  Buffer codes;
  int64_t count, lanes;

  Kept(int64_t count, int64_t lanes)
      : codes(tir::buffer("kept", {PrimExpr(count), PrimExpr(lanes)}, i64, "local")),
        count(count),
        lanes(lanes) {}
  PrimExpr get(int64_t i) const { return tir::load(codes, {PrimExpr(i), ramp(PrimExpr(0), lanes)}); }
  Stmt put(int64_t i, const PrimExpr& v) const {
    return tir::store(codes, v, {PrimExpr(i), ramp(PrimExpr(0), lanes)});
  }
  /// What the last one lets in.
  PrimExpr limit() const { return key_of_code(get(count - 1)); }
  Stmt clear() const {
    Array<Stmt> all;
    for (int64_t i = 0; i < count; ++i) all.push_back(put(i, splat(tir::max_value(i64), lanes)));
    return tir::seq(all);
  }
  /// The code at its place, the last one drops out.
  Stmt insert(const PrimExpr& code) const {
    return named("code", code, [&](const PrimExpr& c) {
      Array<Stmt> all;
      for (int64_t i = count - 1; i >= 0; --i)
        all.push_back(put(i, tir::min(get(i), i ? tir::max(get(i - 1), c) : c)));
      return tir::seq(all);
    });
  }
  Stmt around(Array<Stmt> body) const { return make<tir::Allocate>(codes, tir::seq(body), AttrMap()); }
};

/// One row. `found` holds the first k codes, in order at the end.
struct First {
  Codes codes;
  PrimExpr n, k;
  Shape row;
  Buffer found;

  Shape at(const PrimExpr& p) const {
    Shape index = row;
    index.push_back(p);
    return index;
  }
  PrimExpr get(const PrimExpr& p) const { return tir::load(found, at(p)); }
  Stmt put(const PrimExpr& p, const PrimExpr& v) const { return tir::store(found, v, at(p)); }

  /// Calls `take` for each position from `from` on whose key is below `limit`, which `take` may lower.
  Stmt scan(const PrimExpr& from, const PrimExpr& limit,
            const std::function<Stmt(const PrimExpr&)>& take) const {
    auto one = [&](const PrimExpr& p) {
      return named("p", p, [&](const PrimExpr& at) { return when(tir::lt(codes.key(at), limit), take(at)); });
    };
    const PrimExpr blocks = simplify(tir::max(tir::floordiv(n - from, PrimExpr(kBlock)), PrimExpr(0)));
    auto below = [&](const PrimExpr& keys) {
      return tir::lt(tir::call(i32, "tir.vector_reduce_min", {keys}), limit);
    };
    const Stmt whole = each("block", blocks, [&](const PrimExpr& b) {
      return named("first", from + b * kBlock, [&](const PrimExpr& first) {
        PrimExpr least;
        for (int64_t v = 0; v < kBlockVectors; ++v) {
          const PrimExpr keys = codes.key(ramp(first + v * kScannedLanes));
          least = least ? tir::min(least, keys) : keys;
        }
        return when(below(least), each("v", PrimExpr(kBlockVectors), [&](const PrimExpr& v) {
                      return named("start", first + v * kScannedLanes, [&](const PrimExpr& start) {
                        return when(below(codes.key(ramp(start))),
                                    each("i", PrimExpr(kScannedLanes),
                                         [&](const PrimExpr& i) { return one(start + i); }));
                      });
                    }));
      });
    });
    const PrimExpr rest = simplify(from + blocks * kBlock);
    return tir::seq({whole, each("i", simplify(tir::max(n - rest, PrimExpr(0))),
                                 [&](const PrimExpr& i) { return one(rest + i); })});
  }

  // ---------------------------------------------------------------- in order
  Stmt by_insertion(int64_t count) const {
    if (count == 0) return tir::seq({});
    const Kept kept(count, 1);
    auto take = [&](const PrimExpr& p) { return kept.insert(codes.code(p)); };
    Array<Stmt> all{kept.clear()};
    for (int64_t i = 0; i < count; ++i) all.push_back(take(PrimExpr(i)));
    all.push_back(scan(PrimExpr(count), kept.limit(), take));
    for (int64_t i = 0; i < count; ++i) all.push_back(put(PrimExpr(i), kept.get(i)));
    return kept.around(all);
  }

  // ---------------------------------------------------------------- heap
  /// `code` goes to `place` in a heap of `size`, or further down, until no child is larger.
  Stmt sift_down(const PrimExpr& place, const PrimExpr& code, const PrimExpr& size) const {
    const Buffer hole = tir::buffer("hole", {PrimExpr(2)}, i64, "local");
    auto cell = [&](int64_t i) { return Shape{PrimExpr(i)}; };
    // Cell 0: the place that is free; cell 1: the larger of its children, -1: none is larger than the code.
    const Stmt look = named("free", tir::load(hole, cell(0)), [&](const PrimExpr& free) {
      return named("left", free * 2 + 1, [&](const PrimExpr& left) {
        const PrimExpr two = and_then(tir::lt(left + 1, size), tir::gt(get(left + 1), get(left)));
        const Stmt child = named("child", left + tir::cast(i64, two), [&](const PrimExpr& c) {
          return tir::seq({assumed(tir::lt(c, size)), named("below", get(c), [&](const PrimExpr& below) {
                             return when(tir::gt(below, code),
                                         tir::seq({put(free, below), tir::store(hole, c, cell(0))}),
                                         tir::store(hole, PrimExpr(0), cell(1)));
                           })});
        });
        return tir::seq({assumed(tir::ge(free, PrimExpr(0))), assumed(tir::lt(free, size)),
                         when(tir::lt(left, size), child, tir::store(hole, PrimExpr(0), cell(1)))});
      });
    });
    const Stmt end = named("free", tir::load(hole, cell(0)), [&](const PrimExpr& free) {
      return tir::seq({assumed(tir::ge(free, PrimExpr(0))), assumed(tir::lt(free, size)), put(free, code)});
    });
    return make<tir::Allocate>(
        hole,
        tir::seq({tir::store(hole, place, cell(0)), tir::store(hole, PrimExpr(1), cell(1)),
                  make<tir::While>(tir::ne(tir::load(hole, cell(1)), PrimExpr(0)), look), end}),
        AttrMap());
  }
  Stmt by_heap() const {
    const PrimExpr root(0);
    const Stmt first = each("p", k, [&](const PrimExpr& p) { return put(p, codes.code(p)); });
    const Stmt in_heap = each("parent", tir::floordiv(k, PrimExpr(2)), [&](const PrimExpr& i) {
      return named("place", tir::floordiv(k, PrimExpr(2)) - 1 - i, [&](const PrimExpr& place) {
        return named("moved", get(place), [&](const PrimExpr& moved) { return sift_down(place, moved, k); });
      });
    });
    const Stmt rest = scan(k, key_of_code(get(root)), [&](const PrimExpr& p) {
      return named("code", codes.code(p), [&](const PrimExpr& c) { return sift_down(root, c, k); });
    });
    const Stmt in_order = each("p", k - 1, [&](const PrimExpr& p) {
      return named("end", k - 1 - p, [&](const PrimExpr& end) {
        return named("last", get(root), [&](const PrimExpr& last) {
          return named("moved", get(end), [&](const PrimExpr& moved) {
            return tir::seq({put(end, last), sift_down(root, moved, end)});
          });
        });
      });
    });
    return when(tir::gt(k, PrimExpr(0)), tir::seq({first, in_heap, rest, in_order}));
  }
};

/// Rows that lie across memory, side by side: the axis is `axis` of x and of `found`, the lanes are the last.
struct FirstAcross {
  Buffer x, found;
  size_t axis;
  int64_t count;
  PrimExpr n;
  bool descending;

  Shape place(Shape at, const PrimExpr& lane, const PrimExpr& p, int64_t lanes) const {
    at.push_back(ramp(lane, lanes));
    at.insert(axis, p);
    return at;
  }
  Stmt rows(const Shape& rest, const PrimExpr& lane, int64_t lanes) const {
    const Kept kept(count, lanes);
    auto key = [&](const PrimExpr& p) {
      return key_of_element(tir::load(x, place(rest, lane, p, lanes)), descending);
    };
    auto take = [&](const PrimExpr& key, const PrimExpr& p) {
      return kept.insert(code_of(key, splat(p, lanes)));
    };
    Array<Stmt> all{kept.clear()};
    for (int64_t i = 0; i < count; ++i) all.push_back(take(key(PrimExpr(i)), PrimExpr(i)));
    all.push_back(each("p", simplify(tir::max(n - count, PrimExpr(0))), [&](const PrimExpr& i) {
      return named("key", key(i + count), [&](const PrimExpr& k) {
        PrimExpr some = tir::lt(k, kept.limit());
        if (lanes > 1)
          some =
              tir::ne(tir::call(i32, "tir.vector_reduce_max", {tir::cast(i32.with_lanes(int(lanes)), some)}),
                      PrimExpr::int_imm(0, i32));
        return when(some, take(k, i + count));
      });
    }));
    for (int64_t i = 0; i < count; ++i)
      all.push_back(tir::store(found, kept.get(i), place(rest, lane, PrimExpr(i), lanes)));
    return kept.around(all);
  }
  Stmt all() const {
    Shape tasks = x->shape;
    tasks.erase(axis);
    const PrimExpr width = tasks.back(), vectors = simplify(tir::floordiv(width, PrimExpr(kScannedLanes)));
    tasks.set(tasks.size() - 1, vectors);
    Shape outer = tasks;
    outer.pop_back();
    const PrimExpr rest = simplify(width - vectors * kScannedLanes);
    return tir::seq({each_row(tasks,
                              [&](const Shape& task) {
                                Shape at = task;
                                const PrimExpr lane = at.back() * kScannedLanes;
                                at.pop_back();
                                return rows(at, lane, kScannedLanes);
                              }),
                     each_row(outer, [&](const Shape& at) {
                       return each("lane", rest, [&](const PrimExpr& l) {
                         return rows(at, vectors * kScannedLanes + l, 1);
                       });
                     })});
  }
};

}  // namespace

FirstWay first_way(DataType t, const PrimExpr& n, const PrimExpr& k) {
  if (!no_codes(t, n).empty()) return FirstWay::plain;
  const auto wanted = tir::as_int(k);
  return wanted && *wanted <= kMostInserted ? FirstWay::insert : FirstWay::heap;
}

bool much_of_row(const PrimExpr& k, const PrimExpr& n) {
  const auto most = tir::as_int(n), wanted = tir::as_int(k);
  if (most && wanted) return *wanted * kPartOfRow > *most;
  return tir::as_int(simplify(n - k)) == 0;
}

bool side_by_side(const Shape& x, size_t axis) {
  const auto width = tir::as_int(x.back());
  return axis + 1 != x.size() && width && *width >= kScannedLanes;
}

static te::Tensor first_across(const te::Tensor& x, size_t axis, bool descending, int64_t count) {
  Shape shape = x.shape();
  const PrimExpr n = shape[axis];
  shape.set(axis, PrimExpr(count));
  auto body = [&](const Array<Buffer>& in, const Array<Buffer>& out) {
    return FirstAcross{in[0], out[0], axis, count, n, descending}.all();
  };
  const te::Tensor codes = te::external({shape}, {i64}, {x}, body, "topk_codes")[0];
  return te::compute(shape, [&](const Vars& v) { return position_of_code(codes(indices(v))); }, "topk_order");
}

te::Tensor first_by(const te::Tensor& x, size_t axis, bool descending, const PrimExpr& count, FirstWay way) {
  if (way == FirstWay::plain) return first_by_comparing(x, axis, descending, count);
  const PrimExpr k = simplify(tir::cast(i64, count));
  const auto few = tir::as_int(k);
  if (way == FirstWay::insert && few && *few > 0 && side_by_side(x.shape(), axis))
    return first_across(x, axis, descending, *few);
  const te::Tensor rows = axis_last(x, axis);
  Shape outer = rows.shape(), shape;
  const PrimExpr n = outer.back();
  outer.pop_back();
  shape = outer;
  shape.push_back(k);
  auto body = [&](const Array<Buffer>& in, const Array<Buffer>& out) {
    return each_row(outer, [&](const Shape& row) {
      const First first{{in[0], row, descending}, n, k, row, out[0]};
      return way == FirstWay::heap ? first.by_heap() : first.by_insertion(tir::as_int(k).value());
    });
  };
  return positions_of(te::external({shape}, {i64}, {rows}, body, "topk_codes")[0], axis, "topk_order");
}

te::Tensor first_in_order(const te::Tensor& x, size_t axis, bool descending, const PrimExpr& count) {
  const PrimExpr n = x.shape()[axis];
  if (much_of_row(simplify(tir::cast(i64, count)), n)) return order_of(x, axis, descending);
  return first_by(x, axis, descending, count, first_way(x.dtype(), n, count));
}

}  // namespace tenon::op
