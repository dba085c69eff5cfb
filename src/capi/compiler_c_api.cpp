// SPDX-License-Identifier: Apache-2.0
// The C interface of the compiler: a thin face on compile().
#include <tenon/compiler.h>

#include <algorithm>
#include <cstring>

#include "pipeline/compile.h"
#include "pipeline/emit.h"
#include "pipeline/program_entry.h"
#include "runtime/c_guard.h"
#include "runtime/dlpack.h"

namespace tenon {
namespace {

CompileOptions read_options(const TenonCompileOptions* given) {
  TenonCompileOptions o = tenon_compile_defaults();
  if (given) {
    c_api::require(given->size >= sizeof(size_t), "TenonCompileOptions.size is not set");
    std::memcpy(&o, given, std::min(given->size, sizeof o));  // an older caller knows fewer fields
  }
  c_api::require(o.opt_level >= 0 && o.opt_level <= 3, "TenonCompileOptions.opt_level must be from 0 to 3");
  c_api::require(o.threads >= 0 && o.memory_limit >= 0 && o.num_dims >= 0,
                 "TenonCompileOptions: a negative value");
  c_api::require(o.num_dims == 0 || (o.dim_names && o.dim_values),
                 "TenonCompileOptions: dimensions without names or values");
  CompileOptions out;
  if (o.target) out.target = o.target;
  out.opt_level = o.opt_level;
  out.threads = o.threads;
  out.memory_limit = o.memory_limit;
  for (int32_t i = 0; i < o.num_dims; ++i) {
    c_api::require(o.dim_names[i] != nullptr, "TenonCompileOptions: a dimension without a name");
    out.dims.set(o.dim_names[i], o.dim_values[i]);
  }
  c_api::require(o.num_bound >= 0 && (o.num_bound == 0 || (o.bound_names && o.bound_values)),
                 "TenonCompileOptions: bound inputs without names or values");
  for (int32_t i = 0; i < o.num_bound; ++i) {
    c_api::require(o.bound_names[i] && o.bound_values[i],
                   "TenonCompileOptions: a bound input without a name or a value");
    out.bind.set(o.bound_names[i], view_of(*o.bound_values[i]));
  }
  return out;
}

Compiled compile_model(const char* model, CompileOptions options) {
  const Map<std::string, NDArray> bind = std::exchange(options.bind, {});
  return compile(with_entry(load_model(model, {.dims = {}, .bind = bind})), std::move(options));
}

}  // namespace
}  // namespace tenon

extern "C" {

TenonCompileOptions tenon_compile_defaults(void) {
  TenonCompileOptions o{};
  o.size = sizeof o;
  o.opt_level = 2;
  return o;
}

TenonStatus tenon_compile_file(const char* model, const char* artifact, const TenonCompileOptions* options) {
  return tenon::c_api::guard([&] {
    tenon::c_api::require(model && artifact,
                          "tenon_compile_file needs the paths of a model and of an artifact");
    const tenon::CompileOptions o = tenon::read_options(options);
    tenon::write_emitted("artifact", artifact, tenon::compile_model(model, o));
  });
}

TenonStatus tenon_compile_load(const char* model, const TenonCompileOptions* options,
                               TenonArtifact** artifact) {
  return tenon::c_api::guard([&] {
    tenon::c_api::require(model && artifact,
                          "tenon_compile_load needs the path of a model and a pointer for the artifact");
    *artifact = nullptr;
    tenon::CompileOptions o = tenon::read_options(options);
    o.code = tenon::CodeForm::objects;
    *artifact = tenon::c_api::wrap(tenon::jit_artifact(tenon::compile_model(model, o)));
  });
}

}  // extern "C"
