// SPDX-License-Identifier: Apache-2.0
// Versions for one row: what they are of, and that they compute what the program does.
#include "ir/attr_keys.h"
#include "ir/pass.h"
#include "machine.h"
#include "programs.h"

namespace tenon {
namespace {

using namespace tir;
using te::Tensor;

/// Σ A[…, k] · B[k, j] + R[j], over leading sizes.
PrimFunc product(const Array<PrimExpr>& rows, int64_t inputs, int64_t columns,
                 const Array<VarRef>& symbolic = {}) {
  Array<PrimExpr> data = rows, result = rows;
  data.push_back(n64(inputs)), result.push_back(n64(columns));
  Tensor a = te::placeholder(data, f32, "A"), b = te::placeholder({n64(inputs), n64(columns)}, f32, "B"),
         r = te::placeholder({n64(columns)}, f32, "R");
  IterVar k = te::reduce_axis(range(n64(0), n64(inputs)), "k");
  Tensor c = te::compute(
      result,
      [&](const Array<VarRef>& i) {
        Array<PrimExpr> at;
        for (size_t d = 0; d < rows.size(); ++d) at.push_back(i[d]);
        at.push_back(k->var);
        return te::sum(a(at) * b({k->var, i[rows.size()]}), {k});
      },
      "C");
  Tensor d = te::compute(
      result,
      [&](const Array<VarRef>& i) {
        Array<PrimExpr> at;
        for (const VarRef& v : i) at.push_back(v);
        return c(at) + r({i[rows.size()]});
      },
      "D");
  PrimFunc f = te::create_prim_func({a, b, r, d}, symbolic);
  f.edit()->attrs.set(kPatternAttr, Any(int64_t(4)));  // of an operator
  return f;
}

IRModule with_versions(const PrimFunc& f) {
  PassContext context;
  context.target = machine();
  return run_pass("one_row_versions", module_of(f), context);
}

TEST(OneRowVersions, ComputeWhatTheProgramDoes) {
  const VarRef batch = var("batch"), steps = var("steps");
  PassContext context;
  context.target = machine();
  const IRModule m = run_pass("default_schedule", with_versions(product({batch, steps}, 24, 40)), context);
  ASSERT_EQ(m.functions().size(), 2u) << print(m);
  for (const auto& [b, s] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {1, 5}, {9, 1}, {0, 1}}) {
    const IRModule out = check_pipeline(m, {random_array({b, s, 24}, f32, 1), random_array({24, 40}, f32, 2),
                                            random_array({40}, f32, 3), NDArray::zeros({b, s, 40}, f32)});
    EXPECT_EQ(out.functions().size(), 1u) << print(out);
    if (HasFailure()) return;
  }
}

/// Programs may be lowered one by one, as `--explain` does.
TEST(OneRowVersions, StayAloneWithoutTheirProgram) {
  PassContext context;
  context.target = machine();
  const IRModule both = with_versions(product({var("n")}, 24, 40));
  IRModule m = both;
  for (const auto& [name, f] : both.functions())
    if (!name.ends_with("_one_row")) m.erase(name);
  ASSERT_EQ(m.functions().size(), 1u) << print(m);
  EXPECT_EQ(run_pass("join_versions", m, context).functions().size(), 1u);
}

/// Sizes of the last axis, of windows and of what is joined count no rows.
TEST(OneRowVersions, AreOfShortRows) {
  const VarRef n = var("n"), m = var("m"), k = var("k");
  EXPECT_EQ(with_versions(product({n}, 24, 40)).functions().size(), 2u);
  EXPECT_EQ(with_versions(product({n64(2), n}, 24, 40)).functions().size(), 2u);
  EXPECT_EQ(with_versions(product({n * m}, 24, 40, {n, m})).functions().size(), 2u);
  EXPECT_EQ(with_versions(product({n - n64(4)}, 24, 40, {n})).functions().size(), 1u);
  EXPECT_EQ(with_versions(product({n}, 1024, 1024)).functions().size(), 1u);
  EXPECT_EQ(with_versions(product({n64(7)}, 24, 40)).functions().size(), 1u);
}

/// What is behind the rows stays of any size.
TEST(OneRowVersions, KeepOtherSizes) {
  const VarRef batch = var("batch"), rows = var("rows"), columns = var("columns"), inputs = var("inputs");
  Tensor a = te::placeholder({batch, n64(3), rows, inputs}, f32, "A"),
         b = te::placeholder({batch, n64(3), inputs, columns}, f32, "B");
  IterVar k = te::reduce_axis(range(n64(0), inputs), "k");
  Tensor c = te::compute(
      {batch, n64(3), rows, columns},
      [&](const Array<VarRef>& i) {
        return te::sum(a({i[0], i[1], i[2], k->var}) * b({i[0], i[1], k->var, i[3]}), {k});
      },
      "C");
  PrimFunc f = te::create_prim_func({a, b, c}, {batch, rows, columns, inputs});
  f.edit()->attrs.set(kPatternAttr, Any(int64_t(4)));
  PassContext context;
  context.target = machine();
  const IRModule m = run_pass("default_schedule", with_versions(f), context);
  ASSERT_EQ(m.functions().size(), 2u) << print(m);
  for (const auto& [n, r, w] :
       std::vector<std::array<int64_t, 3>>{{1, 1, 1}, {1, 1, 21}, {1, 1, 0}, {2, 1, 9}, {1, 3, 17}}) {
    check_pipeline(m, {random_array({n, 3, r, 5}, f32, 1), random_array({n, 3, 5, w}, f32, 2),
                       NDArray::zeros({n, 3, r, w}, f32)});
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace tenon
