// SPDX-License-Identifier: Apache-2.0
// Array and Map as a sequence and a mapping, read only as the objects are.
#include "core.h"

namespace tenon::python {
namespace {

struct Items {
  const TenonAny* list = nullptr;
  Py_ssize_t size = 0;
};

Items items_of(PyObject* array) {
  size_t n = 0;
  const TenonAny* list = tenon_ffi_array_items(object_of(array), &n);
  return {list, Py_ssize_t(n)};
}
Items pairs_of(PyObject* map) {
  size_t n = 0;
  const TenonAny* list = tenon_ffi_map_pairs(object_of(map), &n);
  return {list, Py_ssize_t(n)};
}

Py_ssize_t array_length(PyObject* self) { return items_of(self).size; }

PyObject* array_item(PyObject* self, Py_ssize_t i) {
  const Items items = items_of(self);
  if (i < 0 || i >= items.size)
    return PyErr_Format(PyExc_IndexError, "index %zd in an array of %zd", i, items.size);
  return from_borrowed(items.list[i]);
}

PyObject* array_subscript(PyObject* self, PyObject* key) {
  const Items items = items_of(self);
  if (PyIndex_Check(key)) {
    const Py_ssize_t i = PyNumber_AsSsize_t(key, PyExc_IndexError);
    if (i == -1 && PyErr_Occurred()) return nullptr;
    return array_item(self, i < 0 ? i + items.size : i);
  }
  if (!PySlice_Check(key)) return PyErr_Format(PyExc_TypeError, "an array is indexed by integers and slices");
  Py_ssize_t start, stop, step;
  if (PySlice_Unpack(key, &start, &stop, &step) != 0) return nullptr;
  const Py_ssize_t n = PySlice_AdjustIndices(items.size, &start, &stop, step);
  PyObject* list = PyList_New(n);
  for (Py_ssize_t i = 0; list && i < n; ++i) {
    PyObject* item = from_borrowed(items.list[start + i * step]);
    if (!item || PyList_SetItem(list, i, item) != 0) Py_CLEAR(list);
  }
  return list;
}

/// `Array(items)`: the new object of a list, which `_init_by` gives to an instance.
PyObject* init_with(PyObject* self, PyObject* made) {
  return made ? PyObject_CallMethod(self, "_init_by", "O", made) : nullptr;
}

int container_init(PyObject* self, PyObject* args, PyObject* keywords) {
  PyObject* given = nullptr;
  if ((keywords && PyDict_Size(keywords) != 0) || !PyArg_ParseTuple(args, "|O", &given)) {
    PyErr_SetString(PyExc_TypeError, "it takes one value with the items");
    return -1;
  }
  const bool map = PyObject_TypeCheck(self, state.map);
  PyObject* type = reinterpret_cast<PyObject*>(map ? &PyDict_Type : &PyList_Type);
  PyObject* copy =
      given ? PyObject_CallFunctionObjArgs(type, given, nullptr) : PyObject_CallObject(type, nullptr);
  TenonAny value;
  if (!copy || !to_any(copy, &value)) return Py_XDECREF(copy), -1;
  Py_DECREF(copy);
  PyObject* made = from_any(value);
  PyObject* done = init_with(self, made);
  Py_XDECREF(made);
  Py_XDECREF(done);
  return done ? 0 : -1;
}

Py_ssize_t map_length(PyObject* self) { return pairs_of(self).size; }

/// The value of a key (borrowed), or null; an exception may be set.
const TenonAny* map_find(PyObject* self, PyObject* key) {
  TenonObject* map = made_object(self);
  TenonAny k;
  if (!map || !to_any(key, &k)) return nullptr;
  const TenonAny* found = tenon_ffi_map_find(map, &k);
  tenon_ffi_any_release(&k);
  return found;
}

PyObject* map_subscript(PyObject* self, PyObject* key) {
  const TenonAny* found = map_find(self, key);
  if (found) return from_borrowed(*found);
  if (!PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, key);
  return nullptr;
}
int map_contains(PyObject* self, PyObject* key) {
  const bool found = map_find(self, key) != nullptr;
  return PyErr_Occurred() ? -1 : found;
}
PyObject* map_list(PyObject* self, int offset) {
  const Items pairs = pairs_of(self);
  PyObject* list = PyList_New(pairs.size);
  for (Py_ssize_t i = 0; list && i < pairs.size; ++i) {
    PyObject* item = from_borrowed(pairs.list[2 * i + offset]);
    if (!item || PyList_SetItem(list, i, item) != 0) Py_CLEAR(list);
  }
  return list;
}
PyObject* map_keys(PyObject* self, PyObject*) { return map_list(self, 0); }
PyObject* map_values(PyObject* self, PyObject*) { return map_list(self, 1); }
PyObject* map_iter(PyObject* self) {
  PyObject* keys = map_list(self, 0);
  PyObject* iterator = keys ? PyObject_GetIter(keys) : nullptr;
  Py_XDECREF(keys);
  return iterator;
}

PyType_Slot array_slots[] = {{Py_sq_length, reinterpret_cast<void*>(array_length)},
                             {Py_sq_item, reinterpret_cast<void*>(array_item)},
                             {Py_mp_length, reinterpret_cast<void*>(array_length)},
                             {Py_mp_subscript, reinterpret_cast<void*>(array_subscript)},
                             {Py_tp_init, reinterpret_cast<void*>(container_init)},
                             {Py_tp_doc, const_cast<char*>("A sequence that does not change.")},
                             {0, nullptr}};
PyType_Spec array_spec = {"tenon._core.Array", int(sizeof(Wrapper)), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, array_slots};

PyMethodDef map_methods[] = {{"_keys", map_keys, METH_NOARGS, "the keys as a list"},
                             {"_values", map_values, METH_NOARGS, "the values as a list"},
                             {}};
PyType_Slot map_slots[] = {
    {Py_mp_length, reinterpret_cast<void*>(map_length)},
    {Py_mp_subscript, reinterpret_cast<void*>(map_subscript)},
    {Py_sq_contains, reinterpret_cast<void*>(map_contains)},
    {Py_tp_iter, reinterpret_cast<void*>(map_iter)},
    {Py_tp_init, reinterpret_cast<void*>(container_init)},
    {Py_tp_methods, map_methods},
    {Py_tp_doc, const_cast<char*>("A mapping that does not change; it keeps the order.")},
    {0, nullptr}};
PyType_Spec map_spec = {"tenon._core.Map", int(sizeof(Wrapper)), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                        map_slots};

}  // namespace

bool add_container_types(PyObject* module) {
  auto* base = reinterpret_cast<PyObject*>(state.object);
  PyObject* array = PyType_FromSpecWithBases(&array_spec, base);
  PyObject* map = PyType_FromSpecWithBases(&map_spec, base);
  state.array = reinterpret_cast<PyTypeObject*>(array);
  state.map = reinterpret_cast<PyTypeObject*>(map);
  if (!array || !map || PyModule_AddType(module, state.array) != 0 ||
      PyModule_AddType(module, state.map) != 0)
    return false;
  set_class(tenon_ffi_type_index("Array"), array);
  set_class(tenon_ffi_type_index("Map"), map);
  return true;
}

}  // namespace tenon::python
