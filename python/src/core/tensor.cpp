// SPDX-License-Identifier: Apache-2.0
// Tensors: views of memory of Python (buffer protocol, DLPack) and memory of Tenon seen from Python. Nothing
// is copied, except what has gaps between its elements or an address that no element may have.
#include <cstring>
#include <vector>

#include "core.h"

namespace tenon::python {
namespace {

/// The type of an element of a buffer; bits 0 when there is none for it.
DLDataType type_of_format(const char* format, Py_ssize_t item_size) {
  const DLDataType none = {0, 0, 0};
  if (!format) return {kDLUInt, 8, 1};
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (!format[0] || format[1]) return none;
  const auto bits = uint8_t(8 * item_size);
  if (std::strchr("bhilqn", *format)) return {kDLInt, bits, 1};
  if (std::strchr("BHILQN", *format)) return {kDLUInt, bits, 1};
  if (std::strchr("efd", *format)) return {kDLFloat, bits, 1};
  if (*format == '?') return {kDLBool, 8, 1};
  return none;
}
const char* format_of_type(DLDataType t) {
  if (t.lanes != 1) return nullptr;
  const int log = t.bits == 8 ? 0 : t.bits == 16 ? 1 : t.bits == 32 ? 2 : t.bits == 64 ? 3 : -1;
  if (log < 0) return nullptr;
  static const char* const ints[] = {"b", "h", "i", "q"};
  static const char* const unsigneds[] = {"B", "H", "I", "Q"};
  static const char* const floats[] = {nullptr, "e", "f", "d"};
  switch (t.code) {
    case kDLInt:
      return ints[log];
    case kDLUInt:
      return unsigneds[log];
    case kDLFloat:
      return floats[log];
    case kDLBool:
      return log == 0 ? "?" : nullptr;
    default:
      return nullptr;
  }
}

/// A view of memory that `release(owner)` gives back. DLPack's flags say what may only be read.
TenonStatus tensor_over(const DLTensor& tensor, void* owner, void (*release)(void*), bool read_only,
                        TenonAny* result) {
  if (!read_only) return tenon_ffi_tensor(&tensor, owner, release, result);
  struct Borrowed {
    DLManagedTensorVersioned managed;
    void* owner;
    void (*release)(void*);
  };
  auto* b = new Borrowed{{}, owner, release};
  b->managed.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  b->managed.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  b->managed.dl_tensor = tensor;
  b->managed.manager_ctx = b;
  b->managed.deleter = [](DLManagedTensorVersioned* self) {
    auto* borrowed = static_cast<Borrowed*>(self->manager_ctx);
    borrowed->release(borrowed->owner);
    delete borrowed;
  };
  const TenonStatus status = tenon_ffi_from_dlpack(&b->managed, result);
  if (status != TENON_OK) delete b;
  return status;
}
bool is_read_only(const TenonObject* tensor) {
  DLManagedTensorVersioned* managed;
  TenonAny result;
  if (tenon_ffi_to_dlpack(tensor, &managed, &result) != TENON_OK)
    return tenon_ffi_any_release(&result), false;
  const bool read_only = managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY;
  managed->deleter(managed);
  return read_only;
}

// ---------------------------------------------------------------- NumPy's arrays
/// The begin of NumPy's array and data type objects, the same from NumPy 1.7 to 2.x: what its headers give to
/// extensions. Reading it costs a tenth of the buffer protocol.
struct NumpyArray {
  PyObject ob_base;
  char* data;
  int ndim;
  Py_ssize_t* shape;
  Py_ssize_t* strides;
  PyObject* base;
  struct NumpyType* type;
  int flags;
};
struct NumpyType {
  PyObject ob_base;
  PyObject* scalar;
  char kind, letter, byteorder, unused;
  int number;
};
constexpr int kNumpyContiguous = 1, kNumpyAligned = 0x100, kNumpyWriteable = 0x400;
constexpr int kNumpyUserTypes = 256;  // from this number on types are those of extensions

/// By NumPy's numbers of types; bits 0 for the others.
DLDataType type_of_number(int number) {
  static constexpr DLDataType types[] = {
      {kDLBool, 8, 1},  {kDLInt, 8, 1},    {kDLUInt, 8, 1},  {kDLInt, 16, 1},  {kDLUInt, 16, 1},
      {kDLInt, 32, 1},  {kDLUInt, 32, 1},  {kDLInt, 64, 1},  {kDLUInt, 64, 1}, {kDLInt, 64, 1},
      {kDLUInt, 64, 1}, {kDLFloat, 32, 1}, {kDLFloat, 64, 1}};
  if (number >= 0 && number < int(sizeof types / sizeof types[0])) return types[number];
  return number == 23 ? DLDataType{kDLFloat, 16, 1} : DLDataType{0, 0, 0};
}

/// Whether a type is numpy.ndarray itself, which only exists once NumPy is imported.
bool is_numpy_array(PyTypeObject* type) {
  static PyObject* known = nullptr;
  if (known) return reinterpret_cast<PyObject*>(type) == known;
  PyObject* modules = PyImport_GetModuleDict();
  PyObject* numpy = modules ? PyDict_GetItemString(modules, "numpy") : nullptr;
  PyObject* array = numpy ? PyObject_GetAttrString(numpy, "ndarray") : nullptr;
  PyErr_Clear();
  if (array && PyType_Check(array)) known = array;
  return array && reinterpret_cast<PyObject*>(type) == array;
}

/// 1, or 0 when the buffer protocol must look at it.
int from_numpy(PyObject* value, TenonAny* result) {
  DLTensor tensor;
  if (!numpy_view(value, &tensor)) return 0;
  const bool read_only = !(reinterpret_cast<const NumpyArray*>(value)->flags & kNumpyWriteable);
  if (tensor_over(tensor, value, drop_later, read_only, result) != TENON_OK)
    return tenon_ffi_any_release(result), 0;
  Py_INCREF(value);
  return 1;
}

// ---------------------------------------------------------------- buffers and DLPack
void release_view(void* owner) {
  auto* view = static_cast<Py_buffer*>(owner);
  PyBuffer_Release(view);
  PyMem_Free(view);
}
void release_view_later(void* owner) { drop_later(release_view, owner); }

/// Whether elements lie without gaps and where elements may lie.
bool usable(const Py_buffer* view) {
  return PyBuffer_IsContiguous(view, 'C') &&
         reinterpret_cast<uintptr_t>(view->buf) % size_t(view->itemsize ? view->itemsize : 1) == 0;
}

int made(const DLTensor& tensor, void* owner, void (*release)(void*), bool read_only, TenonAny* result) {
  if (tensor_over(tensor, owner, release, read_only, result) == TENON_OK) return 1;
  release(owner);
  raise(result);
  return -1;
}

/// 1, 0 (it has no buffer of a type that tensors have), -1.
int from_buffer(PyObject* value, TenonAny* result) {
  auto* view = static_cast<Py_buffer*>(PyMem_Malloc(sizeof(Py_buffer)));
  if (!view) return PyErr_NoMemory(), -1;
  if (PyObject_GetBuffer(value, view, PyBUF_RECORDS_RO) != 0) {
    PyErr_Clear();  // NumPy has types that buffers do not have
    PyMem_Free(view);
    return 0;
  }
  const DLDataType type = type_of_format(view->format, view->itemsize);
  if (type.bits == 0) {
    release_view(view);
    return 0;
  }
  static_assert(sizeof(Py_ssize_t) == sizeof(int64_t));
  auto* shape = reinterpret_cast<int64_t*>(view->shape);
  DLTensor tensor = {view->buf, {kDLCPU, 0}, view->ndim, type, shape, nullptr, 0};
  if (usable(view)) return made(tensor, view, release_view_later, view->readonly, result);
  PyObject* copy = PyBytes_FromStringAndSize(nullptr, view->len);
  if (!copy || PyBuffer_ToContiguous(PyBytes_AsString(copy), view, view->len, 'C') != 0) {
    Py_XDECREF(copy);
    release_view(view);
    return -1;
  }
  tensor.data = PyBytes_AsString(copy);
  const int found = made(tensor, copy, drop_later, false, result);
  release_view(view);  // the shape was its own
  return found;
}

/// Takes the tensor of a DLPack capsule over.
int from_capsule(PyObject* capsule, TenonAny* result) {
  TenonStatus status;
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    auto* managed =
        static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
    status = tenon_ffi_from_dlpack(managed, result);
    if (status == TENON_OK) PyCapsule_SetName(capsule, "used_dltensor_versioned");
  } else if (PyCapsule_IsValid(capsule, "dltensor")) {
    auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
    status = tenon_ffi_from_dlpack_unversioned(managed, result);
    if (status == TENON_OK) PyCapsule_SetName(capsule, "used_dltensor");
  } else {
    PyErr_SetString(PyExc_BufferError, "this is no DLPack capsule, or it is used already");
    return -1;
  }
  if (status == TENON_OK) return 1;
  raise(result);
  return -1;
}

int from_dlpack(PyObject* value, TenonAny* result) {
  PyObject* method = PyObject_GetAttrString(value, "__dlpack__");
  if (!method) return PyErr_Clear(), 0;
  PyObject* none = PyTuple_New(0);
  PyObject* keywords = Py_BuildValue("{s(ii)}", "max_version", DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION);
  PyObject* capsule = none && keywords ? PyObject_Call(method, none, keywords) : nullptr;
  if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {  // older than version 1
    PyErr_Clear();
    capsule = PyObject_CallObject(method, nullptr);
  }
  Py_XDECREF(none);
  Py_XDECREF(keywords);
  Py_DECREF(method);
  if (!capsule) return -1;
  const int found = from_capsule(capsule, result);
  Py_DECREF(capsule);
  return found;
}

// ---------------------------------------------------------------- the tensor's own face
DLTensor view_of(PyObject* self) {
  DLTensor view{};
  tenon_ffi_tensor_view(object_of(self), &view);
  return view;
}

int tensor_getbuffer(PyObject* self, Py_buffer* out, int flags) {
  out->obj = nullptr;
  const DLTensor t = view_of(self);
  const char* format = format_of_type(t.dtype);
  if (!format || t.device.device_type != kDLCPU) {
    PyErr_SetString(PyExc_BufferError, "this tensor has a type or device that buffers do not have");
    return -1;
  }
  const bool read_only = is_read_only(object_of(self));
  if (read_only && flags & PyBUF_WRITABLE) {
    PyErr_SetString(PyExc_BufferError, "this tensor is read-only");
    return -1;
  }
  // Shape and strides, as long as the buffer is in use.
  auto* sizes = static_cast<Py_ssize_t*>(PyMem_Malloc(sizeof(Py_ssize_t) * size_t(2 * t.ndim + 1)));
  if (!sizes) return PyErr_NoMemory(), -1;
  Py_ssize_t bytes = t.dtype.bits / 8;
  for (int32_t i = t.ndim; i-- > 0;) {
    sizes[i] = Py_ssize_t(t.shape[i]);
    sizes[t.ndim + i] = bytes;
    bytes *= sizes[i];
  }
  *out = {};
  out->buf = t.data;
  Py_INCREF(self);
  out->obj = self;
  out->len = bytes;
  out->itemsize = t.dtype.bits / 8;
  out->readonly = read_only;
  out->ndim = t.ndim;
  out->format = flags & PyBUF_FORMAT ? const_cast<char*>(format) : nullptr;
  out->shape = flags & PyBUF_ND ? sizes : nullptr;
  out->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? sizes + t.ndim : nullptr;
  out->internal = sizes;
  return 0;
}
void tensor_releasebuffer(PyObject*, Py_buffer* view) { PyMem_Free(view->internal); }

void drop_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    auto* m = static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
    m->deleter(m);
  } else if (PyCapsule_IsValid(capsule, "dltensor")) {
    auto* m = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
    m->deleter(m);
  }
}

