// SPDX-License-Identifier: Apache-2.0
#include "ir/spilled.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace tenon {

/// The pages of a file of that size that has no name any more; null where it cannot be.
static void* pages_of_a_file(size_t size) {
  const char* folder = std::getenv("TMPDIR");
  std::string name = std::string(folder && *folder ? folder : "/var/tmp") + "/tenon-XXXXXX";
  const int file = ::mkostemp(name.data(), O_CLOEXEC);
  if (file < 0) return nullptr;
  ::unlink(name.c_str());
  // Space that is there now will be there when pages are written.
  void* pages = MAP_FAILED;
  if (::posix_fallocate(file, 0, off_t(size)) == 0)
    pages = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  return pages == MAP_FAILED ? nullptr : pages;
}

SpilledTensor::SpilledTensor(std::vector<int64_t> shape, DataType dtype, Limits limits) : part_(limits.part) {
  const size_t size = storage_bytes(element_count(shape), dtype);
  void* pages = size >= limits.large ? pages_of_a_file(size) : nullptr;
  file_ = pages != nullptr;
  tensor_ = file_ ? NDArray::view(pages, std::move(shape), dtype) : NDArray::zeros(std::move(shape), dtype);
  if (file_) tensor_.mut()->release = [pages, size] { ::munmap(pages, size); };
  left_ = tensor_.as_ptr<char>();
}

void SpilledTensor::leave(const void* end) {
  const auto page = uintptr_t(::sysconf(_SC_PAGESIZE));
  const size_t full = (reinterpret_cast<uintptr_t>(end) - reinterpret_cast<uintptr_t>(left_)) / page * page;
  ::madvise(left_, full, MADV_DONTNEED);
  left_ += full;
}

}  // namespace tenon
