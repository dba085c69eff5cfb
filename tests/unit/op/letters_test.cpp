// SPDX-License-Identifier: Apache-2.0
// Layouts by letters: the algebra of places, and operators on data in any of them against the plain ones.
#include "op/letters.h"
#include "op/attrs_vision.h"
#include "op/bijective_layout.h"
#include "op/layout.h"
#include "op_test.h"

namespace tenon::op_test {
namespace {

/// A layout as the test reads it: letter and size of a block, 0 for the axis itself.
std::vector<std::pair<char, int64_t>> axes_of(const std::string& text) {
  std::vector<std::pair<char, int64_t>> out;
  int64_t n = 0;
  for (const char c : text) {
    if (c >= '0' && c <= '9') {
      n = n * 10 + (c - '0');
    } else {
      out.emplace_back(n ? char(c - 'a' + 'A') : c, n);
      n = 0;
    }
  }
  return out;
}
/// The coordinate along a letter at a place of a tensor in this layout: axis, then blocks from the outside.
int64_t along(char letter, const std::string& layout, const Index& at) {
  int64_t value = 0;
  const auto axes = axes_of(layout);
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i].first == letter && axes[i].second == 0) value = at[i];
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i].first == letter && axes[i].second != 0) value = value * axes[i].second + at[i];
  return value;
}
/// The tensor of a plain layout in another one, zeros where a block is filled up.
NDArray moved(const NDArray& x, const std::string& plain, const std::string& to) {
  Dims shape;
  for (const auto& [letter, block] : axes_of(to)) {
    int64_t whole = 1;
    for (const auto& [l, b] : axes_of(to)) whole *= l == letter && b ? b : 1;
    shape.push_back(block ? block : (x.shape()[plain.find(letter)] + whole - 1) / whole);
  }
  NDArray out = NDArray::zeros(shape, x.dtype());
  int64_t next = 0;
  for_each_index(shape, [&](const Index& i) {
    Index at;
    for (const char letter : plain) at.push_back(along(letter, to, i));
    out.set_element(next++, at_or(x, at, 0));
  });
  return out;
}
std::vector<std::string> orders(std::string letters) {
  std::vector<std::string> out;
  std::sort(letters.begin(), letters.end());
  do out.push_back(letters);
  while (std::next_permutation(letters.begin(), letters.end()));
  return out;
}
/// The tensor is the plain one in this layout.
void expect_moved(const NDArray& got, const NDArray& plain, const std::string& from, const std::string& to) {
  const NDArray want = moved(plain, from, to);
  SCOPED_TRACE(to);
  expect_all(got, want.shape(), [&](const Index& i) { return at(want, i); });
}

TEST(Layouts, NamesAreEachAxisOnceAndBlocksOfThem) {
  for (const char* text : {"NCHW", "NCHW16c", "N4nCHW", "OIHW4i16o4i", "2hHW", "C"}) {
    ASSERT_TRUE(Layout::parse(text)) << text;
    EXPECT_EQ(Layout::parse(text)->name(), text);
  }
  for (const char* text : {"", "NCHWC", "nchw", "NCHW16", "NCHW16C", "NCHW0c", "NCHc", "NCH W", "NCHW4x",
                           "NC9999999c9999999c", "NC99999999999999999999c"})
    EXPECT_FALSE(Layout::parse(text)) << text;
  EXPECT_EQ(Layout::parse("OIHW4i16o4i")->block('I'), 16);
  EXPECT_EQ(Layout::parse("OIHW4i16o4i")->steps(), (std::vector<int64_t>{16, 16, 1, 1, 4, 1, 1}));
}

TEST(Layouts, TransformationsMoveEachElementToItsPlace) {
  const NDArray x = random({2, 6, 3, 4});
  for (const char* to : {"NHWC", "CWHN", "NCHW4c", "NCHW2c3c", "C2c2nNHW2w", "NC2hHW3c", "4nNCHW"}) {
    const NDArray there = run("layout_transform", {x}, make_attrs<LayoutTransformAttrs>("NCHW", to));
    expect_moved(there, x, "NCHW", to);
    const NDArray back = run("layout_transform", {there}, make_attrs<LayoutTransformAttrs>(to, "NCHW"));
    for_each_index({2, 6, 3, 4}, [&](const Index& i) { EXPECT_EQ(at(back, i), at(x, i)); });
    const NDArray other = run("layout_transform", {there}, make_attrs<LayoutTransformAttrs>(to, "WNHC"));
    for_each_index({4, 2, 3, 6},
                   [&](const Index& i) { EXPECT_EQ(at(other, i), at(x, {i[1], i[3], i[2], i[0]})); });
  }
}

