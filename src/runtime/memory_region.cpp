// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory_region.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace tenon {
namespace {
constexpr size_t kReserved = size_t(1) << 36, kHuge = size_t(2) << 20;
constexpr size_t kFirst = size_t(1) << 20;  ///< usable at first
/// Small models keep small pages; what lies beyond is asked to be of large ones, of which fewer miss.
constexpr size_t kSmallPages = 2 * kHuge;
}  // namespace

MemoryRegion::~MemoryRegion() {
  if (base_) munmap(base_, size_);
}

bool MemoryRegion::reserve() {
  if (base_) return true;
  if (refused_) return false;
#if defined(__SANITIZE_ADDRESS__)
  refused_ = true;  // blocks of their own have borders that are watched
  return false;
#endif
  // Addresses only, which cost nothing; fewer where a limit is set on them.
  for (size_t size = kReserved; size >= kHuge * 16; size /= 8) {
    void* p = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) continue;
    base_ = static_cast<char*>(p), size_ = size;
    return true;
  }
  refused_ = true;
  return false;
}

void* MemoryRegion::take(size_t bytes) {
  if (!reserve()) return nullptr;
  auto best = gaps_.end();
  for (auto it = gaps_.begin(); it != gaps_.end(); ++it)
    if (it->second >= bytes && (best == gaps_.end() || it->second < best->second)) best = it;
  if (best != gaps_.end()) {
    const auto [at, room] = *best;
    if (room == bytes) {
      gaps_.erase(best);
    } else {  // the rest is the same gap, further on
      auto node = gaps_.extract(best);
      node.key() = at + bytes, node.mapped() = room - bytes;
      gaps_.insert(std::move(node));
    }
    return base_ + at;
  }
  // Behind all blocks.
  if (bytes > size_ - reach_) return nullptr;
  const size_t end = reach_ + bytes;
  if (end > usable_) {
    size_t until = std::max({end, usable_ + usable_ / 2, kFirst});
    until = std::min(size_, (until + kHuge - 1) / kHuge * kHuge);
    if (mprotect(base_ + usable_, until - usable_, PROT_READ | PROT_WRITE) != 0) return nullptr;
    // On addresses that are multiples of a large page; an advice, works without.
    const size_t skew = reinterpret_cast<size_t>(base_) % kHuge, shift = skew ? kHuge - skew : 0;
    const size_t from = std::max(usable_ / kHuge * kHuge, kSmallPages) + shift;
    if (from < until) madvise(base_ + from, until - from, MADV_HUGEPAGE);
    usable_ = until;
  }
  void* place = base_ + reach_;
  reach_ = end;
  return place;
}

void MemoryRegion::give(void* place, size_t bytes) {
  size_t at = size_t(static_cast<char*>(place) - base_);
  auto after = gaps_.lower_bound(at);
  if (after != gaps_.begin()) {
    auto before = std::prev(after);
    if (before->first + before->second == at) {
      at = before->first, bytes += before->second;
      gaps_.erase(before);
    }
  }
  if (at + bytes == reach_) {  // nothing is in use behind it
    reach_ = at;
    return;
  }
  if (after != gaps_.end() && at + bytes == after->first) {
    auto node = gaps_.extract(after);
    node.key() = at, node.mapped() += bytes;
    gaps_.insert(std::move(node));
    return;
  }
  try {
    gaps_.emplace(at, bytes);
  } catch (const std::bad_alloc&) {  // the place is lost until the pool goes
  }
}

}  // namespace tenon
