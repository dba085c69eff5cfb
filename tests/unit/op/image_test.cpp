// SPDX-License-Identifier: Apache-2.0
// Resizing against the coordinate formulas of each mode, in double.
#include "op_test.h"

namespace tenon::op_test {
namespace {

double place(const std::string& mode, int64_t o, int64_t in, int64_t out, double scale, double begin = 0,
             double end = 1) {
  const double x = double(o), half = (x + 0.5) / scale - 0.5;
  if (mode == "half_pixel") return half;
  if (mode == "half_pixel_symmetric") return double(in) / 2 * (1 - double(out) / (scale * double(in))) + half;
  if (mode == "pytorch_half_pixel") return out > 1 ? half : 0;
  if (mode == "align_corners") return out > 1 ? x * double(in - 1) / double(out - 1) : 0;
  if (mode == "asymmetric") return x / scale;
  if (out > 1) return begin * double(in - 1) + x * (end - begin) * double(in - 1) / double(out - 1);
  return 0.5 * (begin + end) * double(in - 1);
}

/// Elements and weights of one axis.
std::vector<std::pair<int64_t, double>> taps(const ResizeAttrs& a, double x, int64_t n) {
  auto clamp = [&](double v) { return std::min(std::max<int64_t>(int64_t(v), 0), n - 1); };
  if (a.method == "nearest_neighbor") {
    const std::string& r = a.rounding_method;
    return {{clamp(r == "floor"               ? std::floor(x)
                   : r == "ceil"              ? std::ceil(x)
                   : r == "round_prefer_ceil" ? std::floor(x + 0.5)
                                              : std::ceil(x - 0.5)),
             1.0}};
  }
  const double low = std::floor(x), t = x - low;
  if (a.method == "linear") return {{clamp(low), 1 - t}, {clamp(low + 1), t}};
  const double c = a.cubic_alpha;
  auto kernel = [&](double d) {
    d = std::fabs(d);
    if (d <= 1) return (c + 2) * d * d * d - (c + 3) * d * d + 1;
    return c * d * d * d - 5 * c * d * d + 8 * c * d - 4 * c;
  };
  std::vector<std::pair<int64_t, double>> out;
  double total = 0;
  for (int k = -1; k <= 2; ++k) {
    double w = kernel(t - k);
    if (a.cubic_exclude && (low + k < 0 || low + k >= double(n))) w = 0;
    total += w;
    out.emplace_back(clamp(low + k), w);
  }
  if (a.cubic_exclude)
    for (auto& [i, w] : out) w /= total;
  return out;
}

void check(const Dims& shape, const Dims& size, const std::function<void(ResizeAttrs&)>& set) {
  ResizeAttrs a;
  set(a);
  const size_t n = size.size(), first = shape.size() - n;
  const NDArray x = random(shape, f32, -4, 4);
  Dims wanted = shape;
  for (size_t i = 0; i < n; ++i) wanted[first + i] = size[i];
  SCOPED_TRACE(a.method + " " + a.coordinate_transformation_mode + " " + a.rounding_method);
  const std::string op = "image.resize" + std::to_string(n) + "d";
  expect_all(
      run(op, {x}, make_attrs<ResizeAttrs>(set), {tenon::op::shape(size)}), wanted,
      [&](const Index& o) {
        std::vector<std::vector<std::pair<int64_t, double>>> t;
        bool inside = true;
        for (size_t i = 0; i < n; ++i) {
          const int64_t in = shape[first + i];
          const double scale = a.scales.empty() ? double(size[i]) / double(in) : a.scales[i];
          const double c = place(a.coordinate_transformation_mode, o[first + i], in, size[i], scale,
                                 a.roi.empty() ? 0 : a.roi[i], a.roi.empty() ? 1 : a.roi[i + n]);
          inside = inside && c >= 0 && c <= double(in - 1);
          t.push_back(taps(a, c, in));
        }
        if (a.coordinate_transformation_mode == "tf_crop_and_resize" && !inside) return a.extrapolation_value;
        Dims counts;
        for (const auto& axis : t) counts.push_back(int64_t(axis.size()));
        double sum = 0;
        for_each_index(counts, [&](const Index& pick) {
          Index i = o;
          double w = 1;
          for (size_t d = 0; d < n; ++d) {
            i[first + d] = t[d][size_t(pick[d])].first;
            w *= t[d][size_t(pick[d])].second;
          }
          sum += w * at(x, i);
        });
        return sum;
      },
      2e-5);
}

const char* const modes[] = {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                             "asymmetric"};

TEST(Resize, MethodsAndModes) {
  for (const char* mode : modes)
    for (const char* method : {"linear", "cubic"})
      for (const Dims& size : {Dims{6, 8}, Dims{5, 3}, Dims{1, 7}, Dims{6, 4}, Dims{3, 9}, Dims{3, 4}})
        check({1, 2, 3, 4}, size, [&](ResizeAttrs& a) {
          a.method = method;
          a.coordinate_transformation_mode = mode;
        });
}

TEST(Resize, NearestInAllRoundings) {
  for (const char* mode : modes)
    for (const char* round : {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"})
      for (const Dims& size : {Dims{6, 8}, Dims{4, 2}, Dims{1, 16}, Dims{2, 3}})
        check({1, 1, 2, 4}, size, [&](ResizeAttrs& a) {
          a.method = "nearest_neighbor";
          a.coordinate_transformation_mode = mode;
          a.rounding_method = round;
        });
}

TEST(Resize, GivenScalesRanksAndExclusion) {
  for (const char* mode : modes) {
    check({1, 1, 5, 4}, {3, 2}, [&](ResizeAttrs& a) {
      a.coordinate_transformation_mode = mode;
      a.scales = {0.7, 0.6};
    });
    check({1, 1, 5, 4}, {3, 2}, [&](ResizeAttrs& a) {
      a.method = "nearest_neighbor";
      a.coordinate_transformation_mode = mode;
      a.scales = {0.7, 0.6};
    });
  }
  check({2, 5}, {9}, [](ResizeAttrs& a) {
    a.method = "cubic";
    a.cubic_exclude = true;
    a.cubic_alpha = -0.5;
  });
  check({1, 1, 2, 3, 2}, {4, 3, 3}, [](ResizeAttrs& a) { a.method = "linear"; });
  check({1, 1, 4, 5}, {3, 6}, [](ResizeAttrs& a) {
    a.coordinate_transformation_mode = "tf_crop_and_resize";
    a.roi = {0.25, -0.5, 0.75, 1.2};
    a.extrapolation_value = 9;
  });
}

TEST(Resize, IntegersRoundAndMistakesAreRefused) {
  const NDArray x = values({1, 1, 1, 2}, {0, 255}, u8);
  EXPECT_EQ(list(run("image.resize2d", {x}, {}, {tenon::op::shape({1, 4})})),
            (std::vector<double>{0, 64, 191, 255}));
  EXPECT_EQ(list(run("image.resize2d", {x}, {}, {tenon::op::shape({1, 2})})), (std::vector<double>{0, 255}));
  Array<Expr> size{tenon::op::shape({2, 2})};
  expect_refused("image.resize2d", {x}, make_attrs<ResizeAttrs>([](ResizeAttrs& a) { a.method = "lanczos"; }),
                 {"lanczos"}, size);
  expect_refused("image.resize2d", {x}, make_attrs<ResizeAttrs>([](ResizeAttrs& a) { a.scales = {2.0}; }),
                 {"1 scales for 2 axes"}, size);
  expect_refused("image.resize2d", {x}, {}, {"1 sizes for 2 axes"}, {tenon::op::shape({2})});
}

TEST(Resize, SymbolicSizes) {
  PrimExpr h = tir::var("h");
  Expr e = op_call("image.resize2d", {input("x", Shape{1, 1, h, 3}), graph::shape_expr({h * 2, 6})});
  EXPECT_EQ(shape_text(e), "(1, 1, h * 2, 6)");
  const NDArray x = random({1, 1, 4, 3});
  const NDArray y = run_call(e, {x})[0];
  EXPECT_EQ(list(y), list(run("image.resize2d", {x}, {}, {tenon::op::shape({8, 6})})));
}

}  // namespace
}  // namespace tenon::op_test
