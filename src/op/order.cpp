// SPDX-License-Identifier: Apache-2.0
// Sorting by codes (order.h). A merge takes the smaller of two codes without a branch; a radix sort counts
// the bytes of all keys once and moves codes four times (Knuth, The Art of Computer Programming, 3,
// section 5.2.5).
#include "op/order.h"

#include <fmt/format.h>

#include "op/codes.h"
#include "op/family.h"
#include "op/topk.h"

namespace tenon::op {
namespace {

using tir::Buffer;
using tir::Stmt;

/// Elements of a run that is placed by ranks before runs are merged.
constexpr int64_t kRunBits = 3, kRun = int64_t(1) << kRunBits;
constexpr int64_t kDigitBits = 8, kDigits = 4, kBuckets = int64_t(1) << kDigitBits;

/// One row of codes in `order`, with a second one for moving.
struct Sort {
  Codes codes;
  PrimExpr n;
  Shape row;
  Buffer order, spare;

  PrimExpr get(const Buffer& b, const PrimExpr& p) const { return tir::load(b, at(p)); }
  Stmt put(const Buffer& b, const PrimExpr& p, const PrimExpr& v) const { return tir::store(b, v, at(p)); }
  Shape at(const PrimExpr& p) const {
    Shape index = row;
    index.push_back(p);
    return index;
  }

  // ---------------------------------------------------------------- ranks
  /// `count` elements from `from` on, each put where so many others come before it.
  Stmt ranked(const PrimExpr& from, int64_t count) const {
    std::vector<PrimExpr> code;
    return coded(from, count, code);
  }
  Stmt coded(const PrimExpr& from, int64_t count, std::vector<PrimExpr>& code) const {
    if (int64_t(code.size()) == count) return placed(from, code);
    return named("code", codes.code(simplify(from + int64_t(code.size()))), [&](const PrimExpr& c) {
      code.push_back(c);
      return coded(from, count, code);
    });
  }
  Stmt placed(const PrimExpr& from, const std::vector<PrimExpr>& code) const {
    Array<Stmt> all;
    for (size_t i = 0; i < code.size(); ++i) {
      PrimExpr rank(0);
      for (size_t j = 0; j < code.size(); ++j)
        if (j != i) rank = rank + tir::cast(i64, tir::lt(code[j], code[i]));
      all.push_back(named("rank", rank, [&](const PrimExpr& r) {
        return tir::seq({assumed(tir::lt(r, PrimExpr(int64_t(code.size())))), put(order, from + r, code[i])});
      }));
    }
    return tir::seq(all);
  }
  /// A run of unknown length, less than kRun.
  Stmt short_run(const PrimExpr& from) const {
    return each("i", n - from, [&](const PrimExpr& i) {
      const Buffer rank = tir::buffer("rank", {PrimExpr(1)}, i64, "local");
      const Shape cell{PrimExpr(0)};
      return named("code", codes.code(from + i), [&](const PrimExpr& c) {
        const Stmt count = each("j", n - from, [&](const PrimExpr& j) {
          return tir::store(rank, tir::load(rank, cell) + tir::cast(i64, tir::lt(codes.code(from + j), c)),
                            cell);
        });
        const PrimExpr r = tir::load(rank, cell);
        const Stmt put_there = named("r", r, [&](const PrimExpr& to) {
          return tir::seq(
              {assumed(tir::lt(to, n - from)), assumed(tir::ge(to, PrimExpr(0))), put(order, from + to, c)});
        });
        return Stmt(make<tir::Allocate>(
            rank, tir::seq({tir::store(rank, PrimExpr(0), cell), count, put_there}), AttrMap()));
      });
    });
  }

