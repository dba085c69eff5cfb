// SPDX-License-Identifier: Apache-2.0
// Random graphs, partitioned for a generator that takes operators at random: the interpreter before and
// after.
//
//   TENON_RANDOM_GRAPHS=5000 build/release/bin/test_trust --gtest_filter=RandomPartitions.*
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "base/function.h"
#include "interpret/interpret.h"
#include "ir/pass.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "pipeline/evaluator.h"
#include "random_graph.h"
#include "tools/verify_passes.h"

namespace tenon::testing_trust {
namespace {

int64_t number(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? std::strtoll(text, nullptr, 10) : otherwise;
}

void tensors_in(const Any& v, std::vector<NDArray>& out) {
  if (auto a = v.try_as<NDArray>(); a && a->get()) return out.push_back(*a);
  if (auto items = v.try_as<Array<Any>>())
    for (const Any& i : *items) tensors_in(i, out);
}

/// Results, or the code of what the run is refused with (sizes that are known at run time only).
struct Outcome {
  std::vector<NDArray> tensors;
  std::string refused;
};
Outcome outcome_of(const IRModule& module, const std::vector<Any>& inputs) {
  Outcome out;
  try {
    tensors_in(interpret(module, "main", inputs), out.tensors);
  } catch (const Error& e) {
    out.refused = e.code;
  }
  return out;
}

bool same(const Outcome& x, const Outcome& y) {
  const auto &a = x.tensors, &b = y.tensors;
  if (a.size() != b.size() || x.refused != y.refused) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i].shape() != b[i].shape() || a[i].dtype() != b[i].dtype() ||
        std::memcmp(a[i].data(), b[i].data(), a[i].byte_size()) != 0)
      return false;
  return true;
}

TEST(RandomPartitions, PartitionedAndUnpartitionedModulesGiveEqualResults) {
  const int64_t graphs = number("TENON_RANDOM_GRAPHS", 100), first = number("TENON_RANDOM_SEED", 1) * 1000000;
  std::mt19937_64 random(static_cast<uint64_t>(first));
  for (const char* name : {"tenon.ext.red.supports", "tenon.ext.blue.supports"})
    registry::add(name, Function([&](Arguments) -> Any { return random() % 3 != 0; }), true);
  for (const char* name : {"tenon.ext.red", "tenon.ext.blue"})
    registry::add(
        name, Function([name](Arguments args) -> Any {
          const std::string own = std::string(name).substr(10);
          AttrMap out;
          for (auto [region, object] : args[0].as<IRModule>().functions())
            if (object.cast<graph::Function>()->attrs.get_or("Codegen", Any("")).as<std::string>() == own)
              out.set(region, args[0]);
          return out;
        }),
        true);
  PassContext context;
  context.options.set_text("fuse_ops_by_pattern.tables=default");
  context.options.set_text("annotate_target.targets=default,red,blue");
  // "default" takes composites and nothing else here.
  const Function supports = registry::find("tenon.ext.default.supports");
  registry::add("tenon.ext.default.supports", Function([](Arguments) -> Any { return false; }), true);
  int64_t regions = 0, refused = 0;
  for (int64_t k = 0; k < graphs && !testing::Test::HasFailure(); ++k) {
    IRModule module = run_pass("to_a_normal_form", random_graph(uint64_t(first + k)), context);
    module = run_pass("infer_types", module, context);
    const auto main = module.find("main").cast<graph::Function>();
    const std::vector<Any> inputs = seeded_inputs(main, uint64_t(k), 3);
    const auto want = outcome_of(module, inputs);
    const IRModule before = module;
    refused += !want.refused.empty();
    for (const char* pass : {"fuse_ops_by_pattern", "annotate_target", "merge_compiler_regions",
                             "partition_graph", "run_codegen"}) {
      const size_t functions = module.functions().size();
      module = run_pass(pass, module, context);
      if (pass == std::string("merge_compiler_regions"))
        regions += int64_t(functions) > int64_t(module.functions().size());
      DiagnosticList problems;
      verify(module, problems, true);
      for (const Diagnostic& d : problems.all())
        ADD_FAILURE() << "seed " << first + k << " " << pass << ": " << render(d) << print(module);
      ASSERT_TRUE(same(want, outcome_of(module, inputs)))
          << "seed " << first + k << " " << pass << print(before) << print(module);
    }
  }
  registry::add("tenon.ext.default.supports", supports, true);
  for (const char* name :
       {"tenon.ext.red", "tenon.ext.blue", "tenon.ext.red.supports", "tenon.ext.blue.supports"})
    registry::remove(name);
  EXPECT_LE(refused, graphs / 20);
  EXPECT_GE(regions, graphs / 4);  // graphs in which regions became one
}

}  // namespace
}  // namespace tenon::testing_trust