TEST(Layouts, AnObjectMovesIndicesAndShapesThereAndBack) {
  const auto l = bijective_layout("NCHW", "NHWC2c3c");
  EXPECT_EQ(to_text(forward_map(l)), "lambda n, c, h, w: (n, h, w, c // 6, c // 3 % 2, c % 3)");
  auto numbers = [](const Array<PrimExpr>& list) {
    Index out;
    for (const PrimExpr& e : list) out.push_back(*tir::as_int(e));
    return out;
  };
  auto exprs = [](const Index& list) {
    Array<PrimExpr> out;
    for (int64_t v : list) out.push_back(PrimExpr(v));
    return out;
  };
  EXPECT_EQ(numbers(forward_shape(l, exprs({2, 7, 3, 4}))), (Index{2, 3, 4, 2, 2, 3}));
  EXPECT_EQ(numbers(backward_shape(l, exprs({2, 3, 4, 2, 2, 3}))), (Index{2, 12, 3, 4}));
  for_each_index({2, 7, 3, 4}, [&](const Index& i) {
    const Array<PrimExpr> there = forward_index(l, exprs(i));
    EXPECT_EQ(numbers(there), (Index{i[0], i[2], i[3], i[1] / 6, i[1] / 3 % 2, i[1] % 3}));
    EXPECT_EQ(numbers(backward_index(l, there)), i);
  });
  EXPECT_THROW(bijective_layout("NCHW", "NCW"), DiagnosticError);
  EXPECT_THROW(bijective_layout("NCHW", "NCHH"), DiagnosticError);
  EXPECT_THROW(forward_index(l, exprs({1, 2})), DiagnosticError);
}

ObjectRef conv_in(const std::string& data, const std::string& kernel, const std::string& out,
                  int64_t groups) {
  return make_attrs<ConvAttrs>([&](ConvAttrs& a) {
    a.strides = {2, 1};
    a.padding = {1, 0, 0, 2};
    a.groups = groups;
    a.data_layout = data, a.kernel_layout = kernel, a.out_layout = out;
  });
}
/// The convolution of the test's own: strides 2 and 1, one row before, two columns behind.
NDArray convolved(const NDArray& x, const NDArray& w, int64_t groups) {
  const Dims &p = x.shape(), &q = w.shape();
  const int64_t per_group = q[0] / groups;
  NDArray y = NDArray::zeros({p[0], q[0], (p[2] + 1 - q[2]) / 2 + 1, p[3] + 2 - q[3] + 1}, f32);
  int64_t next = 0;
  for_each_index(y.shape(), [&](const Index& o) {
    double sum = 0;
    for_each_index({q[1], q[2], q[3]}, [&](const Index& k) {
      const int64_t channel = o[1] / per_group * q[1] + k[0];
      sum += at_or(x, {o[0], channel, o[2] * 2 - 1 + k[1], o[3] + k[2]}, 0) * at(w, {o[1], k[0], k[1], k[2]});
    });
    y.set_element(next++, sum);
  });
  return y;
}

TEST(Letters, ConvolutionsInEveryOrderOfAxes) {
  const NDArray x = random({2, 4, 4, 3}), w = random({6, 4, 3, 2}), want = convolved(x, w, 1);
  const auto data = orders("NCHW"), kernel = orders("OIHW");
  for (size_t i = 0; i < data.size(); ++i) {
    const std::string k = kernel[(i * 7 + 3) % kernel.size()], out = data[(i * 5 + 2) % data.size()];
    expect_moved(
        run("nn.conv2d", {moved(x, "NCHW", data[i]), moved(w, "OIHW", k)}, conv_in(data[i], k, out, 1)), want,
        "NCHW", out);
    // The result is laid out as the data where nothing is said.
    expect_moved(run("nn.conv2d", {moved(x, "NCHW", data[i]), w}, conv_in(data[i], "", "", 1)), want, "NCHW",
                 data[i]);
  }
}

