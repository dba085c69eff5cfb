// SPDX-License-Identifier: Apache-2.0
// Every graph pass on random graphs: the interpreter before and after. docs/testing.md says how to run more.
//
//   TENON_RANDOM_GRAPHS=100000 build/release/bin/test_trust --gtest_filter=RandomGraphs.*
//   TENON_RANDOM_SECONDS=180 TENON_RANDOM_SEED=$RANDOM …
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>

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

/// Every pass, those that only run by name too.
PassContext everything() {
  PassContext context;
  context.opt_level = 3;
  context.target = Target(host_target());
  context.evaluate = make_evaluator(host_target());
  for (const Pass& p : graph_pipeline())
    if (p.name != "to_mixed_precision") context.required.insert(std::string(p.name));
  context.config.set("combine_parallel.min_branches", Any(int64_t(2)));
  return context;
}

TEST(RandomGraphs, SameSeedSameGraph) {
  EXPECT_EQ(print(random_graph(5)), print(random_graph(5)));
  EXPECT_NE(print(random_graph(5)), print(random_graph(6)));
}

TEST(RandomGraphs, EveryPassKeepsResults) {
  const int64_t graphs = number("TENON_RANDOM_GRAPHS", 250), seconds = number("TENON_RANDOM_SECONDS", 0);
  const uint64_t seed = uint64_t(number("TENON_RANDOM_SEED", 1)) * 1000000;
  const auto begin = std::chrono::steady_clock::now();
  const PassContext context = everything();
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
    auto failure = find_failure(module, graph_pipeline(), context, {}, whole);
    if (!failure) continue;
    ++wrong;
    const IRModule small = reduce_module(module, [&](const IRModule& m) {
      auto again = find_failure(m, graph_pipeline(), context, {}, whole);
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
  EXPECT_GE(uses.size(), done >= 200 ? 100u : 1u);
}

}  // namespace
}  // namespace tenon::testing_trust
