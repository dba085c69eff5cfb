// SPDX-License-Identifier: Apache-2.0
// Positions, slices at run-time places, pooling with positions, folding, and composed layers.
#include <cstring>

#include "op/attrs_arrange.h"
#include "op/attrs_place.h"
#include "op_test.h"

namespace tenon::op_test {
namespace {

TEST(Place, Bits) {
  const NDArray x = random({3, 4}, f32), whole = run("bitcast", {x}, make_attrs<CastAttrs>(i32));
  expect_all(whole, {3, 4}, [&](const Index& i) {
    const auto f = float(at(x, i));
    int32_t bits;
    std::memcpy(&bits, &f, 4);
    return double(bits);
  });
  expect_all(run("bitcast", {whole}, make_attrs<CastAttrs>(f32)), {3, 4},
             [&](const Index& i) { return at(x, i); });
  const NDArray bytes = random({9}, DataType::int_(8), -128, 127);
  expect_all(run("bitcast", {bytes}, make_attrs<CastAttrs>(u8)), {9},
             [&](const Index& i) { return double(uint8_t(int8_t(at(bytes, i)))); });
  expect_refused("bitcast", {x}, make_attrs<CastAttrs>(f64), {"different sizes"});
  for (DataType t : {u8, i32, i64}) {
    const NDArray y = random({20}, t, 0, 120);
    expect_all(run("clz", {y}), {20}, [&](const Index& i) {
      double n = t.bits;
      for (auto v = int64_t(at(y, i)); v > 0; v /= 2) --n;
      return n;
    });
  }
}
TEST(Place, ViewOfBytes) {
  auto tail = [](const Dims& shape, int64_t offset) {
    Array<PrimExpr> sizes(shape.begin(), shape.end());
    return Array<Expr>{graph::shape_expr(sizes), Expr(make<graph::PrimValue>(PrimExpr(offset)))};
  };
  struct Case {
    DataType from, to;
    Dims shape;
    int64_t offset;
  };
  const DataType i16 = DataType::int_(16);
  for (const Case& c :
       {Case{f32, i32, {3, 4}, 0}, Case{f32, u8, {5, 2}, 6}, Case{u8, i16, {2, 2}, 2}, Case{u8, f32, {2}, 1},
        Case{i64, i16, {7}, 4}, Case{i16, i64, {2}, 2}, Case{u8, u8, {0}, 5}}) {
    const NDArray x = random({3, 4}, c.from, -100, 100);
    const NDArray got = run("memory.view", {x}, make_attrs<ViewAttrs>(c.to), tail(c.shape, c.offset));
    NDArray want = NDArray::empty(c.shape, c.to);
    std::memcpy(want.data(), static_cast<const char*>(x.data()) + c.offset, want.byte_size());
    ASSERT_EQ(got.shape(), c.shape);
    EXPECT_EQ(std::memcmp(got.data(), want.data(), want.byte_size()), 0)
        << to_string(c.from) << " as " << to_string(c.to);
  }
  const NDArray x = random({3, 4}, f32);
  for (const auto& [shape, t, offset, words] :
       {std::tuple<Dims, DataType, int64_t, const char*>{{13}, f32, 0, "bytes are seen"},
        {{12}, f32, 4, "bytes are seen"},
        {{2}, f32, 2, "inside an element"},
        {{2}, f32, -4, "below 0"}})
    expect_refused("memory.view", {x}, make_attrs<ViewAttrs>(t), {words}, tail(shape, offset));
}
TEST(Place, IndexArithmetic) {
  const NDArray a = random({3}), b = random({4}, i32), c = random({}, f32);
  for (const char* how : {"ij", "xy"}) {
    Array<Expr> items{input("a", a.shape(), f32), input("b", b.shape(), i32), input("c", Dims{}, f32)};
    const auto r =
        run_call(op_call("meshgrid", {tuple(items)}, make_attrs<IndexingAttrs>(std::string(how))), {a, b, c});
    const bool xy = how == std::string("xy");
    const Dims dims = xy ? Dims{4, 3, 1} : Dims{3, 4, 1};
    expect_all(r[0], dims, [&](const Index& i) { return at(a, {i[xy ? 1 : 0]}); });
    expect_all(r[1], dims, [&](const Index& i) { return at(b, {i[xy ? 0 : 1]}); });
    expect_all(r[2], dims, [&](const Index&) { return at(c, {}); });
  }
  const NDArray flat = values({2, 3}, {0, 7, 23, 11, 5, 12}, i64);
  const NDArray places = run("unravel_index", {flat}, {}, {shape({2, 3, 4})});
  expect_all(places, {3, 2, 3}, [&](const Index& i) {
    const auto k = int64_t(at(flat, {i[1], i[2]}));
    return double(i[0] == 0 ? k / 12 : i[0] == 1 ? k / 4 % 3 : k % 4);
  });
  expect_all(run("ravel_index", {places}, {}, {shape({2, 3, 4})}), {2, 3},
             [&](const Index& i) { return at(flat, i); });
  expect_refused("ravel_index", {places}, {}, {"(3, 2, 3)"}, {shape({2, 3})});
  const NDArray x = random({4, 5}, i32, -3, 4), set = values({3}, {-2, 0, 3}, i32);
  expect_all(run("isin", {x, set}), {4, 5},
             [&](const Index& i) { return at(x, i) == -2 || at(x, i) == 0 || at(x, i) == 3; });
  expect_all(run("isin", {x, NDArray::empty({0}, i32)}), {4, 5}, [](const Index&) { return 0; });
  for (const bool end : {true, false})
    for (int64_t n : {1, 5})
      expect_all(run("linspace", {}, make_attrs<LinspaceAttrs>(-1.0, 3.0, end, f32), {shape({n})}), {n},
                 [&](const Index& i) {
                   return -1 + 4 * double(i[0]) / double(std::max<int64_t>(end ? n - 1 : n, 1));
                 });
}
TEST(Place, SlicesAtRunTimePositions) {
  const NDArray x = random({4, 5}), update = random({2, 3}, f32, 5, 6);
  for (auto [p, q] : {std::pair(1, 2), std::pair(-3, 9), std::pair(3, 0)}) {
    const NDArray begin = values({2}, {double(p), double(q)}, i64);
    const int64_t r = std::clamp(p, 0, 2), c = std::clamp(q, 0, 2);
    expect_all(run("dynamic_slice", {x, begin}, {}, {shape({2, 3})}), {2, 3},
               [&](const Index& i) { return at(x, {i[0] + r, i[1] + c}); });
    expect_all(run("dynamic_update_slice", {x, update, begin}), {4, 5},
               [&](const Index& i) { return at_or(update, {i[0] - r, i[1] - c}, at(x, i)); });
  }
  expect_refused("dynamic_slice", {x, values({2}, {0, 0}, i64)}, {}, {"(5, 3)", "(4, 5)"}, {shape({5, 3})});
  expect_refused("dynamic_update_slice", {x, random({5, 1}), values({2}, {0, 0}, i64)}, {}, {"(5, 1)"});
}
TEST(Place, PoolingGivesPositionsAndUnpoolingTakesThem) {
  auto a = make_attrs<PoolAttrs>([](PoolAttrs& p) {
    p.pool_size = ints({3, 2});
    p.strides = ints({2, 1});
    p.padding = ints({1, 0});
  });
  for (DataType t : {f32, DataType::int_(8)}) {
    const NDArray x = random({2, 2, 5, 6}, t, -50, 50);
    const auto r = run_all("nn.max_pool_with_indices", {x}, a);
    auto best = [&](const Index& i) {
      std::pair<double, double> found(-inf, -1);
      for (int64_t p = 0; p < 3; ++p)
        for (int64_t q = 0; q < 2; ++q) {
          const Index from{i[0], i[1], i[2] * 2 + p - 1, i[3] + q};
          const double v = at_or(x, from, -inf);
          if (v > found.first) found = {v, double(((i[0] * 2 + i[1]) * 5 + from[2]) * 6 + from[3])};
        }
      return found;
    };
    expect_all(r[0], {2, 2, 3, 5}, [&](const Index& i) { return best(i).first; });
    expect_all(r[1], {2, 2, 3, 5}, [&](const Index& i) { return best(i).second; });
    const NDArray back = run("nn.max_unpool", r, {}, {shape({2, 2, 5, 6})});
    expect_all(back, {2, 2, 5, 6}, [&](const Index& i) {
      const auto flat = double(((i[0] * 2 + i[1]) * 5 + i[2]) * 6 + i[3]);
      bool picked = false;
      for (double k : list(r[1])) picked = picked || k == flat;
      return picked ? at(x, i) : 0;
    });
  }
  const NDArray line = random({1, 1, 7}), box = random({1, 1, 4, 4, 4});
  auto two = make_attrs<PoolAttrs>([](PoolAttrs& p) { p.pool_size = ints({2}), p.strides = ints({2}); });
  EXPECT_EQ(run("nn.max_pool_with_indices", {line}, two).shape(), (Dims{1, 1, 3}));
  EXPECT_EQ(run("nn.max_pool_with_indices", {box}, two).shape(), (Dims{1, 1, 2, 2, 2}));
  // The least element is still more than padding, which is nowhere.
  auto around = make_attrs<PoolAttrs>(
      [](PoolAttrs& p) { p.pool_size = ints({2}), p.strides = ints({2}), p.padding = ints({2}); });
  for (DataType t : {f32, DataType::uint(8)}) {
    const NDArray least = values({1, 1, 3}, std::vector<double>(3, t.is_float() ? -inf : 0), t);
    const auto r = run_all("nn.max_pool_with_indices", {least}, around);
    EXPECT_EQ(list(r[1]), (std::vector<double>{-1, 0, 2}));
  }
}
TEST(Place, FoldAddsWhatIm2colTook) {
  auto a = make_attrs<UnfoldAttrs>(ints({2, 3}), ints({2, 1}), ints({1}), ints({1, 2}));
  const NDArray image = random({2, 3, 5, 6});
  const int64_t oh = (5 + 2 - 2) / 2 + 1, ow = 6 + 2 - 5 + 1;
  const NDArray columns = random({2, 18, oh * ow});
  expect_all(
      run("nn.fold", {columns}, a, {shape({5, 6})}), {2, 3, 5, 6},
      [&](const Index& i) {
        double sum = 0;
        for (int64_t p = 0; p < 2; ++p)
          for (int64_t q = 0; q < 3; ++q)
            for (int64_t y = 0; y < oh; ++y)
              for (int64_t z = 0; z < ow; ++z)
                if (y * 2 + p - 1 == i[2] && z + q * 2 - 1 == i[3])
                  sum += at(columns, {i[0], (i[1] * 2 + p) * 3 + q, y * ow + z});
        return sum;
      },
      1e-4);
  expect_refused("nn.fold", {random({1, 5, 4})}, a, {"6 elements", "5 columns"}, {shape({5, 6})});
}

// ---------------------------------------------------------------- composed layers
TEST(Composed, Products) {
  const NDArray a = random({2, 3, 4}), b = random({2, 5, 4}), c = random({2, 4, 5}), bias = random({5});
  auto product = [&](const Index& i) {
    double sum = 0;
    for (int64_t k = 0; k < 4; ++k) sum += at(a, {i[0], i[1], k}) * at(b, {i[0], i[2], k});
    return sum;
  };
  expect_all(run("nn.batch_matmul", {a, b}), {2, 3, 5}, product);
  expect_all(run("nn.batch_matmul", {a, c}, make_attrs<BatchMatmulAttrs>(false, false)), {2, 3, 5},
             [&](const Index& i) {
               double sum = 0;
               for (int64_t k = 0; k < 4; ++k) sum += at(a, {i[0], i[1], k}) * at(c, {i[0], k, i[2]});
               return sum;
             });
  expect_all(run("nn.batch_matmul", {c, b}, make_attrs<BatchMatmulAttrs>(true, true)), {2, 5, 5},
             [&](const Index& i) {
               double sum = 0;
               for (int64_t k = 0; k < 4; ++k) sum += at(c, {i[0], k, i[1]}) * at(b, {i[0], i[2], k});
               return sum;
             });
  const NDArray w = random({5, 4});
  for (const bool with : {true, false}) {
    std::vector<NDArray> in{a, w};
    if (with) in.push_back(bias);
    expect_all(run("nn.linear", in), {2, 3, 5}, [&](const Index& i) {
      double sum = with ? at(bias, {i[2]}) : 0;
      for (int64_t k = 0; k < 4; ++k) sum += at(a, {i[0], i[1], k}) * at(w, {i[2], k});
      return sum;
    });
  }
  expect_refused("nn.batch_matmul", {random({3}), random({3})}, {}, {"batches of matrices"});
}
TEST(Composed, GatesAndRotations) {
  const NDArray x = random({2, 3, 8});
  const std::pair<const char*, double (*)(double)> gates[] = {
      {"nn.swiglu", [](double v) { return v / (1 + std::exp(-v)); }},
      {"nn.geglu", [](double v) { return v * 0.5 * (1 + std::erf(v / std::sqrt(2.0))); }},
      {"nn.reglu", [](double v) { return std::max(v, 0.0); }}};
  for (auto [name, f] : gates)
    expect_all(run(name, {x}), {2, 3, 4},
               [&, f = f](const Index& i) { return f(at(x, i)) * at(x, {i[0], i[1], i[2] + 4}); });
  const NDArray cos = random({3, 4}), sin = random({3, 4}, f32, -1, 1, 2);
  for (const bool neighbours : {false, true})
    expect_all(run("nn.rotary_embedding", {x, cos, sin}, make_attrs<RotaryAttrs>(neighbours)), {2, 3, 8},
               [&](const Index& i) {
                 const int64_t pair = neighbours ? i[2] / 2 : i[2] % 4;
                 const bool second = neighbours ? i[2] % 2 : i[2] >= 4;
                 const double p = at(x, {i[0], i[1], neighbours ? pair * 2 : pair}),
                              q = at(x, {i[0], i[1], neighbours ? pair * 2 + 1 : pair + 4}),
                              c = at(cos, {i[1], pair}), s = at(sin, {i[1], pair});
                 return second ? p * s + q * c : p * c - q * s;
               });
  expect_refused("nn.rotary_embedding", {random({2, 3}), cos, sin}, {}, {"(2, 3)", "pairs"});
}
TEST(Composed, Normalisations) {
  const NDArray x = random({3, 2, 4, 5}), gamma = random({2}), beta = random({2}), mean = random({2}),
                variance = random({2}, f32, 0.5, 2);
  double m[2] = {0, 0}, v[2] = {0, 0};
  for_each_index(x.shape(), [&](const Index& i) { m[i[1]] += at(x, i) / 60; });
  for_each_index(x.shape(),
                 [&](const Index& i) { v[i[1]] += (at(x, i) - m[i[1]]) * (at(x, i) - m[i[1]]) / 60; });
  const auto r = run_all("nn.batch_norm_train", {x, gamma, beta, mean, variance},
                         make_attrs<BatchNormTrainAttrs>(int64_t(1), 1e-3, 0.75));
  expect_all(
      r[0], {3, 2, 4, 5},
      [&](const Index& i) {
        return (at(x, i) - m[i[1]]) / std::sqrt(v[i[1]] + 1e-3) * at(gamma, {i[1]}) + at(beta, {i[1]});
      },
      1e-4);
  expect_all(r[1], {2}, [&](const Index& i) { return 0.75 * at(mean, i) + 0.25 * m[i[0]]; });
  expect_all(r[2], {2}, [&](const Index& i) { return 0.75 * at(variance, i) + 0.25 * v[i[0]]; });
  expect_all(
      run("nn.mean_variance_norm", {x}), {3, 2, 4, 5},
      [&](const Index& i) { return (at(x, i) - m[i[1]]) / (std::sqrt(v[i[1]]) + 1e-9); }, 1e-4);
  const NDArray y = random({2, 5}), noise = random({2, 5}, f32, -1, 1, 2);
  expect_all(run("nn.gumbel_softmax", {y, noise}, make_attrs<AlphaAttrs>(0.5)), {2, 5}, [&](const Index& i) {
    double sum = 0;
    for (int64_t k = 0; k < 5; ++k) sum += std::exp((at(y, {i[0], k}) + at(noise, {i[0], k})) / 0.5);
    return std::exp((at(y, i) + at(noise, i)) / 0.5) / sum;
  });
  expect_all(run("zeros_like", {y}), {2, 5}, [](const Index&) { return 0; });
  EXPECT_EQ(run("size", {x}).element_int(0), 120);
  EXPECT_EQ(run("size", {random({3, 0})}).element_int(0), 0);
}

}  // namespace
}  // namespace tenon::op_test
