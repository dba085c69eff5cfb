// SPDX-License-Identifier: Apache-2.0
// Objects that only the border to other languages makes: bytes, foreign values, errors.
#pragma once
#include "base/container.h"

namespace tenon::ffi {

/// Bytes of another language, which are no text there; C++ reads them as a String.
struct BytesObj : StringObj {
  using parent_type = StringObj;
  static constexpr std::string_view type_key = "Bytes";
  using StringObj::StringObj;
};

/// A value of another language that C++ only hands on.
struct ForeignObj : Object {
  static constexpr std::string_view type_key = "Foreign";
  using Destroy = void (*)(void* handle);
  ForeignObj(void* handle, Destroy destroy) : handle(handle), destroy(destroy) {}
  ForeignObj(const ForeignObj&) = delete;
  ~ForeignObj() {
    if (destroy) destroy(handle);
  }
  void* handle;
  Destroy destroy;
};

/// An error as a value: what `Error` says, where it passed, and the exception of another language that it
/// began as.
struct ErrorObj : Object {
  static constexpr std::string_view type_key = "Error";
  ErrorKind kind = ErrorKind::internal;
  std::string code, message, location, hint, text, traceback;
  ObjectRef foreign;
};

/// Thrown where a function of another language failed.
class ForeignError : public Error {
 public:
  explicit ForeignError(Ref<ErrorObj> error)
      : Error(error->kind, error->code, error->message, error->location, error->hint),
        error(std::move(error)) {}
  Ref<ErrorObj> error;
};

}  // namespace tenon::ffi
