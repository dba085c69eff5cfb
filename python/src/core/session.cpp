// SPDX-License-Identifier: Apache-2.0
// `tenon._core.Session`: a compiled model as Python sees it.
#include <algorithm>
#include <vector>

#include "model.h"

namespace tenon::python {

PyTypeObject* session_type = nullptr;

namespace {

// ---------------------------------------------------------------- runs
/// Values of the inputs out of a dictionary. False: an exception is set, or `instead` is a session that takes
/// these names. For names that are missing or too many `_wrong_feed` of the class raises, or gives that
/// session.
bool values_of_feed(PyObject* self, const Model* model, PyObject* feed, Py_ssize_t given, PyObject** values,
                    PyObject** instead) {
  Py_ssize_t found = given;
  for (size_t i = size_t(given); i < model->inputs.size(); ++i) {
    values[i] = PyDict_GetItemWithError(feed, model->inputs[i].name);
    found += values[i] != nullptr;
  }
  if (found == Py_ssize_t(model->inputs.size()) && given + PyDict_Size(feed) == found) return true;
  if (!PyErr_Occurred()) {
    *instead = PyObject_CallMethod(self, "_wrong_feed", "On", feed, given);
    if (*instead == Py_None) {
      Py_CLEAR(*instead);
      PyErr_SetString(PyExc_ValueError, "the inputs are not those of the model");
    }
  }
  return false;
}

/// run(output_names, input_feed, run_options=None)
PyObject* session_run(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* keywords) {
  static const char* names[] = {"output_names", "input_feed", "run_options"};
  PyObject* given[3] = {nullptr, nullptr, Py_None};
  const Py_ssize_t named = keywords ? PyTuple_Size(keywords) : 0;
  for (Py_ssize_t i = 0; i < n && i < 3; ++i) given[i] = args[i];
  bool good = n + named <= 3;
  for (Py_ssize_t k = 0; k < named && good; ++k) {
    int i = 0;
    while (i < 3 && PyUnicode_CompareWithASCIIString(PyTuple_GetItem(keywords, k), names[i]) != 0) ++i;
    good = i < 3 && i >= n;
    if (good) given[i] = args[n + k];
  }
  if (!good || !given[0] || !given[1])
    return PyErr_Format(PyExc_TypeError, "run(output_names, input_feed, run_options=None): wrong arguments");
  if (!PyDict_Check(given[1]))
    return PyErr_Format(PyExc_TypeError, "run: input_feed must be a dict of arrays by name, not %R",
                        Py_TYPE(given[1]));
  Model* model = model_of(self);
  if (!model) return nullptr;
  PyObject* small[8];
  std::vector<PyObject*> many(model->inputs.size() > 8 ? model->inputs.size() : 0);
  PyObject** values = many.empty() ? small : many.data();
  PyObject* instead = nullptr;
  if (values_of_feed(self, model, given[1], 0, values, &instead))
    return run_values(self, model, values, given[0], given[2]);
  PyObject* results =
      instead ? PyObject_CallMethod(instead, "run", "OOO", given[0], given[1], given[2]) : nullptr;
  Py_XDECREF(instead);
  return results;
}

/// _call(*arrays, **named) → list
PyObject* session_call(PyObject* self, PyObject* args, PyObject* keywords) {
  Model* model = model_of(self);
  if (!model) return nullptr;
  const Py_ssize_t n = PyTuple_Size(args);
  std::vector<PyObject*> values(std::max(model->inputs.size(), size_t(n)) + 1);
  for (Py_ssize_t i = 0; i < n; ++i) values[size_t(i)] = PyTuple_GetItem(args, i);
  PyObject *feed = keywords ? keywords : PyDict_New(), *instead = nullptr;
  const bool good = feed && values_of_feed(self, model, feed, n, values.data(), &instead);
  Py_XDECREF(instead);
  if (!keywords) Py_XDECREF(feed);
  return good ? run_values(self, model, values.data(), Py_None, Py_None) : nullptr;
}

// ---------------------------------------------------------------- making a session
/// Of an object of C++ or a path; null: an exception is set.
TenonArtifact* artifact_from(PyObject* self, PyObject* given) {
  TenonArtifact* artifact = nullptr;
  if (is_wrapper(given)) {
    TenonAny result;
    TenonObject* object = made_object(given);
    if (object && tenon_ffi_artifact(object, &artifact, &result) != TENON_OK) raise(&result);
    return artifact;
  }
  PyObject* path = nullptr;
  if (!PyUnicode_FSConverter(given, &path)) return nullptr;
  const TenonStatus status = tenon_artifact_load(PyBytes_AsString(path), 0, &artifact);
  Py_DECREF(path);
  if (status != TENON_OK) raise_last(self, status);
  return artifact;
}

/// __init__(artifact or path, threads=0, memory_limit=0, profile=False)
int session_init(PyObject* self, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"artifact", "threads", "memory_limit", "profile", nullptr};
  PyObject* given;
  int threads = 0, profile = 0;
  long long memory_limit = 0;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|iLp", const_cast<char**>(names), &given, &threads,
                                   &memory_limit, &profile))
    return -1;
  auto* object = reinterpret_cast<SessionObject*>(self);
  if (object->model) return PyErr_SetString(PyExc_TypeError, "the session is made already"), -1;
  TenonArtifact* artifact = artifact_from(self, given);
  if (!artifact) return -1;
  Model* model = new_model(artifact, {sizeof(TenonSessionOptions), threads, 0, memory_limit}, profile != 0);
  TenonSession* first = take_session(self, model);  // wrong options are said here
  if (!first) return free_model(model), -1;
  give_session_back(model, first);
  object->model = model;
  return 0;
}

