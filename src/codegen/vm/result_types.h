// SPDX-License-Identifier: Apache-2.0
// What an artifact says of a result that is no tensor.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "ir/module.h"

namespace tenon {

/// Metadata "result" and "data_type.NAME" (JSON) when `main` gives a value of an algebraic data type: its
/// type, and the constructors in the order of their tags. Empty otherwise.
std::vector<std::pair<std::string, std::string>> describe_result(const IRModule& module);

}  // namespace tenon
