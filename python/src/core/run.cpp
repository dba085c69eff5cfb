// SPDX-License-Identifier: Apache-2.0
// One run: arrays of Python in, arrays of NumPy out. A model of tensors reads and writes them in place; one
// that takes or gives other values (lists, dicts, texts, none) is called as a function.
#include <algorithm>
#include <vector>

#include "model.h"

namespace tenon::python {
namespace {

// ---------------------------------------------------------------- arrays in and out
/// What a run holds on to until it ends.
class Held {
 public:
  ~Held() {
    for (PyObject* o : objects_) Py_DECREF(o);
  }
  void add(PyObject* o) {
    Py_INCREF(o);
    objects_.push_back(o);
  }
  void steal(PyObject* o) { objects_.push_back(o); }
  void reserve(size_t n) { objects_.reserve(n); }

 private:
  std::vector<PyObject*> objects_;
};

TenonStatus set_view(TenonSession* session, size_t i, const DLTensor& t) {
  return tenon_session_set_input_data(session, int32_t(i), t.data, t.dtype, t.ndim, t.shape);
}

/// Fields of an array of NumPy or a tensor of Tenon that can be used as they are.
bool view_of(PyObject* value, DLTensor* view) {
  return numpy_view(value, view) ||
         (is_wrapper(value) && object_of(value) && tenon_ffi_tensor_view(object_of(value), view));
}

/// An array that `_prepare` of the class makes of `given`: (array, name of the data type, shape or None).
bool set_prepared(PyObject* self, TenonSession* session, const ModelValue& input, size_t i, PyObject* given,
                  Held& held) {
  PyObject* made = PyObject_CallMethod(self, "_prepare", "OOO", given, input.name, input.dtype);
  if (!made) return false;
  held.steal(made);
  PyObject *array, *shape;
  const char* dtype;
  if (!PyArg_ParseTuple(made, "OsO", &array, &dtype, &shape)) return false;
  DLTensor view;
  if (!view_of(array, &view))
    return PyErr_Format(PyExc_TypeError, "input %R cannot be used", input.name), false;
  view.dtype = tenon_dtype(dtype);
  std::vector<int64_t> dims;
  if (shape != Py_None) {
    for (Py_ssize_t d = 0; d < PyTuple_Size(shape); ++d)
      dims.push_back(PyLong_AsLongLong(PyTuple_GetItem(shape, d)));
    view.shape = dims.data();
    view.ndim = int32_t(dims.size());
  }
  const TenonStatus status = set_view(session, i, view);
  if (status != TENON_OK) raise_last(self, status);
  return status == TENON_OK;
}

/// False: an exception is set.
bool set_input(PyObject* self, TenonSession* session, const ModelValue& input, size_t i, PyObject* given,
               Held& held) {
  DLTensor view;
  if (!view_of(given, &view)) return set_prepared(self, session, input, i, given, held);
  const TenonStatus status = set_view(session, i, view);
  if (status != TENON_OK) raise_last(self, status);
  return status == TENON_OK;
}

/// An array of NumPy for an output whose size is known; null with no exception when it is not.
PyObject* new_buffer(Model* model, const ModelValue& output) {
  return output.buffer ? PyObject_Call(model->empty, output.buffer, nullptr) : nullptr;
}

/// Data types and numpy.empty, at the first run.
bool prepare_outputs(PyObject* self, Model* model) {
  if (model->empty) return true;
  PyObject* numpy = PyImport_ImportModule("numpy");
  PyObject* empty = numpy ? PyObject_GetAttrString(numpy, "empty") : nullptr;
  Py_XDECREF(numpy);
  if (!empty) return false;
  for (ModelValue& output : model->outputs) {
    const TenonValueInfo& info = output.info;
    if (output.buffer || info.ndim < 0 || info.dtype.bits < 8 ||
        std::any_of(info.dims, info.dims + info.ndim, [](int64_t d) { return d < 0; }))
      continue;
    PyObject* shape = PyTuple_New(info.ndim);
    for (int32_t d = 0; d < info.ndim; ++d) PyTuple_SetItem(shape, d, PyLong_FromLongLong(info.dims[d]));
    PyObject* dtype = PyObject_CallMethod(self, "_numpy_dtype", "O", output.dtype);
    output.buffer = dtype ? PyTuple_Pack(2, shape, dtype) : nullptr;
    Py_XDECREF(shape);
    Py_XDECREF(dtype);
    if (!output.buffer) {
      Py_DECREF(empty);
      return false;
    }
  }
  model->empty = empty;
  return true;
}

// ---------------------------------------------------------------- one run
/// Which outputs are wanted, in order; all of them when nothing is said.
bool wanted_outputs(PyObject* self, const Model* model, PyObject* names, std::vector<size_t>& wanted) {
  if (names == Py_None) {
    for (size_t k = 0; k < model->outputs.size(); ++k) wanted.push_back(k);
    return true;
  }
  PyObject* list = PySequence_List(names);
  if (!list) return false;
  for (Py_ssize_t i = 0; i < PyList_Size(list); ++i) {
    PyObject* name = PyList_GetItem(list, i);
    size_t k = 0;
    while (k < model->outputs.size() && PyObject_RichCompareBool(model->outputs[k].name, name, Py_EQ) != 1)
      ++k;
    if (k == model->outputs.size()) {
      PyObject* none = PyObject_CallMethod(self, "_no_output", "O", name);  // raises
      Py_XDECREF(none);
      Py_DECREF(list);
      return false;
    }
    wanted.push_back(k);
  }
  Py_DECREF(list);
  return true;
}

/// Runs with a value for each input; a list of the outputs that are wanted. What is made for it is added to
/// `held`.
PyObject* execute(PyObject* self, Model* model, TenonSession* session, PyObject* const* values,
                  const std::vector<size_t>& wanted, Held& held) {
  for (size_t i = 0; i < model->inputs.size(); ++i)
    if (!set_input(self, session, model->inputs[i], i, values[i], held)) return nullptr;
  for (size_t k = 0; k < model->outputs.size(); ++k) tenon_session_set_output(session, int32_t(k), nullptr);
  PyObject* results = PyList_New(Py_ssize_t(wanted.size()));
  std::vector<bool> set(model->outputs.size());
  for (size_t w = 0; results && w < wanted.size(); ++w) {
    const ModelValue& output = model->outputs[wanted[w]];
    PyObject* buffer = set[wanted[w]] ? nullptr : new_buffer(model, output);
    if (!buffer) {
      if (PyErr_Occurred()) Py_CLEAR(results);
      continue;
    }
    set[wanted[w]] = true;
    PyList_SetItem(results, Py_ssize_t(w), buffer);
    tenon_session_set_output_data(session, int32_t(wanted[w]), numpy_data(buffer), output.info.dtype,
                                  output.info.ndim, output.info.dims);
  }
  if (!results) return nullptr;
  if (const TenonStatus status = run_unlocked(model, session); status != TENON_OK) {
    Py_DECREF(results);
    return raise_last(self, status);
  }
  for (size_t w = 0; w < wanted.size(); ++w) {
    if (PyList_GetItem(results, Py_ssize_t(w))) continue;
    PyErr_Clear();
    size_t first = 0;  // a name that is asked for twice
    while (wanted[first] != wanted[w]) ++first;
    PyObject* array = first < w ? PyList_GetItem(results, Py_ssize_t(first)) : nullptr;
    if (array)
      Py_INCREF(array);
    else
      array = taken_output(self, session, wanted[w]);
    if (!array) {
      Py_DECREF(results);
      return nullptr;
    }
    PyList_SetItem(results, Py_ssize_t(w), array);
  }
  return results;
}

/// `_to_value` of the class for each argument, as values of C++. False: an exception is set.
bool add_values(PyObject* self, PyObject* const* given, const std::vector<ModelValue>* infos, Py_ssize_t n,
                Values& values) {
  for (Py_ssize_t i = 0; i < n; ++i) {
    const ModelValue* info = infos ? &(*infos)[size_t(i)] : nullptr;
    PyObject* made =
        info ? PyObject_CallMethod(self, "_to_value", "OOOO", given[i], info->name, info->dtype, info->kind)
             : PyObject_CallMethod(self, "_to_value", "O", given[i]);
    const bool added = made && values.add(made);
    Py_XDECREF(made);
    if (!added) return false;
  }
  return true;
}

/// The result of a function as `_from_value` of the class gives it; takes over the value.
PyObject* result_value(PyObject* self, TenonAny value) {
  PyObject* object = from_any(value);
  PyObject* made = object ? PyObject_CallMethod(self, "_from_value", "O", object) : nullptr;
  Py_XDECREF(object);
  return made;
}

/// A run of a model whose values are not all tensors.
PyObject* execute_values(PyObject* self, Model* model, TenonSession* session, PyObject* const* given,
                         const std::vector<size_t>& wanted) {
  const auto n = Py_ssize_t(model->inputs.size());
  Values values(n);
  TenonAny result;
  if (!add_values(self, given, &model->inputs, n, values)) return nullptr;
  if (call_unlocked(model, session, nullptr, values, &result) != TENON_OK) return raise_for(self, &result);
  std::vector<TenonAny> outputs;  // of a tuple of nothing, or of a call that gives no value: none
  if (model->outputs.size() == 1) outputs = {result};
  if (model->outputs.size() > 1) {
    size_t count = 0;
    const TenonAny* items = tenon_ffi_array_items(result.v.object, &count);
    outputs.assign(items, items + count);
  }
  if (outputs.size() != model->outputs.size()) {
    tenon_ffi_any_release(&result);
    return PyErr_Format(PyExc_RuntimeError, "the model gave %zu outputs, it has %zu", outputs.size(),
                        model->outputs.size());
  }
  PyObject* results = PyList_New(Py_ssize_t(wanted.size()));
  for (size_t w = 0; results && w < wanted.size(); ++w) {
    tenon_ffi_any_retain(&outputs[wanted[w]]);
    PyObject* made = result_value(self, outputs[wanted[w]]);
    if (!made || PyList_SetItem(results, Py_ssize_t(w), made) != 0) Py_CLEAR(results);
  }
  const Releasing releasing;
  tenon_ffi_any_release(&result);
  return results;
}

}  // namespace

PyObject* taken_output(PyObject* self, TenonSession* session, size_t k) {
  DLManagedTensorVersioned* managed = nullptr;
  TenonStatus status = tenon_session_take_output(session, int32_t(k), &managed);
  if (status != TENON_OK) return raise_last(self, status);
  char name[32];
  tenon_ffi_dtype_name(managed->dl_tensor.dtype, name, sizeof name);
  TenonAny value;
  if (tenon_ffi_from_dlpack(managed, &value) != TENON_OK) {
    managed->deleter(managed);
    return raise(&value), nullptr;
  }
  PyObject* tensor = from_any(value);
  PyObject* array = tensor ? PyObject_CallMethod(self, "_result", "Os", tensor, name) : nullptr;
  Py_XDECREF(tensor);
  return array;
}

bool note_run(PyObject* self, PyObject* options, const char* method, TenonSession* session) {
  if (!PyObject_HasAttrString(options, "_begin"))
    return PyErr_Format(PyExc_TypeError, "run_options must be RunOptions or None, not %R", Py_TYPE(options)),
           false;
  PyObject* noted = PyObject_CallMethod(options, method, "ON", self, PyLong_FromVoidPtr(session));
  Py_XDECREF(noted);
  return noted != nullptr;
}

void note_end(PyObject* self, PyObject* options, TenonSession* session) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  note_run(self, options, "_end", session);
  PyErr_Restore(type, value, traceback);
}

