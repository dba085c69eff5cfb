// SPDX-License-Identifier: Apache-2.0
// NDArray storage, element access in every data type, and the content hash of constants.
#include "runtime/ndarray.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "base/stored_types.h"
#include "runtime/words.h"

namespace tenon {

template const TypeInfo* type_info<NDArrayObj>();

namespace {

/// Large arrays are pages of their own, so that a freed one goes back to the system at once: weights come and
/// go while a model is compiled, and a heap keeps what lies between others.
constexpr size_t kMapped = size_t(1) << 20;

[[noreturn]] void size_error(const std::string& what) {
  throw Error(ErrorKind::limit, "T0401", what, {},
              "check the dimensions: sizes are limited to 2^62 bytes and to this machine's memory");
}

/// Layout of a small float format: exponent and mantissa bits, bias, and how the top code points are used.
struct FloatFormat {
  int exponent_bits, mantissa_bits, bias;
  bool has_infinity;       ///< all-ones exponent is infinity and NaN
  bool negative_zero_nan;  ///< the "uz" formats: one NaN, at the code of negative zero
};
constexpr FloatFormat kHalf{5, 10, 15, true, false}, kE4M3{4, 3, 7, false, false},
    kE5M2{5, 2, 15, true, false}, kE4M3uz{4, 3, 8, false, true}, kE5M2uz{5, 2, 16, false, true};

const FloatFormat& float8_format(TypeCode kind) {
  switch (kind) {
    case TypeCode::Float8_e4m3fn:
      return kE4M3;
    case TypeCode::Float8_e5m2:
      return kE5M2;
    case TypeCode::Float8_e4m3fnuz:
      return kE4M3uz;
    case TypeCode::Float8_e5m2fnuz:
      return kE5M2uz;
    default:
      throw InternalError("not an 8-bit float type");
  }
}

double decode(uint32_t bits, const FloatFormat& f) {
  const uint32_t mantissa_mask = (1u << f.mantissa_bits) - 1, exponent_mask = (1u << f.exponent_bits) - 1;
  const uint32_t sign = bits >> (f.exponent_bits + f.mantissa_bits) & 1;
  const uint32_t exponent = bits >> f.mantissa_bits & exponent_mask, mantissa = bits & mantissa_mask;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  if (f.negative_zero_nan && sign && exponent == 0 && mantissa == 0) return nan;
  if (f.has_infinity && exponent == exponent_mask)
    return mantissa ? std::copysign(nan, sign ? -1.0 : 1.0) : sign ? -HUGE_VAL : HUGE_VAL;
  if (!f.has_infinity && !f.negative_zero_nan && exponent == exponent_mask && mantissa == mantissa_mask)
    return nan;
  const double v = exponent == 0 ? std::ldexp(double(mantissa), 1 - f.bias - f.mantissa_bits)
                                 : std::ldexp(double(mantissa | 1u << f.mantissa_bits),
                                              int(exponent) - f.bias - f.mantissa_bits);
  return sign ? -v : v;
}

uint32_t encode(double value, const FloatFormat& f) {
  const uint32_t exponent_mask = (1u << f.exponent_bits) - 1, mantissa_mask = (1u << f.mantissa_bits) - 1;
  const uint32_t sign = std::signbit(value) ? 1u << (f.exponent_bits + f.mantissa_bits) : 0;
  const uint32_t infinity = exponent_mask << f.mantissa_bits;
  const uint32_t nan = f.negative_zero_nan ? 1u << (f.exponent_bits + f.mantissa_bits)
                       : f.has_infinity    ? sign | infinity | 1u << (f.mantissa_bits - 1)
                                           : sign | infinity | mantissa_mask;
  const uint32_t overflow = f.has_infinity ? sign | infinity : nan;
  if (std::isnan(value)) return nan;
  if (std::isinf(value)) return overflow;
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return f.negative_zero_nan ? 0 : sign;
  int exponent = std::ilogb(magnitude);
  if (exponent > 64) return overflow;
  exponent = std::max(exponent, 1 - f.bias);
  // Scaled so that one unit is the last mantissa bit; exact, so that rounding happens once. Doubles hold it.
  const double scaled = std::ldexp(magnitude, f.mantissa_bits - exponent);
  uint64_t units = uint64_t(scaled);
  const double rest = scaled - double(units);
  if (rest > 0.5 || (rest == 0.5 && (units & 1))) ++units;
  // A carry out of the mantissa moves into the exponent by itself; a subnormal becomes normal the same way.
  const uint64_t code =
      units < (1u << f.mantissa_bits) ? units : (uint64_t(exponent + f.bias - 1) << f.mantissa_bits) + units;
  const uint64_t last = f.has_infinity        ? infinity - 1
                        : f.negative_zero_nan ? infinity | mantissa_mask
                                              : (infinity | mantissa_mask) - 1;
  if (code > last) return overflow;
  if (code == 0 && f.negative_zero_nan) return 0;
  return sign | uint32_t(code);
}

/// Values of the codes of a type that is only stored. Of 4 bits: two of exponent and one of mantissa, all
/// finite; of 8 bits: a power of two, or NaN.
double decode_code(uint32_t code, DataType t) {
  if (t == f8_e8m0fnu)
    return code == 255 ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, int(code) - 127);
  constexpr double kMagnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return code & 8 ? -kMagnitudes[code & 7] : kMagnitudes[code & 7];
}
/// The nearest code, of two equally near ones the even one; beyond the range the last one.
uint32_t encode_code(double value, DataType t) {
  const bool bytes = t == f8_e8m0fnu;
  if (std::isnan(value)) return bytes ? 255 : 7;
  const double magnitude = std::fabs(value);
  const uint32_t last = bytes ? 254 : 7;
  uint32_t code = 0;
  while (code < last) {
    const double low = magnitude - decode_code(code, t), high = decode_code(code + 1, t) - magnitude;
    if (high > low || (high == low && code % 2 == 0)) break;
    ++code;
  }
  return !bytes && std::signbit(value) ? code | 8 : code;
}

template <class T>
T saturate(double v) {
  if (std::isnan(v)) return 0;
  if (v <= double(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  if (v >= double(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  return T(v);
}

template <class T>
T load(const void* base, int64_t i) {
  T v;
  std::memcpy(&v, static_cast<const char*>(base) + i * int64_t(sizeof(T)), sizeof(T));
  return v;
}
template <class T>
void store(void* base, int64_t i, T v) {
  std::memcpy(static_cast<char*>(base) + i * int64_t(sizeof(T)), &v, sizeof(T));
}

int64_t load_int(const void* data, DataType t, int64_t i) {
  const bool is_signed = t.is_int();
  switch (t.bits) {
    case 8:
      return is_signed ? load<int8_t>(data, i) : load<uint8_t>(data, i);
    case 16:
      return is_signed ? load<int16_t>(data, i) : load<uint16_t>(data, i);
    case 32:
      return is_signed ? load<int32_t>(data, i) : int64_t(load<uint32_t>(data, i));
    case 64:
      return load<int64_t>(data, i);
  }
  // Types narrower than a byte are packed, the first element in the low bits.
  const int per_byte = 8 / t.bits, shift = int(i % per_byte) * t.bits;
  const int mask = (1 << t.bits) - 1, v = static_cast<const uint8_t*>(data)[i / per_byte] >> shift & mask;
  return is_signed && v >> (t.bits - 1) ? v - (mask + 1) : v;
}

void store_int(void* data, DataType t, int64_t i, int64_t v) {
  switch (t.bits) {
    case 8:
      return store<uint8_t>(data, i, uint8_t(v));
    case 16:
      return store<uint16_t>(data, i, uint16_t(v));
    case 32:
      return store<uint32_t>(data, i, uint32_t(v));
    case 64:
      return store<int64_t>(data, i, v);
  }
  const int per_byte = 8 / t.bits, shift = int(i % per_byte) * t.bits, mask = (1 << t.bits) - 1;
  uint8_t& byte = static_cast<uint8_t*>(data)[i / per_byte];
  byte = uint8_t((byte & ~(mask << shift)) | (int(v & mask) << shift));
}

int64_t float_to_int(double v, DataType t) {
  if (t.is_bool()) return v != 0;
  if (t.is_uint()) {
    const uint64_t u = saturate<uint64_t>(v);
    const uint64_t top = t.bits >= 64 ? ~uint64_t(0) : (uint64_t(1) << t.bits) - 1;
    return int64_t(std::min(u, top));
  }
  const int64_t top = t.bits >= 64 ? std::numeric_limits<int64_t>::max() : (int64_t(1) << (t.bits - 1)) - 1;
  return std::clamp(saturate<int64_t>(v), -top - 1, top);
}

void check_index(const NDArray& a, int64_t i) {
  CHECK(a.get() != nullptr, "an empty NDArray handle");
  CHECK(i >= 0 && i < a.size() * a.dtype().lanes,
        joined({"element ", std::to_string(i), " of an array of ", std::to_string(a.size())}));
}

}  // namespace

int64_t element_count(std::span<const int64_t> shape) {
  int64_t count = 1;
  bool overflow = false, zero = false;
  for (int64_t d : shape) {
    if (d < 0) size_error(joined({"the shape ", shape_text(shape), " has a negative dimension"}));
    zero |= d == 0;
    overflow |= __builtin_mul_overflow(count, d, &count);
  }
  if (zero) return 0;
  if (overflow)
    size_error(joined({"the shape ", shape_text(shape), " has more elements than fit in 64 bits"}));
  return count;
}

size_t storage_bytes(int64_t elements, DataType dtype) {
  if (dtype.bits == 0)
    size_error(joined({"values of type ", to_string(dtype), " have no storage in a tensor"}));
  int64_t bits = 0;
  const bool packed = dtype.bits < 8 && !dtype.is_bool();
  const int64_t per_element = packed ? int64_t(dtype.bits) * dtype.lanes : int64_t(dtype.bytes()) * 8;
  if (__builtin_mul_overflow(elements, per_element, &bits) ||
      bits > std::numeric_limits<int64_t>::max() - 7) {
    // Bits overflow before bytes do: try again in bytes for the types that fill them.
    int64_t bytes = 0;
    if (packed || __builtin_mul_overflow(elements, per_element / 8, &bytes) || bytes > (int64_t(1) << 62))
      size_error(std::to_string(elements) + " elements of type " + to_string(dtype) +
                 " need more bytes than fit in 64 bits");
    return size_t(bytes);
  }
  return (size_t(bits) + 7) / 8;  // of a number without a sign, which is a shift
}

NDArray NDArray::empty(std::vector<int64_t> shape, DataType dtype) {
  const size_t bytes = storage_bytes(element_count(shape), dtype);
  if (bytes > (size_t(1) << 62))
    size_error(joined({"a tensor of shape ", shape_text(shape), " is too large"}));
  const bool mapped = bytes >= kMapped;
  void* data = nullptr;
  if (mapped) {
    data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) data = nullptr;
  } else {
    data = std::aligned_alloc(64, std::max<size_t>(64, (bytes + 63) & ~size_t(63)));
  }
  if (!data)
    size_error(joined({"no memory for a tensor of shape ", shape_text(shape), " and type ", to_string(dtype),
                       " (", std::to_string(bytes), " bytes)"}));
  NDArray array;
  try {
    array = NDArray(make<NDArrayObj>());
  } catch (...) {
    mapped ? void(munmap(data, bytes)) : std::free(data);
    throw;
  }
  NDArrayObj* o = array.mut();
  o->data = data;
  if (mapped)
    o->release = [data, bytes] { munmap(data, bytes); };
  else
    o->release = [data] { std::free(data); };
  o->dtype = dtype;
  o->shape = std::move(shape);
  return array;
}

NDArray NDArray::zeros(std::vector<int64_t> shape, DataType dtype) {
  NDArray a = empty(std::move(shape), dtype);
  if (a.byte_size() < kMapped) std::memset(a.data(), 0, a.byte_size());  // fresh pages are zero
  return a;
}

NDArray NDArray::from_bytes(std::vector<int64_t> shape, DataType dtype, const void* bytes, size_t size) {
  const size_t wanted = storage_bytes(element_count(shape), dtype);
  if (wanted != size)
    throw Error(ErrorKind::usage, "T0402",
                joined({"a tensor of shape ", shape_text(shape), " and type ", to_string(dtype), " takes ",
                        std::to_string(wanted), " bytes, ", std::to_string(size), " were given"}));
  NDArray a = empty(std::move(shape), dtype);
  if (size) std::memcpy(a.data(), bytes, size);
  return a;
}

NDArray NDArray::view(void* data, std::vector<int64_t> shape, DataType dtype, Any owner) {
  NDArray a(make<NDArrayObj>());
  NDArrayObj* o = a.mut();
  o->data = data;
  o->dtype = dtype;
  o->shape = std::move(shape);
  o->owner = std::move(owner);
  return a;
}

int64_t NDArray::size() const {
  int64_t count = 1;
  for (int64_t d : get()->shape) count *= d;
  return count;
}

size_t NDArray::byte_size() const { return storage_bytes(size(), dtype()); }

double NDArray::element(int64_t i) const {
  check_index(*this, i);
  const DataType t = dtype();
  if (t.is_float8()) return decode(load<uint8_t>(data(), i), float8_format(t.code));
  if (t.code == TypeCode::BFloat) return bf16_to_float(load<uint16_t>(data(), i));
  if (t.code == TypeCode::Float) {
    if (t.bits == 16) return decode(load<uint16_t>(data(), i), kHalf);
    return t.bits == 32 ? double(load<float>(data(), i)) : load<double>(data(), i);
  }
  if (t.is_uint() && t.bits == 64) return double(load<uint64_t>(data(), i));
  if (is_stored_only(t)) return decode_code(uint32_t(load_int(data(), DataType::uint(t.bits), i)), t);
  return double(load_int(data(), t, i));
}

int64_t NDArray::element_int(int64_t i) const {
  if (dtype().is_float() || is_stored_only(dtype())) return saturate<int64_t>(element(i));
  check_index(*this, i);
  return load_int(data(), dtype(), i);
}

void NDArray::set_element(int64_t i, double value) const {
  check_index(*this, i);
  const DataType t = dtype();
  if (t.is_float8()) return store<uint8_t>(data(), i, uint8_t(encode(value, float8_format(t.code))));
  if (t.code == TypeCode::BFloat) {
    // Odd rounding to float first keeps the one rounding to nearest even right.
    float f = float(value);
    if (double(f) != value && std::isfinite(value) && std::isfinite(f)) {
      if (std::fabs(double(f)) > std::fabs(value)) f = std::nextafter(f, 0.0f);
      f = std::bit_cast<float>(std::bit_cast<uint32_t>(f) | 1u);
    }
    return store<uint16_t>(data(), i, float_to_bf16(f));
  }
  if (t.code == TypeCode::Float) {
    if (t.bits == 16) return store<uint16_t>(data(), i, uint16_t(encode(value, kHalf)));
    if (t.bits == 32) return store<float>(data(), i, float(value));
    return store<double>(data(), i, value);
  }
  if (is_stored_only(t)) return store_int(data(), DataType::uint(t.bits), i, encode_code(value, t));
  store_int(data(), t, i, float_to_int(value, t));
}

void NDArray::set_element_int(int64_t i, int64_t value) const {
  if (dtype().is_float() || is_stored_only(dtype())) return set_element(i, double(value));
  check_index(*this, i);
  store_int(data(), dtype(), i, dtype().is_bool() ? value != 0 : value);
}

NDArray NDArray::copy() const { return from_bytes(shape(), dtype(), data(), byte_size()); }

NDArray NDArray::reshape(std::vector<int64_t> shape) const {
  if (element_count(shape) != size())
    throw Error(ErrorKind::usage, "T0403",
                joined({"a tensor of shape ", shape_text(this->shape()), " cannot be seen with shape ",
                        shape_text(shape)}));
  NDArray a = view(data(), std::move(shape), dtype(), Any(*this));
  a.mut()->device = get()->device;
  return a;
}

uint64_t NDArray::hash() const {
  uint64_t h = get()->hash_cache.load(std::memory_order_relaxed);
  if (h) return h;
  const DataType t = dtype();
  const int64_t type_word = int64_t(t.code) | int64_t(t.bits) << 8 | int64_t(t.lanes) << 16;
  uint64_t seed = hash_bytes(&type_word, sizeof type_word);
  seed = hash_bytes(shape().data(), shape().size() * sizeof(int64_t), seed);
  h = hash_bytes(data(), byte_size(), seed);
  if (h == 0) h = 1;  // 0 means "not computed yet"
  get()->hash_cache.store(h, std::memory_order_relaxed);
  return h;
}

namespace {
constexpr uint64_t kSalt[4] = {0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f, 0xd6e8feb86659fd93,
                               0xa0761d6478bd642f};

uint64_t fold(uint64_t a, uint64_t b) {
  const unsigned __int128 p = static_cast<unsigned __int128>(a) * b;
  return uint64_t(p) ^ uint64_t(p >> 64);
}
uint64_t word(const unsigned char* p) {
  uint64_t v;
  std::memcpy(&v, p, 8);
  if constexpr (std::endian::native == std::endian::big) v = __builtin_bswap64(v);
  return v;
}
}  // namespace

// Multiply-and-fold over four independent lanes of 16 bytes, so that it runs at memory speed.
uint64_t hash_bytes(const void* data, size_t size, uint64_t seed) {
  const auto* p = static_cast<const unsigned char*>(data);
  size_t left = size;
  uint64_t lane[4] = {seed ^ kSalt[0], seed ^ kSalt[1], seed ^ kSalt[2], seed ^ kSalt[3]};
  for (; left >= 64; p += 64, left -= 64)
    for (int k = 0; k < 4; ++k)
      lane[k] = fold(word(p + 16 * k) ^ kSalt[k], word(p + 16 * k + 8) ^ lane[k]) + kSalt[3 - k];
  uint64_t h = lane[0] ^ std::rotl(lane[1], 16) ^ std::rotl(lane[2], 32) ^ std::rotl(lane[3], 48);
  for (; left >= 16; p += 16, left -= 16) h = fold(word(p) ^ kSalt[1], word(p + 8) ^ h) + kSalt[0];
  unsigned char tail[16] = {};
  if (left) std::memcpy(tail, p, left);
  h = fold(word(tail) ^ kSalt[2], word(tail + 8) ^ h ^ kSalt[0]);
  return fold(h ^ kSalt[3], uint64_t(size) ^ kSalt[1]);
}

float f16_to_float(uint16_t bits) { return float(decode(bits, kHalf)); }
uint16_t float_to_f16(float value) { return uint16_t(encode(value, kHalf)); }
float bf16_to_float(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }
uint16_t float_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return uint16_t(bits >> 16 | 0x40);  // stays a (quiet) NaN
  return uint16_t((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}
float fp8_to_float(uint8_t bits, TypeCode kind) { return float(decode(bits, float8_format(kind))); }
uint8_t float_to_fp8(float value, TypeCode kind) { return uint8_t(encode(value, float8_format(kind))); }

}  // namespace tenon