/// The tensor with memory of its own; null: an exception is set.
PyObject* copied(PyObject* self) {
  const DLTensor t = view_of(self);
  int64_t bits = t.dtype.bits;
  for (int32_t d = 0; d < t.ndim; ++d) bits *= t.shape[d];
  PyObject* memory = PyBytes_FromStringAndSize(static_cast<const char*>(t.data), Py_ssize_t((bits + 7) / 8));
  if (!memory) return nullptr;
  DLTensor own = t;
  own.data = PyBytes_AsString(memory);
  TenonAny result;
  return made(own, memory, drop_later, false, &result) == 1 ? from_any(result) : nullptr;
}
/// A DLPack capsule in the version that the consumer asks for.
PyObject* capsule_of(TenonObject* object, PyObject* version) {
  long major = 0;
  if (PyTuple_Check(version) && PyTuple_Size(version) == 2)
    major = PyLong_AsLong(PyTuple_GetItem(version, 0));
  TenonAny result;
  if (major >= DLPACK_MAJOR_VERSION) {
    DLManagedTensorVersioned* managed = nullptr;
    if (tenon_ffi_to_dlpack(object, &managed, &result) != TENON_OK) return raise(&result), nullptr;
    return PyCapsule_New(managed, "dltensor_versioned", drop_capsule);
  }
  if (is_read_only(object))
    return PyErr_Format(PyExc_BufferError,
                        "a read-only tensor is given to who asks for DLPack 1 (max_version), or as a copy");
  DLManagedTensor* managed = nullptr;
  if (tenon_ffi_to_dlpack_unversioned(object, &managed, &result) != TENON_OK) return raise(&result), nullptr;
  return PyCapsule_New(managed, "dltensor", drop_capsule);
}

