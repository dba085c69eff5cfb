// SPDX-License-Identifier: Apache-2.0
// Compiled models that several threads run at once: an artifact with as many sessions of tenon.h as threads
// run it, and bindings, which own one session and what is bound to it. What belongs to an object is touched
// with the interpreter lock held; the lock is released for the run itself.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core.h"

namespace tenon::python {
namespace {

/// An input or output of the model.
struct Value {
  TenonValueInfo info;
  PyObject* name;    ///< interned text
  PyObject* dtype;   ///< name of its data type
  PyObject* buffer;  ///< arguments of numpy.empty for an output of known size; null otherwise
};

struct Event {
  std::string name;
  int64_t start_us, duration_us;
  size_t thread;
};

struct Model {
  TenonArtifact* artifact = nullptr;
  TenonSessionOptions options{};
  std::vector<Value> inputs, outputs;
  std::vector<TenonSession*> idle, busy;
  PyObject* empty = nullptr;  ///< numpy.empty, once a run needed it
  bool profile = false;
  std::mutex mutex;  ///< of `events`: they come without the interpreter lock
  std::vector<Event> events;
};

struct SessionObject {
  PyObject ob_base;
  Model* model;
};
struct BindingObject {
  PyObject ob_base;
  PyObject* owner;  ///< the session it belongs to
  TenonSession* session;
  PyObject* inputs;   ///< list of what is bound, a None for each that is not
  PyObject* outputs;  ///< the same of buffers
  PyObject* taken;    ///< outputs of the last run that somebody asked for, by index; null: none yet
  bool running;
};
PyTypeObject* session_type = nullptr;
PyTypeObject* binding_type = nullptr;

Model* model_of(PyObject* self) {
  Model* model = reinterpret_cast<SessionObject*>(self)->model;
  if (!model) PyErr_SetString(PyExc_RuntimeError, "the session was not made: its __init__ did not run");
  return model;
}

/// The exception of a failed call of tenon.h: `_make_error` of the session's class makes it.
PyObject* raise_last(PyObject* self, TenonStatus status) {
  const TenonError* e = tenon_last_error();
  const std::string text = std::string(e->code) + ": " +
                           (*e->location ? std::string(e->location) + ": " : "") + e->message +
                           (*e->hint ? "; " + std::string(e->hint) : "");
  PyObject* exception = PyObject_CallMethod(self, "_make_error", "issssss", int(status), e->code, e->message,
                                            e->location, e->hint, text.c_str(), "");
  if (exception) PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception)), exception);
  Py_XDECREF(exception);
  return nullptr;
}

// ---------------------------------------------------------------- sessions of a model
int64_t now_us() {
  using namespace std::chrono;
  return duration_cast<microseconds>(steady_clock::now().time_since_epoch()).count();
}

void note_event(Model* model, const char* name, int64_t start_us, int64_t duration_us) {
  std::lock_guard lock(model->mutex);
  model->events.push_back(
      {name, start_us, duration_us, std::hash<std::thread::id>()(std::this_thread::get_id()) % 1000000});
}
void profile_step(void* user, const char* name, double ms) {
  const auto us = int64_t(1e3 * ms);
  note_event(static_cast<Model*>(user), name, now_us() - us, us);
}

TenonSession* take_session(PyObject* self, Model* model) {
  TenonSession* session = nullptr;
  if (!model->idle.empty()) {
    session = model->idle.back();
    model->idle.pop_back();
  } else {
    const TenonStatus status = tenon_session_create(model->artifact, &model->options, &session);
    if (status != TENON_OK) return raise_last(self, status), nullptr;
    if (model->profile) tenon_session_set_profile(session, profile_step, model);
  }
  model->busy.push_back(session);
  return session;
}
void give_session_back(Model* model, TenonSession* session) {
  model->busy.erase(std::find(model->busy.begin(), model->busy.end(), session));
  model->idle.push_back(session);
}

TenonStatus run_unlocked(Model* model, TenonSession* session) {
  const int64_t start = model->profile ? now_us() : 0;
  TenonStatus status;
  {
    Unlocked unlocked;
    status = tenon_session_run(session);
  }
  if (model->profile) note_event(model, "model_run", start, now_us() - start);
  return status;
}

// ---------------------------------------------------------------- arrays in and out
/// What a run holds on to until it ends.
class Held {
 public:
  ~Held() {
    for (PyObject* o : objects_) Py_DECREF(o);
    if (values_.empty()) return;
    const Releasing releasing;
    for (TenonAny& v : values_) tenon_ffi_any_release(&v);
  }
  void add(PyObject* o) {
    Py_INCREF(o);
    objects_.push_back(o);
  }
  void steal(PyObject* o) { objects_.push_back(o); }
  void steal(TenonAny value) { values_.push_back(value); }
  void reserve(size_t n) { objects_.reserve(n); }

