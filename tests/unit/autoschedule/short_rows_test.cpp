// SPDX-License-Identifier: Apache-2.0
// Rows of fewer than two vectors: dear steps and those of rows that are written anew keep lanes, what LLVM
// makes vectors of itself stays as it is; the same values, and from the trace the same program.
#include "../schedule/programs.h"
#include "autoschedule/default.h"
#include "ir/text.h"
#include "test_targets.h"
#include "trace_steps.h"

namespace tenon::testing {
namespace {

/// A - max - log Σ exp(A - max) of each row, the exponentials inside of the sum; `rows`: of the rows, else
/// the logarithm alone.
Program log_softmax(int64_t n, int64_t k, bool rows) {
  Tensor a = te::placeholder({n, k}, f32, "A");
  auto axis = [&](const char* name) { return te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(k)), name); };
  tir::IterVar i = axis("i"), j = axis("j");
  Tensor top = te::compute({n}, [&](const Vars& v) { return te::max(a({v[0], i->var}), {i}); }, "top");
  Tensor sum = te::compute(
      {n}, [&](const Vars& v) { return te::sum(tir::exp(a({v[0], j->var}) - top({v[0]})), {j}); }, "sum");
  Tensor log = te::compute({n}, [&](const Vars& v) { return tir::log(sum({v[0]})); }, "log");
  Tensor y =
      te::compute({n, k}, [&](const Vars& v) { return a({v[0], v[1]}) - top({v[0]}) - log({v[0]}); }, "y");
  return {"log_softmax", te::create_prim_func({a, rows ? y : log}), {}};
}

/// Sums of partial results that the schedule has.
size_t sums_in_lanes(const Program& p) {
  expect_same(p, target_of({512, 32, 2}), "row_by_row");
  const std::string trace =
      default_schedule(p.function, target_of({512, 32, 2}))->attrs.at("tenon.trace").as<std::string>();
  size_t count = 0;
  for (size_t at = trace.find("\"rfactor\""); at != trace.npos; at = trace.find("\"rfactor\"", at + 1))
    ++count;
  return count;
}

TEST(ShortRows, KeepLanesWhereThatPays) {
  // Maximum and sum in lanes, and these in fewer ones.
  EXPECT_EQ(sums_in_lanes(log_softmax(6, 17, true)), 4u);
  EXPECT_EQ(sums_in_lanes(log_softmax(6, 31, true)), 4u);
  EXPECT_EQ(sums_in_lanes(log_softmax(6, 13, true)), 4u) << "one vector, masked";
  // The sum of exponentials alone.
  EXPECT_EQ(sums_in_lanes(log_softmax(6, 7, true)), 1u);
  EXPECT_EQ(sums_in_lanes(log_softmax(6, 17, false)), 2u);
}
TEST(ShortRows, StayForLlvm) {
  EXPECT_EQ(sums_in_lanes(log_softmax(6, 3, true)), 0u);
  EXPECT_EQ(sums_in_lanes(log_softmax(6, 8, false)), 0u);
  EXPECT_EQ(sums_in_lanes(row_sum(6, 17)), 0u);
  EXPECT_EQ(sums_in_lanes(row_sum(6, 12)), 0u);
  EXPECT_GT(sums_in_lanes(row_sum(6, 31)), 0u);
}

}  // namespace
}  // namespace tenon::testing
