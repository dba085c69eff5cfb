// SPDX-License-Identifier: Apache-2.0
#include "ir/pass_option.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/diagnostic.h"
#include "base/nearest.h"
#include "ir/parse_syntax.h"
#include "ir/pass.h"
#include "ir/text.h"

namespace tenon {
namespace {

/// The text at its commas outside of brackets and quotes.
std::vector<std::string_view> at_commas(std::string_view text) {
  std::vector<std::string_view> out;
  int depth = 0;
  bool quoted = false;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (c == '"') quoted = !quoted;
    depth += c == '(' || c == '[';
    depth -= c == ')' || c == ']';
    if (i < text.size() && (c != ',' || depth > 0 || quoted)) continue;
    std::string_view item = text.substr(begin, i - begin);
    while (item.starts_with(' ')) item.remove_prefix(1);
    while (item.ends_with(' ')) item.remove_suffix(1);
    if (!item.empty() || begin > 0 || i < text.size()) out.push_back(item);
    begin = i + 1;
  }
  return out;
}

/// Elements of nested lists in order; the lengths of the lists go into `shape`. False when they are no
/// tensor.
bool elements_of(std::string_view text, size_t depth, std::vector<int64_t>& shape,
                 std::vector<std::string_view>& out) {
  if (!text.starts_with('[')) {
    out.push_back(text);
    return depth == shape.size();
  }
  if (!text.ends_with(']')) return false;
  const std::vector<std::string_view> items = at_commas(text.substr(1, text.size() - 2));
  if (out.empty() && depth == shape.size()) shape.push_back(int64_t(items.size()));
  if (depth >= shape.size() || shape[depth] != int64_t(items.size())) return false;
  for (std::string_view item : items)
    if (!elements_of(item, depth + 1, shape, out)) return false;
  return true;
}

template <class T>
std::optional<T> number_of(std::string_view text) {
  T v = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return v;
}

std::string list_of(const NDArray& a, size_t depth, int64_t& next) {
  if (depth == a.shape().size())
    return a.dtype().is_float() ? fmt::format("{}", a.element(next++))
                                : std::to_string(a.element_int(next++));
  std::string out;
  for (int64_t i = 0; i < a.shape()[depth]; ++i) out += (i ? "," : "") + list_of(a, depth + 1, next);
  return "[" + out + "]";
}

/// How a kind of values is named, read and written. What is no value of the kind is null; where more can be
/// said than that, it joins the problems.
template <class T>
struct Kind;
template <>
struct Kind<bool> {
  static std::string name() { return "true or false"; }
  static std::optional<bool> parse(std::string_view t, DiagnosticList&) {
    if (t == "true" || t == "1") return true;
    if (t == "false" || t == "0") return false;
    return std::nullopt;
  }
  static std::string print(bool v) { return v ? "true" : "false"; }
};
template <>
struct Kind<int64_t> {
  static std::string name() { return "integer"; }
  static std::optional<int64_t> parse(std::string_view t, DiagnosticList&) { return number_of<int64_t>(t); }
  static std::string print(int64_t v) { return std::to_string(v); }
};
template <>
struct Kind<std::string> {
  static std::string name() { return "text"; }
  static std::optional<std::string> parse(std::string_view t, DiagnosticList&) { return std::string(t); }
  static std::string print(const std::string& v) { return v; }
};
template <>
struct Kind<NDArray> {
  static std::string name() { return "tensor"; }
  static std::optional<NDArray> parse(std::string_view t, DiagnosticList&) {
    const size_t list = std::min(t.find('['), t.size());
    DataType type = f32;
    if (list > 0 && list < t.size() && !parse_dtype(std::string(t.substr(0, list)), &type))
      return std::nullopt;
    std::vector<int64_t> shape;
    std::vector<std::string_view> elements;
    if (!elements_of(t.substr(list < t.size() ? list : 0), 0, shape, elements)) return std::nullopt;
    NDArray a = NDArray::empty(shape, type);
    for (size_t i = 0; i < elements.size(); ++i) {
      const auto whole = type.is_float() ? std::nullopt : number_of<int64_t>(elements[i]);
      const auto real = type.is_float() ? number_of<double>(elements[i]) : std::nullopt;
      if (!whole && !real) return std::nullopt;
      if (whole)
        a.set_element_int(int64_t(i), *whole);
      else
        a.set_element(int64_t(i), *real);
    }
    return a;
  }
  static std::string print(const NDArray& a) {
    int64_t next = 0;
    return to_string(a.dtype()) + list_of(a, 0, next);
  }
};
template <>
struct Kind<graph::Type> {
  static std::string name() { return "type"; }
  static std::optional<graph::Type> parse(std::string_view t, DiagnosticList& problems) {
    const IRModule m = script::module_of(fmt::format("@R.function\ndef main(x: {}):\n  return x\n", t),
                                         {.name = "<type>"}, problems);
    if (!m) return std::nullopt;
    return m.find("main").cast<graph::Function>()->params[0]->declared;
  }
  static std::string print(const graph::Type& t) { return tenon::print(t); }
};
template <class E>
struct Kind<Array<E>> {
  static std::string name() { return Kind<E>::name() + "s"; }
  static std::optional<Array<E>> parse(std::string_view t, DiagnosticList& problems) {
    Array<E> out;
    for (std::string_view item : at_commas(t)) {
      auto v = Kind<E>::parse(item, problems);
      if (!v) return std::nullopt;
      out.push_back(*v);
    }
    return out;
  }
  static std::string print(const Array<E>& a) {
    std::string out;
    for (const E& v : a) out += (out.empty() ? "" : ",") + Kind<E>::print(v);
    return out;
  }
};
template <class V>
struct Kind<Map<std::string, V>> {
  static std::string name() { return Kind<V>::name() + "s by name"; }
  static std::optional<Map<std::string, V>> parse(std::string_view t, DiagnosticList& problems) {
    Map<std::string, V> out;
    for (std::string_view item : at_commas(t)) {
      const size_t equals = item.find('=');
      if (equals == item.npos || equals == 0) return std::nullopt;
      auto v = Kind<V>::parse(item.substr(equals + 1), problems);
      if (!v) return std::nullopt;
      out.set(std::string(item.substr(0, equals)), *v);
    }
    return out;
  }
  static std::string print(const Map<std::string, V>& m) {
    std::string out;
    for (const auto& [name, v] : m) out += (out.empty() ? "" : ",") + name + "=" + Kind<V>::print(v);
    return out;
  }
};

/// A value as it is stored: strictly of the type, items of containers included.
template <class T>
bool is_a(const Any& v) {
  if constexpr (std::is_same_v<T, bool>)
    return v.tag() == kBool;
  else if constexpr (std::is_same_v<T, int64_t>)
    return v.tag() == kInt;
  else
    return !v.is_none() && v.try_as<T>().has_value();
}
template <class T>
struct Takes {
  static bool test(const Any& v) { return is_a<T>(v); }
};
template <class E>
struct Takes<Array<E>> {
  static bool test(const Any& v) {
    const auto all = v.try_as<Array<Any>>();  // none is an empty one
    if (!all) return false;
    for (const Any& item : *all)
      if (!is_a<E>(item)) return false;
    return true;
  }
};
template <class V>
struct Takes<Map<std::string, V>> {
  static bool test(const Any& v) {
    const auto all = v.try_as<Map<Any, Any>>();
    if (!all) return false;
    for (const auto& [name, value] : *all)
      if (!is_a<std::string>(name) || !is_a<V>(value)) return false;
    return true;
  }
};

bool allowed(const OptionValues& values, const Any& v) {
  if (v.tag() == kInt) return v.as<int64_t>() >= values.least;
  if (const auto text = v.try_as<std::string>())
    return values.one_of.empty() || std::ranges::find(values.one_of, *text) != values.one_of.end();
  bool all = true;
  if (const auto items = v.try_as<Array<Any>>())
    for (const Any& item : *items) all = all && allowed(values, item);
  else if (const auto map = v.try_as<Map<Any, Any>>())
    for (const auto& [name, item] : *map) all = all && allowed(values, item);
  return all;
}

/// Null behind a problem: there is no such pass, or it has no such option.
const PassOption* find_option(std::string_view name, DiagnosticList& problems) {
  const std::string_view pass_name = name.substr(0, name.rfind('.'));
  const Pass* pass = find_pass(pass_name);
  if (!pass) {
    problems.add(no_such_pass(pass_name));
    return nullptr;
  }
  std::vector<std::string> names;
  for (const PassOption& o : pass->options) {
    if (o.name == name) return &o;
    names.push_back(o.name);
  }
  problems.add("T0943", fmt::format("the pass `{}` has no option `{}`", pass_name, name), {},
               names.empty() ? "it has none" : did_you_mean(name, names, "its options: "));
  return nullptr;
}
const PassOption& find_option(std::string_view name) {
  DiagnosticList problems(ErrorKind::usage);
  const PassOption* option = find_option(name, problems);
  problems.throw_if_any();
  return *option;
}

}  // namespace

