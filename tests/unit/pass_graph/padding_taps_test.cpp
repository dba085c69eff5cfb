// SPDX-License-Identifier: Apache-2.0
// Kernel elements that meet padding: what goes (drop_padding_taps), what is multiplied where it meets data
// (split_dilated_conv), and that both compute the same.
#include "support.h"
#include "target/target.h"

namespace tenon::graph::testing_graph {
namespace {

TEST(DropPaddingTaps, TheRunAsksForTheSizeOfAMap) {
  const tir::VarRef h = tir::var("h"), w = tir::var("w");
  const auto convolution = [&](int64_t dilation, int64_t stride) {
    Model m;
    const auto x = m.param("x", {PrimExpr(1), PrimExpr(2), h, w});
    return m.done(m.op("nn.conv2d", {x, m.weight({3, 2, 3, 3})}, op::make_attrs<op::ConvAttrs>([&](auto& a) {
                         a.padding = {dilation, dilation, dilation, dilation},
                         a.dilation = {dilation, dilation}, a.strides = {stride, stride};
                       })));
  };
  for (const int64_t stride : {1, 2})
    for (const auto& [height, width] :
         {std::pair{1, 3}, {8, 8}, {9, 8}, {9, 9}, {10, 9}, {9, 10}, {23, 31}}) {
      const IRModule out =
          apply(convolution(9, stride), {"drop_padding_taps"}, {random_array({1, 2, height, width})}, 1e-6);
      EXPECT_EQ(ops_of(out).back(), "nn.conv2d");
      EXPECT_EQ(ops_of(out).size(), 10u);  // two questions, the middle of the kernel, two convolutions
    }
  // Maps of three elements are no reason to have a second convolution.
  EXPECT_EQ(ops_of(apply(convolution(3, 1), {"drop_padding_taps"}, {random_array({1, 2, 3, 3})})),
            Names({"nn.conv2d"}));
}

TEST(SplitDilatedConv, PartsAreSummedUp) {
  struct Case {
    std::vector<int64_t> data, kernel, strides, padding, dilation;
    int64_t groups;
    size_t parts;  ///< convolutions that are left; 1: it stays
  };
  for (const Case& c : {Case{{1, 32, 9, 9}, {32, 32, 3, 3}, {1, 1}, {6, 6, 6, 6}, {6, 6}, 1, 9},
                        Case{{2, 32, 9, 7}, {24, 32, 3, 3}, {1, 1}, {6, 5, 5, 6}, {6, 5}, 1, 9},
                        Case{{1, 32, 17, 15}, {32, 32, 3, 3}, {2, 3}, {12, 12, 12, 12}, {12, 12}, 1, 9},
                        Case{{1, 64, 9, 9}, {64, 32, 3, 3}, {1, 1}, {7, 7, 7, 7}, {7, 7}, 2, 9},
                        Case{{1, 32, 20}, {32, 32, 5}, {1}, {28, 28}, {14}, 1, 3},
                        Case{{1, 32, 5, 9}, {32, 32, 3, 1}, {1, 1}, {4, 0, 4, 0}, {4, 1}, 1, 3},
                        Case{{1, 32, 9, 9}, {32, 32, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1, 1},
                        Case{{1, 4, 9, 9}, {4, 4, 3, 3}, {1, 1}, {6, 6, 6, 6}, {6, 6}, 1, 1}}) {
    SCOPED_TRACE(fmt::format("{} dilated by {}", fmt::join(c.data, " "), fmt::join(c.dilation, " ")));
    Model m;
    Array<PrimExpr> shape;
    for (const int64_t d : c.data) shape.push_back(PrimExpr(d));
    const auto x = m.param("x", shape);
    const char* name = c.data.size() == 3 ? "nn.conv1d" : "nn.conv2d";
    const IRModule in =
        m.done(m.op(name, {x, m.weight(c.kernel)}, op::make_attrs<op::ConvAttrs>([&](auto& a) {
                      a.strides = c.strides, a.padding = c.padding, a.dilation = c.dilation;
                      a.groups = c.groups;
                    })));
    PassContext context = make_context();
    context.target = parse_target("llvm -mcpu=x86-64-v3");
    const IRModule out = run_pass("split_dilated_conv", in, context);
    expect_valid(out);
    const std::vector<NDArray> inputs{random_array(c.data)};
    expect_close(run(in, inputs), run(out, inputs), 1e-5);
    EXPECT_EQ(std::ranges::count(ops_of(out), name), c.parts);
  }
}

TEST(SplitDilatedConv, MapsOfAnySize) {
  // Smaller than a step, as large, and larger; of both axes, and of one beside a known one.
  for (const bool both : {true, false}) {
    Model m;
    const PrimExpr h = tir::var("h"), w = both ? PrimExpr(tir::var("w")) : PrimExpr(9);
    const auto x = m.param("x", {1, 32, h, w});
    const IRModule in = m.done(m.op(
        "nn.conv2d", {x, m.weight({32, 32, 3, 3})},
        op::make_attrs<op::ConvAttrs>([](auto& a) { a.padding = {20, 14, 20, 14}, a.dilation = {20, 14}; })));
    PassContext context = make_context();
    context.target = parse_target("llvm -mcpu=x86-64-v3");
    const IRModule out = run_pass("split_dilated_conv", in, context);
    expect_valid(out);
    EXPECT_EQ(std::ranges::count(ops_of(out), "nn.conv2d"), both ? 9 : 3);
    for (const int64_t n : {1, 15, 21}) {
      const std::vector<NDArray> inputs{random_array({1, 32, n, both ? 22 - n : 9})};
      expect_close(run(in, inputs), run(out, inputs), 1e-5);
    }
  }
}

TEST(SplitDilatedConv, PaddingOfAZeroPoint) {
  // Bytes whose padding is a number: as many of its products as there are kernel elements in the padding.
  Model m;
  const auto x = m.param("x", {1, 96, 9, 7}, DataType::uint(8));
  NDArray zero = NDArray::empty({}, DataType::uint(8));
  zero.set_element_int(0, 109);
  const IRModule in = m.done(
      m.op("nn.conv2d", {x, m.weight({64, 96, 3, 3}, 7, DataType::int_(8)), constant(zero)},
           op::make_attrs<op::ConvAttrs>([](auto& a) { a.padding = {6, 5, 5, 6}, a.dilation = {6, 5}; })));
  PassContext context = make_context();
  context.target = parse_target("llvm -mcpu=x86-64-v3");
  const IRModule out = run_pass("split_dilated_conv", in, context);
  expect_valid(out);
  NDArray data = NDArray::empty({1, 96, 9, 7}, DataType::uint(8));
  for (int64_t i = 0; i < data.size(); ++i) data.set_element_int(i, (i * 37 + i / 11) % 256);
  expect_close(run(in, {data}), run(out, {data}), 0);
  EXPECT_EQ(std::ranges::count(ops_of(out), "nn.conv2d"), 9);
}

}  // namespace
}  // namespace tenon::graph::testing_graph
