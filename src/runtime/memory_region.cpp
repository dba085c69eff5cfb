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

void* MemoryRegion::allocate(size_t bytes) {
  if (!reserve()) return nullptr;
  Gap* best = nullptr;
  for (Gap& gap : gaps_)
    if (gap.bytes >= bytes && (!best || gap.bytes < best->bytes)) best = &gap;
  if (best) {
    char* address = base_ + best->at;
    best->at += bytes, best->bytes -= bytes;  // the rest is the same gap, further on
    if (best->bytes == 0) gaps_.erase(gaps_.begin() + (best - gaps_.data()));
    return address;
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
  void* address = base_ + reach_;
  reach_ = end;
  return address;
}

void MemoryRegion::trim() {
  const size_t from = (reach_ + kHuge - 1) / kHuge * kHuge;
  if (from < usable_) madvise(base_ + from, usable_ - from, MADV_DONTNEED);
}

void MemoryRegion::release(void* address, size_t bytes) {
  const size_t at = size_t(static_cast<char*>(address) - base_);
  auto after = gaps_.begin();
  while (after != gaps_.end() && after->at < at) ++after;
  const bool joins = after != gaps_.begin() && std::prev(after)->at + std::prev(after)->bytes == at;
  if (at + bytes == reach_) {  // nothing is in use behind it
    reach_ = at;
    if (joins) reach_ = gaps_.back().at, gaps_.pop_back();
  } else if (const bool touches = after != gaps_.end() && at + bytes == after->at; joins) {
    std::prev(after)->bytes += bytes + (touches ? after->bytes : 0);
    if (touches) gaps_.erase(after);
  } else if (touches) {
    after->at = at, after->bytes += bytes;
  } else {
    try {
      gaps_.insert(after, {at, bytes});
    } catch (const std::bad_alloc&) {  // the address is lost until the pool goes
    }
  }
}

}  // namespace tenon
