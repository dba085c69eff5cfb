// SPDX-License-Identifier: Apache-2.0
// What a user may say of a compilation: one structure from the command line, the C interface and named values
// (base/named_values.h) to `compile()`. Plain data, so that every caller can hold it without the compiler.
#pragma once
#include "base/reflect.h"
#include "runtime/ndarray.h"

namespace tenon {

/// For which machine, how hard, and for which sizes.
struct ModelSettings : Object {
  std::string target;
  int64_t opt_level = 2;
  Map<std::string, int64_t> dims;
  Map<std::string, NDArray> bind;

  static void fields(auto& f) {
    using S = ModelSettings;
    f.add("target", &S::target,
          "a kind of target and its options (\"llvm -mcpu=NAME\"), \"@record.json\", or a record; empty: the "
          "host")
        .add("opt_level", &S::opt_level, "0 to 3")
        .add("dims", &S::dims, "values of symbolic dimensions, by name")
        .add("bind", &S::bind, "tensors for inputs, by name: they become constants");
  }
};

/// Which passes run besides those of the level, which do not, and how.
struct PassSettings : ModelSettings {
  Array<std::string> require_passes, disable_passes, pass_options;

  static void fields(auto& f) {
    using S = PassSettings;
    ModelSettings::fields(f);
    f.add("require_passes", &S::require_passes, "passes that run on request only")
        .add("disable_passes", &S::disable_passes, "passes that are left out")
        .add("pass_options", &S::pass_options, "\"PASS.KEY=VALUE\", in order");
  }
};

struct CompileSettings : PassSettings {
  int64_t threads = 0, memory_limit = 0;
  double compile_timeout = 0;
  Map<std::string, int64_t> dim_bounds;
  std::string precision = "f32", dump;
  Array<std::string> print_after, overrides;

  static void fields(auto& f) {
    using S = CompileSettings;
    PassSettings::fields(f);
    f.add("threads", &S::threads, "threads of the compiler; 0: available cores")
        .add("memory_limit", &S::memory_limit, "most bytes of intermediate tensors; 0: no limit")
        .add("compile_timeout", &S::compile_timeout, "most seconds of a compilation; 0: no limit")
        .add("dim_bounds", &S::dim_bounds,
             "the most of symbolic dimensions, by name: memory is planned for it")
        .add("precision", &S::precision, "f32 (as the model says), bf16 or f16 for contractions")
        .add("dump", &S::dump, "a folder for the module behind every pass, and the code")
        .add("print_after", &S::print_after, "names of passes behind which the module is printed; \"all\"")
        .add("override", &S::overrides, "folders of edited kernels (files NAME.tir) for the model's own");
  }
};

}  // namespace tenon
