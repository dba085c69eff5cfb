// SPDX-License-Identifier: Apache-2.0
// The module: registry, types, and what the package gives it (`setup`).
#include <vector>

#include "core.h"

namespace tenon::python {
namespace {

PyObject* result_of(TenonStatus status, TenonAny* result) {
  if (status == TENON_OK) return from_any(*result);
  raise(result);
  return nullptr;
}

PyObject* setup(PyObject*, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"dtype", "make_class", "make_error", "equal", "hash",
                                "repr",  "bind",       "to_tensor",  nullptr};
  PyObject** slots[] = {&state.dtype, &state.make_class, &state.make_error, &state.equal,
                        &state.hash,  &state.repr,       &state.bind,       &state.to_tensor};
  PyObject* given[8];
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "$OOOOOOOO", const_cast<char**>(names), &given[0],
                                   &given[1], &given[2], &given[3], &given[4], &given[5], &given[6],
                                   &given[7]))
    return nullptr;
  for (int i = 0; i < 8; ++i) {
    Py_INCREF(given[i]);
    assign(*slots[i], given[i]);
  }
  Py_RETURN_NONE;
}

PyObject* get_function(PyObject*, PyObject* name) {
  const char* text = utf8(name);
  TenonAny result;
  if (!text) return nullptr;
  PyObject* f = result_of(tenon_ffi_function_get(text, &result), &result);
  if (f && f != Py_None && PyObject_SetAttrString(f, "name", name) != 0) Py_CLEAR(f);
  return f;
}

PyObject* set_function(PyObject*, PyObject* args) {
  const char *name, *file, *doc;
  int line, replace;
  PyObject* callable;
  if (!PyArg_ParseTuple(args, "sOpsis", &name, &callable, &replace, &file, &line, &doc)) return nullptr;
  TenonAny f, result;
  if (is_wrapper(callable) ? !to_any(callable, &f) : !function_from(callable, &f)) return nullptr;
  const TenonFunctionInfo info = {name, file, line, doc};
  const TenonStatus status = tenon_ffi_function_set(&info, f.v.object, replace, &result);
  tenon_ffi_any_release(&f);
  return result_of(status, &result);
}

PyObject* remove_function(PyObject*, PyObject* name) {
  const char* text = utf8(name);
  if (!text) return nullptr;
  tenon_ffi_function_remove(text);
  Py_RETURN_NONE;
}
PyObject* function_names(PyObject*, PyObject* prefix) {
  const char* text = utf8(prefix);
  TenonAny result;
  return text ? result_of(tenon_ffi_function_names(text, &result), &result) : nullptr;
}
PyObject* function_info(PyObject*, PyObject* name) {
  const char* text = utf8(name);
  TenonAny result;
  return text ? result_of(tenon_ffi_function_info(text, &result), &result) : nullptr;
}

PyObject* load_compiler(PyObject*, PyObject*) {
  TenonAny result;
  TenonStatus status;
  {
    Unlocked unlocked;
    status = tenon_ffi_load_compiler(&result);
  }
  return result_of(status, &result);
}

PyObject* type_index(PyObject*, PyObject* key) {
  const char* text = utf8(key);
  return text ? PyLong_FromUnsignedLong(tenon_ffi_type_index(text)) : nullptr;
}

/// (key, index of the parent, ((name, doc, type, role), …)) of a type, or None.
PyObject* type_info(PyObject*, PyObject* index) {
  const unsigned long i = PyLong_AsUnsignedLong(index);
  if (PyErr_Occurred()) return nullptr;
  const TenonTypeInfo* info = tenon_ffi_type(uint32_t(i));
  if (!info) Py_RETURN_NONE;
  PyObject* fields = PyTuple_New(info->num_fields);
  for (int32_t n = 0; fields && n < info->num_fields; ++n) {
    const TenonFieldInfo& f = info->fields[n];
    PyObject* field = Py_BuildValue("(sssi)", f.name, f.doc, f.type, int(f.role));
    if (!field || PyTuple_SetItem(fields, n, field) != 0) Py_CLEAR(fields);
  }
  return fields ? Py_BuildValue("(sIN)", info->key, info->parent, fields) : nullptr;
}

PyObject* type_indices(PyObject*, PyObject*) {
  const int32_t n = tenon_ffi_types(nullptr, 0);
  auto* indices = static_cast<uint32_t*>(PyMem_Malloc(size_t(n) * sizeof(uint32_t)));
  if (!indices) return PyErr_NoMemory();
  const int32_t now = tenon_ffi_types(indices, n);
  PyObject* list = PyList_New(now < n ? now : n);
  for (Py_ssize_t i = 0; list && i < PyList_Size(list); ++i)
    if (PyList_SetItem(list, i, PyLong_FromUnsignedLong(indices[i])) != 0) Py_CLEAR(list);
  PyMem_Free(indices);
  return list;
}

