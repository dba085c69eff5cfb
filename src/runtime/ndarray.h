// SPDX-License-Identifier: Apache-2.0
// NDArray: a dense, row-major tensor with shared storage. The only tensor value of the system: constants,
// inputs, outputs and interpreter values are NDArrays.
#pragma once
#include <functional>
#include <vector>

#include "base/container.h"

namespace tenon {

/// Where storage lives, numbered as in DLPack (cpu 1, cuda 2, opencl 4).
struct Device {
  int32_t kind = 1, index = 0;
  bool operator==(const Device&) const = default;
};

struct NDArrayObj : Object {
  static constexpr std::string_view type_key = "NDArray";
  void* data = nullptr;  ///< first element; 64-byte aligned when we allocated it
  DataType dtype;
  std::vector<int64_t> shape;  ///< each ≥ 0
  Device device;
  std::function<void()> release;  ///< gives the storage back; empty for borrowed storage
  Any owner;                      ///< keeps a shared storage alive (a mapped artifact, a parent array)
  mutable std::atomic<uint64_t> hash_cache{0};
  NDArrayObj() = default;
  NDArrayObj(const NDArrayObj&) = delete;
  ~NDArrayObj() {
    if (release) release();
  }
};
extern template const TypeInfo* type_info<NDArrayObj>();

class NDArray : public Ref<NDArrayObj> {
 public:
  NDArray() = default;
  explicit NDArray(Ref<NDArrayObj> ref) : Ref(std::move(ref)) {}
  /// New uninitialised storage, 64-byte aligned. Error "T0401" when the size overflows or memory ends.
  static NDArray empty(std::vector<int64_t> shape, DataType dtype);
  static NDArray zeros(std::vector<int64_t> shape, DataType dtype);
  /// A copy of raw row-major bytes; Error "T0402" if `bytes` does not fit the shape.
  static NDArray from_bytes(std::vector<int64_t> shape, DataType dtype, const void* bytes, size_t size);
  /// A view of storage that `owner` keeps alive.
  static NDArray view(void* data, std::vector<int64_t> shape, DataType dtype, Any owner = {});
  template <class T>
  static NDArray scalar(T value, DataType dtype) {
    NDArray a = empty({}, dtype);
    a.set_element(0, double(value));
    return a;
  }

  int64_t size() const;      ///< number of elements
  size_t byte_size() const;  ///< int4 and int2 are packed two and four to a byte
  const std::vector<int64_t>& shape() const { return get()->shape; }
  int64_t ndim() const { return int64_t(get()->shape.size()); }
  DataType dtype() const { return get()->dtype; }
  void* data() const { return get()->data; }
  template <class T>
  T* as_ptr() const {
    return static_cast<T*>(get()->data);
  }
  /// Element by flat row-major index, converted (any dtype incl. f16, bf16, fp8, int4). Slow; for tools and
  /// tests.
  double element(int64_t i) const;
  int64_t element_int(int64_t i) const;
  void set_element(int64_t i, double value) const;
  void set_element_int(int64_t i, int64_t value) const;
  NDArray copy() const;
  NDArray reshape(std::vector<int64_t> shape) const;  ///< a view
  uint64_t hash() const;  ///< of dtype, shape and bytes; cached (constants are immutable)
};

/// Bytes that `elements` values of `dtype` take in an NDArray.
size_t storage_bytes(int64_t elements, DataType dtype);
/// Product of the dimensions; Error "T0401" on a negative dimension or overflow.
int64_t element_count(std::span<const int64_t> shape);
/// 64-bit content hash (non-cryptographic), the same on every machine.
uint64_t hash_bytes(const void* data, size_t size, uint64_t seed = 0);

// Conversions of the narrow float types, round to nearest even.
float f16_to_float(uint16_t bits);
uint16_t float_to_f16(float value);
float bf16_to_float(uint16_t bits);
uint16_t float_to_bf16(float value);
float fp8_to_float(uint8_t bits, TypeCode kind);
uint8_t float_to_fp8(float value, TypeCode kind);

}  // namespace tenon
