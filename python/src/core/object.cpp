// SPDX-License-Identifier: Apache-2.0
// Wrappers: while one lives, its object has no other, so `a.body is a.body`. The table of them is touched
// with the interpreter lock held only. A wrapper whose count has reached zero may still be found while its
// class runs the end of its life (attributes of a subclass, `__del__`): it counts as absent.
#include "core.h"

#include <structmember.h>

#include <cstddef>
#include <vector>

namespace tenon::python {

State state;

namespace {

/// Object → wrapper: open addressing, linear probing, at most half full.
class Table {
 public:
  Table() : slots_(1024) {}
  Wrapper** find(const TenonObject* key) {
    for (size_t i = home(key);; i = next(i)) {
      if (!slots_[i]) return nullptr;
      if (slots_[i]->object == key) return &slots_[i];
    }
  }
  void insert(Wrapper* w) {
    if (2 * ++used_ > slots_.size()) grow();
    place(w);
  }
  /// Removes this wrapper, if it is the one that stands for its object.
  void erase(const Wrapper* w) {
    Wrapper** found = find(w->object);
    if (!found || *found != w) return;
    --used_;
    size_t hole = size_t(found - slots_.data());
    slots_[hole] = nullptr;
    for (size_t i = next(hole); slots_[i]; i = next(i)) {
      const size_t from = home(slots_[i]->object);
      if (((i - from) & mask()) < ((i - hole) & mask())) continue;  // still reached from its home
      slots_[hole] = slots_[i];
      slots_[i] = nullptr;
      hole = i;
    }
  }

 private:
  size_t mask() const { return slots_.size() - 1; }
  size_t next(size_t i) const { return (i + 1) & mask(); }
  size_t home(const TenonObject* key) const {
    return (size_t(reinterpret_cast<uintptr_t>(key)) * 0x9E3779B97F4A7C15u >> 20) & mask();
  }
  void place(Wrapper* w) {
    size_t i = home(w->object);
    while (slots_[i]) i = next(i);
    slots_[i] = w;
  }
  void grow() {
    std::vector<Wrapper*> old(2 * slots_.size());
    old.swap(slots_);
    for (Wrapper* w : old)
      if (w) place(w);
  }
  std::vector<Wrapper*> slots_;
  size_t used_ = 0;
};

Table& table() {
  static Table* t = new Table;
  return *t;
}
std::vector<PyTypeObject*>& classes() {
  static auto* list = new std::vector<PyTypeObject*>;
  return *list;
}

Wrapper* self_of(PyObject* o) { return reinterpret_cast<Wrapper*>(o); }

void adopt(Wrapper* w, TenonObject* object) {
  w->object = object;
  if (Wrapper** found = table().find(object))
    *found = w;  // the one found is at its end
  else
    table().insert(w);
}

/// The living wrapper of an object, or null.
PyObject* living(const TenonObject* object) {
  Wrapper** found = table().find(object);
  return found && Py_REFCNT(&(*found)->ob_base) > 0 ? &(*found)->ob_base : nullptr;
}

void object_dealloc(PyObject* self) {
  Wrapper* w = self_of(self);
  TenonObject* object = w->object;
  if (object) table().erase(w);
  if (w->weak) PyObject_ClearWeakRefs(self);
  PyTypeObject* type = Py_TYPE(self);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
  if (object) {
    const Releasing releasing;
    tenon_ffi_release(object);
  }
}

/// `Class._wrap(made)`: an instance of this class takes the object of another wrapper over.
PyObject* object_init_by(PyObject* self, PyObject* other) {
  if (!is_wrapper(other)) return PyErr_Format(PyExc_TypeError, "_init_by takes an object of Tenon");
  TenonObject* object = made_object(other);
  if (!object) return nullptr;
  if (self_of(self)->object) return PyErr_Format(PyExc_TypeError, "the object is made already");
  tenon_ffi_retain(object);
  adopt(self_of(self), object);
  Py_RETURN_NONE;
}

PyObject* object_repr(PyObject* self) {
  if (!state.repr || !self_of(self)->object)
    return PyUnicode_FromFormat("<%R at %p>", Py_TYPE(self), self_of(self)->object);
  return PyObject_CallFunctionObjArgs(state.repr, self, nullptr);
}

PyObject* object_compare(PyObject* a, PyObject* b, int how) {
  if ((how != Py_EQ && how != Py_NE) || !is_wrapper(b)) Py_RETURN_NOTIMPLEMENTED;
  int equal = self_of(a)->object == self_of(b)->object;
  if (!equal && state.equal) {
    PyObject* result = PyObject_CallFunctionObjArgs(state.equal, a, b, nullptr);
    if (!result) return nullptr;
    equal = PyObject_IsTrue(result);
    Py_DECREF(result);
    if (equal < 0) return nullptr;
  }
  return PyBool_FromLong(how == Py_EQ ? equal : !equal);
}

Py_hash_t object_hash(PyObject* self) {
  if (!state.hash) return PyObject_HashNotImplemented(self);
  PyObject* result = PyObject_CallFunctionObjArgs(state.hash, self, nullptr);
  if (!result) return -1;
  const Py_hash_t hash = PyObject_Hash(result);
  Py_DECREF(result);
  return hash;
}

PyObject* same_as(PyObject* self, PyObject* other) {
  return PyBool_FromLong(is_wrapper(other) && self_of(self)->object == self_of(other)->object);
}
PyObject* use_count(PyObject* self, PyObject*) {
  return PyLong_FromUnsignedLong(tenon_ffi_use_count(self_of(self)->object));
}

// ---------------------------------------------------------------- fields
/// A descriptor of one field of one type.
struct Field {
  PyObject ob_base;
  uint32_t type;
  const TenonFieldInfo* info;
};

PyObject* field_new(PyTypeObject* type, PyObject* args, PyObject*) {
  unsigned int index;
  int number;
  if (!PyArg_ParseTuple(args, "Ii", &index, &number)) return nullptr;
  const TenonTypeInfo* info = tenon_ffi_type(index);
  if (!info || number < 0 || number >= info->num_fields)
    return PyErr_Format(PyExc_IndexError, "type %u has no field %d", index, number);
  PyObject* self = PyType_GenericAlloc(type, 0);
  if (!self) return nullptr;
  auto* f = reinterpret_cast<Field*>(self);
  f->type = index;
  f->info = info->fields + number;
  return self;
}

PyObject* field_get(PyObject* self, PyObject* instance, PyObject*) {
  if (!instance || instance == Py_None) return Py_INCREF(self), self;
  auto* f = reinterpret_cast<Field*>(self);
  TenonObject* object = is_wrapper(instance) ? object_of(instance) : nullptr;
  if (!object || (object->type_index != f->type && !tenon_ffi_is_instance(object->type_index, f->type)))
    return PyErr_Format(PyExc_AttributeError, "this %R has no field `%s`", Py_TYPE(instance), f->info->name);
  TenonAny value;
  if (tenon_ffi_field_get(object, f->info, &value) != TENON_OK) return raise(&value), nullptr;
  return from_any(value);
}

int field_set(PyObject* self, PyObject*, PyObject*) {
  PyErr_Format(PyExc_AttributeError,
               "objects are shared and do not change: `x.replace(%s=...)` gives a changed copy",
               reinterpret_cast<Field*>(self)->info->name);
  return -1;
}

PyObject* field_text(PyObject* self, void* which) {
  const TenonFieldInfo* f = reinterpret_cast<Field*>(self)->info;
  const char* texts[] = {f->name, f->doc, f->type};
  return PyUnicode_FromString(texts[reinterpret_cast<uintptr_t>(which)]);
}

void field_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

PyMethodDef object_methods[] = {
    {"_init_by", object_init_by, METH_O, "takes the object of another wrapper over, in a constructor"},
    {"same_as", same_as, METH_O, "whether both are one object"},
    {"use_count", use_count, METH_NOARGS, "how many references there are, in C++ and here"},
    {}};
PyMemberDef object_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Wrapper, weak), READONLY, nullptr}, {}};
PyType_Slot object_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(object_dealloc)},
                              {Py_tp_repr, reinterpret_cast<void*>(object_repr)},
                              {Py_tp_richcompare, reinterpret_cast<void*>(object_compare)},
                              {Py_tp_hash, reinterpret_cast<void*>(object_hash)},
                              {Py_tp_methods, object_methods},
                              {Py_tp_members, object_members},
                              {Py_tp_doc, const_cast<char*>("An object of Tenon.")},
                              {0, nullptr}};
