// SPDX-License-Identifier: Apache-2.0
// Compiled models between the interfaces: an object here, an artifact of tenon.h there.
#include "ffi/guard.h"
#include "runtime/c_guard.h"

using namespace tenon;

extern "C" TenonStatus tenon_ffi_artifact(const TenonObject* o, TenonArtifact** artifact, TenonAny* result) {
  return ffi::guard(result, [&] {
    *artifact = nullptr;
    if (!ffi::as<ArtifactObj>(o))
      throw Error(ErrorKind::usage, "T0102", "tenon_ffi_artifact: the object is no Artifact");
    const TenonAny value = tenon_any_object(const_cast<TenonObject*>(o));
    *artifact = c_api::wrap(ffi::any(&value).as<Artifact>());
    return Any();
  });
}
