// SPDX-License-Identifier: Apache-2.0
// The compiler as the command sees it: named functions that libtenon_compiler registers (capi/requests.h says
// what each takes). The library is loaded when the first of them is called, so running an artifact needs the
// runtime alone and starts in milliseconds.
#pragma once
#include "capi/requests.h"
#include "cli/console.h"

namespace tenon::cli {

/// The function "compiler.NAME"; Error "T0910" when the compiler library is not installed.
Function compiler_function(const std::string& name);
/// Calls "compiler.NAME"; the reply is a map of named values.
template <class Request>
AttrMap call_compiler(const std::string& name, const Request& request);
/// The same where the reply's entry "json" is a JSON document.
template <class Request = NoRequest>
json ask_compiler(const std::string& name, const Request& request = {}) {
  return json::parse(call_compiler(name, request).at("json").template as<std::string>());
}

}  // namespace tenon::cli
