// SPDX-License-Identifier: Apache-2.0
// Rows that are folded twice, at once or block by block: which is chosen, and that values are the same.
#include <limits>

#include "implementations.h"
#include "op/attrs.h"

namespace tenon::graph::testing_graph {
namespace {

/// Its second cache holds 64 floats.
Target small_machine() {
  Target t = record("llvm");
  t.edit()->l2_bytes = 256;
  return t;
}
Expr tensor(const Array<PrimExpr>& shape, DataType dtype = f32) {
  return var("x", tensor_type(shape, dtype));
}
Call call_of(const char* op, const Array<Expr>& args, const ObjectRef& attrs) {
  return *op::op_call(op, args, attrs).as<Call>();
}
struct Case {
  Call call;
  std::vector<NDArray> inputs;
};
std::vector<Case> cases() {
  const auto reduce = [](Array<int64_t> axes) { return op::make_attrs<op::ReduceAttrs>(axes, false); };
  const auto softmax = op::make_attrs<op::AxisAttrs>(int64_t(-1));
  NDArray masked = random_array({3, 80});
  for (int64_t i = 0; i < 20; ++i) masked.set_element(i, -std::numeric_limits<double>::infinity());
  return {
      {call_of("nn.layer_norm", {tensor({3, 4, 40}), tensor({40}), tensor({40})},
               op::make_attrs<op::LayerNormAttrs>(Array<int64_t>{-1})),
       {random_array({3, 4, 40}), random_array({40}), random_array({40}, f32, 3)}},
      {call_of("nn.layer_norm", {tensor({3, 4, 40})},
               op::make_attrs<op::LayerNormAttrs>(Array<int64_t>{1, 2}, 1e-5, false, false)),
       {random_array({3, 4, 40})}},
      {call_of("nn.group_norm", {tensor({2, 6, 5, 8}), tensor({6}), tensor({6})},
               op::make_attrs<op::GroupNormAttrs>(int64_t(2))),
       {random_array({2, 6, 5, 8}), random_array({6}), random_array({6}, f32, 3)}},
      {call_of("nn.instance_norm", {tensor({2, 3, 12, 8}), tensor({3}), tensor({3})},
               op::make_attrs<op::BatchNormAttrs>()),
       {random_array({2, 3, 12, 8}), random_array({3}), random_array({3}, f32, 3)}},
      {call_of("nn.log_softmax", {tensor({3, 80})}, softmax), {random_array({3, 80})}},
      {call_of("nn.log_softmax", {tensor({3, 80})}, softmax), {masked}},
      {call_of("nn.softmax", {tensor({3, 80})}, softmax), {random_array({3, 80})}},
      {call_of("nn.softmax", {tensor({3, 80})}, softmax), {masked}},
      {call_of("nn.softmax", {tensor({2, 80, 3})}, op::make_attrs<op::AxisAttrs>(int64_t(1))),
       {random_array({2, 80, 3})}},
      {call_of("logsumexp", {tensor({3, 80})}, reduce({1})), {masked}},
      {call_of("logsumexp", {tensor({7, 3, 12})}, reduce({0, 2})), {random_array({7, 3, 12})}},
      {call_of("variance", {tensor({96, 2})}, reduce({0})), {random_array({96, 2})}},
      {call_of("std", {tensor({5, 96})}, reduce({})), {random_array({5, 96})}},
  };
}

TEST(FoldStrategy, BlocksOfARowHaveTheSameValues) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.call.op.as<Op>()->name);
    const bool by_blocks = op::select(c.call, small_machine())->chosen.name.ends_with(".by_blocks");
    const auto results = computed_by_all(c.call, c.inputs, small_machine());
    EXPECT_EQ(results.size(), by_blocks ? 2U : 1U);
    expect_all_alike(results);
  }
}

TEST(FoldStrategy, RowsThatStayInTheSecondCacheAreFoldedAtOnce) {
  const auto chosen = [](const Array<PrimExpr>& shape, const Target& target) {
    const Call c = call_of("nn.log_softmax", {tensor(shape)}, op::make_attrs<op::AxisAttrs>(int64_t(-1)));
    const auto s = op::select(c, target);
    return s->chosen.name == "log_softmax.by_blocks" ? "" : s->rejected[0].reason;
  };
  EXPECT_EQ(chosen({3, 80}, small_machine()), "");
  EXPECT_EQ(chosen({3, 64}, small_machine()), "a row of 256 bytes stays in the second cache");
  EXPECT_EQ(chosen({1 << 14, 80}, small_machine()),
            "a row of 320 bytes stays in the third cache, and all rows do not");
  EXPECT_EQ(chosen({3, 83}, small_machine()), "no equal blocks of a row fit in the second cache");
  EXPECT_EQ(chosen({3, tir::var("n")}, small_machine()), "a size is not known");
  EXPECT_EQ(chosen({3, 80}, {}), "how much a cache holds is the target's, and none is given");
}

}  // namespace
}  // namespace tenon::graph::testing_graph
