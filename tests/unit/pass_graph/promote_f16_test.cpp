// SPDX-License-Identifier: Apache-2.0
// promote_f16: which operators compute on float32 behind it, and that results are those of rounding each
// value up to those roundings.
#include "support.h"
#include "target/target.h"

namespace tenon::graph::testing_graph {
namespace {

PassContext context_for(const std::string& target) {
  PassContext context = make_context();
  context.target = parse_target(target);
  return context;
}
IRModule promoted(const IRModule& in, const std::string& target = "llvm -mcpu=x86-64-v3") {
  PassContext context = context_for(target);
  const IRModule out = run_pass(
      "eliminate_dead_code", run_pass("promote_f16", run_pass("infer_types", in, context), context), context);
  expect_valid(out);
  return out;
}
/// Types of the first operands of an operator's calls.
std::vector<DataType> operands_of(const IRModule& m, std::string_view op) {
  std::vector<DataType> out;
  for_each_binding(main_of(m)->body, [&](const Binding& b) {
    Expr value = b->value;
    if (const auto* c = value.as<Call>(); c && op_of(value) && op_of(value)->name == op)
      out.push_back(as_tensor(c->args[0])->dtype);
  });
  return out;
}

TEST(PromoteF16, ComputesWide) {
  Model m;
  auto x = m.param("x", {1, 3, 5, 5}, f16);
  Expr y = m.op("nn.conv2d", {x, m.weight({4, 3, 3, 3}, 3, f16)});
  y = m.op("nn.relu", {m.op("add", {y, m.weight({4, 1, 1}, 4, f16)})});
  y = m.op("nn.softmax", {m.op("reshape", {y, op::shape({1, 36})})});
  const IRModule in = m.done(y), out = promoted(in);
  for (const char* op : {"nn.conv2d", "add", "nn.relu", "reshape", "nn.softmax"})
    EXPECT_EQ(operands_of(out, op), (std::vector<DataType>{f32})) << op;
  const std::vector<NDArray> inputs{random_array({1, 3, 5, 5}, f16)};
  // What differs is the rounding inside of softmax.
  expect_close(run(in, inputs), run(out, inputs), 1e-3);
  EXPECT_EQ(run(out, inputs)[0].dtype(), f16);
}

TEST(PromoteF16, ResultsAreThoseOfRoundingEachValueUpToThat) {
  Model m;
  auto x = m.param("x", {4, 6}, f16), y = m.param("y", {4, 6}, f16);
  Expr s = m.op("multiply", {m.op("add", {x, y}), y});
  const IRModule in = m.done(m.op("divide", {m.op("maximum", {s, x}), m.weight({6}, 3, f16)}));
  const std::vector<NDArray> inputs{random_array({4, 6}, f16, 1), random_array({4, 6}, f16, 2)};
  expect_close(run(in, inputs), run(promoted(in), inputs), 4e-3);
  // Between the operators nothing is rounded.
  EXPECT_EQ(operands_of(promoted(in), "cast"), (std::vector<DataType>{f16, f16, f32}));
}

TEST(PromoteF16, OtherTypesAndTargetsStay) {
  Model m;
  auto x = m.param("x", {2, 3}, f16);
  const IRModule in = m.done(m.op("nn.relu", {x}));
  EXPECT_EQ(operands_of(promoted(in, "llvm -mcpu=x86-64"), "nn.relu"), (std::vector<DataType>{f16}));
  Model n;
  auto y = n.param("y", {2, 3}, DataType::bfloat16());
  const IRModule other = n.done(n.op("nn.relu", {y}));
  EXPECT_EQ(operands_of(promoted(other), "nn.relu"), (std::vector<DataType>{DataType::bfloat16()}));
  // What only moves elements has no reason to widen them.
  Model k;
  auto z = k.param("z", {2, 3}, f16);
  const IRModule moved = k.done(k.op("permute_dims", {z}));
  EXPECT_EQ(operands_of(promoted(moved), "permute_dims"), (std::vector<DataType>{f16}));
}

TEST(PromoteF16, WhatWidensItsOperandStays) {
  Model m;
  const Expr x = m.param("x", {2, 4}), w = m.param("w", {3, 4, 8}, f16), s = m.param("s", {3, 2, 8});
  const IRModule in =
      m.done(m.op("nn.packed_matmul", {x, w, s}, op::make_attrs<op::PackedMatmulAttrs>([](auto& a) {
                    a.units = 19;
                    a.out_dtype = f32;
                  })));
  EXPECT_EQ(ops_of(promoted(in)), Names{"nn.packed_matmul"});
}

TEST(PromoteF16, BranchesCastForThemselves) {
  Model m;
  auto x = m.param("x", {2, 3}, f16), c = m.param("c", {}, DataType::boolean());
  BlockBuilder yes = op::make_builder(), no = op::make_builder();
  const Expr a = yes.finish(yes.emit(op::op_call("nn.relu", {x})));
  const Expr b = no.finish(no.emit(op::op_call("negative", {x})));
  const IRModule in = m.done(m.builder.emit(with_type(make<If>(c, a, b), tensor_type({2, 3}, f16))));
  const std::vector<NDArray> yes_in{random_array({2, 3}, f16), NDArray::scalar(1, DataType::boolean())},
      no_in{yes_in[0], NDArray::scalar(0, DataType::boolean())};
  const IRModule out = promoted(in);
  expect_close(run(in, yes_in), run(out, yes_in), 0);
  expect_close(run(in, no_in), run(out, no_in), 0);
}

}  // namespace
}  // namespace tenon::graph::testing_graph
