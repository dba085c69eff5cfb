// SPDX-License-Identifier: Apache-2.0
// Shape, slice, pad and layout operators against index arithmetic written here.
#include "op/attrs_check.h"
#include "op_test.h"

namespace tenon::op_test {
namespace {

using L = std::vector<double>;

Expr to_shape(std::vector<int64_t> d) { return shape(std::move(d)); }

TEST(Reshape, KeepsRowMajorOrder) {
  const NDArray x = iota({2, 3, 4});
  for (const Dims& d : {Dims{6, 4}, Dims{24}, Dims{2, 12}, Dims{4, 3, 2}, Dims{1, 24, 1}, Dims{2, 3, 2, 2}}) {
    NDArray y = run("reshape", {x}, {}, {to_shape(d)});
    EXPECT_EQ(y.shape(), d);
    EXPECT_EQ(list(y), list(x));
  }
  EXPECT_EQ(run("reshape", {x}, {}, {to_shape({-1, 8})}).shape(), (Dims{3, 8}));
  EXPECT_EQ(run("reshape", {values({1}, {5})}, {}, {to_shape({})}).shape(), (Dims{}));
  EXPECT_EQ(run("reshape", {random({0, 3})}, {}, {to_shape({3, 0})}).shape(), (Dims{3, 0}));
  expect_refused("reshape", {x}, {}, {"(2, 3, 4)", "(5, 5)"}, {to_shape({5, 5})});
  expect_refused("reshape", {x}, {}, {"(2, 3, 4)", "open"}, {to_shape({-1, 7})});
  expect_refused("reshape", {x}, {}, {"-1"}, {to_shape({-1, -1})});
}

TEST(Reshape, SymbolicSizes) {
  PrimExpr n = tir::var("n");
  Expr x = input("x", Shape{n, 3, 4});
  EXPECT_EQ(shape_text(op_call("reshape", {x, graph::shape_expr({-1, 12})})), "(n, 12)");
  // Factors that both sides have leave the open size, whatever they are.
  const PrimExpr h = tir::var("h"), w = tir::var("w"), rows = simplify(tir::floordiv(h + 1, 2));
  EXPECT_EQ(shape_text(op_call("reshape", {input("x", Shape{n, 16, simplify(rows * w)}),
                                           graph::shape_expr({n, -1, rows, w})})),
            "(n, 16, (h + 1) // 2, w)");
  EXPECT_EQ(shape_text(op_call("reshape", {input("x", Shape{n, h, 6}), graph::shape_expr({n, -1, 4})})),
            "(n, h + (h // 2), 4)");
  const NDArray a = iota({5, 3, 4});
  NDArray y = run_call(op_call("reshape", {x, graph::shape_expr({n, 12})}), {a})[0];
  EXPECT_EQ(y.shape(), (Dims{5, 12}));
  EXPECT_EQ(list(y), list(a));
  y = run_call(op_call("reshape", {x, graph::shape_expr({n * 3, 4})}), {a})[0];
  EXPECT_EQ(list(y), list(a));
}

TEST(Flatten, TwoDimensions) {
  const NDArray x = iota({2, 3, 4});
  auto f = [&](int64_t axis) { return run("flatten", {x}, make_attrs<AxisAttrs>(axis)); };
  EXPECT_EQ(f(1).shape(), (Dims{2, 12}));
  EXPECT_EQ(f(0).shape(), (Dims{1, 24}));
  EXPECT_EQ(f(3).shape(), (Dims{24, 1}));
  EXPECT_EQ(f(-1).shape(), (Dims{6, 4}));
  EXPECT_EQ(list(f(1)), list(x));
}

TEST(PermuteDims, AnyOrder) {
  const NDArray x = random({2, 3, 4});
  expect_all(run("permute_dims", {x}, make_attrs<AxesAttrs>(ints({2, 0, 1}))), {4, 2, 3},
             [&](const Index& i) { return at(x, {i[1], i[2], i[0]}); });
  expect_all(run("permute_dims", {x}, make_attrs<AxesAttrs>(ints({0, -1, 1}))), {2, 4, 3},
             [&](const Index& i) { return at(x, {i[0], i[2], i[1]}); });
  expect_all(run("permute_dims", {x}), {4, 3, 2}, [&](const Index& i) { return at(x, {i[2], i[1], i[0]}); });
  expect_refused("permute_dims", {x}, make_attrs<AxesAttrs>(ints({0, 0, 1})), {"twice"});
  expect_refused("permute_dims", {x}, make_attrs<AxesAttrs>(ints({0, 1})), {"2 axes", "3 dimensions"});
}

TEST(ExpandDims, AndSqueeze) {
  const NDArray x = random({2, 1, 3});
  EXPECT_EQ(run("expand_dims", {x}, make_attrs<AxesAttrs>(ints({0, -1}))).shape(), (Dims{1, 2, 1, 3, 1}));
  NDArray y = run("squeeze", {x}, make_attrs<AxesAttrs>(ints({-2})));
  EXPECT_EQ(y.shape(), (Dims{2, 3}));
  EXPECT_EQ(list(y), list(x));
  EXPECT_EQ(run("squeeze", {random({1, 2, 1})}).shape(), (Dims{2}));
  expect_refused("squeeze", {x}, make_attrs<AxesAttrs>(ints({0})), {"axis 0", "(2, 1, 3)"});
  expect_refused("expand_dims", {x}, make_attrs<AxesAttrs>(ints({9})), {"9", "4 dimensions"});
}

TEST(BroadcastTo, BothWays) {
  const NDArray x = random({3, 1});
  expect_all(run("broadcast_to", {x}, {}, {to_shape({2, 3, 4})}), {2, 3, 4},
             [&](const Index& i) { return at(x, {i[1], 0}); });
  EXPECT_EQ(run("broadcast_to", {x}, {}, {to_shape({1, 4})}).shape(), (Dims{3, 4}));
  expect_refused("broadcast_to", {x}, {}, {"(3, 1)", "(2, 2)"}, {to_shape({2, 2})});
}

TEST(Concat, AlongAnyAxis) {
  const NDArray a = random({2, 3}, f32, 0, 1, 1), b = random({2, 1}, f32, 0, 1, 2),
                c = random({2, 2}, f32, 0, 1, 3);
  expect_all(run_tuple("concat", {a, b, c}, make_attrs<AxisAttrs>(-1)), {2, 6}, [&](const Index& i) {
    return i[1] < 3 ? at(a, i) : i[1] < 4 ? at(b, {i[0], 0}) : at(c, {i[0], i[1] - 4});
  });
  EXPECT_EQ(run_tuple("concat", {a, random({0, 3})}, make_attrs<AxisAttrs>(0)).shape(), (Dims{2, 3}));
  EXPECT_EQ(list(run_tuple("concat", {a}, make_attrs<AxisAttrs>(0))), list(a));
  expect_refused([&] { run_tuple("concat", {a, random({3, 3})}, make_attrs<AxisAttrs>(1)); }, "T1101",
                 {"(2, 3)", "(3, 3)"});
  expect_refused([&] { run_tuple("concat", {a, random({2, 3}, f64)}, make_attrs<AxisAttrs>(1)); }, "T1101",
                 {"float32", "float64"});
  PrimExpr n = tir::var("n");
  Expr e = op_call("concat", {tuple({input("x", Shape{n, 2}), input("y", Shape{3, 2})})},
                   make_attrs<AxisAttrs>(0));
  EXPECT_EQ(shape_text(e), "(n + 3, 2)");
  const NDArray p = random({4, 2}), q = random({3, 2}, f32, 5, 6);
  expect_all(run_call(e, {p, q})[0], {7, 2},
             [&](const Index& i) { return i[0] < 4 ? at(p, i) : at(q, {i[0] - 4, i[1]}); });
}

TEST(Split, SectionsAndIndices) {
  const NDArray x = iota({2, 7});
  auto parts = run_all("split", {x}, make_attrs<SplitAttrs>(-1, 3, ints({})));
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].shape(), (Dims{2, 3}));
  EXPECT_EQ(parts[2].shape(), (Dims{2, 1}));
  EXPECT_EQ(list(parts[1]), (L{3, 4, 5, 10, 11, 12}));
  parts = run_all("split", {x}, make_attrs<SplitAttrs>(1, 0, ints({2, 2, 5})));
  ASSERT_EQ(parts.size(), 4u);
  EXPECT_EQ(parts[1].shape(), (Dims{2, 0}));
  EXPECT_EQ(list(parts[3]), (L{5, 6, 12, 13}));
  expect_refused("split", {x}, make_attrs<SplitAttrs>(1, 0, ints({5, 2})), {"out of order"});
  expect_refused("split", {x}, make_attrs<SplitAttrs>(1, 0, ints({9})), {"outside"});
}

