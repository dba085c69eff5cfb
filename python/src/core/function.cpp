// SPDX-License-Identifier: Apache-2.0
// Functions of C++ called from Python, and callables of Python called from C++. The interpreter lock is
// released round every call into C++: it may take long, and it may wait for threads that call Python.
#include <atomic>
#include <chrono>

#include "core.h"

namespace tenon::python {
namespace {

/// A wrapper of a function, with its name in the registry (text or null).
struct FunctionWrapper {
  Wrapper base;
  PyObject* name;
};

FunctionWrapper* function_of(PyObject* self) { return reinterpret_cast<FunctionWrapper*>(self); }

PyObject* call_values(PyObject* self, const Values& values) {
  TenonObject* f = made_object(self);
  if (!f) return nullptr;
  TenonAny result;
  TenonStatus status;
  {
    Unlocked unlocked;
    status = tenon_ffi_call(f, values.data(), values.size(), &result);
  }
  if (status == TENON_OK) return from_any(result);
  PyObject* name = function_of(self)->name;
  raise(&result, name ? utf8(name) : nullptr);
  return nullptr;
}

PyObject* call_tuple(PyObject* self, PyObject* args) {
  const Py_ssize_t n = PyTuple_Size(args);
  Values values(n);
  for (Py_ssize_t i = 0; i < n; ++i)
    if (!values.add(PyTuple_GetItem(args, i))) return nullptr;
  return call_values(self, values);
}

PyObject* function_call(PyObject* self, PyObject* args, PyObject* keywords) {
  if (!keywords || PyDict_Size(keywords) == 0) return call_tuple(self, args);
  if (!state.bind) return PyErr_Format(PyExc_TypeError, "this function takes no names of arguments");
  PyObject* bound = PyObject_CallFunctionObjArgs(state.bind, self, args, keywords, nullptr);
  if (!bound) return nullptr;
  PyObject* result = call_tuple(self, bound);
  Py_DECREF(bound);
  return result;
}

void function_dealloc(PyObject* self) {
  Py_CLEAR(function_of(self)->name);
  reinterpret_cast<destructor>(PyType_GetSlot(state.object, Py_tp_dealloc))(self);
}

PyObject* get_name(PyObject* self, void*) {
  PyObject* name = function_of(self)->name;
  if (!name) Py_RETURN_NONE;
  Py_INCREF(name);
  return name;
}
int set_name(PyObject* self, PyObject* name, void*) {
  if (!name || !PyUnicode_Check(name)) {
    PyErr_SetString(PyExc_TypeError, "the name of a function is a text");
    return -1;
  }
  Py_INCREF(name);
  assign(function_of(self)->name, name);
  return 0;
}

/// What C++ calls.
TenonStatus call_python(void* callable, const TenonAny* arguments, int32_t count, TenonAny* result) {
  if (interpreter_ended()) {
    const TenonErrorInfo gone = {TENON_ERROR_USAGE, "T0104", "the interpreter has ended", "", "", nullptr,
                                 nullptr,           nullptr};
    tenon_ffi_error(&gone, result);
    return TENON_ERROR_USAGE;
  }
  const PyGILState_STATE lock = take_lock(PyGILState_Ensure);
  PyObject* args = PyTuple_New(count);
  for (int32_t i = 0; args && i < count; ++i) {
    PyObject* value = from_borrowed(arguments[i]);
    if (!value || PyTuple_SetItem(args, i, value) != 0) Py_CLEAR(args);
  }
  PyObject* value = args ? PyObject_Call(static_cast<PyObject*>(callable), args, nullptr) : nullptr;
  TenonStatus status = TENON_OK;
  if (!value || !to_any(value, result)) status = take_exception(result);
  Py_XDECREF(args);
  Py_XDECREF(value);
  PyGILState_Release(lock);
  return status;
}

/// What a long call asks: gives false, or fails with what a signal's handler raised. It looks at most every
/// 20 ms, because looking takes the lock.
TenonStatus poll_signals(void*, const TenonAny*, int32_t, TenonAny* result) {
  using Clock = std::chrono::steady_clock;
  static std::atomic<Clock::rep> last{0};
  *result = tenon_any_bool(0);
  const Clock::rep now = Clock::now().time_since_epoch().count();
  constexpr Clock::rep kPause =
      std::chrono::duration_cast<Clock::duration>(std::chrono::milliseconds(20)).count();
  if (now - last.load(std::memory_order_relaxed) < kPause || interpreter_ended()) return TENON_OK;
  last.store(now, std::memory_order_relaxed);
  const PyGILState_STATE lock = take_lock(PyGILState_Ensure);
  const TenonStatus status = PyErr_CheckSignals() == 0 ? TENON_OK : take_exception(result);
  PyGILState_Release(lock);
  return status;
}

PyGetSetDef function_getters[] = {{"name", get_name, set_name, "its name in the registry, or None", nullptr},
                                  {}};
PyType_Slot function_slots[] = {{Py_tp_call, reinterpret_cast<void*>(function_call)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(function_dealloc)},
                                {Py_tp_getset, function_getters},
                                {Py_tp_doc, const_cast<char*>("A packed function.")},
                                {0, nullptr}};
PyType_Spec function_spec = {"tenon._core.Function", int(sizeof(FunctionWrapper)), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, function_slots};

}  // namespace

bool function_from(PyObject* callable, TenonAny* result) {
  Py_INCREF(callable);
  if (tenon_ffi_function(call_python, callable, drop_later, result) == TENON_OK) return true;
  raise(result);
  return false;
}

bool add_function_type(PyObject* module) {
  PyObject* type = PyType_FromSpecWithBases(&function_spec, reinterpret_cast<PyObject*>(state.object));
  state.function = reinterpret_cast<PyTypeObject*>(type);
  if (!type || PyModule_AddType(module, state.function) != 0) return false;
  set_class(tenon_ffi_type_index("Function"), type);
  TenonAny poll;
  if (tenon_ffi_function(poll_signals, nullptr, nullptr, &poll) != TENON_OK) return raise(&poll), false;
  PyObject* f = from_any(poll);
  const bool added = f && PyModule_AddObjectRef(module, "poll_signals", f) == 0;
  Py_XDECREF(f);
  return added;
}

}  // namespace tenon::python
