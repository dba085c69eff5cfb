// SPDX-License-Identifier: Apache-2.0
// narrow_data_type
//   before: for i in 1000: B[i] = A[i // 7 * 8 + i % 7]                                       (int64)
//   after:  for i in 1000: B[i] = A[T.Cast("int64", T.Cast("int32", i) // 7) * 8 + …]
// Divisions of 64-bit integers are done in 32 bits where the ranges of loops prove that every value on the
// way fits: several times faster, and lanes stay in vectors of twice as many. Loops and what only adds and
// multiplies keep their type: there 64 bits cost nothing.
// Needs: nothing. Keeps: every value.
#include <algorithm>

#include "analysis/simplify.h"
#include "ir/node_groups.h"
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;

namespace {

using Wide = __int128;
struct Interval {
  Wide low, high;
  bool fits() const { return low >= INT32_MIN && high <= INT32_MAX; }
};
constexpr Interval kAny = {-(Wide(1) << 100), Wide(1) << 100};

class Narrow : public tensor_detail::Rewriter {
 public:
  Stmt stmt(const Stmt& s) override {
    if (const auto* n = s.as<For>()) {
      forget();  // copies of a loop may share the variable, with other ranges
      analyzer_.bind(n->loop_var, range(n->min, n->extent), true);
    }
    return Rewriter::stmt(s);
  }
  PrimExpr expr(const PrimExpr& e) override {
    const bool division = e.is<FloorDiv>() || e.is<FloorMod>() || e.is<Div>() || e.is<Mod>();
    if (division && e.dtype().element() == i64 && interval(e).fits())
      if (PrimExpr r = narrow(e)) return cast(e.dtype(), r);
    return Rewriter::expr(e);
  }

 private:
  Interval interval(const PrimExpr& e) {
    if (e.dtype().is_scalar()) {
      const ConstBound b = analyzer_.bound(e);
      return {b.min == ConstBound::neg_inf ? kAny.low : Wide(b.min),
              b.max == ConstBound::pos_inf ? kAny.high : Wide(b.max)};
    }
    if (const auto* n = e.as<Broadcast>()) return interval(n->value);
    if (const auto* n = e.as<Ramp>()) {
      const Interval base = interval(n->base), step = interval(n->stride);
      const Wide last = n->lanes - 1;
      return {base.low + std::min<Wide>(0, step.low * last), base.high + std::max<Wide>(0, step.high * last)};
    }
    if (const auto* n = e.as<Add>()) {
      const Interval a = interval(n->a), b = interval(n->b);
      return {a.low + b.low, a.high + b.high};
    }
    if (const auto* n = e.as<Sub>()) {
      const Interval a = interval(n->a), b = interval(n->b);
      return {a.low - b.high, a.high - b.low};
    }
    if (const auto* n = e.as<Mul>()) {
      const Interval a = interval(n->a), b = interval(n->b);
      if (!a.fits() || !b.fits()) return kAny;
      const Wide p[] = {a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high};
      return {*std::min_element(p, p + 4), *std::max_element(p, p + 4)};
    }
    const auto positive = [&](const PrimExpr& d) {
      const Interval b = interval(d);
      return b.low > 0 ? b : Interval{0, 0};
    };
    if (const auto* n = e.as<FloorDiv>()) {  // by something positive the magnitude does not grow
      const Interval a = interval(n->a);
      return positive(n->b).low > 0 ? Interval{std::min<Wide>(a.low, 0), std::max<Wide>(a.high, 0)} : kAny;
    }
    if (const auto* n = e.as<FloorMod>()) {
      const Interval b = positive(n->b);
      return b.low > 0 ? Interval{0, b.high - 1} : kAny;
    }
    return kAny;
  }

  template <class T>
  PrimExpr both(const T& n) {
    const PrimExpr a = narrow(n.a);
    if (!a) return {};
    const PrimExpr b = narrow(n.b);
    return b ? PrimExpr(make<T>(a, b)) : PrimExpr();
  }
  /// e in 32 bits, null where some value on the way might not fit.
  PrimExpr narrow(const PrimExpr& e) {
    if (!interval(e).fits()) return {};
    return match<PrimExpr>(
        e, [&](const IntImm& n) { return PrimExpr::int_imm(n.value, i32); },
        [&](const ArithmeticNode auto& n) { return both(n); },
        [&](const Broadcast& n) -> PrimExpr {
          const PrimExpr v = narrow(n.value);
          return v ? PrimExpr(make<Broadcast>(v, n.lanes)) : PrimExpr();
        },
        [&](const Ramp& n) -> PrimExpr {
          const PrimExpr base = narrow(n.base), step = base ? narrow(n.stride) : PrimExpr();
          return step ? PrimExpr(make<Ramp>(base, step, n.lanes)) : PrimExpr();
        },
        [&](const Cast& n) -> PrimExpr {
          if (n.value.dtype().element() == i32) return Rewriter::expr(n.value);
          return cast(i32.with_lanes(e.dtype().lanes), Rewriter::expr(e));
        },
        [&](const PrimExprNode&) { return cast(i32.with_lanes(e.dtype().lanes), Rewriter::expr(e)); });
  }

  Analyzer analyzer_;
};

}  // namespace

const Pass& narrow_data_type_pass = register_pass({
    .name = "narrow_data_type",
    .run = tensor_detail::each_body<Narrow>,
    .level = 3,
    .summary = "64-bit divisions are done in 32 bits where ranges prove it",
});

}  // namespace tenon
