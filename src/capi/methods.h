// SPDX-License-Identifier: Apache-2.0
// Functions of C++ for other languages, a line each:
//
//   add_function("ir.script", {"node"}, print_node, "script text");
//   Methods<ScheduleObj>()
//       .make({"mod"}, [](const IRModule& m) { return make<ScheduleObj>(Schedule(m)); })
//       .add("split", {"loop", "factors"}, [](const Ref<ScheduleObj>& s, …) {…}, "cuts a loop")
//       .property("mod", [](const Ref<ScheduleObj>& s) { return s->value.mod(); });
//
// They are packed functions in the registry, methods under "TYPE.NAME", a property under
// "TYPE.property.NAME", what makes an object under "TYPE.new". Names such as `__add__` are Python's. What is
// no node but lives long (a schedule, a builder) is held by an object of its own: `struct ScheduleObj :
// Object` with a `type_key`. Arguments are converted as fields are (integers to expressions, names to data
// types); the last ones may be left out when a default is given for them.
#pragma once
#include "base/define_type.h"
#include "base/function.h"

namespace tenon {

/// A parameter's name and, when it may be left out, what it is then.
struct NamedParameter {
  NamedParameter(const char* name) : name(name) {}
  NamedParameter(const char* name, Any otherwise)
      : name(name), otherwise(std::move(otherwise)), optional(true) {}
  std::string name;
  Any otherwise;
  bool optional = false;
};

/// A value for other languages: C++ keeps an empty Array or Map as null, they get an empty one.
template <class R>
Any or_empty(R value) {
  if constexpr (std::is_base_of_v<Ref<ArrayObj>, R>) {
    if (!value) return Any(make<ArrayObj>());
  } else if constexpr (std::is_base_of_v<Ref<MapObj>, R>) {
    if (!value) return Any(make<MapObj>());
  }
  return Any(std::move(value));
}

namespace detail {

/// NamedParameter and result types of a callable.
template <class F>
struct Signature : Signature<decltype(&F::operator())> {};
template <class R, class... Args>
struct Signature<R (*)(Args...)> {
  using Function = std::function<R(Args...)>;
};
template <class C, class R, class... Args>
struct Signature<R (C::*)(Args...) const> : Signature<R (*)(Args...)> {};

/// What keeps a value from being a T ("int", "Array whose item 2 is none"), or nothing: objects are not none.
template <class T>
struct Misfit {
  static std::string of(const Any& given) {
    Any fit;
    return Coerce<T>::to(given, &fit) && !(is_ref_like<T> && fit.is_none()) ? "" : given.kind_name();
  }
};
template <class T>
struct Misfit<Array<T>> {
  static std::string of(const Any& given) {
    const auto list = given.try_as<Ref<ArrayObj>>();
    if (!list || !*list) return given.kind_name();
    size_t k = 0;
    for (const Any& item : (*list)->items) {
      if (std::string wrong = Misfit<T>::of(item); !wrong.empty())
        return given.kind_name() + " whose item " + std::to_string(k) + " is " + wrong;
      ++k;
    }
    return "";
  }
};

template <class V>
struct Misfit<Map<std::string, V>> {
  static std::string of(const Any& given) {
    const auto map = given.try_as<Ref<MapObj>>();
    if (!map || !*map) return given.kind_name();
    for (const auto& [key, value] : (*map)->items) {
      if (std::string wrong = Misfit<std::string>::of(key); !wrong.empty())
        return given.kind_name() + " with a key that is " + wrong;
      if (std::string wrong = Misfit<V>::of(value); !wrong.empty())
        return given.kind_name() + " whose item `" + key.template as<std::string>() + "` is " + wrong;
    }
    return "";
  }
};

/// None stands for an object only where it is the default.
template <class T>
T converted(const std::string& name, const NamedParameter& parameter, size_t i, const Any& given) {
  Any fit;
  const bool fits = Coerce<T>::to(given, &fit);
  if (fits && (!is_ref_like<T> || (parameter.optional && fit.is_none()) || Misfit<T>::of(given).empty()))
    return fit.as<T>();
  throw Error(ErrorKind::usage, "T0102",
              name + ": argument " + std::to_string(i + 1) + " (`" + parameter.name + "`) must be " +
                  TypeName<T>::get() + ", not " + Misfit<T>::of(given));
}

template <class R>
std::string result_name() {
  if constexpr (std::is_void_v<R>)
    return "None";
  else
    return TypeName<R>::get();
}

/// "NAME(a: int, b: tir.PrimExpr = …) -> int", a line of dashes, the words.
template <class R, class... Args>
std::string signature_doc(std::string_view name, const std::vector<NamedParameter>& parameters,
                          std::string_view doc) {
  const std::string types[] = {TypeName<std::remove_cvref_t<Args>>::get()..., ""};
  std::string text = std::string(name) + "(";
  for (size_t i = 0; i < sizeof...(Args); ++i)
    text += (i ? ", " : "") + parameters[i].name + ": " + types[i] + (parameters[i].optional ? " = ..." : "");
  return text + ") -> " + result_name<R>() + "\n--\n\n" + std::string(doc);
}

template <class R, class... Args>
Function typed(const std::string& name, std::vector<NamedParameter> parameters, std::function<R(Args...)> f) {
  CHECK(parameters.size() == sizeof...(Args), name + ": a name for each parameter");
  return Function([name, parameters = std::move(parameters), f = std::move(f)](Arguments args) -> Any {
    constexpr size_t n = sizeof...(Args);
    if (args.size() > n || (args.size() < n && !parameters[args.size()].optional))
      argument_count_error(name, n, args.size());
    const auto given = [&](size_t i) -> const Any& {
      const bool left_out = i >= args.size() || (args[i].is_none() && parameters[i].optional);
      return left_out ? parameters[i].otherwise : args[i];
    };
    return [&]<size_t... I>(std::index_sequence<I...>) -> Any {
      if constexpr (std::is_void_v<R>) {
        f(converted<std::remove_cvref_t<Args>>(name, parameters[I], I, given(I))...);
        return Any();
      } else
        return or_empty(f(converted<std::remove_cvref_t<Args>>(name, parameters[I], I, given(I))...));
    }(std::index_sequence_for<Args...>());
  });
}

template <class R, class... Args>
void add_typed(const std::string& name, std::vector<NamedParameter> parameters, std::function<R(Args...)> f,
               std::string_view doc, std::source_location where) {
  std::string text = signature_doc<R, Args...>(name.substr(name.rfind('.') + 1), parameters, doc);
  registry::add(name, typed(name, std::move(parameters), std::move(f)), false, std::move(text), where);
}

}  // namespace detail

/// Registers a function with the names of its parameters.
template <class F>
void add_function(const std::string& name, std::vector<NamedParameter> parameters, F f, std::string_view doc,
                  std::source_location where = std::source_location::current()) {
  detail::add_typed(name, std::move(parameters), typename detail::Signature<F>::Function(std::move(f)), doc,
                    where);
}

/// Registers what other languages can do with objects of a type.
template <class T>
class Methods {
 public:
  template <class F>
  Methods& add(const std::string& name, std::vector<NamedParameter> parameters, F f, std::string_view doc,
               std::source_location where = std::source_location::current()) {
    parameters.insert(parameters.begin(), "self");
    add_function(key() + name, std::move(parameters), std::move(f), doc, where);
    return *this;
  }
  template <class F>
  Methods& property(const std::string& name, F f, std::string_view doc,
                    std::source_location where = std::source_location::current()) {
    add_function(key() + "property." + name, {"self"}, std::move(f), doc, where);
    return *this;
  }
  template <class F>
  Methods& make(std::vector<NamedParameter> parameters, F f, std::string_view doc,
                std::source_location where = std::source_location::current()) {
    add_function(key() + "new", std::move(parameters), std::move(f), doc, where);
    return *this;
  }

 private:
  /// Registered with its methods: the type is there before the first object.
  static std::string key() { return std::string(type_info<T>()->key) + "."; }
};

}  // namespace tenon
