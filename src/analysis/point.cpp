// SPDX-License-Identifier: Apache-2.0
// One point that nothing known forbids. What does not hold there cannot be proved, so that proofs which would
// fail after a long search are not begun.
#include "analysis/analyzer_impl.h"

namespace tenon {

using namespace analysis_detail;

namespace {

/// Different variables are different, and small, so that products of many do not overflow.
constexpr int64_t first_value = 29, value_step = 2, values = 64;

using Value = std::optional<int64_t>;
Value sum(int64_t x, int64_t y) {
  int64_t r = 0;
  return __builtin_add_overflow(x, y, &r) ? Value() : Value(r);
}
Value difference(int64_t x, int64_t y) {
  int64_t r = 0;
  return __builtin_sub_overflow(x, y, &r) ? Value() : Value(r);
}
Value product(int64_t x, int64_t y) {
  int64_t r = 0;
  return __builtin_mul_overflow(x, y, &r) ? Value() : Value(r);
}

}  // namespace

/// Of a variable: the start of its range, else a number of its own that its bounds allow.
std::optional<int64_t> Analyzer::Impl::find_value_of(const Var& v) {
  const auto number = numbers.try_emplace(&v, VarRef(Ref<Var>(&v)), numbers.size()).first;
  int64_t x = first_value + value_step * int64_t(number->second.second % values);
  const auto it = vars.find(&v);
  if (it == vars.end()) return x;
  const VarInfo& info = it->second;
  if (info.value) return value(info.value);
  if (info.range) {
    const auto min = value(info.range->min), extent = value(info.range->extent);
    if (!min || !extent || *extent <= 0) return {};
    x = *min;
  } else {
    if (info.bound.min > info.bound.max) return {};
    x = std::clamp(x, info.bound.min, info.bound.max);
    if (info.modular.coeff == 0)
      x = info.modular.base;
    else
      x = wrap_add(x, -floor_mod(wrap_add(x, -info.modular.base), info.modular.coeff));
  }
  const bool fits = x >= info.bound.min && x <= info.bound.max &&
                    (info.modular.coeff == 0 ? x == info.modular.base
                                             : floor_mod(x - info.modular.base, info.modular.coeff) == 0);
  return fits ? std::optional(x) : std::nullopt;
}

std::optional<int64_t> Analyzer::Impl::find_value(const PrimExpr& e) {
  const DataType type = e.dtype();
  if (type.is_vector() || !(type.is_integer() || type.is_bool())) return {};
  if (++depth > deepest) {
    --depth, ++too_deep;
    return {};
  }
  // f of both sides, where they have values and the result is one of the type.
  auto both = [&](const PrimExpr& a, const PrimExpr& b, auto f) -> Value {
    const Value x = value(a);
    if (!x) return {};
    const Value y = value(b);
    return y ? f(*x, *y) : Value();
  };
  auto divided = [&](const PrimExpr& a, const PrimExpr& b, auto f) {
    return both(a, b, [&](int64_t x, int64_t y) { return y > 0 ? Value(f(x, y)) : Value(); });
  };
  const Value out = match<Value>(
      e, [&](const tir::IntImm& n) { return Value(n.value); },
      [&](const Var& n) { return type == i64 ? find_value_of(n) : Value(); },
      [&](const tir::Add& n) { return both(n.a, n.b, sum); },
      [&](const tir::Sub& n) { return both(n.a, n.b, difference); },
      [&](const tir::Mul& n) { return both(n.a, n.b, product); },
      [&](const tir::FloorDiv& n) { return divided(n.a, n.b, floor_div); },
      [&](const tir::FloorMod& n) { return divided(n.a, n.b, floor_mod); },
      [&](const tir::Div& n) { return divided(n.a, n.b, [](int64_t x, int64_t y) { return x / y; }); },
      [&](const tir::Mod& n) { return divided(n.a, n.b, [](int64_t x, int64_t y) { return x % y; }); },
      [&](const tir::Min& n) {
        return both(n.a, n.b, [](int64_t x, int64_t y) { return Value(std::min(x, y)); });
      },
      [&](const tir::Max& n) {
        return both(n.a, n.b, [](int64_t x, int64_t y) { return Value(std::max(x, y)); });
      },
      [&](const tir::LT& n) { return both(n.a, n.b, [](int64_t x, int64_t y) { return Value(x < y); }); },
      [&](const tir::LE& n) { return both(n.a, n.b, [](int64_t x, int64_t y) { return Value(x <= y); }); },
      [&](const tir::EQ& n) { return both(n.a, n.b, [](int64_t x, int64_t y) { return Value(x == y); }); },
      [&](const tir::NE& n) { return both(n.a, n.b, [](int64_t x, int64_t y) { return Value(x != y); }); },
      [&](const tir::And& n) { return both(n.a, n.b, [](int64_t x, int64_t y) { return Value(x && y); }); },
      [&](const tir::Or& n) { return both(n.a, n.b, [](int64_t x, int64_t y) { return Value(x || y); }); },
      [&](const tir::Not& n) {
        const Value x = value(n.a);
        return x ? Value(!*x) : x;
      },
      [&](const tir::Select& n) {
        const Value c = value(n.condition);
        return c ? value(*c ? n.true_value : n.false_value) : c;
      },
      [&](const tir::Cast& n) { return value(n.value); }, [&](const tir::PrimExprNode&) { return Value(); });
  --depth;
  const ConstBound all = of_type(type);
  return out && (type.is_uint() && type.bits == 64 ? *out >= 0 : *out >= all.min && *out <= all.max)
             ? out
             : Value();
}

std::optional<int64_t> Analyzer::Impl::value(const PrimExpr& e) {
  if (const auto* n = e.as<tir::IntImm>()) return n->value;
  return recall(e, &Found::value, &Impl::find_value);
}

std::optional<int64_t> Analyzer::Impl::value(const Sum& s) {
  int64_t total = s.base;
  for (const Term& t : s.terms) {
    int64_t product = t.coeff;
    for (const PrimExpr& a : t.atoms) {
      const auto x = value(a);
      if (!x || __builtin_mul_overflow(product, *x, &product)) return {};
    }
    if (__builtin_add_overflow(total, product, &total)) return {};
  }
  return total;
}

/// What is known holds at the point.
bool Analyzer::Impl::point_is_allowed() {
  if (!allowed)
    allowed = std::ranges::all_of(facts, [&](const Sum& f) { return value(f).value_or(-1) >= 0; }) &&
              std::ranges::all_of(literals, [&](const PrimExpr& c) { return value(c).value_or(0) != 0; });
  return *allowed;
}

}  // namespace tenon
