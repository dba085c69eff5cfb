// SPDX-License-Identifier: Apache-2.0
// Bindings: a session of the runtime of its own, with inputs and outputs that stay for many runs.
#include <vector>

#include "model.h"

namespace tenon::python {
namespace {

struct BindingObject {
  PyObject ob_base;
  PyObject* owner;  ///< the session it belongs to
  TenonSession* session;
  PyObject* inputs;   ///< list of what is bound, a None for each that is not
  PyObject* outputs;  ///< the same of buffers
  PyObject* taken;    ///< outputs of the last run that somebody asked for, by index; null: none yet
  bool running;
};
PyTypeObject* binding_type = nullptr;

BindingObject* binding_of(PyObject* o) { return reinterpret_cast<BindingObject*>(o); }

bool idle_binding(BindingObject* b) {
  if (!b->session) return PyErr_SetString(PyExc_RuntimeError, "the binding was not made"), false;
  if (b->running) return PyErr_SetString(PyExc_RuntimeError, "a binding runs one call at a time"), false;
  return true;
}

PyObject* list_of_none(size_t n) {
  PyObject* list = PyList_New(Py_ssize_t(n));
  for (size_t i = 0; list && i < n; ++i) PyList_SetItem(list, Py_ssize_t(i), Py_NewRef(Py_None));
  return list;
}

int binding_init(PyObject* self, PyObject* args, PyObject*) {
  PyObject* owner;
  if (!PyArg_ParseTuple(args, "O!", session_type, &owner)) return -1;
  Model* model = model_of(owner);
  BindingObject* b = binding_of(self);
  if (!model) return -1;
  if (b->session) return PyErr_SetString(PyExc_TypeError, "the binding is made already"), -1;
  b->inputs = list_of_none(model->inputs.size());
  b->outputs = list_of_none(model->outputs.size());
  b->session = b->inputs && b->outputs ? take_session(owner, model) : nullptr;
  if (!b->session) return -1;
  for (size_t k = 0; k < model->outputs.size(); ++k)
    tenon_session_set_output(b->session, int32_t(k), nullptr);
  b->owner = Py_NewRef(owner);
  return 0;
}

void binding_dealloc(PyObject* self) {
  BindingObject* b = binding_of(self);
  PyTypeObject* type = Py_TYPE(self);
  if (b->session) {
    Model* model = reinterpret_cast<SessionObject*>(b->owner)->model;
    for (size_t i = 0; i < model->inputs.size(); ++i)
      tenon_session_set_input(b->session, int32_t(i), nullptr);
    give_session_back(model, b->session);
  }
  Py_XDECREF(b->inputs);
  Py_XDECREF(b->outputs);
  Py_XDECREF(b->taken);
  Py_XDECREF(b->owner);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

/// _set_data(input, index, address, dtype, shape, keep): memory of the caller, kept alive by `keep`.
PyObject* binding_set_data(PyObject* self, PyObject* args) {
  BindingObject* b = binding_of(self);
  int input;
  Py_ssize_t i;
  unsigned long long address;
  const char* dtype;
  PyObject *shape, *keep;
  if (!PyArg_ParseTuple(args, "pnKsO!O", &input, &i, &address, &dtype, &PyTuple_Type, &shape, &keep) ||
      !idle_binding(b))
    return nullptr;
  std::vector<int64_t> dims;
  for (Py_ssize_t d = 0; d < PyTuple_Size(shape); ++d)
    dims.push_back(PyLong_AsLongLong(PyTuple_GetItem(shape, d)));
  if (PyErr_Occurred()) return nullptr;
  auto* data = reinterpret_cast<void*>(uintptr_t(address));
  const auto set = input ? tenon_session_set_input_data(b->session, int32_t(i), data, tenon_dtype(dtype),
                                                        int32_t(dims.size()), dims.data())
                         : tenon_session_set_output_data(b->session, int32_t(i), data, tenon_dtype(dtype),
                                                         int32_t(dims.size()), dims.data());
  if (set != TENON_OK) return raise_last(b->owner, set);
  PyList_SetItem(input ? b->inputs : b->outputs, i, Py_NewRef(keep));
  Py_RETURN_NONE;
}

/// _clear(input, index): takes back what is bound.
PyObject* binding_clear(PyObject* self, PyObject* args) {
  BindingObject* b = binding_of(self);
  int input;
  Py_ssize_t i;
  if (!PyArg_ParseTuple(args, "pn", &input, &i) || !idle_binding(b)) return nullptr;
  const auto set = input ? tenon_session_set_input(b->session, int32_t(i), nullptr)
                         : tenon_session_set_output(b->session, int32_t(i), nullptr);
  if (set != TENON_OK) return raise_last(b->owner, set);
  PyList_SetItem(input ? b->inputs : b->outputs, i, Py_NewRef(Py_None));
  Py_RETURN_NONE;
}

/// _take(index): an output of the last run that has no buffer of the caller.
PyObject* binding_take(PyObject* self, PyObject* index) {
  BindingObject* b = binding_of(self);
  const Py_ssize_t k = PyLong_AsSsize_t(index);
  if (PyErr_Occurred() || !idle_binding(b)) return nullptr;
  if (!b->taken && !(b->taken = PyDict_New())) return nullptr;
  PyObject* array = PyDict_GetItemWithError(b->taken, index);
  if (array || PyErr_Occurred()) return Py_XNewRef(array);
  array = taken_output(b->owner, b->session, size_t(k));
  if (array && PyDict_SetItem(b->taken, index, array) != 0) Py_CLEAR(array);
  return array;
}

PyMethodDef binding_methods[] = {
    {"_set_data", binding_set_data, METH_VARARGS, "(input, index, address, dtype, shape, keep)"},
    {"_clear", binding_clear, METH_VARARGS, "(input, index)"},
    {"_take", binding_take, METH_O, "an output of the last run"},
    {}};
PyType_Slot binding_slots[] = {{Py_tp_init, reinterpret_cast<void*>(binding_init)},
                               {Py_tp_dealloc, reinterpret_cast<void*>(binding_dealloc)},
                               {Py_tp_methods, binding_methods},
                               {Py_tp_doc, const_cast<char*>("A session with what is bound to it.")},
                               {0, nullptr}};
PyType_Spec binding_spec = {"tenon._core.Binding", int(sizeof(BindingObject)), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, binding_slots};

}  // namespace

PyObject* session_run_binding(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  if (n < 1 || n > 2 || !PyObject_TypeCheck(args[0], binding_type))
    return PyErr_Format(PyExc_TypeError, "run_with_iobinding(iobinding, run_options=None): wrong arguments");
  BindingObject* b = binding_of(args[0]);
  if (!idle_binding(b)) return nullptr;
  if (b->owner != self) return PyErr_Format(PyExc_ValueError, "the binding belongs to another session");
  PyObject* options = n == 2 ? args[1] : Py_None;
  Model* model = model_of(self);
  if (!model->tensors_only) {  // `_run` of the class has what is bound, and calls `run`
    b->running = true;
    PyObject* done = PyObject_CallMethod(args[0], "_run", "O", options);
    b->running = false;
    return done;
  }
  const bool noted = options != Py_None;
  if (noted && !note_run(self, options, "_begin", b->session)) return nullptr;
  Py_CLEAR(b->taken);
  b->running = true;
  const TenonStatus status = run_unlocked(model, b->session);
  b->running = false;
  if (status != TENON_OK) raise_last(self, status);
  if (noted) note_end(self, options, b->session);
  if (status != TENON_OK) return nullptr;
  Py_RETURN_NONE;
}

bool add_binding_type(PyObject* module) {
  binding_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&binding_spec));
  return binding_type && PyModule_AddType(module, binding_type) == 0;
}

}  // namespace tenon::python
