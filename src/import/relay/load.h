// SPDX-License-Identifier: Apache-2.0
// The interface of the reader of Relay text.
#pragma once
#include "ir/module.h"

namespace tenon::relay {

inline constexpr size_t kMaxTextBytes = size_t(1) << 31;  ///< places in a text are 32-bit offsets

/// Whether the text begins as Relay does: `#[version`, `def @`, `free_var %`, `type List[A] {`, ….
bool looks_like_relay(std::string_view text);

/// The text as graph functions in normal form; an expression becomes `main`, its free variables the
/// parameters. A DiagnosticError (T02xx) has every mistake and its place, operators without counterpart among
/// them.
IRModule import_relay(std::string_view text, const std::string& name = "<text>");

}  // namespace tenon::relay