void session_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  if (Model* model = reinterpret_cast<SessionObject*>(self)->model) free_model(model);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

PyObject* described(const std::vector<ModelValue>& values) {
  PyObject* out = PyTuple_New(Py_ssize_t(values.size()));
  for (size_t i = 0; out && i < values.size(); ++i) {
    const TenonValueInfo& info = values[i].info;
    PyObject* shape = info.ndim < 0 ? nullptr : PyTuple_New(info.ndim);
    for (int32_t d = 0; shape && d < info.ndim; ++d)
      PyTuple_SetItem(
          shape, d,
          info.dims[d] >= 0 ? PyLong_FromLongLong(info.dims[d]) : PyUnicode_FromString(info.symbols[d]));
    PyObject* item =
        Py_BuildValue("(OON)", values[i].name, values[i].dtype, shape ? shape : Py_NewRef(Py_None));
    PyTuple_SetItem(out, Py_ssize_t(i), item);
  }
  return out;
}
PyObject* session_inputs(PyObject* self, void*) {
  const Model* model = model_of(self);
  return model ? described(model->inputs) : nullptr;
}
PyObject* session_outputs(PyObject* self, void*) {
  const Model* model = model_of(self);
  return model ? described(model->outputs) : nullptr;
}

/// The names of its functions.
PyObject* session_functions(PyObject* self, void*) {
  const Model* model = model_of(self);
  TenonAny result;
  if (!model) return nullptr;
  if (tenon_ffi_artifact_functions(model->artifact, &result) != TENON_OK) return raise(&result), nullptr;
  return from_any(result);
}

/// _invoke(name, *values): a function of the model, with values of any kind.
PyObject* session_invoke(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  Model* model = model_of(self);
  const char* name = !model ? nullptr : n > 0 ? utf8(args[0]) : nullptr;
  if (!name)
    return model && n == 0 ? PyErr_Format(PyExc_TypeError, "_invoke needs the name of a function") : nullptr;
  return call_function(self, model, name, args + 1, n - 1);
}

PyObject* session_metadata(PyObject* self, PyObject* key) {
  const Model* model = model_of(self);
  const char* text = model ? utf8(key) : nullptr;
  if (!text) return nullptr;
  const char* value = tenon_artifact_metadata(model->artifact, text);
  if (!value) Py_RETURN_NONE;
  return PyUnicode_FromString(value);
}

