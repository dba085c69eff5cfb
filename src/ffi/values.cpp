// SPDX-License-Identifier: Apache-2.0
// Texts, containers, tensors and foreign values for C.
#include <algorithm>
#include <cstring>

#include "ffi/guard.h"
#include "runtime/dlpack.h"
#include "runtime/executable.h"

using namespace tenon;
using namespace tenon::ffi;

namespace {

const TenonAny* c(const Any* items) { return reinterpret_cast<const TenonAny*>(items); }

/// The tensor, if its elements are of a type that Tenon has: DLPack has more.
const DLTensor& known(const DLTensor& tensor) {
  const uint8_t code = tensor.dtype.code;
  if (code == kDLComplex || (code > kDLBool && code < kDLFloat8_e4m3fn) ||
      (code > kDLFloat8_e8m0fnu && code != kDLFloat4_e2m1fn))
    throw Error(ErrorKind::usage, "T0405",
                "a tensor's elements have a type that Tenon does not have (DLPack's code " +
                    std::to_string(code) + ")");
  return tensor;
}
/// Of a tensor to be taken over.
template <class Managed>
Managed* known(Managed* managed) {
  if (managed) known(managed->dl_tensor);
  return managed;
}

NDArray tensor_of(const TenonObject* o, const char* what) {
  const auto* array = as<NDArrayObj>(o);
  if (!array) throw Error(ErrorKind::usage, "T0102", std::string(what) + ": the object is no NDArray");
  return NDArray(Ref<NDArrayObj>(array));
}

}  // namespace

extern "C" {

TenonStatus tenon_ffi_string(const char* data, size_t size, TenonAny* result) {
  return guard(result, [&] { return Any(std::string_view(data, size)); });
}

TenonStatus tenon_ffi_bytes(const void* data, size_t size, TenonAny* result) {
  return guard(result,
               [&] { return Any(make<BytesObj>(std::string(static_cast<const char*>(data), size))); });
}

const char* tenon_ffi_text(const TenonObject* o, size_t* size) {
  const auto* s = as<StringObj>(o);
  *size = s ? s->value.size() : 0;
  return s ? s->value.c_str() : nullptr;
}

size_t tenon_ffi_dtype_name(DLDataType dtype, char* name, size_t capacity) {
  const std::string text = to_string(DataType{TypeCode(dtype.code), dtype.bits, dtype.lanes});
  if (capacity) {
    const size_t n = std::min(text.size(), capacity - 1);
    std::memcpy(name, text.data(), n);
    name[n] = 0;
  }
  return text.size();
}

TenonStatus tenon_ffi_array(const TenonAny* items, size_t size, TenonAny* result) {
  return guard(result, [&] {
    auto array = make<ArrayObj>();
    const Any* first = reinterpret_cast<const Any*>(items);
    array.edit()->items.assign(first, first + size);
    return Any(std::move(array));
  });
}

const TenonAny* tenon_ffi_array_items(const TenonObject* o, size_t* size) {
  const auto* array = as<ArrayObj>(o);
  *size = array ? array->items.size() : 0;
  return array ? c(array->items.data()) : nullptr;
}

TenonStatus tenon_ffi_map(const TenonAny* pairs, size_t size, TenonAny* result) {
  return guard(result, [&] {
    auto map = make<MapObj>();
    for (size_t i = 0; i < size; ++i) map_detail::set(map.edit(), any(pairs + 2 * i), any(pairs + 2 * i + 1));
    return Any(std::move(map));
  });
}

const TenonAny* tenon_ffi_map_pairs(const TenonObject* o, size_t* size) {
  static_assert(sizeof(std::pair<Any, Any>) == 2 * sizeof(Any));
  const auto* map = as<MapObj>(o);
  *size = map ? map->items.size() : 0;
  return map ? reinterpret_cast<const TenonAny*>(map->items.data()) : nullptr;
}

const TenonAny* tenon_ffi_map_find(const TenonObject* o, const TenonAny* key) {
  const auto* map = as<MapObj>(o);
  const ptrdiff_t i = map ? map_detail::find(map, any(key)) : -1;
  return i < 0 ? nullptr : c(&map->items[size_t(i)].second);
}

TenonStatus tenon_ffi_shape(const int64_t* dims, size_t ndim, TenonAny* result) {
  return guard(result, [&] {
    Shape shape = make<ShapeObj>();
    shape.mut()->dims.assign(dims, dims + ndim);
    return Any(std::move(shape));
  });
}

const int64_t* tenon_ffi_shape_dims(const TenonObject* o, size_t* ndim) {
  const auto* shape = as<ShapeObj>(o);
  *ndim = shape ? shape->dims.size() : 0;
  return shape ? shape->dims.data() : nullptr;
}

TenonStatus tenon_ffi_from_dlpack(DLManagedTensorVersioned* tensor, TenonAny* result) {
  return guard(result, [&] { return Any(from_dlpack(known(tensor))); });
}
TenonStatus tenon_ffi_from_dlpack_unversioned(DLManagedTensor* tensor, TenonAny* result) {
  return guard(result, [&] { return Any(from_dlpack(known(tensor))); });
}
TenonStatus tenon_ffi_to_dlpack(const TenonObject* o, DLManagedTensorVersioned** managed, TenonAny* result) {
  return guard(result, [&] {
    *managed = to_dlpack(tensor_of(o, "tenon_ffi_to_dlpack"));
    return Any();
  });
}
TenonStatus tenon_ffi_to_dlpack_unversioned(const TenonObject* o, DLManagedTensor** managed,
                                            TenonAny* result) {
  return guard(result, [&] {
    *managed = to_dlpack_unversioned(tensor_of(o, "tenon_ffi_to_dlpack_unversioned"));
    return Any();
  });
}

TenonStatus tenon_ffi_tensor(const DLTensor* tensor, void* owner, void (*release)(void*), TenonAny* result) {
  return guard(result, [&] {
    NDArray array = view_of(known(*tensor));
    if (release) array.mut()->release = [owner, release] { release(owner); };
    return Any(std::move(array));
  });
}

int32_t tenon_ffi_tensor_view(const TenonObject* o, DLTensor* view) {
  const auto* array = as<NDArrayObj>(o);
  if (!array) return 0;
  *view = {array->data,
           {DLDeviceType(array->device.kind), array->device.index},
           int32_t(array->shape.size()),
           {uint8_t(array->dtype.code), array->dtype.bits, array->dtype.lanes},
           const_cast<int64_t*>(array->shape.data()),
           nullptr,
           0};
  return 1;
}

TenonStatus tenon_ffi_foreign(void* handle, void (*destroy)(void*), TenonAny* result) {
  return guard(result, [&] { return Any(make<ForeignObj>(handle, destroy)); });
}

void* tenon_ffi_foreign_handle(const TenonObject* o, void (*destroy)(void*)) {
  const auto* foreign = as<ForeignObj>(o);
  return foreign && foreign->destroy == destroy ? foreign->handle : nullptr;
}

}  // extern "C"
