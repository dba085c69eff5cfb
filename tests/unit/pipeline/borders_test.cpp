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

}  // namespace
}  // namespace tenon::graph::testing_graph
