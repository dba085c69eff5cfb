// SPDX-License-Identifier: Apache-2.0
// The table of rewrite rules. Order matters inside one operator: the first rule that holds is applied. Every
// rule is proved by tests/unit/analysis/rules_test.cpp.
#include <fmt/format.h>

#include "analysis/rule.h"
#include "ir/intrinsic.h"
#include "ir/text.h"

namespace tenon {
namespace {

using namespace tir;

/// A pattern under construction: operators make nodes as they stand, without folding.
struct P {
  PrimExpr e;
  P(PrimExpr e) : e(std::move(e)) {}
  P(const char* name) : e(var(name)) {}
  P(int v) : e(PrimExpr::int_imm(v, i64)) {}
  template <class T>
  static P node(const P& a, const P& b) {
    return P(make<T>(a.e, b.e));
  }
  friend P operator+(const P& a, const P& b) { return P::node<Add>(a, b); }
  friend P operator-(const P& a, const P& b) { return P::node<Sub>(a, b); }
  friend P operator*(const P& a, const P& b) { return P::node<Mul>(a, b); }
  friend P operator/(const P& a, const P& b) { return P::node<Div>(a, b); }
  friend P operator==(const P& a, const P& b) { return P::node<EQ>(a, b); }
  friend P operator!=(const P& a, const P& b) { return P::node<NE>(a, b); }
  friend P operator<(const P& a, const P& b) { return P::node<LT>(a, b); }
  friend P operator<=(const P& a, const P& b) { return P::node<LE>(a, b); }
  friend P operator>(const P& a, const P& b) { return P::node<GT>(a, b); }
  friend P operator>=(const P& a, const P& b) { return P::node<GE>(a, b); }
  friend P operator&&(const P& a, const P& b) { return P::node<And>(a, b); }
  friend P operator||(const P& a, const P& b) { return P::node<Or>(a, b); }
  friend P operator!(const P& a) { return P(make<Not>(a.e)); }
};
P fdiv(const P& a, const P& b) { return P::node<FloorDiv>(a, b); }
P fmod(const P& a, const P& b) { return P::node<FloorMod>(a, b); }
P tmod(const P& a, const P& b) { return P::node<Mod>(a, b); }
P lo(const P& a, const P& b) { return P::node<Min>(a, b); }
P hi(const P& a, const P& b) { return P::node<Max>(a, b); }
P pick(const P& c, const P& a, const P& b) { return P(make<Select>(c.e, a.e, b.e)); }
P to(DataType t, const P& a) {
  auto r = make<Cast>(a.e);
  r.edit()->dtype = t;
  return P(r);
}
P ramp(const P& base, const P& stride) { return P(make<Ramp>(base.e, stride.e, int64_t(4))); }
P spread(const P& a) { return P(make<Broadcast>(a.e, int64_t(4))); }

class Table {
 public:
  std::vector<Rule> build() {
    quotients();
    remainders();
    sums();
    orders();
    minima();
    integers();
    logic();
    vectors();
    return std::move(rules_);
  }

 private:
  using D = RuleDomain;
  using S = RuleShape;
  enum Flags { exact, widens };
  const P x = "x", y = "y", z = "z", q = "q", r = "r", n = "n", p = "p";
  const P c = "c", d = "d", e = "e", f = "f", g = "g", k = "k", m = "m", l = "l";
  const P u = PrimExpr(var("u", boolean)), v = PrimExpr(var("v", boolean)), w = PrimExpr(var("w", boolean));
  const P yes = true_(), no = PrimExpr::int_imm(0, boolean);

  void rule(D domain, S shape, std::string name, const P& pattern, const P& replacement,
            const P& condition = true_(), Flags flags = exact) {
    rules_.push_back(
        {std::move(name), domain, shape, pattern.e, replacement.e, condition.e, flags == widens});
  }
  void index(S shape, std::string name, const P& pattern, const P& replacement, const P& condition = true_(),
             Flags flags = exact) {
    rule(D::index, shape, std::move(name), pattern, replacement, condition, flags);
  }
  void integer(std::string name, const P& pattern, const P& replacement, const P& condition = true_()) {
    rule(D::integer, S::tree, std::move(name), pattern, replacement, condition);
  }
  void boolean_(std::string name, const P& pattern, const P& replacement) {
    rule(D::logic, S::tree, std::move(name), pattern, replacement);
  }

