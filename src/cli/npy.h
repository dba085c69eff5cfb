// SPDX-License-Identifier: Apache-2.0
// NumPy's .npy files (format 1.0 to 3.0), read and written.
#pragma once
#include <cstdio>
#include <memory>
#include <string>

#include "runtime/ndarray.h"

namespace tenon::cli {

/// A C-order or Fortran-order array of numbers or booleans, little or big endian. Error "T3001" when the file
/// cannot be read, "T3002" with what is wrong when it is not such a file.
NDArray read_npy(const std::string& path);
/// Types that NumPy lacks (bf16, fp8, int4) are written as float32.
void write_npy(const std::string& path, const NDArray& array);

/// A file from its beginning: what its header announces decides how much of it is read. Error "T3001".
class FileReader {
 public:
  explicit FileReader(const std::string& path);
  /// The next bytes; fewer where the file ends.
  std::string take(size_t count);

 private:
  std::string path_;
  std::unique_ptr<FILE, int (*)(FILE*)> file_;
};

/// The whole file; Error "T3001".
std::string read_file(const std::string& path);
/// Error "T3003" when the disk is full or the place cannot be written.
void write_file(const std::string& path, std::string_view bytes);

}  // namespace tenon::cli
