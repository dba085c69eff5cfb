// SPDX-License-Identifier: Apache-2.0
// Decision trees as tables, against walks from node to node.
#include "op/attrs_trees.h"
#include "op_test.h"

namespace tenon::op_test {
namespace {

TEST(Trees, LeafOfEachRowInEachTree) {
  // Tree 0: x0 <= 0 ? node 1 : (x1 <= 0.5 ? 3 : 4), numbers that are missing go to 4; tree 1 is the leaf 5.
  const std::vector<double> feature{0, 0, 1, 0, 0, 0}, threshold{0, 0, 0.5, 0, 0, 0}, left{1, 1, 3, 3, 4, 5},
      right{2, 1, 4, 3, 4, 5}, missing{2, 1, 4, 3, 4, 5};
  const NDArray x = values({5, 2}, {-1, 9, 1, 0.5, 1, 0.6, nan, 0, 0, nan});
  const auto table = [&](const std::vector<double>& v) { return values({6}, v, i32); };
  const auto run_at = [&](int64_t depth) {
    return run("trees_leaf",
               {x, table(feature), values({6}, threshold), table(left), table(right), table(missing),
                values({2}, {0, 5}, i32)},
               make_attrs<TreesAttrs>(depth));
  };
  for (const int64_t depth : {2, 3, 60})
    expect_all(run_at(depth), {5, 2}, [&](const Index& i) {
      size_t node = i[1] == 0 ? 0 : 5;
      for (int step = 0; step < 2; ++step) {
        const double v = at(x, {i[0], int64_t(feature[node])});
        node = size_t(std::isnan(v) ? missing[node] : v <= threshold[node] ? left[node] : right[node]);
      }
      return double(node);
    });
  expect_refused("trees_leaf",
                 {x, table(feature), values({6}, threshold), table(left), table(right), table(missing),
                  values({2}, {0, 5}, i32)},
                 make_attrs<TreesAttrs>(61), {"depth 61"});
}

}  // namespace
}  // namespace tenon::op_test
