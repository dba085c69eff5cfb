// SPDX-License-Identifier: Apache-2.0
// JSON as the graph executor reads it: bounded in depth and number of values, numbers are whole.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::operator_graph {

struct Json {
  enum Kind : uint8_t { null, boolean, number, text, list, object } kind = null;
  int64_t integer = 0;  ///< of a number or boolean
  std::string string;
  std::vector<Json> items;  ///< of a list, or the values of an object
  std::vector<std::string> keys;
  const Json* find(std::string_view key) const;  ///< of an object; null when there is none
};

/// Error "T0616" at `path` with the byte where the text ends early or is no JSON.
Json parse_json(std::string_view text, const std::string& path);

[[noreturn]] void refuse_graph(const std::string& path, const std::string& what);  ///< "T0616"

}  // namespace tenon::operator_graph