PyObject* tensor_dlpack(PyObject* self, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"stream", "max_version", "dl_device", "copy", nullptr};
  PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$OOOO", const_cast<char**>(names), &stream, &version,
                                   &device, &copy))
    return nullptr;
  if (stream != Py_None) return PyErr_Format(PyExc_BufferError, "a tensor in CPU memory has no stream");
  TenonObject* object = made_object(self);
  if (!object) return nullptr;
  if (copy == Py_True) {
    PyObject* own = copied(self);
    PyObject* capsule = own ? capsule_of(object_of(own), version) : nullptr;
    Py_XDECREF(own);
    return capsule;
  }
  return capsule_of(object, version);
}

/// Another view of the memory of a tensor.
PyObject* view_over(PyObject* self, const DLTensor& t) {
  TenonAny result;
  if (tensor_over(t, self, drop_later, is_read_only(object_of(self)), &result) != TENON_OK)
    return raise(&result), nullptr;
  Py_INCREF(self);
  return from_any(result);
}

/// A view as unsigned integers, for types that buffers do not have: of the same shape and width, or of packed
/// bytes.
PyObject* tensor_carrier(PyObject* self, PyObject*) {
  if (!made_object(self)) return nullptr;
  DLTensor t = view_of(self);
  int64_t bytes = t.dtype.bits;
  for (int32_t d = 0; d < t.ndim; ++d) bytes *= t.shape[d];
  bytes = (bytes + 7) / 8;
  if (t.dtype.bits < 8) t.ndim = 1, t.shape = &bytes, t.dtype.bits = 8;
  t.dtype = {kDLUInt, t.dtype.bits, 1};
  return view_over(self, t);
}

