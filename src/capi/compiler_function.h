// SPDX-License-Identifier: Apache-2.0
// A packed function of the compiler over a typed request.
#pragma once
#include <nlohmann/json.hpp>

#include "base/named_values.h"
#include "capi/requests.h"

namespace tenon {

/// What a function that answers with facts gives: their text as "json".
inline AttrMap reply_json(const nlohmann::ordered_json& j) { return {{"json", j.dump()}}; }

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
