// SPDX-License-Identifier: Apache-2.0
// Rows of unknown length in order: those that are merged, those whose bytes are counted, and elements that
// are compared as they are.
#include <fmt/format.h>

#include <numeric>

#include "graph_language.h"
#include "pipeline/emit.h"

namespace tenon::graph::testing_graph {
namespace {

TEST_F(Graph, RowsOfAnyLengthAreSorted) {
  for (const DataType t : {f32, i64}) {
    const IRModule m = module(fmt::format(R"(
    @R.function
    def main(x: R.Tensor((n, m), "{}")):
        return R.argsort(x, axis=1)
)",
                                          to_string(t)));
    Session session(jit_artifact(compile(m, {})));
    for (const int64_t length : {0, 1, 2, 7, 8, 9, 16, 17, 33, 64, 65, 199, 200, 313}) {
      const NDArray x = random_array({3, length}, t), got = session.invoke({x})[0];
      for (int64_t row = 0; row < 3; ++row) {
        std::vector<int64_t> want(static_cast<size_t>(length));
        std::iota(want.begin(), want.end(), 0);
        const auto at = [&](int64_t i) { return x.element(row * length + i); };
        std::ranges::stable_sort(want, {}, at);
        for (int64_t i = 0; i < length; ++i)
          ASSERT_EQ(got.element_int(row * length + i), want[size_t(i)]) << length << " at " << i;
      }
    }
  }
}

}  // namespace
}  // namespace tenon::graph::testing_graph
