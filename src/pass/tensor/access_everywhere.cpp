// SPDX-License-Identifier: Apache-2.0
#include "pass/tensor/access_everywhere.h"

#include <algorithm>

#include "analysis/analyzer.h"
#include "ir/structural.h"

namespace tenon::tensor_detail {

using namespace tir;

namespace {

// Ends are computed when the program runs, from sizes that may be anything, and must not wrap: every variable
// and every operand of a product is asked to be at most 2^28, so a product is at most 2^56, and a sum of
// kMostNodes of them less than 2^63.
constexpr int64_t kMostOperand = int64_t(1) << 28;
constexpr int kMostNodes = 120;

struct Ends {
  PrimExpr low, high;
  explicit operator bool() const { return low && high; }
  /// Of what no loop moves: one expression.
  bool still() const { return low.same_as(high); }
};

class Everywhere {
 public:
  PrimExpr of(const Stmt& check) {
    if (!stmt(check) || !loops_) return {};
    std::vector<PrimExpr> asked;
    PrimExpr all = tir::true_();
    Analyzer analyzer;
    for (const PrimExpr& c : conditions_) {
      const PrimExpr known = analyzer.simplify(c);
      if (is_zero(known)) return {};
      if (is_one(known) ||
          std::ranges::any_of(asked, [&](const PrimExpr& a) { return structural_equal(a, known); }))
        continue;
      asked.push_back(known);
      all = is_one(all) ? known : logical_and(all, known);
    }
    return all;
  }

 private:
  bool stmt(const Stmt& s) {
    if (const auto* n = s.as<AssertStmt>()) return holds(n->condition);
    if (const auto* n = s.as<IfThenElse>()) return !n->else_case && stmt(n->then_case);
    if (const auto* n = s.as<For>()) {
      const Ends first = ends(n->min), count = ends(n->extent);
      if (!first || !count) return false;
      ends_[n->loop_var.get()] = {first.low, first.high + count.high - 1};  // never one expression
      loops_ = true;
      return stmt(n->body);
    }
    return false;
  }

  bool holds(const PrimExpr& c) {
    if (const auto* n = c.as<And>()) return holds(n->a) && holds(n->b);
    if (const auto* n = c.as<LE>()) return below(n->a, n->b, 0);
    if (const auto* n = c.as<LT>()) return below(n->a, n->b, 1);
    if (const auto* n = c.as<GE>()) return below(n->b, n->a, 0);
    if (const auto* n = c.as<GT>()) return below(n->b, n->a, 1);
    return false;
  }
  /// a + apart <= b
  bool below(const PrimExpr& a, const PrimExpr& b, int64_t apart) {
    if (a.dtype() != i64) return false;
    const Ends x = ends(a), y = ends(b);
    if (x && y) conditions_.push_back(le(x.high + apart, y.low));
    return x && y;
  }

  void ask(const PrimExpr& condition) { conditions_.push_back(condition); }
  void ask_small(const Ends& x) {
    ask(le(PrimExpr(-kMostOperand), x.low));
    ask(le(x.high, PrimExpr(kMostOperand)));
  }

  Ends ends(const PrimExpr& e) {
    if (++nodes_ > kMostNodes || e.dtype() != i64) return {};
    if (const auto* n = e.as<IntImm>())
      return n->value >= -kMostOperand && n->value <= kMostOperand ? Ends{e, e} : Ends{};
    if (const auto* v = e.as<Var>()) {
      const auto known = ends_.find(v);
      if (known != ends_.end()) {
        ask_small(known->second);
        return known->second;
      }
      ask(le(PrimExpr(0), e));  // a size
      ask(le(e, PrimExpr(kMostOperand)));
      return {e, e};
    }
    if (const auto* n = e.as<Add>()) return sum(ends(n->a), ends(n->b));
    if (const auto* n = e.as<Sub>()) return difference(ends(n->a), ends(n->b));
    if (const auto* n = e.as<Mul>()) return product(ends(n->a), ends(n->b));
    if (const auto* n = e.as<FloorDiv>()) return quotient(ends(n->a), ends(n->b));
    if (const auto* n = e.as<FloorMod>()) return remainder(ends(n->a), ends(n->b));
    if (const auto* n = e.as<Min>())
      return both(ends(n->a), ends(n->b),
                  [](const PrimExpr& x, const PrimExpr& y) { return tir::min(x, y); });
    if (const auto* n = e.as<Max>())
      return both(ends(n->a), ends(n->b),
                  [](const PrimExpr& x, const PrimExpr& y) { return tir::max(x, y); });
    return {};
  }

  /// Of f, which grows with both.
  static Ends both(const Ends& a, const Ends& b, FunctionRef<PrimExpr(const PrimExpr&, const PrimExpr&)> f) {
    if (!a || !b) return {};
    const PrimExpr low = f(a.low, b.low);
    return {low, a.still() && b.still() ? low : f(a.high, b.high)};
  }
  static Ends sum(const Ends& a, const Ends& b) {
    return both(a, b, [](const PrimExpr& x, const PrimExpr& y) { return x + y; });
  }
  static Ends difference(const Ends& a, const Ends& b) {
    if (!a || !b) return {};
    const PrimExpr low = a.low - b.high;
    return {low, a.still() && b.still() ? low : a.high - b.low};
  }
  Ends product(const Ends& a, const Ends& b) {
    if (!a || !b) return {};
    ask_small(a), ask_small(b);
    const auto times = [](const PrimExpr& x, const PrimExpr& y) { return x * y; };
    if (a.still() && b.still()) return both(a, b, times);
    for (const auto& [x, by] : {std::pair{&a, &b}, {&b, &a}}) {
      const auto c = by->still() ? as_int(by->low) : std::nullopt;
      if (c && *c < 0) return {x->high * by->low, x->low * by->low};
      if (c) return both(*x, *by, times);
    }
    ask(le(PrimExpr(0), a.low));
    ask(le(PrimExpr(0), b.low));
    return both(a, b, times);
  }
  /// What a divisor is where it is positive, which is asked; null where it moves or never is.
  PrimExpr divisor(const Ends& b) {
    if (!b || !b.still()) return {};
    const auto c = as_int(b.low);
    if (c) return *c > 0 ? b.low : PrimExpr();
    ask(le(PrimExpr(1), b.low));
    return tir::max(b.low, PrimExpr(1));
  }
  Ends quotient(const Ends& a, const Ends& b) {
    const PrimExpr by = divisor(b);
    if (!a || !by) return {};
    return both(a, {by, by}, [](const PrimExpr& x, const PrimExpr& y) { return floordiv(x, y); });
  }
  Ends remainder(const Ends& a, const Ends& b) {
    const PrimExpr by = divisor(b);
    if (!a || !by) return {};
    if (a.still()) {
      const PrimExpr value = floormod(a.low, by);
      return {value, value};
    }
    ask(le(PrimExpr(0), a.low));
    return {PrimExpr(0), tir::min(a.high, by - 1)};
  }

  std::unordered_map<const Var*, Ends> ends_;
  std::vector<PrimExpr> conditions_;
  int nodes_ = 0;
  bool loops_ = false;
};

}  // namespace

PrimExpr enough_for(const Stmt& check) { return Everywhere().of(check); }

}  // namespace tenon::tensor_detail
