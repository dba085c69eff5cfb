// SPDX-License-Identifier: Apache-2.0
// Packed functions: any callable over Any values, and the registry of named ones.
#pragma once
#include <functional>
#include <source_location>
#include <span>

#include "base/container.h"

namespace tenon {

using Arguments = std::span<const Any>;

struct FunctionObj : Object {
  static constexpr std::string_view type_key = "Function";
  explicit FunctionObj(std::function<Any(Arguments)> call) : call(std::move(call)) {}
  std::function<Any(Arguments)> call;
};
extern template const TypeInfo* type_info<FunctionObj>();

/// A callable that takes an array of Any and returns one.
class Function : public Ref<FunctionObj> {
 public:
  Function() = default;
  explicit Function(std::function<Any(Arguments)> call) : Ref(make<FunctionObj>(std::move(call))) {}
  Any call_packed(Arguments args) const { return (*this)->call(args); }
  template <class... Args>
  Any operator()(Args&&... args) const {
    Any values[sizeof...(Args) + 1] = {Any(std::forward<Args>(args))..., Any()};
    return call_packed({values, sizeof...(Args)});
  }
};

template <class Signature>
class TypedFunction;

/// A packed function seen with C++ types. Wrapping a typed callable checks count and kinds of arguments:
/// Error "T0101" names the function, the position and the kind found.
template <class R, class... Args>
class TypedFunction<R(Args...)> {
 public:
  TypedFunction() = default;
  TypedFunction(Function f) : function_(std::move(f)) {}
  TypedFunction(std::function<R(Args...)> f, std::string name = "function");
  R operator()(Args... args) const {
    if constexpr (std::is_void_v<R>)
      function_(std::move(args)...);
    else
      return function_(std::move(args)...).template as<R>();
  }
  const Function& packed() const { return function_; }
  explicit operator bool() const { return bool(function_); }

 private:
  Function function_;
};

[[noreturn]] void argument_count_error(const std::string& name, size_t wanted, size_t given);
[[noreturn]] void argument_kind_error(const std::string& name, size_t position, const std::string& found);

namespace detail {
template <class T>
std::remove_cvref_t<T> argument(const std::string& name, Arguments args, size_t i) {
  auto v = args[i].template try_as<std::remove_cvref_t<T>>();
  if (!v) argument_kind_error(name, i, args[i].kind_name());
  return *std::move(v);
}
}  // namespace detail

template <class R, class... Args>
TypedFunction<R(Args...)>::TypedFunction(std::function<R(Args...)> f, std::string name)
    : function_([f = std::move(f), name = std::move(name)](Arguments args) -> Any {
        if (args.size() != sizeof...(Args)) argument_count_error(name, sizeof...(Args), args.size());
        return [&]<size_t... I>(std::index_sequence<I...>) -> Any {
          if constexpr (std::is_void_v<R>) {
            f(detail::argument<Args>(name, args, I)...);
            return Any();
          } else
            return Any(f(detail::argument<Args>(name, args, I)...));
        }(std::index_sequence_for<Args...>());
      }) {}

/// The process-wide table of named functions. Thread-safe.
namespace registry {
struct Entry {
  std::string name;
  Function function;
  std::string file;
  int line = 0;
  std::string doc;
};
/// Registers under its name; Error "T0103" names both places when the name is taken and `override_` is false.
void add(Entry entry, bool override_);
inline void add(std::string name, Function function, bool override_ = false, std::string doc = {},
                std::source_location where = std::source_location::current()) {
  add({std::move(name), std::move(function), where.file_name(), int(where.line()), std::move(doc)},
      override_);
}
Function find(std::string_view name);  ///< null if there is none
std::optional<Entry> entry(std::string_view name);
std::vector<std::string> names(std::string_view prefix = {});  ///< sorted
void remove(std::string_view name);
}  // namespace registry

}  // namespace tenon