Array<PrimExpr> exprs(std::initializer_list<int64_t> v) {
  Array<PrimExpr> out;
  for (int64_t i : v) out.push_back(i);
  return out;
}
ObjectRef slice(std::initializer_list<int64_t> axes, std::initializer_list<int64_t> begin,
                std::initializer_list<int64_t> end, std::initializer_list<int64_t> strides = {}) {
  return make_attrs<StridedSliceAttrs>(ints(axes), exprs(begin), exprs(end), ints(strides));
}

/// Positions that Python's slice(begin, end, step) picks from n elements.
std::vector<int64_t> python_slice(int64_t n, int64_t begin, int64_t end, int64_t step) {
  std::vector<int64_t> out;
  auto fix = [&](int64_t p) {
    if (p < 0) p += n;
    if (p < 0) return step > 0 ? int64_t(0) : int64_t(-1);
    if (p >= n) return step > 0 ? n : n - 1;
    return p;
  };
  const int64_t b = fix(begin), e = fix(end);
  for (int64_t i = b; step > 0 ? i < e : i > e; i += step) out.push_back(i);
  return out;
}

TEST(StridedSlice, IsPythonsSlicing) {
  const NDArray x = iota({7});
  for (int64_t begin : {-9, -7, -2, 0, 3, 7, 9})
    for (int64_t end : {-9, -7, -2, 0, 3, 7, 9})
      for (int64_t step : {-3, -1, 1, 2}) {
        SCOPED_TRACE(testing::Message() << begin << ":" << end << ":" << step);
        L wanted;
        for (int64_t i : python_slice(7, begin, end, step)) wanted.push_back(double(i));
        EXPECT_EQ(list(run("strided_slice", {x}, slice({0}, {begin}, {end}, {step}))), wanted);
      }
  EXPECT_EQ(list(run("strided_slice", {x}, slice({-1}, {-1}, {INT64_MIN}, {-2}))), (L{6, 4, 2, 0}));
  EXPECT_EQ(list(run("strided_slice", {x}, slice({0}, {5}, {INT64_MAX}))), (L{5, 6}));
  const NDArray y = random({3, 4, 5});
  expect_all(run("strided_slice", {y}, slice({2, 0}, {1, 1}, {4, 3}, {2, 1})), {2, 4, 2},
             [&](const Index& i) { return at(y, {i[0] + 1, i[1], 1 + 2 * i[2]}); });
  expect_refused("strided_slice", {x}, slice({0}, {0}, {3}, {0}), {"stride is 0"});
  expect_refused("strided_slice", {x}, slice({0}, {0, 1}, {3}), {"2 begins", "1 ends"});
}

