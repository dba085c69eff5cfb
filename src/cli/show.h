// SPDX-License-Identifier: Apache-2.0
// Results that are no tensors, as text and as JSON.
#pragma once
#include "cli/console.h"
#include "runtime/vm.h"

namespace tenon::cli {

/// The result of `main` holds values of algebraic data types (metadata "result").
bool has_data_result(const Artifact& artifact);
/// `Some([1, 2])`, `Node(Leaf(), 1, Leaf())`; lists (a constructor of an item and the rest, and one of
/// nothing) as `List[1, 2, 3]`. Large tensors show their type and range.
std::string show_value(const Artifact& artifact, const Any& value);
/// The same as JSON: numbers and nested lists for tensors, {"Some": […]} for constructors, lists for lists.
json value_json(const Artifact& artifact, const Any& value);

}  // namespace tenon::cli
