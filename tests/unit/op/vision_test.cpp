// SPDX-License-Identifier: Apache-2.0
// Boxes, regions and sampled images against definitions in double.
#include <algorithm>
#include <numeric>

#include "op/attrs_vision.h"
#include "op_test.h"

namespace tenon::op_test {
namespace {

struct Box {
  double y0, x0, y1, x1;
  double area() const { return (y1 - y0) * (x1 - x0); }
};
double overlap(const Box& a, const Box& b) {
  const double h = std::max(0.0, std::min(a.y1, b.y1) - std::max(a.y0, b.y0)),
               w = std::max(0.0, std::min(a.x1, b.x1) - std::max(a.x0, b.x0)), common = h * w;
  const double all = a.area() + b.area() - common;
  return all > 0 ? common / all : 0;
}
Box box_at(const NDArray& b, Index i, bool centred) {
  i.push_back(0);
  auto v = [&](int64_t k) {
    i.back() = k;
    return at(b, i);
  };
  if (centred) return {v(1) - v(3) / 2, v(0) - v(2) / 2, v(1) + v(3) / 2, v(0) + v(2) / 2};
  return {std::min(v(0), v(2)), std::min(v(1), v(3)), std::max(v(0), v(2)), std::max(v(1), v(3))};
}

TEST(Vision, NonMaxSuppressionKeepsTheBest) {
  for (const auto& [n, most] : {std::pair<int64_t, int64_t>{9, 1}, {9, 3}, {9, 100}, {60, 18}, {60, 100}})
    for (const bool centred : {false, true})
      for (double iou : {0.0, 0.3, 0.9}) {
        const NDArray boxes = random({2, n, 4}, f32, 0, 2, most),
                      scores = random({2, 3, n}, f32, 0, 1, most + 1);
        const NDArray limit = NDArray::scalar(double(most), i64), share = NDArray::scalar(iou, f32),
                      least = NDArray::scalar(0.2, f32);
        std::vector<Index> wanted;
        for (int64_t b = 0; b < 2; ++b)
          for (int64_t c = 0; c < 3; ++c) {
            std::vector<int64_t> order(size_t(n), 0), kept;
            std::iota(order.begin(), order.end(), 0);
            std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
              return at(scores, {b, c, i}) > at(scores, {b, c, j});
            });
            for (int64_t i : order) {
              if (!(at(scores, {b, c, i}) > 0.2) || int64_t(kept.size()) >= most) continue;
              const bool clear = std::none_of(kept.begin(), kept.end(), [&](int64_t k) {
                return overlap(box_at(boxes, {b, i}, centred), box_at(boxes, {b, k}, centred)) > iou;
              });
              if (!clear) continue;
              kept.push_back(i);
              wanted.push_back({b, c, i});
            }
          }
        const auto r = run_all("vision.non_max_suppression", {boxes, scores, limit, share, least},
                               make_attrs<NmsAttrs>(centred, int64_t(0)));
        ASSERT_EQ(r[1].element_int(0), int64_t(wanted.size()));
        ASSERT_EQ(r[0].shape(), (Dims{6 * n, 3}));
        for (size_t i = 0; i < wanted.size(); ++i)
          for (int64_t k = 0; k < 3; ++k) EXPECT_EQ(at(r[0], {int64_t(i), k}), double(wanted[i][size_t(k)]));
      }
  expect_refused("vision.non_max_suppression",
                 {random({1, 4, 4}), random({1, 2, 5}), NDArray::scalar(1, i64), NDArray::scalar(0, f32),
                  NDArray::scalar(0, f32)},
                 {}, {"(1, 4, 4)", "(1, 2, 5)"});
}
TEST(Vision, BoxIou) {
  const NDArray a = random({3, 4}, f32, 0, 1, 1), b = random({5, 4}, f32, 0, 1, 2);
  expect_all(run("vision.box_iou", {a, b}), {3, 5},
             [&](const Index& i) { return overlap(box_at(a, {i[0]}, false), box_at(b, {i[1]}, false)); });
  expect_refused("vision.box_iou", {random({3, 5}), b}, {}, {"4 numbers"});
}
TEST(Vision, ValidBoxesFirst) {
  const NDArray x = random({2, 6, 5}, f32, 0, 1);
  const auto r = run_all("vision.get_valid_counts", {x}, make_attrs<ScoreAttrs>(0.5, int64_t(1)));
  for (int64_t b = 0; b < 2; ++b) {
    int64_t n = 0;
    for (int64_t i = 0; i < 6; ++i) {
      if (!(at(x, {b, i, 1}) > 0.5)) continue;
      EXPECT_EQ(at(r[2], {b, n}), double(i));
      for (int64_t k = 0; k < 5; ++k) EXPECT_EQ(at(r[1], {b, n, k}), at(x, {b, i, k}));
      ++n;
    }
    EXPECT_EQ(at(r[0], {b}), double(n));
    for (; n < 6; ++n) EXPECT_EQ(at(r[1], {b, n, 3}), -1);
  }
}
TEST(Vision, PriorsAndReorg) {
  const NDArray x = random({1, 2, 3, 4});
  const auto prior = make_attrs<BoxAttrs>(Array<double>{0.5, 0.25}, Array<double>{1.0, 4.0}, false);
  expect_all(run("vision.multibox_prior", {x}, prior), {1, 36, 4}, [&](const Index& i) {
    const int64_t kind = i[1] % 3, place = i[1] / 3, row = place / 4, column = place % 4;
    const double size = kind == 1 ? 0.25 : 0.5, root = kind == 2 ? 2 : 1;
    const double w = size * root / 2 * 3 / 4, h = size / root / 2;
    const double cy = (double(row) + 0.5) / 3, cx = (double(column) + 0.5) / 4;
    const double all[] = {cx - w, cy - h, cx + w, cy + h};
    return all[i[2]];
  });
  const NDArray y = random({2, 3, 4, 6});
  expect_all(run("vision.yolo_reorg", {y}), {2, 12, 2, 3}, [&](const Index& i) {
    const int64_t block = i[1] / 3;
    return at(y, {i[0], i[1] % 3, i[2] * 2 + block / 2, i[3] * 2 + block % 2});
  });
}

