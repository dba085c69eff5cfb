// SPDX-License-Identifier: Apache-2.0
// Walks over anything made of nodes: children come from the field lists. All of them keep their own stack,
// so a chain of any length is walked, and visit a shared node once.
#pragma once
#include "ir/module.h"

namespace tenon {

/// Calls f on every node below and including root, children first, each distinct node once. Arrays and maps
/// are looked through, not reported.
void post_order(const ObjectRef& root, FunctionRef<void(const ObjectRef&)> f);
/// Parents first; false from f skips the children.
void pre_order(const ObjectRef& root, FunctionRef<bool(const ObjectRef&)> f);
/// Bottom-up rewrite, memoised by node: f sees a node whose children are already rewritten and returns its
/// replacement, or null for "no change". Untouched parts are shared with the input. `skip` (optional): nodes
/// for which it returns true are kept as they are, with everything below.
ObjectRef rewrite_any(const ObjectRef& root, FunctionRef<ObjectRef(const ObjectRef&)> f);
ObjectRef rewrite_any(const ObjectRef& root, FunctionRef<ObjectRef(const ObjectRef&)> f,
                      FunctionRef<bool(const ObjectRef&)> skip);
/// The direct children (nodes) of one node in field order, arrays and maps looked through.
std::vector<ObjectRef> children(const ObjectRef& node);
/// The node with every direct child c replaced by f(c); shares the node when nothing changed.
ObjectRef map_children(const ObjectRef& node, FunctionRef<ObjectRef(const ObjectRef&)> f);

namespace detail {
template <class F>
struct rule_node;
template <class C, class R, class A>
struct rule_node<R (C::*)(const A&) const> {
  using type = A;
};
template <class C, class R, class A>
struct rule_node<R (C::*)(const A&)> {
  using type = A;
};
template <class F>
bool apply_rule(F& rule, const ObjectRef& node, ObjectRef& out) {
  using Node = typename rule_node<decltype(&F::operator())>::type;
  if (out) return false;
  if (const Node* n = node.as<Node>()) {
    auto r = rule(*n);
    if (r) out = r;
  }
  return bool(out);
}
}  // namespace detail

/// `rewrite(e, [](const Add& n) -> PrimExpr {…}, [](const Mul& n) -> PrimExpr {…})`: rules by node kind,
/// bottom-up; a null result means no change; the first rule that answers wins.
template <class T, class... Rules>
T rewrite(const T& root, Rules... rules) {
  auto f = [&](const ObjectRef& node) -> ObjectRef {
    ObjectRef out;
    (detail::apply_rule(rules, node, out) || ...);
    return out;
  };
  ObjectRef r = rewrite_any(root, f);
  T typed;
  static_cast<Ref<typename T::element_type>&>(typed) =
      Ref<typename T::element_type>(static_cast<const typename T::element_type*>(r.get()));
  return typed;
}

namespace tir {
using VarMap = std::unordered_map<const Var*, PrimExpr>;
using BufferMap = std::unordered_map<const BufferNode*, Buffer>;
/// Every use of a variable replaced (definitions are left; a variable in the map must not be redefined
/// below).
PrimExpr substitute(const PrimExpr& e, const VarMap& map);
Stmt substitute(const Stmt& s, const VarMap& map);
/// Buffers replaced, also in regions, declarations and matches; their data variables follow.
Stmt replace_buffers(const Stmt& s, const BufferMap& map);
/// Variables used but not defined in e.
std::vector<VarRef> free_vars(const ObjectRef& e);
/// A copy in which every variable, buffer and iterator defined inside is new.
PrimFunc rename_all(const PrimFunc& f);
Stmt rename_definitions(const Stmt& s);
/// Symbolic sizes (and other values) replaced by constants or expressions: `specialize(f, {n: 16})`.
PrimFunc specialize(const PrimFunc& f, const VarMap& values);
}  // namespace tir

}  // namespace tenon