  void quotients() {
    index(S::whole, "div.by_one", fdiv(x, 1), x);
    index(S::whole, "div.by_negative", fdiv(x, c), fdiv(x * -1, c * -1), c < 0, widens);
    index(S::split, "div.split", fdiv(q * c + r, c), q + fdiv(r, c), c > 0);
    index(S::range, "div.range", fdiv(x, c), k, c > 0 && k * c <= x && x < k * c + c);
    index(S::common, "div.common", fdiv(x * g + f, d * g), fdiv(x + fdiv(f, g), d), g > 0 && d > 0);
    index(S::scaled, "div.scaled", fdiv(x * g + r, d * g), fdiv(x, d), g > 0 && d > 0 && 0 <= r && r < g);
    index(S::single, "div.nested", fdiv(fdiv(y, e) + f, d), fdiv(y + f * e, d * e), e > 0 && d > 0, widens);
    index(S::single, "div.of_mod", fdiv(fmod(y, d * m), d), fmod(fdiv(y, d), m), d > 0 && m > 0);
    index(S::multiple, "div.multiple", fdiv(q * n + r, n), q, 0 < n && 0 <= r && r < n);
    index(S::multiple, "div.part", fdiv(q * n + r, n), q + fdiv(r, n), 0 < n);
    index(S::tree, "trunc.div_to_floor", x / y, fdiv(x, y), 0 <= x && 0 < y);
    index(S::tree, "trunc.mod_to_floor", tmod(x, y), fmod(x, y), 0 <= x && 0 < y);
  }

  void remainders() {
    index(S::whole, "mod.by_one", fmod(x, 1), 0);
    index(S::whole, "mod.by_negative", fmod(x, c), fmod(x * -1, c * -1) * -1, c < 0, widens);
    index(S::split, "mod.split", fmod(q * c + r, c), fmod(r, c), c > 0);
    index(S::term, "mod.redundant", fmod(fmod(y, k) * p + r, c), fmod(y * p + r, c),
          k > 0 && c > 0 && fmod(p * k, c) == 0, widens);
    index(S::range, "mod.range", fmod(x, c), x - k * c, c > 0 && k * c <= x && x < k * c + c);
    index(S::known, "mod.known", fmod(x, c), fmod(f, c),
          c > 0 && m > 0 && fmod(m, c) == 0 && fmod(x - f, m) == 0);
    index(S::common, "mod.common", fmod(x * g + f, d * g), fmod(x + fdiv(f, g), d) * g + fmod(f, g),
          g > 0 && d > 0);
    index(S::scaled, "mod.scaled", fmod(x * g + r, d * g), fmod(x, d) * g + r,
          g > 0 && d > 0 && 0 <= r && r < g);
    index(S::multiple, "mod.multiple", fmod(q * n + r, n), r, 0 < n && 0 <= r && r < n);
    index(S::multiple, "mod.part", fmod(q * n + r, n), fmod(r, n), 0 < n);
  }

  void sums() {
    // The pattern's second part is looked for first; what the first may be follows from it.
    index(S::pair, "sum.digits", fdiv(y, c) * (p * c) + fmod(y, c) * p, y * p, c > 0);
    index(S::pair, "sum.middle_digit", fmod(fdiv(y, c), d) * (p * c) + fmod(y, c) * p, fmod(y, c * d) * p,
          c > 0 && d > 0);
    index(S::pair, "sum.digits_of_another", fdiv(z, c) * (p * c) + fmod(y, c) * p, z * p,
          c > 0 && fmod(y, c) == fmod(z, c));
  }

