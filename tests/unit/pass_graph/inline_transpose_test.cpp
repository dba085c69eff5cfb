// SPDX-License-Identifier: Apache-2.0
// inline_transpose: which products have two forms, and that both compute the same.
#include "support.h"
#include "target/target.h"

namespace tenon::graph::testing_graph {
namespace {

constexpr int64_t kHeads = 3, kWidth = 32;

struct Product {
  PrimExpr rows = tir::var("n"), keys = tir::var("s");
  Array<int64_t> axes{0, 2, 1};
  int64_t width = kWidth;
  bool seen = false;       ///< the copy is a result, too
  bool attention = false;  ///< a softmax and a second product follow
};

/// Queries by transposed keys, scaled.
IRModule product(const Product& p) {
  Model m;
  const PrimExpr h(kHeads), d(p.width);
  const Expr q = m.param("q", {h, p.rows, d}), k = m.param("k", {h, p.keys, d}),
             v = m.param("v", {h, p.keys, d});
  const Expr t = m.op("permute_dims", {k}, op::make_attrs<op::AxesAttrs>(p.axes));
  const Expr product = m.op("matmul", {q, t});
  Expr out = m.op("add", {product, product});
  if (p.attention) out = m.op("matmul", {m.op("nn.softmax", {out}), v});
  return m.done(p.seen ? Expr(make<Tuple>(Array<Expr>{out, t})) : out);
}

size_t branches(const IRModule& m) {
  size_t n = 0;
  for_each_binding(main_of(m)->body, [&](const Binding& b) { n += b->value.is<If>(); });
  return n;
}

/// Branches once the pass has run, with values compared for several numbers of rows.
size_t branches_of(const Product& p) {
  const IRModule model = product(p);
  PassContext context = make_context();
  Ref<TargetNode> target = make<TargetNode>();
  target.edit()->l2_bytes = 2 << 10;
  target.edit()->cores = 2;
  context.target = target;
  IRModule out = model;
  for (const char* pass : {"infer_types", "fuse_ops", "lower_to_call_tir", "fuse_rows", "inline_transpose"})
    out = run_pass(pass, out, context);
  expect_valid(out);
  for (const int64_t rows : {0, 1, 2, 3, 40}) {
    const int64_t n = tir::as_int(p.rows).value_or(rows);
    const auto in = [&](int64_t size, int64_t seed) {
      return random_array({kHeads, size, p.width}, f32, seed);
    };
    const std::vector<NDArray> inputs{in(n, 1), in(50, 2), in(50, 3)};
    expect_close(run(model, inputs), run(out, inputs), 1e-5);
  }
  return branches(out);
}

TEST(InlineTranspose, RowsOfSymbolicNumberHaveTwoForms) { EXPECT_EQ(branches_of({}), 1u); }

TEST(InlineTranspose, NotKnownRows) { EXPECT_EQ(branches_of({.rows = PrimExpr(4)}), 0u); }

TEST(InlineTranspose, NotACopyThatOthersRead) { EXPECT_EQ(branches_of({.seen = true}), 0u); }

TEST(InlineTranspose, NotShortSums) { EXPECT_EQ(branches_of({.width = 16}), 0u); }

/// The copy in front of both branches of `fuse_rows` moves into them; many rows at a time keep it.
TEST(InlineTranspose, CopiesMoveIntoBranches) { EXPECT_EQ(branches_of({.attention = true}), 2u); }

}  // namespace
}  // namespace tenon::graph::testing_graph
