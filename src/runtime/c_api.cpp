// SPDX-License-Identifier: Apache-2.0
// The C interface of the runtime. Exceptions end here.
#include <tenon/tenon.h>

#include <algorithm>

#include "runtime/c_guard.h"
#include "runtime/dlpack.h"
#include "runtime/vm.h"

using tenon::Error;
using tenon::ErrorKind;
using tenon::NDArray;

namespace {

/// Inputs or outputs in the form that C sees.
struct Infos {
  struct Entry {
    std::vector<int64_t> dims;
    std::vector<const char*> symbols;
    TenonValueInfo info;
  };
  std::vector<Entry> entries;
  explicit Infos(std::span<const tenon::ValueInfo> values) : entries(values.size()) {
    for (size_t i = 0; i < values.size(); ++i) {
      Entry& e = entries[i];
      const tenon::ValueInfo& v = values[i];
      for (const tenon::DimInfo& d : v.shape) {
        e.dims.push_back(d.symbol.empty() ? d.value : -1);
        e.symbols.push_back(d.symbol.c_str());
      }
      e.info = {v.name.c_str(),
                {uint8_t(v.dtype.code), v.dtype.bits, v.dtype.lanes},
                v.known_rank ? int32_t(v.shape.size()) : -1,
                e.dims.data(),
                e.symbols.data()};
    }
  }
};

struct LastError {
  std::string code, message, location, hint;
  TenonError view{"", "", "", ""};
};
/// Of the thread, as the interface promises: another thread's error must not take the words away that this
/// one is about to read.
LastError& last_error() {
  thread_local LastError error;
  return error;
}

}  // namespace

namespace tenon::c_api {
TenonStatus failed(ErrorKind kind, std::string_view code, std::string_view message, std::string_view location,
                   std::string_view hint) noexcept {
  LastError& e = last_error();
  try {
    e.code = code;
    e.message = message;
    e.location = location;
    e.hint = hint;
    e.view = {e.code.c_str(), e.message.c_str(), e.location.c_str(), e.hint.c_str()};
  } catch (...) {
    e.view = {"T0401", "no memory for the words of an error", "", ""};
  }
  return TenonStatus(int(kind));
}
}  // namespace tenon::c_api

using tenon::c_api::guard;
using tenon::c_api::require;

struct TenonArtifact {
  explicit TenonArtifact(tenon::Artifact a)
      : artifact(std::move(a)), inputs(artifact.inputs()), outputs(artifact.outputs()) {}
  tenon::Artifact artifact;
  Infos inputs, outputs;
};

TenonArtifact* tenon::c_api::wrap(Artifact artifact) { return new TenonArtifact(std::move(artifact)); }

struct TenonSession {
  TenonSession(tenon::Artifact artifact, const tenon::SessionOptions& options)
      : session(std::move(artifact), options),
        inputs(size_t(session.artifact().main().num_params)),
        buffers(session.artifact().outputs().size()) {}
  tenon::Session session;
  std::vector<NDArray> inputs;   ///< null: not set
  std::vector<NDArray> buffers;  ///< caller's buffers for outputs; null: none
  std::vector<NDArray> results;  ///< of the last run
};

const tenon::Artifact& tenon::c_api::artifact_of(const TenonArtifact* artifact) { return artifact->artifact; }
tenon::Session& tenon::c_api::session_of(TenonSession* session) { return session->session; }

namespace {

/// Puts a borrowed tensor into a slot. A slot that nobody else holds is filled in place, without allocation.
void set_slot(NDArray& slot, const void* data, DLDataType dtype, int32_t ndim, const int64_t* shape) {
  DLTensor t{const_cast<void*>(data), {kDLCPU, 0}, ndim, dtype, const_cast<int64_t*>(shape), nullptr, 0};
  if (slot.get() && slot.use_count() == 1 && !slot.get()->release && ndim == slot.ndim() &&
      dtype.lanes == 1 && dtype.bits != 0 && std::equal(shape, shape + ndim, slot.shape().begin())) {
    slot.mut()->data = t.data;
    slot.mut()->dtype = {tenon::TypeCode(dtype.code), dtype.bits, dtype.lanes};
    return;
  }
  slot = tenon::view_of(t);
}

void set_slot(NDArray& slot, const DLTensor* tensor) { slot = tensor ? tenon::view_of(*tensor) : NDArray(); }

template <class Vector>
auto& slot_at(Vector& slots, int32_t index, const char* what) {
  if (index < 0 || size_t(index) >= slots.size())
    throw Error(ErrorKind::usage, "T0502",
                std::string("there is no ") + what + " " + std::to_string(index) + ": there are " +
                    std::to_string(slots.size()));
  return slots[size_t(index)];
}

}  // namespace

