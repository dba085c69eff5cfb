// SPDX-License-Identifier: Apache-2.0
// Whether something stands in a program or an expression. A null root holds nothing.
#pragma once
#include "ir/tir.h"
#include "ir/walk.h"

namespace tenon {

// Where to look: what is false of a node is not looked at below it.
inline constexpr auto everywhere = [](const ObjectRef&) { return true; };
inline constexpr auto not_in_buffers = [](const ObjectRef& n) { return !n.is<tir::BufferNode>(); };
inline constexpr auto in_statements = [](const ObjectRef& n) { return n.is<tir::StmtNode>(); };

/// Does `f` hold of a node below or including root?
template <class Where, class F>
bool any_node(const ObjectRef& root, Where where, F f) {
  bool found = false;
  pre_order(root, [&](const ObjectRef& n) {
    found = found || f(n);
    return !found && where(n);
  });
  return found;
}
template <class F>
bool any_node(const ObjectRef& root, F f) {
  return any_node(root, everywhere, f);
}
/// Is there a node of one of these kinds?
template <class... Kinds, class Where = decltype(everywhere)>
bool has_node(const ObjectRef& root, Where where = everywhere) {
  return any_node(root, where, [](const ObjectRef& n) { return (n.is<Kinds>() || ...); });
}
/// Is there this very node, a variable for example?
template <class Where = decltype(everywhere)>
bool mentions(const ObjectRef& root, const Object* what, Where where = everywhere) {
  return any_node(root, where, [&](const ObjectRef& n) { return n.get() == what; });
}
/// Is there a variable that is a key of `vars`?
template <class Vars, class Where = decltype(everywhere)>
bool mentions_any(const ObjectRef& root, const Vars& vars, Where where = everywhere) {
  return any_node(root, where, [&](const ObjectRef& n) {
    const auto* v = n.as<tir::Var>();
    return v && vars.count(v) > 0;
  });
}

}  // namespace tenon
