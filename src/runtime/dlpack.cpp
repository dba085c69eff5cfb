// SPDX-License-Identifier: Apache-2.0
#include "runtime/dlpack.h"

#include <algorithm>
#include <memory>

namespace tenon {
namespace {

/// What keeps memory alive that nobody may write.
struct ReadOnlyMemory : Object {
  static constexpr std::string_view type_key = "ReadOnlyMemory";
  Any owner;
};

[[noreturn]] void malformed(const char* what) {
  throw Error(ErrorKind::usage, "T0405", std::string("a malformed DLPack tensor: ") + what);
}

template <class Managed>
NDArray adopt(Managed* managed) {
  if (!managed) malformed("it is null");
  NDArray array = view_of(managed->dl_tensor);
  array.mut()->release = [managed] {
    if (managed->deleter) managed->deleter(managed);
  };
  return array;
}

/// The exported structure and what it points to, in one piece.
template <class Managed>
struct Exported {
  Managed managed{};
  NDArray array;
  std::vector<int64_t> strides;
};

template <class Managed>
Managed* export_array(const NDArray& array) {
  auto e = std::make_unique<Exported<Managed>>();
  e->array = array;
  const std::vector<int64_t>& shape = array.shape();
  e->strides.resize(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    e->strides[i] = stride;
    stride *= std::max<int64_t>(1, shape[i]);
  }
  e->managed.dl_tensor = dlpack_view(array);
  e->managed.dl_tensor.strides = e->strides.data();
  e->managed.manager_ctx = e.get();
  e->managed.deleter = [](Managed* self) { delete static_cast<Exported<Managed>*>(self->manager_ctx); };
  return &e.release()->managed;
}

}  // namespace

bool is_read_only(const NDArray& array) {
  for (const NDArrayObj* a = array.get(); a;) {
    if (a->owner.try_as<Ref<ReadOnlyMemory>>().value_or(Ref<ReadOnlyMemory>())) return true;
    const auto parent = a->owner.try_as<NDArray>();
    a = parent ? parent->get() : nullptr;
  }
  return false;
}
void make_read_only(NDArray& array) {
  NDArrayObj* a = array.mut();
  auto memory = make<ReadOnlyMemory>();
  memory.edit()->owner = std::move(a->owner);
  a->owner = Any(std::move(memory));
}

NDArray view_of(const DLTensor& t) {
  if (t.ndim < 0 || t.ndim > 64) malformed("its number of dimensions is out of range");
  if (t.ndim > 0 && !t.shape) malformed("it has no shape");
  const DataType dtype{TypeCode(t.dtype.code), t.dtype.bits, t.dtype.lanes};
  if (dtype.bits == 0 || dtype.lanes != 1) malformed("its data type is not a scalar type");
  std::vector<int64_t> shape(t.shape, t.shape + t.ndim);
  (void)storage_bytes(element_count(shape), dtype);
  if (t.strides && std::ranges::find(shape, 0) == shape.end()) {
    int64_t expected = 1;
    for (int32_t i = t.ndim - 1; i >= 0; --i) {
      if (shape[size_t(i)] != 1 && t.strides[i] != expected)
        throw Error(ErrorKind::usage, "T0404",
                    "the tensor is not compact and row-major: its strides leave gaps or another order", {},
                    "make a contiguous copy first");
      expected *= shape[size_t(i)];
    }
  }
  void* data = t.data ? static_cast<char*>(t.data) + t.byte_offset : nullptr;
  NDArray array = NDArray::view(data, std::move(shape), dtype);
  array.mut()->device = {int32_t(t.device.device_type), t.device.device_id};
  return array;
}

NDArray from_dlpack(DLManagedTensorVersioned* tensor) {
  if (tensor && tensor->version.major != DLPACK_MAJOR_VERSION)
    malformed("its version of the format is not 1");
  if (tensor && tensor->flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED)
    malformed("padded elements below a byte are not supported");
  NDArray array = adopt(tensor);
  if (tensor->flags & DLPACK_FLAG_BITMASK_READ_ONLY) make_read_only(array);
  return array;
}
NDArray from_dlpack(DLManagedTensor* tensor) { return adopt(tensor); }

DLTensor dlpack_view(const NDArray& array) {
  const NDArrayObj* o = array.get();
  return {o->data,
          {DLDeviceType(o->device.kind), o->device.index},
          int32_t(o->shape.size()),
          {uint8_t(o->dtype.code), o->dtype.bits, o->dtype.lanes},
          const_cast<int64_t*>(o->shape.data()),
          nullptr,
          0};
}

DLManagedTensorVersioned* to_dlpack(const NDArray& array) {
  auto* m = export_array<DLManagedTensorVersioned>(array);
  m->version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  if (is_read_only(array)) m->flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  return m;
}
DLManagedTensor* to_dlpack_unversioned(const NDArray& array) {
  if (is_read_only(array))
    throw Error(ErrorKind::usage, "T0406",
                "the tensor is read-only, which DLPack cannot say before version 1", {},
                "ask for version 1, or for a copy");
  return export_array<DLManagedTensor>(array);
}

}  // namespace tenon
