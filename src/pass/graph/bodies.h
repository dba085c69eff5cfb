// SPDX-License-Identifier: Apache-2.0
// Passes that rebuild bodies themselves: how they reach those inside a value.
#pragma once
#include "ir/graph.h"

namespace tenon::graph {

/// The value with `f` of each of its bodies (bodies_of) in its place; the same object when all stay.
inline Expr map_bodies(const Expr& value, FunctionRef<Expr(const Expr&)> f) {
  std::vector<Expr> bodies = bodies_of(value);
  bool changed = false;
  for (Expr& body : bodies) {
    Expr next = f(body);
    changed |= !next.same_as(body);
    body = next;
  }
  return changed ? with_bodies(value, bodies) : value;
}
/// The same for what a binding binds; true when that changed.
inline bool map_bodies(Binding& binding, FunctionRef<Expr(const Expr&)> f) {
  const auto* bound = binding.as<VarBindingNode>();
  if (!bound) return false;
  const Expr next = map_bodies(bound->value, f);
  if (next.same_as(bound->value)) return false;
  binding = make<VarBindingNode>(bound->var, next);
  return true;
}

}  // namespace tenon::graph
