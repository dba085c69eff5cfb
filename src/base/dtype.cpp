// SPDX-License-Identifier: Apache-2.0
#include "base/dtype.h"

#include <charconv>

#include "base/stored_types.h"

namespace tenon {
namespace {
struct Fixed {
  std::string_view name;
  DataType type;
};
constexpr Fixed fixed[] = {{"bool", DataType::boolean()},
                           {"handle", DataType::handle()},
                           {"void", {}},
                           {"string", {TypeCode::String, 0, 1}},
                           {"bfloat16", DataType::bfloat16()},
                           {"bf16", DataType::bfloat16()},
                           {"float8_e4m3fn", {TypeCode::Float8_e4m3fn, 8, 1}},
                           {"float8_e5m2", {TypeCode::Float8_e5m2, 8, 1}},
                           {"float8_e4m3fnuz", {TypeCode::Float8_e4m3fnuz, 8, 1}},
                           {"float8_e5m2fnuz", {TypeCode::Float8_e5m2fnuz, 8, 1}},
                           {"float8_e8m0fnu", f8_e8m0fnu},
                           {"float4_e2m1fn", f4_e2m1fn}};
struct Prefix {
  std::string_view name;
  TypeCode code;
};
constexpr Prefix prefixes[] = {{"float", TypeCode::Float}, {"uint", TypeCode::UInt}, {"int", TypeCode::Int},
                               {"f", TypeCode::Float},     {"u", TypeCode::UInt},    {"i", TypeCode::Int}};

/// "x8" or "xvscalex4" behind a type's name. A negative number of lanes is a multiple of the machine's
/// vscale.
bool parse_lanes(std::string_view text, int* out) {
  constexpr std::string_view scalable = "xvscalex";
  const bool scales = text.starts_with(scalable);
  if (!scales && !text.starts_with("x")) return false;
  text.remove_prefix(scales ? scalable.size() : 1);
  int lanes = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), lanes);
  if (error != std::errc() || end != text.data() + text.size() || lanes < (scales ? 1 : 2) ||
      lanes > (scales ? 1024 : 32767))
    return false;
  *out = scales ? -lanes : lanes;
  return true;
}
}  // namespace

std::string to_string(DataType type) {
  std::string text;
  for (const Fixed& f : fixed)
    if (f.type == type.element()) {
      text = f.name;
      break;
    }
  if (text.empty()) {
    for (const Prefix& p : prefixes)
      if (p.code == type.code) {
        text = std::string(p.name) + std::to_string(type.bits);
        break;
      }
  }
  if (int16_t(type.lanes) < 0)
    text += "xvscalex" + std::to_string(-int16_t(type.lanes));
  else if (type.lanes > 1)
    text += "x" + std::to_string(type.lanes);
  return text;
}

bool parse_dtype(std::string_view text, DataType* out) {
  for (const Fixed& f : fixed)
    if (text.starts_with(f.name)) {
      std::string_view rest = text.substr(f.name.size());
      if (rest.empty()) {
        *out = f.type;
        return true;
      }
      int lanes = 0;
      if (!parse_lanes(rest, &lanes)) continue;
      *out = f.type.with_lanes(lanes);
      return true;
    }
  for (const Prefix& p : prefixes) {
    if (!text.starts_with(p.name)) continue;
    const char* end = text.data() + text.size();
    int bits = 0, lanes = 1;
    auto [at, error] = std::from_chars(text.data() + p.name.size(), end, bits);
    if (error != std::errc()) continue;
    if (at != end) {
      if (!parse_lanes({at, size_t(end - at)}, &lanes)) return false;
    }
    const bool ok = p.code == TypeCode::Float ? bits == 16 || bits == 32 || bits == 64
                                              : bits == 1 || bits == 2 || bits == 4 || bits == 8 ||
                                                    bits == 16 || bits == 32 || bits == 64;
    if (!ok) return false;
    *out = {p.code, uint8_t(bits), uint16_t(lanes)};
    return true;
  }
  return false;
}

}  // namespace tenon