TEST(StridedSlice, SymbolicSizes) {
  PrimExpr n = tir::var("n");
  Expr x = input("x", Shape{n, 4});
  Expr tail = op_call("strided_slice", {x}, slice({0}, {1}, {INT64_MAX}));
  const NDArray a = iota({5, 4});
  EXPECT_EQ(run_call(tail, {a})[0].shape(), (Dims{4, 4}));
  EXPECT_EQ(run_call(tail, {a})[0].element(0), 4);
  Expr last = op_call("strided_slice", {x}, slice({0}, {-2}, {INT64_MAX}));
  EXPECT_EQ(list(run_call(last, {a})[0]), (L{12, 13, 14, 15, 16, 17, 18, 19}));
  // Sizes are not negative, so this is n.
  Expr z = input("z", Shape{n + 1});
  Expr behind = op_call("strided_slice", {z}, slice({0}, {1}, {INT64_MAX}));
  const std::optional<Array<PrimExpr>> shape = graph::known_shape(infer_type(behind));
  ASSERT_TRUE(shape);
  EXPECT_TRUE((*shape)[0].same_as(n)) << print((*shape)[0]);
}

TEST(Rearrange, FlipTileRepeat) {
  const NDArray x = random({2, 3});
  expect_all(run("flip", {x}, make_attrs<AxesAttrs>(ints({-1, 0}))), {2, 3},
             [&](const Index& i) { return at(x, {1 - i[0], 2 - i[1]}); });
  expect_all(run("tile", {x}, make_attrs<TileAttrs>(ints({2, 1, 3}))), {2, 2, 9},
             [&](const Index& i) { return at(x, {i[1], i[2] % 3}); });
  expect_all(run("tile", {x}, make_attrs<TileAttrs>(ints({2}))), {2, 6},
             [&](const Index& i) { return at(x, {i[0], i[1] % 3}); });
  EXPECT_EQ(run("tile", {x}, make_attrs<TileAttrs>(ints({0, 1}))).shape(), (Dims{0, 3}));
  expect_all(run("repeat", {x}, make_attrs<RepeatAttrs>(2, -1)), {2, 6},
             [&](const Index& i) { return at(x, {i[0], i[1] / 2}); });
}

