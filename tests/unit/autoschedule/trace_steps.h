// SPDX-License-Identifier: Apache-2.0
// What the tests of the default schedule ask of its results.
#pragma once
#include "../schedule/programs.h"
#include "autoschedule/default.h"
#include "ir/text.h"

namespace tenon::testing {

/// The steps that made the schedule, as a script.
inline std::string steps_of(const tir::PrimFunc& f) {
  return Trace::from_json(f->attrs.at("tenon.trace").as<std::string>()).to_script();
}

/// How the rule, or its step, ended on the first block that it was tried on, which is the last of the
/// program.
inline std::string outcome_of(const std::vector<RuleAttempt>& attempts, const std::string& rule,
                              const std::string& step) {
  for (const RuleAttempt& a : attempts)
    if (a.rule == rule && a.step == step) return std::string(name_of(a.outcome));
  return {};
}

/// The schedule computes the same, and its trace makes it again; the outcome of the rule, or of its step.
inline std::string expect_same(const Program& p, const Target& t, const std::string& rule,
                               const std::string& step = {}) {
  std::vector<RuleAttempt> attempts;
  const tir::PrimFunc f = default_schedule(p.function, t, &attempts);
  EXPECT_EQ(problems_of(f), "") << p.name;
  EXPECT_TRUE(same(run(p.function, p.sizes), run(f, p.sizes))) << p.name << "\n" << print(f);
  Schedule again =
      Schedule::replay(p.function, Trace::from_json(f->attrs.at("tenon.trace").as<std::string>()));
  EXPECT_TRUE(structural_equal(again.function()->body, f->body)) << p.name;
  return outcome_of(attempts, rule, step);
}

}  // namespace tenon::testing
