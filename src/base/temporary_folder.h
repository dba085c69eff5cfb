// SPDX-License-Identifier: Apache-2.0
// A folder for files that another program or library reads or writes.
#pragma once
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/error.h"

namespace tenon {

/// A new folder of this process, below $TMPDIR, which goes with everything in it.
class TemporaryFolder {
 public:
  /// `user` is who needs it ("the linker"), for the Error "T3003" when none can be made.
  explicit TemporaryFolder(const std::string& user) {
    std::error_code failure;
    const std::filesystem::path below = std::filesystem::temp_directory_path(failure);
    std::string name = (below / "tenon-XXXXXX").string();
    if (failure || !mkdtemp(name.data())) {
      const char* given = std::getenv("TMPDIR");
      throw Error(ErrorKind::io, "T3003",
                  "no folder for " + user + " in " + (failure && given ? given : below.string()), {},
                  "set TMPDIR to a writable folder");
    }
    path = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::filesystem::path path;
};

}  // namespace tenon
