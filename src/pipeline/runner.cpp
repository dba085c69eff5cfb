// SPDX-License-Identifier: Apache-2.0
#include "pipeline/runner.h"

#include "pipeline/emit.h"

namespace tenon {
namespace {

CompileOptions for_this_process(CompileOptions options) {
  options.code = CodeForm::objects;
  return options;
}

}  // namespace

Runner::Runner(IRModule module, CompileOptions options, SessionOptions session)
    : compiled_(compile(std::move(module), for_this_process(options))),
      session_(jit_artifact(compiled_), session) {}

}  // namespace tenon
