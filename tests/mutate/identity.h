// SPDX-License-Identifier: Apache-2.0
// Functions of the compiler replaced from outside: a library that is loaded first defines them once more;
// what is not to be replaced goes on to the compiler's own.
#pragma once
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

namespace tenon::mutate {

/// Is this what TENON_IDENTITY names: "pass:NAME", "primitive:NAME", "te:NAME"?
inline bool chosen(std::string_view what) {
  static const char* name = std::getenv("TENON_IDENTITY");
  return name && what == name;
}

/// The address behind our own function of the same name.
inline void* behind(const void* own) {
  Dl_info info{};
  void* found =
      dladdr(own, &info) != 0 && info.dli_sname != nullptr ? dlsym(RTLD_NEXT, info.dli_sname) : nullptr;
  if (!found) std::_Exit(99);  // not loaded first, or the compiler has no such function
  return found;
}
template <class R, class... A>
R next(R (*own)(A...), std::type_identity_t<A>... args) {
  const auto f = reinterpret_cast<R (*)(A...)>(behind(reinterpret_cast<const void*>(own)));
  return f(std::forward<A>(args)...);
}
/// A member function is called as a function of its object (the convention of the Itanium C++ ABI).
template <class C, class R, class... A>
R next(C* self, R (C::*own)(A...), std::type_identity_t<A>... args) {
  const void* address = nullptr;
  std::memcpy(&address, &own, sizeof(address));
  const auto f = reinterpret_cast<R (*)(C*, A...)>(behind(address));
  return f(self, std::forward<A>(args)...);
}
template <class C, class R, class... A>
R next(const C* self, R (C::*own)(A...) const, std::type_identity_t<A>... args) {
  const void* address = nullptr;
  std::memcpy(&address, &own, sizeof(address));
  const auto f = reinterpret_cast<R (*)(const C*, A...)>(behind(address));
  return f(self, std::forward<A>(args)...);
}

}  // namespace tenon::mutate