  // ---------------------------------------------------------------- merge
  /// Of two runs [low, mid) and [mid, high) of `order` into `spare`.
  Stmt merge(const PrimExpr& low, const PrimExpr& mid, const PrimExpr& high) const {
    const Buffer heads = tir::buffer("heads", {PrimExpr(2)}, i64, "local");
    auto head = [&](int64_t i) { return tir::load(heads, {PrimExpr(i)}); };
    auto set_head = [&](int64_t i, const PrimExpr& v) { return tir::store(heads, v, {PrimExpr(i)}); };
    const Stmt take = named("left", head(0), [&](const PrimExpr& left) {
      return named("right", head(1), [&](const PrimExpr& right) {
        return tir::seq({assumed(tir::ge(left, low)), assumed(tir::ge(right, mid)),
                         named("l", get(order, left), [&](const PrimExpr& l) {
                           return named("r", get(order, right), [&](const PrimExpr& r) {
                             return named("later", tir::cast(i64, tir::lt(r, l)), [&](const PrimExpr& later) {
                               return tir::seq({put(spare, left + right - mid, tir::min(l, r)),
                                                set_head(0, left + 1 - later), set_head(1, right + later)});
                             });
                           });
                         })});
      });
    });
    const Stmt both = make<tir::While>(tir::logical_and(tir::lt(head(0), mid), tir::lt(head(1), high)), take);
    auto rest = [&](int64_t which, const PrimExpr& end) {
      return named("from", head(which), [&](const PrimExpr& from) {
        const PrimExpr to = which == 0 ? from + high - mid : from;
        return tir::seq({assumed(tir::ge(from, which == 0 ? low : mid)),
                         each("p", tir::max(end - from, PrimExpr(0)),
                              [&](const PrimExpr& p) { return put(spare, to + p, get(order, from + p)); })});
      });
    };
    return make<tir::Allocate>(
        heads, tir::seq({set_head(0, low), set_head(1, mid), both, rest(0, mid), rest(1, high)}), AttrMap());
  }
  Stmt merged() const {
    auto pass = [&](const PrimExpr& width, const PrimExpr& runs) {
      const Stmt merges = each("run", runs, [&](const PrimExpr& run) {
        return named("low", run * width * 2, [&](const PrimExpr& low) {
          return named("mid", tir::min(low + width, n), [&](const PrimExpr& mid) {
            return named("high", tir::min(low + width * 2, n),
                         [&](const PrimExpr& high) { return merge(low, mid, high); });
          });
        });
      });
      return tir::seq(
          {merges, each("p", n, [&](const PrimExpr& p) { return put(order, p, get(spare, p)); })});
    };
    const PrimExpr runs = simplify(tir::floordiv(n, PrimExpr(kRun)));
    return tir::seq({each("run", runs, [&](const PrimExpr& run) { return ranked(run * kRun, kRun); }),
                     short_run(simplify(runs * kRun)), each_doubling(n, kRunBits, pass)});
  }

