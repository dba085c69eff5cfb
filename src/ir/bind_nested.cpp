// SPDX-License-Identifier: Apache-2.0
#include "ir/bind_nested.h"

#include "ir/walk.h"

namespace tenon::graph {

Expr bind_nested(const Expr& value, FunctionRef<Expr(Expr)> bind) {
  auto opaque = [](const ObjectRef& node) {
    return !node.is<Call>() && !node.is<Tuple>() && !node.is<TupleGetItem>();
  };
  auto bound = [&](const ObjectRef& node) -> ObjectRef {
    return node.is<Tuple>() ? ObjectRef() : bind(Any(node).as<Expr>());
  };
  if (opaque(value)) return value;
  const ObjectRef flat =
      map_children(value, [&](const ObjectRef& child) { return rewrite_any(child, bound, opaque); });
  return Any(flat).as<Expr>();
}

}  // namespace tenon::graph
