// SPDX-License-Identifier: Apache-2.0
// Every graph pass on random graphs: the interpreter before and after. docs/testing.md says how to run more.
//
//   TENON_RANDOM_GRAPHS=100000 build/release/bin/test_trust --gtest_filter=RandomGraphs.*
//   TENON_RANDOM_SECONDS=180 TENON_RANDOM_SEED=$RANDOM …
#include <gtest/gtest.h>

#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <set>

#include "base/function.h"
#include "interpret/interpret.h"
#include "ir/structural.h"
#include "ir/text.h"
#include "ir/tir.h"
#include "ir/verify.h"
#include "ir/walk.h"
#include "pipeline/evaluator.h"
#include "pipeline/pass_lists.h"
#include "random_graph.h"
#include "random_patterns.h"
#include "target/target.h"
#include "tools/reduce_module.h"

namespace tenon::testing_trust {
namespace {

int64_t number(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? std::strtoll(text, nullptr, 10) : otherwise;
}

/// A program of one kind, the first there is, gets another of the same parameters: a copy with a mark.
IRModule alter_one_program(IRModule module, PassContext& context) {
  std::map<std::string, int> programs;
  tir::PrimFunc first;
  for (auto [name, f] : module.functions())
    if (auto p = f.cast<tir::PrimFuncNode>()) {
      const std::string kind = p->attrs.get_or("operator_name", Any("")).as<std::string>();
      if (!kind.empty()) ++programs[kind];
    }
  for (auto [name, f] : module.functions()) {
    auto p = f.cast<tir::PrimFuncNode>();
    if (!p || first) continue;
    if (programs[p->attrs.get_or("operator_name", Any("")).as<std::string>()] == 1) first = p;
  }
  if (!first) return module;
  tir::PrimFunc other = tir::rename_all(first);
  other.edit()->attrs.set("another", Any(int64_t(1)));
  const std::string name = module.fresh_name("another");
  module.set(name, other);
  PassContext own = context;
  own.options.set(
      "alter_op_impl.programs",
      Map<std::string, std::string>{{first->attrs.find("operator_name")->as<std::string>(), name}});
  module = run_pass("alter_op_impl", std::move(module), own);
  module.erase(name);
  return module;
}

/// Every pass in its place, those that only run by name too; defuse_ops gets something to take apart.
std::vector<Pass> all_graph_passes() {
  std::vector<Pass> out;
  for (Pass p : graph_passes()) {
    if (p.name == "defuse_ops") out.push_back(get_pass("fuse_ops"));
    if (p.name == "alter_op_impl") p.run = alter_one_program;
    out.push_back(p);
  }
  return out;
}

/// How one graph is treated, from its seed.
struct Treatment {
  PassContext context;
  VerifyPassesOptions options;
  bool compile = false;
};
class Treatments {
 public:
  Treatments() {
    base_.opt_level = 3;
    base_.evaluate = make_evaluator();
    for (const char* option :
         {"combine_parallel_conv2d.min_branches=2", "combine_parallel_dense.min_branches=2",
          "combine_parallel_batch_matmul.min_branches=2", "flexible_shape_dispatch.sizes=3",
          "fuse_ops_by_pattern.tables=default", "annotate_target.targets=default", "split_args.max=2",
          "split_call_tir_by_pattern.blocks=exp,tanh,add,sum,matmul,conv2d"})
      base_.options.set_text(option);
    for (const char* t :
         {"llvm", "llvm -mcpu=x86-64-v4", "llvm -mcpu=icelake-server", "llvm -mcpu=x86-64-v2"})
      targets_.push_back(parse_target(t));
    targets_.push_back(host_target());
    // A library that computes products, where there is one.
    if (blas()) targets_.push_back(parse_target("llvm -libs=cblas"));
  }
  /// Passes at random among those that run by name: all of them on every fourth graph. Those that change the
  /// parameters of main, or round, seldom.
  Treatment of(uint64_t seed, const IRModule& module) const {
    std::mt19937_64 random(seed * 0xD1B54A32D192ED03ull + 7);
    auto chance = [&](double p) { return double(random() >> 11) * 0x1p-53 < p; };
    Treatment out{base_, {}, seed % 100 == 0};
    const Target target = targets_[random() % targets_.size()];
    out.context.target = out.compile ? host_target() : target;
    const bool all = chance(0.25);
    for (const Pass& p : graph_passes()) {
      if (p.level < kOnRequest) continue;
      static const std::set<std::string_view> seldom{
          "bind_params",           "bind_symbolic_vars",    "update_param_type", "bundle_model_params",
          "lift_transform_params", "lazy_transform_params", "to_mixed_precision"};
      const double share = p.name == "to_mixed_precision" ? 0.06
                           : seldom.count(p.name)         ? 0.15
                           : all                          ? 1.0
                                                          : 0.5;
      if (chance(share) && !(out.compile && seldom.count(p.name)))
        out.context.required.insert(std::string(p.name));
    }
    DiagnosticList trees;
    verify(module, trees, true);
    if (!trees.empty()) {
      out.context.required.insert("to_a_normal_form");
      out.compile = false;
    }
    if (chance(0.2))
      out.context.options.set_text(chance(0.5)
                                       ? "convert_layout.desired=nn.conv2d=NHWC"
                                       : "convert_layout.desired=nn.conv2d=NHWC:OHWI,nn.max_pool2d=CHWN");
    configure(out.context, module, random);
    // Such graphs are too small for threads to pay.
    if (chance(0.5)) out.context.options.set_text("parallelize_branches.always=1");
    return out;
  }

