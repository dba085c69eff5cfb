// SPDX-License-Identifier: Apache-2.0
// The evaluator of the property tests.
#include "eval.h"

#include "ir/intrinsic.h"

namespace tenon {

using namespace tir;

static int64_t fdiv(int64_t a, int64_t b) {
  int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

std::optional<int64_t> value(const PrimExpr& e, const Values& vars) {
  using R = std::optional<int64_t>;
  auto both = [&](const auto& n, auto f) -> R {
    R a = value(n.a, vars), b = value(n.b, vars);
    if (!a || !b) return std::nullopt;
    return f(*a, *b);
  };
  return match<R>(
      e, [&](const IntImm& n) -> R { return n.value; }, [&](const Var& n) -> R { return vars.at(&n); },
      [&](const Add& n) {
        return both(n, [](int64_t a, int64_t b) -> R { return int64_t(uint64_t(a) + uint64_t(b)); });
      },
      [&](const Sub& n) {
        return both(n, [](int64_t a, int64_t b) -> R { return int64_t(uint64_t(a) - uint64_t(b)); });
      },
      [&](const Mul& n) {
        return both(n, [](int64_t a, int64_t b) -> R { return int64_t(uint64_t(a) * uint64_t(b)); });
      },
      [&](const Div& n) {
        return both(n, [](int64_t a, int64_t b) -> R {
          if (!b) return {};
          return a / b;
        });
      },
      [&](const Mod& n) {
        return both(n, [](int64_t a, int64_t b) -> R {
          if (!b) return {};
          return a % b;
        });
      },
      [&](const FloorDiv& n) {
        return both(n, [](int64_t a, int64_t b) -> R {
          if (!b) return {};
          return fdiv(a, b);
        });
      },
      [&](const FloorMod& n) {
        return both(n, [](int64_t a, int64_t b) -> R {
          if (!b) return {};
          return a - fdiv(a, b) * b;
        });
      },
      [&](const Min& n) { return both(n, [](int64_t a, int64_t b) -> R { return std::min(a, b); }); },
      [&](const Max& n) { return both(n, [](int64_t a, int64_t b) -> R { return std::max(a, b); }); },
      [&](const EQ& n) { return both(n, [](int64_t a, int64_t b) -> R { return a == b; }); },
      [&](const NE& n) { return both(n, [](int64_t a, int64_t b) -> R { return a != b; }); },
      [&](const LT& n) { return both(n, [](int64_t a, int64_t b) -> R { return a < b; }); },
      [&](const LE& n) { return both(n, [](int64_t a, int64_t b) -> R { return a <= b; }); },
      [&](const GT& n) { return both(n, [](int64_t a, int64_t b) -> R { return a > b; }); },
      [&](const GE& n) { return both(n, [](int64_t a, int64_t b) -> R { return a >= b; }); },
      [&](const And& n) { return both(n, [](int64_t a, int64_t b) -> R { return a && b; }); },
      [&](const Or& n) { return both(n, [](int64_t a, int64_t b) -> R { return a || b; }); },
      [&](const Not& n) -> R {
        R a = value(n.a, vars);
        if (a) a = !*a;
        return a;
      },
      [&](const Select& n) -> R {
        R c = value(n.condition, vars);
        if (!c) return c;
        return value(*c ? n.true_value : n.false_value, vars);
      },
      [&](const Cast& n) -> R {
        R v = value(n.value, vars);
        if (!v) return v;
        return n.dtype == i32 ? int64_t(int32_t(*v)) : *v;
      },
      [&](const tir::Call& n) -> R {
        R c = value(n.args[0], vars);
        if (!c) return c;
        return value(n.args[*c ? 1 : 2], vars);
      },
      [&](const PrimExprNode&) -> R {
        ADD_FAILURE() << "unexpected node";
        return 0;
      });
}

}  // namespace tenon