 private:
  std::vector<PyObject*> objects_;
  std::vector<TenonAny> values_;
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
bool set_prepared(PyObject* self, TenonSession* session, const Value& input, size_t i, PyObject* given,
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
bool set_input(PyObject* self, TenonSession* session, const Value& input, size_t i, PyObject* given,
               Held& held) {
  DLTensor view;
  if (!view_of(given, &view)) return set_prepared(self, session, input, i, given, held);
  held.add(given);
  const TenonStatus status = set_view(session, i, view);
  if (status != TENON_OK) raise_last(self, status);
  return status == TENON_OK;
}

/// An array of NumPy for an output whose size is known; null with no exception when it is not.
PyObject* new_buffer(Model* model, const Value& output) {
  return output.buffer ? PyObject_Call(model->empty, output.buffer, nullptr) : nullptr;
}

/// Data types and numpy.empty, at the first run.
bool prepare_outputs(PyObject* self, Model* model) {
  if (model->empty) return true;
  PyObject* numpy = PyImport_ImportModule("numpy");
  PyObject* empty = numpy ? PyObject_GetAttrString(numpy, "empty") : nullptr;
  Py_XDECREF(numpy);
  if (!empty) return false;
  for (Value& output : model->outputs) {
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

/// An output of the last run as `_result` of the class gives it; null: an exception is set.
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

/// Runs with a value for each input; a list of the outputs that are wanted.
PyObject* execute(PyObject* self, Model* model, TenonSession* session, PyObject* const* values,
                  const std::vector<size_t>& wanted) {
  Held held;
  held.reserve(model->inputs.size() + wanted.size());
  for (size_t i = 0; i < model->inputs.size(); ++i)
    if (!set_input(self, session, model->inputs[i], i, values[i], held)) return nullptr;
  for (size_t k = 0; k < model->outputs.size(); ++k) tenon_session_set_output(session, int32_t(k), nullptr);
  PyObject* results = PyList_New(Py_ssize_t(wanted.size()));
  std::vector<bool> set(model->outputs.size());
  for (size_t w = 0; results && w < wanted.size(); ++w) {
    const Value& output = model->outputs[wanted[w]];
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

/// Tells the options of a run which session works for it, so that another thread can end it.
bool tell_options(PyObject* self, PyObject* options, const char* method, TenonSession* session) {
  PyObject* told = PyObject_CallMethod(options, method, "ON", self, PyLong_FromVoidPtr(session));
  Py_XDECREF(told);
  return told != nullptr;
}

PyObject* run_values(PyObject* self, Model* model, PyObject* const* values, PyObject* names,
                     PyObject* options) {
  std::vector<size_t> wanted;
  if (!prepare_outputs(self, model) || !wanted_outputs(self, model, names, wanted)) return nullptr;
  TenonSession* session = take_session(self, model);
  if (!session) return nullptr;
  Py_INCREF(self);
  const bool told = options != Py_None;
  PyObject* results = told && !tell_options(self, options, "_begin", session)
                          ? nullptr
                          : execute(self, model, session, values, wanted);
  give_session_back(model, session);
  if (told) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    tell_options(self, options, "_end", session);
    PyErr_Restore(type, value, traceback);
  }
  Py_DECREF(self);
  return results;
}

/// Values of the inputs out of a dictionary; false: an exception is set. `_wrong_feed` of the class raises
/// for names that are missing or too many.
bool values_of_feed(PyObject* self, const Model* model, PyObject* feed, Py_ssize_t given, PyObject** values) {
  Py_ssize_t found = given;
  for (size_t i = size_t(given); i < model->inputs.size(); ++i) {
    values[i] = PyDict_GetItemWithError(feed, model->inputs[i].name);
    found += values[i] != nullptr;
  }
  if (found == Py_ssize_t(model->inputs.size()) && given + PyDict_Size(feed) == found) return true;
  if (!PyErr_Occurred()) {
    PyObject* none = PyObject_CallMethod(self, "_wrong_feed", "On", feed, given);
    Py_XDECREF(none);
    if (none) PyErr_SetString(PyExc_ValueError, "the inputs are not those of the model");
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
  if (!values_of_feed(self, model, given[1], 0, values)) return nullptr;
  return run_values(self, model, values, given[0], given[2]);
}

/// _call(*arrays, **named) → list
PyObject* session_call(PyObject* self, PyObject* args, PyObject* keywords) {
  Model* model = model_of(self);
  if (!model) return nullptr;
  const Py_ssize_t n = PyTuple_Size(args);
  std::vector<PyObject*> values(std::max(model->inputs.size(), size_t(n)) + 1);
  for (Py_ssize_t i = 0; i < n; ++i) values[size_t(i)] = PyTuple_GetItem(args, i);
  PyObject* feed = keywords ? keywords : PyDict_New();
  const bool good = feed && values_of_feed(self, model, feed, n, values.data());
  if (!keywords) Py_XDECREF(feed);
  return good ? run_values(self, model, values.data(), Py_None, Py_None) : nullptr;
}

// ---------------------------------------------------------------- making a session
std::vector<Value> values_of(const TenonArtifact* artifact, bool inputs) {
  const int32_t n = inputs ? tenon_artifact_num_inputs(artifact) : tenon_artifact_num_outputs(artifact);
  std::vector<Value> out(size_t(n), Value{});
  for (int32_t i = 0; i < n; ++i) {
    Value& v = out[size_t(i)];
    inputs ? tenon_artifact_input(artifact, i, &v.info) : tenon_artifact_output(artifact, i, &v.info);
    char dtype[32];
    tenon_ffi_dtype_name(v.info.dtype, dtype, sizeof dtype);
    v.name = PyUnicode_InternFromString(v.info.name);
    v.dtype = PyUnicode_FromString(v.info.dtype.bits ? dtype : "");
  }
  return out;
}

void free_model(Model* model) {
  for (auto* values : {&model->inputs, &model->outputs})
    for (Value& v : *values) {
      Py_XDECREF(v.name);
      Py_XDECREF(v.dtype);
      Py_XDECREF(v.buffer);
    }
  Py_XDECREF(model->empty);
  for (TenonSession* s : model->idle) tenon_session_release(s);
  tenon_artifact_release(model->artifact);
  delete model;
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
  auto* model = new Model;
  model->options = {sizeof(TenonSessionOptions), threads, 0, memory_limit};
  model->profile = profile != 0;
  if (is_wrapper(given)) {
    TenonAny result;
    TenonObject* artifact = made_object(given);
    if (!artifact || tenon_ffi_artifact(artifact, &model->artifact, &result) != TENON_OK) {
      if (artifact) raise(&result);
      free_model(model);
      return -1;
    }
  } else {
    PyObject* path = nullptr;
    if (!PyUnicode_FSConverter(given, &path)) return free_model(model), -1;
    const TenonStatus status = tenon_artifact_load(PyBytes_AsString(path), 0, &model->artifact);
    Py_DECREF(path);
    if (status != TENON_OK) return free_model(model), raise_last(self, status), -1;
  }
  model->inputs = values_of(model->artifact, true);
  model->outputs = values_of(model->artifact, false);
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

PyObject* described(const std::vector<Value>& values) {
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

PyObject* session_take_profile(PyObject* self, PyObject*) {
  Model* model = model_of(self);
  if (!model) return nullptr;
  std::vector<Event> events;
  {
    std::lock_guard lock(model->mutex);
    events.swap(model->events);
  }
  PyObject* list = PyList_New(Py_ssize_t(events.size()));
  for (size_t i = 0; list && i < events.size(); ++i)
    PyList_SetItem(
        list, Py_ssize_t(i),
        Py_BuildValue("(sLLn)", events[i].name.c_str(), static_cast<long long>(events[i].start_us),
                      static_cast<long long>(events[i].duration_us), Py_ssize_t(events[i].thread)));
  return list;
}

// ---------------------------------------------------------------- bindings
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

/// run_with_iobinding(iobinding, run_options=None)
PyObject* session_run_binding(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  if (n < 1 || n > 2 || !PyObject_TypeCheck(args[0], binding_type))
    return PyErr_Format(PyExc_TypeError, "run_with_iobinding(iobinding, run_options=None): wrong arguments");
  BindingObject* b = binding_of(args[0]);
  if (!idle_binding(b)) return nullptr;
  if (b->owner != self) return PyErr_Format(PyExc_ValueError, "the binding belongs to another session");
  const bool told = n == 2 && args[1] != Py_None;
  if (told && !tell_options(self, args[1], "_begin", b->session)) return nullptr;
  Py_CLEAR(b->taken);
  b->running = true;
  const TenonStatus status = run_unlocked(model_of(self), b->session);
  b->running = false;
  if (status != TENON_OK) raise_last(self, status);
  if (told) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    tell_options(self, args[1], "_end", b->session);
    PyErr_Restore(type, value, traceback);
  }
  if (status != TENON_OK) return nullptr;
  Py_RETURN_NONE;
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
    {"_cancel", session_cancel, METH_O, "ends a run"},
    {"_take_profile", session_take_profile, METH_NOARGS,
     "(name, start, duration, thread) of what ran, in µs"},
    {"metadata", session_metadata, METH_O, "what the compiler recorded under a name, or None"},
    {}};
PyGetSetDef session_getters[] = {
    {"inputs", session_inputs, nullptr,
     "(name, data type, shape) of each input; a shape of None has any rank", nullptr},
    {"outputs", session_outputs, nullptr, "the same of each output", nullptr},
    {}};
PyType_Slot session_slots[] = {{Py_tp_init, reinterpret_cast<void*>(session_init)},
                               {Py_tp_dealloc, reinterpret_cast<void*>(session_dealloc)},
                               {Py_tp_methods, session_methods},
                               {Py_tp_getset, session_getters},
                               {Py_tp_doc, const_cast<char*>("A compiled model that runs.")},
                               {0, nullptr}};
PyType_Spec session_spec = {"tenon._core.Session", int(sizeof(SessionObject)), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, session_slots};

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

bool add_session_types(PyObject* module) {
  session_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&session_spec));
  binding_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&binding_spec));
  return session_type && binding_type && PyModule_AddType(module, session_type) == 0 &&
         PyModule_AddType(module, binding_type) == 0;
}

}  // namespace tenon::python
