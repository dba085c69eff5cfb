// SPDX-License-Identifier: Apache-2.0
// Every graph pass on random graphs: the interpreter before and after. docs/testing.md says how to run more.
//
//   TENON_RANDOM_GRAPHS=100000 build/release/bin/test_trust --gtest_filter=RandomGraphs.*
//   TENON_RANDOM_SECONDS=180 TENON_RANDOM_SEED=$RANDOM …
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <set>

#include "ir/text.h"
#include "pass/graph/passes.h"
#include "pipeline/evaluator.h"
#include "pipeline/reduce_module.h"
#include "random_graph.h"
#include "target/target.h"

namespace tenon::testing_trust {
namespace {

int64_t number(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? std::strtoll(text, nullptr, 10) : otherwise;
}

/// Every pass in its place, those that only run by name too; defuse_ops gets something to take apart.
std::vector<Pass> all_graph_passes() {
  std::vector<Pass> out;
  for (const Pass& p : graph_pipeline()) {
    if (p.name == "defuse_ops") out.push_back({"fuse_ops", fuse_ops, 1, "for defuse_ops"});
    out.push_back(p);
  }
  return out;
}

/// Every pass runs, and those that need to be told do something.
PassContext everything() {
  PassContext context;
  context.opt_level = 3;
  context.target = Target(host_target());
  context.evaluate = make_evaluator(host_target());
  for (const Pass& p : graph_pipeline())
    if (p.name != "to_mixed_precision") context.required.insert(std::string(p.name));
  context.config.set("combine_parallel.min_branches", Any(int64_t(2)));
  context.config.set("flexible_shape_dispatch.sizes", Any(Array<int64_t>{3}));
  context.config.set("split_args.max", Any(int64_t(2)));
  context.config.set("split_call_tir.blocks",
                     Any(Array<std::string>{"exp", "tanh", "add", "sum", "matmul", "conv2d"}));
  return context;
}

/// How often each pass changed a module.
struct CountChanges : PassInstrument {
  IRModule module;
  std::map<std::string, int64_t> changes;
  void before(const Pass& p, const IRModule& m) override {
    changes[std::string(p.name)] += 0;
    module = m;
  }
  void after(const Pass& p, const IRModule& m) override {
    if (!m.same_as(module)) ++changes[std::string(p.name)];
    module = IRModule();
  }
};

TEST(RandomGraphs, SameSeedSameGraph) {
  EXPECT_EQ(print(random_graph(5)), print(random_graph(5)));
  EXPECT_NE(print(random_graph(5)), print(random_graph(6)));
}

TEST(RandomGraphs, EveryPassKeepsResults) {
  const int64_t graphs = number("TENON_RANDOM_GRAPHS", 250), seconds = number("TENON_RANDOM_SECONDS", 0);
  const uint64_t seed = uint64_t(number("TENON_RANDOM_SEED", 1)) * 1000000;
  const auto begin = std::chrono::steady_clock::now();
  PassContext context = everything();
  CountChanges counter;
  context.instruments.push_back(&counter);
  const std::vector<Pass> passes = all_graph_passes();
  std::map<std::string, int64_t> uses;
  int64_t done = 0, wrong = 0, compiled = 0;
  auto more = [&] {
    if (seconds == 0) return done < graphs;
    return std::chrono::steady_clock::now() - begin < std::chrono::seconds(seconds);
  };
  for (; more() && wrong < 10; ++done) {
    const IRModule module = random_graph(seed + uint64_t(done), {}, &uses);
    const bool whole = done % 25 == 0;  // and the compiled model
    compiled += whole;
    auto failure = find_failure(module, passes, context, {}, whole);
    if (!failure) continue;
    ++wrong;
    const IRModule small = reduce_module(module, [&](const IRModule& m) {
      auto again = find_failure(m, passes, context, {}, whole);
      return again && again->same_as(*failure);
    });
    ADD_FAILURE() << "seed " << seed + uint64_t(done) << ", pass " << failure->pass << ": "
                  << failure->message << "\n"
                  << print(small);
  }
  int64_t calls = 0;
  for (const auto& [name, n] : uses) calls += n;
  std::printf("random graphs: %lld from seed %llu, %lld compiled, %lld calls of %zu operators, %lld wrong\n",
              static_cast<long long>(done), static_cast<unsigned long long>(seed),
              static_cast<long long>(compiled), static_cast<long long>(calls), uses.size(),
              static_cast<long long>(wrong));
  std::string idle;
  for (const auto& [name, n] : counter.changes) {
    if (n == 0) idle += " " + name;
    if (n) std::printf("  %-34s changed %lld\n", name.c_str(), static_cast<long long>(n));
  }
  if (!idle.empty()) std::printf("  changed none:%s\n", idle.c_str());
  EXPECT_EQ(counter.changes.size(), [] {
    std::set<std::string_view> names;
    for (const Pass& p : graph_pipeline())
      if (p.name != "to_mixed_precision") names.insert(p.name);
    return names.size();
  }());
  EXPECT_GE(uses.size(), done >= 200 ? 100u : 1u);
}

}  // namespace
}  // namespace tenon::testing_trust
