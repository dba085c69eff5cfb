// SPDX-License-Identifier: Apache-2.0
#include "runtime/library.h"

#include <dlfcn.h>

namespace tenon {
namespace {

/// Which library registers the functions whose names begin so (src/runtime/libraries/NAME.cpp).
constexpr struct {
  std::string_view functions, name;
} kLibraries[] = {
    {"tenon.sequence.", "sequence"}, {"tenon.optional.", "sequence"},   {"tenon.map.", "sequence"},
    {"tenon.string.", "string"},     {"tenon.image.", "image"},         {"tenon.cblas.", "blas"},
    {"tenon.dnnl.", "blas"},         {"tenon.program.", "program"},     {"tenon.artifact.", "artifact_write"},
    {"tenon.machine.", "measure"},   {"tenon.kernel.", "kernel_call"},  {"tenon.rank.", "rank"},
    {"tenon.function.", "function"}, {"tenon.graph.", "graph_executor"}};

/// The folder of the library that holds this code, with a slash behind it.
std::string own_folder() {
  static const char here = 0;
  Dl_info info;
  const std::string_view own = dladdr(&here, &info) && info.dli_fname ? info.dli_fname : "";
  return std::string(own.substr(0, own.rfind('/') + 1));
}

/// Stays loaded, because the registry holds what it has registered.
void load(std::string_view name) {
  const std::string path = own_folder() + "libtenon_" + std::string(name) + ".so." TENON_SOVERSION;
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return;
  const char* why = dlerror();
  throw Error(ErrorKind::io, "T0615",
              "cannot load libtenon_" + std::string(name) + ": " + (why ? why : "unknown reason"), {},
              "install it beside libtenon_runtime.so");
}

}  // namespace

Function find_function(std::string_view name) {
  if (Function f = registry::find(name)) return f;
  for (const auto& library : kLibraries)
    if (name.starts_with(library.functions)) {
      load(library.name);
      return registry::find(name);
    }
  return {};
}

}  // namespace tenon
