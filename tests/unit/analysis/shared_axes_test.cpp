// SPDX-License-Identifier: Apache-2.0
// Axes that the stages of a program share, and those that only look so.
#include "analysis/shared_axes.h"

#include <gtest/gtest.h>

#include "ir/text.h"

namespace tenon {
namespace {

/// E and D behind C = 2 A, all over i < 4 and j < 6; E is a tensor of `size`.
std::optional<SharedAxes> axes_of(const std::string& size, const std::string& e, const std::string& d) {
  auto stage = [](const std::string& name, const std::string& store) {
    return "    for i, j in T.grid(4, 6):\n        with T.block(\"" + name +
           "\"):\n            vi, vj = T.axis.remap(\"SS\", [i, j])\n            " + store + "\n";
  };
  const std::string text =
      "@T.prim_func\ndef main(A: T.Buffer((4, 6), \"float32\"), D: T.Buffer((4, 6), \"float32\")):\n"
      "    C = T.alloc_buffer((4, 6), \"float32\")\n    E = T.alloc_buffer(" +
      size + ", \"float32\")\n" + stage("C", "C[vi, vj] = A[vi, vj] * T.float32(2)") + stage("E", e) +
      stage("D", d);
  return shared_axes(parse_module(text).find("main").cast<tir::PrimFuncNode>());
}

using Extents = std::vector<int64_t>;
Extents extents(const SharedAxes& axes) {
  Extents out;
  for (const PrimExpr& e : axes.extent) out.push_back(*tir::as_int(e));
  return out;
}

TEST(SharedAxes, AreReadWhereTheyAreMade) {
  const auto both = axes_of("(4, 6)", "E[vi, vj] = C[vi, vj]", "D[vi, vj] = C[vi, vj] + E[vi, vj]");
  ASSERT_TRUE(both);
  EXPECT_EQ(extents(*both), (Extents{4, 6}));
  // A neighbour's element is another block's.
  const auto rows = axes_of("(4, 6)", "E[vi, vj] = C[vi, vj]", "D[vi, vj] = C[vi, 5 - vj] + E[vi, vj]");
  ASSERT_TRUE(rows);
  EXPECT_EQ(extents(*rows), (Extents{4}));
  EXPECT_FALSE(axes_of("(4, 6)", "E[vi, vj] = C[3 - vi, vj]", "D[vi, vj] = E[vi, 5 - vj]"));
}

TEST(SharedAxes, AreToldApartByWhatIsWritten) {
  // Every row writes the same elements of E.
  const auto columns = axes_of("(6,)", "E[vj] = C[vi, vj]", "D[vi, vj] = C[vi, vj] + E[vj]");
  ASSERT_TRUE(columns);
  EXPECT_EQ(extents(*columns), (Extents{6}));
}

TEST(SharedAxes, OfSymbolicSizesAreTheSameSize) {
  auto axes_of = [](const std::string& size) {
    return shared_axes(parse_module(R"(
@T.prim_func
def main(a: T.handle, d: T.handle, n: T.int64, m: T.int64):
    A = T.match_buffer(a, (n, 6), "float32")
    D = T.match_buffer(d, (n, 6), "float32")
    C = T.alloc_buffer(()" + size + R"(, 6), "float32")
    for i, j in T.grid(n, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(n, 6):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, 5 - vj]
)")
                           .find("main")
                           .cast<tir::PrimFuncNode>());
  };
  const auto rows = axes_of("n");
  ASSERT_TRUE(rows);
  ASSERT_EQ(rows->extent.size(), 1u);
  EXPECT_EQ(rows->extent[0].as<tir::Var>()->name, "n");
  EXPECT_FALSE(axes_of("m"));
}

}  // namespace
}  // namespace tenon