  void orders() {
    index(S::whole, "lt.never", x < 0, no, 0 <= x);
    index(S::whole, "lt.always", x < 0, yes, x < 0);
    index(S::scaled, "lt.scaled", x * g + r < 0, x < 0, g > 0 && 0 <= r && r < g);
    index(S::whole, "eq.above", x == 0, no, 0 < x);
    index(S::whole, "eq.below", x == 0, no, x < 0);
    index(S::common, "eq.indivisible", x * g + f == 0, no, g > 0 && fmod(f, g) != 0);
    index(S::known, "eq.residue", x == 0, no, m > 0 && fmod(x - f, m) == 0 && fmod(f, m) != 0);
    index(S::whole, "eq.zero", x == 0, yes, 0 <= x && x <= 0);
    index(S::common, "eq.common", x * g + f == 0, x + fdiv(f, g) == 0, g > 0 && fmod(f, g) == 0);

    integer("eq.same", x == x, yes);
    integer("ne.same", x != x, no);
    integer("eq.ordered", x == y, no, x < y);
    integer("ne.ordered", x != y, yes, x < y);
    integer("lt.holds", x < y, yes, x < y);
    integer("lt.fails", x < y, no, y <= x);
    integer("le.holds", x <= y, yes, x <= y);
    integer("le.fails", x <= y, no, y < x);
    index(S::tree, "lt.quotient", fdiv(x, c) < d, x < c * d, c > 0);
    index(S::tree, "le.quotient_right", d <= fdiv(x, c), c * d <= x, c > 0);
    for (bool strict : {true, false}) {
      auto cmp = [&](const P& a, const P& b) { return strict ? a < b : a <= b; };
      auto not_cmp = [&](const P& a, const P& b) { return strict ? b <= a : b < a; };
      const std::string op = strict ? "lt" : "le";
      integer(op + ".of_min", cmp(lo(x, c), d), cmp(x, d), not_cmp(c, d));
      integer(op + ".of_max", cmp(hi(x, c), d), cmp(x, d), cmp(c, d));
      integer(op + ".below_min", cmp(d, lo(x, c)), cmp(d, x), cmp(d, c));
      integer(op + ".below_max", cmp(d, hi(x, c)), cmp(d, x), not_cmp(d, c));
      integer(op + ".min_self", cmp(lo(x, y), x), strict ? y < x : yes);
      integer(op + ".max_self", cmp(hi(x, y), x), strict ? no : y <= x);
      integer(op + ".self_min", cmp(x, lo(x, y)), strict ? no : x <= y);
      integer(op + ".self_max", cmp(x, hi(x, y)), strict ? x < y : yes);
    }
    integer("eq.of_min", lo(x, c) == d, x == d, d < c);
    integer("eq.of_max", hi(x, c) == d, x == d, c < d);
    integer("ne.of_min", lo(x, c) != d, x != d, d < c);
    integer("ne.of_max", hi(x, c) != d, x != d, c < d);
    integer("eq.min_self", lo(x, y) == x, x <= y);
    integer("eq.max_self", hi(x, y) == x, y <= x);
  }

  void minima() {
    for (bool is_min : {true, false}) {
      const std::string op = is_min ? "min" : "max";
      auto mm = [&](const P& a, const P& b) { return is_min ? lo(a, b) : hi(a, b); };
      auto other = [&](const P& a, const P& b) { return is_min ? hi(a, b) : lo(a, b); };
      auto before = [&](const P& a, const P& b) { return is_min ? a <= b : b <= a; };
      rule(D::any, S::tree, op + ".same", mm(x, x), x);
      integer(op + ".ordered", mm(x, y), x, before(x, y));
      index(S::shared, op + ".shared", mm(x + z, y + z), mm(x, y) + z);
      integer(op + ".absorb", mm(x, other(x, y)), x);
      integer(op + ".repeat", mm(x, mm(x, y)), mm(x, y));
      integer(op + ".constants", mm(mm(x, c), d), mm(x, mm(c, d)));
      integer(op + ".factor", mm(other(x, y), other(x, z)), other(x, mm(y, z)));
      integer(op + ".common", mm(mm(x, y), mm(x, z)), mm(mm(x, y), z));
    }
  }

