// SPDX-License-Identifier: Apache-2.0
// Rules evaluated at a width, independently of the compiler's own arithmetic, and instances to evaluate.
#pragma once
#include <map>
#include <random>

#include "analysis/rule.h"
#include "ir/walk.h"

namespace tenon::rule_test {

/// Two's complement arithmetic of `bits` bits.
struct Width {
  int bits = 64;
  bool is_signed = true;
  int64_t wrap(__int128 v) const {
    const unsigned __int128 mask = (static_cast<unsigned __int128>(1) << bits) - 1;
    unsigned __int128 u = static_cast<unsigned __int128>(v) & mask;
    if (is_signed && (u >> (bits - 1))) return int64_t(__int128(u) - (__int128(1) << bits));
    return int64_t(u);
  }
  bool fits(__int128 v) const {
    if (is_signed) return v >= -(__int128(1) << (bits - 1)) && v < (__int128(1) << (bits - 1));
    return v >= 0 && v < (__int128(1) << bits);
  }
};

struct Result {
  int64_t value = 0;
  bool overflow = false, undefined = false;
  bool constant_overflow = false;  ///< of a part made of constants only
};

/// The variables of a rule by letter; `lane` picks one of a vector.
struct Values {
  std::array<int64_t, 26> of{};
  int64_t lane = 0;
};

inline __int128 floor_quotient(__int128 a, __int128 b) {
  __int128 q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

/// An expression over single-letter variables as an array, children first.
class Program {
 public:
  explicit Program(const PrimExpr& e) { add(e); }
  /// `exact`: numbers of any size, as conditions of the engine are computed.
  Result run(const Values& in, Width w, bool exact = false) const {
    Result out;
    std::array<int64_t, 64> v;  // children come first
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const Node& n = nodes_[i];
      const __int128 a = n.a >= 0 ? v[size_t(n.a)] : 0, b = n.b >= 0 ? v[size_t(n.b)] : 0,
                     c = n.c >= 0 ? v[size_t(n.c)] : 0;
      __int128 r = 0;
      bool number = false;
      switch (n.op) {
        case Op::var:
          r = in.of[size_t(n.value)];
          break;
        case Op::imm:
          r = n.value;
          number = !n.boolean;
          break;
        case Op::add:
          r = a + b, number = true;
          break;
        case Op::sub:
          r = a - b, number = true;
          break;
        case Op::mul:
          r = a * b, number = true;
          break;
        case Op::div:
        case Op::mod:
        case Op::fdiv:
        case Op::fmod:
          number = true;
          if (b == 0)
            out.undefined = true;
          else if (n.op == Op::div)
            r = a / b;
          else if (n.op == Op::mod)
            r = a % b;
          else if (n.op == Op::fdiv)
            r = floor_quotient(a, b);
          else
            r = a - floor_quotient(a, b) * b;
          break;
        case Op::min:
          r = a < b ? a : b;
          break;
        case Op::max:
          r = a > b ? a : b;
          break;
        case Op::eq:
          r = a == b;
          break;
        case Op::ne:
          r = a != b;
          break;
        case Op::lt:
          r = a < b;
          break;
        case Op::le:
          r = a <= b;
          break;
        case Op::gt:
          r = a > b;
          break;
        case Op::ge:
          r = a >= b;
          break;
        case Op::logical_and:
          r = a && b;
          break;
        case Op::logical_or:
          r = a || b;
          break;
        case Op::logical_not:
          r = !a;
          break;
        case Op::select:
          r = a ? b : c;
          break;
        case Op::copy:
          r = a;
          break;
        case Op::ramp:
          r = a + b * in.lane, number = true;
          break;
      }
      if (number && !exact) {
        out.overflow = out.overflow || !w.fits(r);
        out.constant_overflow = out.constant_overflow || (n.closed && !w.fits(r));
        v[i] = w.wrap(r);
      } else {
        out.overflow = out.overflow || (exact && !Width{64, true}.fits(r));
        v[i] = int64_t(r);
      }
    }
    out.value = v[nodes_.size() - 1];
    return out;
  }

 private:
  enum class Op {
    var,
    imm,
    add,
    sub,
    mul,
    div,
    mod,
    fdiv,
    fmod,
    min,
    max,
    eq,
    ne,
    lt,
    le,
    gt,
    ge,
    logical_and,
    logical_or,
    logical_not,
    select,
    copy,
    ramp
  };
  struct Node {
    Op op;
    int a = -1, b = -1, c = -1;
    int64_t value = 0;
    bool boolean = false, closed = false;
  };
  int push(Node n) {
    n.closed = n.closed || (n.a >= 0 && nodes_[size_t(n.a)].closed && n.b >= 0 && nodes_[size_t(n.b)].closed);
    nodes_.push_back(n);
    CHECK(nodes_.size() <= 64, "a rule is too large for its test");
    return int(nodes_.size()) - 1;
  }
  int add(const PrimExpr& e) {
    using namespace tir;
    auto two = [&](Op op, const auto& n) {
      const int a = add(n.a), b = add(n.b);
      return push({op, a, b});
    };
    return match<int>(
        e,
        [&](const Var& n) {
          return push({Op::var, -1, -1, -1, n.name[0] - 'a', false, is_rule_constant(n)});
        },
        [&](const IntImm& n) { return push({Op::imm, -1, -1, -1, n.value, n.dtype.is_bool(), true}); },
        [&](const Add& n) { return two(Op::add, n); }, [&](const Sub& n) { return two(Op::sub, n); },
        [&](const Mul& n) { return two(Op::mul, n); }, [&](const Div& n) { return two(Op::div, n); },
        [&](const Mod& n) { return two(Op::mod, n); }, [&](const FloorDiv& n) { return two(Op::fdiv, n); },
        [&](const FloorMod& n) { return two(Op::fmod, n); }, [&](const Min& n) { return two(Op::min, n); },
        [&](const Max& n) { return two(Op::max, n); }, [&](const EQ& n) { return two(Op::eq, n); },
        [&](const NE& n) { return two(Op::ne, n); }, [&](const LT& n) { return two(Op::lt, n); },
        [&](const LE& n) { return two(Op::le, n); }, [&](const GT& n) { return two(Op::gt, n); },
        [&](const GE& n) { return two(Op::ge, n); }, [&](const And& n) { return two(Op::logical_and, n); },
        [&](const Or& n) { return two(Op::logical_or, n); },
        [&](const Not& n) {
          const int a = add(n.a);
          return push({Op::logical_not, a});
        },
        [&](const Select& n) {
          const int c = add(n.condition), a = add(n.true_value), b = add(n.false_value);
          return push({Op::select, c, a, b});
        },
        [&](const Cast& n) {
          const int a = add(n.value);  // casts of rules keep their value
          return push({Op::copy, a});
        },
        [&](const Broadcast& n) {
          const int a = add(n.value);
          return push({Op::copy, a});
        },
        [&](const Ramp& n) {
          const int a = add(n.base), b = add(n.stride);
          return push({Op::ramp, a, b});
        },
        [&](const PrimExprNode& n) -> int {
          CHECK(false, std::string(type_of(&n)->key));
          return 0;
        });
  }
  std::vector<Node> nodes_;
};

/// One rule ready to be evaluated.
class Sampler {
 public:
  explicit Sampler(const Rule& rule)
      : rule_(rule), pattern_(rule.pattern), replacement_(rule.replacement), condition_(rule.condition) {
    std::array<bool, 26> seen{};
    for (const PrimExpr& e : {rule.pattern, rule.replacement, rule.condition})
      post_order(e, [&](const ObjectRef& n) {
        const auto* v = n.as<tir::Var>();
        if (!v || seen[size_t(v->name[0] - 'a')]) return;
        seen[size_t(v->name[0] - 'a')] = true;
        vars_.emplace_back(v->name[0], v->dtype.is_bool());
      });
    post_order(rule.pattern, [&](const ObjectRef& n) {
      const PrimExpr e = n.is<tir::PrimExprNode>() ? PrimExpr(n.cast<tir::PrimExprNode>()) : PrimExpr();
      vector_ = vector_ || (e && e.dtype().is_vector());
    });
  }

