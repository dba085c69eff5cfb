// SPDX-License-Identifier: Apache-2.0
// Sorting, selection and counting against definitions with std::stable_sort on doubles.
#include <algorithm>
#include <numeric>

#include "op/attrs_sort.h"
#include "op_test.h"

namespace tenon::op_test {
namespace {

/// Positions along the axis in order; NaN is the largest.
std::vector<int64_t> wanted_order(const NDArray& x, size_t axis, Index row, bool descending) {
  auto value = [&](int64_t i) {
    row[axis] = i;
    return at(x, row);
  };
  auto less = [](double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; };
  std::vector<int64_t> p(static_cast<size_t>(x.shape()[axis]));
  std::iota(p.begin(), p.end(), 0);
  std::stable_sort(p.begin(), p.end(), [&](int64_t i, int64_t j) {
    return descending ? less(value(j), value(i)) : less(value(i), value(j));
  });
  return p;
}
ObjectRef sort_attrs(int64_t axis, bool descending) { return make_attrs<SortAttrs>(axis, descending); }

TEST(Sort, EveryTypeAxisAndDirection) {
  const DataType types[] = {f32, f64, f16, bf16(), i32, i64, u8, DataType::int_(8)};
  for (DataType t : types)
    for (const Dims& dims : {Dims{7}, Dims{3, 9}, Dims{2, 5, 3}, Dims{1, 1}, Dims{4, 0}, Dims{0, 3}})
      for (int64_t axis = -1; axis < int64_t(dims.size()); ++axis)
        for (const bool descending : {false, true}) {
          // Few different values: equals must keep their order.
          const NDArray x = random(dims, t, t.is_uint() ? 0 : -3, 4, int64_t(dims.size()));
          const size_t a = axis < 0 ? dims.size() - 1 : size_t(axis);
          auto order = [&](const Index& i) { return wanted_order(x, a, i, descending)[size_t(i[a])]; };
          expect_all(run("argsort", {x}, sort_attrs(axis, descending)), dims, order);
          expect_all(run("sort", {x}, sort_attrs(axis, descending)), dims, [&](Index i) {
            i[a] = order(i);
            return at(x, i);
          });
        }
}
TEST(Sort, PutsNaNLastAndHoldsInfinities) {
  const NDArray x = values({6}, {2, nan, -inf, inf, nan, -1});
  EXPECT_EQ(list(run("argsort", {x}, sort_attrs(0, false))), (std::vector<double>{2, 5, 0, 3, 1, 4}));
  EXPECT_EQ(list(run("argsort", {x}, sort_attrs(0, true))), (std::vector<double>{1, 4, 3, 0, 5, 2}));
}
TEST(Sort, LongRowsAndSymbolicSizes) {
  const NDArray x = random({2, 301}, f32);
  auto n = tir::var("n");
  const Expr e = op_call("sort", {input("x", Shape{PrimExpr(2), n})}, sort_attrs(-1, false));
  EXPECT_EQ(shape_text(e), "(2, n)");
  expect_all(run_call(e, {x})[0], {2, 301},
             [&](const Index& i) { return at(x, {i[0], wanted_order(x, 1, i, false)[size_t(i[1])]}); });
}

TEST(TopK, LargestAndSmallestWithPositions) {
  for (const bool largest : {true, false})
    for (int64_t k : {0, 1, 3, 6})
      for (DataType t : {f32, i64, f16}) {
        const NDArray x = random({2, 6, 3}, t, -3, 3, k + 1);
        const auto r = run_all("topk", {x}, make_attrs<TopKAttrs>(int64_t(-2), largest), {shape({k})});
        auto place = [&](Index i) {
          const int64_t p = i[1];
          return wanted_order(x, 1, i, largest)[size_t(p)];
        };
        expect_all(r[1], {2, k, 3}, [&](const Index& i) { return double(place(i)); });
        expect_all(r[0], {2, k, 3}, [&](Index i) {
          i[1] = place(i);
          return at(x, i);
        });
      }
  expect_refused("topk", {random({2, 3})}, {}, {"4 elements", "axis 1"}, {shape({4})});
  expect_refused("topk", {random({2, 3})}, {}, {"one size"}, {shape({1, 1})});
}

TEST(TopK, ManyOfRowsSideBySideAreKeptInOrder) {
  for (const int64_t k : {9, 16, 17})
    for (const DataType t : {f32, f16, DataType::int_(8)}) {
      const NDArray x = random({2, 40, 19}, t, -3, 3, uint64_t(k));
      const auto r = run_all("topk", {x}, make_attrs<TopKAttrs>(int64_t(1), true), {shape({k})});
      expect_all(r[1], {2, k, 19},
                 [&](const Index& i) { return double(wanted_order(x, 1, i, true)[size_t(i[1])]); });
    }
}

TEST(TopK, FewOfALongRowAndSizesThatOnlyTheRunKnows) {
  for (const bool largest : {true, false})
    for (int64_t k : {1, 2, 5, 16}) {
      const NDArray x =
          random({3, 97}, DataType::int_(8), -3, 3, k);  // many are equal: the first of them come first
      auto n = tir::var("n");
      const Expr e = op_call("topk", {input("x", Shape{PrimExpr(3), n}, DataType::int_(8)), shape({k})},
                             make_attrs<TopKAttrs>(int64_t(-1), largest));
      expect_all(run_call(e, {x})[1], {3, k},
                 [&](const Index& i) { return double(wanted_order(x, 1, i, largest)[size_t(i[1])]); });
    }
}

TEST(Quantile, InterpolatesBetweenNeighbours) {
  for (double q : {0.0, 0.25, 0.5, 0.9, 1.0})
    for (const bool keep : {false, true}) {
      const NDArray x = random({3, 8, 2}, f32);
      auto wanted = [&](Index i) {
        if (!keep) i.insert(i.begin() + 1, 0);
        const auto order = wanted_order(x, 1, i, false);
        const double place = q * 7;
        const auto low = size_t(place);
        auto value = [&](size_t p) {
          i[1] = order[std::min<size_t>(p, 7)];
          return at(x, i);
        };
        return value(low) + (place - double(low)) * (value(low + 1) - value(low));
      };
      expect_all(run("quantile", {x}, make_attrs<QuantileAttrs>(q, int64_t(1), keep)),
                 keep ? Dims{3, 1, 2} : Dims{3, 2}, wanted);
    }
  EXPECT_TRUE(std::isnan(run("quantile", {values({3}, {1, nan, 2})}).element(0)));
  expect_refused("quantile", {random({2})}, make_attrs<QuantileAttrs>(1.5, int64_t(0), false), {"1.5"});
  expect_refused("quantile", {random({2, 0})}, {}, {"no elements"});
}

// ---------------------------------------------------------------- results with a run-time size
TEST(Nonzero, GivesPositionsInOrderAndTheirNumber) {
  for (DataType t : {f32, i32, boolean})
    for (const Dims& dims : {Dims{7}, Dims{3, 4}, Dims{2, 3, 2}, Dims{0, 2}, Dims{}}) {
      NDArray x = NDArray::empty(dims, t);
      std::vector<Index> found;
      int64_t k = 0;
      for_each_index(dims, [&](const Index& i) {
        const bool set = pseudo(k, 5) > 0.5;
        if (t.is_float())
          x.set_element(k, set ? 1.5 : 0);
        else
          x.set_element_int(k, set);
        if (set) found.push_back(i);
        ++k;
      });
      const auto r = run_all("nonzero", {x});
      ASSERT_EQ(r[1].element_int(0), int64_t(found.size()));
      ASSERT_EQ(r[0].shape(), (Dims{int64_t(dims.size()), x.size()}));
      for (size_t c = 0; c < found.size(); ++c)
        for (size_t d = 0; d < dims.size(); ++d)
          EXPECT_EQ(at(r[0], {int64_t(d), int64_t(c)}), double(found[c][d]));
    }
}
TEST(Compress, PicksSlicesOrElements) {
  const NDArray x = random({3, 4}, f32), c = values({3}, {0, 1, 1}, boolean);
  auto r = run_all("compress", {x, c}, make_attrs<CompressAttrs>(int64_t(-1), false));
  EXPECT_EQ(r[1].element_int(0), 2);
  ASSERT_EQ(r[0].shape(), (Dims{3, 3}));
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 2; ++j) EXPECT_EQ(at(r[0], {i, j}), at(x, {i, j + 1}));
  r = run_all("compress", {x, c}, make_attrs<CompressAttrs>(int64_t(0), true));
  EXPECT_EQ(r[1].element_int(0), 2);
  EXPECT_EQ(r[0].element(0), x.element(1));
  EXPECT_EQ(r[0].element(1), x.element(2));
  expect_refused("compress", {x, values({5}, {1, 1, 1, 1, 1}, boolean)}, {}, {"5 elements"});
}
TEST(MaskedSelect, PicksElements) {
  const NDArray x = random({2, 3}, i32, -9, 9), m = values({2, 3}, {1, 0, 0, 1, 1, 0}, boolean);
  const auto r = run_all("masked_select", {x, m});
  EXPECT_EQ(r[1].element_int(0), 3);
  EXPECT_EQ(r[0].element_int(0), x.element_int(0));
  EXPECT_EQ(r[0].element_int(1), x.element_int(3));
  EXPECT_EQ(r[0].element_int(2), x.element_int(4));
  expect_refused("masked_select", {x, values({3}, {1, 1, 1}, boolean)}, {}, {"(3,)", "(2, 3)"});
}

void check_unique(const NDArray& x, size_t axis, bool flat, bool sorted) {
  SCOPED_TRACE(testing::Message() << "axis " << axis << " flat " << flat << " sorted " << sorted);
  // Slices as vectors of numbers.
  const int64_t n = flat ? x.size() : x.shape()[axis];
  std::vector<std::vector<double>> slices(static_cast<size_t>(n));
  int64_t k = 0;
  for_each_index(x.shape(),
                 [&](const Index& i) { slices[size_t(flat ? k++ : i[axis])].push_back(at(x, i)); });
  std::vector<size_t> first;  // of each group, in order of occurrence
  for (size_t i = 0; i < slices.size(); ++i)
    if (std::find(slices.begin(), slices.begin() + std::ptrdiff_t(i), slices[i]) ==
        slices.begin() + std::ptrdiff_t(i))
      first.push_back(i);
  if (sorted)
    std::sort(first.begin(), first.end(), [&](size_t a, size_t b) { return slices[a] < slices[b]; });
  const auto r = run_all("unique", {x}, make_attrs<UniqueAttrs>(int64_t(axis), flat, sorted));
  ASSERT_EQ(r[4].element_int(0), int64_t(first.size()));
  for (size_t g = 0; g < first.size(); ++g) {
    EXPECT_EQ(r[1].element_int(int64_t(g)), int64_t(first[g])) << "first of " << g;
    EXPECT_EQ(r[3].element_int(int64_t(g)), std::count(slices.begin(), slices.end(), slices[first[g]])) << g;
    std::vector<double> got;
    for_each_index(r[0].shape(), [&](const Index& i) {
      if (i[flat ? 0 : axis] == int64_t(g)) got.push_back(at(r[0], i));
    });
    EXPECT_EQ(got, slices[first[g]]);
  }
  for (size_t i = 0; i < slices.size(); ++i)
    EXPECT_EQ(slices[first[size_t(r[2].element_int(int64_t(i)))]], slices[i]) << "inverse of " << i;
}
TEST(Unique, ElementsAndSlicesSortedOrAsTheyOccur) {
  for (const bool sorted : {true, false})
    for (DataType t : {f32, i32, DataType::int_(8)}) {
      check_unique(random({17}, t, -3, 3), 0, true, sorted);
      check_unique(random({3, 5}, t, -2, 2), 0, true, sorted);
      check_unique(random({6, 2}, t, 0, 2), 0, false, sorted);
      check_unique(random({2, 7}, t, 0, 2), 1, false, sorted);
      check_unique(random({2, 5, 1}, t, 0, 2), 1, false, sorted);
      check_unique(random({1}, t), 0, true, sorted);
      check_unique(random({0}, t), 0, true, sorted);
    }
}
TEST(SliceTo, TakesTheLeadingPart) {
  const NDArray x = random({3, 4}, f32);
  expect_all(run("slice_to", {x}, {}, {shape({2, 3})}), {2, 3}, [&](const Index& i) { return at(x, i); });
  expect_all(run("slice_to", {x}, {}, {shape({0, 4})}), {0, 4}, [&](const Index&) { return 0; });
  expect_refused("slice_to", {x}, {}, {"(4, 4)", "(3, 4)"}, {shape({4, 4})});
}

TEST(Counts, OfValuesAndRanges) {
  const NDArray x = random({40}, i32, -1, 7);
  expect_all(run("bincount", {x}, make_attrs<LengthAttrs>(int64_t(6))), {6}, [&](const Index& i) {
    const auto v = list(x);
    return double(std::count(v.begin(), v.end(), double(i[0])));
  });
  const NDArray y = random({5, 9}, f32, -1.5, 1.5);
  expect_all(run("histogram", {y}, make_attrs<HistogramAttrs>(int64_t(4), -1.0, 1.0)), {4},
             [&](const Index& i) {
               double n = 0;
               for (double v : list(y)) {
                 const bool last = i[0] == 3;
                 n += v >= -1 + 0.5 * double(i[0]) && (v < -0.5 + 0.5 * double(i[0]) || (last && v == 1));
               }
               return n;
             });
  expect_refused("histogram", {y}, make_attrs<HistogramAttrs>(int64_t(0), 0.0, 1.0), {"0 bins"});
}

}  // namespace
}  // namespace tenon::op_test
