// SPDX-License-Identifier: Apache-2.0
// Random sequences of primitives on many programs: what is accepted computes the same, traces replay to the
// equal program, refusals are sentences and change nothing.
#include "programs.h"

namespace tenon::testing {
namespace {

std::vector<Program> programs() {
  tir::VarRef n = tir::var("n"), m = tir::var("m");
  std::vector<Program> out{elementwise(5, 7),         matmul(6, 7, 5), conv(2, 5, 6, 3, 3, 1, 1),
                           conv(2, 6, 5, 3, 3, 2, 1), softmax(4, 9),   row_sum(5, 11),
                           column_max(7, 5),          argmax(4, 10),   transpose(6, 5),
                           layer_norm(4, 10),         pool(3, 7, 9),   depthwise(3, 5, 6)};
  Program e = elementwise(n, m), k = matmul(n, m, 5), s = softmax(n, m);
  e.sizes = k.sizes = s.sizes = {{"n", 5}, {"m", 6}};
  e.name += "_symbolic", k.name += "_symbolic", s.name += "_symbolic";
  out.push_back(e), out.push_back(k), out.push_back(s);
  return out;
}

struct Random {
  std::mt19937_64 engine;
  int below(size_t n) { return n == 0 ? 0 : int(engine() % n); }
};

/// One random step. Returns its name.
std::string act(Schedule& s, Random& r) {
  std::vector<BlockRV> blocks = s.blocks();
  BlockRV b = blocks[size_t(r.below(blocks.size()))];
  std::vector<LoopRV> loops = s.get_loops(b);
  BlockRV other = blocks[size_t(r.below(blocks.size()))];
  std::vector<LoopRV> target = s.get_loops(other);
  LoopRV loop = loops.empty() ? LoopRV{-1} : loops[size_t(r.below(loops.size()))];
  switch (r.below(21)) {
    case 0:
    case 1:
      s.split(loop, r.below(2) ? std::vector<int64_t>{-1, 2 + r.below(4)}
                               : std::vector<int64_t>{2 + r.below(3), -1});
      return "split";
    case 2:
      s.split(loop, {-1, 2, 2});
      return "split3";
    case 3: {
      const int at = r.below(loops.size());
      s.fuse({loop, loops[size_t(std::min<size_t>(size_t(at) + 1, loops.size() - 1))]});
      return "fuse";
    }
    case 4:
      s.fuse(loops);
      return "fuse all";
    case 5:
    case 6: {
      std::vector<LoopRV> order = loops;
      std::shuffle(order.begin(), order.end(), r.engine);
      if (r.below(2) && order.size() > 2) order.resize(2);
      s.reorder(order);
      return "reorder";
    }
    case 7:
      s.parallel(loop);
      return "parallel";
    case 8:
      s.vectorize(loop);
      return "vectorize";
    case 9:
      s.compute_inline(b);
      return "compute_inline";
    case 10:
      s.reverse_compute_inline(b);
      return "reverse_compute_inline";
    case 11:
      s.compute_at(b, target[size_t(r.below(target.size()))]);
      return "compute_at";
    case 12:
      s.reverse_compute_at(b, target[size_t(r.below(target.size()))]);
      return "reverse_compute_at";
    case 13:
      s.decompose_reduction(b, loop);
      return "decompose_reduction";
    case 14:
      s.rfactor(loop, r.below(3) - 1);
      return "rfactor";
    case 15:
      s.cache_write(b, 0, "local");
      return "cache_write";
    case 16:
      s.cache_read(b, r.below(2), "local");
      return "cache_read";
    case 17:
      s.pad_iteration(b, r.below(s.get(b)->iter_vars.size()), 2 + r.below(4), r.below(2));
      return "pad_iteration";
    case 18:
      s.fuse_iterators(b, r.below(s.get(b)->iter_vars.size()), 2 + r.below(2));
      return "fuse_iterators";
    case 19:
      s.reindex(b, r.below(3));
      return "reindex";
    default:
      s.add_unit_loop(b);
      return "add_unit_loop";
  }
}

TEST(Random, SequencesKeepTheMeaning) {
  std::map<std::string, int> accepted, refused;
  int changed = 0;
  std::vector<Program> all = programs();
  std::vector<std::vector<NDArray>> expected;
  for (const Program& p : all) expected.push_back(run(p.function, p.sizes));
  const char* more = std::getenv("TENON_RANDOM_SEQUENCES");
  const int sequences = more ? std::atoi(more) : 900;
  for (int seed = 0; seed < sequences; ++seed) {
    const size_t which = size_t(seed) % all.size();
    const Program& p = all[which];
    Random r{std::mt19937_64(uint64_t(seed) * 7919 + 3)};
    Schedule s(p.function);
    for (int i = 0; i < 9; ++i) {
      const tir::PrimFunc before = s.function();
      try {
        ++accepted[act(s, r)];
      } catch (const ScheduleError& e) {
        ++refused[e.code];
        EXPECT_TRUE(e.code.starts_with("T07")) << e.what();
        EXPECT_GT(e.message.size(), 20u);
        EXPECT_TRUE(s.function().same_as(before)) << e.what();
      }
    }
    if (s.trace().steps.empty()) continue;
    ++changed;
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
  EXPECT_GT(changed, 600);
  for (const char* name :
       {"split", "fuse", "reorder", "parallel", "vectorize", "compute_inline", "reverse_compute_inline",
        "compute_at", "reverse_compute_at", "decompose_reduction", "rfactor", "cache_write", "cache_read",
        "pad_iteration", "fuse_iterators", "reindex"})
    EXPECT_GT(accepted[name], 5) << name;
  for (auto& [k, v] : refused) RecordProperty(k, v);
}

}  // namespace
}  // namespace tenon::testing
