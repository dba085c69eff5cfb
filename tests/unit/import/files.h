// SPDX-License-Identifier: Apache-2.0
// Where tests find models and conformance data that are not part of the repository: the folder named by
// TENON_SHARED, or `shared` beside the checkout. Tests skip, saying what is missing, when it is not there.
#pragma once
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace tenon::test {

inline std::string shared_folder() {
  if (const char* p = std::getenv("TENON_SHARED")) return p;
  return std::string(TENON_SOURCE_DIR) + "/../shared";
}

inline std::string conformance_archive() {
  return shared_folder() + "/conformance/onnx-1.22.0-backend-test-data.tar.xz";
}

/// The unpacked ONNX 1.22 backend test data; "" when the archive is not there. Unpacked once, into the build
/// folder.
inline std::string conformance_folder() {
  namespace fs = std::filesystem;
  const std::string archive = conformance_archive();
  const std::string target = std::string(TENON_BINARY_DIR) + "/conformance",
                    data = target + "/onnx/backend/test/data";
  if (fs::exists(target + "/.complete")) return data;
  if (!fs::exists(archive)) return "";
  // Several programs may do this at once: each unpacks for itself, the first to finish is taken.
  const std::string part = target + "." + std::to_string(::getpid());
  fs::create_directories(part);
  if (std::system(
          ("tar -xJf '" + archive + "' -C '" + part + "' && touch '" + part + "/.complete'").c_str()) != 0)
    return "";
  std::error_code ec;
  fs::rename(part, target, ec);
  if (ec) fs::remove_all(part);
  return fs::exists(target + "/.complete") ? data : "";
}

}  // namespace tenon::test