TEST(Pad, AllModes) {
  const NDArray x = random({3, 4});
  auto pad = [&](std::initializer_list<int64_t> w, const char* mode, double v = 0) {
    return run("pad", {x}, make_attrs<PadAttrs>(ints(w), std::string(mode), v));
  };
  expect_all(pad({1, 2, 0, 3}, "constant", 7), {6, 7},
             [&](const Index& i) { return at_or(x, {i[0] - 1, i[1]}, 7); });
  expect_all(pad({-1, 1, 2, -1}, "constant", -inf), {3, 5},
             [&](const Index& i) { return at_or(x, {i[0] + 1, i[1] - 2 < 3 ? i[1] - 2 : 9}, -inf); });
  auto clamp = [](int64_t v, int64_t n) { return std::min(std::max<int64_t>(v, 0), n - 1); };
  expect_all(pad({2, 1, 1, 5}, "edge"), {6, 10},
             [&](const Index& i) { return at(x, {clamp(i[0] - 2, 3), clamp(i[1] - 1, 4)}); });
  auto mirror = [](int64_t v, int64_t n) {
    while (v < 0 || v >= n) v = v < 0 ? -v : 2 * (n - 1) - v;
    return v;
  };
  expect_all(pad({2, 2, 7, 9}, "reflect"), {7, 20},
             [&](const Index& i) { return at(x, {mirror(i[0] - 2, 3), mirror(i[1] - 7, 4)}); });
  expect_all(pad({2, 2, 7, 9}, "wrap"), {7, 20},
             [&](const Index& i) { return at(x, {(i[0] + 1) % 3, (i[1] + 1) % 4}); });
  EXPECT_EQ(list(pad({0, 0, 0, 0}, "constant")), list(x));
  EXPECT_EQ(list(run("pad", {random({0})}, make_attrs<PadAttrs>(ints({1, 1}), std::string("constant"), 3.0))),
            (L{3, 3}));
  EXPECT_EQ(
      list(run("pad", {values({1}, {4})}, make_attrs<PadAttrs>(ints({2, 1}), std::string("reflect"), 0.0))),
      (L{4, 4, 4, 4}));
  expect_refused("pad", {x}, make_attrs<PadAttrs>(ints({1, 1}), std::string("constant"), 0.0),
                 {"2 pad widths", "2 dimensions"});
  expect_refused("pad", {x}, make_attrs<PadAttrs>(ints({1, 1, 1, 1}), std::string("mirror"), 0.0),
                 {"mirror"});
}

TEST(DepthAndSpace, InverseOfOneAnother) {
  const NDArray x = random({2, 8, 2, 3});
  for (const char* mode : {"DCR", "CRD"}) {
    const bool dcr = std::string(mode) == "DCR";
    expect_all(run("depth_to_space", {x}, make_attrs<BlockSizeAttrs>(2, std::string(mode))), {2, 2, 4, 6},
               [&](const Index& i) {
                 const int64_t a = i[2] % 2, b = i[3] % 2;
                 return at(x,
                           {i[0], dcr ? (a * 2 + b) * 2 + i[1] : i[1] * 4 + a * 2 + b, i[2] / 2, i[3] / 2});
               });
    const NDArray y = run("depth_to_space", {x}, make_attrs<BlockSizeAttrs>(2, std::string(mode)));
    EXPECT_EQ(list(run("space_to_depth", {y}, make_attrs<BlockSizeAttrs>(2, std::string(mode)))), list(x));
  }
  expect_refused("depth_to_space", {random({1, 6, 2, 2})}, make_attrs<BlockSizeAttrs>(2, std::string("DCR")),
                 {"(1, 6, 2, 2)", "4"});
}