extern "C" {

const TenonError* tenon_last_error(void) { return &last_error().view; }
int32_t tenon_api_version(void) { return TENON_API_VERSION; }
const char* tenon_version(void) { return TENON_VERSION; }

DLDataType tenon_dtype(const char* name) {
  tenon::DataType t;
  if (!name || !tenon::parse_dtype(name, &t)) return {0, 0, 0};
  return {uint8_t(t.code), t.bits, t.lanes};
}

TenonStatus tenon_artifact_load(const char* path, uint32_t flags, TenonArtifact** artifact) {
  return guard([&] {
    require(path && artifact, "tenon_artifact_load needs a path and a pointer for the artifact");
    *artifact = nullptr;
    require((flags & ~uint32_t(TENON_LOAD_CHECK | TENON_LOAD_COPY)) == 0,
            "tenon_artifact_load: unknown flags");
    tenon::LoadOptions options;
    options.check = (flags & TENON_LOAD_CHECK) != 0;
    options.copy = (flags & TENON_LOAD_COPY) != 0;
    *artifact = new TenonArtifact(tenon::Artifact::load(path, options));
  });
}
void tenon_artifact_release(TenonArtifact* artifact) { delete artifact; }

int32_t tenon_artifact_num_inputs(const TenonArtifact* artifact) {
  return artifact ? int32_t(artifact->inputs.entries.size()) : 0;
}
int32_t tenon_artifact_num_outputs(const TenonArtifact* artifact) {
  return artifact ? int32_t(artifact->outputs.entries.size()) : 0;
}

TenonStatus tenon_artifact_input(const TenonArtifact* artifact, int32_t index, TenonValueInfo* info) {
  return guard([&] {
    require(artifact && info, "tenon_artifact_input: a null argument");
    *info = slot_at(artifact->inputs.entries, index, "input").info;
  });
}
TenonStatus tenon_artifact_output(const TenonArtifact* artifact, int32_t index, TenonValueInfo* info) {
  return guard([&] {
    require(artifact && info, "tenon_artifact_output: a null argument");
    *info = slot_at(artifact->outputs.entries, index, "output").info;
  });
}
const char* tenon_artifact_metadata(const TenonArtifact* artifact, const char* key) {
  if (!artifact || !key) return nullptr;
  const std::string* value = artifact->artifact.metadata(key);
  return value ? value->c_str() : nullptr;
}

TenonStatus tenon_session_create(TenonArtifact* artifact, const TenonSessionOptions* options,
                                 TenonSession** session) {
  return guard([&] {
    require(artifact && session, "tenon_session_create needs an artifact and a pointer for the session");
    *session = nullptr;
    tenon::SessionOptions o;
    if (options) {
      TenonSessionOptions given{};
      require(options->size >= sizeof(size_t), "TenonSessionOptions.size is not set");
      std::memcpy(&given, options,
                  std::min(options->size, sizeof given));  // an older caller knows fewer fields
      require(given.threads >= 0 && given.max_depth >= 0 && given.memory_limit >= 0,
              "TenonSessionOptions: a negative value");
      o.threads = given.threads;
      o.memory_limit = given.memory_limit;
      if (given.max_depth) o.max_depth = given.max_depth;
    }
    *session = new TenonSession(artifact->artifact, o);
  });
}
void tenon_session_release(TenonSession* session) { delete session; }

TenonStatus tenon_session_set_threads(TenonSession* session, int32_t threads) {
  return guard([&] {
    require(session && threads >= 0, "tenon_session_set_threads: a session and a number from 0 on");
    session->session.set_threads(threads);
  });
}
TenonStatus tenon_session_set_memory_limit(TenonSession* session, int64_t bytes) {
  return guard([&] {
    require(session && bytes >= 0, "tenon_session_set_memory_limit: a session and a number from 0 on");
    session->session.set_memory_limit(bytes);
  });
}

int32_t tenon_session_input_index(const TenonSession* session, const char* name) {
  if (!session || !name) return -1;
  const auto inputs = session->session.artifact().inputs();
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].name == name) return int32_t(i);
  return -1;
}

