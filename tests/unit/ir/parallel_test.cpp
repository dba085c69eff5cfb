// SPDX-License-Identifier: Apache-2.0
// Work on several threads: everything once, the first error, the result of one thread.
#include "ir/parallel.h"

#include <gtest/gtest.h>

#include <atomic>

#include "base/error.h"
#include "base/time_limit.h"
#include "ir/structural.h"
#include "ir/text.h"
#include "ir/tir.h"

namespace tenon {
namespace {

TEST(ForEachParallel, DoesEverythingOnce) {
  for (int threads : {1, 2, 7}) {
    std::vector<std::atomic<int>> done(1000);
    for_each_parallel(done.size(), threads, [&](size_t i) { ++done[i]; });
    for (auto& n : done) ASSERT_EQ(n, 1);
  }
  for_each_parallel(0, 4, [](size_t) { FAIL(); });
}

TEST(ForEachParallel, ThrowsTheFirstError) {
  for (int attempt = 0; attempt < 20; ++attempt) try {
      for_each_parallel(64, 4, [](size_t i) {
        if (i % 10 == 3) throw std::runtime_error(std::to_string(i));
      });
      FAIL();
    } catch (const std::runtime_error& e) {
      EXPECT_STREQ(e.what(), "3");
    }
}

TEST(ParallelPrograms, HoldForTheirScopeOnly) {
  EXPECT_EQ(ParallelPrograms::threads(), 1);
  {
    const ParallelPrograms scope(3);
    EXPECT_EQ(ParallelPrograms::threads(), 3);
    for_each_parallel(8, 2, [](size_t) { EXPECT_EQ(ParallelPrograms::threads(), 1); });
    EXPECT_EQ(ParallelPrograms::threads(), 3);
  }
  EXPECT_EQ(ParallelPrograms::threads(), 1);
}

TEST(ParallelPrograms, MapsLikeOneThread) {
  IRModule module = IRModule::create();
  for (int i = 0; i < 40; ++i) {
    tir::PrimFunc f = make<tir::PrimFuncNode>();
    f.edit()->body = tir::seq({make<tir::Evaluate>(PrimExpr::int_imm(i, i64))});
    module.set("f" + std::to_string(i), f);
  }
  auto change = [](const std::string& name, const tir::PrimFunc& f) -> ObjectRef {
    if (name.back() == '7') return {};
    tir::PrimFunc out = f;
    out.edit()->attrs.set("global_symbol", name);
    return out;
  };
  const IRModule one = module.map_prim(change);
  const ParallelPrograms scope(3);
  const IRModule several = module.map_prim(change);
  EXPECT_TRUE(structural_equal(one, several));
  EXPECT_EQ(print(one), print(several));
}

constexpr double kNoTime = 1e-9;  // seconds

TEST(TimeLimit, EndsWithWhatIsAtWork) {
  IRModule module = IRModule::create();
  for (int i = 0; i < 2; ++i) {
    tir::PrimFunc f = make<tir::PrimFuncNode>();
    f.edit()->body = tir::seq({make<tir::Evaluate>(PrimExpr::int_imm(i, i64))});
    f.edit()->attrs.set("tenon.source", Any(Array<std::string>{"m.onnx, node 'a'"}));
    module.set("f" + std::to_string(i), f);
  }
  for (int threads : {1, 3}) {
    const ParallelPrograms scope(threads);
    const TimeLimit limit(kNoTime);
    const AtWork at([] { return std::string("the pass `p`"); });
    try {
      module.map_prim([](const std::string&, const tir::PrimFunc&) { return ObjectRef(); });
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code, "T1005");
      EXPECT_EQ(e.kind, ErrorKind::limit);
      EXPECT_NE(e.message.find("the pass `p`, the program `f0` of m.onnx, node 'a'"), std::string::npos)
          << e.message;
    }
  }
  TimeLimit::check();  // it ended with its scope
}

TEST(TimeLimit, OfTwoTheShorterHolds) {
  const TimeLimit none(0), long_one(1e12);
  TimeLimit::check();
  {
    const TimeLimit short_one(kNoTime), longer(1e6);
    EXPECT_THROW(TimeLimit::check(), Error);
  }
  TimeLimit::check();
}

}  // namespace
}  // namespace tenon
