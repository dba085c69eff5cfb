// SPDX-License-Identifier: Apache-2.0
// A borrowed callable: what walkers take, so that their loops compile once and in one place.
#pragma once
#include <memory>
#include <type_traits>
#include <utility>

namespace tenon {

template <class Signature>
class FunctionRef;

/// Does not own: the callable must outlive the call it is passed to.
template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> && std::is_invocable_r_v<R, F&, Args...>)
  FunctionRef(F&& f)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* o, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(o))(std::forward<Args>(args)...);
        }) {}
  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

}  // namespace tenon