TEST(Letters, ConvolutionsWithGroupsAndInBlocks) {
  struct Case {
    const char *data, *kernel, *out;
    int64_t inputs, outputs, groups;
  };
  const Case cases[] = {
      {"NHWC", "HWIO", "NHWC", 6, 6, 3},
      {"NHWC", "HWOI", "NHWC", 6, 6, 6},  // depthwise
      {"NCHW4c", "OIHW4i4o", "NCHW4c", 8, 8, 1},
      {"NCHW4c", "OIHW4i2o", "NCHW2c", 8, 6, 1},
      {"NCHW4c", "HWIO", "NHWC", 8, 6, 1},
      {"NCHW8c", "OIHW2i4o4i", "NCHW4c", 8, 8, 1},
      // Blocks of the data alone, and of the data and the results.
      {"NCHW4c", "OIHW", "NCHW", 8, 6, 1},
      {"NCHW4c", "OIHW4o", "NCHW4c", 8, 8, 1},
      {"NCHW2c", "OIHW4o", "NCHW4c", 8, 8, 2},
      {"NHWC2c", "OIHW", "NCHW4c", 4, 6, 1},
      {"NCHW", "OIHW", "NCHW4c", 4, 6, 1},  // filled up
      {"N2hCHW", "OIHW2w", "NCHW2h", 4, 4, 1},
      {"NCHW4c", "OIHW4o", "NCHW4c", 8, 8, 8},
      {"NCHW2c", "OIHW2i2o", "NCHW2c", 8, 8, 2},
      {"2nCHWN", "IOHW2o3o", "CHWN", 4, 6, 2},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(std::string(c.data) + " " + c.kernel + " " + c.out);
    // Rows and columns that blocks of them divide.
    const NDArray x = random({2, c.inputs, 6, 4}), w = random({c.outputs, c.inputs / c.groups, 3, 2});
    const NDArray got = run("nn.conv2d", {moved(x, "NCHW", c.data), moved(w, "OIHW", c.kernel)},
                            conv_in(c.data, c.kernel, c.out, c.groups));
    expect_moved(got, convolved(x, w, c.groups), "NCHW", c.out);
  }
}

TEST(Letters, OneAndThreeSpatialAxes) {
  const NDArray x = random({2, 3, 5}), w = random({4, 3, 2});
  auto named = [](const char* data, const char* kernel) {
    return make_attrs<ConvAttrs>([&](ConvAttrs& a) { a.data_layout = data, a.kernel_layout = kernel; });
  };
  expect_moved(run("nn.conv1d", {moved(x, "NCW", "NWC"), moved(w, "OIW", "WIO")}, named("NWC", "WIO")),
               run("nn.conv1d", {x, w}, named("", "")), "NCW", "NWC");
  const NDArray y = random({1, 2, 3, 4, 3}), v = random({3, 2, 2, 2, 2});
  expect_moved(
      run("nn.conv3d", {moved(y, "NCDHW", "NDHWC"), moved(v, "OIDHW", "DHWIO")}, named("NDHWC", "DHWIO")),
      run("nn.conv3d", {y, v}, named("", "")), "NCDHW", "NDHWC");
  auto transposed = [](const char* data, const char* kernel, const char* out) {
    return make_attrs<ConvTransposeAttrs>([&](ConvTransposeAttrs& a) {
      a.strides = {2};
      a.data_layout = data, a.kernel_layout = kernel, a.out_layout = out;
    });
  };
  const NDArray z = random({1, 4, 3, 3}), u = random({4, 2, 2, 3});
  const NDArray want = run("nn.conv2d_transpose", {z, u}, transposed("", "", ""));
  for (const auto& [data, kernel, out] :
       {std::tuple("NHWC", "HWIO", "NHWC"), std::tuple("NHWC", "OIHW", "NCHW"),
        std::tuple("NCHW2c", "IOHW2i", "NHWC")})
    expect_moved(run("nn.conv2d_transpose", {moved(z, "NCHW", data), moved(u, "IOHW", kernel)},
                     transposed(data, kernel, out)),
                 want, "NCHW", out);
}

