// SPDX-License-Identifier: Apache-2.0
// Whether a parameter's declared layout is that of the tensors that callers give.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "ir/tir.h"

namespace tenon::tir {

/// The value of a size, stride or offset where the call tells it.
using LayoutValue = std::function<std::optional<int64_t>(const PrimExpr&)>;

/// Tensors begin where their data do and lie there row by row. What else the buffer of a parameter declares,
/// in words for "the buffer `A` …"; nothing where it fits or where that is known when the program runs.
std::optional<std::string> unlike_given_tensors(const Buffer& buffer, const LayoutValue& value);

}  // namespace tenon::tir
