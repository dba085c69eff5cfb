// SPDX-License-Identifier: Apache-2.0
// convert_layout: what becomes blocked, what stays plain, and that all of it computes the same.
#include "layout_support.h"
#include "target/target.h"

namespace tenon::graph::testing_graph {
namespace {

TEST(ConvertLayout, BlockedOperatorsInARowHaveNoTransformsBetween) {
  Model m;
  auto x = m.param("x", {1, 3, 9, 9});
  Expr a = m.op("nn.conv2d", {x, m.weight({16, 3, 3, 3})}, conv({2, 2}, {1, 1, 1, 1}));
  Expr b = m.op("nn.relu", {m.op("add", {a, m.weight({1, 16, 1, 1})})});
  Expr p = m.op("nn.max_pool2d", {b}, pool(3, 2, {0, 0, 1, 1}));
  Expr c = m.op("nn.conv2d", {p, m.weight({24, 16, 1, 1})}, conv({1, 1}, {}));
  Expr d = m.op("nn.conv2d", {c, m.weight({24, 1, 3, 3})}, conv({1, 1}, {1, 1, 1, 1}, 24));
  Expr e = m.op("nn.conv2d", {d, m.weight({32, 24, 1, 1})}, conv({1, 1}, {}));
  Expr f = m.op("nn.global_avg_pool", {m.op("nn.relu", {e})});
  IRModule out = blocked(m.done(m.op("reshape", {f, op::shape({1, 32})})), {random_array({1, 3, 9, 9})});
  // 24 channels are two vectors, of which the last is filled up.
  EXPECT_EQ(layouts(out),
            (std::vector<std::string>{"NCHW OIHW16o NCHW16c", "NCHW16c OIHW16i16o NCHW16c",
                                      "NCHW16c OIHW16o NCHW16c", "NCHW16c OIHW16i16o NCHW16c"}));
  EXPECT_EQ(count(out, "permute_dims"), 0);
}

TEST(ConvertLayout, ResidualsAndConcatenationsStayInside) {
  Model m;
  auto x = m.param("x", {2, 16, 4, 5});
  Expr a = m.op("nn.conv2d", {x, m.weight({16, 16, 1, 1})}, conv({1, 1}, {}));
  Expr b = m.op("nn.conv2d", {a, m.weight({16, 16, 3, 3})}, conv({1, 1}, {1, 1, 1, 1}));
  Expr sum = m.op("add", {a, b});
  Expr both = m.op("concat", {op::tuple({sum, b})}, op::make_attrs<op::AxisAttrs>(1));
  Expr scaled = m.op("multiply", {both, m.weight({32, 1, 1})});
  Expr c = m.op("nn.conv2d", {scaled, m.weight({16, 32, 1, 1})}, conv({1, 1}, {}));
  IRModule out = blocked(m.done(c), {random_array({2, 16, 4, 5})});
  EXPECT_EQ(layouts(out).size(), 3u);
  EXPECT_EQ(count(out, "permute_dims"), 0);
  EXPECT_EQ(count(out, "layout_transform"), 1);  // at the end
}

TEST(ConvertLayout, GroupsWhoseChannelsFitNoBlockAreADimension) {
  Model m;
  auto x = m.param("x", {2, 24, 5, 4});
  auto residual = m.param("residual", {2, 24, 5, 4});
  auto image = m.param("image", {2, 1, 5, 4});
  Expr a = m.op("nn.conv2d", {x, m.weight({24, 6, 3, 3})}, conv({1, 1}, {1, 0, 1, 2}, 4));
  Expr b = m.op("nn.bias_add", {a, m.weight({24})}, op::make_attrs<op::AxisAttrs>(1));
  Expr c = m.op("multiply", {m.op("nn.relu", {m.op("add", {b, residual})}), image});
  IRModule out = blocked(m.done(c), {random_array({2, 24, 5, 4}), random_array({2, 24, 5, 4}, f32, 3),
                                     random_array({2, 1, 5, 4}, f32, 4)});
  EXPECT_EQ(layouts(out), (std::vector<std::string>{"NGCHW GOIHW NGCHW"}));
  EXPECT_EQ(count(out, "permute_dims"), 0);

  Model n;
  auto y = n.param("x", {1, 32, 4, 4});
  Expr d = n.op("nn.conv2d", {y, n.weight({64, 16, 3, 3})}, conv({1, 1}, {1, 1, 1, 1}, 2));
  EXPECT_EQ(layouts(blocked(n.done(d), {random_array({1, 32, 4, 4})})),
            (std::vector<std::string>{"NCHW16c OIHW16i16o NCHW16c"}));
}

TEST(ConvertLayout, ChannelsAreAddedWhereHalfAVectorWouldBeLost) {
  for (int64_t outputs : {136, 250}) {
    Model m;
    auto x = m.param("x", {1, 16, 3, 2});
    Expr a = m.op("nn.conv2d", {x, m.weight({outputs, 16, 1, 1})}, conv({1, 1}, {}));
    Expr b =
        m.op("nn.relu", {m.op("nn.bias_add", {a, m.weight({outputs})}, op::make_attrs<op::AxisAttrs>(1))});
    Expr c = m.op("multiply", {b, m.weight({outputs, 1, 1})});
    Expr d = m.op("nn.max_pool2d", {c}, pool(2, 1, {}));
    Expr e = m.op("nn.conv2d", {d, m.weight({16, outputs, 1, 1})}, conv({1, 1}, {}));
    Expr f = m.op("nn.global_avg_pool", {d});
    IRModule out = blocked(m.done(op::tuple({c, e, f})), {random_array({1, 16, 3, 2})});
    EXPECT_EQ(layouts(out), (std::vector<std::string>{"NCHW OIHW16o NCHW16c", "NCHW16c OIHW16i16o NCHW16c"}));
    EXPECT_EQ(count(out, "strided_slice"), 2);  // of the results, not of what the second convolution reads
  }
}

TEST(ConvertLayout, DepthwiseWindowsOnBfloat16HaveTapsInPairs) {
  struct Window {
    int64_t height, width, stride, dilation;
  };
  for (const Window w : {Window{3, 3, 1, 1}, {3, 3, 2, 1}, {5, 5, 1, 2}, {4, 3, 2, 2}, {3, 5, 3, 1}}) {
    Model m;
    auto x = m.param("x", {2, 16, 9, 8});
    NDArray taps = NDArray::empty({16, 1, w.height, w.width}, f32);  // bfloat16 holds them
    for (int64_t i = 0; i < taps.size(); ++i) taps.set_element(i, double(i * 5 % 17 - 8) / 8);
    const DataType low = DataType::bfloat16();
    auto to = [&](DataType t, const Expr& e) { return m.op("cast", {e}, op::make_attrs<op::CastAttrs>(t)); };
    Expr y = m.op("nn.conv2d", {x, m.weight({16, 16, 1, 1})}, conv({1, 1}, {}));
    y = to(f32, m.op("nn.conv2d", {to(low, y), constant(taps)},
                     op::make_attrs<op::ConvAttrs>([&](op::ConvAttrs& a) {
                       a.strides = {w.stride, w.stride};
                       a.padding = {2, 1, 1, 2};
                       a.dilation = {w.dilation, w.dilation};
                       a.groups = 16;
                       a.out_dtype = f32;
                     })));
    const IRModule in = m.done(y);
    for (const char* target : {"llvm -mcpu=znver4", "llvm -mcpu=x86-64-v4"}) {
      PassContext context = make_context();
      context.target = parse_target(target);
      IRModule out = run_pass("convert_layout", run_pass("infer_types", in, context), context);
      expect_valid(out);
      const bool pairs = context.target.cast<TargetNode>()->has("avx512_bf16");
      EXPECT_EQ(layouts(out)[1], pairs ? "NCHW16c OIHW16o2h NCHW16c" : "NCHW16c OIHW16o NCHW16c");
      out = run_pass("fold_constant", run_pass("eliminate_dead_code", out, context), context);
      expect_valid(out);
      const NDArray image = random_array({2, 16, 9, 8});
      expect_close(run(in, {image}), run(out, {image}), 1e-5);
    }
  }
}

/// Eighths, which bfloat16 holds.
NDArray eighths(const std::vector<int64_t>& shape) {
  NDArray a = NDArray::empty(shape, DataType::bfloat16());
  for (int64_t i = 0; i < a.size(); ++i) a.set_element(i, double(i * 5 % 7 + 1) / 8);
  return a;
}

TEST(ConvertLayout, NarrowGroupsOfBfloat16FillRowsOfMatrixRegisters) {
  struct Case {
    std::vector<int64_t> x, w;
    int64_t groups, stride;
    std::string form;
  };
  const std::string half = "NCHW16c OIHW8i16o2i NCHW16c", whole = "NCHW32c OIHW16i32o2i NCHW32c",
                    point = "NCHW32c OIHW32o2i NCHW32c";
  for (const Case& c :
       {Case{{1, 16, 5, 6}, {104, 8, 3, 3}, 13, 2, half},  // thirteen groups in blocks of two
        {{2, 16, 4, 4}, {440, 8, 3, 1}, 55, 1, whole},     // in blocks of four, the last one filled up
        {{1, 16, 5, 5}, {32, 4, 3, 3}, 8, 1, whole},
        {{1, 16, 5, 5}, {64, 4, 1, 1}, 8, 1, point}}) {  // twice as many results
    Model m;
    const DataType low = DataType::bfloat16();
    auto to = [&](DataType t, const Expr& e) { return m.op("cast", {e}, op::make_attrs<op::CastAttrs>(t)); };
    auto attrs = [&](int64_t groups, int64_t stride, int64_t pad) {
      return op::make_attrs<op::ConvAttrs>([&](op::ConvAttrs& a) {
        a.groups = groups, a.strides = {stride, stride}, a.padding = {pad, pad, pad, pad}, a.out_dtype = f32;
      });
    };
    const int64_t inputs = c.groups * c.w[1];
    auto x = m.param("x", {c.x[0], c.x[1], c.x[2], c.x[3]}, low);
    // What lies in front decides the blocks.
    Expr y = to(low, m.op("nn.conv2d", {x, constant(eighths({inputs, c.x[1], 1, 1}))}, attrs(1, 1, 0)));
    y = m.op("nn.conv2d", {y, constant(eighths(c.w))}, attrs(c.groups, c.stride, c.w[2] / 2));
    const IRModule in = m.done(m.op("nn.relu", {y}));
    PassContext context = make_context();
    context.target = parse_target("llvm -mcpu=sapphirerapids");
    IRModule out = run_pass("convert_layout", run_pass("infer_types", in, context), context);
    expect_valid(out);
    EXPECT_EQ(layouts(out)[1], c.form);
    const bool filled = inputs % 16 != 0;
    EXPECT_EQ(count(out, "where"), filled) << "zeros where channels were added alone";
    expect_close(run(in, {eighths(c.x)}), run(out, {eighths(c.x)}), 1e-4);
  }
}

TEST(ConvertLayout, AddedChannelsThatAreNoNumbersReachNoSumOfBfloat16) {
  const DataType low = DataType::bfloat16();
  auto wide = op::make_attrs<op::ConvAttrs>([](op::ConvAttrs& a) { a.out_dtype = f32; });
  Model m;
  auto x = m.param("x", {1, 16, 3, 2}, low);
  Expr a = m.op("nn.conv2d", {x, constant(eighths({136, 16, 1, 1}))}, wide);
  Expr b = m.op("cast", {m.op("log", {a})}, op::make_attrs<op::CastAttrs>(low));  // of 0 where one was added
  const IRModule in = m.done(m.op("nn.conv2d", {b, constant(eighths({16, 136, 1, 1}))}, wide));
  const NDArray image = eighths({1, 16, 3, 2});
  for (const char* target : {"llvm -mcpu=znver4", "llvm -mcpu=sapphirerapids"}) {
    PassContext context = make_context();
    context.target = parse_target(target);
    IRModule out = run_pass("convert_layout", run_pass("infer_types", in, context), context);
    expect_valid(out);
    EXPECT_EQ(layouts(out)[1], "NCHW16c OIHW16o2i NCHW16c");
    expect_close(run(in, {image}), run(out, {image}), 1e-4);
  }
}

TEST(ConvertLayout, AddedChannelsStayInDepthwiseConvolutionsAndMeetZeros) {
  for (bool symbolic : {false, true}) {
    Model m;
    tir::VarRef w = tir::var("w");
    auto x = m.param("x", {1, 8, 2, symbolic ? PrimExpr(w) : PrimExpr(3)});
    Expr a = m.op("nn.conv2d", {x, m.weight({136, 8, 1, 1})}, conv({1, 1}, {}));
    Expr b = m.op("nn.relu", {m.op("add", {a, m.weight({1, 136, 1, 1})})});
    Expr c = m.op("nn.conv2d", {b, m.weight({136, 1, 3, 3})}, conv({1, 1}, {1, 1, 1, 1}, 136));
    Expr gate = m.op("mean", {c}, op::make_attrs<op::ReduceAttrs>([](op::ReduceAttrs& r) {
                       r.axis = {2, 3};
                       r.keepdims = true;
                     }));
    gate = m.op("nn.relu", {m.op("nn.conv2d", {gate, m.weight({10, 136, 1, 1})}, conv({1, 1}, {}))});
    gate = m.op("sigmoid", {m.op("nn.conv2d", {gate, m.weight({136, 10, 1, 1})}, conv({1, 1}, {}))});
    // Divided by 0 where channels were added.
    Expr d = m.op("divide", {m.op("multiply", {c, gate}), m.weight({1, 136, 1, 1})});
    Expr e = m.op("nn.conv2d", {d, m.weight({32, 136, 1, 1})}, conv({1, 1}, {}));
    IRModule out = blocked(m.done(m.op("nn.relu", {e})), {random_array({1, 8, 2, 3})});
    const std::string sum = "NCHW16c OIHW16i16o NCHW16c";  // of one point, too, where no block divides 10
    EXPECT_EQ(layouts(out),
              (std::vector<std::string>{"NCHW OIHW16o NCHW16c", "NCHW16c OIHW16o NCHW16c", sum, sum, sum}));
    EXPECT_EQ(count(out, "layout_transform"), 1);  // at the end
  }
}

TEST(ConvertLayout, OfOnePointChannelsAtMostDouble) {
  for (int64_t outputs : {1, 3, 7, 9}) {
    Model m;
    auto x = m.param("x", {2, 16, 1, 1});
    Expr a = m.op("sigmoid", {m.op("nn.conv2d", {x, m.weight({outputs, 16, 1, 1})}, conv({1, 1}, {}))});
    IRModule out = blocked(m.done(a), {random_array({2, 16, 1, 1})});
    EXPECT_EQ(layouts(out)[0].ends_with("16c"), outputs >= 8) << layouts(out)[0];
  }
}

TEST(ConvertLayout, OperandsThatBroadcast) {
  Model m;
  auto x = m.param("x", {1, 16, 3, 4});
  auto image = m.param("image", {1, 1, 3, 4});
  auto gate = m.param("gate", {1, 16, 1, 1});
  auto plain = m.param("plain", {1, 16, 3, 4});
  Expr a = m.op("nn.conv2d", {x, m.weight({16, 16, 1, 1})}, conv({1, 1}, {}));
  Expr b = m.op("multiply", {m.op("add", {a, image}), gate});
  Expr c = m.op("subtract", {plain, m.op("multiply", {b, op::scalar(0.5, f32)})});
  Expr d = m.op("nn.bias_add", {c, m.weight({16})}, op::make_attrs<op::AxisAttrs>(1));
  Expr e = m.op("mean", {d}, op::make_attrs<op::ReduceAttrs>([](op::ReduceAttrs& r) { r.axis = {-1, 2}; }));
  IRModule out =
      blocked(m.done(e), {random_array({1, 16, 3, 4}), random_array({1, 1, 3, 4}, f32, 2),
                          random_array({1, 16, 1, 1}, f32, 3), random_array({1, 16, 3, 4}, f32, 4)});
  EXPECT_EQ(layouts(out).size(), 1u);
}

TEST(ConvertLayout, EveryFoldOverTheImageReadsBlocks) {
  for (const char* fold :
       {"sum", "prod", "max", "min", "mean", "sum_square", "l1_norm", "l2_norm", "abs_max", "nansum"})
    for (bool keepdims : {false, true}) {
      SCOPED_TRACE(fold);
      Model m;
      auto x = m.param("x", {1, 8, 2, 3});
      Expr a = m.op("nn.conv2d", {x, m.weight({15, 8, 1, 1})}, conv({1, 1}, {}));  // one channel is added
      Expr b = m.op(fold, {a}, op::make_attrs<op::ReduceAttrs>(Array<int64_t>{2, 3}, keepdims));
      IRModule out = blocked(m.done(b), {random_array({1, 8, 2, 3})});
      EXPECT_EQ(layouts(out)[0], "NCHW OIHW16o NCHW16c");
      EXPECT_EQ(count(out, "layout_transform"), 0);
    }
}

TEST(ConvertLayout, BroadcastToTakesSizesOfThePlainLayout) {
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{1, 16, 1}, {1, 16, 4, 3}}) {
    Model m;
    auto x = m.param("x", {1, 4, 2, 2});
    Expr a = m.op("nn.conv2d", {x, m.weight({16, 4, 1, 1})}, conv({1, 1}, {}));
    Expr b = m.op("nn.max_pool2d", {a}, pool(2, 2, {}));
    Array<PrimExpr> shape;
    for (int64_t s : sizes) shape.push_back(PrimExpr(s));
    Expr c = m.op("nn.relu", {m.op("broadcast_to", {b, shape_expr(shape)})});
    IRModule out = blocked(m.done(c), {random_array({1, 4, 2, 2})});
    EXPECT_EQ(layouts(out).size(), 1u);
  }
}

