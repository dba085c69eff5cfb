// SPDX-License-Identifier: Apache-2.0
#include "cli/compiler.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <mutex>

namespace tenon::cli {

Function compiler_function(const std::string& name) {
  static std::once_flag once;
  static std::string failure;
  std::call_once(once, [] {
    if (!dlopen("libtenon_compiler.so", RTLD_LAZY | RTLD_LOCAL)) failure = dlerror();
  });
  if (!failure.empty())
    throw Error(ErrorKind::io, "T0910", "the compiler library cannot be loaded: " + failure, {},
                "running artifacts works without it; for all else install libtenon_compiler.so beside "
                "libtenon_runtime.so");
  Function f = registry::find("compiler." + name);
  CHECK(f, "compiler." + name + " is not registered");
  return f;
}

AttrMap call_compiler(const std::string& name, const AttrMap& request) {
  return compiler_function(name)(request).as<AttrMap>();
}
json ask_compiler(const std::string& name, const AttrMap& request) {
  return json::parse(call_compiler(name, request).at("json").as<std::string>());
}

}  // namespace tenon::cli
