// SPDX-License-Identifier: Apache-2.0
// Data types of tensor elements and scalar values: 4 bytes, layout of DLPack's DLDataType.
#pragma once
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace tenon {

enum class TypeCode : uint8_t {
  Int = 0,
  UInt = 1,
  Float = 2,
  Handle = 3,
  BFloat = 4,
  Bool = 6,
  Float8_e4m3fn = 10,
  Float8_e5m2 = 12,
  Float8_e4m3fnuz = 11,
  Float8_e5m2fnuz = 13,
  Void = 32,
  String = 33,
};

/// Code, width in bits and vector lanes. `lanes` > 1 only inside tensor programs.
struct DataType {
  TypeCode code = TypeCode::Void;
  uint8_t bits = 0;
  uint16_t lanes = 1;

  static constexpr DataType int_(int bits, int lanes = 1) {
    return {TypeCode::Int, uint8_t(bits), uint16_t(lanes)};
  }
  static constexpr DataType uint(int bits, int lanes = 1) {
    return {TypeCode::UInt, uint8_t(bits), uint16_t(lanes)};
  }
  static constexpr DataType float_(int bits, int lanes = 1) {
    return {TypeCode::Float, uint8_t(bits), uint16_t(lanes)};
  }
  static constexpr DataType bfloat16(int lanes = 1) { return {TypeCode::BFloat, 16, uint16_t(lanes)}; }
  static constexpr DataType boolean(int lanes = 1) { return {TypeCode::Bool, 8, uint16_t(lanes)}; }
  static constexpr DataType handle() { return {TypeCode::Handle, 64, 1}; }
  static constexpr DataType void_() { return {}; }

  constexpr bool is_int() const { return code == TypeCode::Int; }
  constexpr bool is_uint() const { return code == TypeCode::UInt; }
  constexpr bool is_integer() const { return is_int() || is_uint(); }
  constexpr bool is_float8() const {
    return code >= TypeCode::Float8_e4m3fn && code <= TypeCode::Float8_e5m2fnuz;
  }
  constexpr bool is_float() const {
    return code == TypeCode::Float || code == TypeCode::BFloat || is_float8();
  }
  constexpr bool is_bool() const { return code == TypeCode::Bool; }
  constexpr bool is_handle() const { return code == TypeCode::Handle; }
  constexpr bool is_void() const { return code == TypeCode::Void; }
  constexpr bool is_scalar() const { return lanes == 1; }
  constexpr bool is_vector() const { return lanes > 1; }
  constexpr DataType with_lanes(int n) const { return {code, bits, uint16_t(n)}; }
  constexpr DataType element() const { return with_lanes(1); }
  /// Storage of one value in bytes, all lanes; types narrower than a byte round up.
  constexpr int bytes() const { return (bits * lanes + 7) / 8; }
  constexpr bool operator==(const DataType&) const = default;
  constexpr auto operator<=>(const DataType&) const = default;
};

inline constexpr DataType f32 = DataType::float_(32), f64 = DataType::float_(64), f16 = DataType::float_(16),
                          i32 = DataType::int_(32), i64 = DataType::int_(64), u8 = DataType::uint(8),
                          boolean = DataType::boolean();

/// "float32", "int64x8", "bool", "bfloat16", "float8_e4m3fn", "handle", "void".
std::string to_string(DataType type);
/// Reads what to_string writes and the short forms f32, i64, u8, bf16. Void code with bits 1 if unknown.
bool parse_dtype(std::string_view text, DataType* out);

}  // namespace tenon
