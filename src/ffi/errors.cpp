// SPDX-License-Identifier: Apache-2.0
// Errors on the border: exceptions become objects, objects exceptions.
#include "ffi/guard.h"

namespace tenon::ffi {

static Any error_object(ErrorKind kind, std::string code, std::string message, std::string location,
                        std::string hint, std::string text) {
  auto error = make<ErrorObj>();
  ErrorObj* e = error.mut();
  e->kind = kind;
  e->code = std::move(code);
  e->message = std::move(message);
  e->location = std::move(location);
  e->hint = std::move(hint);
  e->text = std::move(text);
  return Any(std::move(error));
}

Any current_error() noexcept {
  // Made beforehand, for when there is no memory to make one.
  static const Any no_memory =
      error_object(ErrorKind::limit, "T0401", "no memory", {}, {}, "error[T0401]: no memory");
  try {
    try {
      throw;
    } catch (const ForeignError& e) {
      return Any(e.error);
    } catch (const Error& e) {
      return error_object(e.kind, e.code, e.message, e.location, e.hint, e.what());
    } catch (const std::bad_alloc&) {
      return no_memory;
    } catch (const std::exception& e) {
      return error_object(ErrorKind::internal, "T0001", e.what(), {}, {}, e.what());
    } catch (...) {
      return error_object(ErrorKind::internal, "T0001", "an unknown exception", {}, {}, "");
    }
  } catch (...) {
    return no_memory;
  }
}

}  // namespace tenon::ffi

using namespace tenon;
using namespace tenon::ffi;

extern "C" {

TenonStatus tenon_ffi_error(const TenonErrorInfo* info, TenonAny* result) {
  return guard(result, [&] {
    const auto text = [](const char* s) { return std::string(s ? s : ""); };
    const Error parts(ErrorKind(int(info->kind)), text(info->code), text(info->message), text(info->location),
                      text(info->hint));
    Any made = error_object(parts.kind, parts.code, parts.message, parts.location, parts.hint,
                            info->text ? info->text : parts.what());
    auto* e = made.as<Ref<ErrorObj>>().mut();
    e->traceback = text(info->traceback);
    e->foreign = ObjectRef(object(info->foreign));
    return made;
  });
}

int32_t tenon_ffi_error_info(const TenonObject* error, TenonErrorInfo* info) {
  const auto* e = as<ErrorObj>(error);
  if (!e) return 0;
  *info = {TenonStatus(int(e->kind)), e->code.c_str(),
           e->message.c_str(),        e->location.c_str(),
           e->hint.c_str(),           e->text.c_str(),
           e->traceback.c_str(),      reinterpret_cast<TenonObject*>(const_cast<Object*>(e->foreign.get()))};
  return 1;
}

void tenon_ffi_error_passed(TenonObject* error, const char* file, int32_t line, const char* name) {
  auto* e = const_cast<ErrorObj*>(as<ErrorObj>(error));
  if (!e) return;
  try {
    e->traceback += std::string(file) + ":" + std::to_string(line) + ", in " + name + "\n";
  } catch (const std::bad_alloc&) {  // then the line is missing
  }
}

}  // extern "C"
