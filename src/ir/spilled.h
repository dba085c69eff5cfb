// SPDX-License-Identifier: Apache-2.0
// Tensors that lie in a file while a program is compiled: a weight and the same weight in another layout need
// not be in memory both.
#pragma once
#include "runtime/ndarray.h"

namespace tenon {

/// A tensor of zeros that is written from its begin to its end. A large one lies in a file without a name, in
/// $TMPDIR or /var/tmp, so that nobody else can change it: what is written leaves memory, and comes back when
/// it is read. It lies in memory where no such file can be made.
class SpilledTensor {
 public:
  struct Limits {
    size_t large = size_t(256) << 20;  ///< bytes from which on a file is worth its time
    size_t part = size_t(64) << 20;    ///< bytes that leave memory at once
  };
  SpilledTensor(std::vector<int64_t> shape, DataType dtype) : SpilledTensor(std::move(shape), dtype, {}) {}
  SpilledTensor(std::vector<int64_t> shape, DataType dtype, Limits limits);
  const NDArray& tensor() const { return tensor_; }
  void written_until(const void* end) {
    if (file_ && size_t(static_cast<const char*>(end) - left_) >= part_) leave(end);
  }

 private:
  void leave(const void* end);

  NDArray tensor_;
  bool file_ = false;
  size_t part_;
  char* left_ = nullptr;  ///< what lies before it has left
};

}  // namespace tenon
