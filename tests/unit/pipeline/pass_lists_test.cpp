// SPDX-License-Identifier: Apache-2.0
// The lists of passes against the table: order, needs, and what may be asked for by name.
#include "pipeline/pass_lists.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/diagnostic.h"

namespace tenon {
namespace {

TEST(PassLists, EveryGraphPassStandsInTheList) {
  std::set<std::string> listed;
  for (const Pass& p : graph_passes()) listed.insert(p.name);
  for (const Pass* p : all_passes())
    EXPECT_TRUE(!p->file.starts_with("src/pass/graph/") || listed.count(p->name)) << p->name;
}

TEST(PassLists, WhatAPassNeedsStandsBeforeIt) {
  for (const auto list : {graph_passes(), tensor_passes(), device_passes()}) {
    std::set<std::string> before;
    for (const Pass& p : list) {
      for (const std::string& need : p.needs)
        // A pass on request is there only when it is asked for; one that needs it runs it.
        EXPECT_TRUE(before.count(need)) << p.name << " needs " << need;
      before.insert(p.name);
    }
  }
}

TEST(PassLists, LevelsAndLinesOfHelp) {
  for (const Pass* p : all_passes()) {
    EXPECT_TRUE(p->level >= 0 && p->level <= kOnRequest) << p->name;
    EXPECT_EQ(p->rounds > 0, p->changes == Changes::rounding &&
                                 (p->name == "to_mixed_precision" || p->name == "promote_f16"))
        << p->name;
    if (p->name.starts_with("test_")) continue;
    EXPECT_FALSE(p->summary.empty()) << p->name;
    for (const PassOption& o : p->options) EXPECT_FALSE(o.help.empty()) << o.name;
  }
}

/// Codes of the mistakes of a request at -O2.
std::multiset<std::string> mistakes(const std::function<void(PassContext&)>& request,
                                    std::optional<std::span<const Pass>> named = {}) {
  std::multiset<std::string> out;
  PassContext context;
  request(context);
  DiagnosticList problems;
  check_pass_requests(context, problems, named);
  for (const Diagnostic& d : problems.all()) out.insert(d.code);
  return out;
}
using Codes = std::multiset<std::string>;

TEST(PassRequests, AllMistakesAtOnce) {
  EXPECT_EQ(mistakes([](PassContext& c) {
              c.required = {"fast_math", "fuse_osp", "common_subexpr_elim"};
              c.disabled = {"lower_to_call_tir", "canonicalise", "canonicalize"};
            }),
            (Codes{"T0919", "T0947", "T0946", "T0919"}));
  // A pass that every compilation needs is named once, not again by each that needs it.
  EXPECT_EQ(mistakes([](PassContext& c) {
              c.required = {"lazy_transform_params", "fuse_osp"};
              c.disabled = {"lift_transform_params", "lower_to_call_tir"};
              c.options.set_text("split_args.max=3");
            }),
            (Codes{"T1004", "T0919", "T0946", "T0945"}));
}

TEST(PassRequests, OptionsAreForPassesThatRun) {
  auto set = [](const char* text) { return [text](PassContext& c) { c.options.set_text(text); }; };
  EXPECT_EQ(mistakes(set("fuse_ops.max_depth=3")), Codes{});
  EXPECT_EQ(mistakes(set("split_args.max=3")), Codes{"T0945"});
  EXPECT_EQ(mistakes([](PassContext& c) {
              c.options.set_text("split_args.max=3");
              c.required.insert("split_args");
            }),
            Codes{});
  EXPECT_EQ(mistakes([](PassContext& c) {
              c.options.set_text("fuse_ops.max_depth=3");
              c.disabled.insert("fuse_ops");
            }),
            Codes{"T0945"});
  const Pass named[] = {get_pass("split_args")};
  EXPECT_EQ(mistakes(set("split_args.max=3"), named), Codes{});
  EXPECT_EQ(mistakes(set("fuse_ops.max_depth=3"), named), Codes{"T0945"});
}

}  // namespace
}  // namespace tenon
