// SPDX-License-Identifier: Apache-2.0
// A compiled model that several threads run at once: an artifact with as many sessions of tenon.h as threads
// run it. What belongs to it is touched with the interpreter lock held; the lock is released for the run
// itself.
#pragma once
#include <mutex>
#include <string>
#include <vector>

#include "core.h"

namespace tenon::python {

/// An input or output of the model.
struct ModelValue {
  TenonValueInfo info;
  PyObject* name;   ///< interned text
  PyObject* dtype;  ///< name of its data type; empty when it is no tensor, or a tensor of any type
  PyObject*
      kind;  ///< what it is when it is no tensor of numbers, such as "sequence(tensor(float32))"; else empty
  PyObject* buffer;  ///< arguments of numpy.empty for an output of known size; null otherwise
};

/// A step that ran, for profiles.
struct ProfileEvent {
  std::string name;
  double start_us, duration_us;
  size_t thread;
};

struct Model {
  TenonArtifact* artifact = nullptr;
  TenonSessionOptions options{};
  std::vector<ModelValue> inputs, outputs;
  bool tensors_only = true;  ///< what it takes and gives are tensors of known types
  std::vector<TenonSession*> idle, busy;
  PyObject* empty = nullptr;  ///< numpy.empty, once a run needed it
  bool profile = false;
  PyObject* instrument = nullptr;  ///< a Function, or None once there was one; null: there never was
  std::mutex mutex;                ///< of `events`: they come without the interpreter lock
  std::vector<ProfileEvent> events;
};

/// `tenon._core.Session`.
struct SessionObject {
  PyObject ob_base;
  Model* model;
};
/// The model of a session; null: an exception is set.
Model* model_of(PyObject* session);

/// The exception of a failed call of tenon.h: `_make_error` of the session's class makes it. Gives null.
PyObject* raise_last(PyObject* session, TenonStatus status);

/// Of an artifact, which it takes over.
Model* new_model(TenonArtifact* artifact, const TenonSessionOptions& options, bool profile);
void free_model(Model* model);

/// A session of the runtime that no other run uses; null: an exception is set.
TenonSession* take_session(PyObject* self, Model* model);
void give_session_back(Model* model, TenonSession* session);

/// Runs without the interpreter lock and notes the whole run, when somebody profiles.
TenonStatus run_unlocked(Model* model, TenonSession* session);
/// A call of a function (null: `main`) with values of any kind.
TenonStatus call_unlocked(Model* model, TenonSession* session, const char* function, const Values& arguments,
                          TenonAny* result);

// run.cpp
/// The values of inputs, in order, as the model's outputs; `names` of those that are wanted, or None.
/// `options` are the run's, or None. Null: an exception is set.
PyObject* run_values(PyObject* self, Model* model, PyObject* const* values, PyObject* names,
                     PyObject* options);
/// A function of the model by its name with values of any kind.
PyObject* call_function(PyObject* self, Model* model, const char* name, PyObject* const* values,
                        Py_ssize_t n);
/// An output of the last run as `_result` of the class gives it; null: an exception is set.
PyObject* taken_output(PyObject* self, TenonSession* session, size_t k);
/// Lets the options of a run know the session that works for it (`method` is `_begin` or `_end`), so that
/// another thread can end it. False: an exception is set.
bool note_run(PyObject* self, PyObject* options, const char* method, TenonSession* session);
/// The same at the end, whatever the run raised.
void note_end(PyObject* self, PyObject* options, TenonSession* session);

// binding.cpp
extern PyTypeObject* session_type;
bool add_binding_type(PyObject* module);
/// run_with_iobinding(iobinding, run_options=None)
PyObject* session_run_binding(PyObject* self, PyObject* const* args, Py_ssize_t n);

}  // namespace tenon::python
