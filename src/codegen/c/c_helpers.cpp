// SPDX-License-Identifier: Apache-2.0
// Helper functions of the C text: what C leaves undefined or does otherwise.
#include <fmt/format.h>

#include <cmath>

#include "codegen/c/c_emitter.h"
#include "codegen/float_format.h"

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

std::string CHelpers::widen(DataType t) {
  const FloatFormat m = float_format(t);
  const std::string name = fmt::format("tn_from_{}", m.name), store = fmt::format("uint{}_t", t.bits);
  if (!add(name)) return name;
  const std::string as_float = reinterpret("uint32_t", "float");
  const int width = m.exponent + m.mantissa, all = (1 << width) - 1,
            top = ((1 << m.exponent) - 1) << m.mantissa;
  std::string special;
  if (m.infinity)
    special = fmt::format("  if (magnitude >= 0x{:x}u) return {}(sign | 0x7f800000u | magnitude << {});\n",
                          top, as_float, 23 - m.mantissa);
  else if (m.uz)
    special = fmt::format("  if (b == 0x{:x}u) return {}(0x7fc00000u);\n", all + 1, as_float);
  else
    special = fmt::format("  if (magnitude == 0x{:x}u) return {}(sign | 0x7fc00000u);\n", all, as_float);
  const std::string value = m.bias == 127
                                ? fmt::format("{}(sign | magnitude << {})", as_float, 23 - m.mantissa)
                                : fmt::format("{0}({1}({0}(magnitude << {2}) * {3}) | sign)", as_float,
                                              reinterpret("float", "uint32_t"), 23 - m.mantissa,
                                              fmt::format("0x1p{}f", 127 - m.bias));
  text_ += fmt::format(
      "static inline float {}({} b) {{\n  const uint32_t magnitude = b & 0x{:x}u, sign = ((uint32_t)b & "
      "0x{:x}u) << {};\n{}  return {};\n}}\n\n",
      name, store, all, all + 1, 31 - width, special, value);
  return name;
}

std::string CHelpers::narrow(DataType t) {
  const FloatFormat m = float_format(t);
  const std::string name = fmt::format("tn_to_{}", m.name), store = fmt::format("uint{}_t", t.bits);
  if (!add(name)) return name;
  const std::string as_bits = reinterpret("float", "uint32_t"), as_float = reinterpret("uint32_t", "float");
  const int width = m.exponent + m.mantissa, shift = 23 - m.mantissa;
  const uint32_t all = (1u << width) - 1, top = ((1u << m.exponent) - 1) << m.mantissa;
  const uint32_t last = m.infinity ? top - 1
                        : m.uz     ? all
                                   : all - 1,
                 over = m.infinity ? top
                        : m.uz     ? all + 1
                                   : all;
  const uint32_t nan = m.infinity ? top | 1u << (m.mantissa - 1) : m.uz ? all + 1 : all;
  std::string b = fmt::format(
      "static inline {} {}(float v) {{\n  const uint32_t bits = {}(v), magnitude = bits & 0x7fffffffu;\n",
      store, name, as_bits);
  b += fmt::format("  {}uint32_t sign = (bits >> {}) & 0x{:x}u;\n  uint32_t code;\n", m.uz ? "" : "const ",
                   31 - width, 1u << width);
  if (t.code == TypeCode::BFloat) {
    b += "  code = (magnitude + 0x7fffu + (magnitude >> 16 & 1u)) >> 16;\n  if (magnitude > 0x7f800000u) "
         "code = magnitude >> 16 | 0x40u;\n";
  } else {
    b += fmt::format("  if (magnitude < 0x{:x}u) code = {}({}(magnitude) + {}) - {}({});\n",
                     uint32_t(128 - m.bias) << 23, as_bits, as_float,
                     fmt::format("0x1p{}f", 24 - m.bias - m.mantissa), as_bits,
                     fmt::format("0x1p{}f", 24 - m.bias - m.mantissa));
    b += fmt::format(
        "  else code = (magnitude + (magnitude >> {} & 1u) + 0x{:x}u - ((uint32_t){} << 23)) >> {};\n", shift,
        (1u << (shift - 1)) - 1, 127 - m.bias, shift);
    b += fmt::format("  if (code > 0x{:x}u || magnitude >= 0x{:x}u) code = 0x{:x}u;\n", last,
                     uint32_t(127 + 64) << 23, over);
    b += fmt::format("  if (magnitude > 0x7f800000u) code = 0x{:x}u;\n", nan);
    if (m.uz) b += fmt::format("  if (code == 0 || code == 0x{:x}u) sign = 0;\n", nan);
  }
  text_ += b + fmt::format("  return ({})(sign | code);\n}}\n\n", store);
  return name;
}

std::string CHelpers::round(DataType t) {
  const std::string name = fmt::format("tn_round_{}", float_format(t).name);
  const std::string to = narrow(t), from = widen(t);
  if (add(name))
    text_ += fmt::format("static inline float {}(float v) {{ return {}({}(v)); }}\n\n", name, from, to);
  return name;
}

}  // namespace tenon::codegen