double bilinear(const NDArray& x, int64_t b, int64_t c, double y, double z) {
  const auto h = x.shape()[2], w = x.shape()[3];
  if (y < -1 || y > double(h) || z < -1 || z > double(w)) return 0;
  y = std::clamp(y, 0.0, double(h - 1)), z = std::clamp(z, 0.0, double(w - 1));
  const auto y0 = int64_t(y), x0 = int64_t(z), y1 = std::min(y0 + 1, h - 1), x1 = std::min(x0 + 1, w - 1);
  const double fy = y - double(y0), fx = z - double(x0);
  return (at(x, {b, c, y0, x0}) * (1 - fx) + at(x, {b, c, y0, x1}) * fx) * (1 - fy) +
         (at(x, {b, c, y1, x0}) * (1 - fx) + at(x, {b, c, y1, x1}) * fx) * fy;
}
TEST(Vision, RoiAlignAverages) {
  const NDArray x = random({2, 2, 7, 6}), rois = values({3, 4}, {0, 0, 5, 6, 1.5, 2, 4.5, 5, -1, 3, 7.5, 9}),
                batch = values({3}, {0, 1, 1}, i64);
  for (const bool aligned : {false, true})
    for (int64_t samples : {0, 2})
      for (double scale : {1.0, 0.5}) {
        auto wanted = [&](const Index& i) {
          const double off = aligned ? 0.5 : 0;
          auto corner = [&](int64_t k) { return at(rois, {i[0], k}) * scale - off; };
          double w = corner(2) - corner(0), h = corner(3) - corner(1);
          if (!aligned) w = std::max(w, 1.0), h = std::max(h, 1.0);
          const double bh = h / 3, bw = w / 2;
          const auto gh = samples ? samples : int64_t(std::ceil(bh)),
                     gw = samples ? samples : int64_t(std::ceil(bw));
          double sum = 0;
          for (int64_t p = 0; p < gh; ++p)
            for (int64_t q = 0; q < gw; ++q)
              sum += bilinear(x, int64_t(at(batch, {i[0]})), i[1],
                              corner(1) + double(i[2]) * bh + (double(p) + 0.5) * bh / double(gh),
                              corner(0) + double(i[3]) * bw + (double(q) + 0.5) * bw / double(gw));
          return sum / double(std::max<int64_t>(gh * gw, 1));
        };
        expect_all(
            run("vision.roi_align", {x, rois, batch},
                make_attrs<RoiAttrs>(int64_t(3), int64_t(2), scale, samples, std::string("avg"), aligned)),
            {3, 2, 3, 2}, wanted, 1e-4);
      }
  expect_refused("vision.roi_align", {x, random({3, 5}), batch}, {}, {"4 numbers"});
}
TEST(Vision, RoiPoolTakesTheLargest) {
  const NDArray x = random({2, 2, 7, 6}), rois = values({2, 5}, {0, 0, 0, 5, 6, 1, 2, 1, 4, 5});
  auto wanted = [&](const Index& i) {
    auto r = [&](int64_t k) { return int64_t(std::round(at(rois, {i[0], k}))); };
    const int64_t h = r(4) - r(2) + 1, w = r(3) - r(1) + 1;
    double best = -inf;
    for (int64_t y = r(2) + i[2] * h / 2; y < r(2) + ((i[2] + 1) * h + 1) / 2; ++y)
      for (int64_t z = r(1) + i[3] * w / 2; z < r(1) + ((i[3] + 1) * w + 1) / 2; ++z)
        best = std::max(best, at_or(x, {r(0), i[1], y, z}, -inf));
    return best == -inf ? 0 : best;
  };
  expect_all(run("vision.roi_pool", {x, rois}, make_attrs<RoiAttrs>(int64_t(2), int64_t(2))), {2, 2, 2, 2},
             wanted);
}
TEST(Vision, CropAndResize) {
  const NDArray x = random({2, 2, 5, 6}), boxes = values({2, 4}, {0, 0, 1, 1, 0.2, 0.1, 0.9, 1.2}),
                at_image = values({2}, {1, 0}, i32);
  auto wanted = [&](const Index& i) {
    auto place = [&](int64_t axis, int64_t n, int64_t k, int64_t extent) {
      const double p = at(boxes, {i[0], axis}), q = at(boxes, {i[0], axis + 2}), last = double(extent - 1);
      return n > 1 ? p * last + double(k) * (q - p) * last / double(n - 1) : 0.5 * (p + q) * last;
    };
    const double y = place(0, 3, i[2], 5), z = place(1, 4, i[3], 6);
    if (y < 0 || y > 4 || z < 0 || z > 5) return 9.0;
    return bilinear(x, int64_t(at(at_image, {i[0]})), i[1], y, z);
  };
  expect_all(run("image.crop_and_resize", {x, boxes, at_image},
                 make_attrs<CropAttrs>(std::string("linear"), 9.0), {shape({3, 4})}),
             {2, 2, 3, 4}, wanted, 1e-4);
}