 private:
  static bool blas() {
    for (const char* name : {"libopenblas.so.0", "libcblas.so.3", "libblas.so.3"})
      if (dlopen(name, RTLD_LAZY)) return true;
    return false;
  }
  /// What passes are to be told of this module.
  static void configure(PassContext& context, const IRModule& module, std::mt19937_64& random) {
    const auto f = module.find("main").cast<graph::Function>();
    std::string symbol;
    std::vector<size_t> with_symbol, without;
    for (size_t i = 0; i < f->params.size(); ++i) {
      const auto shape = graph::known_shape(f->params[i]->declared);
      if (shape && graph::static_shape(f->params[i]->declared)) without.push_back(i);
      if (!shape || shape->empty()) continue;
      if (const auto* v = (*shape)[0].as<tir::Var>()) {
        symbol = v->name;
        with_symbol.push_back(i);
      }
    }
    if (!symbol.empty())
      context.options.set("bind_symbolic_vars.values", Map<std::string, int64_t>{{symbol, 3}});
    if (symbol.empty()) context.required.erase("bind_symbolic_vars");
    if (with_symbol.size() == 1) {
      const graph::VarRef& v = f->params[with_symbol[0]];
      Array<PrimExpr> shape = *graph::known_shape(v->declared);
      shape.set(0, PrimExpr(3));
      const graph::Type type = graph::tensor_type(shape, graph::as_tensor(v->declared)->dtype);
      context.options.set("update_param_type.types", Map<std::string, graph::Type>{{v->name, type}});
    }
    if (with_symbol.size() != 1 || context.required.count("bind_symbolic_vars"))
      context.required.erase("update_param_type");
    if (without.empty()) {
      context.required.erase("bind_params");
    } else {
      const size_t k = without[random() % without.size()];
      const NDArray value = seeded_inputs(f, VerifyPassesOptions().seed, 3)[k].as<NDArray>();
      context.options.set("bind_params.values", Map<std::string, NDArray>{{f->params[k]->name, value}});
      // It would be a weight no more.
      if (context.required.count("bind_params"))
        for (const char* p : {"lift_transform_params", "lazy_transform_params", "bundle_model_params"})
          context.required.erase(p);
    }
    PassOptions wanted;  // of passes that run; others are refused
    for (const auto& [option, value] : context.options.given())
      if (context.required.count(option.substr(0, option.rfind('.')))) wanted.set(option, value);
    context.options = wanted;
  }
  PassContext base_;
  std::vector<Target> targets_;
};

/// How often each pass changed a module, what it says of it or where its values come from.
struct CountChanges : PassInstrument {
  IRModule module;
  std::map<std::string, int64_t> changes;
  std::set<std::string> changed;  ///< by this graph
  void before(const Pass& p, const IRModule& m) override {
    changes[std::string(p.name)] += 0;
    module = m;
  }
  void after(const Pass& p, const IRModule& m) override {
    if (!m.same_as(module) && (p.name == "label_ops" || !structural_equal(module, m)))
      changed.insert(std::string(p.name));
    module = IRModule();
  }
  void end_graph() {
    for (const std::string& name : changed) ++changes[name];
    changed.clear();
  }
};

TEST(RandomGraphs, SameSeedSameGraph) {
  EXPECT_EQ(print(random_graph(5)), print(random_graph(5)));
  EXPECT_NE(print(random_graph(5)), print(random_graph(6)));
}

TEST(RandomGraphs, EveryPatternIsTyped) {
  std::mt19937_64 random(3);
  for (size_t i = 0, last = 1; last; ++i) {
    for (int k = 0; k < 4; ++k) {
      try {
        const RandomPattern p = random_pattern([&](uint64_t n) { return random() % n; }, 1, i);
        last = p.name.size();
        if (last) verify_or_throw(p.module);
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
      }
    }
  }
}

void tensors_in(const Any& v, std::vector<NDArray>& out) {
  if (auto a = v.try_as<NDArray>(); a && a->get()) return out.push_back(*a);
  if (auto items = v.try_as<Array<Any>>())
    for (const Any& i : *items) tensors_in(i, out);
}

// What lift_transform_params takes out of main is executed, eagerly and one weight at a time.
TEST(RandomGraphs, LazyTransformsGiveWhatEagerOnesDo) {
  const int64_t graphs = number("TENON_RANDOM_GRAPHS", 60);
  std::vector<Any> weights;
  std::map<int64_t, Any> given;
  int64_t fetched = 0, lifted = 0;
  registry::add("test.lazy.get", tenon::Function([&](Arguments a) -> Any {
                  ++fetched;
                  return weights.at(size_t(a[0].as<int64_t>()));
                }),
                true);
  registry::add("test.lazy.set", tenon::Function([&](Arguments a) -> Any {
                  given[a[0].as<int64_t>()] = a[1];
                  return Any();
                }),
                true);
  PassContext context;
  context.options.set("lazy_transform_params.get_item", "test.lazy.get");
  context.options.set("lazy_transform_params.set_item", "test.lazy.set");
  for (int64_t k = 0; k < graphs; ++k) {
    const uint64_t seed = uint64_t(number("TENON_RANDOM_SEED", 1)) * 1000000 + uint64_t(k);
    IRModule module =
        run_pass("infer_types", run_pass("to_a_normal_form", random_graph(seed), context), context);
    auto main = module.find("main").cast<graph::Function>();
    main.edit()->attrs.set("num_inputs", Any(int64_t(main->params.size() / 2)));
    module.set("main", main);
    const IRModule eager = run_pass("lift_transform_params", module, context);
    const auto transform = eager.find("main_transform_params").cast<graph::Function>();
    if (!transform) continue;
    ++lifted;
    weights = seeded_inputs(transform, seed, 3);
    given.clear();
    fetched = 0;
    const IRModule lazy = run_pass("lazy_transform_params", eager, context);
    Array<Any> want;
    try {
      want = interpret(eager, "main_transform_params", weights).as<Array<Any>>();
    } catch (const Error& e) {  // drawn values need not suit: one is an index outside, say
      std::string code;
      try {
        interpret(lazy, "main_transform_params", {});
      } catch (const Error& other) {
        code = other.code;
      }
      EXPECT_EQ(code, e.code) << "seed " << seed << print(lazy);
      continue;
    }
    interpret(lazy, "main_transform_params", {});
    EXPECT_LE(fetched, int64_t(weights.size()));  // each weight once
    ASSERT_EQ(given.size(), want.size()) << print(lazy);
    for (size_t i = 0; i < want.size(); ++i) {
      std::vector<NDArray> a, b;
      tensors_in(want[i], a);
      tensors_in(given[int64_t(i)], b);
      ASSERT_EQ(a.size(), b.size());
      for (size_t j = 0; j < a.size(); ++j) {
        ASSERT_EQ(a[j].shape(), b[j].shape());
        EXPECT_EQ(std::memcmp(a[j].data(), b[j].data(), a[j].byte_size()), 0)
            << "seed " << seed << print(lazy);
      }
    }
  }
  EXPECT_GE(lifted, graphs / 6);
  registry::remove("test.lazy.get");
  registry::remove("test.lazy.set");
}

TEST(RandomGraphs, EveryPassKeepsResults) {
  const int64_t graphs = number("TENON_RANDOM_GRAPHS", 200), seconds = number("TENON_RANDOM_SECONDS", 0);
  const uint64_t seed =
      uint64_t(number("TENON_RANDOM_SEED", 1)) * 1000000 + uint64_t(number("TENON_RANDOM_FIRST", 0));
  const auto begin = std::chrono::steady_clock::now();
  const Treatments treatments;
  CountChanges counter;
  const std::vector<Pass> passes = all_graph_passes();
  std::map<std::string, int64_t> uses;
  int64_t done = 0, wrong = 0, compiled = 0;
  auto more = [&] {
    if (seconds == 0) return done < graphs;
    return std::chrono::steady_clock::now() - begin < std::chrono::seconds(seconds);
  };
  for (; more() && wrong < 10; ++done) {
    const IRModule module = random_graph(seed + uint64_t(done), {}, &uses);
    Treatment treatment = treatments.of(seed + uint64_t(done), module);
    const bool whole = treatment.compile;  // and the compiled model
    PassContext context = treatment.context;
    treatment.context.instruments.push_back(&counter);
    compiled += whole;
    auto failure = find_failure(module, passes, treatment.context, treatment.options, whole);
    counter.end_graph();
    if (!failure) continue;
    ++wrong;
    const IRModule small = reduce_module(module, [&](const IRModule& m) {
      auto again = find_failure(m, passes, context, treatment.options, whole);
      return again && again->same_as(*failure);
    });
    ADD_FAILURE() << "seed " << seed + uint64_t(done) << ", pass " << failure->pass << ": "
                  << failure->message << "\nrequired:"
                  << std::accumulate(context.required.begin(), context.required.end(), std::string(),
                                     [](std::string a, const std::string& b) { return a + " " + b; })
                  << "\n"
                  << print(small);
  }
  int64_t calls = 0, drawn = 0;
  std::string never;
  for (const Ref<graph::Op>& op : graph::all_ops()) {
    auto it = uses.find(op->name);
    if (it == uses.end())
      never += " " + op->name;
    else
      ++drawn, calls += it->second;
  }
  std::printf(
      "random graphs: %lld from seed %llu, %lld compiled, %lld calls of %lld of %zu operators, %lld wrong\n",
      static_cast<long long>(done), static_cast<unsigned long long>(seed), static_cast<long long>(compiled),
      static_cast<long long>(calls), static_cast<long long>(drawn), graph::all_ops().size(),
      static_cast<long long>(wrong));
  if (!never.empty()) std::printf("  operators not drawn:%s\n", never.c_str());
  EXPECT_GE(drawn, done >= 200 ? 200 : 1);
  std::string idle;
  for (const auto& [name, n] : counter.changes) {
    if (n == 0) idle += " " + name;
    if (n) std::printf("  %-34s changed %lld\n", name.c_str(), static_cast<long long>(n));
  }
  if (!idle.empty()) std::printf("  changed none:%s\n", idle.c_str());
  std::set<std::string_view> names;
  for (const Pass& p : graph_passes()) names.insert(p.name);
  if (done >= 100) {
    EXPECT_EQ(counter.changes.size(), names.size());
  }
}

}  // namespace
}  // namespace tenon::testing_trust