PyObject* set_class_of(PyObject*, PyObject* args) {
  unsigned int index;
  PyObject* type;
  if (!PyArg_ParseTuple(args, "IO!", &index, &PyType_Type, &type)) return nullptr;
  set_class(index, type);
  Py_RETURN_NONE;
}
PyObject* get_class_of(PyObject*, PyObject* index) {
  const unsigned long i = PyLong_AsUnsignedLong(index);
  if (PyErr_Occurred()) return nullptr;
  if (!tenon_ffi_type(uint32_t(i))) return PyErr_Format(PyExc_ValueError, "there is no type %lu", i);
  auto* type = reinterpret_cast<PyObject*>(class_of(uint32_t(i)));
  Py_XINCREF(type);
  return type;
}

PyObject* function_of_callable(PyObject*, PyObject* callable) {
  TenonAny f;
  if (!PyCallable_Check(callable)) return PyErr_Format(PyExc_TypeError, "%R is not callable", callable);
  return function_from(callable, &f) ? from_any(f) : nullptr;
}

/// A tuple of the sizes of a Shape; None for anything else.
PyObject* shape_dims(PyObject*, PyObject* shape) {
  size_t n = 0;
  const int64_t* dims = is_wrapper(shape) ? tenon_ffi_shape_dims(object_of(shape), &n) : nullptr;
  if (!dims && (!is_wrapper(shape) || object_of(shape)->type_index != tenon_ffi_type_index("Shape")))
    Py_RETURN_NONE;
  PyObject* tuple = PyTuple_New(Py_ssize_t(n));
  for (size_t i = 0; tuple && i < n; ++i)
    if (PyTuple_SetItem(tuple, Py_ssize_t(i), PyLong_FromLongLong(dims[i])) != 0) Py_CLEAR(tuple);
  return tuple;
}

PyObject* shape_of(PyObject*, PyObject* sizes) {
  if (!PyTuple_Check(sizes)) return PyErr_Format(PyExc_TypeError, "a shape is made of a tuple");
  std::vector<int64_t> dims;
  for (Py_ssize_t i = 0; i < PyTuple_Size(sizes); ++i)
    dims.push_back(PyLong_AsLongLong(PyTuple_GetItem(sizes, i)));
  TenonAny result;
  return PyErr_Occurred() ? nullptr : result_of(tenon_ffi_shape(dims.data(), dims.size(), &result), &result);
}

PyMethodDef methods[] = {
    {"setup", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)(void)>(setup)),
     METH_VARARGS | METH_KEYWORDS, "gives the module what it needs of the package"},
    {"get_function", get_function, METH_O, "the function of a name, or None"},
    {"set_function", set_function, METH_VARARGS, "(name, callable, replace, file, line, doc)"},
    {"remove_function", remove_function, METH_O, "forgets a name"},
    {"function_names", function_names, METH_O, "names with a prefix, sorted"},
    {"function_info", function_info, METH_O, "name, file, line, doc; or None"},
    {"shape_dims", shape_dims, METH_O, "the sizes of a Shape as a tuple"},
    {"shape_of", shape_of, METH_O, "a Shape of a tuple of sizes"},
    {"function_of", function_of_callable, METH_O, "a callable as a packed function"},
    {"load_compiler", load_compiler, METH_NOARGS, "loads the compiler library, once"},
    {"type_index", type_index, METH_O, "the index of a type key, or 0"},
    {"type_info", type_info, METH_O, "(key, parent, fields) of an index, or None"},
    {"type_indices", type_indices, METH_NOARGS, "all types that are registered now"},
    {"set_class", set_class_of, METH_VARARGS, "(index, class)"},
    {"get_class", get_class_of, METH_O, "the class of an index"},
    {}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "tenon._core",
                          "Objects and functions of Tenon.",
                          -1,
                          methods,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

}  // namespace
}  // namespace tenon::python

PyMODINIT_FUNC PyInit__core(void) {
  using namespace tenon::python;
  if (tenon_ffi_version() < TENON_FFI_VERSION) {
    PyErr_Format(PyExc_ImportError, "libtenon_ffi has version %d, the package needs %d", tenon_ffi_version(),
                 TENON_FFI_VERSION);
    return nullptr;
  }
  PyObject* module = PyModule_Create(&definition);
  if (module && (!add_object_types(module) || !add_container_types(module) || !add_function_type(module) ||
                 !add_tensor_type(module) || !add_session_types(module) || !add_deferred(module) ||
                 PyModule_AddStringConstant(module, "version", tenon_version()) != 0))
    Py_CLEAR(module);
  if (module) set_class(tenon_ffi_type_index("Object"), reinterpret_cast<PyObject*>(state.object));
  return module;
}