template <class T>
Option<T>::Option(std::string name, T otherwise, std::string help, OptionValues values)
    : PassOption{.name = std::move(name),
                 .help = std::move(help),
                 .type = Kind<T>::name(),
                 .otherwise = Any(std::move(otherwise)),
                 .values = std::move(values),
                 .of_type = Takes<T>::test,
                 .from_text = [](std::string_view t, DiagnosticList& problems) -> std::optional<Any> {
                   auto v = Kind<T>::parse(t, problems);
                   return v ? std::optional<Any>(Any(*std::move(v))) : std::nullopt;
                 },
                 .to_text = [](const Any& v) { return Kind<T>::print(v.as<T>()); }} {}
template struct Option<bool>;
template struct Option<int64_t>;
template struct Option<std::string>;
template struct Option<Array<int64_t>>;
template struct Option<Array<std::string>>;
template struct Option<Map<std::string, int64_t>>;
template struct Option<Map<std::string, std::string>>;
template struct Option<Map<std::string, NDArray>>;
template struct Option<Map<std::string, graph::Type>>;

std::string PassOption::type_in_words() const {
  if (values.least != INT64_MIN) return fmt::format("{}, at least {}", type, values.least);
  return values.one_of.empty() ? type : fmt::format("{}, {}", type, fmt::join(values.one_of, " or "));
}
bool PassOption::takes(const Any& value) const { return of_type(value) && allowed(values, value); }

