// SPDX-License-Identifier: Apache-2.0
// Programs that compute the same in other loops are proved to, and nothing is proved of those that do not:
// each of these differs from a right one in one word.
#include "analysis/element_values.h"

#include <gtest/gtest.h>

#include "ir/text.h"

namespace tenon {
namespace {

using namespace tir;

PrimFunc program(const std::string& params, const std::string& body) {
  const IRModule m = parse_module("@T.prim_func\ndef main(" + params + "):\n" + body);
  return m.find("main").cast<PrimFuncNode>();
}

const char* const kProductParams =
    R"(x: T.Buffer((12, 32), "float32"), w: T.Buffer((32, 8), "float32"), b: T.Buffer((8,), "float32"), y: T.Buffer((12, 8), "float32"))";
/// y = max(x w + b, 0), a block for each step.
const char* const kProduct = R"(
    s = T.alloc_buffer((12, 8), "float32")
    a = T.alloc_buffer((12, 8), "float32")
    for i, j, k in T.grid(12, 8, 32):
        with T.block("s"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                s[vi, vj] = T.float32(0)
            s[vi, vj] = s[vi, vj] + x[vi, vk] * w[vk, vj]
    for i, j in T.grid(12, 8):
        with T.block("a"):
            vi, vj = T.axis.remap("SS", [i, j])
            a[vi, vj] = s[vi, vj] + b[vj]
    for i, j in T.grid(12, 8):
        with T.block("y"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = T.max(a[vi, vj], T.float32(0))
)";
/// Rows side by side, a sum in pieces of 4, the loops as plain statements.
const char* const kRows = R"(
    s = T.alloc_buffer((12, 8), "float32")
    for io in T.parallel(4):
        for ii, j in T.grid(3, 8):
            s[io * 3 + ii, j] = T.float32(0)
        for ko in range(8):
            for ii in range(3):
                for ki in T.unroll(4):
                    for j in T.vectorized(8):
                        s[io * 3 + ii, j] = s[io * 3 + ii, j] + w[ko * 4 + ki, j] * x[io * 3 + ii, ko * 4 + ki]
        for ii, j in T.grid(3, 8):
            y[io * 3 + ii, j] = T.max(T.float32(0), b[j] + s[io * 3 + ii, j])
)";
/// Blocks with their init, ragged pieces of 5 rows, the last step at a row of the first.
const char* const kBlocks = R"(
    s = T.alloc_buffer((12, 8), "float32")
    for i0, i1 in T.grid(3, 5):
        for k, j in T.grid(32, 8):
            with T.block("s"):
                vi = T.axis.spatial(12, i0 * 5 + i1)
                vj, vk = T.axis.remap("SR", [j, k])
                T.where(i0 * 5 + i1 < 12)
                with T.init():
                    s[vi, vj] = T.float32(0)
                s[vi, vj] = s[vi, vj] + x[vi, vk] * w[vk, vj]
        for j in range(8):
            with T.block("y"):
                vi = T.axis.spatial(12, i0 * 5 + i1)
                vj = T.axis.spatial(8, j)
                T.where(i0 * 5 + i1 < 12)
                y[vi, vj] = T.max(s[vi, vj] + b[vj], T.float32(0))
)";
/// Four sums, and their sum.
const char* const kPartial = R"(
    p = T.alloc_buffer((12, 8, 4), "float32")
    s = T.alloc_buffer((12, 8), "float32")
    for i, j, l, k in T.grid(12, 8, 4, 8):
        with T.block("p"):
            vi, vj, vl, vk = T.axis.remap("SSSR", [i, j, l, k])
            with T.init():
                p[vi, vj, vl] = T.float32(0)
            p[vi, vj, vl] = p[vi, vj, vl] + x[vi, vk * 4 + vl] * w[vk * 4 + vl, vj]
    for i, j, l in T.grid(12, 8, 4):
        with T.block("s"):
            vi, vj, vl = T.axis.remap("SSR", [i, j, l])
            with T.init():
                s[vi, vj] = T.float32(0)
            s[vi, vj] = s[vi, vj] + p[vi, vj, vl]
    for i, j in T.grid(12, 8):
        y[i, j] = T.max(s[i, j] + b[j], T.float32(0))
)";

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const size_t at = text.find(what);
  EXPECT_NE(at, text.npos) << what;
  return at == text.npos ? text : text.replace(at, what.size(), by);
}
bool product_proved(const std::string& body) {
  return same_element_values(program(kProductParams, kProduct), program(kProductParams, body));
}