TEST(LayoutTransform, BlocksAndBack) {
  const NDArray x = random({1, 6, 2, 3});
  auto t = [](const NDArray& a, const char* from, const char* to) {
    return run("layout_transform", {a}, make_attrs<LayoutTransformAttrs>(std::string(from), std::string(to)));
  };
  NDArray y = t(x, "NCHW", "NCHW4c");
  expect_all(y, {1, 2, 2, 3, 4},
             [&](const Index& i) { return at_or(x, {i[0], i[1] * 4 + i[4], i[2], i[3]}, 0); });
  expect_all(t(x, "NCHW", "NHWC"), {1, 2, 3, 6},
             [&](const Index& i) { return at(x, {i[0], i[3], i[1], i[2]}); });
  NDArray z = t(x, "NCHW", "NCHW2c");
  EXPECT_EQ(list(t(z, "NCHW2c", "NCHW")), list(x));
  expect_all(t(z, "NCHW2c", "NCHW3c"), {1, 2, 2, 3, 3},
             [&](const Index& i) { return at(x, {i[0], i[1] * 3 + i[4], i[2], i[3]}); });
  expect_refused("layout_transform", {x},
                 make_attrs<LayoutTransformAttrs>(std::string("NCHW"), std::string("NHWD")),
                 {"NCHW", "NHWD"});
  expect_refused("layout_transform", {x},
                 make_attrs<LayoutTransformAttrs>(std::string("NCHW"), std::string("NNHW")), {"NNHW"});
}

// ---------------------------------------------------------------- positions
TEST(Take, AnyAxisAndNegativePositions) {
  const NDArray x = random({3, 4, 2}), i = values({2, 2}, {0, -1, 3, 1}, i64);
  expect_all(run("take", {x, i}, make_attrs<AxisAttrs>(1)), {3, 2, 2, 2}, [&](const Index& o) {
    const double k = at(i, {o[1], o[2]});
    return at(x, {o[0], k < 0 ? int64_t(k) + 4 : int64_t(k), o[3]});
  });
  expect_all(run("take", {x, values({}, {-2}, i32)}, make_attrs<AxisAttrs>(0)), {4, 2},
             [&](const Index& o) { return at(x, {1, o[0], o[1]}); });
  // Positions outside never read outside.
  EXPECT_EQ(list(run("take", {iota({3}), values({2}, {7, -9}, i64)}, make_attrs<AxisAttrs>(0))), (L{2, 0}));
  const auto check = [](bool from_end) { return make_attrs<CheckIndicesAttrs>(from_end, "this test"); };
  const NDArray some = values({2, 2}, {1, -2, 2, 0}, i64);
  EXPECT_EQ(list(run("check_indices", {some}, check(true), {shape({3})})), (L{1, -2, 2, 0}));
  EXPECT_EQ(list(run("check_indices", {some}, check(true), {shape({3, 2})})), (L{1, -2, 2, 0}));
  EXPECT_THROW(run("check_indices", {some}, check(true), {shape({2})}), Error);
  EXPECT_THROW(run("check_indices", {some}, check(true), {shape({3, 1})}), Error);
  EXPECT_THROW(run("check_indices", {some}, check(false), {shape({3})}), Error);
  EXPECT_EQ(run("take", {x, values({0}, {}, i64)}, make_attrs<AxisAttrs>(0)).shape(), (Dims{0, 4, 2}));
  expect_refused("take", {x, random({2})}, make_attrs<AxisAttrs>(0), {"integers", "float32"});
}

