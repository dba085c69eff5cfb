// SPDX-License-Identifier: Apache-2.0
// Input values as people write them: `@file.npy`, `2x3xf32=@file.bin`, `2x3xf32=0.5`, `2x3xf32`, `[1, 2, 3]`.
#pragma once
#include <map>

#include "runtime/executable.h"

namespace tenon::cli {

/// `NAME=VALUE` split at the first '='; Error "T0905".
std::pair<std::string, std::string> split_assignment(const std::string& text, const char* option);
/// The names of base/dtype.h and i1 (bool); Error "T0907".
DataType parse_dtype(const std::string& text);
/// A value for an input of the given type: a tensor, or what a `.pb` file holds, which `read_proto` reads.
/// `seed` fills values not given.
using ReadProto = std::function<Any(const std::string&)>;
Any parse_value(const std::string& text, const ValueInfo& info, uint64_t seed, const ReadProto& read_proto);
/// Seeded values: floats uniform in [0, 1), integers 0 … 9 (8-bit: 0 … 3), booleans.
NDArray random_value(const std::vector<int64_t>& shape, DataType dtype, uint64_t seed);
/// `2x3xf32`; `f32` for a scalar.
std::string type_text(const ValueInfo& info);
std::string type_text(const NDArray& array);

}  // namespace tenon::cli
