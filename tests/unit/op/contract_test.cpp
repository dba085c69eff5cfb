// SPDX-License-Identifier: Apache-2.0
// Contractions and convolutions against direct sums in double.
#include "op_test.h"

namespace tenon::op_test {
namespace {

double dot(int64_t n, const std::function<double(int64_t)>& f) {
  double s = 0;
  for (int64_t k = 0; k < n; ++k) s += f(k);
  return s;
}

TEST(Matmul, RanksAsInNumpy) {
  const NDArray a = random({3, 4}, f32, -1, 1, 1), b = random({4, 5}, f32, -1, 1, 2),
                v = random({4}, f32, -1, 1, 3), w = random({3}, f32, -1, 1, 4);
  expect_all(run("matmul", {a, b}), {3, 5}, [&](const Index& i) {
    return dot(4, [&](int64_t k) { return at(a, {i[0], k}) * at(b, {k, i[1]}); });
  });
  expect_all(run("matmul", {a, v}), {3}, [&](const Index& i) {
    return dot(4, [&](int64_t k) { return at(a, {i[0], k}) * at(v, {k}); });
  });
  expect_all(run("matmul", {w, a}), {4}, [&](const Index& i) {
    return dot(3, [&](int64_t k) { return at(w, {k}) * at(a, {k, i[0]}); });
  });
  expect_all(run("matmul", {v, v}), {},
             [&](const Index&) { return dot(4, [&](int64_t k) { return at(v, {k}) * at(v, {k}); }); });
  expect_refused("matmul", {a, a}, {}, {"(3, 4)", "contracted"});
  expect_refused("matmul", {a, values({}, {1})}, {}, {"scalar"});
  expect_refused("matmul", {a, random({4, 5}, f64)}, {}, {"float32", "float64"});
}

TEST(Matmul, BatchesBroadcast) {
  const NDArray a = random({2, 1, 3, 4}, f32, -1, 1, 1), b = random({5, 4, 2}, f32, -1, 1, 2),
                v = random({4}, f32, -1, 1, 3);
  expect_all(run("matmul", {a, b}), {2, 5, 3, 2}, [&](const Index& i) {
    return dot(4, [&](int64_t k) { return at(a, {i[0], 0, i[2], k}) * at(b, {i[1], k, i[3]}); });
  });
  expect_all(run("matmul", {v, b}), {5, 2}, [&](const Index& i) {
    return dot(4, [&](int64_t k) { return at(v, {k}) * at(b, {i[0], k, i[1]}); });
  });
  expect_all(run("matmul", {a, v}), {2, 1, 3}, [&](const Index& i) {
    return dot(4, [&](int64_t k) { return at(a, {i[0], 0, i[2], k}) * at(v, {k}); });
  });
  expect_refused("matmul", {random({2, 3, 4}), random({3, 4, 2})}, {}, {"(2,)", "(3,)"});
}

TEST(Matmul, EmptyAndNarrow) {
  expect_all(run("matmul", {random({2, 0}), random({0, 3})}), {2, 3}, [](const Index&) { return 0.0; });
  EXPECT_EQ(run("matmul", {random({0, 4}), random({4, 3})}).shape(), (Dims{0, 3}));
  const NDArray p = values({1, 2}, {100, 120}, u8), q = values({2, 1}, {100, -120}, DataType::int_(8));
  NDArray r = run("matmul", {p, q});
  EXPECT_EQ(r.dtype(), i32);
  EXPECT_EQ(r.element_int(0), 100 * 100 - 120 * 120);
  NDArray ones = NDArray::empty({1, 4096}, f16);
  for (int64_t i = 0; i < 4096; ++i) ones.set_element(i, 1);
  EXPECT_EQ(run("matmul", {ones, ones.reshape({4096, 1})}).element(0), 4096);
}

TEST(Matmul, SymbolicSizes) {
  PrimExpr n = tir::var("n"), b = tir::var("b");
  Expr e = op_call("matmul", {input("x", Shape{b, n, 4}), input("y", Shape{4, 3})});
  EXPECT_EQ(shape_text(e), "(b, n, 3)");
  const NDArray x = random({2, 3, 4}), y = random({4, 3}, f32, -1, 1, 2);
  expect_all(run_call(e, {x, y})[0], {2, 3, 3}, [&](const Index& i) {
    return dot(4, [&](int64_t k) { return at(x, {i[0], i[1], k}) * at(y, {k, i[2]}); });
  });
}

TEST(Dense, TakesTheWeightTransposed) {
  const NDArray x = random({2, 3, 4}), w = random({5, 4}, f32, -1, 1, 2);
  expect_all(run("nn.dense", {x, w}), {2, 3, 5}, [&](const Index& i) {
    return dot(4, [&](int64_t k) { return at(x, {i[0], i[1], k}) * at(w, {i[2], k}); });
  });
  expect_refused("nn.dense", {x, random({4, 5})}, {}, {"(2, 3, 4)", "(4, 5)"});
}

TEST(PackedMatmul, ReadsPanels) {
  const NDArray x = random({2, 3, 4}), w = random({3, 4, 8}, f32, -1, 1, 2);  // 24 columns hold 19
  auto units = [](int64_t n) { return make_attrs<PackedMatmulAttrs>([&](auto& a) { a.units = n; }); };
  expect_all(run("nn.packed_matmul", {x, w}, units(19)), {2, 3, 19}, [&](const Index& i) {
    return dot(4, [&](int64_t k) { return at(x, {i[0], i[1], k}) * at(w, {i[2] / 8, k, i[2] % 8}); });
  });
  // Inputs in pairs: the columns of a panel hold two each.
  auto pairs = make_attrs<PackedMatmulAttrs>([](auto& a) { a.units = 10, a.group = 2; });
  expect_all(run("nn.packed_matmul", {x, random({3, 2, 8}, f32, -1, 1, 2)}, pairs), {2, 3, 10},
             [&](const Index& i) {
               const NDArray p = random({3, 2, 8}, f32, -1, 1, 2);
               return dot(4, [&](int64_t k) {
                 return at(x, {i[0], i[1], k}) * at(p, {i[2] / 4, k / 2, i[2] % 4 * 2 + k % 2});
               });
             });
  // Panels of a narrower type are read as float32.
  auto widened = make_attrs<PackedMatmulAttrs>([](auto& a) { a.units = 19, a.out_dtype = f32; });
  const NDArray half = random({3, 4, 8}, f16, -1, 1, 2);
  expect_all(run("nn.packed_matmul", {x, half}, widened), {2, 3, 19}, [&](const Index& i) {
    return dot(4, [&](int64_t k) { return at(x, {i[0], i[1], k}) * at(half, {i[2] / 8, k, i[2] % 8}); });
  });
  expect_refused("nn.packed_matmul", {x, half}, units(19), {"float16"});
  // Blocks of two inputs have a scale for every column.
  const NDArray scales = random({3, 2, 8}, f32, -1, 1, 4);
  expect_all(run("nn.packed_matmul", {x, half, scales}, widened), {2, 3, 19}, [&](const Index& i) {
    return dot(4, [&](int64_t k) {
      return at(x, {i[0], i[1], k}) * at(half, {i[2] / 8, k, i[2] % 8}) *
             at(scales, {i[2] / 8, k / 2, i[2] % 8});
    });
  });
  expect_refused("nn.packed_matmul", {x, w, scales}, units(19), {"float32 panels"});
  expect_refused("nn.packed_matmul", {x, half, random({3, 3, 8})}, widened, {"(3, 3, 8)", "(3, 4, 8)"});
  expect_refused("nn.packed_matmul", {x, w}, pairs, {"(3, 4, 8)", "contracted"});
  expect_refused("nn.packed_matmul", {x, w}, units(25), {"(3, 4, 8)", "25 columns"});
  expect_refused("nn.packed_matmul", {random({2, 5}), w}, units(19), {"(2, 5)", "(3, 4, 8)", "contracted"});
  expect_refused("nn.packed_matmul", {x, random({4, 8})}, units(8), {"3"});
}

TEST(BlockDequantize, ScalesBlocksOfARow) {
  const NDArray q = random({3, 6}, DataType::int_(8), -128, 127), s = random({3, 2}, f32, -1, 1, 2);
  expect_all(run("qnn.block_dequantize", {q, s}, {}), {3, 6},
             [&](const Index& i) { return at(q, {i[0], i[1]}) * at(s, {i[0], i[1] / 3}); });
  expect_refused("qnn.block_dequantize", {q, random({3, 4})}, {}, {"(3, 4)", "(3, 6)"});
  expect_refused("qnn.block_dequantize", {q, random({2, 2})}, {}, {"(2, 2)"});
  expect_refused("qnn.block_dequantize", {random({3, 6}), s}, {}, {"int8"});
}

TEST(Einsum, ManyForms) {
  auto sum = [](const char* s, const std::vector<NDArray>& in) {
    return run_tuple("einsum", in, make_attrs<EinsumAttrs>(std::string(s)));
  };
  const NDArray a = random({2, 3, 4}, f32, -1, 1, 1), b = random({2, 4, 5}, f32, -1, 1, 2),
                m = random({3, 3}, f32, -1, 1, 3);
  auto product = [&](const Index& i) {
    return dot(4, [&](int64_t k) { return at(a, {i[0], i[1], k}) * at(b, {i[0], k, i[2]}); });
  };
  expect_all(sum("bij,bjk->bik", {a, b}), {2, 3, 5}, product);
  expect_all(sum("...ij, ...jk", {a, b}), {2, 3, 5}, product);
  expect_all(sum("ii", {m}), {},
             [&](const Index&) { return dot(3, [&](int64_t k) { return at(m, {k, k}); }); });
  expect_all(sum("ii->i", {m}), {3}, [&](const Index& i) { return at(m, {i[0], i[0]}); });
  expect_all(sum("ij->ji", {m}), {3, 3}, [&](const Index& i) { return at(m, {i[1], i[0]}); });
  expect_all(sum("bij->b", {a}), {2},
             [&](const Index& i) { return dot(12, [&](int64_t k) { return at(a, {i[0], k / 4, k % 4}); }); });
  expect_all(sum("i...->...", {m}), {3},
             [&](const Index& i) { return dot(3, [&](int64_t k) { return at(m, {k, i[0]}); }); });
  const NDArray p = random({3}), q = random({2});
  expect_all(sum("i,j->ij", {p, q}), {3, 2}, [&](const Index& i) { return at(p, {i[0]}) * at(q, {i[1]}); });
  auto refused = [&](const char* s, const std::vector<std::string>& words) {
    expect_refused([&] { sum(s, {m, m}); }, "T1101", words);
  };
  refused("ij->i", {"1 operands are named", "2 are given"});
  refused("ij,jk->iz", {"'z'"});
  refused("ijk,jk->i", {"'ijk'", "2 dimensions"});
  refused("ij,jk->ii", {"twice"});
}

// ---------------------------------------------------------------- convolutions
struct Conv {
  std::vector<int64_t> strides, pads, dilation;
  int64_t groups = 1;
};

/// Direct sum over n spatial axes.
double conv_at(const NDArray& x, const NDArray& w, const Conv& c, const Index& o) {
  const size_t n = o.size() - 2;
  const int64_t per_group = w.shape()[0] / c.groups, channels = w.shape()[1];
  double s = 0;
  Dims taps(w.shape().begin() + 1, w.shape().end());
  for_each_index(taps, [&](const Index& t) {
    Index ix{o[0], o[1] / per_group * channels + t[0]}, iw{o[1], t[0]};
    for (size_t i = 0; i < n; ++i) {
      ix.push_back(o[i + 2] * c.strides[i] - c.pads[i] + t[i + 1] * c.dilation[i]);
      iw.push_back(t[i + 1]);
    }
    s += at_or(x, ix, 0) * at(w, iw);
  });
  return s;
}
ObjectRef conv_attrs(const Conv& c) {
  return make_attrs<ConvAttrs>([&](ConvAttrs& a) {
    a.strides = Array<int64_t>(c.strides);
    a.padding = Array<int64_t>(c.pads);
    a.dilation = Array<int64_t>(c.dilation);
    a.groups = c.groups;
  });
}
void check_conv(const std::string& op, const Dims& xs, const Dims& ws, const Conv& c, const Dims& wanted) {
  SCOPED_TRACE(op);
  const NDArray x = random(xs, f32, -1, 1, 1), w = random(ws, f32, -1, 1, 2);
  expect_all(run(op, {x, w}, conv_attrs(c)), wanted, [&](const Index& o) { return conv_at(x, w, c, o); });
}

TEST(Conv, PlainGroupedDilated) {
  check_conv("nn.conv2d", {1, 3, 6, 7}, {4, 3, 3, 3}, {{1, 1}, {1, 1, 1, 1}, {1, 1}}, {1, 4, 6, 7});
  check_conv("nn.conv2d", {2, 3, 7, 6}, {2, 3, 3, 2}, {{2, 1}, {0, 1, 2, 0}, {1, 2}}, {2, 2, 4, 5});
  check_conv("nn.conv2d", {1, 4, 5, 5}, {6, 2, 3, 3}, {{1, 1}, {0, 0, 0, 0}, {1, 1}, 2}, {1, 6, 3, 3});
  check_conv("nn.conv2d", {1, 4, 5, 5}, {4, 1, 3, 3}, {{1, 1}, {1, 1, 1, 1}, {1, 1}, 4}, {1, 4, 5, 5});
  check_conv("nn.conv2d", {1, 2, 5, 5}, {6, 1, 3, 3}, {{2, 2}, {1, 1, 1, 1}, {1, 1}, 2}, {1, 6, 3, 3});
  check_conv("nn.conv2d", {1, 3, 4, 4}, {5, 3, 1, 1}, {{1, 1}, {0, 0, 0, 0}, {1, 1}}, {1, 5, 4, 4});
  check_conv("nn.conv1d", {2, 2, 9}, {3, 2, 3}, {{2}, {1, 1}, {2}}, {2, 3, 4});
  check_conv("nn.conv3d", {1, 2, 3, 4, 3}, {2, 2, 2, 2, 2}, {{1, 2, 1}, {0, 1, 0, 1, 0, 0}, {1, 1, 1}},
             {1, 2, 3, 2, 2});
}

TEST(Conv, EmptyBatchAndChannels) {
  EXPECT_EQ(run("nn.conv2d", {random({0, 3, 5, 5}), random({2, 3, 3, 3})}).shape(), (Dims{0, 2, 3, 3}));
  expect_all(run("nn.conv2d", {random({1, 0, 5, 5}), random({2, 0, 3, 3})}), {1, 2, 3, 3},
             [](const Index&) { return 0.0; });
}

TEST(Conv, RefusesWhatDoesNotFit) {
  const NDArray x = random({1, 3, 5, 5});
  expect_refused("nn.conv2d", {x, random({4, 2, 3, 3})}, {},
                 {"(1, 3, 5, 5)", "(4, 2, 3, 3)", "input channels"});
  expect_refused("nn.conv2d", {x, random({4, 3, 7, 3})}, {}, {"kernel is larger", "(4, 3, 7, 3)"});
  expect_refused("nn.conv2d", {random({1, 3, 5}), random({4, 3, 3})}, {}, {"4 dimensions", "has 3"});
  expect_refused("nn.conv2d", {x, random({4, 1, 3, 3})}, conv_attrs({{1, 1}, {0, 0, 0, 0}, {1, 1}, 3}),
                 {"not divisible by 3 groups"});
  expect_refused("nn.conv2d", {x, random({4, 3, 3, 3})}, conv_attrs({{0, 1}, {0, 0, 0, 0}, {1, 1}}),
                 {"stride 0"});
  expect_refused("nn.conv2d", {x, random({4, 3, 3, 3})}, conv_attrs({{1, 1, 1}, {}, {}}), {"strides", "3"});
}

TEST(Conv, DataOf16BitsMeetsFloat32WeightsInAFloat32Sum) {
  Conv c{{2, 1}, {1, 1, 1, 1}, {1, 1}, 4};
  auto attrs = [&](DataType out) {
    return make_attrs<ConvAttrs>([&](ConvAttrs& a) {
      a = *conv_attrs(c).as<ConvAttrs>();
      a.out_dtype = out;
    });
  };
  const NDArray w = random({4, 1, 3, 3}, f32, -1, 1, 2);
  for (DataType type : {DataType::bfloat16(), DataType::float_(16)})
    for (bool pads : {true, false}) {
      if (!pads) c.pads = {0, 0, 0, 0};
      const NDArray x = random({1, 4, 5, 6}, type, -1, 1, 1), y = run("nn.conv2d", {x, w}, attrs(f32));
      EXPECT_EQ(y.dtype(), f32);
      expect_all(y, pads ? Dims{1, 4, 3, 6} : Dims{1, 4, 2, 4},
                 [&](const Index& o) { return conv_at(x, w, c, o); });
      expect_refused("nn.conv2d", {x, w}, attrs(DataType::void_()), {"float32"});
      expect_refused("nn.conv2d", {w, random({4, 1, 3, 3}, type)}, attrs(f32), {"float32"});
      c.pads = {1, 1, 1, 1};
    }
}

TEST(Conv, SymbolicSizes) {
  PrimExpr n = tir::var("n"), h = tir::var("h");
  Conv c{{2, 1}, {1, 1, 1, 1}, {1, 1}};
  Expr e =
      op_call("nn.conv2d", {input("x", Shape{n, 3, h, 8}), input("w", Shape{4, 3, 3, 3})}, conv_attrs(c));
  EXPECT_EQ(graph::as_tensor(e)->ndim, 4);
  const NDArray x = random({2, 3, 7, 8}), w = random({4, 3, 3, 3}, f32, -1, 1, 2);
  expect_all(run_call(e, {x, w})[0], {2, 4, 4, 8}, [&](const Index& o) { return conv_at(x, w, c, o); });
}

/// Scatter form: each input element is spread over the kernel's window.
std::vector<double> transposed(const NDArray& x, const NDArray& w, const Conv& c, const Dims& out) {
  const size_t n = out.size() - 2;
  int64_t total = 1;
  for (int64_t d : out) total *= d;
  std::vector<double> y(static_cast<size_t>(total), 0.0);
  const int64_t in_per = x.shape()[1] / c.groups, out_per = w.shape()[1];
  for_each_index(x.shape(), [&](const Index& i) {
    Dims taps(w.shape().begin() + 1, w.shape().end());
    for_each_index(taps, [&](const Index& t) {
      Index o{i[0], i[1] / in_per * out_per + t[0]}, iw{i[1], t[0]};
      for (size_t d = 0; d < n; ++d) {
        o.push_back(i[d + 2] * c.strides[d] - c.pads[d] + t[d + 1] * c.dilation[d]);
        iw.push_back(t[d + 1]);
      }
      int64_t flat = 0;
      for (size_t d = 0; d < o.size(); ++d) {
        if (o[d] < 0 || o[d] >= out[d]) return;
        flat = flat * out[d] + o[d];
      }
      y[size_t(flat)] += at(x, i) * at(w, iw);
    });
  });
  return y;
}
void check_transposed(const std::string& op, const Dims& xs, const Dims& ws, const Conv& c,
                      std::vector<int64_t> extra, const Dims& wanted) {
  SCOPED_TRACE(op);
  const NDArray x = random(xs, f32, -1, 1, 1), w = random(ws, f32, -1, 1, 2);
  auto attrs = make_attrs<ConvTransposeAttrs>([&](ConvTransposeAttrs& a) {
    a.strides = Array<int64_t>(c.strides);
    a.padding = Array<int64_t>(c.pads);
    a.output_padding = Array<int64_t>(extra);
    a.dilation = Array<int64_t>(c.dilation);
    a.groups = c.groups;
  });
  const auto y = transposed(x, w, c, wanted);
  size_t next = 0;
  expect_all(run(op, {x, w}, attrs), wanted, [&](const Index&) { return y[next++]; });
}

ObjectRef windows(std::string data, std::string kernel, std::string out, Array<int64_t> padding = {}) {
  return make_attrs<ConvTransposeAttrs>([&](ConvTransposeAttrs& a) {
    a.strides = {2, 3};
    a.padding = padding;
    a.data_layout = data;
    a.kernel_layout = kernel;
    a.out_layout = out;
  });
}

TEST(ConvTranspose, WindowsInBlocksAreThePlainOnes) {
  auto moved = [](const NDArray& x, const std::string& from, const std::string& to) {
    return run("layout_transform", {x}, make_attrs<LayoutTransformAttrs>(from, to));
  };
  for (const bool bytes : {false, true}) {
    const NDArray x = random({2, 16, 2, 3}, bytes ? u8 : f32, bytes ? 0 : -1, bytes ? 9 : 1, 1),
                  w = random({16, 16, 2, 3}, bytes ? DataType::int_(8) : f32, bytes ? -9 : -1, bytes ? 9 : 1,
                             2);
    const NDArray want = run("nn.conv2d_transpose", {x, w}, windows("", "", ""));
    const std::string kernel = bytes ? "HWOI8o4i" : "HWOI16i8o";
    NDArray panels = moved(w, "IOHW", kernel);
    if (bytes) panels = panels.reshape({2, 3, 2, 4, 32});
    const NDArray laid = run("nn.conv2d_transpose", {moved(x, "NCHW", "NCHW16c"), panels},
                             windows("NCHW16c", kernel, "N2h3wCHW8c"));
    EXPECT_EQ(laid.shape(), (Dims{2, 2, 3, 2, 2, 3, 8}));
    const NDArray got = moved(laid, "N2h3wCHW8c", "NCHW");
    expect_all(got, want.shape(), [&](const Index& o) { return at(want, o); });
  }
}

TEST(ConvTranspose, PhasesInBlocksAreThePlainOnes) {
  auto moved = [](const NDArray& x, const std::string& from, const std::string& to) {
    return run("layout_transform", {x}, make_attrs<LayoutTransformAttrs>(from, to));
  };
  struct Case {
    Dims kernel, strides, pads, more;
  };
  // Phases of as many products are summed up together, others apart; a size that is no multiple of the
  // stride.
  for (const Case& c : {Case{{4, 4}, {2, 2}, {1, 1, 1, 1}, {}}, Case{{3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}},
                        Case{{5, 3}, {2, 1}, {2, 0, 1, 1}, {}}, Case{{3, 7}, {1, 3}, {0, 2, 0, 1}, {0, 1}},
                        Case{{2, 2}, {2, 2}, {0, 1, 1, 0}, {}}}) {
    const NDArray x = random({2, 16, 3, 4}, f32, -1, 1, 1),
                  w = random({16, 32, c.kernel[0], c.kernel[1]}, f32, -1, 1, 2);
    auto attrs = [&](std::string data, std::string kernel) {
      return make_attrs<ConvTransposeAttrs>([&](ConvTransposeAttrs& a) {
        a.strides = Array<int64_t>(c.strides), a.padding = Array<int64_t>(c.pads);
        a.output_padding = Array<int64_t>(c.more);
        a.data_layout = a.out_layout = data, a.kernel_layout = kernel;
      });
    };
    const NDArray want = run("nn.conv2d_transpose", {x, w}, attrs("", ""));
    const NDArray got =
        run("nn.conv2d_transpose", {moved(x, "NCHW", "NCHW16c"), moved(w, "IOHW", "HWOI16i16o")},
            attrs("NCHW16c", "HWOI16i16o"));
    expect_all(moved(got, "NCHW16c", "NCHW"), want.shape(), [&](const Index& o) { return at(want, o); });
  }
}

TEST(ConvTranspose, LayoutsThatDoNotFitAreRefused) {
  const NDArray x = random({1, 1, 2, 3, 16}), w = random({2, 3, 1, 1, 16, 16}),
                wide = random({3, 3, 1, 1, 16, 16});
  const std::string data = "NCHW16c", kernel = "HWOI16i16o", out = "N2h3wCHW16c";
  const char* op = "nn.conv2d_transpose";
  expect_refused(op, {x, w}, windows(data, kernel, "NCHX16c"), {"'NCHX16c'", "N, C, H and W"});
  expect_refused(op, {x, w}, windows(data, "OIHW16i16", out), {"'OIHW16i16'"});
  expect_refused(op, {x, random({2, 3, 1, 2, 16, 16})}, windows(data, kernel, out), {"do not fit"});
  expect_refused(op, {x, random({2, 3, 1, 1, 8, 16})}, windows(data, kernel, out), {"do not fit"});
  expect_refused(op, {random({1, 16, 2, 3}), w}, windows(data, kernel, out), {"'NCHW16c' names 5 axes"});
  expect_refused(op, {x, w}, make_attrs<ConvTransposeAttrs>([&](ConvTransposeAttrs& m) {
                   m.strides = {2, 3, 1};
                   m.data_layout = data, m.kernel_layout = kernel, m.out_layout = out;
                 }),
                 {"strides"});
}

TEST(ConvTranspose, IsTheScatterForm) {
  check_transposed("nn.conv2d_transpose", {1, 2, 3, 4}, {2, 3, 3, 3}, {{1, 1}, {0, 0, 0, 0}, {1, 1}}, {},
                   {1, 3, 5, 6});
  check_transposed("nn.conv2d_transpose", {2, 2, 3, 3}, {2, 2, 3, 2}, {{2, 3}, {1, 0, 0, 1}, {1, 2}}, {1, 0},
                   {2, 2, 7, 8});
  check_transposed("nn.conv2d_transpose", {1, 4, 3, 3}, {4, 2, 2, 2}, {{2, 2}, {0, 0, 0, 0}, {1, 1}, 2}, {},
                   {1, 4, 6, 6});
  check_transposed("nn.conv2d_transpose", {1, 1, 3, 3}, {1, 1, 2, 2}, {{2, 2}, {1, 1, 1, 1}, {1, 1}}, {},
                   {1, 1, 4, 4});
  check_transposed("nn.conv2d_transpose", {1, 1, 4, 4}, {1, 1, 1, 1}, {{1, 1}, {1, 1, 1, 1}, {1, 1}}, {},
                   {1, 1, 2, 2});
  check_transposed("nn.conv1d_transpose", {1, 2, 4}, {2, 3, 3}, {{2}, {1, 1}, {1}}, {1}, {1, 3, 8});
  check_transposed("nn.conv3d_transpose", {1, 1, 2, 2, 2}, {1, 2, 2, 2, 2},
                   {{2, 1, 1}, {0, 0, 0, 0, 0, 0}, {1, 1, 1}}, {}, {1, 2, 4, 3, 3});
}

TEST(ConvTranspose, StridesThatDivideTheKernelAndThatDoNot) {
  check_transposed("nn.conv2d_transpose", {1, 2, 3, 4}, {2, 3, 4, 4}, {{2, 2}, {1, 1, 1, 1}, {1, 1}}, {},
                   {1, 3, 6, 8});
  check_transposed("nn.conv2d_transpose", {1, 2, 3, 3}, {2, 1, 1, 1}, {{2, 2}, {0, 0, 0, 0}, {1, 1}}, {},
                   {1, 1, 5, 5});
  check_transposed("nn.conv2d_transpose", {2, 4, 3, 2}, {4, 3, 5, 3}, {{3, 2}, {2, 1, 2, 1}, {1, 1}, 2},
                   {1, 1}, {2, 6, 8, 4});
  check_transposed("nn.conv2d_transpose", {1, 3, 16, 20}, {3, 5, 2, 2}, {{2, 2}, {0, 0, 0, 0}, {1, 1}}, {},
                   {1, 5, 32, 40});
  check_transposed("nn.conv1d_transpose", {1, 1, 2}, {1, 1, 2}, {{4}, {3, 0}, {1}}, {}, {1, 1, 3});
  // Phases of one element and of two; the most that stand apart, and more than that.
  check_transposed("nn.conv2d_transpose", {1, 4, 7, 6}, {4, 5, 3, 3}, {{2, 2}, {1, 1, 1, 1}, {1, 1}}, {1, 1},
                   {1, 5, 14, 12});
  check_transposed("nn.conv2d_transpose", {1, 2, 4, 3}, {2, 3, 5, 3}, {{4, 2}, {3, 0, 1, 2}, {1, 1}}, {2, 0},
                   {1, 3, 15, 5});
  check_transposed("nn.conv2d_transpose", {1, 2, 3, 3}, {2, 3, 4, 4}, {{3, 3}, {1, 2, 0, 1}, {1, 1}}, {},
                   {1, 3, 9, 7});
}

}  // namespace
}  // namespace tenon::op_test
