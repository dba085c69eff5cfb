// SPDX-License-Identifier: Apache-2.0
// Values between Python and C++. A list or tuple becomes an Array, a dictionary a Map, a callable a Function,
// what has a buffer or DLPack a tensor without a copy; what C++ has no kind for is handed on as it is.
#include "core.h"

namespace tenon::python {
namespace {

bool done(TenonStatus status, TenonAny* result) {
  if (status == TENON_OK) return true;
  raise(result);
  return false;
}

bool from_int(PyObject* value, TenonAny* result) {
  int overflow = 0;
  const long long i = PyLong_AsLongLongAndOverflow(value, &overflow);
  if (overflow) {
    PyErr_Format(PyExc_OverflowError, "%R does not fit into 64 bits", value);
    return false;
  }
  if (i == -1 && PyErr_Occurred()) return false;
  *result = tenon_any_int(i);
  return true;
}

bool from_text(PyObject* value, TenonAny* result) {
  Py_ssize_t size;
  const char* text = utf8(value, &size);
  if (!text) return false;
  if (reinterpret_cast<PyObject*>(Py_TYPE(value)) == state.dtype) {
    const DLDataType type = tenon_dtype(text);
    *result = tenon_any_dtype(type);
    if (type.code != 0 || type.bits != 0) return true;
    PyErr_Format(PyExc_ValueError, "there is no data type %R", value);
    return false;
  }
  return done(tenon_ffi_string(text, size_t(size), result), result);
}

bool from_sequence(PyObject* value, bool list, TenonAny* result) {
  const Py_ssize_t n = list ? PyList_Size(value) : PyTuple_Size(value);
  Values items(n);
  for (Py_ssize_t i = 0; i < n && i < (list ? PyList_Size(value) : n); ++i) {
    PyObject* item = list ? PyList_GetItem(value, i) : PyTuple_GetItem(value, i);
    Py_INCREF(item);  // a conversion may run Python, which may change the list
    const bool added = items.add(item);
    Py_DECREF(item);
    if (!added) return false;
  }
  return done(tenon_ffi_array(items.data(), size_t(items.size()), result), result);
}

bool from_dict(PyObject* value, TenonAny* result) {
  PyObject* pairs = PyDict_Items(value);
  if (!pairs) return false;
  const Py_ssize_t n = PyList_Size(pairs);
  Values items(2 * n);
  bool good = true;
  for (Py_ssize_t i = 0; i < n && good; ++i) {
    PyObject* pair = PyList_GetItem(pairs, i);
    good = items.add(PyTuple_GetItem(pair, 0)) && items.add(PyTuple_GetItem(pair, 1));
  }
  Py_DECREF(pairs);
  return good && done(tenon_ffi_map(items.data(), size_t(n), result), result);
}

/// Kinds that are rarer.
bool from_other(PyObject* value, TenonAny* result) {
  if (Py_TYPE(value) == &PyUnicode_Type) return from_text(value, result);
  if (numpy_array_from(value, result)) return true;
  if (PyLong_Check(value)) return from_int(value, result);  // enumerations
  if (PyFloat_Check(value)) {
    *result = tenon_any_float(PyFloat_AsDouble(value));
    return true;
  }
  if (PyUnicode_Check(value)) return from_text(value, result);
  if (PyTuple_Check(value)) return from_sequence(value, false, result);
  if (PyList_Check(value)) return from_sequence(value, true, result);
  if (PyDict_Check(value)) return from_dict(value, result);
  if (PyBytes_Check(value))
    return done(tenon_ffi_bytes(PyBytes_AsString(value), size_t(PyBytes_Size(value)), result), result);
  if (PyType_Check(value)) return foreign(value, result);
  if (const int found = tensor_from(value, result)) return found > 0;
  if (state.to_tensor) {  // scalars of NumPy, data types, what other packages need
    PyObject* converted = PyObject_CallFunctionObjArgs(state.to_tensor, value, nullptr);
    if (!converted) return false;
    const bool other = converted != value;
    const bool good = other && to_any(converted, result);
    Py_DECREF(converted);
    if (other) return good;
  }
  if (PyCallable_Check(value)) return function_from(value, result);
  return foreign(value, result);
}

}  // namespace

bool foreign(PyObject* value, TenonAny* result) {
  Py_INCREF(value);
  return done(tenon_ffi_foreign(value, drop_later, result), result);
}

bool to_any(PyObject* value, TenonAny* result) {
  PyTypeObject* type = Py_TYPE(value);
  if (type == &PyLong_Type) return from_int(value, result);
  if (type == &PyFloat_Type) {
    *result = tenon_any_float(PyFloat_AsDouble(value));
    return true;
  }
  if (value == Py_None) {
    *result = tenon_any_none();
    return true;
  }
  if (type == &PyBool_Type) {
    *result = tenon_any_bool(value == Py_True);
    return true;
  }
  if (is_wrapper(value)) {
    TenonObject* object = made_object(value);
    if (!object) return false;
    tenon_ffi_retain(object);
    *result = tenon_any_object(object);
    return true;
  }
  return from_other(value, result);
}

PyObject* from_any(TenonAny value) {
  switch (value.tag) {
    case TENON_NONE:
      Py_RETURN_NONE;
    case TENON_BOOL:
      return PyBool_FromLong(value.v.i != 0);
    case TENON_INT:
      return PyLong_FromLongLong(value.v.i);
    case TENON_FLOAT:
      return PyFloat_FromDouble(value.v.f);
    case TENON_POINTER:
      return PyLong_FromVoidPtr(value.v.pointer);
    case TENON_DTYPE: {
      char name[64];
      tenon_ffi_dtype_name(value.v.dtype, name, sizeof name);
      return PyObject_CallFunction(state.dtype, "s", name);
    }
    default:
      break;
  }
  static const uint32_t string = tenon_ffi_type_index("String"), bytes = tenon_ffi_type_index("Bytes"),
                        foreign_value = tenon_ffi_type_index("Foreign");
  PyObject* result = nullptr;
  if (value.tag == string || value.tag == bytes) {
    size_t size;
    const char* text = tenon_ffi_text(value.v.object, &size);
    result = value.tag == string ? PyUnicode_DecodeUTF8(text, Py_ssize_t(size), "surrogateescape")
                                 : PyBytes_FromStringAndSize(text, Py_ssize_t(size));
  } else if (value.tag == foreign_value &&
             (result = static_cast<PyObject*>(tenon_ffi_foreign_handle(value.v.object, drop_later)))) {
    Py_INCREF(result);
  } else {
    return wrap(value.v.object);
  }
  tenon_ffi_release(value.v.object);
  return result;
}

PyObject* from_borrowed(const TenonAny& value) {
  tenon_ffi_any_retain(&value);
  return from_any(value);
}

}  // namespace tenon::python
