// SPDX-License-Identifier: Apache-2.0
// Blocks whose T.reads and T.writes do not say what they touch, memories that are none, shifts by too many
// bits.
#include <gtest/gtest.h>

#include "ir/text.h"
#include "ir/tir.h"
#include "ir/verify.h"

namespace tenon {
namespace {

/// The code of what is wrong with the text, and the line of its first diagnostic.
std::string judged(const std::string& text) {
  const auto told = [](const Diagnostic& d) {
    const std::string at = d.location.empty() ? d.span.to_string() : d.location;
    return d.code + " " + at.substr(at.find(':') + 1);
  };
  try {
    DiagnosticList problems;
    verify(parse_module(text), problems);
    return problems.empty() ? "" : told(problems.all()[0]);
  } catch (const DiagnosticError& e) {
    return told(e.diagnostics[0]);
  }
}
/// A block over v in [0, 8) with these regions and this body, inside of a loop; the body is line 9.
std::string block(const std::string& reads, const std::string& writes, const std::string& body,
                  const std::string& where = "") {
  return judged(
      "@T.prim_func\n"
      "def f(A: T.Buffer((64,), \"float32\"), B: T.Buffer((64,), \"float32\"), I: T.Buffer((64,), "
      "\"int64\"), n: T.int64):\n"
      "    for i in range(8):\n"
      "        with T.block(\"b\"):\n"
      "            v = T.axis.spatial(8, i)\n" +
      (where.empty() ? "" : "            T.where(" + where + ")\n") + "            T.reads(" + reads +
      ")\n            T.writes(" + writes + ")\n" + body);
}

TEST(VerifyRegions, StoresOutsideOfWhatIsDeclared) {
  EXPECT_EQ(block("A[v]", "B[v]", "            B[v] = A[v]\n"), "");
  EXPECT_EQ(block("A[v]", "B[v]", "            B[v + 1] = A[v]\n"), "T0319 8:13");
  EXPECT_EQ(block("A[v]", "B[v]", "            B[v] = A[v]\n            A[v] = B[v]\n"), "T0319 9:13");
  EXPECT_EQ(block("A[v]", "A[v]", "            B[v] = A[v]\n"), "T0319 8:13");
  EXPECT_EQ(block("A[v]", "B[v * 4:v * 4 + 4]", "            B[v * 4 + 3] = A[v]\n"), "");
  EXPECT_EQ(block("A[v]", "B[v * 4:v * 4 + 4]", "            B[4 * v + 4] = A[v]\n"), "T0319 8:13");
  // In the last iterations of loops, inside of the block and around it.
  const std::string five = "            for j in range(5):\n                B[v * 4 + j] = A[v]\n";
  EXPECT_EQ(block("A[v]", "B[v * 4:v * 4 + 5]", five), "");
  EXPECT_EQ(block("A[v]", "B[v * 4:v * 4 + 4]", five), "T0319 9:17");
  EXPECT_EQ(block("A[v]", "B[0:8]", "            B[v] = A[v]\n"), "");
  EXPECT_EQ(block("A[v]", "B[0:7]", "            B[v] = A[v]\n"), "T0319 8:13");
  EXPECT_EQ(block("A[v]", "B[0:7]", "            B[v] = A[v]\n", "i < 7"), "");
  EXPECT_EQ(
      block("A[v]", "B[v:v + n]", "            for j in range(n):\n                B[v + j + 1] = A[v]\n"),
      "T0319 9:17");
  EXPECT_EQ(block("A[v]", "B[v]", "            B[T.Ramp(v, 1, 4)] = T.Broadcast(A[v], 4)\n"), "T0319 8:13");
  EXPECT_EQ(block("A[v]", "B[v:v + 4]", "            B[T.Ramp(v, 1, 4)] = T.Broadcast(A[v], 4)\n"), "");
}

TEST(VerifyRegions, ReadsOutsideOfWhatIsDeclared) {
  EXPECT_EQ(block("A[v + 1]", "B[v]", "            B[v] = A[v]\n"), "T0319 8:13");
  EXPECT_EQ(block("A[v], A[v + 2]", "B[v]", "            B[v] = A[v] + A[v + 2]\n"), "");
  EXPECT_EQ(block("A[v], A[v + 2]", "B[v]", "            B[v] = A[v + 1]\n"), "T0319 8:13");
  EXPECT_EQ(block("A[v]", "B[v]", "            B[v] = A[I[v]]\n"), "T0319 8:13") << "I is not declared";
  // What a block writes it may read.
  EXPECT_EQ(block("A[v]", "B[v]", "            B[v] = B[v] + A[v]\n"), "");
  EXPECT_EQ(block("A[v]", "B[v]", "            B[v] = B[v + 1] + A[v]\n"), "T0319 8:13");
}

/// Nothing is said where an access may not be made, or where an index is not known.
TEST(VerifyRegions, WhatIsNotCertain) {
  EXPECT_EQ(block("A[v], I[v]", "B[v]", "            B[v] = A[v]\n            B[I[v]] = A[v]\n"), "");
  EXPECT_EQ(block("A[v]", "B[v * 4:v * 4 + 4]",
                  "            for j in range(8):\n                if j < 4:\n                    B[v * 4 + "
                  "j] = A[v]\n"),
            "");
  EXPECT_EQ(block("A[v]", "B[1:8]", "            for j in range(v):\n                B[v] = A[v]\n"), "");
  EXPECT_EQ(block("A[v]", "B[v]",
                  "            C = T.alloc_buffer((8,), \"float32\")\n            C[v] = A[v]\n            "
                  "B[v] = C[v]\n"),
            "");
}

// Regions that follow from a body end where buffers do.
TEST(VerifyRegions, WhatLiesOutsideOfTheBufferIsNoQuestionOfRegions) {
  const auto never = [](const std::string& index) {
    return judged(
        "@T.prim_func\n"
        "def f(I: T.Buffer((2,), \"int64\"), B: T.Buffer((6,), \"int64\")):\n"
        "    for i in range(0):\n"
        "        with T.block(\"b\"):\n"
        "            v = T.axis.spatial(4, T.max(T.min(i, 3), 0))\n"
        "            B[v] = I[v % 2] + I[" +
        index + "]\n");
  };
  EXPECT_EQ(never("-1"), "");
  EXPECT_EQ(never("2"), "");
  EXPECT_EQ(block("A[v]", "B[v]", "            B[v] = A[v] + A[64]\n"), "T0337 8:13");
}

TEST(VerifyRegions, MemoriesAreKnown) {
  const auto in = [](const std::string& scope) {
    return judged(
        "@T.prim_func\ndef f(A: T.Buffer((8,), \"float32\")):\n    C = T.alloc_buffer((8,), scope=\"" +
        scope + "\")\n    for i in range(8):\n        C[i] = A[i]\n");
  };
  for (const char* known : {"", "global", "local", "shared.dyn", "global.vtcm", "wmma.matrix_a", "warp"})
    EXPECT_EQ(in(known), "") << known;
  for (const char* unknown : {"globel", "global2", "shared-dyn", "wmma"})
    EXPECT_EQ(in(unknown), "T0320 3:36") << unknown;
}

TEST(VerifyRegions, ShiftsByTooManyBits) {
  const auto by = [](const std::string& shift) {
    return judged(
        "@T.prim_func\ndef f(A: T.Buffer((8,), \"int32\"), n: T.int32):\n    for i in range(8):\n        "
        "A[i] = " +
        shift + "\n");
  };
  EXPECT_EQ(by("T.shift_left(A[i], 31)"), "");
  EXPECT_EQ(by("T.shift_left(A[i], n)"), "");
  EXPECT_EQ(by("T.shift_left(A[i], 32)"), "T0349 4:9");
  EXPECT_EQ(by("A[i] >> 40"), "T0349 4:9");
  EXPECT_EQ(by("T.shift_right(A[i], -1)"), "T0349 4:9");
  EXPECT_EQ(by("T.cast(T.shift_right(T.cast(A[i], \"int64\"), T.int64(40)), \"int32\")"), "");
}

TEST(VerifyRegions, ThreadsAndPointers) {
  const auto threads = [](const std::string& count) {
    return judged(
        "@T.prim_func\ndef f(A: T.Buffer((8,), \"float32\")):\n    t = T.launch_thread(\"threadIdx.x\", " +
        count + ")\n    A[t] = T.float32(1)\n");
  };
  EXPECT_EQ(threads("8"), "");
  EXPECT_EQ(threads("0").substr(0, 5), "T0309");
  EXPECT_EQ(threads("-8").substr(0, 5), "T0309");
  EXPECT_EQ(
      judged("@T.prim_func\ndef f(a: T.handle, b: T.handle):\n    A = T.match_buffer(a, (8,), \"float32\")\n"
             "    B = T.match_buffer(b, (8,), \"float32\", data=A.data)\n    B[0] = A[0]\n")
          .substr(0, 5),
      "T0312");
}

TEST(VerifyRegions, RacesOfVectorisedLoops) {
  const auto loop = [](const std::string& body) {
    return judged(
        "@T.prim_func\ndef f(A: T.Buffer((9,), \"float32\"), I: T.Buffer((9,), \"int64\"), n: T.int64):\n"
        "    for i in T.vectorized(8):\n        " +
        body + "\n");
  };
  EXPECT_EQ(loop("A[i] = A[i] + A[8]"), "");
  EXPECT_EQ(loop("A[i + 1] = A[i]"), "T0335 3:5");
  EXPECT_EQ(loop("A[0] = A[0] + A[i + 1]"), "T0335 3:5");
  EXPECT_EQ(loop("A[I[i]] = T.float32(1)"), "");  // `tenon lint` says that it runs in order
}

}  // namespace
}  // namespace tenon
