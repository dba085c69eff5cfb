// SPDX-License-Identifier: Apache-2.0
#include "cli/compiler.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <mutex>

#include "base/named_values.h"

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

template <class Request>
AttrMap call_compiler(const std::string& name, const Request& request) {
  return compiler_function(name)(to_named_values(request)).template as<AttrMap>();
}
template AttrMap call_compiler(const std::string&, const CompileRequest&);
template AttrMap call_compiler(const std::string&, const EvaluateRequest&);
template AttrMap call_compiler(const std::string&, const ExtractRequest&);
template AttrMap call_compiler(const std::string&, const InspectRequest&);
template AttrMap call_compiler(const std::string&, const MemoryRequest&);
template AttrMap call_compiler(const std::string&, const InterpretRequest&);
template AttrMap call_compiler(const std::string&, const OptRequest&);
template AttrMap call_compiler(const std::string&, const ReduceRequest&);
template AttrMap call_compiler(const std::string&, const LintRequest&);
template AttrMap call_compiler(const std::string&, const QuantizeRequest&);
template AttrMap call_compiler(const std::string&, const TargetRequest&);
template AttrMap call_compiler(const std::string&, const ReadValueRequest&);
template AttrMap call_compiler(const std::string&, const NoRequest&);

}  // namespace tenon::cli
