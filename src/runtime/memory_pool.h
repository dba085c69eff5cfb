// SPDX-License-Identifier: Apache-2.0
// The pool behind tensors of dynamic size and fresh outputs of a session. Larger blocks lie in one
// region, packed as a planned arena is: what calls touch stays in the caches. Small ones, and all of them
// where a limit is set, are blocks of their own, kept by size class when they are freed, because the next
// call asks for the same sizes and fresh pages from the system are slow.
#pragma once
#include <array>
#include <mutex>

#include "runtime/executable.h"
#include "runtime/memory_region.h"

namespace tenon {

/// Tensors hold the pool, so it outlives its session; they may be dropped on any thread.
struct MemoryPoolObj : Object {
  static constexpr std::string_view type_key = "MemoryPool";
  /// Tensors of up to so many bytes are blocks of their own; they go to and fro at the cost of a few loads.
  static constexpr size_t kSmallBytes = 4096;

  MemoryPoolObj() = default;
  MemoryPoolObj(const MemoryPoolObj&) = delete;
  ~MemoryPoolObj();

  /// An uninitialised tensor. Error "T0507" beyond the limit, "T0401" when memory ends.
  NDArray tensor(std::span<const int64_t> shape, DataType dtype);
  /// Makes the tensor that only `held` holds another one, uninitialised; false when it is not of this pool or
  /// held elsewhere, too. Errors as above, after which `held` has no storage.
  bool renew(const Any& held, std::span<const int64_t> shape, DataType dtype);
  /// A number, or a tensor that only `held` holds and that is too small to give back before another takes it.
  bool is_spare(const Any& held) const;
  void set_limit(int64_t bytes);  ///< 0: none
  void trim();                    ///< gives the system what no tensor uses
  void reserve(
      int64_t bytes);  ///< counts memory held elsewhere (the arena) against the limit; may be negative
  /// Counts a value of `items` parts until it goes. Error "T0507" beyond the limit.
  void charge(HeldObj& value, size_t items);
  void discharge(int64_t bytes) noexcept { live_.fetch_sub(size_t(bytes), std::memory_order_relaxed); }
  int64_t used() const { return int64_t(live_.load(std::memory_order_relaxed)); }

 private:
  static constexpr size_t kClasses = 256;
  /// Storage for `o`, which keeps what it has when that is of the size.
  void set_storage(NDArrayObj& o, std::span<const int64_t> shape, DataType dtype);
  void* allocate(size_t bytes);
  void give_back(void* data);
  void drop_kept();
  std::mutex mutex_;
  MemoryRegion region_;
  std::array<std::vector<void*>, kClasses> free_;
  std::atomic<size_t> live_{0};
  size_t peak_ = 0, cached_ = 0;
  std::atomic<size_t> limit_{0};
};
using MemoryPool = Ref<MemoryPoolObj>;

}  // namespace tenon