TEST(Gather, ElementsAndNd) {
  const NDArray x = random({3, 4});
  const NDArray i = values({2, 3}, {0, 1, -1, 2, 0, 3}, i64);
  expect_all(run("gather_elements", {x, i}, make_attrs<AxisAttrs>(1)), {2, 3}, [&](const Index& o) {
    const auto k = int64_t(at(i, o));
    return at(x, {o[0], k < 0 ? k + 4 : k});
  });
  const NDArray d = random({2, 3, 4}), nd = values({2, 2}, {0, 2, 1, -1}, i64);
  expect_all(run("gather_nd", {d, nd}), {2, 4}, [&](const Index& o) {
    const auto b = int64_t(at(nd, {o[0], 1}));
    return at(d, {int64_t(at(nd, {o[0], 0})), b < 0 ? b + 3 : b, o[1]});
  });
  const NDArray batched = values({2, 1}, {2, 0}, i64);
  expect_all(run("gather_nd", {d, batched}, make_attrs<GatherNdAttrs>(1)), {2, 4},
             [&](const Index& o) { return at(d, {o[0], int64_t(at(batched, {o[0], 0})), o[1]}); });
  expect_refused("gather_nd", {x, values({1, 3}, {0, 0, 0}, i64)}, {}, {"(1, 3)", "(3, 4)"});
}

TEST(Scatter, ElementsWithReductions) {
  const NDArray x = random({3, 3}), i = values({2, 2}, {0, -1, 0, 0}, i64), u = random({2, 2}, f32, 1, 2, 5);
  for (const char* r : {"update", "add", "mul", "max", "min"}) {
    SCOPED_TRACE(r);
    std::vector<double> want = list(x);
    for (int64_t a = 0; a < 2; ++a)
      for (int64_t b = 0; b < 2; ++b) {
        auto k = int64_t(at(i, {a, b}));
        if (k < 0) k += 3;
        double& w = want[size_t(k * 3 + b)];
        const double v = at(u, {a, b});
        const std::string n = r;
        w = n == "update" ? v
            : n == "add"  ? w + v
            : n == "mul"  ? w * v
            : n == "max"  ? std::max(w, v)
                          : std::min(w, v);
      }
    expect_all(run("scatter_elements", {x, i, u}, make_attrs<ScatterAttrs>(0, std::string(r))), {3, 3},
               [&](const Index& o) { return want[size_t(o[0] * 3 + o[1])]; });
  }
  expect_refused("scatter_elements", {x, i, random({2, 3})}, make_attrs<ScatterAttrs>(0, std::string("add")),
                 {"(2, 2)", "(2, 3)"});
  expect_refused("scatter_elements", {x, i, u}, make_attrs<ScatterAttrs>(0, std::string("avg")), {"avg"});
}

TEST(Scatter, Nd) {
  const NDArray x = random({4, 2}), i = values({3, 1}, {1, -1, 1}, i64), u = random({3, 2}, f32, 1, 2, 5);
  std::vector<double> want = list(x);
  const int64_t rows[] = {1, 3, 1};
  for (int64_t a = 0; a < 3; ++a)
    for (int64_t b = 0; b < 2; ++b) want[size_t(rows[a] * 2 + b)] += at(u, {a, b});
  expect_all(run("scatter_nd", {x, i, u}, make_attrs<ScatterAttrs>(0, std::string("add"))), {4, 2},
             [&](const Index& o) { return want[size_t(o[0] * 2 + o[1])]; });
  expect_refused("scatter_nd", {x, i, random({3, 3})}, make_attrs<ScatterAttrs>(0, std::string("add")),
                 {"(3, 3)", "(3, 2)"});
}

TEST(OneHot, AnyAxis) {
  const NDArray i = values({3}, {0, -1, 7}, i64), on = values({}, {5}), off = values({}, {-1});
  expect_all(run("one_hot", {i, on, off}, make_attrs<OneHotAttrs>(4, -1)), {3, 4}, [&](const Index& o) {
    return (o[0] == 0 && o[1] == 0) || (o[0] == 1 && o[1] == 3) ? 5.0 : -1.0;
  });
  EXPECT_EQ(run("one_hot", {i, on, off}, make_attrs<OneHotAttrs>(4, 0)).shape(), (Dims{4, 3}));
}

TEST(Triangles, AndDiagonals) {
  const NDArray x = random({2, 3, 4});
  for (int64_t k : {-1, 0, 2}) {
    expect_all(run("triu", {x}, make_attrs<DiagonalAttrs>(k)), {2, 3, 4},
               [&](const Index& i) { return i[2] - i[1] >= k ? at(x, i) : 0; });
    expect_all(run("tril", {x}, make_attrs<DiagonalAttrs>(k)), {2, 3, 4},
               [&](const Index& i) { return i[2] - i[1] <= k ? at(x, i) : 0; });
  }
  expect_all(run("diagonal", {x}, make_attrs<DiagonalAttrs>(2)), {2, 2},
             [&](const Index& i) { return at(x, {i[0], i[1], i[1] + 2}); });
  expect_all(run("diagonal", {x}, make_attrs<DiagonalAttrs>(-1)), {2, 2},
             [&](const Index& i) { return at(x, {i[0], i[1] + 1, i[1]}); });
}

