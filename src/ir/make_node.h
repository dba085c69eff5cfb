// SPDX-License-Identifier: Apache-2.0
// Nodes made from named fields, as JSON and other languages give them.
#pragma once
#include "base/function_ref.h"
#include "ir/module.h"

namespace tenon {

/// A node of `type` whose fields have the given values, as far as the fields' types allow; a field without a
/// value keeps the one of `base`, a node of this type, or when there is none its default. `problem` is called
/// with what is wrong, and throws.
ObjectRef make_node(const TypeInfo& type, const ObjectRef& base,
                    FunctionRef<std::optional<Any>(const std::string& field)> value,
                    FunctionRef<void(const std::string&)> problem);

/// Calls `problem`, which throws, with what the values of the fields contradict (node_values.cpp).
void check_values(const ObjectRef& node, FunctionRef<void(const std::string&)> problem);

}  // namespace tenon
