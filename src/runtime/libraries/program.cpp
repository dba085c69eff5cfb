// SPDX-License-Identifier: Apache-2.0
// libtenon_program: what programs of graph functions say and check while they run, and the value of nothing.
#include <cstdio>

#include "runtime/executable.h"
#include "runtime/libraries/register.h"
#include "runtime/ndarray.h"

namespace tenon {
namespace {

std::string number_text(const NDArray& a, int64_t i) {
  if (a.dtype().is_bool()) return a.element_int(i) ? "True" : "False";
  if (a.dtype().is_integer()) return std::to_string(a.element_int(i));
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", a.element(i));
  return text;
}

/// Elements in brackets, row by row.
void elements(const NDArray& a, size_t axis, int64_t& at, std::string& out) {
  if (axis == a.shape().size()) {
    out += number_text(a, at++);
    return;
  }
  out += '[';
  for (int64_t i = 0; i < a.shape()[axis]; ++i) {
    if (i) out += ", ";
    elements(a, axis + 1, at, out);
  }
  out += ']';
}

std::string text_of(const Any& value, int depth = 0) {
  constexpr int kDeepest = 64;
  if (value.tag() == kBool) return value.as<bool>() ? "True" : "False";
  if (value.tag() == kInt) return std::to_string(value.as<int64_t>());
  if (value.tag() == kFloat) {
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", value.as<double>());
    return text;
  }
  if (!value.is_object() || depth == kDeepest) return value.is_none() ? "None" : "...";
  const ObjectRef o(value.object());
  if (const auto* s = o.as<StringObj>()) return s->value;
  if (auto t = value.try_as<NDArray>(); t && *t) {
    std::string out;
    int64_t at = 0;
    elements(*t, 0, at, out);
    return out;
  }
  if (const auto* s = o.as<ShapeObj>()) {
    std::string out = "(";
    for (size_t i = 0; i < s->dims.size(); ++i) out += (i ? ", " : "") + std::to_string(s->dims[i]);
    return out + ")";
  }
  if (const auto* list = o.as<ArrayObj>()) {
    std::string out = "(";
    for (size_t i = 0; i < list->items.size(); ++i)
      out += (i ? ", " : "") + text_of(list->items[i], depth + 1);
    return out + ")";
  }
  return "<value>";
}

/// `format` with each "{}" replaced by the next value; without a format, the values in a row.
std::string formatted(const std::string& format, Arguments values) {
  std::string out;
  size_t next = 0;
  if (format.empty()) {
    for (const Any& v : values) out += (out.empty() ? "" : " ") + text_of(v);
    return out;
  }
  for (size_t i = 0; i < format.size(); ++i) {
    if (format.compare(i, 2, "{}") == 0 && next < values.size()) {
      out += text_of(values[next++]);
      ++i;
    } else {
      out += format[i];
    }
  }
  return out;
}

Any nothing() { return Any(make<ArrayObj>()); }  // the empty tuple

/// (format, values…): a line on standard output.
Any print(Arguments a) {
  const std::string line = formatted(a[0].as<std::string>(), a.subspan(1)) + "\n";
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
  return nothing();
}

bool holds(const Any& condition) {
  if (auto t = condition.try_as<NDArray>(); t && *t) {
    if (t->size() != 1)
      throw Error(ErrorKind::model, "T0523", "the condition of an assertion is no single value");
    return t->element(0) != 0;
  }
  return condition.as<int64_t>() != 0;
}

/// (format, condition, values…): an error where the condition does not hold.
Any check(Arguments a) {
  if (holds(a[1])) return nothing();
  const std::string format = a[0].as<std::string>();
  const bool says = !format.empty() || a.size() > 2;
  throw Error(ErrorKind::model, "T0523",
              "an assertion of the program does not hold" +
                  (says ? ": " + formatted(format, a.subspan(2)) : std::string()));
}

[[maybe_unused]] const bool registered = [] {
  register_unless_taken("tenon.program.print", print, "writes values as a format says");
  register_unless_taken("tenon.program.assert", check, "fails where a condition does not hold");
  register_unless_taken("tenon.program.null", [](Arguments) { return Any(); }, "the value of nothing");
  return true;
}();

}  // namespace
}  // namespace tenon