TEST(Letters, Pooling) {
  const NDArray x = random({2, 4, 6, 4});
  for (const char* op : {"nn.max_pool2d", "nn.avg_pool2d", "nn.lp_pool2d"}) {
    auto named = [](const std::string& layout, const std::string& out) {
      return make_attrs<PoolAttrs>([&](PoolAttrs& a) {
        a.pool_size = {3, 2}, a.strides = {2, 1}, a.padding = {1, 0}, a.ceil_mode = true;
        a.layout = layout, a.out_layout = out;
      });
    };
    const NDArray want = run(op, {x}, named("", ""));
    for (const std::string& layout : orders("NCHW"))
      expect_moved(run(op, {moved(x, "NCHW", layout)}, named(layout, "")), want, "NCHW", layout);
    for (const auto& [layout, out] : {std::pair("NCHW2c", "NCHW2c"), std::pair("NC4cHW", "NHWC"),
                                      std::pair("NCHW2h", "NCHW"), std::pair("NHWC", "NCHW3c")})
      expect_moved(run(op, {moved(x, "NCHW", layout)}, named(layout, out)), want, "NCHW", out);
  }
  for (const char* op : {"nn.global_avg_pool", "nn.global_max_pool"}) {
    const NDArray want = run(op, {x});
    expect_moved(run(op, {moved(x, "NCHW", "NHWC")}, make_attrs<GlobalPoolAttrs>("NHWC", "")), want, "NCHW",
                 "NHWC");
  }
  expect_moved(run("nn.global_lp_pool", {moved(x, "NCHW", "NHWC")},
                   make_attrs<PoolAttrs>([](PoolAttrs& a) { a.layout = "NHWC"; })),
               run("nn.global_lp_pool", {x}), "NCHW", "NHWC");
  for (const char* op : {"nn.adaptive_avg_pool", "nn.adaptive_max_pool"}) {
    const Array<int64_t> size{3, 2};
    const NDArray want = run(op, {x}, make_attrs<AdaptivePoolAttrs>(size));
    expect_moved(run(op, {moved(x, "NCHW", "NHWC")}, make_attrs<AdaptivePoolAttrs>(size, "NHWC", "NCHW2c")),
                 want, "NCHW", "NCHW2c");
  }
}

TEST(Letters, ImagesThatAreResizedCutAndRearranged) {
  const NDArray x = random({2, 4, 4, 3});
  auto resize = [](const char* layout) {
    return make_attrs<ResizeAttrs>([&](ResizeAttrs& a) { a.layout = layout; });
  };
  auto resized = [&](const NDArray& image, const char* layout) {
    Shape dims;
    for (int64_t d : image.shape()) dims.push_back(PrimExpr(d));
    const Expr e = op_call("image.resize2d", {input("x", dims), shape({5, 6})}, resize(layout));
    return run_call(e, {image})[0];
  };
  for (const char* layout : {"NHWC", "NCHW2c", "HWNC"})
    expect_moved(resized(moved(x, "NCHW", layout), layout), resized(x, ""), "NCHW", layout);
  for (const char* op : {"depth_to_space", "space_to_depth"}) {
    const NDArray y = random({1, 4, 2, 4});
    expect_moved(run(op, {moved(y, "NCHW", "NHWC")}, make_attrs<BlockSizeAttrs>(int64_t(2), "DCR", "NHWC")),
                 run(op, {y}, make_attrs<BlockSizeAttrs>(int64_t(2), "DCR")), "NCHW", "NHWC");
  }
  auto upsampling = [](const char* layout) {
    return make_attrs<UpsamplingAttrs>([&](UpsamplingAttrs& a) { a.scale = {2}, a.layout = layout; });
  };
  expect_moved(run("nn.upsampling", {moved(x, "NCHW", "NHWC")}, upsampling("NHWC")),
               run("nn.upsampling", {x}, upsampling("")), "NCHW", "NHWC");
  auto sampled = [](const char* layout) {
    return make_attrs<GridSampleAttrs>([&](GridSampleAttrs& a) { a.layout = layout; });
  };
  const NDArray grid = random({2, 2, 5, 2}, f32, -1, 1);
  expect_moved(run("image.grid_sample", {moved(x, "NCHW", "NHWC"), grid}, sampled("NHWC")),
               run("image.grid_sample", {x, grid}, sampled("")), "NCHW", "NHWC");
  auto regions = [](const char* layout) {
    return make_attrs<RoiAttrs>([&](RoiAttrs& a) {
      a.pooled_height = 2, a.pooled_width = 3;
      a.layout = layout;
    });
  };
  const NDArray rois = values({1, 5}, {1, 0, 0, 2, 3});
  expect_moved(run("vision.roi_pool", {moved(x, "NCHW", "NHWC"), rois}, regions("NHWC")),
               run("vision.roi_pool", {x, rois}, regions("")), "NCHW", "NHWC");
  auto deformed = [](const char* data, const char* kernel) {
    return make_attrs<DeformAttrs>([&](DeformAttrs& a) { a.data_layout = data, a.kernel_layout = kernel; });
  };
  const NDArray w = random({3, 4, 2, 2}), offset = random({2, 8, 3, 2});
  expect_moved(run("nn.deformable_conv2d",
                   {moved(x, "NCHW", "NHWC"), moved(offset, "NCHW", "NHWC"), moved(w, "OIHW", "HWIO")},
                   deformed("NHWC", "HWIO")),
               run("nn.deformable_conv2d", {x, offset, w}, deformed("", "")), "NCHW", "NHWC");
}

