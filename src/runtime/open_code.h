// SPDX-License-Identifier: Apache-2.0
// Code of artifacts in the dynamic loader, each file once.
#pragma once
#include <memory>
#include <string>

namespace tenon {

struct OpenCode {
  void* handle = nullptr;      ///< of dlopen; null: it failed, and dlerror says why
  std::shared_ptr<void> keep;  ///< the code is closed when nobody has it any more
};
/// Opens what the descriptor is of, which stays open as long as `file` lives. `path` is for a system without
/// /proc.
OpenCode open_code(int descriptor, const std::shared_ptr<void>& file, const std::string& path);

}  // namespace tenon
