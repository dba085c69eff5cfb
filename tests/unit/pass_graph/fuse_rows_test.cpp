// SPDX-License-Identifier: Apache-2.0
// fuse_rows: which programs become one, and that they still compute the same.
#include "support.h"
#include "target/target.h"

namespace tenon::graph::testing_graph {
namespace {

Ref<TargetNode> machine(int64_t l2_bytes) {
  Ref<TargetNode> t = make<TargetNode>();
  t.edit()->l2_bytes = l2_bytes;
  t.edit()->cores = 2;
  return t;
}

/// softmax(q · k + mask) · v, behind it a doubling; `seen`: the scores are a result, too. `after`: a product
/// of the result follows.
IRModule attention(const PrimExpr& n, const PrimExpr& s, bool seen = false, bool after = false) {
  Model m;
  const PrimExpr h(3), d(8);
  const Expr q = m.param("q", {h, n, d}), k = m.param("k", {h, d, s}), v = m.param("v", {h, s, d}),
             mask = m.param("mask", {n, s});
  const Expr scores = m.op("add", {m.op("matmul", {q, k}), mask});
  const Expr out = m.op("matmul", {m.op("nn.softmax", {scores}), v});
  const Expr twice = after ? m.op("matmul", {out, m.param("w", {h, d, d})}) : m.op("add", {out, out});
  return m.done(seen ? Expr(make<Tuple>(Array<Expr>{twice, scores})) : twice);
}

size_t programs_called(const IRModule& m) {
  size_t n = 0;
  for_each_binding(main_of(m)->body, [&](const Binding& b) { n += is_op(b->value, "call_tir"); });
  return n;
}

/// Programs called once the pass has run; `sizes`: of symbolic dimensions, by name.
size_t programs_of(const IRModule& model, int64_t l2_bytes,
                   const std::map<std::string, int64_t>& sizes = {}) {
  PassContext context = make_context();
  context.target = machine(l2_bytes);
  IRModule m = model;
  for (const char* pass : {"infer_types", "fuse_ops", "lower_to_call_tir"}) m = run_pass(pass, m, context);
  std::vector<NDArray> inputs;
  for (const VarRef& p : main_of(model)->params) {
    std::vector<int64_t> shape;
    for (const PrimExpr& x : *op::shape_of(*as_tensor(p)))
      shape.push_back(x.is<tir::Var>() ? sizes.at(x.as<tir::Var>()->name) : *tir::as_int(x));
    inputs.push_back(random_array(shape, f32, inputs.size() + 1));
  }
  const IRModule out = run_pass("fuse_rows", m, context);
  expect_valid(out);
  expect_close(run(model, inputs), run(out, inputs), 1e-6);
  return programs_called(out);
}

TEST(FuseRows, ProductsWithANormalisationBetween) { EXPECT_EQ(programs_of(attention(40, 50), 2 << 10), 1u); }

TEST(FuseRows, NotWhatStaysInTheCache) { EXPECT_EQ(programs_of(attention(40, 50), 1 << 20), 3u); }

TEST(FuseRows, NotWhatFollowsThem) { EXPECT_EQ(programs_of(attention(40, 50, false, true), 2 << 10), 2u); }

TEST(FuseRows, NotWhatOthersRead) { EXPECT_EQ(programs_of(attention(40, 50, true), 2 << 10), 3u); }

TEST(FuseRows, NotRowsThatShareTooMuch) {
  // Few rows: reading all keys for one block costs more than the scores.
  EXPECT_EQ(programs_of(attention(2, 600), 2 << 10), 3u);
}

/// One program for long rows beside three for others; the interpreter takes those that the sizes ask for.
TEST(FuseRows, OfAnyNumberWhereTheSizesOfARunPay) {
  const PrimExpr n = tir::var("n"), s = tir::var("s");
  for (const auto& [rows, keys] : {std::pair<int64_t, int64_t>{1, 1}, {40, 50}, {0, 7}, {2, 600}})
    EXPECT_EQ(programs_of(attention(n, s), 2 << 10, {{"n", rows}, {"s", keys}}), 4u);
  EXPECT_EQ(programs_of(attention(n, n), 2 << 10, {{"n", 35}}), 4u);
  EXPECT_EQ(programs_of(attention(n, 600), 2 << 10, {{"n", 40}}), 4u);
  EXPECT_EQ(programs_of(attention(40, s), 2 << 10, {{"s", 50}}), 4u);
  EXPECT_EQ(programs_of(attention(n, n, true), 2 << 10, {{"n", 35}}), 3u);
}

}  // namespace
}  // namespace tenon::graph::testing_graph
