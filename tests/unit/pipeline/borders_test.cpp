// SPDX-License-Identifier: Apache-2.0
// Images with a border whose elements are others': rows inside of it are vectors, whatever their length, and
// a border may be wider than what it mirrors.
#include <fmt/format.h>

#include "graph_language.h"
#include "pipeline/emit.h"

namespace tenon::graph::testing_graph {
namespace {

int64_t place(const std::string& mode, int64_t i, int64_t n) {
  if (mode == "edge") return std::clamp<int64_t>(i, 0, n - 1);
  if (mode == "wrap") return ((i % n) + n) % n;
  while (n > 1 && (i < 0 || i >= n)) i = i < 0 ? -i : 2 * (n - 1) - i;
  return n == 1 ? 0 : i;
}

TEST_F(Graph, BordersOfEveryWidthAtEverySize) {
  for (const std::string mode : {"edge", "reflect", "wrap"})
    for (const auto& [before, after] : {std::pair<int64_t, int64_t>{1, 1}, {2, 3}, {0, 5}, {11, 4}}) {
      const std::string text = R"(
    @R.function
    def main(x: R.Tensor((2, {h}, {w}), "float32")):
        return R.nn.pad(x, pad_width=[0, 0, 1, 2, {b}, {a}], pad_mode="{m}")
)";
      const auto at_sizes = [&](const std::string& h, const std::string& w) {
        return module(fmt::format(fmt::runtime(text), fmt::arg("h", h), fmt::arg("w", w),
                                  fmt::arg("b", before), fmt::arg("a", after), fmt::arg("m", mode)));
      };
      Session free(jit_artifact(compile(at_sizes("h", "w"), {})));
      for (const int64_t w : {1, 2, 3, 16, 37, 150})
        for (const int64_t h : {1, 2, 5}) {
          const NDArray x = random_array({2, h, w});
          std::vector<double> want;
          for (int64_t c = 0; c < 2; ++c)
            for (int64_t i = -1; i < h + 2; ++i)
              for (int64_t j = -before; j < w + after; ++j)
                want.push_back(x.element((c * h + place(mode, i, h)) * w + place(mode, j, w)));
          const auto same = [&](const NDArray& got) {
            std::vector<double> all;
            for (int64_t k = 0; k < got.size(); ++k) all.push_back(got.element(k));
            return all == want;
          };
          EXPECT_TRUE(same(free.invoke({x})[0])) << mode << " " << h << " " << w << " " << before;
          if (h != 5) continue;
          Session own(jit_artifact(compile(at_sizes("5", std::to_string(w)), {})));
          EXPECT_TRUE(same(own.invoke({x})[0])) << mode << " " << w << " " << before;
        }
    }
}

TEST_F(Graph, JoinedRowsOfEveryLength) {
  const IRModule m = module(R"(
    @R.function
    def main(x: R.Tensor((n, a), "float32"), y: R.Tensor((n, b), "float32")):
        return R.concat((x, y), axis=1)
)");
  Session session(jit_artifact(compile(m, {})));
  for (const int64_t a : {0, 1, 16, 37, 150})
    for (const int64_t b : {0, 1, 15, 200})
      for (const int64_t n : {1, 3}) {
        const NDArray x = random_array({n, a}), y = random_array({n, b}), got = session.invoke({x, y})[0];
        for (int64_t i = 0; i < n; ++i)
          for (int64_t j = 0; j < a + b; ++j)
            ASSERT_EQ(got.element(i * (a + b) + j), j < a ? x.element(i * a + j) : y.element(i * b + j - a))
                << n << " of " << a << " and " << b;
      }
}

}  // namespace
}  // namespace tenon::graph::testing_graph
