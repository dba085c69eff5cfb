// SPDX-License-Identifier: Apache-2.0
// Transforms, windows and linear algebra against definitions in double.
#include <complex>

#include "op/attrs_signal.h"
#include "op_test.h"

namespace tenon::op_test {
namespace {

using C = std::complex<double>;
C twiddle(double k, double n) { return std::polar(1.0, -2 * M_PI * k / n); }

ObjectRef dft(int64_t axis, bool inverse, bool onesided) {
  return make_attrs<DftAttrs>(axis, inverse, onesided);
}

TEST(Signal, DftInBothDirectionsOfAnyLength) {
  // Prime, short, and lengths that have two factors; cut and padded.
  for (int64_t have : {1, 5, 31, 64, 36})
    for (int64_t n : {have, have + 3, std::max<int64_t>(have - 2, 1)})
      for (int64_t parts : {1, 2})
        for (const bool inverse : {false, true}) {
          const NDArray x = random({2, have, parts});
          auto term = [&](int64_t b, int64_t k) {
            return k >= have ? C(0) : C(at(x, {b, k, 0}), parts == 2 ? at(x, {b, k, 1}) : 0);
          };
          auto wanted = [&](const Index& i) {
            C sum = 0;
            for (int64_t k = 0; k < n; ++k) {
              const C t = twiddle(double(k * i[1] % n), double(n));
              sum += term(i[0], k) * (inverse ? std::conj(t) : t);
            }
            if (inverse) sum /= double(n);
            return i[2] ? sum.imag() : sum.real();
          };
          expect_all(run("signal.dft", {x}, dft(-2, inverse, false), {shape({n})}), {2, n, 2}, wanted, 2e-4);
          if (parts == 1 && !inverse)
            expect_all(run("signal.dft", {x}, dft(1, false, true), {shape({n})}), {2, n / 2 + 1, 2}, wanted,
                       2e-4);
        }
}
TEST(Signal, QuartersOfATurnAreExact) {
  const NDArray x = values({1, 4, 1}, {1, 0.75, 1.75, 0.5});
  EXPECT_EQ(list(run("signal.dft", {x}, dft(-2, false, false), {shape({4})})),
            (std::vector<double>{4, 0, -0.75, -0.25, 1.5, 0, -0.75, 0.25}));
  EXPECT_EQ(list(run("signal.dft", {x}, dft(-2, true, false), {shape({4})})),
            (std::vector<double>{1, 0, -0.1875, 0.0625, 0.375, 0, -0.1875, -0.0625}));
}
TEST(Signal, OnesidedInverseIsReal) {
  for (int64_t n : {7, 8, 40}) {
    const NDArray x = random({3, n, 1});
    const NDArray half = run("signal.dft", {x}, dft(1, false, true), {shape({n})});
    expect_all(
        run("signal.dft", {half}, dft(1, true, true), {shape({n})}), {3, n, 1},
        [&](const Index& i) { return at(x, i); }, 1e-4);
  }
  expect_refused("signal.dft", {random({2, 4, 3})}, {}, {"real and imaginary"}, {shape({4})});
  expect_refused("signal.dft", {random({2, 4, 2})}, dft(1, false, true), {"complex"}, {shape({4})});
}
TEST(Signal, OtherAxesAndTypes) {
  const NDArray x = random({6, 3, 2}, f64);
  expect_all(
      run("signal.dft", {x}, dft(0, false, false), {shape({6})}), {6, 3, 2},
      [&](const Index& i) {
        C sum = 0;
        for (int64_t k = 0; k < 6; ++k)
          sum += C(at(x, {k, i[1], 0}), at(x, {k, i[1], 1})) * twiddle(double(k * i[0]), 6);
        return i[2] ? sum.imag() : sum.real();
      },
      1e-9);
}
TEST(Signal, StftAndFrames) {
  const NDArray x = random({2, 20, 1}), z = random({1, 20, 2}), w = random({8}, f32, 0, 1);
  for (const bool onesided : {true, false}) {
    const NDArray& s = onesided ? x : z;
    expect_all(
        run("signal.stft", {s, w}, make_attrs<StftAttrs>(int64_t(3), onesided)),
        {s.shape()[0], 5, onesided ? 5 : 8, 2},
        [&](const Index& i) {
          C sum = 0;
          for (int64_t k = 0; k < 8; ++k)
            sum += C(at(s, {i[0], i[1] * 3 + k, 0}), onesided ? 0 : at(s, {i[0], i[1] * 3 + k, 1})) *
                   at(w, {k}) * twiddle(double(k * i[2]), 8);
          return i[3] ? sum.imag() : sum.real();
        },
        1e-4);
  }
  const NDArray y = random({3, 10});
  expect_all(run("signal.frame", {y}, make_attrs<FrameAttrs>(int64_t(4), int64_t(3))), {3, 3, 4},
             [&](const Index& i) { return at(y, {i[0], i[1] * 3 + i[2]}); });
  expect_refused("signal.frame", {random({3})}, make_attrs<FrameAttrs>(int64_t(4), int64_t(1)),
                 {"frames of 4"});
}
TEST(Signal, Windows) {
  for (const bool periodic : {true, false})
    for (int64_t n : {1, 2, 9, 16}) {
      const double period = double(std::max<int64_t>(periodic ? n : n - 1, 1));
      auto angle = [&](const Index& i) { return 2 * M_PI * double(i[0]) / period; };
      auto window = [&](const char* name, const std::function<double(const Index&)>& f) {
        expect_all(run(name, {}, make_attrs<PeriodicAttrs>(periodic, f32), {shape({n})}), {n},
                   [&](const Index& i) { return n == 1 && !periodic ? 1 : f(i); });
      };
      window("signal.hann_window", [&](const Index& i) { return 0.5 - 0.5 * std::cos(angle(i)); });
      window("signal.hamming_window",
             [&](const Index& i) { return 25.0 / 46 - 21.0 / 46 * std::cos(angle(i)); });
      window("signal.blackman_window",
             [&](const Index& i) { return 0.42 - 0.5 * std::cos(angle(i)) + 0.08 * std::cos(2 * angle(i)); });
      window("signal.bartlett_window",
             [&](const Index& i) { return 1 - std::abs(2 * double(i[0]) / period - 1); });
    }
}
TEST(Signal, MelWeights) {
  const int64_t bins = 8, length = 32, rate = 8192;
  std::vector<int64_t> edge;
  const double low = 2595 * std::log10(1 + 0.0 / 700), high = 2595 * std::log10(1 + 4096.0 / 700);
  for (int64_t k = 0; k < bins + 2; ++k) {
    const double hertz = 700 * (std::pow(10, (low + double(k) * (high - low) / double(bins + 2)) / 2595) - 1);
    edge.push_back(int64_t(std::floor(double(length + 1) * hertz / double(rate))));
  }
  NDArray want = NDArray::zeros({length / 2 + 1, bins}, f64);
  for (int64_t k = 0; k < bins; ++k) {
    const int64_t a = edge[size_t(k)], b = edge[size_t(k) + 1], c = edge[size_t(k) + 2];
    if (a == b) want.set_element(b * bins + k, 1);
    for (int64_t i = a; a < b && i <= b; ++i) want.set_element(i * bins + k, double(i - a) / double(b - a));
    for (int64_t i = b; i < c; ++i) want.set_element(i * bins + k, double(c - i) / double(c - b));
  }
  expect_all(run("signal.mel_weight_matrix", {}, make_attrs<MelAttrs>(bins, length, rate, 0.0, 4096.0, f32)),
             {length / 2 + 1, bins}, [&](const Index& i) { return at(want, i); });
}

// ---------------------------------------------------------------- linear algebra
/// Well away from singular.
NDArray matrices(Dims dims, DataType t, int64_t seed = 1) {
  NDArray a = random(dims, t, -1, 1, seed);
  const int64_t n = dims.back();
  for (int64_t i = 0; i < a.size(); ++i)
    if (i / n % n == (i + 1) % n) a.set_element(i, a.element(i) + 3);  // off the diagonal: pivots must move
  return a;
}
double det(std::vector<std::vector<double>> m) {
  const size_t n = m.size();
  if (n == 0) return 1;
  if (n == 1) return m[0][0];
  double sum = 0;
  for (size_t c = 0; c < n; ++c) {
    std::vector<std::vector<double>> rest;
    for (size_t i = 1; i < n; ++i) {
      rest.emplace_back();
      for (size_t j = 0; j < n; ++j)
        if (j != c) rest.back().push_back(m[i][j]);
    }
    sum += (c % 2 ? -1 : 1) * m[0][c] * det(rest);
  }
  return sum;
}
TEST(Linalg, Determinant) {
  for (int64_t n : {0, 1, 2, 4})
    for (DataType t : {f32, f64}) {
      const NDArray a = n ? matrices({3, 2, n, n}, t) : NDArray::empty({3, 2, 0, 0}, t);
      expect_all(
          run("linalg.det", {a}), {3, 2},
          [&](const Index& i) {
            std::vector<std::vector<double>> m(static_cast<size_t>(n),
                                               std::vector<double>(static_cast<size_t>(n)));
            for (int64_t r = 0; r < n; ++r)
              for (int64_t c = 0; c < n; ++c) m[size_t(r)][size_t(c)] = at(a, {i[0], i[1], r, c});
            return det(m);
          },
          1e-4);
    }
  EXPECT_EQ(run("linalg.det", {values({2, 2}, {1, 2, 2, 4})}).element(0), 0);
  expect_refused("linalg.det", {random({2, 3})}, {}, {"not square"});
}
double row_times(const NDArray& a, const NDArray& y, int64_t b, int64_t i, int64_t j) {
  double sum = 0;
  for (int64_t k = 0; k < a.shape()[2]; ++k) sum += at(a, {b, i, k}) * at(y, {b, k, j});
  return sum;
}
TEST(Linalg, SolutionsAndInverses) {
  const NDArray a = matrices({2, 5, 5}, f64), b = random({2, 5, 3}, f64);
  const NDArray y = run("linalg.solve", {a, b}), inverse = run("linalg.inverse", {a});
  for_each_index({2, 5, 3},
                 [&](const Index& i) { EXPECT_NEAR(row_times(a, y, i[0], i[1], i[2]), at(b, i), 1e-9); });
  for_each_index({2, 5, 5}, [&](const Index& i) {
    EXPECT_NEAR(row_times(a, inverse, i[0], i[1], i[2]), i[1] == i[2], 1e-9);
  });
  expect_refused("linalg.solve", {a, random({2, 4, 3}, f64)}, {}, {"(2, 4, 3)"});
}
TEST(Linalg, CholeskyAndTriangles) {
  NDArray a = NDArray::zeros({1, 4, 4}, f64);
  const NDArray r = random({1, 4, 4}, f64);
  for_each_index({4, 4}, [&](const Index& i) {
    double sum = i[0] == i[1] ? 1 : 0;
    for (int64_t k = 0; k < 4; ++k) sum += at(r, {0, i[0], k}) * at(r, {0, i[1], k});
    a.set_element(i[0] * 4 + i[1], sum);
  });
  const NDArray l = run("linalg.cholesky", {a});
  for_each_index({4, 4}, [&](const Index& i) {
    double sum = 0;
    for (int64_t k = 0; k < 4; ++k) sum += at(l, {0, i[0], k}) * at(l, {0, i[1], k});
    EXPECT_NEAR(sum, at(a, {0, i[0], i[1]}), 1e-9);
    EXPECT_TRUE(i[1] <= i[0] || at(l, {0, i[0], i[1]}) == 0);
  });
  const NDArray m = random({1, 4, 4}, f64, 1, 2), b = random({1, 4, 2}, f64);
  for (const bool lower : {true, false})
    for (const bool unit : {true, false}) {
      const NDArray y = run("linalg.triangular_solve", {m, b}, make_attrs<TriangularAttrs>(lower, unit));
      for_each_index({4, 2}, [&](const Index& i) {
        double sum = (unit ? 1 : at(m, {0, i[0], i[0]})) * at(y, {0, i[0], i[1]});
        for (int64_t k = 0; k < 4; ++k)
          if (lower ? k < i[0] : k > i[0]) sum += at(m, {0, i[0], k}) * at(y, {0, k, i[1]});
        EXPECT_NEAR(sum, at(b, {0, i[0], i[1]}), 1e-9);
      });
    }
}

}  // namespace
}  // namespace tenon::op_test