  /// For types other than int64, whose sums have a canonical form already.
  void integers() {
    integer("sub.same", x - x, 0);
    integer("sub.of_sum", (x + y) - y, x);
    integer("add.of_difference", (x - y) + y, x);
    integer("sub.from_same", x - (x - y), y);
    integer("add.constants", (x + c) + d, x + (c + d));
    integer("add.to_difference", (x - c) + d, x + (d - c));
    integer("sub.constants", (x - c) - d, x - (c + d));
    integer("sub.from_sum", (x + c) - d, x + (c - d));
    integer("add.from_constant", (c - x) + d, (c + d) - x);
    integer("sub.of_constant", d - (c - x), x + (d - c));
    integer("mul.zero", x * 0, 0);
    integer("mul.constants", (x * c) * d, x * (c * d));
    integer("mul.of_sum", x * c + x * d, x * (c + d));
    integer("mul.one_more", x * c + x, x * (c + 1));
    integer("mul.of_difference", x * c - x * d, x * (c - d));
    integer("trunc.div_by_one", x / 1, x);
    integer("trunc.mod_by_one", tmod(x, 1), 0);
    integer("mod.integer_by_one", fmod(x, 1), 0);
  }

  void logic() {
    boolean_("and.same", u && u, u);
    boolean_("or.same", u || u, u);
    boolean_("and.opposite", u && !u, no);
    boolean_("or.opposite", u || !u, yes);
    boolean_("and.absorb", u && (u || v), u);
    boolean_("or.absorb", u || (u && v), u);
    boolean_("and.repeat", u && (u && v), u && v);
    boolean_("or.repeat", u || (u || v), u || v);
    boolean_("and.rest", u && (!u || v), u && v);
    boolean_("or.rest", u || (!u && v), u || v);
    boolean_("not.not", !!u, u);
    boolean_("not.and", !(u && v), !u || !v);
    boolean_("not.or", !(u || v), !u && !v);
    boolean_("eq.same_truth", u == u, yes);
    boolean_("ne.same_truth", u != u, no);
    boolean_("eq.true", u == yes, u);
    boolean_("eq.false", u == no, !u);
    boolean_("ne.true", u != yes, !u);
    boolean_("ne.false", u != no, u);
    // A comparison of floats is never inverted into another order: NaN answers false to both.
    rule(D::any, S::tree, "not.eq", !(x == y), x != y);
    rule(D::any, S::tree, "not.ne", !(x != y), x == y);
    integer("not.lt", !(x < y), y <= x);
    integer("not.le", !(x <= y), y < x);
    integer("not.gt", !(x > y), x <= y);
    integer("not.ge", !(x >= y), x < y);

    integer("and.lt_gt", x < y && y < x, no);
    integer("and.lt_ge", x < y && y <= x, no);
    integer("and.le_ge", x <= y && y <= x, x == y);
    integer("and.lt_eq", x < y && x == y, no);
    integer("and.le_ne", x <= y && x != y, x < y);
    integer("and.eq_ne", x == y && x != y, no);
    integer("or.lt_gt", x < y || y < x, x != y);
    integer("or.lt_ge", x < y || y <= x, yes);
    integer("or.le_ge", x <= y || y <= x, yes);
    integer("or.lt_eq", x < y || x == y, x <= y);
    integer("or.eq_ne", x == y || x != y, yes);
    integer("and.eq_eq", x == c && x == d, no, c != d);
    integer("and.eq_ne_constants", x == c && x != d, x == c, c != d);
    integer("or.ne_ne", x != c || x != d, yes, c != d);
    integer("or.eq_ne_constants", x == c || x != d, x != d, c != d);
    for (bool strict : {true, false}) {
      auto cmp = [&](const P& a, const P& b) { return strict ? a < b : a <= b; };
      const std::string op = strict ? "lt" : "le";
      integer("and." + op + "_both", cmp(x, c) && cmp(x, d), cmp(x, lo(c, d)));
      integer("or." + op + "_both", cmp(x, c) || cmp(x, d), cmp(x, hi(c, d)));
      integer("and." + op + "_both_left", cmp(c, x) && cmp(d, x), cmp(hi(c, d), x));
      integer("or." + op + "_both_left", cmp(c, x) || cmp(d, x), cmp(lo(c, d), x));
    }
    integer("and.empty_lt_le", x < c && d <= x, no, c <= d);
    integer("and.empty_le_lt", x <= c && d < x, no, c <= d);
    integer("and.empty_le_le", x <= c && d <= x, no, c < d);
    integer("and.empty_lt_lt", x < c && d < x, no, c <= d + 1);
    integer("or.full_lt_le", x < c || d <= x, yes, d <= c);
    integer("or.full_le_lt", x <= c || d < x, yes, d <= c);
    integer("or.full_le_le", x <= c || d <= x, yes, d <= c + 1);
    integer("or.full_lt_lt", x < c || d < x, yes, d < c);

    rule(D::any, S::tree, "select.same", pick(u, x, x), x);
    rule(D::any, S::tree, "select.not", pick(!u, x, y), pick(u, y, x));
    rule(D::any, S::tree, "select.nested_true", pick(u, pick(u, x, y), z), pick(u, x, z));
    rule(D::any, S::tree, "select.nested_false", pick(u, x, pick(u, y, z)), pick(u, x, z));
    boolean_("select.to_condition", pick(u, yes, no), u);
    boolean_("select.to_not", pick(u, no, yes), !u);
    boolean_("select.to_and", pick(u, v, no), u && v);
    boolean_("select.to_or", pick(u, yes, v), u || v);
    integer("select.to_min", pick(x < y, x, y), lo(x, y));
    integer("select.to_max", pick(x < y, y, x), hi(x, y));
    integer("select.to_min_le", pick(x <= y, x, y), lo(x, y));
    integer("select.to_max_le", pick(x <= y, y, x), hi(x, y));

    const P narrow = PrimExpr(var("x", i32));
    integer("cast.there_and_back", to(i32, to(i64, narrow)), narrow);
    rule(D::logic, S::tree, "cast.boolean_and_back", to(boolean, to(i64, u)), u);
    rule(D::logic, S::tree, "cast.boolean_ne_zero", to(i64, u) != 0, u);
    rule(D::logic, S::tree, "cast.boolean_eq_zero", to(i64, u) == 0, !u);
  }