TEST(ElementValues, AProductInOtherLoops) {
  EXPECT_TRUE(product_proved(kProduct));
  EXPECT_TRUE(product_proved(kRows));
  EXPECT_TRUE(product_proved(kBlocks));
  EXPECT_TRUE(product_proved(kPartial));
  EXPECT_TRUE(product_proved(replaced(kBlocks, "for k, j in T.grid(32, 8)", "for j, k in T.grid(8, 32)")));
}

TEST(ElementValues, OneWordIsAnotherProduct) {
  const struct {
    const char *of, *what, *by;
  } cases[] = {
      {kRows, "range(8):\n            for ii", "range(7):\n            for ii"},  // a sum cut short
      {kRows, "= T.float32(0)", "= T.float32(1)"},
      {kRows, "T.max(T.float32(0)", "T.min(T.float32(0)"},
      {kRows, "b[j] +", "b[0] +"},
      {kRows, "w[ko * 4 + ki, j] *", "w[ko * 4 + ki, 7 - j] *"},
      {kRows, "x[io * 3 + ii, ko * 4 + ki]", "x[io * 3 + ii, ki * 8 + ko]"},
      {kRows, "in T.grid(3, 8):\n            s", "in T.grid(2, 8):\n            s"},  // not filled
      {kRows, "in T.grid(3, 8):\n            y", "in T.grid(3, 7):\n            y"},  // not written
      {kRows, "s[io * 3 + ii, j] = T.float32", "s[io * 2 + ii, j] = T.float32"},      // filled again, and not
      {kRows, "b[j] + s[io * 3 + ii, j]", "b[j] + s[11 - (io * 3 + ii), j]"},         // not computed yet
      {kRows, "for ko in range(8):", "for ko in T.parallel(8):"},                     // a race
      {kBlocks, "T.where(i0 * 5 + i1 < 12)", "T.where(i0 * 5 + i1 < 11)"},
      {kBlocks, "for k, j in T.grid(32, 8)", "for k, r, j in T.grid(32, 2, 8)"},  // each step twice
      {kBlocks, "for i0, i1 in T.grid(3, 5)", "for i1, i0 in T.grid(5, 2)"},
      {kPartial, "x[vi, vk * 4 + vl] * w[vk * 4 + vl, vj]", "x[vi, vk * 4 + vl] * w[vl * 8 + vk, vj]"},
      {kPartial, "p[vi, vj, vl] = T.float32(0)", "p[vi, vj, vl] = T.float32(0.5)"},
      {kPartial, "+ p[vi, vj, vl]\n", "- p[vi, vj, vl]\n"},
  };
  for (const auto& c : cases)
    EXPECT_FALSE(product_proved(replaced(c.of, c.what, c.by))) << c.what << " → " << c.by;
}

/// Steps of a product as plain loops.
const char* const kFill = R"(
    for i, j in T.grid(12, 8):
        s[i, j] = T.float32(0)
)";
const char* const kSum = R"(
    for i, j, k in T.grid(12, 8, 32):
        s[i, j] = s[i, j] + x[i, k] * w[k, j]
)";
const char* const kResult = R"(
    for i, j in T.grid(12, 8):
        y[i, j] = T.max(s[i, j] + b[j], T.float32(0))
)";
/// Those, with the sum as a block with its init: its loops, and what its iterators are bound to.
std::string with_block(const std::string& loops, const std::string& iterators) {
  return R"(
    for )" +
         loops + R"(:
        with T.block("s"):
            )" +
         iterators + R"(
            with T.init():
                s[vi, vj] = T.float32(0)
            s[vi, vj] = s[vi, vj] + x[vi, vk] * w[vk, vj]
)" + kResult;
}