// ---------------------------------------------------------------- making tensors
Expr prim(PrimExpr e) { return make<graph::PrimValue>(std::move(e)); }

TEST(Create, FilledTensors) {
  EXPECT_EQ(list(run_call(op_call("zeros", {to_shape({3})}, make_attrs<DTypeAttrs>(i32)), {})[0]),
            (L{0, 0, 0}));
  EXPECT_EQ(list(run_call(op_call("ones", {to_shape({2})}), {})[0]), (L{1, 1}));
  Expr value = input("v", Dims{}, f32);
  EXPECT_EQ(list(run_call(op_call("full", {to_shape({2, 1}), value}), {values({}, {2.5})})[0]),
            (L{2.5, 2.5}));
  EXPECT_EQ(list(run("ones_like", {random({2}, i64)})), (L{1, 1}));
  EXPECT_EQ(list(run("full_like", {random({2}, i64), values({}, {7.9})})), (L{7, 7}));
}

TEST(Create, RangesAndEye) {
  auto range = [](PrimExpr a, PrimExpr b, PrimExpr c) {
    return run_call(op_call("arange", {prim(a), prim(b), prim(c)}), {})[0];
  };
  EXPECT_EQ(list(range(1, 6, 2)), (L{1, 3, 5}));
  EXPECT_EQ(list(range(5, 0, -2)), (L{5, 3, 1}));
  EXPECT_EQ(list(range(3, 3, 1)), (L{}));
  EXPECT_EQ(list(range(PrimExpr(0.0), PrimExpr(1.0), PrimExpr(0.25))), (L{0, 0.25, 0.5, 0.75}));
  expect_refused([&] { range(1, 2, 0); }, "T1101", {"step is 0"});
  NDArray e = run_call(op_call("eye", {prim(2), prim(3)}, make_attrs<EyeAttrs>(1, f32)), {})[0];
  EXPECT_EQ(list(e), (L{0, 1, 0, 0, 0, 1}));
}

TEST(Shapes, ToAndFromTensors) {
  PrimExpr n = tir::var("n");
  Expr x = input("x", Shape{n, 3});
  Expr s = op_call("shape_of", {x});
  EXPECT_EQ(shape_text(s), "(n, 3)");
  const Evaluate& rule = definition(*graph::get_op("shape_of")).evaluate;
  ASSERT_TRUE(rule);
  auto shape_value = rule(*s.as<Call>(), {random({4, 3})}).as<Array<int64_t>>();
  EXPECT_EQ(shape_value.vec(), (std::vector<int64_t>{4, 3}));
  Expr t = op_call("shape_to_tensor", {s});
  EXPECT_EQ(shape_text(t), "(2,)");
  tir::VarMap symbols{{n.as<tir::Var>(), PrimExpr(4)}};
  EXPECT_EQ(list(run_call(t, {}, symbols)[0]), (L{4, 3}));
  const Evaluate& back = definition(*graph::get_op("tensor_to_shape")).evaluate;
  EXPECT_EQ(back(*t.as<Call>(), {values({2}, {4, 3}, i64)}).as<Array<int64_t>>().vec(),
            (std::vector<int64_t>{4, 3}));
  EXPECT_EQ(shape_text(op_call("tensor_to_shape", {graph::constant(values({2}, {5, 6}, i64))})), "(5, 6)");
  Expr unknown = op_call("tensor_to_shape", {input("t", Dims{2}, i64)});
  EXPECT_EQ(unknown->type.as<graph::ShapeType>()->ndim, 2);
  Expr r = op_call("reshape", {x, unknown});
  EXPECT_EQ(r->type.as<graph::TensorType>()->ndim, 2);
  EXPECT_FALSE(can_lower(*r.as<Call>()));
  expect_refused([&] { lower_call(*r.as<Call>()); }, "T1102", {"reshape", "not all shapes are known"});
}

}  // namespace
}  // namespace tenon::op_test
