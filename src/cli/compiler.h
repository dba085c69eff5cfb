// SPDX-License-Identifier: Apache-2.0
// The compiler as the command sees it: named functions that libtenon_compiler registers
// (src/capi/compiler_functions.cpp documents each). The library is loaded when the first of them is called,
// so running an artifact needs the runtime alone and starts in milliseconds.
#pragma once
#include "base/function.h"
#include "cli/console.h"

namespace tenon::cli {

/// The function "compiler.NAME"; Error "T0910" when the compiler library is not installed.
Function compiler_function(const std::string& name);
/// Calls "compiler.NAME" with a map of named values; the reply is a map too.
AttrMap call_compiler(const std::string& name, const AttrMap& request);
/// The same where the reply's entry "json" is a JSON document.
json ask_compiler(const std::string& name, const AttrMap& request);

}  // namespace tenon::cli
