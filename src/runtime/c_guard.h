// SPDX-License-Identifier: Apache-2.0
// Where exceptions end: what every function of the C interface, here and in the compiler, wraps its body in.
#pragma once
#include <cxxabi.h>
#include <tenon/tenon.h>

#include <new>

#include "base/error.h"
#include "runtime/vm.h"

namespace tenon::c_api {

/// Stores this thread's last error and returns its status. Never throws: when memory ends it says that.
TenonStatus failed(ErrorKind kind, std::string_view code, std::string_view message,
                   std::string_view location = {}, std::string_view hint = {}) noexcept;

template <class F>
TenonStatus guard(F f) {
  try {
    f();
    return TENON_OK;
  } catch (const Error& e) {
    return failed(e.kind, e.code, e.message, e.location, e.hint);
  } catch (const std::bad_alloc&) {
    return failed(ErrorKind::limit, "T0401", "no memory");
  } catch (const abi::__forced_unwind&) {
    throw;  // a thread that is being cancelled
  } catch (const std::exception& e) {
    return failed(ErrorKind::internal, "T0001", e.what());
  } catch (...) {
    return failed(ErrorKind::internal, "T0001", "an unknown exception");
  }
}

/// An artifact for C; released with tenon_artifact_release.
TenonArtifact* wrap(Artifact artifact);
/// What is behind an artifact and a session of C.
const Artifact& artifact_of(const TenonArtifact* artifact);
Session& session_of(TenonSession* session);

inline void require(bool condition, const char* what) {
  if (!condition) throw Error(ErrorKind::usage, "T0514", what);
}

}  // namespace tenon::c_api
