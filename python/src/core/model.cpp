// SPDX-License-Identifier: Apache-2.0
#include "model.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <thread>

namespace tenon::python {
namespace {

std::vector<ModelValue> values_of(const TenonArtifact* artifact, bool inputs) {
  const int32_t n = inputs ? tenon_artifact_num_inputs(artifact) : tenon_artifact_num_outputs(artifact);
  const char* recorded = tenon_artifact_metadata(artifact, inputs ? "inputs" : "outputs");
  std::string_view kinds = recorded ? recorded : "";  // a line each
  std::vector<ModelValue> out(size_t(n), ModelValue{});
  for (int32_t i = 0; i < n; ++i) {
    ModelValue& v = out[size_t(i)];
    inputs ? tenon_artifact_input(artifact, i, &v.info) : tenon_artifact_output(artifact, i, &v.info);
    char dtype[32];
    tenon_ffi_dtype_name(v.info.dtype, dtype, sizeof dtype);
    v.name = PyUnicode_InternFromString(v.info.name);
    v.dtype = PyUnicode_FromString(v.info.dtype.bits ? dtype : "");
    const std::string_view kind = kinds.substr(0, kinds.find('\n'));
    v.kind = PyUnicode_FromStringAndSize(kind.data(), Py_ssize_t(kind.size()));
    kinds.remove_prefix(std::min(kinds.size(), kind.size() + 1));
  }
  return out;
}

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void note_event(Model* model, const char* name, double start_us, double duration_us) {
  std::lock_guard lock(model->mutex);
  model->events.push_back(
      {name, start_us, duration_us, std::hash<std::thread::id>()(std::this_thread::get_id()) % 1000000});
}
void profile_step(void* user, const char* name, double ms) {
  note_event(static_cast<Model*>(user), name, now_us() - 1e3 * ms, 1e3 * ms);
}

template <class F>
TenonStatus unlocked(Model* model, F f) {
  const double start = model->profile ? now_us() : 0;
  TenonStatus status;
  {
    Unlocked unlocked;
    status = f();
  }
  if (model->profile) note_event(model, "model_run", start, now_us() - start);
  return status;
}

}  // namespace

Model* model_of(PyObject* self) {
  Model* model = reinterpret_cast<SessionObject*>(self)->model;
  if (!model) PyErr_SetString(PyExc_RuntimeError, "the session was not made: its __init__ did not run");
  return model;
}

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

Model* new_model(TenonArtifact* artifact, const TenonSessionOptions& options, bool profile) {
  auto* model = new Model;
  model->artifact = artifact;
  model->options = options;
  model->profile = profile;
  model->inputs = values_of(artifact, true);
  model->outputs = values_of(artifact, false);
  for (const auto* values : {&model->inputs, &model->outputs})
    for (const ModelValue& v : *values) model->tensors_only = model->tensors_only && v.info.dtype.bits != 0;
  return model;
}

void free_model(Model* model) {
  for (auto* values : {&model->inputs, &model->outputs})
    for (ModelValue& v : *values) {
      Py_XDECREF(v.name);
      Py_XDECREF(v.dtype);
      Py_XDECREF(v.kind);
      Py_XDECREF(v.buffer);
    }
  Py_XDECREF(model->empty);
  Py_XDECREF(model->instrument);
  for (TenonSession* s : model->idle) tenon_session_release(s);
  tenon_artifact_release(model->artifact);
  delete model;
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
  if (model->instrument) {
    TenonAny result;
    const TenonObject* function = model->instrument == Py_None ? nullptr : object_of(model->instrument);
    if (tenon_ffi_session_set_instrument(session, function, &result) != TENON_OK) {
      model->idle.push_back(session);
      return raise(&result), nullptr;
    }
  }
  model->busy.push_back(session);
  return session;
}
void give_session_back(Model* model, TenonSession* session) {
  model->busy.erase(std::find(model->busy.begin(), model->busy.end(), session));
  model->idle.push_back(session);
}

TenonStatus run_unlocked(Model* model, TenonSession* session) {
  return unlocked(model, [&] { return tenon_session_run(session); });
}
TenonStatus call_unlocked(Model* model, TenonSession* session, const char* function, const Values& arguments,
                          TenonAny* result) {
  return unlocked(model, [&] {
    return tenon_ffi_session_call(session, function, arguments.data(), arguments.size(), result);
  });
}

}  // namespace tenon::python
