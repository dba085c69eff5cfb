// SPDX-License-Identifier: Apache-2.0
// Copies side by side whose length is no whole number of vectors: rows of full vectors with an edge, and the
// same values.
#include "../schedule/programs.h"
#include "autoschedule/default.h"
#include "ir/text.h"
#include "test_targets.h"
#include "trace_steps.h"

namespace tenon::testing {
namespace {

/// `down` × `across` copies of A (rows, columns).
Program copies(const PrimExpr& rows, int64_t columns, int64_t down, int64_t across) {
  Tensor a = te::placeholder({rows, PrimExpr(columns)}, f32, "A");
  Tensor y = te::compute(
      {rows * PrimExpr(down), PrimExpr(columns * across)},
      [&](const Vars& v) { return a({tir::floormod(v[0], rows), tir::floormod(v[1], PrimExpr(columns))}); },
      "y");
  return {"copies", te::create_prim_func({a, y}), {}};
}

/// How the schedule splits a row last.
std::string factors_of(const Program& p) {
  expect_same(p, target_of({512, 32, 2}), "elementwise");
  const std::string trace =
      default_schedule(p.function, target_of({512, 32, 2}))->attrs.at("tenon.trace").as<std::string>();
  const size_t at = trace.rfind("\"factors\":");
  return at == trace.npos ? "" : trace.substr(at + 10, trace.find(']', at) - at - 9);
}

TEST(PanelRows, AreWholeVectorsWithAnEdge) {
  EXPECT_EQ(factors_of(copies(3, 100, 2, 4)), "[-1,16]");
  EXPECT_EQ(factors_of(copies(3, 23, 1, 3)), "[-1,16]");
  // Panels of whole vectors, and of so few that narrow ones do.
  EXPECT_EQ(factors_of(copies(3, 48, 2, 3)), "[-1,16]");
  EXPECT_EQ(factors_of(copies(3, 20, 2, 3)), "[-1,4]");
}

}  // namespace
}  // namespace tenon::testing
