// SPDX-License-Identifier: Apache-2.0
// A chain of tensor expressions that tests of schedules share.
#pragma once
#include "check.h"
#include "pipeline/pass_lists.h"

namespace tenon::testing {

using te::create_schedule;

inline const std::vector<Sizes> kSizes{{{"n", 1}, {"m", 1}}, {{"n", 5}, {"m", 7}}, {{"n", 16}, {"m", 8}}};

/// B = A * 2, C = max(B, 0), D = C + B over n × m
struct Chain {
  tir::VarRef n = tir::var("n"), m = tir::var("m");
  Tensor a = te::placeholder({n, m}, f32, "A");
  Tensor b = te::compute({n, m}, [this](const Vars& v) { return a({v[0], v[1]}) * 2.0; }, "B");
  Tensor c =
      te::compute({n, m}, [this](const Vars& v) { return tir::max(b({v[0], v[1]}), PrimExpr(0.0)); }, "C");
  Tensor d = te::compute({n, m}, [this](const Vars& v) { return c({v[0], v[1]}) + b({v[0], v[1]}); }, "D");
  Args args() const { return {a, d}; }
};

/// What the tensor passes make of a schedule, and whether the interpreter gets the same from it.
inline std::string lowered_text(const te::Schedule& s, const Args& args, const Sizes& sizes = {}) {
  check_te(s, args, sizes);
  IRModule m = te::lower(s, args, "main");
  const tir::PrimFunc before = m.find("main").cast<tir::PrimFuncNode>();
  PassContext context;
  std::span<const Pass> passes = tensor_passes();
  size_t count = 0;
  while (passes[count++].name != "simplify_tir") continue;
  m = run_passes(m, passes.first(count), context);
  tir::PrimFunc after = m.find("main").cast<tir::PrimFuncNode>();
  EXPECT_TRUE(same(run(before, sizes), run(after, sizes))) << print(after);
  after.edit()->attrs.erase("tenon.trace");  // its words are not the program's
  return print(after);
}

}  // namespace tenon::testing