  // ---------------------------------------------------------------- radix
  PrimExpr digit(const PrimExpr& code, int64_t d) const {
    const PrimExpr shifted = tir::call(i64, "tir.shift_right", {code, PrimExpr(kKeyShift + d * kDigitBits)});
    const PrimExpr own = tir::call(i64, "tir.bitwise_and", {shifted, PrimExpr(kBuckets - 1)});
    // The last digit has the sign.
    return d + 1 < kDigits ? own : tir::call(i64, "tir.bitwise_xor", {own, PrimExpr(kBuckets / 2)});
  }
  Stmt by_digits() const {
    const Buffer counts = tir::buffer("counts", {PrimExpr(kDigits), PrimExpr(kBuckets)}, i64, "local");
    auto count = [&](const PrimExpr& d, const PrimExpr& b) { return tir::load(counts, {d, b}); };
    const Stmt clear = each("d", PrimExpr(kDigits), [&](const PrimExpr& d) {
      return each("b", PrimExpr(kBuckets),
                  [&](const PrimExpr& b) { return tir::store(counts, PrimExpr(0), {d, b}); });
    });
    const Stmt counted = each("p", n, [&](const PrimExpr& p) {
      return named("code", codes.code(p), [&](const PrimExpr& c) {
        Array<Stmt> all{put(order, p, c)};
        for (int64_t d = 0; d < kDigits; ++d)
          all.push_back(named("digit", digit(c, d), [&](const PrimExpr& b) {
            return tir::seq(
                {assumed_digit(b), tir::store(counts, count(PrimExpr(d), b) + 1, {PrimExpr(d), b})});
          }));
        return tir::seq(all);
      });
    });
    const Buffer sum = tir::buffer("sum", {PrimExpr(1)}, i64, "local");
    const Stmt starts = each("d", PrimExpr(kDigits), [&](const PrimExpr& d) {
      return tir::seq(
          {tir::store(sum, PrimExpr(0), {PrimExpr(0)}), each("b", PrimExpr(kBuckets), [&](const PrimExpr& b) {
             return named("before", tir::load(sum, {PrimExpr(0)}), [&](const PrimExpr& before) {
               return tir::seq({tir::store(sum, before + count(d, b), {PrimExpr(0)}),
                                tir::store(counts, before, {d, b})});
             });
           })});
    });
    Array<Stmt> all{clear, counted, make<tir::Allocate>(sum, starts, AttrMap())};
    for (int64_t d = 0; d < kDigits; ++d) {
      const Buffer &from = d % 2 ? spare : order, &to = d % 2 ? order : spare;
      all.push_back(each("p", n, [&](const PrimExpr& p) {
        return named("code", get(from, p), [&](const PrimExpr& c) {
          return named("digit", digit(c, d), [&](const PrimExpr& b) {
            return tir::seq(
                {assumed_digit(b), named("place", count(PrimExpr(d), b), [&](const PrimExpr& place) {
                   return tir::seq({assumed(tir::ge(place, PrimExpr(0))), assumed(tir::lt(place, n)),
                                    put(to, place, c), tir::store(counts, place + 1, {PrimExpr(d), b})});
                 })});
          });
        });
      }));
    }
    return make<tir::Allocate>(counts, tir::seq(all), AttrMap());
  }
  static Stmt assumed_digit(const PrimExpr& b) {
    return tir::seq({assumed(tir::ge(b, PrimExpr(0))), assumed(tir::lt(b, PrimExpr(kBuckets)))});
  }
};

}  // namespace

std::string no_codes(DataType t, const PrimExpr& n) {
  if (t.bits > 32) return fmt::format("{} and a position are more than 64 bits", to_string(t));
  const auto known = tir::as_int(n);
  if (known && *known >> kKeyShift) return "a position takes more than 32 bits";
  return {};
}

SortWay sort_way(DataType t, const PrimExpr& n) {
  if (!no_codes(t, n).empty()) return SortWay::plain;
  const auto known = tir::as_int(n);
  if (known && *known <= kMostRanked) return SortWay::ranks;
  return known && *known < kLeastRadix ? SortWay::merge : SortWay::radix;
}

te::Tensor order_by(const te::Tensor& x, size_t axis, bool descending, SortWay way) {
  if (way == SortWay::plain) return order_by_comparing(x, axis, descending);
  const te::Tensor rows = axis_last(x, axis);
  Shape shape = rows.shape(), outer = shape;
  const PrimExpr n = shape.back();
  outer.pop_back();
  auto body = [&](const Array<Buffer>& in, const Array<Buffer>& out) {
    return each_row(outer, [&](const Shape& row) {
      const Sort sort{{in[0], row, descending}, n, row, out[0], out[1 % out.size()]};
      // A row of unknown length may be short.
      if (way == SortWay::radix && !tir::as_int(n))
        return when(tir::lt(n, PrimExpr(kLeastRadix)), sort.merged(), sort.by_digits());
      if (way == SortWay::radix) return sort.by_digits();
      return way == SortWay::merge ? sort.merged() : sort.ranked(PrimExpr(0), tir::as_int(n).value());
    });
  };
  Array<Shape> shapes{shape};
  std::vector<DataType> types{i64};
  if (way != SortWay::ranks) shapes.push_back(shape), types.push_back(i64);
  return positions_of(te::external(shapes, types, {rows}, body, "argsort")[0], axis, "argsort_positions");
}

te::Tensor order_of(const te::Tensor& x, size_t axis, bool descending) {
  return order_by(x, axis, descending, sort_way(x.dtype(), x.shape()[axis]));
}

}  // namespace tenon::op
