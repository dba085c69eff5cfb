// SPDX-License-Identifier: Apache-2.0
// Quantised operators against definitions in double: (q - zero) · scale, rounded to even, kept in range.
#include "op/attrs_qnn.h"
#include "op_test.h"

namespace tenon::op_test {
namespace {

const DataType i8 = DataType::int_(8), u16 = DataType::uint(16);
NDArray real(double v) { return NDArray::scalar(v, f32); }
NDArray whole(double v, DataType t) { return NDArray::scalar(v, t); }
double kept(double v, DataType t) {
  const double low = t.is_int() ? -std::ldexp(1, t.bits - 1) : 0;
  return std::min(std::max(std::nearbyint(v), low), low + std::ldexp(1, t.bits) - 1);
}
ObjectRef along(int64_t axis, DataType out = DataType::void_(), int64_t block = 0) {
  return make_attrs<QuantizeAttrs>(axis, block, out);
}

TEST(Qnn, QuantizeAndBack) {
  for (DataType t : {i8, u8, DataType::int_(16), u16, i32})
    for (DataType r : {f32, f64, f16}) {
      const NDArray x = random({3, 7}, r, -9, 9);
      const NDArray q = run("qnn.quantize", {x, real(0.0625), whole(3, t)});
      ASSERT_EQ(q.dtype(), t);
      expect_all(q, {3, 7}, [&](const Index& i) { return kept(std::nearbyint(at(x, i) / 0.0625) + 3, t); });
      expect_all(run("qnn.dequantize", {q, NDArray::scalar(0.0625, r), whole(3, t)}), {3, 7},
                 [&](const Index& i) { return (at(q, i) - 3) * 0.0625; });
    }
  EXPECT_EQ(run("qnn.quantize", {random({0, 2}), real(1), whole(0, i8)}).size(), 0);
  expect_refused("qnn.quantize", {random({2}), real(1), NDArray::scalar(0, f32)}, {},
                 {"no quantised values"});
  expect_refused("qnn.dequantize", {random({2}), real(1), whole(0, i8)}, {}, {"integers"});
}
TEST(Qnn, ParametersAlongAnAxisAndInBlocks) {
  const NDArray x = random({2, 3, 4}, f32, -4, 4), s = values({3}, {0.1, 0.02, 0.5}),
                z = values({3}, {0, 5, -7}, i8);
  expect_all(run("qnn.quantize", {x, s, z}, along(-2)), {2, 3, 4}, [&](const Index& i) {
    return kept(std::nearbyint(double(float(at(x, i)) / float(at(s, {i[1]})))) + at(z, {i[1]}), i8);
  });
  const NDArray scales = random({2, 3, 2}, f32, 0.1, 1), zeros = random({2, 3, 2}, i8, -3, 3);
  const NDArray q = random({2, 3, 4}, i8, -90, 90);
  expect_all(run("qnn.dequantize", {q, scales, zeros}, along(2, DataType::void_(), 2)), {2, 3, 4},
             [&](const Index& i) {
               const Index b{i[0], i[1], i[2] / 2};
               return (at(q, i) - at(zeros, b)) * at(scales, b);
             });
  expect_refused("qnn.quantize", {x, random({2, 2}), z}, along(1), {"(2, 2)"});
}
TEST(Qnn, KnownScalesAreFiniteNumbersThatDivide) {
  const NDArray x = random({2, 3}), q = random({2, 3}, i8, -90, 90);
  const auto refuse = [&](const std::string& name, const NDArray& data, const NDArray& scale,
                          const char* says) {
    expect_refused(name, {data}, along(1), {says}, {graph::constant(scale), graph::constant(whole(3, i8))});
  };
  for (const char* name : {"qnn.quantize", "qnn.dequantize"}) {
    const NDArray& data = name == std::string_view("qnn.quantize") ? x : q;
    refuse(name, data, real(nan), "a scale is nan");
    refuse(name, data, real(inf), "a scale is inf");
    refuse(name, data, values({3}, {0.5, 0.25, -inf}), "a scale is -inf");
  }
  refuse("qnn.quantize", x, values({3}, {0.5, 0, 0.25}), "a scale is 0");
  // A factor may be 0, and a scale that is no constant anything.
  const NDArray scales = values({3}, {0.5, 0, 0.25}), zero = whole(3, i8);
  const Expr e =
      typed_call("qnn.dequantize", {q}, along(1), {graph::constant(scales), graph::constant(zero)});
  expect_all(run_call(e, {q, scales, zero}).at(0), {2, 3},
             [&](const Index& i) { return (at(q, i) - 3) * at(scales, {i[1]}); });
  typed_call("qnn.quantize", {x, real(0), whole(3, i8)}, along(1));
}
TEST(Qnn, SimulatedAndFake) {
  const NDArray x = random({5, 4}, f32, -20, 20);
  auto q = [&](const Index& i) { return kept(std::nearbyint(at(x, i) / 0.125) + 4, i8); };
  expect_all(run("qnn.simulated_quantize", {x, real(0.125), real(4)}), {5, 4}, q);
  expect_all(run("qnn.simulated_dequantize", {x, real(0.125), real(4)}), {5, 4},
             [&](const Index& i) { return (at(x, i) - 4) * 0.125; });
  expect_all(run("qnn.fake_quantize", {x, real(0.125), real(4)}), {5, 4},
             [&](const Index& i) { return (q(i) - 4) * 0.125; });
}
TEST(Qnn, Requantize) {
  const NDArray x = random({3, 5}, i32, -4000, 4000), s = values({5}, {0.5, 0.25, 1, 2, 0.125}),
                z = values({5}, {0, 1, -3, 7, 2}, i32);
  for (DataType t : {i8, u8})
    expect_all(
        run("qnn.requantize", {x, s, z, real(32), whole(2, t)}, make_attrs<RequantizeAttrs>(int64_t(1), t)),
        {3, 5}, [&](const Index& i) {
          return kept(std::nearbyint((at(x, i) - at(z, {i[1]})) * at(s, {i[1]}) / 32) + 2, t);
        });
}
TEST(Qnn, ElementWise) {
  const NDArray a = random({2, 3, 4}, u8, 0, 255), b = random({3, 1}, u8, 0, 255, 2);
  const std::vector<NDArray> parameters{real(0.5),     whole(100, u8), real(0.25),
                                        whole(20, u8), real(4),        whole(128, u8)};
  const std::pair<const char*, double (*)(double, double)> cases[] = {
      {"qnn.add", [](double p, double q) { return p + q; }},
      {"qnn.subtract", [](double p, double q) { return p - q; }},
      {"qnn.multiply", [](double p, double q) { return p * q; }}};
  for (auto [name, f] : cases) {
    std::vector<NDArray> in{a, b};
    in.insert(in.end(), parameters.begin(), parameters.end());
    expect_all(run(name, in), {2, 3, 4}, [&, f = f](const Index& i) {
      const double p = (at(a, i) - 100) * 0.5, q = (at(b, {i[1], 0}) - 20) * 0.25;
      return kept(std::nearbyint(f(p, q) / 4) + 128, u8);
    });
  }
}
TEST(Qnn, FunctionsOfOne) {
  const NDArray x = random({4, 9}, i8, -128, 127);
  const std::pair<const char*, double (*)(double)> cases[] = {
      {"qnn.exp", [](double v) { return std::exp(v); }},
      {"qnn.sqrt", [](double v) { return std::sqrt(v); }},
      {"qnn.rsqrt", [](double v) { return 1 / std::sqrt(v); }},
      {"qnn.log", [](double v) { return std::log(v); }},
      {"qnn.erf", [](double v) { return std::erf(v); }},
      {"qnn.tanh", [](double v) { return std::tanh(v); }},
      {"qnn.sigmoid", [](double v) { return 1 / (1 + std::exp(-v)); }},
      {"qnn.hard_swish", [](double v) { return v * std::clamp(v / 6 + 0.5, 0.0, 1.0); }},
      {"qnn.leaky_relu", [](double v) { return v < 0 ? 0.01 * v : v; }}};
  for (auto [name, f] : cases)
    // Zero at -129: all values are positive, so that roots and logarithms exist.
    expect_all(run(name, {x, real(0.017), whole(-129, i32), real(0.0391), whole(-20, i32)}), {4, 9},
               [&, f = f](const Index& i) {
                 return kept(std::nearbyint(f((at(x, i) + 129) * double(0.017f)) / double(0.0391f)) - 20, i8);
               });
  auto soft = [&](const Index& i) {
    double sum = 0;
    for (int64_t k = 0; k < 9; ++k) sum += std::exp((at(x, {i[0], k}) - 2) * double(0.05f));
    return kept(std::nearbyint(std::exp((at(x, i) - 2) * double(0.05f)) / sum * 256) - 128, i8);
  };
  expect_all(run("qnn.softmax", {x, real(0.05), whole(2, i8), real(1.0 / 256), whole(-128, i8)}), {4, 9},
             soft);
}
TEST(Qnn, Pools) {
  const NDArray x = random({1, 2, 4, 6}, u8, 0, 255), y = random({1, 2, 6}, u8, 0, 255);
  const std::vector<NDArray> p{real(0.5), whole(10, u8), real(0.25), whole(7, u8)};
  auto with = [&](const NDArray& a) { return std::vector<NDArray>{a, p[0], p[1], p[2], p[3]}; };
  auto back = [](double mean) { return kept(std::nearbyint((mean - 10) * 0.5 / 0.25) + 7, u8); };
  expect_all(run("qnn.global_avg_pool", with(x)), {1, 2, 1, 1}, [&](const Index& i) {
    double sum = 0;
    for_each_index({4, 6}, [&](const Index& k) { sum += at(x, {0, i[1], k[0], k[1]}); });
    return back(sum / 24);
  });
  auto two = [](size_t n) {
    return make_attrs<PoolAttrs>([n](PoolAttrs& a) {
      a.pool_size = n == 1 ? ints({2}) : ints({2, 2});
      a.strides = ints({2});
    });
  };
  expect_all(run("qnn.avg_pool2d", with(x), two(2)), {1, 2, 2, 3}, [&](const Index& i) {
    double sum = 0;
    for_each_index({2, 2},
                   [&](const Index& k) { sum += at(x, {0, i[1], i[2] * 2 + k[0], i[3] * 2 + k[1]}); });
    return back(sum / 4);
  });
  expect_all(run("qnn.avg_pool1d", with(y), two(1)), {1, 2, 3}, [&](const Index& i) {
    return back((at(y, {0, i[1], i[2] * 2}) + at(y, {0, i[1], i[2] * 2 + 1})) / 2);
  });
}
TEST(Qnn, Products) {
  const NDArray a = random({3, 5}, u8, 0, 255), w = random({4, 5}, i8, -128, 127, 2),
                z = values({4}, {1, -2, 3, 0}, i8);
  expect_all(run("qnn.dense", {a, w, whole(9, u8), z}), {3, 4}, [&](const Index& i) {
    double sum = 0;
    for (int64_t k = 0; k < 5; ++k) sum += (at(a, {i[0], k}) - 9) * (at(w, {i[1], k}) - at(z, {i[1]}));
    return sum;
  });
  const NDArray p = random({2, 3, 5}, u8, 0, 255), q = random({5, 4}, u8, 0, 255, 2);
  expect_all(run("qnn.matmul", {p, q, whole(9, u8), whole(130, u8)}), {2, 3, 4}, [&](const Index& i) {
    double sum = 0;
    for (int64_t k = 0; k < 5; ++k) sum += (at(p, {i[0], i[1], k}) - 9) * (at(q, {k, i[2]}) - 130);
    return sum;
  });
  auto padded = make_attrs<ConvAttrs>([](ConvAttrs& c) { c.padding = ints({1}); });
  for (size_t n = 1; n <= 3; ++n) {
    Dims xs{2, 3}, ws{4, 3}, out{2, 4};
    for (size_t i = 0; i < n; ++i) xs.push_back(4), ws.push_back(3), out.push_back(4);
    const NDArray x = random(xs, u8, 0, 255), k = random(ws, i8, -128, 127);
    expect_all(run("qnn.conv" + std::to_string(n) + "d", {x, k, whole(7, u8), z}, padded), out,
               [&](const Index& i) {
                 double sum = 0;
                 for_each_index(ws, [&](const Index& t) {
                   if (t[0] != 0) return;
                   Index from{i[0], t[1]}, tap{i[1], t[1]};
                   for (size_t d = 0; d < n; ++d)
                     from.push_back(i[d + 2] + t[d + 2] - 1), tap.push_back(t[d + 2]);
                   sum += (at_or(x, from, 7) - 7) * (at(k, tap) - at(z, {i[1]}));
                 });
                 return sum;
               });
  }
  const NDArray x = random({1, 2, 3, 3}, u8, 0, 255), k = random({2, 4, 2, 2}, i8, -128, 127);
  expect_all(run("qnn.conv2d_transpose", {x, k, whole(7, u8), z},
                 make_attrs<ConvTransposeAttrs>([](ConvTransposeAttrs& c) { c.strides = ints({2}); })),
             {1, 4, 6, 6}, [&](const Index& i) {
               double sum = 0;
               for (int64_t c = 0; c < 2; ++c)
                 sum += (at(x, {0, c, i[2] / 2, i[3] / 2}) - 7) *
                        (at(k, {c, i[1], i[2] % 2, i[3] % 2}) - at(z, {i[1]}));
               return sum;
             });
}
TEST(Qnn, ConcatAtOneScale) {
  const NDArray a = random({2, 3}, i8, -100, 100), b = random({2, 2}, i8, -100, 100, 2);
  const NDArray scales = values({2}, {0.5, 0.25}), zeros = values({2}, {3, -4}, i8);
  Array<Expr> items{input("a", a.shape(), i8), input("b", b.shape(), i8)};
  const Expr e = op_call("qnn.concat",
                         {tuple(items), input("s", Dims{2}, f32), input("z", Dims{2}, i8),
                          input("os", Dims{}, f32), input("oz", Dims{}, i8)},
                         make_attrs<AxisAttrs>(int64_t(1)));
  expect_all(run_call(e, {a, b, scales, zeros, real(1), whole(5, i8)})[0], {2, 5}, [&](const Index& i) {
    const double v = i[1] < 3 ? (at(a, i) - 3) * 0.5 : (at(b, {i[0], i[1] - 3}) + 4) * 0.25;
    return kept(std::nearbyint(v) + 5, i8);
  });
}
TEST(Qnn, DynamicAndFixedPoint) {
  const NDArray x = random({17}, f32, -3, 5);
  double low = 0, high = 0;
  for (double v : list(x)) low = std::min(low, v), high = std::max(high, v);
  const auto scale = double(float((high - low) / 255));
  const double zero = std::nearbyint(-low / scale);
  const auto r = run_all("qnn.dynamic_quantize", {x});
  EXPECT_NEAR(r[1].element(0), scale, 1e-6);
  EXPECT_EQ(r[2].element_int(0), int64_t(zero));
  for (int64_t i = 0; i < 17; ++i)
    EXPECT_NEAR(double(r[0].element_int(i)), kept(x.element(i) / scale + zero, u8), 1);
  const NDArray y = random({40}, i32, -1e6, 1e6);
  for (int64_t shift : {-3, 0, 2})
    expect_all(run("qnn.fixed_point_multiply", {y}, make_attrs<FixedPointAttrs>(int64_t(1518500250), shift)),
               {40}, [&](const Index& i) {
                 return std::floor(at(y, i) * 1518500250.0 * std::ldexp(1, int(shift) - 31) + 0.5);
               });
  expect_refused("qnn.fixed_point_multiply", {random({2})}, {}, {"int32"});
  for (int64_t multiplier : {INT64_MIN, INT64_MAX, -(int64_t(1) << 31) - 1})
    expect_refused("qnn.fixed_point_multiply", {y}, make_attrs<FixedPointAttrs>(multiplier, int64_t(0)),
                   {"out of range"});
}

TEST(Qnn, Lookup) {
  const DataType i8 = DataType::int_(8);
  for (DataType from : {u8, i8}) {
    NDArray x = NDArray::empty({40}, from);
    for (int64_t i = 0; i < 40; ++i) x.as_ptr<uint8_t>()[i] = uint8_t(i * 45 + 3);
    const auto attrs = make_attrs<LookupAttrs>([&](LookupAttrs& a) {
      for (int64_t v = 0; v < 256; ++v) a.table.push_back((v * 7 + 90) % 256 - 128);
      a.out_dtype = i8;
    });
    expect_all(run("qnn.lookup", {x}, attrs), {40},
               [&](const Index& i) { return (int64_t(x.as_ptr<uint8_t>()[i[0]]) * 7 + 90) % 256 - 128; });
  }
  const auto short_table = make_attrs<LookupAttrs>([](LookupAttrs& a) { a.table = {1, 2, 3}; });
  expect_refused("qnn.lookup", {NDArray::zeros({2}, u8)}, short_table, {"256"});
  expect_refused("qnn.lookup", {random({2})}, {}, {"bytes"});
}

}  // namespace
}  // namespace tenon::op_test
