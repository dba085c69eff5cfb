// SPDX-License-Identifier: Apache-2.0
// tabulate_bytes: activations between quantised values, against the interpreter's results of the operators
// one by one, bit by bit and for every byte.
#include "op/attrs_qnn.h"
#include "support.h"
#include "target/target.h"

namespace tenon::graph::testing_graph {
namespace {

constexpr DataType i8 = DataType::int_(8);

Ref<TargetNode> machine(bool looks_up) {
  Ref<TargetNode> t = make<TargetNode>();
  t.edit()->triple = "x86_64-unknown-linux-gnu";
  t.edit()->features = {"sse4_2", "avx", "avx2", "fma"};
  if (looks_up)
    for (const char* f : {"avx512f", "avx512bw"}) t.edit()->features.push_back(f);
  return t;
}

struct Network {
  Model m;
  DataType type = u8;
  Expr real(const Expr& q, double scale, int zero) {
    return m.op("qnn.dequantize", {q, op::scalar(scale, f32), op::scalar(zero, type)});
  }
  Expr bytes(const Expr& x, double scale, int zero) {
    return m.op("qnn.quantize", {x, op::scalar(scale, f32), op::scalar(zero, type)});
  }
};
NDArray every_byte(DataType t) {
  NDArray a = NDArray::empty({1, 2, 8, 16}, t);
  for (int64_t i = 0; i < a.size(); ++i) a.as_ptr<uint8_t>()[i] = uint8_t(i);
  return a;
}
/// The operators behind the pass; the results are those before it.
Names tabulated(const IRModule& in, const std::vector<NDArray>& inputs, bool looks_up = true) {
  PassContext context = make_context();
  context.target = machine(looks_up);
  IRModule out = run_pass("tabulate_bytes", run_pass("infer_types", in, context), context);
  out = run_pass("eliminate_dead_code", out, context);
  expect_valid(out);
  expect_close(run(in, inputs), run(out, inputs), 0);
  return ops_of(out);
}

TEST(TabulateBytes, AnActivationThatJoinsItselfIsOneTable) {
  for (DataType t : {u8, i8}) {
    Network n{.type = t};
    const auto x = n.m.param("x", {1, 2, 8, 16}, t);
    const Expr a = n.real(x, 0.05, t == u8 ? 120 : -7);
    const Expr s =
        n.real(n.bytes(n.m.op("sigmoid", {a}), 1 / 255.0, t == u8 ? 0 : -128), 1 / 255.0, t == u8 ? 0 : -128);
    const Expr y = n.bytes(n.m.op("multiply", {a, s}), 0.03, t == u8 ? 20 : -100);
    EXPECT_EQ(tabulated(n.m.done(y), {every_byte(t)}), Names{"qnn.lookup"});
  }
}

TEST(TabulateBytes, NumbersOfTheActivationMayBeBytesAsWell) {
  Network n;
  const auto x = n.m.param("x", {1, 2, 8, 16}, u8);
  auto number = [&](double scale, uint8_t q) {
    NDArray element = NDArray::empty({}, u8);
    *element.as_ptr<uint8_t>() = q;
    return n.real(constant(element), scale, 0);
  };
  const Expr one = number(1 / 255.0, 255), half = number(0.5 / 255, 255);  // gelu as a quantiser leaves it
  const Expr a = n.real(x, 0.02, 130);
  const Expr root = n.m.op("divide", {a, op::scalar(1.4142135381698608, f32)});
  const Expr e = n.real(n.bytes(n.m.op("erf", {root}), 0.0078, 128), 0.0078, 128);
  const Expr sum = n.real(n.bytes(n.m.op("add", {e, one}), 0.0078, 0), 0.0078, 0);
  const Expr share = n.real(n.bytes(n.m.op("multiply", {half, sum}), 0.0039, 0), 0.0039, 0);
  const Expr y = n.bytes(n.m.op("multiply", {a, share}), 0.011, 15);
  EXPECT_EQ(tabulated(n.m.done(y), {every_byte(u8)}), Names{"qnn.lookup"});
}

TEST(TabulateBytes, AZeroPointIsNoByteOfATensor) {
  Network n;
  const auto zero = n.m.param("zero", {1}, u8);
  NDArray element = NDArray::empty({1}, u8), given = NDArray::empty({1}, u8);
  *element.as_ptr<uint8_t>() = 7, *given.as_ptr<uint8_t>() = 3;
  const Expr real = n.m.op("qnn.dequantize", {constant(element), op::scalar(0.5, f32), zero});
  const Expr y = n.bytes(n.m.op("tanh", {real}), 0.03, 20);
  EXPECT_EQ(tabulated(n.m.done(y), {given}), (Names{"qnn.dequantize", "tanh", "qnn.quantize"}));
}

TEST(TabulateBytes, AlsoOperatorsOfQuantisedTensorsAndOtherTypes) {
  Network n;
  const auto x = n.m.param("x", {1, 2, 8, 16}, u8);
  const Expr y = n.m.op("qnn.sigmoid", {x, op::scalar(0.05, f32), op::scalar(128, u8),
                                        op::scalar(1 / 255.0, f32), op::scalar(0, u8)});
  n.type = i8;
  const Expr z =
      n.m.op("qnn.quantize",
             {n.m.op("tanh", {n.m.op("qnn.dequantize", {y, op::scalar(0.01, f32), op::scalar(3, u8)})}),
              op::scalar(0.01, f32), op::scalar(-5, i8)});
  EXPECT_EQ(tabulated(n.m.done(z), {every_byte(u8)}), Names{"qnn.lookup"});
}

TEST(TabulateBytes, LeavesWhatIsCheapOrFollowsFromMore) {
  Network cheap;
  const auto x = cheap.m.param("x", {1, 2, 8, 16}, u8);
  const Expr relu = cheap.bytes(cheap.m.op("nn.relu", {cheap.real(x, 0.05, 120)}), 0.05, 0);
  EXPECT_EQ(tabulated(cheap.m.done(relu), {every_byte(u8)}),
            (Names{"qnn.dequantize", "nn.relu", "qnn.quantize"}));

  Network two;
  const auto a = two.m.param("a", {1, 2, 8, 16}, u8), b = two.m.param("b", {1, 2, 8, 16}, u8);
  const Expr gate = two.m.op("sigmoid", {two.real(b, 0.05, 128)});
  const Expr y = two.bytes(two.m.op("multiply", {two.real(a, 0.05, 120), gate}), 0.03, 0);
  EXPECT_EQ(std::ranges::count(tabulated(two.m.done(y), {every_byte(u8), every_byte(u8)}), "qnn.lookup"), 0);

  // A scale for each channel; and one element that is spread over many.
  Network channels;
  const auto c = channels.m.param("c", {1, 2, 8, 16}, u8);
  const NDArray scales = random_array({2});
  const Expr each =
      channels.m.op("qnn.dequantize", {c, constant(scales), op::scalar(0, u8)},
                    op::make_attrs<op::QuantizeAttrs>([](op::QuantizeAttrs& to) { to.axis = 1; }));
  const Expr z = channels.bytes(channels.m.op("sigmoid", {each}), 1 / 255.0, 0);
  EXPECT_EQ(std::ranges::count(tabulated(channels.m.done(z), {every_byte(u8)}), "qnn.lookup"), 0);
}

TEST(TabulateBytes, OnlyWhereTheTargetLooksUp) {
  Network n;
  const auto x = n.m.param("x", {1, 2, 8, 16}, u8);
  const Expr y = n.bytes(n.m.op("sigmoid", {n.real(x, 0.05, 120)}), 1 / 255.0, 0);
  EXPECT_EQ(std::ranges::count(tabulated(n.m.done(y), {every_byte(u8)}, false), "qnn.lookup"), 0);
}

/// A function of bytes that a model has a hundred thousand times in a row is no table, and no deep recursion.
TEST(TabulateBytes, LongChains) {
  Network n;
  const auto x = n.m.param("x", {1, 1, 1, 2}, u8);
  Expr y = n.real(x, 0.05, 120);
  for (int i = 0; i < 2000; ++i) y = n.m.op("tanh", {y});
  PassContext context = make_context();
  context.target = machine(true);
  const IRModule out =
      run_pass("tabulate_bytes", run_pass("infer_types", n.m.done(n.bytes(y, 0.01, 0)), context), context);
  expect_valid(out);
  EXPECT_EQ(std::ranges::count(ops_of(out), "qnn.lookup"), 0);
}

}  // namespace
}  // namespace tenon::graph::testing_graph
