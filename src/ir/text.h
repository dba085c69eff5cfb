// SPDX-License-Identifier: Apache-2.0
// Script text of both levels: the field's Python-shaped syntax. parse(print(m)) equals m. Large constants are
// printed as a hash ("R.const_ref(0x…)") and found again through a table.
#pragma once
#include <map>

#include "ir/module.h"

namespace tenon {

/// Constants by content hash: filled by print, asked by parse; saved beside the text as a sidecar file.
using ConstantTable = std::map<uint64_t, NDArray>;

struct PrintOptions {
  ConstantTable* constants = nullptr;  ///< receives the constants that are not printed in full
  int64_t inline_elements = 16;        ///< constants up to this size are printed in full
  bool show_types = true;              ///< type annotations on graph bindings
};
/// A module, function, statement, expression or type as text.
std::string print(const ObjectRef& node, const PrintOptions& options = {});

struct ParseOptions {
  const ConstantTable* constants = nullptr;
  std::string name = "<text>";
};
/// DiagnosticError (T02xx) with every mistake and its place.
IRModule parse_module(std::string_view text, const ParseOptions& options = {});

/// Sidecar of constants: a binary file of (hash, dtype, shape, bytes). Error T3001 on I/O, T0290 when
/// corrupted.
void save_constants(const std::string& path, const ConstantTable& table);
ConstantTable load_constants(const std::string& path);

// JSON of any node from its field list; shared nodes stay shared. from_json: T0291 when the text is no
// program.
std::string to_json(const ObjectRef& node);
ObjectRef from_json(std::string_view text);

}  // namespace tenon
