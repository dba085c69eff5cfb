// SPDX-License-Identifier: Apache-2.0
// Code generators that a function of another language is.
#include "base/diagnostic.h"
#include "capi/methods.h"
#include "codegen/codegen.h"
#include "codegen/lowered.h"

namespace tenon {
namespace {

/// A kind of target whose kernels are what `make` gives for a lowered module, for the loader of its name.
void register_foreign(const std::string& kind, const Function& make, const std::string& doc) {
  const auto code = [kind, make](const IRModule& lowered, const Target& target, int opt_level) {
    const auto text = make(lowered, target, int64_t(opt_level)).try_as<std::string>();
    if (!text)
      throw Error(ErrorKind::usage, "T0102", "the code generator `" + kind + "` gives no text", {},
                  "it gives str or bytes");
    return *text;
  };
  codegen::CodeGenerator generator;
  generator.target = {.name = kind, .doc = doc, .options = processor_options()};
  generator.check = [](const IRModule&, const Target&) {};
  generator.texts = {
      {.name = kind,
       .ending = "." + kind,
       .doc = doc,
       .kernels = [code](const IRModule& lowered, const Target& target, int opt_level,
                         const codegen::TextOptions&) { return code(lowered, target, opt_level); }}};
  generator.object = [kind, code](const IRModule& lowered, const Target& target, int opt_level, int) {
    ObjectCode out;
    out.modules.push_back({kind, code(lowered, target, opt_level)});
    return out;
  };
  generator.cached = false;
  codegen::register_code_generator(std::move(generator));
}

[[maybe_unused]] const bool generators_registered = [] {
  add_function("target.register_code_generator", {"kind", "make", {"doc", Any(std::string())}},
               register_foreign,
               "a kind of target: make(lowered module, target, opt_level) gives the code of its kernels, as "
               "text or bytes, "
               "for the function `loader.KIND` of the registry (T0940 when there is such a kind)");
  return true;
}();

}  // namespace
}  // namespace tenon