ObjectRef transposed(Array<int64_t> strides, Array<int64_t> padding = {}) {
  return op::make_attrs<op::ConvTransposeAttrs>([&](op::ConvTransposeAttrs& a) {
    a.strides = strides;
    a.padding = padding;
  });
}
TEST(ConvertLayout, WindowsSideBySideAreAxes) {
  Model m;
  auto x = m.param("x", {2, 16, 3, 4});
  Expr skip = m.op("nn.conv2d", {x, m.weight({16, 16, 1, 1})}, conv({1, 1}, {}));
  Expr up = m.op("nn.conv2d_transpose", {skip, m.weight({16, 32, 2, 3})}, transposed({2, 3}));
  Expr b = m.op("nn.relu", {m.op("add", {up, m.weight({1, 32, 1, 1})})});
  Expr masked = m.op("multiply", {b, m.weight({1, 1, 6, 12})});
  Expr rows = m.op("add", {masked, m.weight({1, 32, 6, 1})});
  Expr wide = m.op("nn.conv2d_transpose", {skip, m.weight({16, 16, 2, 3})}, transposed({2, 3}));
  Expr both =
      m.op("concat", {make<Tuple>(Array<Expr>{rows, wide})}, op::make_attrs<op::AxisAttrs>(int64_t(1)));
  Expr last = m.op("nn.conv2d", {both, m.weight({16, 48, 3, 3})}, conv({1, 1}, {1, 1, 1, 1}));
  IRModule out = blocked(m.done(last), {random_array({2, 16, 3, 4})});
  const std::string laid = "NCHW16c HWOI16i16o N2h3wCHW16c";
  EXPECT_EQ(layouts<op::ConvTransposeAttrs>(out), (std::vector<std::string>{laid, laid}));
}