/// `_of(dtype, shape)`: a view of the same memory as another type; who calls vouches for the sizes.
PyObject* tensor_of(PyObject* self, PyObject* args) {
  const char* name;
  PyObject* shape;
  if (!PyArg_ParseTuple(args, "sO!", &name, &PyTuple_Type, &shape) || !made_object(self)) return nullptr;
  std::vector<int64_t> dims;
  for (Py_ssize_t d = 0; d < PyTuple_Size(shape); ++d)
    dims.push_back(PyLong_AsLongLong(PyTuple_GetItem(shape, d)));
  if (PyErr_Occurred()) return nullptr;
  DLTensor t = view_of(self);
  t.dtype = tenon_dtype(name);
  t.ndim = int32_t(dims.size());
  t.shape = dims.data();
  return view_over(self, t);
}

PyObject* tensor_device(PyObject* self, PyObject*) {
  const DLTensor t = view_of(self);
  return Py_BuildValue("(ii)", int(t.device.device_type), t.device.device_id);
}
PyObject* tensor_shape(PyObject* self, void*) {
  const DLTensor t = view_of(self);
  PyObject* shape = PyTuple_New(t.ndim);
  for (int32_t i = 0; shape && i < t.ndim; ++i)
    if (PyTuple_SetItem(shape, i, PyLong_FromLongLong(t.shape[i])) != 0) Py_CLEAR(shape);
  return shape;
}
PyObject* tensor_dtype(PyObject* self, void*) { return from_any(tenon_any_dtype(view_of(self).dtype)); }
PyObject* tensor_data(PyObject* self, void*) { return PyLong_FromVoidPtr(view_of(self).data); }

int tensor_init(PyObject* self, PyObject* args, PyObject* keywords) {
  PyObject* given;
  if ((keywords && PyDict_Size(keywords)) || !PyArg_ParseTuple(args, "O", &given)) {
    PyErr_SetString(PyExc_TypeError, "NDArray takes an array: something with a buffer or with __dlpack__");
    return -1;
  }
  TenonAny value;
  const int found = tensor_from(given, &value);
  if (found < 0) return -1;
  if (found == 0) {
    PyErr_Format(PyExc_TypeError, "%R has neither a buffer of numbers nor __dlpack__", Py_TYPE(given));
    return -1;
  }
  PyObject* made = from_any(value);
  PyObject* done = made ? PyObject_CallMethod(self, "_init_by", "O", made) : nullptr;
  Py_XDECREF(made);
  Py_XDECREF(done);
  return done ? 0 : -1;
}