  struct Count {
    int64_t tried = 0, held = 0;
    std::string counterexample;
  };
  /// `want` evaluations where the premises hold, in at most `tries`.
  Count run(int64_t want, int64_t tries, uint64_t seed) {
    Count out;
    random_.seed(seed);
    std::vector<Width> widths{{8, true}, {16, true}, {32, true}, {64, true}};
    if (rule_.domain == RuleDomain::integer || rule_.domain == RuleDomain::any)
      for (int bits : {8, 16, 32}) widths.push_back({bits, false});
    for (; out.tried < tries && out.held < want; ++out.tried) {
      const Width w = widths[size_t(out.tried) % widths.size()];
      if (!holds(pick(w), w, out)) return out;
    }
    return out;
  }
  /// All values of a small width: the most bits for which no more than 2^`limit` cases arise.
  Count exhaust(int limit) {
    Count out;
    int numbers = 0, booleans = 0;
    for (auto [name, is_bool] : vars_) (is_bool ? booleans : numbers)++;
    const int bits = numbers ? std::min(8, (limit - booleans) / numbers) : 8;
    if (bits < 3) return out;
    for (bool is_signed : {true, false}) {
      if (!is_signed && rule_.domain != RuleDomain::integer) continue;
      const Width w{bits, is_signed};
      for (int64_t n = 0; n < int64_t(1) << (numbers * bits + booleans); ++n) {
        Values v;
        int64_t rest = n;
        for (auto [name, is_bool] : vars_) {
          const int b = is_bool ? 1 : bits;
          v.of[size_t(name - 'a')] = is_bool ? rest & 1 : w.wrap(rest & ((1 << b) - 1));
          rest >>= b;
        }
        const int64_t lanes = v.of['l' - 'a'];
        if (vector_ && (lanes < 2 || lanes > 8)) continue;
        for (int64_t lane = 0; lane < (vector_ ? lanes : 1); ++lane) {
          v.lane = lane;
          ++out.tried;
          if (!holds(v, w, out)) return out;
        }
      }
    }
    return out;
  }