TEST(ConvertLayout, WindowsAlongOneAxisAndThree) {
  for (const auto& [op, image, kernel, laid] : std::initializer_list<
           std::tuple<std::string, std::vector<int64_t>, std::vector<int64_t>, std::string>>{
           {"nn.conv1d_transpose", {4}, {2}, "NCW16c WOI16i16o N2wCW16c"},
           {"nn.conv3d_transpose", {2, 3, 2}, {2, 1, 3}, "NCDHW16c DHWOI16i16o N2d3wCDHW16c"}}) {
    Model m;
    std::vector<int64_t> data{1, 16}, weight{16, 16};
    data.insert(data.end(), image.begin(), image.end());
    weight.insert(weight.end(), kernel.begin(), kernel.end());
    op::Shape dims;
    for (int64_t d : data) dims.push_back(PrimExpr(d));
    auto x = m.param("x", dims);
    Expr up = m.op(op, {x, m.weight(weight)}, transposed(kernel));
    IRModule out = blocked(m.done(m.op("nn.relu", {up})), {random_array(data)});
    EXPECT_EQ(layouts<op::ConvTransposeAttrs>(out), (std::vector<std::string>{laid})) << op;
  }
}

TEST(ConvertLayout, WindowsThatOverlapAreBlocksByPhases) {
  const tir::VarRef n = tir::var("n"), h = tir::var("h"), w = tir::var("w");
  for (const std::vector<int64_t>& kernel : {std::vector<int64_t>{4, 4}, {3, 3}, {2, 3}}) {
    Model m;
    auto x = m.param("x", {n, 16, h, w});
    Expr skip = m.op("nn.relu", {m.op("nn.conv2d", {x, m.weight({32, 16, 1, 1})}, conv({1, 1}, {}))});
    Expr up = m.op("nn.conv2d_transpose", {skip, m.weight({32, 16, kernel[0], kernel[1]})},
                   transposed({2, 2}, {1, 1, 0, 1}));
    Expr last =
        m.op("nn.conv2d", {m.op("nn.relu", {up}), m.weight({16, 16, 3, 3})}, conv({1, 1}, {1, 1, 1, 1}));
    IRModule out = blocked(m.done(last), {random_array({2, 16, 3, 5})});
    EXPECT_EQ(layouts<op::ConvTransposeAttrs>(out), (std::vector<std::string>{"NCHW16c HWOI16i16o NCHW16c"}));
  }
}

