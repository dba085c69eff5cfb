// SPDX-License-Identifier: Apache-2.0
#include "ir/spilled.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace tenon {
namespace {

constexpr int64_t kCount = int64_t(1) << 20;
constexpr SpilledTensor::Limits kSmall{.large = size_t(1) << 20, .part = size_t(64) << 10};

/// Kilobytes in memory of the mapping that an address lies in; -1: it is in none.
long resident(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  const auto at = reinterpret_cast<uintptr_t>(address);
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    char dash = 0;
    std::istringstream range(line);
    if (range >> std::hex >> begin >> dash >> end && dash == '-') inside = at >= begin && at < end;
    if (inside && line.rfind("Rss:", 0) == 0) return std::stol(line.substr(4));
  }
  return -1;
}
void write(SpilledTensor& t) {
  auto* p = t.tensor().as_ptr<int32_t>();
  for (int64_t i = 0; i < kCount; ++i) {
    t.written_until(p + i);
    p[i] = int32_t(i * 7);
  }
}
void expect_written(const NDArray& a) {
  for (int64_t i = 0; i < kCount; ++i) ASSERT_EQ(a.as_ptr<int32_t>()[i], int32_t(i * 7)) << i;
}

TEST(Spilled, WhatIsWrittenLeavesMemoryAndComesBack) {
  NDArray kept;
  {
    SpilledTensor t({kCount}, i32, kSmall);
    EXPECT_EQ(t.tensor().element_int(kCount - 1), 0);
    write(t);
    const long kilobytes = resident(t.tensor().data());
    EXPECT_GE(kilobytes, 0);
    EXPECT_LT(kilobytes, 1024) << "of 4096";
    kept = t.tensor();
  }
  expect_written(kept);
}

TEST(Spilled, WithoutAFolderOrBelowTheLimitItLiesInMemory) {
  const char* before = std::getenv("TMPDIR");
  const std::string was = before ? before : "";
  ::setenv("TMPDIR", "/no/such/folder", 1);
  SpilledTensor lost({kCount}, i32, kSmall);
  before ? ::setenv("TMPDIR", was.c_str(), 1) : ::unsetenv("TMPDIR");
  write(lost);
  expect_written(lost.tensor());
  SpilledTensor small({kCount}, i32);
  write(small);
  expect_written(small.tensor());
  EXPECT_EQ(SpilledTensor({0, 3}, f32).tensor().size(), 0);
}

}  // namespace
}  // namespace tenon
