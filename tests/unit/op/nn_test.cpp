// SPDX-License-Identifier: Apache-2.0
// Pooling, normalisation, softmax and attention against direct formulas in double.
#include "op_test.h"

#include <algorithm>

namespace tenon::op_test {
namespace {

using L = std::vector<double>;

// ---------------------------------------------------------------- pooling
struct Pool {
  Dims size, strides, pads, dilation;
  bool ceil_mode = false, include = false;
  double p = 2;
};
ObjectRef pool_attrs(const Pool& p) {
  return make_attrs<PoolAttrs>([&](PoolAttrs& a) {
    a.pool_size = Array<int64_t>(p.size);
    a.strides = Array<int64_t>(p.strides);
    a.padding = Array<int64_t>(p.pads);
    a.dilation = Array<int64_t>(p.dilation);
    a.ceil_mode = p.ceil_mode;
    a.count_include_pad = p.include;
    a.p = p.p;
  });
}
/// Elements of the window at o, and how many positions count for the mean.
L window(const NDArray& x, const Pool& p, const Index& o, int64_t* counted) {
  const size_t n = p.size.size();
  L out;
  *counted = 0;
  for_each_index(p.size, [&](const Index& k) {
    Index i{o[0], o[1]};
    bool in_image = true, in_pad = true;
    for (size_t d = 0; d < n; ++d) {
      const int64_t at = o[d + 2] * p.strides[d] - p.pads[d] + k[d] * p.dilation[d], size = x.shape()[d + 2];
      in_image = in_image && at >= 0 && at < size;
      in_pad = in_pad && at >= -p.pads[d] && at < size + p.pads[d + n];
      i.push_back(at);
    }
    if (in_image) out.push_back(at(x, i));
    *counted += p.include ? in_pad : in_image;
  });
  return out;
}
void check_pools(const Dims& shape, const Pool& p, const Dims& wanted) {
  const std::string n = std::to_string(shape.size() - 2) + "d";
  const NDArray x = random(shape, f32, -3, 3);
  int64_t count = 0;
  expect_all(run("nn.max_pool" + n, {x}, pool_attrs(p)), wanted, [&](const Index& o) {
    const L w = window(x, p, o, &count);
    return w.empty() ? -inf : *std::max_element(w.begin(), w.end());
  });
  expect_all(run("nn.avg_pool" + n, {x}, pool_attrs(p)), wanted, [&](const Index& o) {
    double s = 0;
    for (double v : window(x, p, o, &count)) s += v;
    return s / double(std::max<int64_t>(count, 1));
  });
  expect_all(run("nn.lp_pool" + n, {x}, pool_attrs(p)), wanted, [&](const Index& o) {
    double s = 0;
    for (double v : window(x, p, o, &count)) s += std::pow(std::fabs(v), p.p);
    return std::pow(s, 1 / p.p);
  });
}

TEST(Pool, WindowsInAllRanks) {
  check_pools({1, 2, 6, 6}, {{2, 2}, {2, 2}, {0, 0, 0, 0}, {1, 1}}, {1, 2, 3, 3});
  check_pools({1, 2, 7, 6}, {{3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}}, {1, 2, 4, 3});
  check_pools({1, 2, 7, 6}, {{3, 3}, {2, 2}, {1, 0, 1, 1}, {1, 1}, false, true}, {1, 2, 4, 3});
  check_pools({1, 1, 7, 7}, {{3, 2}, {2, 3}, {0, 0, 0, 0}, {1, 1}, true}, {1, 1, 3, 3});
  check_pools({1, 1, 6, 6}, {{3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}, true, true}, {1, 1, 4, 4});
  check_pools({1, 1, 6, 6}, {{3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}, true, false, 3}, {1, 1, 4, 4});
  check_pools({1, 1, 9, 9}, {{3, 3}, {1, 2}, {0, 0, 0, 0}, {2, 3}, false, false, 1}, {1, 1, 5, 2});
  check_pools({2, 1, 9}, {{4}, {3}, {2, 1}, {1}}, {2, 1, 3});
  check_pools({1, 1, 3, 4, 3}, {{2, 2, 2}, {1, 2, 1}, {0, 0, 1, 0, 0, 0}, {1, 1, 1}}, {1, 1, 2, 2, 3});
  // Rounded up, the last window would begin behind the image: it is left out.
  check_pools({1, 1, 4, 4}, {{1, 1}, {3, 3}, {0, 0, 0, 0}, {1, 1}, true}, {1, 1, 2, 2});
  check_pools({1, 1, 2, 2}, {{1, 1}, {2, 2}, {0, 0, 1, 1}, {1, 1}, true}, {1, 1, 1, 1});
}

TEST(Pool, SpecialValuesAndMistakes) {
  const NDArray x = values({1, 1, 1, 3}, {-inf, -inf, nan});
  NDArray y = run("nn.max_pool2d", {x}, pool_attrs({{1, 2}, {1, 1}, {0, 0, 0, 0}, {1, 1}}));
  EXPECT_EQ(y.element(0), -inf);
  EXPECT_TRUE(std::isnan(y.element(1)));
  EXPECT_EQ(list(run("nn.max_pool1d", {values({1, 1, 3}, {-3, -2, -1}, DataType::int_(8))},
                     pool_attrs({{3}, {1}, {1, 1}, {1}}))),
            (L{-2, -1, -1}));
  EXPECT_EQ(run("nn.max_pool2d", {random({0, 2, 4, 4})}, pool_attrs({{2, 2}, {2, 2}, {}, {}})).shape(),
            (Dims{0, 2, 2, 2}));
  expect_refused("nn.max_pool2d", {x}, pool_attrs({{3, 3}, {1, 1}, {0, 0, 0, 0}, {1, 1}}),
                 {"window is larger", "(1, 1, 1, 3)"});
  expect_refused("nn.max_pool2d", {x}, make_attrs<PoolAttrs>(), {"pool_size"});
  expect_refused("nn.avg_pool2d", {random({1, 1, 3, 3}, i32)}, pool_attrs({{2, 2}, {1, 1}, {}, {}}),
                 {"floating"});
}

TEST(Pool, SymbolicSizes) {
  PrimExpr n = tir::var("n"), h = tir::var("h");
  const Pool p{{3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}, true};
  Expr e = op_call("nn.avg_pool2d", {input("x", Shape{n, 2, h, 6})}, pool_attrs(p));
  const NDArray x = random({2, 2, 7, 6});
  int64_t count = 0;
  expect_all(run_call(e, {x})[0], {2, 2, 4, 4}, [&](const Index& o) {
    double s = 0;
    for (double v : window(x, p, o, &count)) s += v;
    return s / double(count);
  });
}

TEST(GlobalPool, AnyRank) {
  for (const Dims& d : {Dims{2, 3, 4}, Dims{1, 2, 3, 4}, Dims{1, 2, 2, 3, 2}}) {
    const NDArray x = random(d);
    Dims out{d[0], d[1]};
    out.resize(d.size(), 1);
    int64_t area = 1;
    for (size_t i = 2; i < d.size(); ++i) area *= d[i];
    auto all = [&](const Index& o) {
      L v;
      for_each_index(d, [&](const Index& i) {
        if (i[0] == o[0] && i[1] == o[1]) v.push_back(at(x, i));
      });
      return v;
    };
    expect_all(run("nn.global_avg_pool", {x}), out, [&](const Index& o) {
      double s = 0;
      for (double v : all(o)) s += v;
      return s / double(area);
    });
    expect_all(run("nn.global_max_pool", {x}), out, [&](const Index& o) {
      const L v = all(o);
      return *std::max_element(v.begin(), v.end());
    });
    expect_all(run("nn.global_lp_pool", {x}), out, [&](const Index& o) {
      double s = 0;
      for (double v : all(o)) s += v * v;
      return std::sqrt(s);
    });
  }
  expect_refused("nn.global_avg_pool", {random({2, 3})}, {}, {"3 dimensions", "has 2"});
}

TEST(AdaptivePool, EvenAndUnevenParts) {
  const NDArray x = random({1, 2, 6, 7});
  auto range = [](int64_t o, int64_t n, int64_t parts) {
    return std::pair{o * n / parts, ((o + 1) * n + parts - 1) / parts};
  };
  for (const Dims& parts : {Dims{3, 7}, Dims{4, 3}, Dims{1, 1}, Dims{6, 9}}) {
    auto attrs = make_attrs<AdaptivePoolAttrs>(Array<int64_t>(parts));
    auto all = [&](const Index& o) {
      L v;
      const auto [a, b] = range(o[2], 6, parts[0]);
      const auto [c, d] = range(o[3], 7, parts[1]);
      for (int64_t i = a; i < b; ++i)
        for (int64_t j = c; j < d; ++j) v.push_back(at(x, {o[0], o[1], i, j}));
      return v;
    };
    expect_all(run("nn.adaptive_avg_pool", {x}, attrs), {1, 2, parts[0], parts[1]}, [&](const Index& o) {
      double s = 0;
      for (double v : all(o)) s += v;
      return s / double(all(o).size());
    });
    expect_all(run("nn.adaptive_max_pool", {x}, attrs), {1, 2, parts[0], parts[1]}, [&](const Index& o) {
      const L v = all(o);
      return *std::max_element(v.begin(), v.end());
    });
  }
}

// ---------------------------------------------------------------- normalisation
TEST(BatchNorm, PerChannel) {
  const NDArray x = random({2, 3, 4}), g = random({3}, f32, 0.5, 2, 2), b = random({3}, f32, -1, 1, 3),
                m = random({3}, f32, -1, 1, 4), v = random({3}, f32, 0.1, 2, 5);
  auto want = [&](const Index& i, int64_t c, bool scale, bool center) {
    const double y = (at(x, i) - at(m, {c})) / std::sqrt(at(v, {c}) + 1e-3);
    return y * (scale ? at(g, {c}) : 1) + (center ? at(b, {c}) : 0);
  };
  expect_all(run("nn.batch_norm", {x, g, b, m, v}, make_attrs<BatchNormAttrs>(1, 1e-3, true, true)),
             {2, 3, 4}, [&](const Index& i) { return want(i, i[1], true, true); });
  expect_all(run("nn.batch_norm", {x, g, b, m, v}, make_attrs<BatchNormAttrs>(-2, 1e-3, false, false)),
             {2, 3, 4}, [&](const Index& i) { return want(i, i[1], false, false); });
  expect_refused("nn.batch_norm", {x, random({4}), b, m, v}, make_attrs<BatchNormAttrs>(1, 1e-3, true, true),
                 {"gamma", "(4,)", "(2, 3, 4)", "(3,)"});
}

struct Moments {
  double mean, variance, square;
};
Moments moments(const L& v) {
  double s = 0, q = 0, d = 0;
  for (double e : v) s += e, q += e * e;
  for (double e : v) d += (e - s / double(v.size())) * (e - s / double(v.size()));
  return {s / double(v.size()), d / double(v.size()), q / double(v.size())};
}
L where(const NDArray& x, const std::function<bool(const Index&)>& take) {
  L out;
  for_each_index(x.shape(), [&](const Index& i) {
    if (take(i)) out.push_back(at(x, i));
  });
  return out;
}

TEST(LayerNorm, LastAxesWithAndWithoutParameters) {
  const NDArray x = random({2, 3, 4}), g = random({4}, f32, 0.5, 2, 2), b = random({4}, f32, -1, 1, 3);
  auto row = [&](const Index& i) {
    return moments(where(x, [&](const Index& j) { return j[0] == i[0] && j[1] == i[1]; }));
  };
  expect_all(run("nn.layer_norm", {x, g, b}), {2, 3, 4}, [&](const Index& i) {
    const Moments m = row(i);
    return (at(x, i) - m.mean) / std::sqrt(m.variance + 1e-5) * at(g, {i[2]}) + at(b, {i[2]});
  });
  expect_all(run("nn.rms_norm", {x, g}), {2, 3, 4},
             [&](const Index& i) { return at(x, i) / std::sqrt(row(i).square + 1e-5) * at(g, {i[2]}); });
  const NDArray g2 = random({3, 4}, f32, 0.5, 2, 6);
  expect_all(run("nn.layer_norm", {x, g2}, make_attrs<LayerNormAttrs>(ints({-2, -1}), 0.1, true, true)),
             {2, 3, 4}, [&](const Index& i) {
               const Moments m = moments(where(x, [&](const Index& j) { return j[0] == i[0]; }));
               return (at(x, i) - m.mean) / std::sqrt(m.variance + 0.1) * at(g2, {i[1], i[2]});
             });
  const NDArray h = random({2, 8}, f16);
  NDArray y = run("nn.layer_norm", {h});
  EXPECT_EQ(y.dtype(), f16);
  expect_all(
      y, {2, 8},
      [&](const Index& i) {
        const Moments m = moments(where(h, [&](const Index& j) { return j[0] == i[0]; }));
        return (at(h, i) - m.mean) / std::sqrt(m.variance + 1e-5);
      },
      1e-3);
  expect_refused("nn.layer_norm", {x, random({3})}, {}, {"gamma", "(3,)", "(4,)"});
}

TEST(GroupNorm, GroupsAndInstances) {
  const NDArray x = random({2, 6, 3, 2}), g = random({6}, f32, 0.5, 2, 2), b = random({6}, f32, -1, 1, 3);
  expect_all(run("nn.group_norm", {x, g, b}, make_attrs<GroupNormAttrs>(3, 1, 1e-5, true, true)),
             {2, 6, 3, 2}, [&](const Index& i) {
               const Moments m =
                   moments(where(x, [&](const Index& j) { return j[0] == i[0] && j[1] / 2 == i[1] / 2; }));
               return (at(x, i) - m.mean) / std::sqrt(m.variance + 1e-5) * at(g, {i[1]}) + at(b, {i[1]});
             });
  expect_all(run("nn.instance_norm", {x, g, b}), {2, 6, 3, 2}, [&](const Index& i) {
    const Moments m = moments(where(x, [&](const Index& j) { return j[0] == i[0] && j[1] == i[1]; }));
    return (at(x, i) - m.mean) / std::sqrt(m.variance + 1e-5) * at(g, {i[1]}) + at(b, {i[1]});
  });
  // Channels last.
  const NDArray last = random({2, 3, 2, 6});
  expect_all(run("nn.instance_norm", {last, g, b}, make_attrs<BatchNormAttrs>(int64_t(3))), {2, 3, 2, 6},
             [&](const Index& i) {
               const Moments m =
                   moments(where(last, [&](const Index& j) { return j[0] == i[0] && j[3] == i[3]; }));
               return (at(last, i) - m.mean) / std::sqrt(m.variance + 1e-5) * at(g, {i[3]}) + at(b, {i[3]});
             });
  expect_refused("nn.group_norm", {x, g, b}, make_attrs<GroupNormAttrs>(4, 1, 1e-5, true, true),
                 {"6 channels", "4 groups"});
}

TEST(Lrn, NeighbouringChannels) {
  const NDArray x = random({1, 6, 2, 2});
  for (auto [size, beta] : {std::pair<int64_t, double>{3, 0.75}, {4, 0.5}, {5, 1}, {5, 0.3}, {9, 0.75}}) {
    auto attrs = make_attrs<LrnAttrs>(size, 1, 0.5, beta, 2.0);
    expect_all(run("nn.lrn", {x}, attrs), {1, 6, 2, 2}, [&](const Index& i) {
      double s = 0;
      for (int64_t c = i[1] - (size - 1) / 2; c <= i[1] + size / 2; ++c)
        s += std::pow(at_or(x, {i[0], c, i[2], i[3]}, 0), 2);
      return at(x, i) / std::pow(2.0 + 0.5 / double(size) * s, beta);
    });
  }
}

TEST(Softmax, AnyAxisWithoutOverflow) {
  const NDArray x = random({2, 3, 4}, f32, -5, 5);
  for (int64_t axis : {-1, 1, 0}) {
    const auto d = size_t(axis < 0 ? 2 : axis);
    auto total = [&](const Index& i) {
      double s = 0;
      for (int64_t k = 0; k < x.shape()[d]; ++k) {
        Index j = i;
        j[d] = k;
        s += std::exp(at(x, j));
      }
      return s;
    };
    expect_all(run("nn.softmax", {x}, make_attrs<AxisAttrs>(axis)), {2, 3, 4},
               [&](const Index& i) { return std::exp(at(x, i)) / total(i); });
    expect_all(run("nn.log_softmax", {x}, make_attrs<AxisAttrs>(axis)), {2, 3, 4},
               [&](const Index& i) { return at(x, i) - std::log(total(i)); });
  }
  EXPECT_EQ(list(run("nn.softmax", {values({3}, {1000, 1000, -inf})})), (L{0.5, 0.5, 0}));
  // What a mask of -100 takes off is 0, not a subnormal number; what is a normal one stays, and so does NaN.
  const L masked = list(run("nn.softmax", {values({4}, {0, -87, -88, -100})}));
  EXPECT_EQ(masked[2], 0);
  EXPECT_EQ(masked[3], 0);
  EXPECT_NEAR(masked[1], std::exp(-87.0), 1e-6 * std::exp(-87.0));
  EXPECT_TRUE(std::isnan(list(run("nn.softmax", {values({2}, {std::nan(""), 1})}))[1]));
  EXPECT_EQ(run("nn.softmax", {random({0, 3})}).shape(), (Dims{0, 3}));
  EXPECT_EQ(run("nn.softmax", {random({3, 0})}).shape(), (Dims{3, 0}));
  expect_refused("nn.softmax", {x}, make_attrs<AxisAttrs>(3), {"axis 3"});
}

TEST(Small, DropoutAndBias) {
  const NDArray x = random({2, 3, 2}), b = random({3}, f32, 5, 6, 2);
  EXPECT_EQ(list(run("nn.dropout", {x})), list(x));
  expect_all(run("nn.bias_add", {x, b}, make_attrs<AxisAttrs>(1)), {2, 3, 2},
             [&](const Index& i) { return at(x, i) + at(b, {i[1]}); });
  expect_refused("nn.bias_add", {x, b}, make_attrs<AxisAttrs>(-1), {"bias", "(3,)", "(2,)"});
}

// ---------------------------------------------------------------- attention
TEST(Attention, MasksCausalAndSharedHeads) {
  const NDArray q = random({2, 4, 3, 5}, f32, -1, 1, 1), k = random({2, 2, 6, 5}, f32, -1, 1, 2),
                v = random({2, 2, 6, 3}, f32, -1, 1, 3);
  const NDArray mask = values({3, 6}, {1, 0, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0}, boolean),
                bias = random({4, 1, 6}, f32, -1, 1, 4);
  auto want = [&](const Index& o, double scale, bool causal,
                  const std::function<double(const Index&)>& more) {
    L e;
    double total = 0, sum = 0;
    for (int64_t j = 0; j < 6; ++j) {
      double s = 0;
      for (int64_t d = 0; d < 5; ++d) s += at(q, {o[0], o[1], o[2], d}) * at(k, {o[0], o[1] / 2, j, d});
      s = s * scale + more({o[1], o[2], j});
      if (causal && j > o[2]) s = -inf;
      e.push_back(std::exp(s));
      total += e.back();
    }
    for (int64_t j = 0; j < 6; ++j) sum += e[size_t(j)] / total * at(v, {o[0], o[1] / 2, j, o[3]});
    return sum;
  };
  const double usual = 1 / std::sqrt(5.0);
  auto nothing = [](const Index&) { return 0.0; };
  expect_all(run("nn.attention", {q, k, v}), {2, 4, 3, 3},
             [&](const Index& o) { return want(o, usual, false, nothing); });
  expect_all(run("nn.attention", {q, k, v}, make_attrs<AttentionAttrs>(0.5, true)), {2, 4, 3, 3},
             [&](const Index& o) { return want(o, 0.5, true, nothing); });
  expect_all(run("nn.attention", {q, k, v, mask}), {2, 4, 3, 3}, [&](const Index& o) {
    return want(o, usual, false, [&](const Index& s) { return at(mask, {s[1], s[2]}) != 0 ? 0 : -inf; });
  });
  expect_all(run("nn.attention", {q, k, v, bias}), {2, 4, 3, 3}, [&](const Index& o) {
    return want(o, usual, false, [&](const Index& s) { return at(bias, {s[0], 0, s[2]}); });
  });
  expect_refused("nn.attention", {q, k, random({2, 2, 5, 3})}, {}, {"k and v", "(2, 2, 5, 3)"});
  expect_refused("nn.attention", {q, random({2, 3, 6, 5}), random({2, 3, 6, 3})}, {}, {"heads"});
}

}  // namespace
}  // namespace tenon::op_test