TEST(ConvertLayout, WindowsThatLeaveGapsOrFitNoBlockStay) {
  for (const auto& [weight, strides, padding] :
       std::initializer_list<std::tuple<std::vector<int64_t>, Array<int64_t>, Array<int64_t>>>{
           {{16, 16, 1, 2}, {2, 2}, {}}, {{16, 5, 2, 2}, {2, 2}, {}}, {{16, 8, 2, 2}, {2, 2}, {}}}) {
    Model m;
    auto x = m.param("x", {1, 16, 3, 4});
    Expr up = m.op("nn.conv2d_transpose", {x, m.weight(weight)}, transposed(strides, padding));
    IRModule out = blocked(m.done(m.op("nn.relu", {up})), {random_array({1, 16, 3, 4})});
    EXPECT_EQ(layouts<op::ConvTransposeAttrs>(out), (std::vector<std::string>{"  "}));
  }
}

TEST(ConvertLayout, SymbolicSizesAndOtherRanks) {
  Model m;
  tir::VarRef n = tir::var("n"), h = tir::var("h");
  auto x = m.param("x", {n, 8, h, 6});
  Expr a = m.op("nn.conv2d", {x, m.weight({16, 8, 3, 3})}, conv({2, 1}, {1, 1, 1, 1}));
  Expr b = m.op("nn.avg_pool2d", {m.op("nn.relu", {a})}, pool(2, 2, {}, true));
  IRModule out = blocked(m.done(b), {random_array({3, 8, 7, 6})});
  EXPECT_EQ(layouts(out).size(), 1u);

  Model one;
  auto y = one.param("x", {2, 8, 11});
  Expr c = one.op("nn.conv1d", {y, one.weight({8, 8, 3})}, conv({1}, {1, 1}));
  Expr d = one.op("nn.conv1d", {one.op("nn.relu", {c}), one.weight({8, 8, 3})}, conv({1}, {1, 1}));
  EXPECT_EQ(layouts(blocked(one.done(d), {random_array({2, 8, 11})}, 256)).size(), 2u);
}