 private:
  /// False when the rule fails.
  bool holds(const Values& in, Width w, Count& out) {
    const bool index = rule_.domain == RuleDomain::index;
    const Result c = condition_.run(in, w, !index);
    if (c.overflow || c.undefined || !c.value) return true;
    const Result p = pattern_.run(in, w), r = replacement_.run(in, w);
    if (index && (p.overflow || r.constant_overflow)) return true;
    if (rule_.widens && r.overflow) return true;
    ++out.held;
    if (p.undefined == r.undefined && (p.undefined || p.value == r.value)) return true;
    out.counterexample = std::to_string(w.bits) + (w.is_signed ? " bits" : " bits, unsigned");
    for (auto [name, is_bool] : vars_)
      out.counterexample += std::string(", ") + name + " = " + std::to_string(in.of[size_t(name - 'a')]);
    out.counterexample += ": " + (p.undefined ? std::string("undefined") : std::to_string(p.value)) +
                          " became " + (r.undefined ? std::string("undefined") : std::to_string(r.value));
    return false;
  }

  int64_t up_to(int64_t a, int64_t b) { return std::uniform_int_distribution<int64_t>(a, b)(random_); }
  Values pick(Width w) {
    Values v;
    std::vector<int64_t> before;
    // Variables in a changing order, so that each may depend on each.
    std::shuffle(vars_.begin(), vars_.end(), random_);
    const int calm = int(up_to(0, 2));
    for (auto [name, is_bool] : vars_) {
      __int128 x = 0;
      if (is_bool) {
        v.of[size_t(name - 'a')] = up_to(0, 1);
        continue;
      }
      const int64_t low = w.is_signed ? -9 : 0;
      auto any = [&] { return __int128(before[size_t(up_to(0, int64_t(before.size()) - 1))]); };
      switch (calm == 0 ? 0 : up_to(0, before.empty() ? 4 : 8)) {
        case 0:
        case 1:
          x = up_to(low, 12);
          break;
        case 2:
          x = (__int128(1) << (w.bits - (w.is_signed ? 1 : 0))) - 1 - up_to(0, 4);
          break;
        case 3:
          x = w.is_signed ? -(__int128(1) << (w.bits - 1)) + up_to(0, 4) : up_to(0, 3);
          break;
        case 4:
          x = __int128(random_()) >> up_to(0, w.bits - 1);
          if (up_to(0, 1)) x = -x;
          break;
        case 5:
          x = any() + up_to(-3, 3);
          break;
        case 6:
          x = any() * any() + up_to(-3, 3);
          break;
        case 7:
          x = any() * up_to(-4, 4);
          break;
        default:
          x = (__int128(1) << up_to(0, w.bits - 1)) + up_to(-1, 1);
          break;
      }
      v.of[size_t(name - 'a')] = w.wrap(x);
      before.push_back(w.wrap(x));
    }
    if (vector_) {
      v.of['l' - 'a'] = up_to(2, 16);
      v.lane = up_to(0, v.of['l' - 'a'] - 1);
    }
    return v;
  }

  const Rule& rule_;
  Program pattern_, replacement_, condition_;
  std::vector<std::pair<char, bool>> vars_;
  bool vector_ = false;
  std::mt19937_64 random_;
};

}  // namespace tenon::rule_test
