// SPDX-License-Identifier: Apache-2.0
// Functions from and to C, their registry, and the compiler's library behind them.
#include <dlfcn.h>

#include <memory>
#include <mutex>

#include "base/function.h"
#include "ffi/guard.h"
#include "runtime/library.h"

namespace tenon::ffi {
namespace {

/// A C function with what it is called with; destroyed once.
struct CFunction {
  TenonCall call;
  void* self;
  void (*destroy)(void*);
  CFunction(TenonCall call, void* self, void (*destroy)(void*)) : call(call), self(self), destroy(destroy) {}
  CFunction(const CFunction&) = delete;
  ~CFunction() {
    if (destroy) destroy(self);
  }
};

Any call_c(const CFunction& f, Arguments arguments) {
  Any result;
  auto* out = reinterpret_cast<TenonAny*>(&result);
  if (f.call(f.self, reinterpret_cast<const TenonAny*>(arguments.data()), int32_t(arguments.size()), out) ==
      TENON_OK)
    return result;
  if (auto error = result.try_as<Ref<ErrorObj>>(); error && *error) throw ForeignError(*error);
  throw Error(ErrorKind::usage, "T0105", "a function of another language failed without saying why");
}

std::string folder_of_this_library() {
  Dl_info info{};
  if (!dladdr(reinterpret_cast<void*>(&tenon_ffi_version), &info) || !info.dli_fname) return {};
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == path.npos ? std::string() : path.substr(0, slash + 1);
}

const FunctionObj* function(const TenonObject* o, const char* what) {
  const auto* f = as<FunctionObj>(o);
  if (!f) throw Error(ErrorKind::usage, "T0102", std::string(what) + ": the object is no function");
  return f;
}

}  // namespace
}  // namespace tenon::ffi

using namespace tenon;
using namespace tenon::ffi;

extern "C" {

int32_t tenon_ffi_version(void) { return TENON_FFI_VERSION; }

TenonStatus tenon_ffi_function(TenonCall call, void* self, void (*destroy)(void*), TenonAny* result) {
  return guard(result, [&] {
    if (!call) throw Error(ErrorKind::usage, "T0102", "tenon_ffi_function: the function is null");
    auto f = std::make_shared<CFunction>(call, self, destroy);
    return Any(Function([f = std::move(f)](Arguments arguments) { return call_c(*f, arguments); }));
  });
}

TenonStatus tenon_ffi_call(TenonObject* f, const TenonAny* arguments, int32_t count, TenonAny* result) {
  return guard(result, [&] {
    return function(f, "tenon_ffi_call")
        ->call(Arguments(reinterpret_cast<const Any*>(arguments), size_t(count)));
  });
}

TenonStatus tenon_ffi_function_set(const TenonFunctionInfo* info, TenonObject* f, int32_t replace,
                                   TenonAny* result) {
  return guard(result, [&] {
    (void)function(f, "tenon_ffi_function_set");
    Function shared;
    static_cast<Ref<FunctionObj>&>(shared) = Ref<FunctionObj>(as<FunctionObj>(f));
    registry::add(
        {info->name, std::move(shared), info->file ? info->file : "", info->line, info->doc ? info->doc : ""},
        replace != 0);
    return Any();
  });
}

TenonStatus tenon_ffi_function_get(const char* name, TenonAny* result) {
  return guard(result, [&] { return Any(find_function(name)); });
}

void tenon_ffi_function_remove(const char* name) { registry::remove(name); }

TenonStatus tenon_ffi_function_names(const char* prefix, TenonAny* result) {
  return guard(result, [&] {
    auto names = make<ArrayObj>();
    for (const std::string& name : registry::names(prefix ? prefix : ""))
      names.edit()->items.emplace_back(name);
    return Any(std::move(names));
  });
}

TenonStatus tenon_ffi_function_info(const char* name, TenonAny* result) {
  return guard(result, [&]() -> Any {
    const auto entry = registry::entry(name);
    if (!entry) return {};
    return Any(Array<Any>{Any(entry->name), Any(entry->file), Any(entry->line), Any(entry->doc)});
  });
}

TenonStatus tenon_ffi_load_compiler(TenonAny* result) {
  return guard(result, [&] {
    static std::once_flag once;
    static std::string failure;
    std::call_once(once, [] {
      const std::string name = "libtenon_compiler.so", folder = folder_of_this_library();
      if (dlopen((folder + name).c_str(), RTLD_LAZY | RTLD_LOCAL)) return;
      failure = dlerror();
      if (dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL)) failure.clear();
    });
    if (!failure.empty())
      throw Error(ErrorKind::io, "T0910", "the compiler library cannot be loaded: " + failure, {},
                  "running artifacts works without it; for all else install libtenon_compiler.so beside "
                  "libtenon_ffi.so");
    return Any();
  });
}

}  // extern "C"
