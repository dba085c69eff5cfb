// SPDX-License-Identifier: Apache-2.0
// What all IR nodes share: where they came from, and typed dispatch over the closed sets.
#pragma once
#include "base/diagnostic.h"
#include "base/function_ref.h"
#include "base/reflect.h"

namespace tenon {

/// Where a node came from: a span of script text, or words such as "model.onnx, node 'conv1' (Conv-11)".
struct OriginObj : Object {
  static constexpr std::string_view type_key = "ir.Origin";
  std::string text;
  Span span;
};
using Origin = Ref<OriginObj>;
extern template const TypeInfo* type_info<OriginObj>();
/// The node, which was just made, as one from there.
template <class T>
Ref<T> with_origin(Ref<T> made, Origin origin) {
  made.edit()->origin = std::move(origin);
  return made;
}

// First static type indices of the closed sets (see NodeSet).
inline constexpr uint32_t kPrimExprBase = 256, kStmtBase = 320, kTypeBase = 352, kGraphExprBase = 384,
                          kTirPartBase = 448, kGraphPartBase = 480, kBindingBase = 504;

namespace detail {
template <class... Fs>
struct overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
overloaded(Fs...) -> overloaded<Fs...>;

template <class R, class Base, uint32_t First, class... Ts, class F>
R dispatch(NodeSet<First, Ts...>, const Base& node, F& f) {
  static_assert((std::is_invocable_v<F&, const Ts&> && ...),
                "match: a node kind has no case; add one, or a case for the base class");
  using Thunk = R (*)(const Base&, F&);
  static constexpr Thunk table[] = {[](const Base& n, F& g) -> R { return g(static_cast<const Ts&>(n)); }...};
  CHECK(node.type_index >= First && node.type_index < First + sizeof...(Ts), "unregistered node kind");
  return table[node.type_index - First](node, f);
}
}  // namespace detail

/// Calls the case for the node's kind: `match(e, [&](const Add& n) {…}, [&](const PrimExprNode& n) {…})`.
/// The case for the base class is the default. All cases return the type of the base or first case.
template <class R = void, class Base, class... Fs>
R match(const Ref<Base>& node, Fs&&... cases) {
  detail::overloaded f{std::forward<Fs>(cases)...};
  CHECK(node, "match on a null node");
  return detail::dispatch<R>(typename Base::set(), *node, f);
}

}  // namespace tenon