// ---------------------------------------------------------------- sampled images
double reflect(double p, double low, double high) {
  if (high <= low) return 0;
  while (p < low || p > high) p = p < low ? 2 * low - p : 2 * high - p;
  return p;
}
struct Grid {
  std::string method, padding;
  bool align;
  double place(double g, int64_t n) const {
    double p = align ? (g + 1) / 2 * double(n - 1) : ((g + 1) * double(n) - 1) / 2;
    if (method == "cubic") return p;
    if (padding == "border") p = std::clamp(p, 0.0, double(n - 1));
    if (padding == "reflection") p = std::clamp(mirrored(p, n), 0.0, double(n - 1));
    return p;
  }
  double mirrored(double p, int64_t n) const {
    return align ? reflect(p, 0, double(n - 1)) : reflect(p, -0.5, double(n) - 0.5);
  }
  /// Index of a whole place, or -1.
  int64_t element(double p, int64_t n) const {
    if (padding == "reflection") p = std::clamp(mirrored(p, n), 0.0, double(n - 1));
    if (padding == "border") p = std::clamp(p, 0.0, double(n - 1));
    return p < 0 || p >= double(n) ? -1 : int64_t(p);
  }
  std::vector<std::pair<int64_t, double>> taps(double p, int64_t n) const {
    if (method == "nearest") return {{element(std::nearbyint(p), n), 1}};
    const double low = std::floor(p), f = p - low, a = -0.75;
    if (method == "linear") return {{element(low, n), 1 - f}, {element(low + 1, n), f}};
    auto weight = [&](double d) {
      d = std::abs(d);
      return d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
    };
    std::vector<std::pair<int64_t, double>> out;
    for (int k = -1; k < 3; ++k) out.emplace_back(element(low + k, n), weight(f - k));
    return out;
  }
};
TEST(GridSample, EveryMethodAndPadding) {
  for (const char* method : {"nearest", "linear", "cubic"})
    for (const char* padding : {"zeros", "border", "reflection"})
      for (const bool align : {false, true}) {
        const Grid g{method, padding, align};
        const NDArray x = random({2, 2, 4, 5}), grid = random({2, 3, 2, 2}, f32, -1.9, 1.9);
        expect_all(
            run("image.grid_sample", {x, grid},
                make_attrs<GridSampleAttrs>(std::string(method), std::string(padding), align)),
            {2, 2, 3, 2},
            [&](const Index& i) {
              double sum = 0;
              for (auto [y, wy] : g.taps(g.place(at(grid, {i[0], i[2], i[3], 1}), 4), 4))
                for (auto [z, wz] : g.taps(g.place(at(grid, {i[0], i[2], i[3], 0}), 5), 5))
                  sum += wy * wz * at_or(x, {i[0], i[1], y, z}, 0);
              return sum;
            },
            1e-4);
      }
  expect_refused("image.grid_sample", {random({1, 1, 2, 2}), random({1, 2, 2, 3})}, {}, {"(1, 2, 2, 3)"});
}
TEST(GridSample, VolumesAndAffineGrids) {
  const Grid g{"linear", "zeros", true};
  const NDArray x = random({1, 2, 3, 4, 2}), theta = random({1, 3, 4}, f32, -0.7, 0.7);
  const NDArray grid = run("image.affine_grid", {theta}, make_attrs<AlignAttrs>(true), {shape({2, 3, 4})});
  expect_all(grid, {1, 2, 3, 4, 3}, [&](const Index& i) {
    const double z = 2 * double(i[1]) - 1, y = double(i[2]) - 1, w = 2 * double(i[3]) / 3 - 1;
    return at(theta, {0, i[4], 0}) * w + at(theta, {0, i[4], 1}) * y + at(theta, {0, i[4], 2}) * z +
           at(theta, {0, i[4], 3});
  });
  expect_all(
      run("image.grid_sample", {x, grid},
          make_attrs<GridSampleAttrs>(std::string("linear"), std::string("zeros"), true)),
      {1, 2, 2, 3, 4},
      [&](const Index& i) {
        double sum = 0;
        auto taps = [&](int64_t axis) {
          return g.taps(g.place(at(grid, {0, i[2], i[3], i[4], 2 - axis}), x.shape()[size_t(axis) + 2]),
                        x.shape()[size_t(axis) + 2]);
        };
        for (auto [a, wa] : taps(0))
          for (auto [b, wb] : taps(1))
            for (auto [c, wc] : taps(2)) sum += wa * wb * wc * at_or(x, {0, i[1], a, b, c}, 0);
        return sum;
      },
      1e-4);
  const NDArray flat = run("image.affine_grid", {random({2, 2, 3})}, {}, {shape({1, 2})});
  EXPECT_EQ(flat.shape(), (Dims{2, 1, 2, 2}));
}