TEST(ConvertLayout, NearestResizingOfSymbolicSizesStaysInside) {
  // The sizes agree for even images only: a check of the resized tensor stands before the sum.
  Model m;
  const tir::VarRef h = tir::var("h"), w = tir::var("w");
  auto x = m.param("x", {PrimExpr(1), PrimExpr(3), h, w});
  Expr a = m.op("nn.conv2d", {x, m.weight({16, 3, 3, 3})}, conv({2, 2}, {1, 1, 1, 1}));
  Expr b = m.op("nn.conv2d", {x, m.weight({16, 3, 1, 1}, 5)}, conv({1, 1}, {}));
  const Array<PrimExpr> twice{floordiv(h + 1, PrimExpr(2)) * 2, floordiv(w + 1, PrimExpr(2)) * 2};
  Expr large =
      m.op("image.resize2d", {a, shape_expr(twice)}, op::make_attrs<op::ResizeAttrs>([](op::ResizeAttrs& r) {
             r.method = "nearest_neighbor";
             r.coordinate_transformation_mode = "asymmetric";
             r.rounding_method = "floor";
             r.scales = {2.0, 2.0};
           }));
  Expr same = m.builder.emit_match_cast(large, tensor_type({PrimExpr(1), PrimExpr(16), h, w}, f32), "same");
  IRModule in = m.done(m.op("add", {b, same}));
  const std::vector<NDArray> even{random_array({1, 3, 6, 4})}, odd{random_array({1, 3, 5, 4})};
  const std::vector<NDArray> want = run(in, even);
  PassContext context = make_context();
  IRModule checked = run_pass("canonicalize", run_pass("infer_types", in, context), context);
  expect_valid(checked);
  IRModule out = blocked(checked, even);
  expect_close(want, run(out, even), 1e-4);
  EXPECT_EQ(count(out, "image.resize2d"), 0);
  EXPECT_EQ(count(out, "image.resize3d"), 1);
  EXPECT_EQ(count(out, "layout_transform"), 1);  // at the end
  EXPECT_ANY_THROW(run(in, odd));
  EXPECT_ANY_THROW(run(out, odd));
}

