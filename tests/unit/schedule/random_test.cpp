// SPDX-License-Identifier: Apache-2.0
// Random sequences of primitives on many programs: what is accepted computes the same, traces replay to the
// equal program, refusals are sentences and change nothing. TENON_RANDOM_SEQUENCES: how many of eight steps
// or more (20000 is the full run); shorter ones, where a program allows no more, are checked and not counted.
#include "schedule/primitive.h"
#include "steps.h"

namespace tenon::testing {
namespace {

constexpr int shards = 8;

/// Of all shards that ran in this process.
struct Sum {
  Counts counts;
  std::map<size_t, int> programs;
  int whole = 0, total = 0;
};
Sum& sum() {
  static Sum s;
  return s;
}
int sequences_asked() {
  const char* more = std::getenv("TENON_RANDOM_SEQUENCES");
  return more ? std::atoi(more) : 2400;
}
/// TENON_RANDOM_SLICE=3/10: every tenth sequence, beginning with number 3 (a long run in several processes).
std::pair<int, int> slice() {
  const char* text = std::getenv("TENON_RANDOM_SLICE");
  int at = 0, of = 1;
  if (text && std::sscanf(text, "%d/%d", &at, &of) != 2) at = 0, of = 1;
  return {at, of};
}

class RandomSchedules : public ::testing::TestWithParam<int> {};

TEST_P(RandomSchedules, SequencesKeepTheMeaning) {
  register_test_intrins();
  const std::vector<Program> all = all_programs();
  std::vector<std::vector<NDArray>> expected;
  for (const Program& p : all) expected.push_back(run(p.function, p.sizes));
  const int share = sequences_asked() / shards;
  const auto [at, of] = slice();
  const char* only = std::getenv("TENON_RANDOM_SEED");
  Counts& counts = sum().counts;
  int whole = 0, total = 0;
  for (int k = 0; only ? k < 1 : whole < share / of; ++k) {
    ASSERT_LE(total, 2 * share) << "half of the sequences end before their eighth step";
    const int seed = only ? std::atoi(only) : (k * of + at) * shards + GetParam();
    const size_t which = size_t(seed) % all.size();
    const Program& p = all[which];
    Schedule s = random_schedule(p, uint64_t(seed), 8, 80, counts);
    whole += steps_of(s) >= 8;
    ++total;
    std::vector<NDArray> got;
    try {
      got = run(reversed(s.function()), p.sizes);
    } catch (const Error& e) {
      FAIL() << p.name << " seed " << seed << "\n" << e.what() << "\n" << s.trace().to_script();
    }
    ASSERT_TRUE(same(expected[which], got)) << p.name << " seed " << seed << "\n" << s.trace().to_script();
    ASSERT_EQ(problems_of(s.function()), "") << p.name << " seed " << seed << "\n" << s.trace().to_script();
    Schedule again = Schedule::replay(p.function, Trace::from_json(s.trace().to_json()));
    ASSERT_TRUE(structural_equal(s.function(), again.function()))
        << p.name << " seed " << seed << "\n"
        << s.trace().to_script() << first_difference(s.function(), again.function());
    ASSERT_EQ(again.trace().to_json(), s.trace().to_json());
    if (only) continue;
    ++sum().programs[which];
  }
  sum().whole += whole;
  sum().total += total;
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomSchedules, ::testing::Range(0, shards));

/// Comes after the shards: how often each primitive was accepted and how often it changed a program. All of
/// them are tried; in a full run (20,000 sequences) each that changes programs has done so 200 times or more.
class RandomTotals : public ::testing::TestWithParam<int> {};
TEST_P(RandomTotals, EveryPrimitiveIsUsed) {
  const Sum& s = sum();
  if (s.total == 0)
    GTEST_SKIP() << "the totals of one process: run test_schedule --gtest_filter='*Random*' as a whole";
  const bool full = s.whole >= 20000, sample = s.whole >= 2000;
  std::printf("%d sequences, %d of eight steps or more, on %zu programs\n", s.total, s.whole,
              s.programs.size());
  EXPECT_GE(all_programs().size(), 40u);
  if (sample) {
    EXPECT_GE(s.programs.size(), 40u);
  }
  for (const Primitive* p : primitives()) {
    if (p->kind == StepKind::query) continue;
    auto it = s.counts.accepted.find(std::string(p->name));
    const std::pair<int, int> n = it == s.counts.accepted.end() ? std::pair(0, 0) : it->second;
    std::printf("  %-26s %7d accepted %7d changed\n", std::string(p->name).c_str(), n.first, n.second);
    const int uses = p->kind == StepKind::change ? n.second : n.first;
    if (full) {
      EXPECT_GE(uses, 200) << p->name;
    }
    if (sample) {
      EXPECT_GE(uses, 1) << p->name;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, RandomTotals, ::testing::Values(0));

}  // namespace
}  // namespace tenon::testing
