// SPDX-License-Identifier: Apache-2.0
#include "ir/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ir/bodies.h"
#include "ir/op.h"

namespace tenon::graph {
namespace {

/// The most that an expression of sizes can be; -1 when that is not known.
int64_t most_of(const PrimExpr& e, const SizeBounds& bounds) {
  auto both = [&](const PrimExpr& a, const PrimExpr& b, auto f) {
    const int64_t x = most_of(a, bounds), y = most_of(b, bounds);
    return x < 0 || y < 0 ? int64_t(-1) : f(x, y);
  };
  if (const auto n = tir::as_int(e)) return *n;
  if (const auto* v = e.as<tir::Var>()) {
    const auto it = bounds.find(v->name);
    return it == bounds.end() ? -1 : it->second;
  }
  if (const auto* n = e.as<tir::Cast>()) return most_of(n->value, bounds);
  if (const auto* n = e.as<tir::Add>()) {
    // A negative constant takes away.
    if (const auto c = tir::as_int(n->b); c && *c < 0) {
      const int64_t x = most_of(n->a, bounds);
      return x < 0 ? -1 : std::max<int64_t>(0, x + *c);
    }
    return both(n->a, n->b, [](int64_t x, int64_t y) {
      int64_t out;
      return __builtin_add_overflow(x, y, &out) ? int64_t(-1) : out;
    });
  }
  if (const auto* n = e.as<tir::Mul>())
    return both(n->a, n->b, [](int64_t x, int64_t y) {
      int64_t out;
      return __builtin_mul_overflow(x, y, &out) ? int64_t(-1) : out;
    });
  if (const auto* n = e.as<tir::Sub>()) {
    const int64_t x = most_of(n->a, bounds);
    const auto c = tir::as_int(n->b);
    return x < 0 || (c && *c < 0) ? -1 : std::max<int64_t>(0, x - c.value_or(0));
  }
  const auto over = [&](const PrimExpr& a, const PrimExpr& b, bool rest) {
    const auto c = tir::as_int(b);
    const int64_t x = most_of(a, bounds);
    if (!c || *c <= 0) return int64_t(-1);
    if (rest) return x < 0 ? *c - 1 : std::min(x, *c - 1);
    return x < 0 ? int64_t(-1) : x / *c;
  };
  if (const auto* n = e.as<tir::FloorDiv>()) return over(n->a, n->b, false);
  if (const auto* n = e.as<tir::Div>()) return over(n->a, n->b, false);
  if (const auto* n = e.as<tir::FloorMod>()) return over(n->a, n->b, true);
  if (const auto* n = e.as<tir::Mod>()) return over(n->a, n->b, true);
  if (const auto* n = e.as<tir::Max>())
    return both(n->a, n->b, [](int64_t x, int64_t y) { return std::max(x, y); });
  if (const auto* n = e.as<tir::Min>()) {
    // The end of a data type (a size clamped on its way through int32) says nothing about the size.
    const int64_t x = most_of(n->a, bounds), y = most_of(n->b, bounds), most = x < 0 ? y : x;
    if (x < 0 || y < 0) return most < std::numeric_limits<int32_t>::max() ? most : -1;
    return std::min(x, y);
  }
  return -1;
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
    if (const auto call = value.cast<Call>(); call && is_op(value, "call_tir"))
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