/// Tokens seen as an image and back: their channels move anyway.
TEST(ConvertLayout, DepthwiseConvolutionsOfChannelsThatLayLast) {
  const auto axes = [](Array<int64_t> order) {
    return op::make_attrs<op::AxesAttrs>([&](op::AxesAttrs& a) { a.axes = order; });
  };
  const auto layouts_of = [&](Array<int64_t> order, std::vector<int64_t> from) {
    Model m;
    const PrimExpr n = tir::var("n", i64), h = tir::var("h", i64), w = tir::var("w", i64);
    const Expr image = m.param("image", {n, PrimExpr(16), h, w});  // says the sizes
    Array<PrimExpr> shape{n, h * w, PrimExpr(16)};
    if (from[1] == 16) shape = {n, PrimExpr(16), h * w};
    const Expr x = m.op("permute_dims", {m.param("x", shape)}, axes(order));
    const Expr plane = m.op("reshape", {x, shape_expr({n, PrimExpr(16), h, w})});
    const Expr y = m.op("nn.conv2d", {plane, m.weight({16, 1, 3, 3})}, conv({1, 1}, {1, 1, 1, 1}, 16));
    const Expr back = m.op("reshape", {m.op("add", {y, image}), shape_expr({n, PrimExpr(16), h * w})});
    return layouts(blocked(m.done(m.op("permute_dims", {back}, axes({0, 2, 1}))),
                           {random_array({2, 16, 3, 5}), random_array(from)}));
  };
  EXPECT_EQ(layouts_of({0, 2, 1}, {2, 15, 16}), (std::vector<std::string>{"NCHW16c OIHW16o NCHW16c"}));
  // Channels that lie before the others, as in the program's layout.
  EXPECT_EQ(layouts_of({0, 1, 2}, {2, 16, 15}), (std::vector<std::string>{"  "}));
}

