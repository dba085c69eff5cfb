// SPDX-License-Identifier: Apache-2.0
// Places of a region never overlap, keep what is written, and are used again before more memory is asked for.
#include "runtime/memory_region.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace tenon {
namespace {

#if defined(__SANITIZE_ADDRESS__)
TEST(MemoryRegion, LeavesBlocksToTheSanitizer) { EXPECT_EQ(MemoryRegion().allocate(64), nullptr); }
#else
struct Held {
  char* address;
  size_t bytes;
  char mark;
};

void allocate(MemoryRegion& region, std::vector<Held>& held, size_t bytes, char mark) {
  auto* address = static_cast<char*>(region.allocate(bytes));
  ASSERT_TRUE(address);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(address) % 64, 0u);
  std::memset(address, mark, bytes);
  held.push_back({address, bytes, mark});
}
void release(MemoryRegion& region, std::vector<Held>& held, size_t k) {
  const Held h = held[k];
  for (size_t i = 0; i < h.bytes; ++i) ASSERT_EQ(h.address[i], h.mark) << "byte " << i << " of " << h.bytes;
  region.release(h.address, h.bytes);
  held.erase(held.begin() + std::ptrdiff_t(k));
}

TEST(MemoryRegion, RandomBlocksDoNotOverlap) {
  std::mt19937_64 random(11);
  MemoryRegion region;
  std::vector<Held> held;
  size_t live = 0, most = 0;
  for (int step = 0; step < 4000; ++step) {
    if (held.size() < 3 || (held.size() < 40 && random() % 2)) {
      const size_t bytes = 64 * (1 + random() % (random() % 8 ? 100 : 3000));
      allocate(region, held, bytes, char(1 + random() % 120));
      most = std::max(most, live += bytes);
    } else {
      const size_t k = random() % held.size();
      live -= held[k].bytes;
      release(region, held, k);
    }
    if (HasFatalFailure()) return;
  }
  // Gaps between living places are the only loss.
  EXPECT_LE(region.usable(), 3 * most + (size_t(4) << 20));
  while (!held.empty()) release(region, held, held.size() - 1);
}

TEST(MemoryRegion, ARepeatedCallAllocatesNothing) {
  // Sizes of a network's layers: each tensor dies when the one after the next is there.
  MemoryRegion region;
  size_t after_one = 0;
  for (int call = 0; call < 50; ++call) {
    std::vector<Held> held;
    for (size_t layer = 0; layer < 40; ++layer) {
      const size_t shrink = layer / 8;
      allocate(region, held, ((size_t(1) << 20) >> shrink) + 64 * (layer % 5), char(layer));
      if (held.size() > 2) release(region, held, 0);
    }
    while (!held.empty()) release(region, held, held.size() / 2);
    if (call == 0) after_one = region.usable();
  }
  EXPECT_EQ(region.usable(), after_one);
  EXPECT_LE(after_one, size_t(6) << 20);  // three tensors of the largest size, in whole pages
}

TEST(MemoryRegion, RefusesWhatNoReservationHolds) {
  MemoryRegion region;
  EXPECT_EQ(region.allocate(size_t(1) << 40), nullptr);
  std::vector<Held> held;
  allocate(region, held, 1 << 20, 7);  // usable after that
  release(region, held, 0);
}
#endif

}  // namespace
}  // namespace tenon
