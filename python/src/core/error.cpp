// SPDX-License-Identifier: Apache-2.0
// Errors in both directions. An exception of Python that passes C++ comes out as the same object; an error of
// C++ becomes the exception class of its kind (tenon/error.py).
#include <string>

#include "core.h"

namespace tenon::python {
namespace {

/// Text of an attribute of an object; empty when it has none.
std::string text_attribute(PyObject* o, const char* name) {
  PyObject* value = o ? PyObject_GetAttrString(o, name) : nullptr;
  const char* text = value && PyUnicode_Check(value) ? utf8(value) : nullptr;
  std::string out = text ? text : "";
  Py_XDECREF(value);
  PyErr_Clear();
  return out;
}

/// A line for each frame of a traceback, the innermost first.
std::string lines_of(PyObject* traceback) {
  std::string out;
  Py_XINCREF(traceback);
  while (traceback && traceback != Py_None) {
    PyObject* frame = PyObject_GetAttrString(traceback, "tb_frame");
    PyObject* code = frame ? PyObject_GetAttrString(frame, "f_code") : nullptr;
    PyObject* line = PyObject_GetAttrString(traceback, "tb_lineno");
    const long number = line ? PyLong_AsLong(line) : 0;
    out = text_attribute(code, "co_filename") + ":" + std::to_string(number) + ", in " +
          text_attribute(code, "co_name") + "\n" + out;
    PyObject* next = PyObject_GetAttrString(traceback, "tb_next");
    Py_XDECREF(frame);
    Py_XDECREF(code);
    Py_XDECREF(line);
    Py_DECREF(traceback);
    traceback = next;
  }
  Py_XDECREF(traceback);
  PyErr_Clear();
  return out;
}

TenonStatus kind_of(PyObject* type) {
  if (PyErr_GivenExceptionMatches(type, PyExc_KeyboardInterrupt)) return TENON_ERROR_INTERRUPTED;
  if (PyErr_GivenExceptionMatches(type, PyExc_MemoryError)) return TENON_ERROR_LIMIT;
  if (PyErr_GivenExceptionMatches(type, PyExc_OSError)) return TENON_ERROR_IO;
  return TENON_ERROR_USAGE;
}

/// Says which C++ function the error left, and where that was registered.
void add_passed(TenonObject* error, const char* name) {
  TenonAny info;
  if (tenon_ffi_function_info(name, &info) != TENON_OK) return tenon_ffi_any_release(&info);
  size_t n = 0;
  if (info.tag >= TENON_FIRST_OBJECT) {
    const TenonAny* parts = tenon_ffi_array_items(info.v.object, &n);
    if (n == 4) {
      size_t size;
      tenon_ffi_error_passed(error, tenon_ffi_text(parts[1].v.object, &size), int32_t(parts[2].v.i), name);
    }
  }
  tenon_ffi_any_release(&info);
}

}  // namespace

namespace {

/// `make` makes the exception; null: the package's, when it is there.
void raise_by(PyObject* make, TenonAny* error, const char* name) {
  TenonErrorInfo info;
  if (error->tag < TENON_FIRST_OBJECT || !tenon_ffi_error_info(error->v.object, &info)) {
    PyErr_SetString(PyExc_RuntimeError, "a function of Tenon failed without an error");
    return tenon_ffi_any_release(error);
  }
  if (name) {
    add_passed(error->v.object, name);
    tenon_ffi_error_info(error->v.object, &info);
  }
  auto* original =
      info.foreign ? static_cast<PyObject*>(tenon_ffi_foreign_handle(info.foreign, drop_later)) : nullptr;
  if (original) {
    PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(original));
    Py_INCREF(type);
    Py_INCREF(original);
    PyErr_Restore(type, original, PyException_GetTraceback(original));
  } else if (make) {
    PyObject* exception = PyObject_CallFunction(make, "issssss", int(info.kind), info.code, info.message,
                                                info.location, info.hint, info.text, info.traceback);
    if (exception) PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception)), exception);
    Py_XDECREF(exception);
  } else {
    PyErr_SetString(PyExc_RuntimeError, info.text);
  }
  tenon_ffi_any_release(error);
}

}  // namespace

void raise(TenonAny* error, const char* name) { raise_by(state.make_error, error, name); }

PyObject* raise_for(PyObject* self, TenonAny* error) {
  PyObject* make = PyObject_GetAttrString(self, "_make_error");
  if (make)
    raise_by(make, error, nullptr);
  else
    tenon_ffi_any_release(error);
  Py_XDECREF(make);
  return nullptr;
}

TenonStatus take_exception(TenonAny* error) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback) PyException_SetTraceback(value, traceback);
  PyObject* words = PyObject_Str(value);
  const char* text = words ? utf8(words) : nullptr;
  PyErr_Clear();
  const std::string message =
      text_attribute(type, "__name__") + (text && *text ? ": " + std::string(text) : std::string());
  const std::string passed = lines_of(traceback);
  std::string code = text_attribute(value, "code"), hint = text_attribute(value, "hint");
  if (code.empty()) code = "T0104";
  TenonStatus kind = kind_of(type);
  TenonAny held;
  TenonErrorInfo info = {kind,         code.c_str(), message.c_str(), "",
                         hint.c_str(), nullptr,      passed.c_str(),  nullptr};
  if (foreign(value, &held))
    info.foreign = held.v.object;
  else
    held = tenon_any_none(), PyErr_Clear();
  if (tenon_ffi_error(&info, error) != TENON_OK) kind = TENON_ERROR_LIMIT;
  tenon_ffi_any_release(&held);
  Py_XDECREF(words);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  return kind;
}

}  // namespace tenon::python
