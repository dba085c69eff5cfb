// SPDX-License-Identifier: Apache-2.0
#include "base/dtype.h"

#include <charconv>

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
                           {"float8_e5m2fnuz", {TypeCode::Float8_e5m2fnuz, 8, 1}}};
struct Prefix {
  std::string_view name;
  TypeCode code;
};
constexpr Prefix prefixes[] = {{"float", TypeCode::Float}, {"uint", TypeCode::UInt}, {"int", TypeCode::Int},
                               {"f", TypeCode::Float},     {"u", TypeCode::UInt},    {"i", TypeCode::Int}};
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
  if (type.lanes > 1) text += "x" + std::to_string(type.lanes);
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
      if (rest[0] != 'x') continue;
      auto [end, error] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), lanes);
      if (error == std::errc() && end == rest.data() + rest.size() && lanes > 1 && lanes < 65536) {
        *out = f.type.with_lanes(lanes);
        return true;
      }
    }
  for (const Prefix& p : prefixes) {
    if (!text.starts_with(p.name)) continue;
    const char* end = text.data() + text.size();
    int bits = 0, lanes = 1;
    auto [at, error] = std::from_chars(text.data() + p.name.size(), end, bits);
    if (error != std::errc()) continue;
    if (at != end) {
      if (*at != 'x') return false;
      auto [last, bad] = std::from_chars(at + 1, end, lanes);
      if (bad != std::errc() || last != end || lanes < 2 || lanes > 65535) return false;
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
