// SPDX-License-Identifier: Apache-2.0
// Random sequences of primitives on many programs: what is accepted computes the same, traces replay to the
// equal program, refusals are sentences and change nothing. TENON_RANDOM_SEQUENCES: how many (default 5200).
#include "steps.h"

namespace tenon::testing {
namespace {

constexpr int shards = 8;

class RandomSchedules : public ::testing::TestWithParam<int> {};

TEST_P(RandomSchedules, SequencesKeepTheMeaning) {
  register_test_intrins();
  const std::vector<Program> all = all_programs();
  std::vector<std::vector<NDArray>> expected;
  for (const Program& p : all) expected.push_back(run(p.function, p.sizes));
  const char* more = std::getenv("TENON_RANDOM_SEQUENCES");
  const int sequences = more ? std::atoi(more) : 5200;
  const char* only = std::getenv("TENON_RANDOM_SEED");
  Counts counts;
  int whole = 0, total = 0;
  for (int seed = GetParam(); seed < sequences; seed += shards) {
    if (only && seed != std::atoi(only)) continue;
    const size_t which = size_t(seed) % all.size();
    const Program& p = all[which];
    Schedule s = random_schedule(p, uint64_t(seed), 8, 80, counts);
    size_t steps = 0;
    for (const TraceStep& t : s.trace().steps) steps += t.name != "get_block" && t.name != "get_loops";
    whole += steps >= 8;
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
  }
  if (only) return;
  EXPECT_GE(whole, total * 97 / 100) << "sequences of eight steps or more";
  std::string table;
  for (auto& [name, c] : counts.accepted)
    table += name + ": " + std::to_string(c.first) + " accepted, " + std::to_string(c.second) + " changed; ";
  std::printf("%d sequences, %d of eight steps or more\n%s\n", total, whole, table.c_str());
  if (sequences < 5000) return;
  for (const char* name : {"split",
                           "fuse",
                           "reorder",
                           "parallel",
                           "vectorize",
                           "unroll",
                           "add_unit_loop",
                           "compute_inline",
                           "reverse_compute_inline",
                           "compute_at",
                           "reverse_compute_at",
                           "decompose_reduction",
                           "rfactor",
                           "cache_write",
                           "cache_read",
                           "set_scope",
                           "reindex",
                           "pad_iteration",
                           "fuse_iterators",
                           "blockize",
                           "tensorize",
                           "transform_layout",
                           "transform_block_layout",
                           "pad_einsum",
                           "decompose_padding",
                           "storage_align",
                           "loop_partition",
                           "merge",
                           "annotate",
                           "unannotate"})
    EXPECT_GE(counts.accepted[name].second, 5) << name;
  for (const char* name : {"sample_perfect_tile", "sample_categorical", "sample_compute_location"})
    EXPECT_GE(counts.accepted[name].first, 5) << name;
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomSchedules, ::testing::Range(0, shards));

}  // namespace
}  // namespace tenon::testing
