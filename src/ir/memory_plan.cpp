// SPDX-License-Identifier: Apache-2.0
#include "ir/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ir/bodies.h"
#include "ir/calls_out.h"
#include "ir/op.h"

namespace tenon::graph {
namespace {

/// Stands for an end that is not known; products of two such values still fit 128 bits.
constexpr int64_t kUnbounded = int64_t(1) << 62;

/// Values that an expression of sizes takes.
struct Ends {
  int64_t least = -kUnbounded, most = kUnbounded;
};
int64_t saturate(__int128 v) {
  return int64_t(std::clamp<__int128>(v, -__int128(kUnbounded), __int128(kUnbounded)));
}
Ends negative(Ends x) { return {-x.most, -x.least}; }
Ends sum(Ends x, Ends y) {
  const auto add = [](int64_t a, int64_t b, int64_t unknown) {
    return a == unknown || b == unknown ? unknown : saturate(__int128(a) + b);
  };
  return {add(x.least, y.least, -kUnbounded), add(x.most, y.most, kUnbounded)};
}
Ends product(Ends x, Ends y) {
  const auto [least, most] =
      std::minmax({saturate(__int128(x.least) * y.least), saturate(__int128(x.least) * y.most),
                   saturate(__int128(x.most) * y.least), saturate(__int128(x.most) * y.most)});
  return {least, most};
}
Ends join(Ends x, Ends y) { return {std::min(x.least, y.least), std::max(x.most, y.most)}; }
Ends quotient(Ends x, int64_t divisor, bool down) {
  if (divisor <= 0) return {};
  const auto over = [&](int64_t v) {
    return v == kUnbounded || v == -kUnbounded ? v : v / divisor - (down && v % divisor < 0);
  };
  return {over(x.least), over(x.most)};
}
Ends remainder(Ends x, int64_t divisor, bool down) {
  if (divisor <= 0) return {};
  const int64_t most = x.least >= 0 ? std::min(x.most, divisor - 1) : divisor - 1;
  return {down || x.least >= 0 ? 0 : 1 - divisor, most};
}

Ends ends_of(const PrimExpr& e, const SizeBounds& bounds) {
  const auto of = [&](const PrimExpr& a) { return ends_of(a, bounds); };
  const auto number = [](const PrimExpr& a) { return tir::as_int(a).value_or(0); };
  if (const auto n = tir::as_int(e)) return {*n, *n};
  if (const auto* v = e.as<tir::Var>()) {
    // Without a bound it may be a position as well, which can be negative.
    const auto it = bounds.find(v->name);
    return it == bounds.end() ? Ends{} : Ends{0, it->second};
  }
  if (const auto* n = e.as<tir::Cast>()) return of(n->value);
  if (const auto* n = e.as<tir::Add>()) return sum(of(n->a), of(n->b));
  if (const auto* n = e.as<tir::Sub>()) return sum(of(n->a), negative(of(n->b)));
  if (const auto* n = e.as<tir::Mul>()) return product(of(n->a), of(n->b));
  if (const auto* n = e.as<tir::FloorDiv>()) return quotient(of(n->a), number(n->b), true);
  if (const auto* n = e.as<tir::Div>()) return quotient(of(n->a), number(n->b), false);
  if (const auto* n = e.as<tir::FloorMod>()) return remainder(of(n->a), number(n->b), true);
  if (const auto* n = e.as<tir::Mod>()) return remainder(of(n->a), number(n->b), false);
  if (const auto* n = e.as<tir::Select>()) return join(of(n->true_value), of(n->false_value));
  if (const auto* n = e.as<tir::Max>()) {
    const Ends x = of(n->a), y = of(n->b);
    return {std::max(x.least, y.least), std::max(x.most, y.most)};
  }
  if (const auto* n = e.as<tir::Min>()) {
    const Ends x = of(n->a), y = of(n->b);
    int64_t most = std::min(x.most, y.most);
    // The end of a data type (a size clamped on its way through int32) says nothing about the size.
    if (std::max(x.most, y.most) == kUnbounded && most >= std::numeric_limits<int32_t>::max())
      most = kUnbounded;
    return {std::min(x.least, y.least), most};
  }
  return {};
}

/// The most that an expression of sizes can be; -1 when that is not known.
int64_t most_of(const PrimExpr& e, const SizeBounds& bounds) {
  const int64_t most = ends_of(e, bounds).most;
  return most == kUnbounded ? -1 : std::max<int64_t>(0, most);
}

/// Looks at the offsets of one plan.
class PlanCheck {
 public:
  PlanCheck(const MemoryPlan& plan, std::vector<std::string>& problems)
      : plan_(plan), bounds_(bounds_of(plan)), problems_(problems) {}