PyMethodDef tensor_methods[] = {
    {"__dlpack__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)(void)>(tensor_dlpack)),
     METH_VARARGS | METH_KEYWORDS, "the tensor for another library, without a copy"},
    {"_carrier", tensor_carrier, METH_NOARGS, "a view as unsigned integers"},
    {"_of", tensor_of, METH_VARARGS, "(dtype, shape): a view of the same memory as another type"},
    {"__dlpack_device__", tensor_device, METH_NOARGS, "kind and number of the device"},
    {}};
PyGetSetDef tensor_getters[] = {{"shape", tensor_shape, nullptr, "its dimensions", nullptr},
                                {"dtype", tensor_dtype, nullptr, "type of an element", nullptr},
                                {"data_ptr", tensor_data, nullptr, "address of the first element", nullptr},
                                {}};
PyType_Slot tensor_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(tensor_getbuffer)},
                              {Py_bf_releasebuffer, reinterpret_cast<void*>(tensor_releasebuffer)},
                              {Py_tp_init, reinterpret_cast<void*>(tensor_init)},
                              {Py_tp_methods, tensor_methods},
                              {Py_tp_getset, tensor_getters},
                              {Py_tp_doc, const_cast<char*>("A dense, row-major tensor.")},
                              {0, nullptr}};
PyType_Spec tensor_spec = {"tenon._core.NDArray", int(sizeof(Wrapper)), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, tensor_slots};

}  // namespace

bool numpy_view(PyObject* value, DLTensor* view) {
  if (!is_numpy_array(Py_TYPE(value))) return false;
  const auto* a = reinterpret_cast<NumpyArray*>(value);
  constexpr int kNeeded = kNumpyContiguous | kNumpyAligned;
  const DLDataType type = type_of_number(a->type->number);
  if ((a->flags & kNeeded) != kNeeded || type.bits == 0 || a->type->byteorder == '>') return false;
  *view = {a->data, {kDLCPU, 0}, a->ndim, type, reinterpret_cast<int64_t*>(a->shape), nullptr, 0};
  return true;
}

void* numpy_data(PyObject* array) { return reinterpret_cast<NumpyArray*>(array)->data; }

int numpy_array_from(PyObject* value, TenonAny* result) { return from_numpy(value, result); }

/// An array of a type that only `ml_dtypes` has, by tenon.arrays; types of other extensions are refused
/// there.
static int from_ml_dtypes(PyObject* value, TenonAny* result) {
  PyObject* arrays = PyImport_ImportModule("tenon.arrays");
  PyObject* made = arrays ? PyObject_CallMethod(arrays, "to_value", "O", value) : nullptr;
  Py_XDECREF(arrays);
  const bool good = made && to_any(made, result);
  Py_XDECREF(made);
  return good ? 1 : -1;
}

int tensor_from(PyObject* value, TenonAny* result) {
  if (numpy_array_from(value, result)) return 1;
  if (PyObject_CheckBuffer(value))
    if (const int found = from_buffer(value, result)) return found;
  if (is_numpy_array(Py_TYPE(value)) && reinterpret_cast<NumpyArray*>(value)->type->number >= kNumpyUserTypes)
    return from_ml_dtypes(value, result);
  if (is_numpy_array(Py_TYPE(value)))
    return PyErr_Format(PyExc_TypeError, "an array of %S is no tensor: its elements have another type",
                        reinterpret_cast<PyObject*>(reinterpret_cast<NumpyArray*>(value)->type)),
           -1;
  return from_dlpack(value, result);
}

bool add_tensor_type(PyObject* module) {
  PyObject* type = PyType_FromSpecWithBases(&tensor_spec, reinterpret_cast<PyObject*>(state.object));
  state.tensor = reinterpret_cast<PyTypeObject*>(type);
  if (!type || PyModule_AddType(module, state.tensor) != 0) return false;
  set_class(tenon_ffi_type_index("NDArray"), type);
  return true;
}

}  // namespace tenon::python