  /// l lanes of x, x + y, x + 2 y, …; conditions hold in the first and the last lane, so in all.
  void vectors() {
    const P last = l - 1;
    auto each = [&](const char* name, auto op) {
      integer(std::string("lanes.") + name, op(spread(x), spread(y)), spread(op(x, y)));
    };
    each("add", [](const P& a, const P& b) { return a + b; });
    each("sub", [](const P& a, const P& b) { return a - b; });
    each("mul", [](const P& a, const P& b) { return a * b; });
    each("min", [](const P& a, const P& b) { return lo(a, b); });
    each("max", [](const P& a, const P& b) { return hi(a, b); });
    each("eq", [](const P& a, const P& b) { return a == b; });
    each("ne", [](const P& a, const P& b) { return a != b; });
    each("lt", [](const P& a, const P& b) { return a < b; });
    each("le", [](const P& a, const P& b) { return a <= b; });
    each("gt", [](const P& a, const P& b) { return a > b; });
    each("ge", [](const P& a, const P& b) { return a >= b; });
    // A division by zero stays one: neither form hides it.
    each("floordiv", [](const P& a, const P& b) { return fdiv(a, b); });
    each("floormod", [](const P& a, const P& b) { return fmod(a, b); });
    boolean_("lanes.and", spread(u) && spread(v), spread(u && v));
    boolean_("lanes.or", spread(u) || spread(v), spread(u || v));
    boolean_("lanes.not", !spread(u), spread(!u));
    const P mask = PrimExpr(var("w", boolean.with_lanes(4)));
    boolean_("lanes.and_true", mask && spread(yes), mask);
    boolean_("lanes.and_false", mask && spread(no), spread(no));
    boolean_("lanes.or_false", mask || spread(no), mask);
    boolean_("lanes.or_true", mask || spread(yes), spread(yes));

    integer("ramp.no_stride", ramp(x, 0), spread(x));
    index(S::tree, "ramp.add", ramp(x, y) + ramp(z, q), ramp(x + z, y + q));
    index(S::tree, "ramp.add_same", ramp(x, y) + spread(z), ramp(x + z, y));
    index(S::tree, "ramp.sub", ramp(x, y) - ramp(z, q), ramp(x - z, y - q));
    index(S::tree, "ramp.sub_same", ramp(x, y) - spread(z), ramp(x - z, y));
    index(S::tree, "ramp.same_sub", spread(z) - ramp(x, y), ramp(z - x, P(0) - y));
    index(S::tree, "ramp.mul", ramp(x, y) * spread(z), ramp(x * z, y * z));
    index(S::tree, "ramp.div_stride", fdiv(ramp(x, k), spread(c)), ramp(fdiv(x, c), fdiv(k, c)),
          c > 0 && fmod(k, c) == 0);
    index(S::tree, "ramp.mod_stride", fmod(ramp(x, k), spread(c)), spread(fmod(x, c)),
          c > 0 && fmod(k, c) == 0);
    const P first = fmod(x, c), reach = k * last;
    const P within = c > 0 && 0 <= first + lo(reach, 0) && first + hi(reach, 0) < c;
    index(S::tree, "ramp.div_in_one", fdiv(ramp(x, k), spread(c)), spread(fdiv(x, c)), within);
    index(S::tree, "ramp.mod_in_one", fmod(ramp(x, k), spread(c)), ramp(fmod(x, c), k), within);
    // Two ramps, or a ramp and one value: a comparison that holds at both ends holds between them.
    struct Side {
      std::string name;
      P vector, first, last;
    };
    const Side rx{"ramp", ramp(x, y), x, x + y * last}, rz{"ramp", ramp(z, q), z, z + q * last},
        sx{"same", spread(x), x, x}, sz{"same", spread(z), z, z};
    for (const auto& [a, b] : {std::pair{rx, rz}, {rx, sz}, {sx, rz}}) {
      const std::string name = a.name + "_" + b.name;
      auto both = [&](auto cmp) { return cmp(a.first, b.first) && cmp(a.last, b.last); };
      auto lt = [](const P& s, const P& t) { return s < t; };
      auto le = [](const P& s, const P& t) { return s <= t; };
      auto gt = [](const P& s, const P& t) { return t < s; };
      auto ge = [](const P& s, const P& t) { return t <= s; };
      index(S::tree, "ramp.lt_" + name, a.vector < b.vector, spread(yes), both(lt));
      index(S::tree, "ramp.not_lt_" + name, a.vector < b.vector, spread(no), both(ge));
      index(S::tree, "ramp.le_" + name, a.vector <= b.vector, spread(yes), both(le));
      index(S::tree, "ramp.not_le_" + name, a.vector <= b.vector, spread(no), both(gt));
      index(S::tree, "ramp.gt_" + name, a.vector > b.vector, spread(yes), both(gt));
      index(S::tree, "ramp.not_gt_" + name, a.vector > b.vector, spread(no), both(le));
      index(S::tree, "ramp.ge_" + name, a.vector >= b.vector, spread(yes), both(ge));
      index(S::tree, "ramp.not_ge_" + name, a.vector >= b.vector, spread(no), both(lt));
      if (a.name == "same") continue;  // the operands of a minimum may be swapped
      index(S::tree, "ramp.min_" + name, lo(a.vector, b.vector), a.vector, both(le));
      index(S::tree, "ramp.max_" + name, hi(a.vector, b.vector), a.vector, both(ge));
    }
  }

  std::vector<Rule> rules_;
};

}  // namespace

const std::vector<Rule>& rewrite_rules() {
  static const std::vector<Rule> rules = Table().build();
  return rules;
}

bool is_rule_constant(const Var& v) {
  return v.name.size() == 1 && std::string_view("cdefgkml").find(v.name[0]) != std::string_view::npos;
}

std::string to_text(const Rule& r) {
  std::string text = fmt::format("{}  ->  {}", print(r.pattern), print(r.replacement));
  if (!is_one(r.condition)) text += fmt::format("  if {}", print(r.condition));
  return text;
}

}  // namespace tenon