// ---------------------------------------------------------------- windows
TEST(Windows, Dilation2d) {
  const NDArray x = random({2, 3, 6, 5}), w = random({3, 2, 3}, f32, -1, 1, 2);
  for (int64_t stride : {1, 2})
    for (int64_t dilation : {1, 2}) {
      auto a = make_attrs<WindowAttrs>(ints({stride}), ints({1}), ints({dilation}));
      const int64_t oh = (6 + 2 - dilation - 1) / stride + 1, ow = (5 + 2 - 2 * dilation - 1) / stride + 1;
      expect_all(run("image.dilation2d", {x, w}, a), {2, 3, oh, ow}, [&](const Index& i) {
        double best = -inf;
        for (int64_t p = 0; p < 2; ++p)
          for (int64_t q = 0; q < 3; ++q)
            best = std::max(best, at(w, {i[1], p, q}) + at_or(x,
                                                              {i[0], i[1], i[2] * stride + p * dilation - 1,
                                                               i[3] * stride + q * dilation - 1},
                                                              -inf));
        return best;
      });
    }
  expect_refused("image.dilation2d", {x, random({2, 2, 2})}, {}, {"(2, 2, 2)"});
}
TEST(Windows, DeformableConvolution) {
  const NDArray x = random({1, 4, 5, 5}), w = random({6, 2, 3, 2}, f32, -1, 1, 2),
                offset = random({1, 24, 5, 6}, f32, -1.2, 1.2, 3), mask = random({1, 12, 5, 6}, f32, 0, 1, 4);
  auto a = make_attrs<DeformAttrs>([](DeformAttrs& d) {
    d.padding = ints({1});
    d.groups = 2;
    d.deformable_groups = 2;
  });
  auto zeros_outside = [&](int64_t c, double y, double z) {
    const double y0 = std::floor(y), x0 = std::floor(z);
    double sum = 0;
    for (int p = 0; p < 2; ++p)
      for (int q = 0; q < 2; ++q)
        sum += (p ? y - y0 : 1 - (y - y0)) * (q ? z - x0 : 1 - (z - x0)) *
               at_or(x, {0, c, int64_t(y0) + p, int64_t(x0) + q}, 0);
    return sum;
  };
  for (const bool masked : {false, true}) {
    std::vector<NDArray> in{x, offset, w};
    if (masked) in.push_back(mask);
    expect_all(
        run("nn.deformable_conv2d", in, a), {1, 6, 5, 6},
        [&](const Index& i) {
          double sum = 0;
          for (int64_t c = 0; c < 2; ++c)
            for (int64_t p = 0; p < 3; ++p)
              for (int64_t q = 0; q < 2; ++q) {
                const int64_t channel = i[1] / 3 * 2 + c, tap = (channel / 2 * 3 + p) * 2 + q;
                const double y = double(i[2] + p - 1) + at(offset, {0, tap * 2, i[2], i[3]}),
                             z = double(i[3] + q - 1) + at(offset, {0, tap * 2 + 1, i[2], i[3]});
                sum += at(w, {i[1], c, p, q}) * zeros_outside(channel, y, z) *
                       (masked ? at(mask, {0, tap, i[2], i[3]}) : 1);
              }
          return sum;
        },
        1e-4);
  }
  expect_refused("nn.deformable_conv2d", {x, random({1, 10, 5, 6}), w}, a, {"(1, 10, 5, 6)"});
}
TEST(Windows, Correlation) {
  const NDArray x = random({1, 3, 6, 7}), y = random({1, 3, 6, 7}, f32, -2, 2, 2);
  for (const bool multiply : {true, false}) {
    auto a =
        make_attrs<CorrelationAttrs>(int64_t(3), int64_t(2), int64_t(2), int64_t(1), int64_t(3), multiply);
    expect_all(run("nn.correlation", {x, y}, a), {1, 25, 3, 4}, [&](const Index& i) {
      const int64_t dy = i[1] / 5 - 2, dx = i[1] % 5 - 2;
      double sum = 0;
      for (int64_t c = 0; c < 3; ++c)
        for (int64_t p = 0; p < 3; ++p)
          for (int64_t q = 0; q < 3; ++q) {
            const int64_t r = i[2] * 2 + 2 + p - 3, s = i[3] * 2 + 2 + q - 3;
            const double u = at_or(x, {0, c, r, s}, 0), v = at_or(y, {0, c, r + dy, s + dx}, 0);
            sum += multiply ? u * v : std::abs(u - v);
          }
      return sum / 27;
    });
  }
}
TEST(Windows, Upsampling) {
  const NDArray x = random({1, 2, 3, 2});
  expect_all(run("nn.upsampling", {x},
                 make_attrs<UpsamplingAttrs>(ints({2, 3}), std::string("nearest_neighbor"), false)),
             {1, 2, 6, 6}, [&](const Index& i) { return at(x, {i[0], i[1], i[2] / 2, i[3] / 3}); });
  expect_refused("nn.upsampling", {x}, make_attrs<UpsamplingAttrs>(ints({0})), {"not positive"});
}

}  // namespace
}  // namespace tenon::op_test