TEST(ConvertLayout, NothingWithoutATargetOrWithoutConstantWeights) {
  Model m;
  auto x = m.param("x", {1, 16, 3, 3});
  auto w = m.param("w", {16, 16, 1, 1});
  IRModule in = m.done(m.op("nn.conv2d", {x, w}, conv({1, 1}, {})));
  EXPECT_EQ(layouts(blocked(in, {random_array({1, 16, 3, 3}), random_array({16, 16, 1, 1})})),
            (std::vector<std::string>{"  "}));
  Model n;
  auto y = n.param("x", {1, 16, 3, 3});
  IRModule other = n.done(n.op("nn.conv2d", {y, n.weight({16, 16, 1, 1})}, conv({1, 1}, {})));
  PassContext context = make_context();
  EXPECT_EQ(layouts(run_pass("convert_layout", other, context)), (std::vector<std::string>{"  "}));
}

/// What is wrong with a layout that is named for an operator; "" when it is taken.
std::string refusal_of(const std::string& name, const std::string& layouts) {
  PassContext context = make_context();
  context.options.set("convert_layout.desired", Any(Map<std::string, std::string>{{name, layouts}}));
  try {
    run_pass("convert_layout", IRModule::create(), context);
  } catch (const DiagnosticError& e) {
    EXPECT_EQ(e.diagnostics.size(), 1u);
    EXPECT_EQ(e.diagnostics[0].code, "T1107");
    EXPECT_FALSE(e.diagnostics[0].hint.empty());
    return e.diagnostics[0].message;
  }
  return "";
}

