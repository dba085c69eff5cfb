// SPDX-License-Identifier: Apache-2.0
// Helper functions of the C text: what C leaves undefined or does otherwise.
#include <fmt/format.h>

#include <cmath>

#include "codegen/c/c_emitter.h"

namespace tenon::codegen {
namespace {
std::string replace(std::string text, std::initializer_list<std::pair<std::string_view, std::string>> words) {
  for (auto& [from, to] : words)
    for (size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size())
      text.replace(at, from.size(), to);
  return text;
}
std::string c_type(DataType t) { return fmt::format("{}int{}_t", t.is_uint() ? "u" : "", t.bits); }
std::string suffix(DataType t) {
  return fmt::format("{}{}", t.is_uint() ? "u" : t.is_int() ? "i" : "f", t.bits);
}
}  // namespace

std::string CHelpers::integer(std::string_view op, DataType t) {
  t = t.element();
  const std::string name = fmt::format("tn_{}_{}", op, suffix(t));
  if (!add(name)) return name;
  const bool s = t.is_int();
  std::string body;
  if (op == "div" || op == "mod" || op == "floordiv" || op == "floormod") {
    // A zero divisor counts as one; the quotient that overflows wraps.
    if (op == "div")
      body = s ? "  if (b == 0) return a;\n  if (b == -1) return (T)(0 - (U)a);\n  return (T)(a / b);\n"
               : "  return b == 0 ? a : (T)(a / b);\n";
    if (op == "mod")
      body = s ? "  if (b == 0 || b == -1) return 0;\n  return (T)(a % b);\n"
               : "  return b == 0 ? 0 : (T)(a % b);\n";
    if (op == "floordiv")
      body = s ? "  if (b == 0) return a;\n  if (b == -1) return (T)(0 - (U)a);\n  return (T)(a / b - (a % b "
                 "!= 0 && (a < 0) != (b < 0)));\n"
               : "  return b == 0 ? a : (T)(a / b);\n";
    if (op == "floormod")
      body = s ? "  if (b == 0 || b == -1) return 0;\n  const T r = (T)(a % b);\n  return r != 0 && (r < 0) "
                 "!= (b < 0) ? (T)(r + b) : r;\n"
               : "  return b == 0 ? 0 : (T)(a % b);\n";
  }
  if (op == "min") body = "  return a < b ? a : b;\n";
  if (op == "max") body = "  return a > b ? a : b;\n";
  if (op == "shift_left") body = "  return (uint64_t)b >= BITS ? 0 : (T)((U)a << (U)b);\n";
  if (op == "shift_right")
    body = s ? "  return (T)(a >> ((uint64_t)b >= BITS ? BITS - 1 : b));\n"
             : "  return (uint64_t)b >= BITS ? 0 : (T)(a >> b);\n";
  if (op == "pow")
    body =
        "  U r = 1, x = (U)a;\n  for (; b > 0; b = (T)(b / 2)) {\n    if (b % 2 != 0) r *= x;\n    x *= x;\n "
        " }\n  return (T)r;\n";
  const bool one = op == "popcount" || op == "clz" || op == "abs";
  if (op == "popcount")
    body =
        "  UT v = (UT)a;\n  T n = 0;\n  for (; v != 0; v = (UT)(v >> 1)) n = (T)(n + (T)(v & 1));\n  return "
        "n;\n";
  if (op == "clz")
    body =
        "  UT v = (UT)a;\n  T n = BITS;\n  for (; v != 0; v = (UT)(v >> 1)) n = (T)(n - 1);\n  return n;\n";
  if (op == "abs") body = s ? "  return a < 0 ? (T)(0 - (U)a) : a;\n" : "  return a;\n";
  const std::string wide = t.bits == 64 ? "uint64_t" : "uint32_t";
  text_ += replace(fmt::format("static inline T {}({}) {{\n{}}}\n\n", name, one ? "T a" : "T a, T b", body),
                   {{"UT", "@1"},
                    {"(U)", "(@2)"},
                    {"U r", "@2 r"},
                    {"BITS", std::to_string(t.bits)},
                    {"T ", c_type(t) + " "},
                    {"(T)", "(" + c_type(t) + ")"},
                    {"@1", c_type(DataType::uint(t.bits))},
                    {"@2", wide}});
  return name;
}

std::string CHelpers::floating(std::string_view op, DataType t) {
  const bool d = t.bits == 64;
  const std::string name = fmt::format("tn_{}_{}", op, d ? "f64" : "f32");
  if (!add(name)) return name;
  const std::string f = d ? "" : "f", type = d ? "double" : "float", zero = d ? "0.0" : "0.0f";
  std::string body;
  if (op == "min") body = "  return a < b || a != a ? a : b;\n";  // a NaN on either side is the result
  if (op == "max") body = "  return a > b || a != a ? a : b;\n";
  if (op == "floordiv") body = fmt::format("  return floor{}(a / b);\n", f);
  if (op == "floormod")
    body = fmt::format(
        "  const {0} r = fmod{1}(a, b);\n  return r != {2} && (r < {2}) != (b < {2}) ? r + b : r;\n", type, f,
        zero);
  text_ += fmt::format("static inline {0} {1}({0} a, {0} b) {{\n{2}}}\n\n", type, name, body);
  return name;
}

std::string CHelpers::saturate(DataType to) {
  to = to.element();
  const std::string name = "tn_saturate_" + suffix(to), type = c_type(to);
  if (!add(name)) return name;
  const std::string upper = fmt::format("{:.1f}", std::ldexp(1.0, to.is_uint() ? to.bits : to.bits - 1));
  const std::string lower = to.is_uint() ? "0.0" : fmt::format("-{}", upper);
  const std::string high = fmt::format("{}INT{}_MAX", to.is_uint() ? "U" : "", to.bits),
                    low = to.is_uint() ? "0" : fmt::format("INT{}_MIN", to.bits);
  text_ += fmt::format(
      "static inline {0} {1}(double v) {{\n  if (v != v) return 0;\n  if (v <= {2}) return {3};\n  if (v >= "
      "{4}) return {5};\n  return ({0})v;\n}}\n\n",
      type, name, lower, low, upper, high);
  return name;
}

std::string CHelpers::reinterpret(const std::string& from, const std::string& to) {
  const std::string name = "tn_bits_" + from + "_as_" + to;
  if (add(name))
    text_ += fmt::format(
        "static inline {1} {2}({0} v) {{\n  {1} r;\n  memcpy(&r, &v, sizeof r);\n  return r;\n}}\n\n", from,
        to, name);
  return name;
}

std::string CHelpers::atomic(const std::string& op, DataType t, const std::string& type,
                             const std::string& stored, const std::string& next) {
  const bool exchange = op == "compare_exchange";
  const std::string name = fmt::format("tn_atomic_{}_{}", op, t.is_bool() ? "bool" : suffix(t));
  if (!add(name)) return name;
  atomics_ = true;
  auto move = [&](const std::string& v, const std::string& from, const std::string& to) {
    return from == to    ? v
           : t.is_bool() ? to == "bool" ? v + " != 0" : fmt::format("({})({})", to, v)
                         : fmt::format("{}({})", reinterpret(from, to), v);
  };
  const std::string value = move("seen", stored, type), result = move("r", type, stored);
  text_ += fmt::format(
      "static inline {0} {1}(void* p, {0} v{2}) {{\n  _Atomic {3}* const at = (_Atomic {3}*)p;\n  {3} seen = "
      "atomic_load(at);\n  for (;;) {{\n    const {0} a = {4};\n    const {0} r = {5};\n    if "
      "(atomic_compare_exchange_weak(at, &seen, {6})) return a;\n  }}\n}}\n\n",
      type, name, exchange ? fmt::format(", {} w", type) : "", stored, value, next, result);
  return name;
}

}  // namespace tenon::codegen
