// SPDX-License-Identifier: Apache-2.0
// One range of addresses for a pool's larger blocks: reserved once, allocated from like a planned arena, so
// that a call touches little more memory than it has in use at once.
#pragma once
#include <cstddef>
#include <vector>

namespace tenon {

class MemoryRegion {
 public:
  MemoryRegion() = default;
  MemoryRegion(const MemoryRegion&) = delete;
  ~MemoryRegion();

  /// `bytes` (a multiple of 64) on 64 bytes, in the smallest gap that holds them; null when there is none.
  void* allocate(size_t bytes);
  /// What `allocate` returned, with the same size.
  void release(void* address, size_t bytes);
  void trim();                               ///< gives the system the pages behind all blocks
  size_t usable() const { return usable_; }  ///< bytes that have been asked of the system

 private:
  bool reserve();
  char* base_ = nullptr;
  size_t size_ = 0, usable_ = 0, reach_ = 0;
  bool refused_ = false;
  struct Gap {
    size_t at, bytes;
  };
  std::vector<Gap> gaps_;  ///< by offset; never two side by side, none at the end
};

}  // namespace tenon
