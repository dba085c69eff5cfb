// SPDX-License-Identifier: Apache-2.0
// Compiled models between the interfaces: an object here, an artifact of tenon.h there; calls with values
// that are no tensors.
#include "ffi/guard.h"
#include "runtime/c_guard.h"

using namespace tenon;

extern "C" {

TenonStatus tenon_ffi_artifact(const TenonObject* o, TenonArtifact** artifact, TenonAny* result) {
  return ffi::guard(result, [&] {
    *artifact = nullptr;
    if (!ffi::as<ArtifactObj>(o))
      throw Error(ErrorKind::usage, "T0102", "tenon_ffi_artifact: the object is no Artifact");
    const TenonAny value = tenon_any_object(const_cast<TenonObject*>(o));
    *artifact = c_api::wrap(ffi::any(&value).as<Artifact>());
    return Any();
  });
}

TenonStatus tenon_ffi_artifact_functions(const TenonArtifact* artifact, TenonAny* result) {
  return ffi::guard(result, [&] {
    c_api::require(artifact, "tenon_ffi_artifact_functions: the artifact is null");
    auto names = make<ArrayObj>();
    for (const VMFunction& f : c_api::artifact_of(artifact).executable().functions)
      names.edit()->items.emplace_back(f.name);
    return Any(std::move(names));
  });
}

TenonStatus tenon_ffi_session_call(TenonSession* session, const char* function, const TenonAny* arguments,
                                   int32_t count, TenonAny* result) {
  return ffi::guard(result, [&] {
    c_api::require(session, "tenon_ffi_session_call: the session is null");
    Session& s = c_api::session_of(session);
    return s.call(function ? std::string_view(function) : std::string_view(s.artifact().main().name),
                  Arguments(reinterpret_cast<const Any*>(arguments), size_t(count)));
  });
}

TenonStatus tenon_ffi_session_set_instrument(TenonSession* session, const TenonObject* function,
                                             TenonAny* result) {
  return ffi::guard(result, [&] {
    c_api::require(session, "tenon_ffi_session_set_instrument: the session is null");
    Session& s = c_api::session_of(session);
    if (!function) {
      s.set_instrument({});
      return Any();
    }
    if (!ffi::as<FunctionObj>(function))
      throw Error(ErrorKind::usage, "T0102", "tenon_ffi_session_set_instrument: the object is no Function");
    const TenonAny value = tenon_any_object(const_cast<TenonObject*>(function));
    s.set_instrument([f = ffi::any(&value).as<Function>()](std::string_view name, bool before,
                                                           const Any& given, std::span<const Any> arguments) {
      std::vector<Any> all{Any(std::string(name)), Any(before), given};
      all.insert(all.end(), arguments.begin(), arguments.end());
      const auto left_out = f->call(all).try_as<bool>();
      return left_out && *left_out;
    });
    return Any();
  });
}

}  // extern "C"