TEST(ElementValues, WhatRunsWhenDecides) {
  const std::string plain = "i, j, k in T.grid(12, 8, 32)";
  const auto remap = [](const std::string& kinds) {
    return "vi, vj, vk = T.axis.remap(\"" + kinds + "\", [i, j, k])";
  };
  const struct {
    const char* what;
    std::string steps;
    bool same = false;
  } cases[] = {
      {"one step after the other", std::string(kFill) + kSum + kResult, true},
      {"the sum as a block", with_block(plain, remap("SSR")), true},
      {"the result in the loop of its sum", std::string(kFill) + R"(
    for k, i, j in T.grid(32, 12, 8):
        s[i, j] = s[i, j] + x[i, k] * w[k, j]
        y[i, j] = T.max(s[i, j] + b[j], T.float32(0))
)"},
      {"filled in the loop of its sum", std::string(R"(
    for k in range(32):
        for i, j in T.grid(12, 8):
            s[i, j] = T.float32(0)
        for i, j in T.grid(12, 8):
            s[i, j] = s[i, j] + x[i, k] * w[k, j]
)") + kResult},
      {"filled behind its sum", std::string(kSum) + kFill + kResult},
      {"read in front of its sum", R"(
    for i in range(12):
        for j in range(8):
            y[i, j] = T.max(s[i, j] + b[j], T.float32(0))
        for j in range(8):
            s[i, j] = T.float32(0)
        for j, k in T.grid(8, 32):
            s[i, j] = s[i, j] + x[i, k] * w[k, j]
)"},
      {"the init of the outer of two loops of the sum runs again",
       with_block("k, i, r, j in T.grid(32, 12, 2, 8)", remap("SSR"))},
      {"steps backwards: the init is not the first",
       with_block(plain,
                  "vi, vj = T.axis.remap(\"SS\", [i, j])\n            vk = T.axis.reduce(32, 31 - k)")},
      {"an init for every step", with_block(plain, remap("SSS"))},
      {"an init for the first row", with_block(plain, remap("RSR"))},
      {"one store too many", std::string(kFill) + kSum + kResult + "    y[3, 4] = T.float32(0)\n"},
      {"an input is written", R"(
    for i, j in T.grid(12, 32):
        x[i, j] = T.float32(0)
    for i, j in T.grid(12, 8):
        y[i, j] = T.float32(0)
)"}};
  for (const auto& c : cases)
    EXPECT_EQ(product_proved("    s = T.alloc_buffer((12, 8), \"float32\")\n" + c.steps), c.same) << c.what;
}

TEST(ElementValues, RowsAndWindowsAndSymbolicSizes) {
  const char* const rows = R"(x: T.Buffer((n, 40), "float32"), y: T.Buffer((n, 40), "float32"), n: T.int64)";
  const std::string softmax = R"(
    m = T.alloc_buffer((n,), "float32")
    e = T.alloc_buffer((n, 40), "float32")
    s = T.alloc_buffer((n,), "float32")
    for i, k in T.grid(n, 40):
        with T.block("m"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                m[vi] = T.float32("-inf")
            m[vi] = T.max(m[vi], x[vi, vk])
    for i, j in T.grid(n, 40):
        with T.block("e"):
            vi, vj = T.axis.remap("SS", [i, j])
            e[vi, vj] = T.exp(x[vi, vj] - m[vi])
    for i, k in T.grid(n, 40):
        with T.block("s"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                s[vi] = T.float32(0)
            s[vi] = s[vi] + e[vi, vk]
    for i, j in T.grid(n, 40):
        with T.block("y"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = e[vi, vj] / s[vi]
)";
  const std::string by_rows = R"(
    m = T.alloc_buffer((n,), "float32")
    s = T.alloc_buffer((n,), "float32")
    for i in T.parallel(n):
        m[i] = T.float32("-inf")
        for k0, k1 in T.grid(5, 8):
            m[i] = T.max(m[i], x[i, k0 * 8 + k1])
        s[i] = T.float32(0)
        for k in range(40):
            s[i] = s[i] + T.exp(x[i, k] - m[i])
        for j0 in range(5):
            for j1 in T.vectorized(8):
                y[i, j0 * 8 + j1] = T.exp(x[i, j0 * 8 + j1] - m[i]) / s[i]
)";
  EXPECT_TRUE(same_element_values(program(rows, softmax), program(rows, by_rows)));
  EXPECT_FALSE(same_element_values(
      program(rows, softmax), program(rows, replaced(by_rows, "T.parallel(n)", "T.parallel(n // 4 * 4)"))));
  EXPECT_FALSE(same_element_values(program(rows, softmax),
                                   program(rows, replaced(by_rows, "m[i]) / s[i]", "s[i]) / m[i]"))));
  const char* const images =
      R"(x: T.Buffer((3, 10, 10), "float32"), w: T.Buffer((4, 3, 3, 3), "float32"), y: T.Buffer((4, 10, 10), "float32"))";
  const auto window = [](const std::string& loops, const std::string& first) {
    return R"(
    p = T.alloc_buffer((3, 12, 12), "float32")
    for c, i, j in T.grid(3, 12, 12):
        p[c, i, j] = T.if_then_else(1 <= i and i < 11 and 1 <= j and j < )" +
           first + R"(, x[c, i - 1, j - 1], T.float32(0))
    for o, i, j in T.grid(4, 10, 10):
        y[o, i, j] = T.float32(0)
    for )" +
           loops + R"(:
        y[o, i, j] = y[o, i, j] + p[c, i + r, j + t] * w[o, c, r, t]
)";
  };
  const PrimFunc image = program(images, window("o, i, j, c, r, t in T.grid(4, 10, 10, 3, 3, 3)", "11"));
  EXPECT_TRUE(same_element_values(
      image, program(images, window("t, o, i, c, j, r in T.grid(3, 4, 10, 3, 10, 3)", "11"))));
  EXPECT_FALSE(same_element_values(
      image, program(images, window("t, o, i, c, j, r in T.grid(3, 4, 10, 3, 10, 2)", "11"))));
  EXPECT_FALSE(same_element_values(
      image, program(images, window("o, i, j, c, r, t in T.grid(4, 10, 10, 3, 3, 3)", "10"))));
}

TEST(ElementValues, SumsInAnotherOrder) {
  const char* const params =
      R"(x: T.Buffer((8,), "float32"), z: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32"))";
  const auto one = [&](const std::string& value) {
    return program(params, "    for i in range(8):\n        y[i] = " + value + "\n");
  };
  EXPECT_TRUE(same_element_values(one("x[i] + z[i] + T.float32(2)"), one("T.float32(2) + (z[i] + x[i])")));
  EXPECT_TRUE(same_element_values(one("x[i] * z[i]"), one("z[i] * x[i]")));
  EXPECT_TRUE(same_element_values(one("T.max(x[i], z[i])"), one("T.max(z[i], x[i])")));
  EXPECT_FALSE(same_element_values(one("x[i] - z[i]"), one("z[i] - x[i]")));
  EXPECT_FALSE(same_element_values(one("x[i] * (z[i] + x[i])"), one("x[i] * z[i] + x[i] * x[i]")));
  EXPECT_FALSE(same_element_values(one("x[i] * z[i] * T.float32(3)"), one("x[i] * (z[i] * T.float32(3))")));
  EXPECT_FALSE(same_element_values(one("T.max(x[i], z[i])"), one("T.Select(x[i] > z[i], x[i], z[i])")));
  EXPECT_FALSE(same_element_values(one("x[i]"), one("x[7 - i]")));
}

