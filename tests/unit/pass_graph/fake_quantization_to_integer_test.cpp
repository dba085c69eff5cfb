// SPDX-License-Identifier: Apache-2.0
// fake_quantization_to_integer: networks as quantisers write them, against the interpreter's real numbers: no
// result is more than one step away, and nothing between the first quantisation and the last is a float's
// contraction.
#include "op/attrs_qnn.h"
#include "support.h"

namespace tenon::graph::testing_graph {
namespace {

constexpr DataType i8 = DataType::int_(8);

/// A network of quantised values under construction; activations are u8, weights i8 with a scale per channel.
struct Network {
  Model m;
  uint64_t seed = 1;
  static ObjectRef axis(int64_t a) {
    return op::make_attrs<op::QuantizeAttrs>([&](op::QuantizeAttrs& to) { to.axis = a; });
  }
  Expr dequantize(const Expr& q, double scale, int zero) {
    return m.op("qnn.dequantize", {q, op::scalar(scale, f32), op::scalar(zero, u8)}, axis(1));
  }
  Expr quantize(const Expr& x, double scale, int zero) {
    return m.op("qnn.quantize", {x, op::scalar(scale, f32), op::scalar(zero, u8)}, axis(1));
  }
  Expr bytes(std::vector<int64_t> shape) {
    std::mt19937_64 random(++seed);
    NDArray a = NDArray::empty(std::move(shape), i8);
    for (int64_t i = 0; i < a.size(); ++i) a.set_element_int(i, int64_t(random() % 255) - 127);
    return constant(a);
  }
  Expr weight(std::vector<int64_t> shape, int64_t out = 0) {
    const int64_t n = shape[size_t(out)];
    NDArray scale = NDArray::empty({n}, f32), zero = NDArray::zeros({n}, i8);
    for (int64_t i = 0; i < n; ++i) scale.set_element(i, 0.002 + 0.0005 * double(i % 7));
    return m.op("qnn.dequantize", {bytes(std::move(shape)), constant(scale), constant(zero)}, axis(out));
  }
  Expr conv(const Expr& x, const Expr& w, std::vector<int64_t> padding, int64_t groups = 1) {
    return m.op("nn.conv2d", {x, w}, op::make_attrs<op::ConvAttrs>([&](op::ConvAttrs& a) {
                  a.padding = Array<int64_t>(padding);
                  a.groups = groups;
                }));
  }
};

NDArray random_bytes(std::vector<int64_t> shape, uint64_t seed) {
  std::mt19937_64 random(seed);
  NDArray a = NDArray::empty(std::move(shape), u8);
  for (int64_t i = 0; i < a.size(); ++i) a.set_element_int(i, int64_t(random() % 256));
  return a;
}

/// Operators behind the pass, dead ones left out; the results are checked on the way.
Names integers_of(const IRModule& in, const std::vector<NDArray>& inputs) {
  PassContext context = make_context();
  IRModule out = run_pass("fake_quantization_to_integer", run_pass("infer_types", in, context), context);
  out = run_pass("eliminate_dead_code", out, context);
  expect_valid(out);
  const auto want = run(in, inputs);
  for (const IRModule& m : {out, run_pass("qnn_canonicalize", out, context)}) {
    expect_valid(m);
    const auto have = run(m, inputs);
    EXPECT_EQ(have.size(), want.size());
    for (size_t k = 0; k < want.size(); ++k)
      for (int64_t i = 0; i < want[k].size(); ++i)
        EXPECT_LE(std::abs(want[k].element_int(i) - have[k].element_int(i)), 1) << "element " << i;
  }
  return ops_of(out);
}
bool has(const Names& names, std::string_view op) { return std::ranges::find(names, op) != names.end(); }

TEST(FakeQuantizationToInteger, SlicesOfBytesAreBytes) {
  Network n;
  const auto x = n.m.param("x", {1, 6, 4, 4}, u8);
  const Expr part = n.m.op("strided_slice", {n.dequantize(x, 0.05, 7)},
                           op::make_attrs<op::StridedSliceAttrs>([](op::StridedSliceAttrs& a) {
                             a.axes = {1};
                             a.begin = {PrimExpr(2)};
                             a.end = {PrimExpr(5)};
                           }));
  const IRModule in = n.m.done(n.quantize(part, 0.05, 7));
  EXPECT_EQ(integers_of(in, {random_bytes({1, 6, 4, 4}, 3)}), (Names{"strided_slice"}));
}

TEST(FakeQuantizationToInteger, ConvolutionsOfAllKindsAndAResidualAddition) {
  Network n;
  const auto x = n.m.param("x", {1, 6, 9, 7}, u8);
  const Expr start = n.dequantize(x, 0.05, 7);
  const Expr a = n.quantize(n.conv(start, n.weight({8, 6, 3, 3}), {1, 1, 1, 1}), 0.04, 120);
  const Expr b =
      n.quantize(n.conv(n.dequantize(a, 0.04, 120), n.weight({8, 1, 3, 3}), {1, 0, 0, 1}, 8), 0.03, 90);
  const Expr c = n.conv(n.dequantize(b, 0.03, 90), n.weight({8, 4, 1, 1}), {}, 2);
  const Expr d = n.quantize(c, 0.02, 100);
  const Expr sum = n.m.op("add", {n.dequantize(d, 0.02, 100), n.dequantize(b, 0.03, 90)});
  const Expr out = n.quantize(n.m.op("nn.relu", {sum}), 0.05, 0);
  const Names ops = integers_of(n.m.done(out), {random_bytes({1, 6, 9, 7}, 3)});
  EXPECT_FALSE(has(ops, "nn.conv2d"));
  EXPECT_EQ(std::ranges::count(ops, "qnn.conv2d"), 3);
  // What only the addition wants does not become bytes first; what others want does.
  EXPECT_EQ(std::ranges::count(ops, "qnn.simulated_quantize"), 1);
}

TEST(FakeQuantizationToInteger, ElementsMoveAsBytes) {
  Network n;
  const auto x = n.m.param("x", {1, 4, 8, 8}, u8);
  const Expr pooled =
      n.m.op("nn.max_pool2d", {n.dequantize(x, 0.1, 50)}, op::make_attrs<op::PoolAttrs>([](op::PoolAttrs& a) {
               a.pool_size = {3, 3};
               a.strides = {2, 2};
               a.padding = {1, 1, 1, 1};
             }));
  const Expr joined =
      n.m.op("concat", {op::tuple({pooled, pooled})}, op::make_attrs<op::AxisAttrs>(int64_t(1)));
  const Expr flat = n.m.op("reshape", {joined, op::shape({8, 16})});
  const Expr turned = n.m.op("permute_dims", {n.weight({5, 16})});
  const Expr y = n.quantize(n.m.op("matmul", {flat, turned}), 0.2, 128);
  const Names ops = integers_of(n.m.done(y), {random_bytes({1, 4, 8, 8}, 4)});
  EXPECT_EQ(ops.front(), "nn.max_pool2d");
  EXPECT_TRUE(has(ops, "qnn.matmul"));
  EXPECT_FALSE(has(ops, "matmul"));
}

TEST(FakeQuantizationToInteger, PartsOfAConcatenationHaveStepsOfTheirOwn) {
  Network n;
  const auto x = n.m.param("x", {1, 6, 5, 5}, u8);
  const Expr a = n.quantize(n.conv(n.dequantize(x, 0.05, 7), n.weight({8, 6, 1, 1}), {}), 0.04, 120);
  const Expr real = n.dequantize(a, 0.04, 120);
  const Expr b = n.quantize(n.conv(real, n.weight({8, 1, 3, 3}), {1, 1, 1, 1}, 8), 0.03, 90);
  const Expr joined = n.m.op("concat", {op::tuple({real, n.dequantize(b, 0.03, 90)})},
                             op::make_attrs<op::AxisAttrs>(int64_t(1)));
  const Expr y = n.quantize(
      n.conv(n.dequantize(n.quantize(joined, 0.04, 120), 0.04, 120), n.weight({4, 16, 1, 1}), {}), 0.1, 99);
  const Names ops = integers_of(n.m.done(y), {random_bytes({1, 6, 5, 5}, 8)});
  // The first part has the steps of the whole and is joined as it lies; the second only changes its steps.
  EXPECT_EQ(std::ranges::count(ops, "qnn.quantize"), 3);
  EXPECT_EQ(std::ranges::count(ops, "qnn.conv2d"), 3);
  EXPECT_EQ(std::ranges::count(ops, "concat"), 1);
}

TEST(FakeQuantizationToInteger, SameStepsAreNoStep) {
  Network n;
  const auto x = n.m.param("x", {3, 4}, u8);
  const Names ops =
      integers_of(n.m.done(n.quantize(n.dequantize(x, 0.5, 3), 0.5, 3)), {random_bytes({3, 4}, 5)});
  EXPECT_TRUE(ops.empty());
}

TEST(FakeQuantizationToInteger, LeavesWhatIntegersCannotHold) {
  // One more product than 32 bits hold for certain; a weight of floats; a scale that is an input.
  Network n;
  const auto x = n.m.param("x", {1, 33026}, u8);
  const Expr real = n.m.op("nn.dense", {n.dequantize(x, 0.01, 0), n.weight({2, 33026})});
  EXPECT_TRUE(
      has(integers_of(n.m.done(n.quantize(real, 50, 128)), {random_bytes({1, 33026}, 6)}), "nn.dense"));
  Network f;
  const auto y = f.m.param("y", {2, 8}, u8);
  const Expr mixed = f.m.op("nn.dense", {f.dequantize(y, 0.1, 9), f.m.weight({3, 8})});
  EXPECT_TRUE(has(integers_of(f.m.done(f.quantize(mixed, 0.1, 128)), {random_bytes({2, 8}, 7)}), "nn.dense"));
}

}  // namespace
}  // namespace tenon::graph::testing_graph
