// SPDX-License-Identifier: Apache-2.0
// What the pool keeps: idle blocks and blocks in use together stay within the limit, and without one below
// twice what was in use at the height. Counted by the C library, not by the pool.
#include "runtime/memory_pool.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <random>
#include <vector>

namespace tenon {
namespace {

int64_t held() {
  const struct mallinfo2 now = mallinfo2();
  return int64_t(now.uordblks) + int64_t(now.hblkhd);
}
/// Sanitizers have an allocator of their own, which mallinfo2 does not ask.
bool counts() {
  const int64_t before = held();
  const std::vector<char> block(1 << 20);
  return held() - before >= 1 << 20 && !block.empty();
}
constexpr int64_t kSlack = 48 << 10;  // handles, lists, heads of blocks

struct Draw {
  std::mt19937_64 random;
  std::vector<NDArray> live;
  /// One tensor more, or one less.
  void step(MemoryPool& pool, int64_t least, int64_t most, size_t count) {
    if (!live.empty() && (live.size() >= count || random() % 5 < 2)) {
      std::swap(live[random() % live.size()], live.back());
      return live.pop_back();
    }
    const int64_t n = least + int64_t(random() % uint64_t(most - least + 1));
    live.push_back(pool.mut()->tensor({&n, 1}, u8));
  }
};

TEST(MemoryPool, IdleBlocksAndBlocksInUseStayWithinTheLimit) {
  if (!counts()) GTEST_SKIP() << "the allocator does not count";
  constexpr int64_t limit = 1 << 20;
  Draw draw{std::mt19937_64(5), {}};
  draw.live.reserve(64);
  int64_t refused = 0, most = 0;
  const int64_t before = held();
  {
    MemoryPool pool = make<MemoryPoolObj>();
    pool.mut()->set_limit(limit);
    for (int i = 0; i < 6000; ++i) {
      // Sizes change from one stretch to the next, so that what is kept does not fit what is asked for. All
      // are above what the C library keeps for itself when it is given back, which counts as in use.
      const int64_t size = int64_t(2048) << (i / 1000);
      try {
        draw.step(pool, size, 2 * size, 24);
      } catch (const Error& e) {
        ASSERT_EQ(e.code, "T0507");
        ++refused;
        draw.live.clear();
      }
      most = std::max(most, held() - before);
      ASSERT_LE(held() - before, limit + kSlack) << "step " << i;
    }
    EXPECT_GT(refused, 0);       // the limit was reached
    EXPECT_GT(most, limit / 2);  // and what is kept is much of it
    draw.live.clear();
    EXPECT_EQ(pool->used(), 0);
    EXPECT_GT(held() - before, 0);  // blocks are kept for the next call …
    pool.mut()->set_limit(limit / 16);
    EXPECT_LE(held() - before, limit / 16 + kSlack);  // … but no more of them than a new limit allows
  }
  EXPECT_LE(held() - before, kSlack);
}

TEST(MemoryPool, KeepsLessThanTwiceTheHeight) {
  if (!counts()) GTEST_SKIP() << "the allocator does not count";
  Draw draw{std::mt19937_64(6), {}};
  draw.live.reserve(512);
  const int64_t before = held();
  MemoryPool pool = make<MemoryPoolObj>();
  int64_t height = 0;
  for (int i = 0; i < 6000; ++i) {
    const int64_t size = 2048 + 512 * (i / 1500);  // small ones, which are blocks of their own
    draw.step(pool, size - 500, size, 400);
    height = std::max(height, pool->used());
    ASSERT_LE(held() - before, 2 * height + height / 4 + kSlack) << "step " << i;
    if (i % 1500 == 1499) draw.live.clear();  // the end of a call
  }
  EXPECT_GT(height, 256 << 10);
  // The same sizes again ask for no memory.
  const int64_t kept = held();
  for (int again = 0; again < 3; ++again) {
    for (int k = 0; k < 20; ++k) draw.live.push_back(pool.mut()->tensor(std::vector<int64_t>{3500}, u8));
    EXPECT_LE(held() - kept, kSlack);
    draw.live.clear();
  }
}

TEST(MemoryPool, RenewsWhatNobodyElseHolds) {
  for (int64_t limit : {0, 1 << 20}) {
    MemoryPool pool = make<MemoryPoolObj>();
    pool.mut()->set_limit(limit);
    const std::vector<int64_t> square{100, 100}, line{9000}, small{7}, huge{1 << 21};
    Any held(pool.mut()->tensor(square, u8));
    const Object* object = held.object();
    EXPECT_TRUE(pool.mut()->renew(held, line, u8));  // of the same size or another: the same object
    EXPECT_TRUE(pool.mut()->renew(held, small, f32));
    NDArray array = held.as<NDArray>();
    EXPECT_EQ(array.get(), object);
    EXPECT_EQ(array.shape(), small);
    EXPECT_EQ(array.dtype(), f32);
    EXPECT_LT(pool->used(), 1000);
    EXPECT_FALSE(pool.mut()->renew(held, square, u8));  // `array` sees it
    EXPECT_EQ(array.shape(), small);
    EXPECT_FALSE(pool.mut()->renew(Any(NDArray::zeros(square, u8)), square, u8));
    EXPECT_FALSE(pool.mut()->renew(Any(), square, u8));
    EXPECT_FALSE(pool.mut()->renew(Any(array.reshape({7, 1})), square, u8));
    MemoryPool other = make<MemoryPoolObj>();
    array = NDArray();
    EXPECT_FALSE(other.mut()->renew(held, square, u8));
    if (limit) {
      EXPECT_THROW(pool.mut()->renew(held, huge, u8), Error);
      EXPECT_EQ(pool->used(), 0);  // what it had is given back, once
      EXPECT_TRUE(pool.mut()->renew(held, square, u8));
    }
    EXPECT_GE(pool->used(), int64_t(limit ? 10000 : 28));
    held = Any();
    EXPECT_EQ(pool->used(), 0);
  }
}

TEST(MemoryPool, SpareIsWhatIsSmallAndHeldOnce) {
  MemoryPool pool = make<MemoryPoolObj>(), other = make<MemoryPoolObj>();
  const std::vector<int64_t> small{7}, large{9000};
  EXPECT_TRUE(pool->is_spare(Any()));
  EXPECT_TRUE(pool->is_spare(Any(3)));
  const Any held(pool.mut()->tensor(small, f32));
  EXPECT_TRUE(pool->is_spare(held));
  EXPECT_FALSE(other->is_spare(held));
  EXPECT_FALSE(pool->is_spare(Any(pool.mut()->tensor(large, f32))));
  EXPECT_FALSE(pool->is_spare(Any(NDArray::zeros(small, f32))));
  EXPECT_FALSE(pool->is_spare(Any(held.as<NDArray>().reshape({7, 1}))));
  const NDArray second = held.as<NDArray>();
  EXPECT_FALSE(pool->is_spare(held));
}

}  // namespace
}  // namespace tenon
