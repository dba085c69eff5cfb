// SPDX-License-Identifier: Apache-2.0
// Operators side by side: chosen where it pays, the same values with any number of threads and by both code
// generators, in memory of their own.
#include <cstring>

#include "../pass_graph/support.h"
#include "ir/memory_plan.h"
#include "op/attrs.h"
#include "pipeline/compile.h"
#include "pipeline/emit.h"
#include "runtime/vm.h"
#include "support.h"

namespace tenon::graph::testing_graph {
namespace {

Target two_cores(const std::string& kind = "llvm") {
  Target t = parse_target(kind);
  t.edit()->cores = 2;
  return t;
}
CompileOptions options_for(const Target& target, bool always = false) {
  CompileOptions o;
  o.target = to_json(target);
  o.code = CodeForm::objects;
  if (always) {
    o.pass_options.push_back("parallelize_branches.always=1");
    o.pass_options.push_back("fuse_parallel_loops.always=1");
  }
  return o;
}
CompileOptions apart(CompileOptions o) {
  o.pass_options = {};
  o.disable_passes.push_back("parallelize_branches");
  o.disable_passes.push_back("fuse_parallel_loops");
  return o;
}
std::vector<NDArray> run(const Compiled& c, const std::vector<NDArray>& inputs, int threads = 2) {
  Session session(jit_artifact(c));
  session.set_threads(threads);
  return session.invoke(inputs);
}

bool same_bits(const NDArray& a, const NDArray& b) {
  return a.shape() == b.shape() && std::memcmp(a.data(), b.data(), size_t(a.size()) * sizeof(float)) == 0;
}

/// Three products of so many rows, each worth half the time of a fork and more, and what reads all.
IRModule branches(int64_t rows) {
  Model m;
  const Expr x = m.param("x", {rows, 64});
  const Expr a = m.op("nn.relu", {m.op("matmul", {x, m.weight({64, 64})})});
  const Expr b = m.op("tanh", {m.op("matmul", {x, m.weight({64, 64}, 12)})});
  const Expr c = m.op("exp", {m.op("matmul", {x, m.weight({64, 64}, 13)})});
  const auto rows_of = [&](const Expr& e) { return m.op("nn.softmax", {e}); };
  return m.done(m.op("add", {rows_of(a), m.op("add", {rows_of(b), rows_of(c)})}));
}
int joined_calls(const IRModule& planned) {
  int n = 0;
  for_each_binding(main_of(planned)->body, [&](const Binding& b) {
    const auto* call = b->value.as<Call>();
    n += is_op(b->value, "call_tir") && call->type_args.size() > 1;
  });
  return n;
}
/// Loops whose body says which branch a unit is of.
int common_loops(const IRModule& lowered) {
  int n = 0;
  for (auto [name, f] : lowered.functions())
    if (const auto* p = f.as<tir::PrimFuncNode>())
      pre_order(p->body, [&](const ObjectRef& o) {
        const auto* loop = o.as<tir::For>();
        n += loop && loop->kind == tir::ForKind::parallel && loop->loop_var->name == "unit";
        return true;
      });
  return n;
}

TEST(Branches, SideBySideWhereItPays) {
  const std::vector<NDArray> inputs{random_array({256, 64})};
  const Compiled together = compile(branches(256), options_for(two_cores()));
  const Compiled alone = compile(branches(256), apart(options_for(two_cores())));
  EXPECT_GE(joined_calls(together.planned), 1);
  EXPECT_GE(common_loops(together.lowered), 1);
  EXPECT_EQ(joined_calls(alone.planned), 0);
  const NDArray want = run(alone, inputs, 1)[0];
  for (int threads : {1, 2}) EXPECT_TRUE(same_bits(run(together, inputs, threads)[0], want)) << threads;
  // Nothing where there is little to do, one core, or another level.
  EXPECT_EQ(joined_calls(compile(branches(1), options_for(two_cores())).planned), 0);
  Target one = two_cores();
  one.edit()->cores = 1;
  EXPECT_EQ(joined_calls(compile(branches(256), options_for(one)).planned), 0);
  CompileOptions plain = options_for(two_cores());
  plain.opt_level = 0;
  EXPECT_EQ(joined_calls(compile(branches(256), plain).planned), 0);
}

/// What stands in front of the products, of one row, gains nothing beside them.
TEST(Branches, WhatStandsFirstStaysWhereItGainsNothing) {
  Model m;
  const Expr x = m.param("x", {1, 64}), y = m.param("y", {256, 64});
  Expr sum = m.op("nn.softmax", {x});
  for (const int seed : {11, 12, 13}) {
    const Expr product = m.op("tanh", {m.op("matmul", {y, m.weight({64, 64}, seed)})});
    sum = m.op("add", {m.op("nn.softmax", {product}), sum});
  }
  const IRModule module = m.done(sum);
  const std::vector<NDArray> inputs{random_array({1, 64}), random_array({256, 64})};
  const Compiled together = compile(module, options_for(two_cores()));
  EXPECT_GE(joined_calls(together.planned), 1);
  EXPECT_TRUE(same_bits(run(together, inputs)[0],
                        run(compile(module, apart(options_for(two_cores()))), inputs, 1)[0]));
}

TEST(Branches, RecordedRunsAndBothCodeGenerators) {
  const std::vector<NDArray> inputs{random_array({256, 64})};
  const NDArray want = run(compile(branches(256), apart(options_for(two_cores("c")))), inputs, 1)[0];
  const Compiled c = compile(branches(256), options_for(two_cores("c")));
  EXPECT_GE(common_loops(c.lowered), 1);
  EXPECT_TRUE(same_bits(run(c, inputs)[0], want));
  // The third run is written down, later ones do what it says.
  const NDArray of_llvm = run(compile(branches(256), apart(options_for(two_cores()))), inputs, 1)[0];
  Session session(jit_artifact(compile(branches(256), options_for(two_cores()))));
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(same_bits(session.invoke(inputs)[0], of_llvm)) << i;
}

TEST(Branches, ResultsOfOneCallShareNoMemory) {
  const Compiled c = compile(branches(256), options_for(two_cores()));
  const Ref<Function> f = main_of(c.planned);
  size_t number = 0;
  for (const auto& [var, call] : planned_bindings(*f).calls) {
    const Array<int64_t>& at = f->plan->calls[number++];
    if (call->type_args.size() < 2) continue;
    // Nor with what the call reads.
    std::vector<std::pair<int64_t, int64_t>> pieces;
    for (size_t i = 0; i < at.size(); ++i) {
      if (at[i] < 0) continue;
      const int64_t bytes = 4 * 256 * 64;
      for (const auto& [begin, end] : pieces) EXPECT_TRUE(at[i] >= end || at[i] + bytes <= begin);
      pieces.emplace_back(at[i], at[i] + bytes);
    }
    EXPECT_GE(pieces.size(), 1u);
  }
}

/// Graphs of small operators with branches, every way of running them.
TEST(Branches, RandomGraphsAreComputedAlike) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    std::mt19937_64 random(seed);
    const auto pick = [&](size_t n) { return size_t(random() % n); };
    Model m;
    const int64_t rows = int64_t(1 + pick(9)), columns = int64_t(1 + pick(40));
    std::vector<Expr> values{m.param("x", {rows, columns}), m.param("y", {rows, columns})};
    for (int i = 0; i < 14; ++i) {
      const Expr a = values[pick(values.size())], b = values[pick(values.size())];
      switch (pick(6)) {
        case 0:
          values.push_back(m.op("nn.softmax", {a}));
          break;
        case 1:
          values.push_back(m.op("add", {a, b}));
          break;
        case 2:
          values.push_back(m.op("tanh", {a}));
          break;
        case 3:
          values.push_back(m.op("nn.log_softmax", {a}));
          break;
        case 4:
          values.push_back(m.op("matmul", {a, m.weight({columns, columns}, seed + 3)}));
          break;
        default:
          values.push_back(m.op("multiply", {a, b}));
      }
    }
    const IRModule module = m.done(make<Tuple>(
        Array<Expr>{values[values.size() - 1], values[values.size() - 2], values[values.size() - 3]}));
    const std::vector<NDArray> inputs{random_array({rows, columns}, f32, seed),
                                      random_array({rows, columns}, f32, seed + 1)};
    for (const char* kind : {"llvm", "c"}) {
      const CompileOptions always = options_for(two_cores(kind), true);
      const auto want = run(compile(module, apart(always)), inputs, 1),
                 got = run(compile(module, always), inputs);
      ASSERT_EQ(want.size(), got.size());
      for (size_t k = 0; k < want.size(); ++k)
        EXPECT_TRUE(same_bits(got[k], want[k])) << kind << " seed " << seed << " result " << k;
    }
  }
}

}  // namespace
}  // namespace tenon::graph::testing_graph
