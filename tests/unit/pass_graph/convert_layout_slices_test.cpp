// SPDX-License-Identifier: Apache-2.0
// convert_layout around slices of channels and joined parts that fill no blocks: nothing moves channel by
// channel.
#include "layout_support.h"

namespace tenon::graph::testing_graph {
namespace {

ObjectRef channels(int64_t begin, int64_t end) {
  return op::make_attrs<op::StridedSliceAttrs>([&](op::StridedSliceAttrs& a) {
    a.axes = {1};
    a.begin = {PrimExpr(begin)};
    a.end = {PrimExpr(end)};
  });
}
ObjectRef split(Array<int64_t> at) {
  return op::make_attrs<op::SplitAttrs>([&](op::SplitAttrs& a) {
    a.axis = 1;
    a.indices = at;
  });
}
ObjectRef along_channels() { return op::make_attrs<op::AxisAttrs>(int64_t(1)); }

const std::string kBlocks = "NCHW16c OIHW16i16o NCHW16c";

TEST(ConvertLayout, BlocksBeginWhereSlicesDoAndJoinedPartsStayFilledUp) {
  for (bool as_split : {false, true}) {
    Model m;
    auto x = m.param("x", {1, 16, 4, 5});
    Expr a = m.op("nn.conv2d", {x, m.weight({60, 16, 1, 1})}, conv({1, 1}, {}));
    a = m.op("nn.relu", {m.op("add", {a, m.weight({1, 60, 1, 1})})});
    std::vector<Expr> parts;
    if (as_split) {
      const Expr both = m.op("split", {a}, split({30}));
      for (int64_t i : {0, 1}) parts.push_back(m.builder.emit(op::get_item(both, i)));
    } else {
      for (int64_t i : {0, 30}) parts.push_back(m.op("strided_slice", {a}, channels(i, i + 30)));
    }
    const Expr b = m.op("nn.conv2d", {parts[0], m.weight({30, 30, 3, 3})}, conv({1, 1}, {1, 1, 1, 1}));
    const Expr c =
        m.op("nn.conv2d", {m.op("add", {b, parts[1]}), m.weight({30, 30, 3, 3})}, conv({1, 1}, {1, 1, 1, 1}));
    Expr d = m.op("concat", {op::tuple({b, c, parts[1]})}, along_channels());
    d = m.op("multiply", {d, m.weight({1, 90, 1, 1})});
    d = m.op("nn.conv2d", {d, m.weight({90, 1, 3, 3})}, conv({1, 1}, {1, 1, 1, 1}, 90));
    const Expr e = m.op("nn.conv2d", {d, m.weight({16, 90, 1, 1})}, conv({1, 1}, {}));
    IRModule out = blocked(m.done(m.op("nn.relu", {e})), {random_array({1, 16, 4, 5})});
    EXPECT_EQ(layouts(out), (std::vector<std::string>{"NCHW OIHW16o NCHW16c", kBlocks, kBlocks,
                                                      "NCHW16c OIHW16o NCHW16c", kBlocks}));
    EXPECT_EQ(count(out, "strided_slice"), 2);     // whole blocks
    EXPECT_EQ(count(out, "layout_transform"), 1);  // at the end
  }
}

TEST(ConvertLayout, ChannelsBehindASliceReachNoSum) {
  Model m;
  auto x = m.param("x", {1, 16, 3, 2});
  // Logarithms of negative numbers from channel 24 on.
  NDArray bias = NDArray::zeros({1, 32, 1, 1}, f32);
  for (int64_t i = 0; i < 32; ++i) bias.set_element(i, i < 24 ? 100 : -100);
  Expr a = m.op("nn.conv2d", {x, m.weight({32, 16, 1, 1})}, conv({1, 1}, {}));
  a = m.op("log", {m.op("add", {a, constant(bias)})});
  const Expr some = m.op("strided_slice", {a}, channels(0, 24));
  const Expr b = m.op("nn.conv2d", {some, m.weight({16, 24, 1, 1})}, conv({1, 1}, {}));
  IRModule out = blocked(m.done(b), {random_array({1, 16, 3, 2})});
  EXPECT_EQ(layouts(out), (std::vector<std::string>{"NCHW OIHW16o NCHW16c", kBlocks}));
}

TEST(ConvertLayout, BytesWhoseChannelsFitNoBlockFillOne) {
  auto sums = op::make_attrs<op::ConvAttrs>([](op::ConvAttrs& a) { a.out_dtype = i32; });
  for (int64_t outputs : {14, 20, 10}) {
    Model m;
    auto x = m.param("x", {1, 16, 3, 2}, u8);
    const IRModule in =
        m.done(m.op("nn.conv2d", {x, m.weight({outputs, 16, 1, 1}, 5, DataType::int_(8))}, sums));
    PassContext context = make_context();
    context.target = parse_target("llvm -mcpu=znver4");
    const IRModule out = run_pass("convert_layout", run_pass("infer_types", in, context), context);
    expect_valid(out);
    // Ten and twenty would grow by more than a half.
    EXPECT_EQ(layouts(out)[0].ends_with("NCHW16c"), outputs == 14) << layouts(out)[0];
    const NDArray image = random_array({1, 16, 3, 2}, u8);
    expect_close(run(in, {image}), run(out, {image}), 0);
  }
}

TEST(ConvertLayout, PartsOfOtherRunsMeetInTheProgramsLayout) {
  Model m;
  auto x = m.param("x", {1, 16, 3, 2});
  auto piece = [&](int64_t n) { return m.op("nn.conv2d", {x, m.weight({n, 16, 1, 1})}, conv({1, 1}, {})); };
  auto joined = [&](Array<Expr> parts) { return m.op("concat", {op::tuple(parts)}, along_channels()); };
  const Expr a = joined({piece(30), piece(30), piece(32)}), b = joined({piece(62), piece(30)});
  const Expr gate = m.op("nn.global_avg_pool", {b});
  const Expr c = m.op("multiply", {m.op("add", {a, b}), m.op("sigmoid", {gate})});
  blocked(m.done(op::tuple({m.op("multiply", {m.op("sigmoid", {gate}), a}), c})),
          {random_array({1, 16, 3, 2})});
}

TEST(ConvertLayout, JoinedGroupsReadNoAddedChannels) {
  const DataType narrow = DataType::bfloat16();
  Model m;
  auto x = m.param("x", {1, 32, 3, 2}, narrow);
  auto sums = [](int64_t groups) {
    return op::make_attrs<op::ConvAttrs>([=](op::ConvAttrs& a) { a.groups = groups, a.out_dtype = f32; });
  };
  auto piece = [&](int64_t n) {
    const Expr wide = m.op("nn.conv2d", {x, m.weight({n, 32, 1, 1}, 5, narrow)}, sums(1));
    return m.op("cast", {wide}, op::make_attrs<op::CastAttrs>(narrow));
  };
  // 104 channels fill 128, and 17 groups of 8 five of 32: as many as the joined parts have.
  const Expr both = m.op("concat", {op::tuple({piece(104), piece(32)})}, along_channels());
  const IRModule in = m.done(m.op("nn.conv2d", {both, m.weight({136, 8, 1, 1}, 7, narrow)}, sums(17)));
  PassContext context = make_context();
  context.target = parse_target("llvm -mcpu=sapphirerapids");
  const IRModule out = run_pass("convert_layout", run_pass("infer_types", in, context), context);
  expect_valid(out);
  EXPECT_TRUE(layouts(out)[0].ends_with("c")) << layouts(out)[0];
  const NDArray image = random_array({1, 32, 3, 2}, narrow);
  expect_close(run(in, {image}), run(out, {image}), 1e-2);
}

TEST(ConvertLayout, SlicesOfFewerThanHalfABlockAddNothing) {
  Model m;
  auto x = m.param("x", {1, 16, 3, 2});
  const Expr a = m.op("nn.conv2d", {x, m.weight({32, 16, 1, 1})}, conv({1, 1}, {}));
  const Expr b = m.op("strided_slice", {a}, channels(6, 26)),
             c = m.op("strided_slice", {a}, channels(-16, 32));
  IRModule out =
      blocked(m.done(op::tuple({m.op("nn.relu", {b}), m.op("nn.relu", {c})})), {random_array({1, 16, 3, 2})});
  EXPECT_EQ(layouts(out), (std::vector<std::string>{"NCHW OIHW16o NCHW16c"}));
}

}  // namespace
}  // namespace tenon::graph::testing_graph
