// SPDX-License-Identifier: Apache-2.0
// Sparse matrices, segments and bags against dense definitions in double.
#include "op/attrs_sparse.h"
#include "op_test.h"

namespace tenon::op_test {
namespace {

struct Csr {
  NDArray data, indices, indptr, dense;
};
/// A matrix with gaps, an empty row and its dense form.
Csr sparse(int64_t rows, int64_t columns, DataType t, DataType index) {
  Csr m;
  m.dense = NDArray::zeros({rows, columns}, t);
  std::vector<double> data, indices, indptr{0};
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      if (i == 1 || pseudo(i * columns + j, 3) > 0.4) continue;
      const double v = std::floor(pseudo(i * columns + j, 4) * 9) - 4;
      data.push_back(v), indices.push_back(double(j));
      if (t.is_float())
        m.dense.set_element(i * columns + j, v);
      else
        m.dense.set_element_int(i * columns + j, int64_t(v));
    }
    indptr.push_back(double(data.size()));
  }
  const auto n = int64_t(data.size());
  m.data = values({n}, data, t), m.indices = values({n}, indices, index),
  m.indptr = values({rows + 1}, indptr, index);
  return m;
}

TEST(Sparse, CompressedRows) {
  for (DataType t : {f32, f64, i32})
    for (DataType index : {i32, i64}) {
      const Csr m = sparse(5, 7, t, index);
      auto dense = [&](const Index& i) { return at(m.dense, i); };
      expect_all(run("sparse.csr_to_dense", {m.data, m.indices, m.indptr}, {}, {shape({5, 7})}), {5, 7},
                 dense);
      const auto r = run_all("sparse.csr_transpose", {m.data, m.indices, m.indptr}, {}, {shape({5, 7})});
      expect_all(run("sparse.csr_to_dense", r, {}, {shape({7, 5})}), {7, 5},
                 [&](const Index& i) { return at(m.dense, {i[1], i[0]}); });
      const NDArray x = random({3, 7}, t, -3, 3), y = random({5, 7}, t, -3, 3);
      expect_all(run("nn.sparse_dense", {x, m.data, m.indices, m.indptr}), {3, 5}, [&](const Index& i) {
        double sum = 0;
        for (int64_t k = 0; k < 7; ++k) sum += at(x, {i[0], k}) * at(m.dense, {i[1], k});
        return sum;
      });
      expect_all(run("sparse.csr_add", {y, m.data, m.indices, m.indptr}), {5, 7},
                 [&](const Index& i) { return at(y, i) + at(m.dense, i); });
    }
  const Csr m = sparse(5, 7, f32, i32);
  expect_refused("sparse.csr_to_dense", {m.data, m.indices, m.indptr}, {}, {"(5,)", "(4, 7)"},
                 {shape({4, 7})});
}
TEST(Sparse, Coordinates) {
  const NDArray at_places = values({3, 2}, {0, 1, 2, 3, 1, 0}, i64), v = values({3}, {5, 6, 7});
  expect_all(run("sparse.to_dense", {at_places, v, NDArray::scalar(-1, f32)}, {}, {shape({3, 4})}), {3, 4},
             [&](const Index& i) {
               for (int64_t k = 0; k < 3; ++k)
                 if (at(at_places, {k, 0}) == double(i[0]) && at(at_places, {k, 1}) == double(i[1]))
                   return at(v, {k});
               return -1.0;
             });
  expect_refused("sparse.to_dense", {at_places, v, NDArray::scalar(-1, f32)}, {}, {"(3, 2)"}, {shape({3})});
}
TEST(Sparse, Segments) {
  struct Case {
    const char* name;
    double start;
    double (*join)(double, double);
  };
  const Case cases[] = {{"segment_sum", 0, [](double a, double b) { return a + b; }},
                        {"segment_mean", 0, [](double a, double b) { return a + b; }},
                        {"segment_prod", 1, [](double a, double b) { return a * b; }},
                        {"segment_max", -inf, [](double a, double b) { return std::max(a, b); }},
                        {"segment_min", inf, [](double a, double b) { return std::min(a, b); }}};
  const NDArray ids = values({6}, {2, 0, 2, 4, -1, 9}, i64);
  for (const Case& c : cases)
    for (DataType t : {f32, f16, i32}) {
      const NDArray x = random({6, 3}, t, -4, 4);
      expect_all(
          run(c.name, {x, ids}, make_attrs<SegmentAttrs>(int64_t(5))), {5, 3},
          [&](const Index& i) {
            double value = c.start;
            int n = 0;
            for (int64_t k = 0; k < 6; ++k)
              if (at(ids, {k}) == double(i[0])) value = c.join(value, at(x, {k, i[1]})), ++n;
            if (n == 0) return c.start == 1 ? 1.0 : 0.0;
            if (c.name == std::string("segment_mean"))
              return t.is_float() ? value / n : std::trunc(value / n);
            return value;
          },
          t == f16 ? 1e-2 : 1e-5);
    }
  expect_refused("segment_sum", {random({6, 3}), random({5}, i64, 0, 2)}, {}, {"(5,)", "(6, 3)"});
}
TEST(Sparse, Bags) {
  const NDArray table = random({6, 4}), indices = values({5}, {1, 3, 5, 0, 2}, i64),
                offsets = values({3}, {0, 2, 2}, i64);
  for (const char* mode : {"sum", "mean", "max"})
    expect_all(run("nn.embedding_bag", {table, indices, offsets}, make_attrs<BagAttrs>(std::string(mode))),
               {3, 4}, [&](const Index& i) {
                 const std::vector<std::vector<int64_t>> bags{{1, 3}, {}, {5, 0, 2}};
                 const auto& bag = bags[size_t(i[0])];
                 if (bag.empty()) return 0.0;
                 double sum = 0, most = -inf;
                 for (int64_t k : bag)
                   sum += at(table, {k, i[1]}), most = std::max(most, at(table, {k, i[1]}));
                 return mode == std::string("max")   ? most
                        : mode == std::string("sum") ? sum
                                                     : sum / double(bag.size());
               });
}

}  // namespace
}  // namespace tenon::op_test
