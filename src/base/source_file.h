// SPDX-License-Identifier: Apache-2.0
// Where something is defined, as people are shown it.
#pragma once
#include <string>
#include <string_view>

namespace tenon {

/// A source file as the compiler names it, from the repository's `src/` on; a file elsewhere as it is.
inline std::string source_file(std::string_view path) {
  if (const size_t at = path.rfind("src/"); at != path.npos) path.remove_prefix(at);
  return std::string(path);
}

}  // namespace tenon
