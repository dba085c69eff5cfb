// SPDX-License-Identifier: Apache-2.0
// narrow_contraction and the layouts that convert_layout gives its convolutions: zero points, padding,
// groups, and that every bit of the result stays.
#include "support.h"
#include "target/target.h"

namespace tenon::graph::testing_graph {
namespace {

constexpr DataType i8 = DataType::int_(8);

Ref<TargetNode> with_dots(bool vnni) {
  Ref<TargetNode> t = make<TargetNode>();
  TargetNode* n = t.edit();
  n->triple = "x86_64-unknown-linux-gnu";
  n->features = {"sse4_2", "avx", "avx2", "fma"};
  if (vnni)
    for (const char* f : {"avx512f", "avx512bw", "avx512vl", "avx512_vnni"}) n->features.push_back(f);
  n->vector_bits = vnni ? 512 : 256;
  n->vector_registers = vnni ? 32 : 16;
  return t;
}

NDArray integers(std::vector<int64_t> shape, DataType t, int64_t low, int64_t high, uint64_t seed) {
  std::mt19937_64 random(seed);
  NDArray a = NDArray::empty(std::move(shape), t);
  for (int64_t i = 0; i < a.size(); ++i)
    a.set_element_int(i, low + int64_t(random() % uint64_t(high - low + 1)));
  return a;
}

struct Case {
  std::vector<int64_t> x, w;
  DataType type;
  int64_t zero, groups;
  std::vector<int64_t> strides, padding;
};

/// (x - zero) * w of 32 bits, as importers make it, with the requantisation of a per-channel scale behind it.
IRModule quantised_conv(const Case& c, bool wide_weights = false) {
  Model m;
  Array<PrimExpr> shape;
  for (int64_t d : c.x) shape.push_back(PrimExpr(d));
  auto x = m.param("x", shape, c.type);
  Expr wide = m.op("cast", {x}, op::make_attrs<op::CastAttrs>(i32));
  Expr from = m.op("subtract", {wide, op::scalar(double(c.zero), i32)});
  Expr y =
      m.op("nn.conv" + std::to_string(c.x.size() - 2) + "d",
           {from, constant(integers(c.w, i32, wide_weights ? -1000 : -128, wide_weights ? 1000 : 127, 3))},
           op::make_attrs<op::ConvAttrs>([&](op::ConvAttrs& a) {
             a.strides = Array<int64_t>(c.strides);
             a.padding = Array<int64_t>(c.padding);
             a.groups = c.groups;
           }));
  std::vector<int64_t> channels(c.x.size(), 1);
  channels[1] = c.w[0];
  y = m.op("add", {y, constant(integers(channels, i32, -5000, 5000, 4))});
  Expr scaled = m.op("multiply", {m.op("cast", {y}, op::make_attrs<op::CastAttrs>(f32)),
                                  constant(random_array(channels, f32, 5))});
  scaled = m.op("clip", {m.op("round", {m.op("multiply", {scaled, op::scalar(0.01, f32)})})},
                op::make_attrs<op::ClipAttrs>(-128.0, 127.0));
  return m.done(op::tuple({y, m.op("cast", {scaled}, op::make_attrs<op::CastAttrs>(i8))}));
}

/// Layouts of the convolutions of main, with the types of their operands.
std::vector<std::string> conv_forms(const IRModule& m) {
  std::vector<std::string> out;
  for_each_binding(main_of(m)->body, [&](const Binding& b) {
    Expr v = b->value;
    if (const auto* c = v.as<Call>())
      if (const auto* a = c->attrs.as<op::ConvAttrs>())
        out.push_back(to_string(as_tensor(c->args[0])->dtype) + " " + a->data_layout + " " +
                      a->kernel_layout + " " + a->out_layout);
  });
  return out;
}

void expect_same_bits(const Case& c, const Target& target, const std::string& form) {
  PassContext context = make_context();
  context.target = target;
  const IRModule in = quantised_conv(c);
  const int64_t low = c.type == u8 ? 0 : -128;
  const std::vector<NDArray> inputs{integers(c.x, c.type, low, low + 255, 9)}, want = run(in, inputs);
  IRModule out = run_pass("narrow_contraction", run_pass("infer_types", in, context), context);
  expect_valid(out);
  expect_close(want, run(out, inputs), 0);
  out = run_pass("convert_layout", out, context);
  expect_valid(out);
  out = run_pass("canonicalize",
                 run_pass("fold_constant", run_pass("eliminate_dead_code", out, context), context), context);
  out = run_pass("eliminate_dead_code", out, context);
  expect_valid(out);
  EXPECT_EQ(conv_forms(out), (std::vector<std::string>{form}));
  expect_close(want, run(out, inputs), 0);
}

void expect_same_bits(const Case& c, bool vnni, const std::string& form) {
  expect_same_bits(c, with_dots(vnni), form);
}

TEST(NarrowContraction, MatrixRegistersFindTheGroupsOfABlockTogether) {
  const Target amx = parse_target("llvm -mcpu=sapphirerapids");
  expect_same_bits({{1, 128, 4, 5}, {64, 128, 3, 3}, u8, 7, 1, {1, 1}, {1, 1, 1, 1}}, amx,
                   "uint8 NCHW64c OIHW16i64o4i NCHW64c");
  expect_same_bits({{2, 48, 9}, {32, 48, 5}, i8, -11, 1, {2}, {2, 1}}, amx, "int8 NCW16c OIW4i32o4i NCW32c");
  expect_same_bits({{1, 64, 4, 5}, {64, 64, 1, 1}, u8, 7, 1, {1, 1}, {}}, amx,
                   "uint8 NCHW64c OIHW64o4i NCHW64c");  // no window between groups
}

TEST(NarrowContraction, KeepsEveryBitAtOddSizes) {
  const Case plain{{1, 32, 6, 5}, {16, 32, 3, 3}, u8, 7, 1, {1, 1}, {1, 1, 1, 1}};
  expect_same_bits(plain, true, "uint8 NCHW16c OIHW16o4i NCHW16c");
  expect_same_bits(plain, false, "uint8 NCHW8c OIHW8o2i NCHW8c");
  // Three channels are filled up to four; the zero point of signed bytes.
  const Case first{{2, 3, 9, 8}, {24, 3, 3, 3}, i8, -11, 1, {2, 2}, {0, 1, 1, 0}};
  expect_same_bits(first, true, "int8 NCHW4c OIHW16o4i NCHW16c");
  expect_same_bits(first, false, "int8 NCHW4c OIHW8o2i NCHW8c");
  const Case groups{{1, 32, 5, 5}, {64, 16, 3, 1}, u8, 255, 2, {1, 2}, {2, 0, 1, 0}};
  expect_same_bits(groups, true, "uint8 NCHW16c OIHW16o4i NCHW16c");
  // Channels that fill no block: one group of 20 as fives of four.
  expect_same_bits({{1, 20, 4, 4}, {32, 20, 1, 1}, u8, 0, 1, {1, 1}, {}}, true,
                   "uint8 NCHW4c OIHW16o4i NCHW16c");
  expect_same_bits({{1, 8, 11}, {16, 8, 5}, u8, 3, 1, {2}, {2, 1}}, true, "uint8 NCW8c OIW16o4i NCW16c");
  expect_same_bits({{1, 12, 5, 5}, {20, 3, 3, 3}, u8, 9, 4, {1, 1}, {1, 1, 1, 1}}, true,
                   "uint8 NGCHW GOIHW NGCHW");
}

TEST(NarrowContraction, NarrowGroupsBecomeWholeVectors) {
  // Groups of eight channels by twos, of four by fours, with a zero point behind the padding.
  const std::string wide = "uint8 NCHW16c OIHW16o4i NCHW16c", half = "uint8 NCHW8c OIHW8o2i NCHW8c";
  const Case eights{{1, 48, 7, 6}, {48, 8, 3, 3}, u8, 9, 6, {2, 2}, {1, 1, 1, 1}};
  expect_same_bits(eights, true, wide);
  const Case fours{{2, 32, 5, 5}, {32, 4, 3, 3}, u8, 200, 8, {1, 1}, {1, 1, 1, 1}};
  expect_same_bits(fours, true, wide);
  expect_same_bits(fours, false, half);
  // Four channels with twice as many results; three groups, which do not pair.
  expect_same_bits({{1, 16, 5, 5}, {32, 4, 3, 1}, u8, 3, 4, {1, 1}, {1, 0, 1, 0}}, true, wide);
  expect_same_bits({{1, 36, 5, 5}, {36, 12, 3, 3}, u8, 3, 3, {1, 1}, {}}, true, "uint8 NGCHW GOIHW NGCHW");
}

TEST(NarrowContraction, ChannelsThatWereAddedMeetNoWeights) {
  // 136 channels in blocks of 16 are 144; the second convolution reads them as they lie.
  Model m;
  auto x = m.param("x", {1, 16, 3, 3}, u8);
  auto widened = [&](const Expr& e) {
    return m.op("subtract", {m.op("cast", {e}, op::make_attrs<op::CastAttrs>(i32)), op::scalar(5, i32)});
  };
  Expr a = m.op("nn.conv2d", {widened(x), constant(integers({136, 16, 1, 1}, i32, -100, 100, 1))});
  Expr b = m.op("cast",
                {m.op("clip", {m.op("right_shift", {a, op::scalar(6, i32)})},
                      op::make_attrs<op::ClipAttrs>(0.0, 255.0))},
                op::make_attrs<op::CastAttrs>(u8));
  Expr c = m.op("nn.conv2d", {widened(b), constant(integers({16, 136, 3, 3}, i32, -100, 100, 2))},
                op::make_attrs<op::ConvAttrs>([](op::ConvAttrs& to) { to.padding = {1, 1, 1, 1}; }));
  const IRModule in = m.done(c);
  PassContext context = make_context();
  context.target = with_dots(true);
  const std::vector<NDArray> inputs{integers({1, 16, 3, 3}, u8, 0, 255, 9)}, want = run(in, inputs);
  IRModule out =
      run_pass("convert_layout",
               run_pass("narrow_contraction", run_pass("infer_types", in, context), context), context);
  out = run_pass(
      "eliminate_dead_code",
      run_pass("canonicalize",
               run_pass("fold_constant", run_pass("eliminate_dead_code", out, context), context), context),
      context);
  expect_valid(out);
  EXPECT_EQ(conv_forms(out),
            (std::vector<std::string>{"uint8 NCHW16c OIHW16o4i NCHW16c", "uint8 NCHW16c OIHW16o4i NCHW16c"}));
  int moves = 0;
  for (const std::string& name : ops_of(out)) moves += name == "layout_transform";
  EXPECT_EQ(moves, 2);  // into the island and out of it
  expect_close(want, run(out, inputs), 0);
}

TEST(NarrowContraction, ZeroPointsOfTheCall) {
  // ConvInteger whose zero point arrives with the data.
  Model m;
  auto x = m.param("x", {1, 4, 4, 5}, u8), z = m.param("z", {1}, u8);
  Expr zero = m.op("reshape", {m.op("cast", {z}, op::make_attrs<op::CastAttrs>(i32)), op::shape({})});
  Expr from = m.op("subtract", {m.op("cast", {x}, op::make_attrs<op::CastAttrs>(i32)), zero});
  Expr y = m.op("nn.conv2d", {from, constant(integers({16, 4, 3, 3}, i32, -128, 127, 3))},
                op::make_attrs<op::ConvAttrs>([](op::ConvAttrs& to) { to.padding = {1, 1, 1, 1}; }));
  const IRModule in = m.done(y);
  PassContext context = make_context();
  context.target = with_dots(true);
  const std::vector<NDArray> inputs{integers({1, 4, 4, 5}, u8, 0, 255, 9), integers({1}, u8, 130, 130, 1)},
      want = run(in, inputs);
  IRModule out =
      run_pass("convert_layout",
               run_pass("narrow_contraction", run_pass("infer_types", in, context), context), context);
  out = run_pass(
      "eliminate_dead_code",
      run_pass("canonicalize",
               run_pass("fold_constant", run_pass("eliminate_dead_code", out, context), context), context),
      context);
  expect_valid(out);
  EXPECT_EQ(conv_forms(out), (std::vector<std::string>{"uint8 NCHW4c OIHW16o4i NCHW16c"}));
  expect_close(want, run(out, inputs), 0);
}

TEST(NarrowContraction, LeavesWhatDoesNotFitBytes) {
  PassContext context = make_context();
  context.target = with_dots(true);
  const Case c{{1, 4, 3, 3}, {16, 4, 3, 3}, u8, 7, 1, {1, 1}, {1, 1, 1, 1}};
  const IRModule wide = run_pass("infer_types", quantised_conv(c, true), context);
  EXPECT_EQ(conv_forms(run_pass("narrow_contraction", wide, context)),
            (std::vector<std::string>{"int32   "}));
  // A zero point that no byte holds cannot be padded with.
  Case far = c;
  far.zero = 300;
  const IRModule beyond = run_pass("infer_types", quantised_conv(far), context);
  EXPECT_EQ(conv_forms(run_pass("narrow_contraction", beyond, context)),
            (std::vector<std::string>{"int32   "}));
}

/// x and weights of bytes, each less a zero point, multiplied as importers write it.
IRModule quantised_product(const char* op, bool dense, double zero, std::vector<int64_t> zero_shape,
                           DataType w_type, bool zero_of_call) {
  Model m;
  auto x = m.param("x", {3, 5, 8}, u8);
  auto wide = [&](const Expr& e) { return m.op("cast", {e}, op::make_attrs<op::CastAttrs>(i32)); };
  Expr from = wide(x);
  if (zero_of_call)
    from = m.op("subtract", {from, m.op("reshape", {wide(m.param("z", {1}, u8)), op::shape({})})});
  else if (zero != 0)
    from = m.op("subtract",
                {from, m.op("reshape", {wide(constant(integers({1}, u8, int64_t(zero), int64_t(zero), 1))),
                                        op::shape({})})});
  const int64_t low = w_type == u8 ? 100 : -100;
  Expr w = wide(constant(integers(dense ? std::vector<int64_t>{19, 8} : std::vector<int64_t>{8, 19}, w_type,
                                  low, low + 100, 3)));
  if (!zero_shape.empty())
    w = m.op("subtract", {w, constant(integers(zero_shape, i32, low + 40, low + 60, 5))});
  return m.done(m.op(op, {from, w}));
}

TEST(NarrowContraction, ProductsOfBytes) {
  PassContext context = make_context();
  context.target = with_dots(true);
  for (const char* op : {"matmul", "nn.dense"})
    for (const DataType w_type : {i8, u8})
      for (const double zero : {0.0, 7.0})
        for (const bool of_call : {false, true})
          for (int zeros = 0; zeros < 3; ++zeros) {
            const bool dense = std::string(op) == "nn.dense";
            const std::vector<int64_t> shape = zeros == 0   ? std::vector<int64_t>{}
                                               : zeros == 1 ? std::vector<int64_t>{1, 1}
                                               : dense      ? std::vector<int64_t>{19, 1}
                                                            : std::vector<int64_t>{1, 19};
            const IRModule in =
                run_pass("infer_types", quantised_product(op, dense, zero, shape, w_type, of_call), context);
            std::vector<NDArray> inputs{integers({3, 5, 8}, u8, 0, 255, 9)};
            if (of_call) inputs.push_back(integers({1}, u8, 99, 99, 1));
            const std::vector<NDArray> want = run(in, inputs);
            IRModule out =
                run_pass("eliminate_dead_code", run_pass("narrow_contraction", in, context), context);
            expect_valid(out);
            expect_close(want, run(out, inputs), 0);
            // No weight is widened any more, and panels hold groups of four.
            for_each_binding(main_of(out)->body, [&](const Binding& b) {
              Expr value = b->value;
              const auto* c = value.as<Call>();
              EXPECT_TRUE(!c || op_of(value)->name != op || as_tensor(c->args[1])->dtype.bits == 8);
            });
            out = run_pass("fold_constant", run_pass("pack_weights", out, context), context);
            EXPECT_TRUE(std::ranges::count(ops_of(out), "nn.packed_matmul"));
            expect_close(want, run(out, inputs), 0);
          }
}

/// A convolution of x by all bytes, each less a zero point (of each channel, or of all): 135 and more fits
/// none.
IRModule conv_less_zeros(int64_t zeros, int64_t groups) {
  Model m;
  auto wide = [&](const Expr& e) { return m.op("cast", {e}, op::make_attrs<op::CastAttrs>(i32)); };
  const Expr x = m.op("subtract", {wide(m.param("x", {1, 8, 5, 6}, u8)), op::scalar(3, i32)});
  const Expr w = m.op("subtract", {wide(constant(integers({16, 8 / groups, 3, 3}, u8, 0, 255, 3))),
                                   constant(integers({zeros, 1, 1, 1}, i32, 110, 130, 5))});
  return m.done(m.op("nn.conv2d", {x, w}, op::make_attrs<op::ConvAttrs>([&](op::ConvAttrs& a) {
                       a.padding = Array<int64_t>{1, 1, 1, 1};
                       a.groups = groups;
                     })));
}

TEST(NarrowContraction, WeightsThatLeaveAByteAreTwo) {
  PassContext context = make_context();
  context.target = with_dots(true);
  for (const int64_t zeros : {1, 16})
    for (const int64_t groups : {1, 2}) {
      const IRModule in = run_pass("infer_types", conv_less_zeros(zeros, groups), context);
      const std::vector<NDArray> inputs{integers({1, 8, 5, 6}, u8, 0, 255, 9)};
      const IRModule out =
          run_pass("eliminate_dead_code", run_pass("narrow_contraction", in, context), context);
      expect_valid(out);
      EXPECT_EQ(conv_forms(out).size(), 2u);
      for_each_binding(main_of(out)->body, [&](const Binding& b) {
        Expr value = b->value;
        const auto* c = value.as<Call>();
        EXPECT_TRUE(!c || op_of(value)->name != "nn.conv2d" || as_tensor(c->args[1])->dtype == i8);
      });
      expect_close(run(in, inputs), run(out, inputs), 0);
    }
}

TEST(NarrowContraction, WeightsWithoutZeroPointStayWhatTheyAre) {
  PassContext context = make_context();
  context.target = with_dots(true);
  const IRModule in = run_pass("infer_types", quantised_product("matmul", false, 7, {}, i8, false), context);
  const Constant* before = nullptr;
  auto weight_of = [&](const IRModule& m) {
    const Constant* found = nullptr;
    for_each_binding(main_of(m)->body, [&](const Binding& b) {
      Expr value = b->value;
      if (const auto* c = value.as<Call>())
        for (const Expr& a : c->args)
          if (const auto* k = a.as<Constant>(); k && k->data.dtype() == i8) found = k;
    });
    return found;
  };
  before = weight_of(in);
  const IRModule out = run_pass("narrow_contraction", in, context);
  ASSERT_TRUE(before && weight_of(out));
  EXPECT_EQ(before->data.data(), weight_of(out)->data.data());
}

}  // namespace
}  // namespace tenon::graph::testing_graph