/// Ends the run of a session that `_begin` was told of, if it goes on.
PyObject* session_cancel(PyObject* self, PyObject* which) {
  Model* model = model_of(self);
  if (!model) return nullptr;
  auto* session = static_cast<TenonSession*>(PyLong_AsVoidPtr(which));
  if (PyErr_Occurred()) return nullptr;
  if (std::find(model->busy.begin(), model->busy.end(), session) != model->busy.end())
    tenon_session_cancel(session);
  Py_RETURN_NONE;
}

/// _set_instrument(Function or None): what runs that begin from now on call around every kernel.
PyObject* session_set_instrument(PyObject* self, PyObject* function) {
  Model* model = model_of(self);
  if (!model) return nullptr;
  if (function != Py_None && !is_wrapper(function))
    return PyErr_Format(PyExc_TypeError, "_set_instrument needs a Function or None, not %R",
                        Py_TYPE(function));
  Py_XDECREF(model->instrument);
  model->instrument = Py_NewRef(function);
  Py_RETURN_NONE;
}

PyObject* session_take_profile(PyObject* self, PyObject*) {
  Model* model = model_of(self);
  if (!model) return nullptr;
  std::vector<ProfileEvent> events;
  {
    std::lock_guard lock(model->mutex);
    events.swap(model->events);
  }
  PyObject* list = PyList_New(Py_ssize_t(events.size()));
  for (size_t i = 0; list && i < events.size(); ++i)
    PyList_SetItem(list, Py_ssize_t(i),
                   Py_BuildValue("(sddn)", events[i].name.c_str(), events[i].start_us, events[i].duration_us,
                                 Py_ssize_t(events[i].thread)));
  return list;
}

template <class F>
PyCFunction method(F f) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)(void)>(f));
}

PyMethodDef session_methods[] = {
    {"run", method(session_run), METH_FASTCALL | METH_KEYWORDS,
     "run(output_names, input_feed, run_options=None) -> list\n--\n\n"
     "Outputs by name (None: all) for a dict of arrays. Several threads may call at once."},
    {"run_with_iobinding", method(session_run_binding), METH_FASTCALL,
     "run_with_iobinding(iobinding, run_options=None)\n--\n\nRuns on what is bound."},
    {"_call", method(session_call), METH_VARARGS | METH_KEYWORDS,
     "outputs for arrays by position and by name"},
    {"_invoke", method(session_invoke), METH_FASTCALL, "(name, *values): a function of the model"},
    {"_cancel", session_cancel, METH_O, "ends a run"},
    {"_set_instrument", session_set_instrument, METH_O, "a Function around every kernel, or None"},
    {"_take_profile", session_take_profile, METH_NOARGS,
     "(name, start, duration, thread) of what ran, in µs"},
    {"metadata", session_metadata, METH_O, "what the compiler recorded under a name, or None"},
    {}};
PyGetSetDef session_getters[] = {
    {"inputs", session_inputs, nullptr,
     "(name, data type, shape) of each input; a shape of None has any rank", nullptr},
    {"outputs", session_outputs, nullptr, "the same of each output", nullptr},
    {"functions", session_functions, nullptr, "names of the functions that can be called", nullptr},
    {}};
PyType_Slot session_slots[] = {{Py_tp_init, reinterpret_cast<void*>(session_init)},
                               {Py_tp_dealloc, reinterpret_cast<void*>(session_dealloc)},
                               {Py_tp_methods, session_methods},
                               {Py_tp_getset, session_getters},
                               {Py_tp_doc, const_cast<char*>("A compiled model that runs.")},
                               {0, nullptr}};
PyType_Spec session_spec = {"tenon._core.Session", int(sizeof(SessionObject)), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, session_slots};

}  // namespace

bool add_session_types(PyObject* module) {
  session_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&session_spec));
  return session_type && PyModule_AddType(module, session_type) == 0 && add_binding_type(module);
}

}  // namespace tenon::python