PyType_Spec object_spec = {"tenon._core.Object", int(sizeof(Wrapper)), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, object_slots};

PyGetSetDef field_getters[] = {{"__name__", field_text, nullptr, "its name", nullptr},
                               {"__doc__", field_text, nullptr, "what it holds", reinterpret_cast<void*>(1)},
                               {"type", field_text, nullptr, "its static type", reinterpret_cast<void*>(2)},
                               {}};
PyType_Slot field_slots[] = {{Py_tp_new, reinterpret_cast<void*>(field_new)},
                             {Py_tp_dealloc, reinterpret_cast<void*>(field_dealloc)},
                             {Py_tp_descr_get, reinterpret_cast<void*>(field_get)},
                             {Py_tp_descr_set, reinterpret_cast<void*>(field_set)},
                             {Py_tp_getset, field_getters},
                             {0, nullptr}};
PyType_Spec field_spec = {"tenon._core.Field", int(sizeof(Field)), 0, Py_TPFLAGS_DEFAULT, field_slots};

}  // namespace

bool add_object_types(PyObject* module) {
  state.object = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&object_spec));
  state.field = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&field_spec));
  return state.object && state.field && PyModule_AddType(module, state.object) == 0 &&
         PyModule_AddType(module, state.field) == 0;
}

void set_class(uint32_t index, PyObject* type) {
  auto& list = classes();
  if (list.size() <= index) list.resize(index + 64);
  Py_INCREF(type);
  list[index] = reinterpret_cast<PyTypeObject*>(type);
}

PyTypeObject* class_of(uint32_t index) {
  auto& list = classes();
  if (index < list.size() && list[index]) return list[index];
  if (!state.make_class) return state.object;
  PyObject* made = PyObject_CallFunction(state.make_class, "I", index);
  if (!made) return nullptr;
  if (!PyType_Check(made) || !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(made), state.object)) {
    Py_DECREF(made);
    PyErr_SetString(PyExc_TypeError, "a class for objects of Tenon is made wrongly");
    return nullptr;
  }
  set_class(index, made);
  Py_DECREF(made);
  return classes()[index];
}

PyObject* wrap(TenonObject* object) {
  if (PyObject* found = living(object)) {
    Py_INCREF(found);
    tenon_ffi_release(object);
    return found;
  }
  PyTypeObject* type = class_of(object->type_index);
  PyObject* made = type ? PyType_GenericAlloc(type, 0) : nullptr;
  if (!made) return tenon_ffi_release(object), nullptr;
  adopt(self_of(made), object);
  return made;
}

TenonObject* made_object(PyObject* self) {
  TenonObject* object = object_of(self);
  if (!object)
    PyErr_Format(PyExc_TypeError, "this %R was never made: its __init__ did not run", Py_TYPE(self));
  return object;
}

}  // namespace tenon::python