  /// As many as there are tensors, each in the arena as a whole.
  void offsets(const Array<int64_t>& given, const Array<Type>& types, const std::string& what) {
    if (given.size() != types.size())
      return add(fmt::format("it has {} offsets for the {} tensors of {}", given.size(), types.size(), what));
    for (size_t i = 0; i < given.size(); ++i) {
      if (given[i] == -1) continue;
      const int64_t bytes = std::max<int64_t>(0, most_bytes(types[i], bounds_));
      if (given[i] < 0 || given[i] % 64 != 0 || (bytes > 0 && given[i] > plan_.arena_bytes - bytes))
        add(fmt::format("{} bytes of {} at {} do not lie in an arena of {}", bytes, what, given[i],
                        plan_.arena_bytes));
    }
  }
  void add(std::string problem) { problems_.push_back(std::move(problem)); }

 private:
  const MemoryPlan& plan_;
  SizeBounds bounds_;
  std::vector<std::string>& problems_;
};

}  // namespace

namespace {
/// What an expression of numbers only is, which need not fit 64 bits; null where a variable stands in it, or
/// where it leaves 127 bits on the way.
std::optional<__int128> number_of(const PrimExpr& e) {
  if (const auto* n = e.as<tir::IntImm>()) return n->value;
  __int128 out = 0;
  const auto both = [&](const auto* n, auto overflows) {
    const auto a = number_of(n->a), b = a ? number_of(n->b) : std::nullopt;
    return b && !overflows(*a, *b) ? std::optional(out) : std::nullopt;
  };
  if (const auto* n = e.as<tir::Add>())
    return both(n, [&](__int128 a, __int128 b) { return __builtin_add_overflow(a, b, &out); });
  if (const auto* n = e.as<tir::Sub>())
    return both(n, [&](__int128 a, __int128 b) { return __builtin_sub_overflow(a, b, &out); });
  if (const auto* n = e.as<tir::Mul>())
    return both(n, [&](__int128 a, __int128 b) { return __builtin_mul_overflow(a, b, &out); });
  return std::nullopt;
}
}  // namespace

bool beyond_memory(const Array<PrimExpr>& shape, DataType dtype) {
  __int128 bytes = std::max<int64_t>(1, dtype.is_void() ? 1 : dtype.bytes());
  bool nothing = false;
  for (const PrimExpr& d : shape) {
    const auto size = number_of(d);
    if (!size) continue;
    if (*size < 0 || *size > INT64_MAX) return true;
    nothing = nothing || *size == 0;
    bytes = std::min(bytes * std::max<__int128>(1, *size), __int128(kUnbounded) + 1);
  }
  return !nothing && bytes > kUnbounded;
}

int64_t most_bytes(const Type& type, const SizeBounds& bounds) {
  const auto* t = type ? as_tensor(type) : nullptr;
  const auto shape = t && !t->dtype.is_void() ? known_shape(type) : std::nullopt;
  if (!shape) return -1;
  std::vector<int64_t> dims;
  for (const PrimExpr& d : *shape) {
    dims.push_back(most_of(d, bounds));
    if (dims.back() < 0) return -1;
  }
  return int64_t(storage_bytes(element_count(dims), t->dtype));
}

PlannedBindings planned_bindings(const Function& function) {
  PlannedBindings out;
  for_each_binding(function.body, [&](const Binding& b) {
    const Expr value = b->value;
    if (const auto call = value.cast<Call>(); call && is_call_tir(value))
      out.calls.emplace_back(b->var, call);
    if (const auto loop = value.cast<While>()) out.loops.emplace_back(b->var, loop);
  });
  return out;
}

SizeBounds bounds_of(const MemoryPlan& plan) {
  SizeBounds out;
  for (const auto& [name, most] : plan.bounds) out[name] = most;
  return out;
}

std::vector<std::string> memory_plan_problems(const Function& function) {
  std::vector<std::string> out;
  if (!function.plan) return out;
  const MemoryPlan& plan = *function.plan;
  const PlannedBindings bindings = planned_bindings(function);
  PlanCheck check(plan, out);
  if (plan.calls.size() != bindings.calls.size())
    check.add(fmt::format("it is for {} calls of programs, and the function makes {}", plan.calls.size(),
                          bindings.calls.size()));
  else
    for (size_t i = 0; i < plan.calls.size(); ++i)
      check.offsets(plan.calls[i], bindings.calls[i].second->type_args,
                    fmt::format("`{}`", bindings.calls[i].first->name));
  if (plan.loops.size() != bindings.loops.size())
    check.add(
        fmt::format("it is for {} loops, and the function has {}", plan.loops.size(), bindings.loops.size()));
  else
    for (size_t i = 0; i < plan.loops.size(); ++i) {
      Array<Type> types;
      for (const VarRef& v : bindings.loops[i].second->loop_vars) types.push_back(v->declared);
      check.offsets(plan.loops[i], types, fmt::format("the loop `{}`", bindings.loops[i].first->name));
    }
  for (int64_t call : plan.joined)
    if (call < 0 || call >= int64_t(plan.calls.size()))
      check.add(fmt::format("it leaves out a call {} that there is not", call));
  return out;
}

}  // namespace tenon::graph