TEST(ConvertLayout, LayoutsThatDoNotFitTheirOperatorAreRefused) {
  for (const auto& [name, layouts] :
       std::vector<std::pair<std::string, std::string>>{{"nn.conv2d", "NHWC"},
                                                        {"nn.conv2d", "NHWC:OHWI"},
                                                        {"nn.conv2d", "NCHW4c:OIHW"},
                                                        {"nn.max_pool2d", "NHWC"}})
    EXPECT_EQ(refusal_of(name, layouts), "") << name << " " << layouts;
  struct Case {
    const char *name, *layouts, *why;
  };
  for (const Case& c : {Case{"nn.conv", "NHWC", "there is no such operator"},
                        Case{"nn.relu", "NHWC", "the operator takes no layout"},
                        Case{"nn.conv2d", "NHW", "the layout of the data names no axes"},
                        Case{"nn.conv2d", "NCHW4c", "no layout of the weight goes with it"},
                        Case{"nn.conv2d", "NDHWC", "the data has the axes of NCHW"},
                        Case{"nn.conv2d", "NHWC:HWI", "the weight has the axes of OIHW"},
                        Case{"nn.max_pool2d", "NHWC:OIHW", "the operator has no weight"}})
    EXPECT_NE(refusal_of(c.name, c.layouts).find(c.why), std::string::npos)
        << c.name << " " << c.layouts << ": " << refusal_of(c.name, c.layouts);
}

}  // namespace
}  // namespace tenon::graph::testing_graph