std::string option_text(std::string_view name, const Any& value) { return find_option(name).to_text(value); }

void PassOptions::set(std::string_view name, Any value) {
  const PassOption& option = find_option(name);
  if (!option.takes(value))
    fail("T0944", fmt::format("the option `{}` takes a value of the type {}", name, option.type_in_words()),
         {}, option.help, ErrorKind::usage);
  given_.set(option.name, std::move(value));
}

void PassOptions::set_text(std::string_view assignment) {
  DiagnosticList problems(ErrorKind::usage);
  set_text(assignment, problems);
  problems.throw_if_any();
}

void PassOptions::set_text(std::string_view assignment, DiagnosticList& problems) {
  const size_t equals = std::min(assignment.find('='), assignment.size());
  const std::string_view name = assignment.substr(0, equals);
  const PassOption* option = find_option(name, problems);
  if (!option) return;
  std::optional<Any> value;
  DiagnosticList of_value;
  if (equals < assignment.size()) value = option->from_text(assignment.substr(equals + 1), of_value);
  for (const Diagnostic& d : of_value.all()) problems.add(d);
  if (value && option->takes(*value))
    given_.set(option->name, *std::move(value));
  else if (of_value.empty())
    problems.add("T0944",
                 fmt::format("`{}`: the option `{}` takes a value of the type {}", assignment, name,
                             option->type_in_words()),
                 {}, fmt::format("write {}=VALUE: {}", name, option->help));
}

}  // namespace tenon
