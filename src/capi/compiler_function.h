// SPDX-License-Identifier: Apache-2.0
// A packed function of the compiler over a typed request.
#pragma once
#include "base/named_values.h"
#include "capi/requests.h"

namespace tenon {

/// Registers "compiler.NAME". Names that the request does not have are refused (T0942).
template <class Request>
void add_compiler_function(const std::string& name, AttrMap (*f)(const Request&), const char* doc,
                           std::source_location where = std::source_location::current()) {
  const std::string full = "compiler." + name;
  registry::add(full,
                TypedFunction<AttrMap(AttrMap)>(
                    [f, full](AttrMap values) { return f(from_named_values<Request>(values, full)); }, full)
                    .packed(),
                false, doc, where);
}

}  // namespace tenon
