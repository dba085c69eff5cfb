// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory_pool.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <utility>

#include "runtime/words.h"

namespace tenon {
namespace {
constexpr size_t kHeader = 64;  // says where the block is from, and keeps the data aligned
constexpr size_t kLargest = size_t(1) << 46;

/// A block's first bytes.
struct Header {
  size_t size_class;
  size_t region_bytes;  ///< 0: a block of its own
};

/// Four classes for each power of two, so at most a fifth is wasted.
size_t class_of(size_t bytes) {
  if (bytes <= 64) return 0;
  const size_t log = size_t(std::bit_width(bytes - 1)) - 1;  // 2^log < bytes ≤ 2^(log+1)
  const size_t quarter = (bytes - 1) >> (log - 2) & 3;
  return 1 + (log - 6) * 4 + quarter;
}
/// What a block of its own takes of the system's memory.
size_t block_bytes(size_t c) {
  if (c == 0) return kHeader + 64;
  const size_t log = 6 + (c - 1) / 4, quarter = (c - 1) % 4;
  return kHeader + ((((size_t(4) + quarter + 1) << (log - 2)) + 63) & ~size_t(63));
}

/// What a block in the region takes.
size_t region_bytes(size_t bytes) { return ((bytes + 63) & ~size_t(63)) + kHeader; }

[[noreturn, gnu::cold]] void no_memory(size_t bytes) {
  throw Error(ErrorKind::limit, "T0401",
              joined({"no memory for a tensor of ", std::to_string(bytes), " bytes"}), {},
              "use smaller inputs");
}
[[noreturn, gnu::cold]] void limit_error(size_t wanted, size_t live, size_t limit) {
  throw Error(ErrorKind::limit, "T0507",
              joined({"the memory limit of ", std::to_string(limit), " bytes is reached: ",
                      std::to_string(live), " are in use, ", std::to_string(wanted), " more are needed"}),
              {}, "raise the limit, or use smaller inputs");
}
}  // namespace

MemoryPoolObj::~MemoryPoolObj() { drop_kept(); }

void MemoryPoolObj::drop_kept() {
  for (auto& list : free_) {
    for (void* block : list) std::free(block);
    list.clear();
  }
  cached_ = 0;
}

void* MemoryPoolObj::allocate(size_t bytes) {
  const size_t c = class_of(bytes);
  size_t size = block_bytes(c);
  std::lock_guard lock(mutex_);
  if (limit_ && live_ + size > limit_) limit_error(size, live_, limit_);
  if (!limit_ && bytes > kSmallBytes) {
    const size_t whole = region_bytes(bytes);
    if (void* address = region_.allocate(whole)) {
      const Header header{c, whole};
      std::memcpy(address, &header, sizeof header);
      live_ += whole;
      peak_ = std::max(peak_, live_.load());
      return static_cast<char*>(address) + kHeader;
    }
  }
  // A kept block of this class, or one of at most twice the size: fresh pages cost more than the rest of a
  // block that lies idle.
  size_t from = c;
  while (from < std::min(c + 4, kClasses - 1) && free_[from].empty()) ++from;
  void* block = nullptr;
  if (!free_[from].empty() && (from == c || !limit_ || live_ + block_bytes(from) <= limit_)) {
    block = free_[from].back();
    free_[from].pop_back();
    cached_ -= block_bytes(from);
    size = block_bytes(from);
  } else {
    // Blocks in use and kept ones together stay below the limit, or twice the height.
    if (live_ + cached_ + size > (limit_ ? limit_.load() : 2 * std::max(peak_, live_ + size))) drop_kept();
    block = std::aligned_alloc(64, size);
    if (!block) no_memory(bytes);
    const Header header{c, 0};
    std::memcpy(block, &header, sizeof header);
  }
  live_ += size;
  peak_ = std::max(peak_, live_.load());
  return static_cast<char*>(block) + kHeader;
}

void MemoryPoolObj::give_back(void* data) {
  void* block = static_cast<char*>(data) - kHeader;
  Header header;
  std::memcpy(&header, block, sizeof header);
  const size_t c = header.size_class, size = block_bytes(c);
  {
    std::lock_guard lock(mutex_);
    if (header.region_bytes) {
      live_ -= header.region_bytes;
      return region_.release(block, header.region_bytes);
    }
    live_ -= size;
    // Never more kept than a call has needed at its height once more: sizes differ from one moment to the
    // next.
    if (live_ + cached_ + size <= (limit_ ? std::min<size_t>(2 * peak_, limit_) : 2 * peak_)) {
      try {
        free_[c].push_back(block);
        cached_ += size;
        return;
      } catch (const std::bad_alloc&) {
      }
    }
  }
  std::free(block);
}

void MemoryPoolObj::set_storage(NDArrayObj& o, std::span<const int64_t> shape, DataType dtype) {
  const size_t bytes = storage_bytes(element_count(shape), dtype);
  if (bytes > kLargest) no_memory(bytes);
  o.shape.assign(shape.begin(), shape.end());
  o.dtype = dtype;
  if (o.data) {
    Header header;
    std::memcpy(&header, static_cast<char*>(o.data) - kHeader, sizeof header);
    if (header.region_bytes ? header.region_bytes == region_bytes(bytes)
                            : header.size_class == class_of(bytes))
      return;
    give_back(std::exchange(o.data, nullptr));
  }
  o.data = allocate(bytes);
}

NDArray MemoryPoolObj::tensor(std::span<const int64_t> shape, DataType dtype) {
  NDArray array(make<NDArrayObj>());
  NDArrayObj* o = array.mut();
  set_storage(*o, shape, dtype);
  o->owner = Any(Ref<MemoryPoolObj>(this));
  o->release = [this, o] {
    if (o->data) give_back(o->data);
  };
  return array;
}

bool MemoryPoolObj::renew(const Any& held, std::span<const int64_t> shape, DataType dtype) {
  static const uint32_t ndarray_index = type_info<NDArrayObj>()->index;
  if (held.tag() != ndarray_index) return false;
  auto* o = static_cast<NDArrayObj*>(const_cast<Object*>(held.object()));
  if (!o->release || o->owner.object() != this || o->ref_count.load(std::memory_order_acquire) != 1)
    return false;
  o->hash_cache.store(0, std::memory_order_relaxed);
  const bool same = o->data && o->dtype == dtype && std::ranges::equal(o->shape, shape);
  if (!same) set_storage(*o, shape, dtype);
  return true;
}

bool MemoryPoolObj::is_spare(const Any& held) const {
  if (!held.is_object()) return true;
  if (!is_type_index<NDArrayObj>(held.tag())) return false;
  const auto* o = static_cast<const NDArrayObj*>(held.object());
  return o->owner.object() == this && o->ref_count.load(std::memory_order_acquire) == 1 &&
         storage_bytes(element_count(o->shape), o->dtype) <= kSmallBytes;
}

void MemoryPoolObj::set_limit(int64_t bytes) {
  std::lock_guard lock(mutex_);
  limit_ = size_t(std::max<int64_t>(0, bytes));
  if (limit_ && live_ + cached_ > limit_) drop_kept();
}

void MemoryPoolObj::trim() {
  std::lock_guard lock(mutex_);
  drop_kept();
  region_.trim();
}

void MemoryPoolObj::reserve(int64_t bytes) {
  std::lock_guard lock(mutex_);
  if (bytes > 0 && limit_ && live_ + size_t(bytes) > limit_) limit_error(size_t(bytes), live_, limit_);
  live_ += size_t(bytes);
  peak_ = std::max(peak_, live_.load());
}

void MemoryPoolObj::charge(HeldObj& value, size_t items) {
  const size_t bytes = sizeof(DataObj) + items * sizeof(Any);
  const size_t now = live_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  value.account = ObjectRef(this);
  value.held = int64_t(bytes);  // given back by its destructor, also when it goes now
  if (const size_t limit = limit_.load(std::memory_order_relaxed); limit && now > limit)
    limit_error(bytes, now - bytes, limit);
}

HeldObj::~HeldObj() {
  if (const auto pool = account.cast<MemoryPoolObj>()) pool.mut()->discharge(held);
}

}  // namespace tenon
