// SPDX-License-Identifier: Apache-2.0
// Random programs with accesses anywhere end alike when they are interpreted, compiled by LLVM and as C text:
// with the same values, or with the error of an access, and nothing around their buffers is touched.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "random_access_judge.h"

namespace tenon::test {
namespace {

constexpr int64_t kBatch = 25;      ///< programs that are compiled together
constexpr int64_t kPartInC = 4;     ///< of the programs of `make test`, one batch of so many is compiled as C
constexpr int64_t kBigBatch = 200;  ///< the same of a long run, whose batches are all compiled as C
constexpr int64_t kMostFindings = 5;

struct Totals {
  int64_t programs = 0, refused = 0, ended = 0, wrong = 0;
};

void run_batch(uint64_t first, int64_t count, WithC with_c, Totals& totals) {
  std::vector<AccessCase> cases;
  for (int64_t k = 0; k < count; ++k) {
    const std::string name = fmt::format("p{}", k);
    cases.push_back(access_case(random_access_program(first + uint64_t(k), name), first + uint64_t(k), name));
  }
  judge(cases, with_c);
  for (const AccessCase& c : cases) {
    ++totals.programs;
    totals.refused += !c.refused.empty();
    totals.ended += !c.interpreted.empty();
    if (c.fault == AccessFault::none) continue;
    ADD_FAILURE() << "seed " << c.seed << ": " << c.said << "\n" << reduced(c, with_c);
    ++totals.wrong;
  }
}

/// Programs of a long run are all compiled as C, three of four batches with the sanitizer.
TEST(RandomAccesses, EndAlikeEverywhere) {
  const char* given = std::getenv("TENON_RANDOM_ACCESSES");
  const char* from = std::getenv("TENON_RANDOM_FIRST");
  const int64_t count = given ? std::atoll(given) : 300, size = given ? kBigBatch : kBatch;
  uint64_t first = from ? std::strtoull(from, nullptr, 10) : 1;
  Totals totals;
  for (int64_t k = 0; k * size < count && totals.wrong < kMostFindings; ++k, first += uint64_t(size)) {
    WithC with_c = k % 4 == 3 ? WithC::optimised : WithC::sanitized;
    if (!given) with_c = k % kPartInC ? WithC::no : k % (2 * kPartInC) ? WithC::optimised : WithC::sanitized;
    run_batch(first, std::min(size, count - k * size), with_c, totals);
    // Where a crash of the process ends it, this says where to begin.
    if (given) fmt::print(stderr, "seeds to {}: {} wrong\n", first + uint64_t(size) - 1, totals.wrong);
  }
  fmt::print("{} programs: {} refused, {} end with an error\n", totals.programs, totals.refused,
             totals.ended);
  if (totals.wrong) return;
  EXPECT_LT(totals.refused * 4, totals.programs);
  EXPECT_LT(totals.ended * 4, totals.programs * 3);
  EXPECT_GT(totals.ended * 20, totals.programs);
}

/// What is cut down still has its fault.
TEST(RandomAccesses, FindingsAreCutDown) {
  RandomAccessProgram p;
  p.rows = p.columns = p.indices = p.results = 4;
  p.element = f32;
  p.index = i64;
  p.text = R"(@T.prim_func
def p0(a: T.handle, I: T.Buffer((4,), "int64"), b: T.handle):
    A = T.match_buffer(a, (4, 4), "float32")
    B = T.match_buffer(b, (4,), "float32")
    for i in range(4):
        if i < 3:
            x: T.int64 = i * 2
            B[I[x % 4]] = A[0, 0]
        B[i] = undefined
    B[0] = A[1, 1]
)";
  std::vector<AccessCase> cases{access_case(p, 1, "p0")};
  judge(cases, WithC::no);
  ASSERT_EQ(cases[0].fault, AccessFault::unread);
  EXPECT_EQ(reduced(cases[0], WithC::no), R"(@T.prim_func
def p0(a: T.handle, I: T.Buffer((4,), "int64"), b: T.handle):
    B[i] = undefined
)");
}

}  // namespace
}  // namespace tenon::test
