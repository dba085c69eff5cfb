// SPDX-License-Identifier: Apache-2.0
// The model and the options that a request names.
#pragma once
#include "base/container.h"
#include "ir/text.h"
#include "pipeline/compile.h"

namespace tenon {

/// Options of a compilation that say what a request says.
template <class Settings>
CompileOptions options_of(const Settings& settings) {
  CompileOptions o;
  static_cast<Settings&>(o) = settings;
  return o;
}

/// The model, with the values of its dimensions and inputs: the importer takes them, so the options have
/// none behind it, and no bounds of dimensions that have a value.
IRModule load_with_dims(const std::string& model, CompileOptions& o,
                        std::vector<std::string>* files = nullptr);

/// Text into the file, large constants beside it; without a file, into the reply.
void write_or_reply(AttrMap& reply, const std::string& text, const std::string& output,
                    const ConstantTable& constants);

}  // namespace tenon
