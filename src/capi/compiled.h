// SPDX-License-Identifier: Apache-2.0
// What a compilation made, as an object for other languages: its programs, its texts, its file.
#pragma once
#include "pipeline/compile.h"

namespace tenon {

struct CompiledObj : Object {
  static constexpr std::string_view type_key = "Compiled";
  explicit CompiledObj(Compiled compiled) : value(std::move(compiled)) {}
  Compiled value;
};

}  // namespace tenon