// Extents that depend on other loops are not looked at; those below a condition are, where it always holds.
TEST(ElementValues, Conditions) {
  const char* const params = R"(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32"))";
  const PrimFunc whole = program(params, "    for i in range(8):\n        y[i] = x[i]\n");
  const auto under = [&](const std::string& condition) {
    return program(params,
                   "    for i in range(12):\n        if " + condition + ":\n            y[i] = x[i]\n");
  };
  EXPECT_TRUE(same_element_values(whole, under("i < 8")));
  EXPECT_FALSE(same_element_values(whole, under("i < 8 and i != 3")));
  EXPECT_FALSE(same_element_values(whole, under("i < 8 and x[i] > T.float32(0)")));
}

// Each store of such a buffer rounds.
TEST(ElementValues, RoundingsInBetweenAreValues) {
  const char* const params = R"(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32"))";
  const PrimFunc direct = program(params, "    for i in range(8):\n        y[i] = x[i] + x[i]\n");
  const PrimFunc rounded = program(params, R"(
    h = T.alloc_buffer((8,), "float16")
    for i in range(8):
        h[i] = T.cast(x[i], "float16")
    for i in range(8):
        y[i] = T.cast(h[i], "float32") + T.cast(h[i], "float32")
)");
  EXPECT_FALSE(same_element_values(direct, rounded));
}

}  // namespace
}  // namespace tenon
