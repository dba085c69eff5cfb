// SPDX-License-Identifier: Apache-2.0
#include "capi/compiled.h"

#include <algorithm>

#include "capi/methods.h"
#include "pipeline/emit.h"
#include "tools/module_text.h"

namespace tenon {
namespace {

using Self = Ref<CompiledObj>;

std::string source(const Self& self, const std::string& kind) {
  const Compiled& c = self->value;
  if (std::ranges::count(module_text_kinds(), kind, &EmitKind::name))
    return module_text(kind, kind == "tir" ? c.lowered : c.planned, {}, nullptr);
  return emit_text(kind, c);
}

const bool compiled_registered = [] {
  Methods<CompiledObj>()
      .add(
          "save", {"path", {"kind", "artifact"}},
          [](const Self& self, const std::string& path, const std::string& kind) {
            return write_emitted(kind, path, self->value);
          },
          "writes an artifact, or another kind that the target emits; its bytes (T0920, T30xx)")
      .add("source", {"kind"}, source, "text of a kind: tir, dot, svg, llvm, asm, … (T0920)")
      .property(
          "planned", [](const Self& self) { return self->value.planned; },
          "the graph functions behind the last graph pass, programs scheduled")
      .property(
          "lowered", [](const Self& self) { return self->value.lowered; },
          "the programs behind the last tensor pass");
  return true;
}();

}  // namespace
}  // namespace tenon
