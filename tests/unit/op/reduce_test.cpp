// SPDX-License-Identifier: Apache-2.0
// Reductions against loops in double.
#include "op_test.h"

#include <algorithm>

namespace tenon::op_test {
namespace {

using L = std::vector<double>;

/// Elements of x that are folded into the element `o` of the result.
L folded(const NDArray& x, const std::vector<int64_t>& axes, bool keepdims, const Index& o) {
  L out;
  for_each_index(x.shape(), [&](const Index& i) {
    Index kept;
    for (size_t d = 0; d < i.size(); ++d) {
      const bool gone = std::find(axes.begin(), axes.end(), int64_t(d)) != axes.end();
      if (!gone)
        kept.push_back(i[d]);
      else if (keepdims)
        kept.push_back(0);
    }
    if (kept == o) out.push_back(at(x, i));
  });
  return out;
}
double mean_of(const L& v) {
  double s = 0;
  for (double e : v) s += e;
  return s / double(v.size());
}

struct Case {
  const char* name;
  double (*f)(const L&);
};
const Case cases[] = {
    {"sum",
     [](const L& v) {
       double s = 0;
       for (double e : v) s += e;
       return s;
     }},
    {"prod",
     [](const L& v) {
       double s = 1;
       for (double e : v) s *= e;
       return s;
     }},
    {"mean", mean_of},
    {"max", [](const L& v) { return *std::max_element(v.begin(), v.end()); }},
    {"min", [](const L& v) { return *std::min_element(v.begin(), v.end()); }},
    {"sum_square",
     [](const L& v) {
       double s = 0;
       for (double e : v) s += e * e;
       return s;
     }},
    {"l1_norm",
     [](const L& v) {
       double s = 0;
       for (double e : v) s += std::fabs(e);
       return s;
     }},
    {"l2_norm",
     [](const L& v) {
       double s = 0;
       for (double e : v) s += e * e;
       return std::sqrt(s);
     }},
    {"logsumexp",
     [](const L& v) {
       double s = 0;
       for (double e : v) s += std::exp(e);
       return std::log(s);
     }},
    {"log_sum",  // NaN where the sum is negative
     [](const L& v) {
       double s = 0;
       for (double e : v) s += e;
       return std::log(s);
     }},
    {"abs_max",
     [](const L& v) {
       double most = 0;
       for (double e : v) most = std::max(most, std::fabs(e));
       return most;
     }},
    {"mean_square",
     [](const L& v) {
       double s = 0;
       for (double e : v) s += e * e;
       return s / double(v.size());
     }},
    {"std",
     [](const L& v) {
       const double m = mean_of(v);
       double s = 0;
       for (double e : v) s += (e - m) * (e - m);
       return std::sqrt(s / double(v.size()));
     }},
    {"variance",
     [](const L& v) {
       const double m = mean_of(v);
       double s = 0;
       for (double e : v) s += (e - m) * (e - m);
       return s / double(v.size());
     }},
};

TEST(Reduce, AnyAxes) {
  const NDArray x = random({2, 3, 4});
  const struct {
    Array<int64_t> axis;
    std::vector<int64_t> axes;
    Dims kept, dropped;
  } forms[] = {
      {ints({1}), {1}, {2, 1, 4}, {2, 4}},
      {ints({-1, 0}), {0, 2}, {1, 3, 1}, {3}},
      {ints({}), {0, 1, 2}, {1, 1, 1}, {}},
  };
  for (const Case& c : cases)
    for (const auto& w : forms)
      for (bool keep : {false, true}) {
        SCOPED_TRACE(c.name);
        expect_all(run(c.name, {x}, make_attrs<ReduceAttrs>(w.axis, keep)), keep ? w.kept : w.dropped,
                   [&](const Index& o) { return c.f(folded(x, w.axes, keep, o)); });
      }
  expect_refused("sum", {x}, make_attrs<ReduceAttrs>(ints({3}), false), {"axis 3", "3 dimensions"});
  expect_refused("sum", {x}, make_attrs<ReduceAttrs>(ints({0, -3}), false), {"twice"});
  expect_refused("sum", {values({1}, {1}, boolean)}, {}, {"bool"});
}

TEST(Reduce, ScalarsAndEmptyTensors) {
  EXPECT_EQ(run("sum", {values({}, {3})}).element(0), 3);
  EXPECT_EQ(run("max", {values({}, {3})}).element(0), 3);
  const NDArray none = random({2, 0, 3});
  auto over = [&](const char* op) { return run(op, {none}, make_attrs<ReduceAttrs>(ints({1}), false)); };
  expect_all(over("sum"), {2, 3}, [](const Index&) { return 0.0; });
  expect_all(over("prod"), {2, 3}, [](const Index&) { return 1.0; });
  expect_all(over("max"), {2, 3}, [](const Index&) { return -inf; });
  expect_all(over("min"), {2, 3}, [](const Index&) { return inf; });
  expect_all(over("mean"), {2, 3}, [](const Index&) { return nan; });
  expect_all(over("logsumexp"), {2, 3}, [](const Index&) { return -inf; });
  EXPECT_EQ(run("sum", {none}, make_attrs<ReduceAttrs>(ints({0}), false)).shape(), (Dims{0, 3}));
}

TEST(Reduce, NaNAndInfinity) {
  const NDArray x = values({2, 3}, {1, nan, 2, -inf, -inf, -inf});
  auto rows = [&](const char* op) { return run(op, {x}, make_attrs<ReduceAttrs>(ints({1}), false)); };
  for (const char* op : {"max", "min"})
    expect_all(rows(op), {2}, [](const Index& i) { return i[0] ? -inf : nan; });
  expect_all(rows("logsumexp"), {2}, [](const Index& i) { return i[0] ? -inf : nan; });
  EXPECT_EQ(list(run("logsumexp", {values({2}, {1000, 1000}, f64)})), (L{1000 + std::log(2.0)}));
}

TEST(Reduce, NarrowTypesAccumulateWide) {
  NDArray ones = NDArray::empty({4096}, f16);
  for (int64_t i = 0; i < 4096; ++i) ones.set_element(i, 1);
  EXPECT_EQ(run("sum", {ones}).element(0), 4096);  // in f16 the sum would stop at 2048
  NDArray b = NDArray::empty({1000}, bf16());
  for (int64_t i = 0; i < 1000; ++i) b.set_element(i, 1);
  EXPECT_EQ(run("mean", {b}).element(0), 1);
  EXPECT_EQ(run("mean", {values({3}, {100, 120, 125}, DataType::int_(8))}).element_int(0), 115);
  EXPECT_EQ(run("max", {values({3}, {3, 250, 7}, u8)}).element_int(0), 250);
}

TEST(Reduce, Booleans) {
  const NDArray x = values({2, 2}, {1, 0, 1, 1}, boolean);
  EXPECT_EQ(list(run("all", {x}, make_attrs<ReduceAttrs>(ints({1}), false))), (L{0, 1}));
  EXPECT_EQ(list(run("any", {x}, make_attrs<ReduceAttrs>(ints({0}), false))), (L{1, 1}));
}

TEST(Reduce, SymbolicSizes) {
  PrimExpr n = tir::var("n");
  Expr x = input("x", Shape{n, 3});
  EXPECT_EQ(shape_text(op_call("sum", {x}, make_attrs<ReduceAttrs>(ints({1}), false))), "(n,)");
  Expr m = op_call("mean", {x}, make_attrs<ReduceAttrs>(ints({0}), true));
  EXPECT_EQ(shape_text(m), "(1, 3)");
  const NDArray a = random({5, 3});
  expect_all(run_call(m, {a})[0], {1, 3}, [&](const Index& o) { return mean_of(folded(a, {0}, true, o)); });
}

TEST(ArgReduce, FirstLastFlat) {
  const NDArray x = values({2, 4}, {1, 3, 3, 0, -5, -5, -7, -7});
  auto arg = [&](const char* op, int64_t axis, bool keep, bool flat, bool last) {
    return run(op, {x}, make_attrs<ArgReduceAttrs>(axis, keep, flat, last));
  };
  EXPECT_EQ(list(arg("argmax", 1, false, false, false)), (L{1, 0}));
  EXPECT_EQ(list(arg("argmax", -1, false, false, true)), (L{2, 1}));
  EXPECT_EQ(list(arg("argmin", 1, false, false, false)), (L{3, 2}));
  EXPECT_EQ(list(arg("argmin", 1, false, false, true)), (L{3, 3}));
  EXPECT_EQ(arg("argmax", 0, true, false, false).shape(), (Dims{1, 4}));
  EXPECT_EQ(list(arg("argmax", 0, false, true, false)), (L{1}));
  EXPECT_EQ(list(arg("argmin", 0, false, true, true)), (L{7}));
  EXPECT_EQ(arg("argmax", 0, true, true, false).shape(), (Dims{1, 1}));
  EXPECT_EQ(arg("argmax", 0, true, true, false).dtype(), i64);
  EXPECT_EQ(
      list(run("argmax", {values({3}, {1, nan, 2})}, make_attrs<ArgReduceAttrs>(0, false, false, false))),
      (L{1}));
  expect_refused("argmax", {random({2, 0})}, make_attrs<ArgReduceAttrs>(1, false, false, false),
                 {"(2, 0)", "no elements"});
}

TEST(Cumsum, AllDirections) {
  const NDArray x = random({2, 5, 3});
  for (int64_t axis : {0, 1, -1})
    for (bool exclusive : {false, true})
      for (bool reverse : {false, true}) {
        const auto d = size_t(axis < 0 ? 2 : axis);
        expect_all(run("cumsum", {x}, make_attrs<CumsumAttrs>(axis, exclusive, reverse)), {2, 5, 3},
                   [&](const Index& i) {
                     double s = 0;
                     for (int64_t k = 0; k < x.shape()[d]; ++k) {
                       Index j = i;
                       j[d] = k;
                       const bool in =
                           reverse ? (exclusive ? k > i[d] : k >= i[d]) : (exclusive ? k < i[d] : k <= i[d]);
                       if (in) s += at(x, j);
                     }
                     return s;
                   });
      }
  EXPECT_EQ(list(run("cumsum", {values({3}, {1, 2, 3}, i32)}, make_attrs<CumsumAttrs>(0, false, false))),
            (L{1, 3, 6}));
  EXPECT_EQ(run("cumsum", {random({0})}, make_attrs<CumsumAttrs>(0, false, false)).shape(), (Dims{0}));
}

TEST(Reduce, CountsAndLeavesOutWhatIsNoNumber) {
  const NDArray x = values({2, 3}, {1, nan, -3, nan, nan, nan});
  auto rows = [&](const char* name) { return run(name, {x}, make_attrs<ReduceAttrs>(ints({1}), false)); };
  auto expect = [&](const char* name, L want) {
    SCOPED_TRACE(name);
    expect_all(rows(name), {2}, [&](const Index& i) { return want[size_t(i[0])]; });
  };
  expect("nansum", {-2, 0});
  expect("nanprod", {-3, 1});
  expect("nanmax", {1, -inf});
  expect("nanmin", {-3, inf});
  const NDArray count = run("count_nonzero", {values({2, 3}, {0, 1, nan, -0.0, 0, 5})},
                            make_attrs<ReduceAttrs>(ints({-1}), true));
  EXPECT_EQ(count.dtype(), i64);
  expect_all(count, {2, 1}, [](const Index& i) { return i[0] ? 1.0 : 2.0; });
  EXPECT_EQ(list(run("count_nonzero", {values({3}, {1, 0, 1}, boolean)})), (L{2}));
}

TEST(RunningFolds, AllDirections) {
  const struct {
    const char* name;
    double first;
    double (*step)(double, double);
  } cases[] = {
      {"cumprod", 1, [](double a, double b) { return a * b; }},
      {"cummax", -inf, [](double a, double b) { return std::max(a, b); }},
      {"cummin", inf, [](double a, double b) { return std::min(a, b); }},
      {"logcumsumexp", -inf, [](double a, double b) { return std::log(std::exp(a) + std::exp(b)); }},
  };
  const NDArray x = random({3, 6});
  for (const auto& c : cases)
    for (int64_t axis : {0, 1})
      for (bool exclusive : {false, true})
        for (bool reverse : {false, true}) {
          SCOPED_TRACE(c.name);
          const auto d = size_t(axis);
          expect_all(run(c.name, {x}, make_attrs<CumsumAttrs>(axis, exclusive, reverse)), {3, 6},
                     [&](const Index& i) {
                       double s = c.first;
                       for (int64_t k = 0; k < x.shape()[d]; ++k) {
                         Index j = i;
                         j[d] = k;
                         const int64_t ahead = reverse ? k - i[d] : i[d] - k;
                         if (ahead > 0 || (ahead == 0 && !exclusive)) s = c.step(s, at(x, j));
                       }
                       return s;
                     });
        }
  EXPECT_EQ(list(run("cummax", {values({4}, {3, -7, 5, 1}, DataType::int_(8))},
                     make_attrs<CumsumAttrs>(0, true, false))),
            (L{-128, 3, 3, 5}));
}

TEST(RunningFolds, LongRowsAndWideOnesOfEveryType) {
  // More elements than a vector along memory and beside it, and a rest.
  const struct {
    const char* name;
    double first;
    double (*step)(double, double);
  } cases[] = {{"cumsum", 0, [](double a, double b) { return a + b; }},
               {"cummax", -inf, [](double a, double b) { return std::max(a, b); }}};
  for (const auto& c : cases)
    for (const DataType t : {f32, f64, f16, i32, i64})
      for (const Dims& dims :
           {Dims{2, 37}, Dims{3, 2, 37}, Dims{33, 1}, Dims{16, 16}, Dims{0, 20}, Dims{20, 0}})
        for (int64_t axis = 0; axis < int64_t(dims.size()); ++axis)
          for (const bool exclusive : {false, true})
            for (const bool reverse : {false, true}) {
              if (exclusive && c.first != 0 && t.is_integer()) continue;
              SCOPED_TRACE(c.name);
              NDArray x = random(dims, t, -3, 3);
              for (int64_t i = 0; t.is_float() && i < x.size(); ++i)
                x.set_element(i, std::round(x.element(i)));
              const auto d = size_t(axis);
              expect_all(run(c.name, {x}, make_attrs<CumsumAttrs>(axis, exclusive, reverse)), dims,
                         [&](const Index& i) {
                           double s = c.first;
                           for (int64_t k = 0; k < dims[d]; ++k) {
                             Index j = i;
                             j[d] = k;
                             const int64_t ahead = reverse ? k - i[d] : i[d] - k;
                             if (ahead > 0 || (ahead == 0 && !exclusive)) s = c.step(s, at(x, j));
                           }
                           return s;
                         });
            }
}

TEST(RunningFolds, HoldWhatIsNoNumberAndSizesThatOnlyTheRunKnows) {
  NDArray x = random({2, 40});
  x.set_element(17, nan), x.set_element(40 + 20, inf), x.set_element(40 + 30, -inf);
  auto n = tir::var("n"), m = tir::var("m");
  for (const int64_t axis : {0, 1})
    for (const char* name : {"cumsum", "cummin", "logcumsumexp"}) {
      SCOPED_TRACE(name);
      const Expr e = op_call(name, {input("x", Shape{n, m})}, make_attrs<CumsumAttrs>(axis, false, false));
      const NDArray y = run_call(e, {x})[0];
      const NDArray wanted = run(name, {x}, make_attrs<CumsumAttrs>(axis, false, false));
      expect_all(y, {2, 40}, [&](const Index& i) { return at(wanted, i); });
      if (axis == 0) continue;
      for (int64_t i = 0; i < 40; ++i) {
        EXPECT_EQ(std::isnan(at(y, {0, i})), i >= 17) << i;
        if (std::string(name) == "cumsum") {
          EXPECT_EQ(std::isnan(at(y, {1, i})), i >= 30) << i;
          EXPECT_EQ(at(y, {1, i}) == inf, i >= 20 && i < 30) << i;
        }
        if (std::string(name) == "cummin") {
          EXPECT_EQ(at(y, {1, i}) == -inf, i >= 30) << i;
        }
      }
    }
}

}  // namespace
}  // namespace tenon::op_test
