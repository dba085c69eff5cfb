// SPDX-License-Identifier: Apache-2.0
// Loss functions against definitions in double.
#include "op/attrs_loss.h"
#include "op_test.h"

namespace tenon::op_test {
namespace {

ObjectRef loss(const std::string& reduction, double parameter = 1, bool log = false) {
  return make_attrs<LossAttrs>(reduction, parameter, log);
}
using Rule = double (*)(double x, double y, double p, bool log);
struct LossCase {
  const char* name;
  Rule rule;
  double parameter = 1;
  bool log = false, signs = false;
};
double bce(double x, double y) { return -(y * std::log(x) + (1 - y) * std::log(1 - x)); }
const LossCase loss_cases[] = {
    {"nn.mse_loss", [](double x, double y, double, bool) { return (x - y) * (x - y); }},
    {"nn.l1_loss", [](double x, double y, double, bool) { return std::abs(x - y); }},
    {"nn.smooth_l1_loss",
     [](double x, double y, double p, bool) {
       const double d = std::abs(x - y);
       return d < p ? 0.5 * d * d / p : d - 0.5 * p;
     },
     0.3},
    {"nn.huber_loss",
     [](double x, double y, double p, bool) {
       const double d = std::abs(x - y);
       return d < p ? 0.5 * d * d : p * (d - 0.5 * p);
     },
     0.4},
    {"nn.kl_div", [](double x, double y, double, bool) { return y * (std::log(y) - x); }},
    {"nn.kl_div", [](double x, double y, double, bool) { return std::exp(y) * (y - x); }, 1, true},
    {"nn.binary_cross_entropy", [](double x, double y, double, bool) { return bce(x, y); }},
    {"nn.binary_cross_entropy_with_logits",
     [](double x, double y, double, bool) { return bce(1 / (1 + std::exp(-x)), y); }},
    {"nn.poisson_nll_loss", [](double x, double y, double, bool) { return x - y * std::log(x + 1e-8); }},
    {"nn.poisson_nll_loss", [](double x, double y, double, bool) { return std::exp(x) - y * x; }, 1, true},
    {"nn.hinge_embedding_loss",
     [](double x, double y, double p, bool) { return y == 1 ? x : std::max(0.0, p - x); }, 0.6, false, true},
    {"nn.soft_margin_loss", [](double x, double y, double, bool) { return std::log1p(std::exp(-x * y)); }, 1,
     false, true},
    {"nn.log_cosh_loss", [](double x, double y, double, bool) { return std::log(std::cosh(x - y)); }},
};

TEST(Loss, OfPairs) {
  for (const LossCase& c : loss_cases)
    for (DataType t : {f32, f64, f16})
      for (const char* reduction : {"none", "mean", "sum"}) {
        SCOPED_TRACE(c.name);
        const NDArray x = random({3, 4}, t, 0.05, 0.95), y = random({3, 4}, t, 0.05, 0.95, 2);
        if (c.signs)
          for (int64_t i = 0; i < 12; ++i) y.set_element(i, pseudo(i, 9) > 0.5 ? 1 : -1);
        auto one = [&](const Index& i) { return c.rule(at(x, i), at(y, i), c.parameter, c.log); };
        double sum = 0;
        for_each_index({3, 4}, [&](const Index& i) { sum += one(i); });
        const double tolerance = t == f16 ? 1e-2 : 1e-4;
        const NDArray got = run(c.name, {x, y}, loss(reduction, c.parameter, c.log));
        EXPECT_EQ(got.dtype(), t);
        if (reduction == std::string("none"))
          expect_all(got, {3, 4}, one, tolerance);
        else
          expect_all(
              got, {}, [&](const Index&) { return reduction == std::string("sum") ? sum : sum / 12; },
              tolerance);
      }
  EXPECT_NEAR(run("nn.binary_cross_entropy", {values({1}, {0}), values({1}, {1})}, loss("sum")).element(0),
              100, 1e-3);
  EXPECT_NEAR(run("nn.log_cosh_loss", {values({1}, {200}), values({1}, {0})}, loss("sum")).element(0),
              200 - std::log(2.0), 1e-3);
  expect_refused("nn.mse_loss", {random({2}), random({2})}, loss("median"), {"'median'"});
  expect_refused("nn.mse_loss", {random({2}), random({3})}, {}, {"(2,)", "(3,)"});
  expect_refused("nn.mse_loss", {random({2}, i32), random({2}, i32)}, {}, {"floating"});
}

double log_softmax(const NDArray& x, Index i, size_t axis) {
  const double value = at(x, i);
  double sum = 0;
  for (int64_t k = 0; k < x.shape()[axis]; ++k) {
    i[axis] = k;
    sum += std::exp(at(x, i));
  }
  return value - std::log(sum);
}
TEST(Loss, OfDistributions) {
  const NDArray x = random({3, 5}, f32, 0.1, 1), y = random({3, 5}, f32, 0, 1, 2);
  double plain = 0, logits = 0;
  for_each_index({3, 5}, [&](const Index& i) {
    plain -= at(y, i) * std::log(at(x, i));
    logits -= at(y, i) * log_softmax(x, i, 1);
  });
  EXPECT_NEAR(run("nn.cross_entropy", {x, y}).element(0), plain / 3, 1e-4);
  EXPECT_NEAR(run("nn.cross_entropy_with_logits", {x, y}).element(0), logits / 3, 1e-4);
}
TEST(Loss, OfClasses) {
  const NDArray x = random({2, 4, 3}), target = values({2, 3}, {0, 3, 1, 2, 2, 1}, i64),
                w = random({4}, f32, 0.5, 2);
  for (const char* name : {"nn.nll_loss", "nn.softmax_cross_entropy"})
    for (const bool weighted : {false, true})
      for (int64_t ignored : {-100, 2})
        for (const char* reduction : {"none", "sum", "mean"})
          for (double smoothing : {0.0, 0.2}) {
            const bool logits = name == std::string("nn.softmax_cross_entropy");
            if (smoothing > 0 && !logits) continue;
            auto weight = [&](int64_t c) { return weighted ? at(w, {c}) : 1.0; };
            auto one = [&](const Index& i) {
              const auto c = int64_t(at(target, i));
              if (c == ignored) return 0.0;
              auto minus = [&](int64_t k) {
                const Index from{i[0], k, i[1]};
                return -weight(k) * (logits ? log_softmax(x, from, 1) : at(x, from));
              };
              double even = 0;
              for (int64_t k = 0; k < 4; ++k) even += minus(k) / 4;
              return (1 - smoothing) * minus(c) + smoothing * even;
            };
            double sum = 0, weights = 0;
            for_each_index({2, 3}, [&](const Index& i) {
              sum += one(i);
              const auto c = int64_t(at(target, i));
              weights += c == ignored ? 0 : weight(c);
            });
            std::vector<NDArray> in{x, target};
            if (weighted) in.push_back(w);
            const NDArray got =
                run(name, in, make_attrs<NllAttrs>(std::string(reduction), ignored, smoothing));
            if (reduction == std::string("none"))
              expect_all(got, {2, 3}, one, 1e-4);
            else
              EXPECT_NEAR(got.element(0), reduction == std::string("sum") ? sum : sum / weights, 1e-4);
          }
  expect_refused("nn.nll_loss", {x, random({2, 4}, i64, 0, 3)}, {}, {"(2, 4, 3)"});
}
TEST(Loss, OfVectors) {
  const NDArray a = random({3, 4}), b = random({3, 4}, f32, -2, 2, 2), c = random({3, 4}, f32, -2, 2, 3);
  auto length = [](const NDArray& x, const NDArray* y, int64_t row) {
    double sum = 0;
    for (int64_t k = 0; k < 4; ++k) {
      const double d = at(x, {row, k}) - (y ? at(*y, {row, k}) : 0);
      sum += d * d;
    }
    return std::sqrt(sum);
  };
  expect_all(run("nn.cosine_similarity", {a, b}), {3}, [&](const Index& i) {
    double sum = 0;
    for (int64_t k = 0; k < 4; ++k) sum += at(a, {i[0], k}) * at(b, {i[0], k});
    return sum / (length(a, nullptr, i[0]) * length(b, nullptr, i[0]));
  });
  expect_all(run("nn.triplet_margin_loss", {a, b, c}, loss("none", 0.5)), {3},
             [&](const Index& i) { return std::max(0.0, length(a, &b, i[0]) - length(a, &c, i[0]) + 0.5); });
  const NDArray sign = values({3, 4}, {1, -1, 1, 1, -1, -1, 1, 1, 1, -1, 1, -1});
  expect_all(run("nn.margin_ranking_loss", {a, b, sign}, loss("none", 0.25)), {3, 4},
             [&](const Index& i) { return std::max(0.0, 0.25 - at(sign, i) * (at(a, i) - at(b, i))); });
}

}  // namespace
}  // namespace tenon::op_test
