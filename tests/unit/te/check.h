// SPDX-License-Identifier: Apache-2.0
// What tests of tensor expressions share: a scheduled program computes what the unscheduled one computes, is
// well formed, and its trace makes it again.
#pragma once
#include "../schedule/programs.h"
#include "ir/text.h"
#include "schedule/te/te_schedule.h"

namespace tenon::testing {

using te::Operation;
using te::Stage;
using Args = Array<Tensor>;
using Sizes = std::map<std::string, int64_t>;

inline tenon::Schedule check_te(const te::Schedule& s, const Args& args, const Sizes& sizes = {},
                                const Array<tir::VarRef>& symbolic = {}) {
  const tir::PrimFunc plain = te::create_prim_func(args, symbolic);
  tenon::Schedule done = s.apply(args, symbolic);
  const std::string script = done.trace().to_script() + print(done.function());
  EXPECT_EQ(problems_of(done.function()), "") << script;
  EXPECT_TRUE(same(run(plain, sizes), run(done.function(), sizes))) << script;
  // Independent loops may run in any order.
  EXPECT_TRUE(same(run(plain, sizes), run(reversed(done.function()), sizes))) << script;
  tenon::Schedule again = tenon::Schedule::replay(plain, Trace::from_json(done.trace().to_json()));
  EXPECT_TRUE(structural_equal(done.function(), again.function())) << script;
  return done;
}

template <class E = ScheduleError, class F>
void refused_te(const std::string& code, const std::string& words, F step) {
  try {
    step();
    ADD_FAILURE() << "accepted, expected " << code << ": " << words;
  } catch (const DiagnosticError& e) {
    EXPECT_NE(std::string(e.what()).find(code), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
  } catch (const Error& e) {
    EXPECT_EQ(e.code, code) << e.what();
    EXPECT_NE(e.message.find(words), std::string::npos) << e.what();
  }
}

/// Extents of the loops around a block, outermost first; -1: not a constant.
inline std::vector<int64_t> extents(tenon::Schedule& s, const std::string& block) {
  std::vector<int64_t> out;
  for (LoopRV l : s.get_loops(s.get_block(block))) out.push_back(extent(s, l));
  return out;
}

struct Matmul {
  Tensor a, b, c;
  tir::IterVar k;
  Args args() const { return {a, b, c}; }
};
inline Matmul make_matmul(PrimExpr m, PrimExpr n, PrimExpr k) {
  Matmul t;
  t.a = te::placeholder({m, k}, f32, "A");
  t.b = te::placeholder({k, n}, f32, "B");
  t.k = te::reduce_axis(tir::range(PrimExpr(0), k), "k");
  t.c = te::compute(
      {m, n}, [&](const Vars& v) { return te::sum(t.a({v[0], t.k->var}) * t.b({t.k->var, v[1]}), {t.k}); },
      "C");
  return t;
}

}  // namespace tenon::testing