TenonStatus tenon_session_set_input(TenonSession* session, int32_t index, const DLTensor* tensor) {
  return guard([&] {
    require(session, "tenon_session_set_input: the session is null");
    set_slot(slot_at(session->inputs, index, "input"), tensor);
  });
}
TenonStatus tenon_session_set_input_data(TenonSession* session, int32_t index, const void* data,
                                         DLDataType dtype, int32_t ndim, const int64_t* shape) {
  return guard([&] {
    require(session && (shape || ndim == 0), "tenon_session_set_input_data: the session or shape is null");
    set_slot(slot_at(session->inputs, index, "input"), data, dtype, ndim, shape);
  });
}
TenonStatus tenon_session_give_input(TenonSession* session, int32_t index, DLManagedTensorVersioned* tensor) {
  return guard([&] {
    require(session, "tenon_session_give_input: the session is null");
    slot_at(session->inputs, index, "input") = tenon::from_dlpack(tensor);
  });
}
TenonStatus tenon_session_set_output(TenonSession* session, int32_t index, const DLTensor* tensor) {
  return guard([&] {
    require(session, "tenon_session_set_output: the session is null");
    set_slot(slot_at(session->buffers, index, "output"), tensor);
  });
}
TenonStatus tenon_session_set_output_data(TenonSession* session, int32_t index, void* data, DLDataType dtype,
                                          int32_t ndim, const int64_t* shape) {
  return guard([&] {
    require(session && (shape || ndim == 0), "tenon_session_set_output_data: the session or shape is null");
    set_slot(slot_at(session->buffers, index, "output"), data, dtype, ndim, shape);
  });
}

TenonStatus tenon_session_run(TenonSession* session) {
  return guard([&] {
    require(session, "tenon_session_run: the session is null");
    session->results.clear();
    if (session->buffers.empty()) {
      session->results = session->session.invoke(session->inputs);
      return;
    }
    session->results.assign(session->buffers.begin(), session->buffers.end());
    try {
      session->session.invoke_into(session->inputs, session->results);
    } catch (...) {
      session->results.clear();
      throw;
    }
  });
}
void tenon_session_cancel(TenonSession* session) {
  if (session) session->session.cancel();
}

int32_t tenon_session_num_outputs(const TenonSession* session) {
  return session ? int32_t(session->results.size()) : 0;
}

TenonStatus tenon_session_get_output(TenonSession* session, int32_t index, DLTensor* tensor) {
  return guard([&] {
    require(session && tensor, "tenon_session_get_output: a null argument");
    const NDArray& a = slot_at(session->results, index, "output of the last run");
    require(a.get(), "the output was taken already");
    *tensor = tenon::dlpack_view(a);
  });
}
TenonStatus tenon_session_take_output(TenonSession* session, int32_t index,
                                      DLManagedTensorVersioned** tensor) {
  return guard([&] {
    require(session && tensor, "tenon_session_take_output: a null argument");
    *tensor = nullptr;
    NDArray& a = slot_at(session->results, index, "output of the last run");
    require(a.get(), "the output was taken already");
    // The caller's own buffer is not ours to give: a copy is.
    const bool borrowed =
        size_t(index) < session->buffers.size() && a.get() == session->buffers[size_t(index)].get();
    *tensor = tenon::to_dlpack(borrowed ? a.copy() : a);
    a = NDArray();
  });
}

TenonStatus tenon_session_set_profile(TenonSession* session, TenonProfile profile, void* user) {
  return guard([&] {
    require(session, "tenon_session_set_profile: the session is null");
    if (!profile) return session->session.set_profile(nullptr);
    session->session.set_profile(
        [profile, user](std::string_view name, double ms) { profile(user, std::string(name).c_str(), ms); });
  });
}

}  // extern "C"