PyObject* run_values(PyObject* self, Model* model, PyObject* const* values, PyObject* names,
                     PyObject* options) {
  // The caller's dict or list may change meanwhile: other threads run, and so do methods of its values.
  Held held;
  held.reserve(2 * model->inputs.size());
  for (size_t i = 0; i < model->inputs.size(); ++i) held.add(values[i]);
  std::vector<size_t> wanted;
  if (!prepare_outputs(self, model) || !wanted_outputs(self, model, names, wanted)) return nullptr;
  TenonSession* session = take_session(self, model);
  if (!session) return nullptr;
  Py_INCREF(self);
  const bool noted = options != Py_None;
  PyObject* results = nullptr;
  if (!noted || note_run(self, options, "_begin", session))
    results = model->tensors_only ? execute(self, model, session, values, wanted, held)
                                  : execute_values(self, model, session, values, wanted);
  give_session_back(model, session);
  if (noted) note_end(self, options, session);
  Py_DECREF(self);
  return results;
}

PyObject* call_function(PyObject* self, Model* model, const char* name, PyObject* const* given,
                        Py_ssize_t n) {
  Values values(n);
  TenonAny result;
  if (!add_values(self, given, nullptr, n, values)) return nullptr;
  TenonSession* session = take_session(self, model);
  if (!session) return nullptr;
  Py_INCREF(self);
  const TenonStatus status = call_unlocked(model, session, name, values, &result);
  PyObject* made = status == TENON_OK ? result_value(self, result) : raise_for(self, &result);
  give_session_back(model, session);
  Py_DECREF(self);
  return made;
}

}  // namespace tenon::python