TEST(Letters, SymbolicSizesFollow) {
  const tir::VarRef n = tir::var("n", i64), h = tir::var("h", i64);
  const Expr y = op_call(
      "nn.conv2d", {input("x", Shape{n, h, PrimExpr(5), PrimExpr(4)}), input("w", Dims{3, 3, 4, 8}, f32)},
      conv_in("NHWC", "HWIO", "NCHW8c", 1));
  const auto dims = graph::known_shape(y->type);
  ASSERT_TRUE(dims && dims->size() == 5);
  EXPECT_TRUE(tir::is_const_int((*dims)[1], 1) && tir::is_const_int((*dims)[4], 8));
  EXPECT_TRUE((*dims)[0].same_as(PrimExpr(n)));
  const NDArray x = random({2, 6, 5, 4}), w = random({3, 3, 4, 8});
  const NDArray got = run_call(y, {x, w})[0];
  EXPECT_EQ(got.shape(), (Dims{2, 1, 3, 5, 8}));
}

TEST(Letters, OthersAreRefusedWithTheLettersThatAreWanted) {
  const NDArray x = random({1, 4, 4, 3}), w = random({2, 3, 2, 2});
  auto conv = [](const char* data, const char* kernel) { return conv_in(data, kernel, "", 1); };
  expect_refused("nn.conv2d", {x, w}, conv("NHWX", ""), {"'NHWX'", "N, C, H and W"});
  expect_refused("nn.conv2d", {x, w}, conv("NHHC", ""), {"'NHHC'"});
  expect_refused("nn.conv2d", {x, w}, conv("NHWC", "OIXY"), {"'OIXY'", "O, I, H and W"});
  expect_refused("nn.conv2d", {x, w}, conv("NHW3c", ""), {"'NHW3c'"});
  expect_refused("nn.conv2d", {x, w}, conv("NHWC4c", ""), {"'NHWC4c' names 5 axes", "the tensor has 4"});
  expect_refused("nn.conv2d", {x, w}, conv("NHWC", "HWIO"), {"numbers of input channels differ"});
  auto pool = [](const char* layout) {
    return make_attrs<PoolAttrs>([&](PoolAttrs& a) { a.pool_size = {2}, a.layout = layout; });
  };
  expect_refused("nn.max_pool2d", {x}, pool("NWC"), {"'NWC' names 3 axes"});
  expect_refused("nn.max_pool2d", {x}, pool("NDWC"), {"'NDWC'", "N, C, H and W"});
  expect_refused("nn.max_pool_with_indices", {x}, pool("NHWC"), {"'NHWC'", "plain layout"});
  expect_refused("nn.global_avg_pool", {x}, make_attrs<GlobalPoolAttrs>("NHWD", ""), {"'NHWD'"});
}

}  // namespace
}  // namespace tenon::op_test
