// SPDX-License-Identifier: Apache-2.0
// Values of C and of C++ are the same bytes; exceptions become error objects.
#pragma once
#include <cxxabi.h>
#include <tenon/ffi.h>

#include <new>

#include "ffi/objects.h"

namespace tenon::ffi {

static_assert(sizeof(TenonAny) == sizeof(Any) && sizeof(TenonObject) == sizeof(Object));

inline const Any& any(const TenonAny* value) { return *reinterpret_cast<const Any*>(value); }
inline const Object* object(const TenonObject* o) { return reinterpret_cast<const Object*>(o); }
inline Object* object(TenonObject* o) { return reinterpret_cast<Object*>(o); }

/// Moves a value to memory of the caller, which holds none.
inline void give(Any value, TenonAny* result) { new (result) Any(std::move(value)); }

/// The object as T, or null.
template <class T>
const T* as(const TenonObject* o) {
  return o && is_type_index<T>(o->type_index) ? static_cast<const T*>(object(o)) : nullptr;
}

/// The error object for the exception that is being handled.
Any current_error() noexcept;

/// Runs `f`, whose value is the result.
template <class F>
TenonStatus guard(TenonAny* result, F f) {
  try {
    give(f(), result);
    return TENON_OK;
  } catch (const abi::__forced_unwind&) {
    throw;  // a thread that is being cancelled
  } catch (...) {
    give(current_error(), result);
    const auto* error = as<ErrorObj>(result->v.object);
    return error ? TenonStatus(int(error->kind)) : TENON_ERROR_INTERNAL;
  }
}

}  // namespace tenon::ffi
