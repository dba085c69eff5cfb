// SPDX-License-Identifier: Apache-2.0
// Hostile texts: large files, mistakes of every kind at once, blocks that do not end, vectors that do not
// exist. All mistakes are reported with their locations, nothing crashes, and reading takes time in
// proportion to the text.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <functional>

#include "ir/structural.h"
#include "ir/text.h"
#include "ir/tir.h"
#include "ir/verify.h"

namespace tenon {
namespace {

std::vector<Diagnostic> mistakes_of(const std::string& text) {
  try {
    const IRModule m = parse_module(text);
    verify_or_throw(m);
  } catch (const DiagnosticError& e) {
    return e.diagnostics;
  }
  return {};
}
std::vector<std::string> places(const std::string& text) {  // "T0220:3"
  std::vector<std::string> out;
  for (const Diagnostic& d : mistakes_of(text)) {
    const size_t a = d.location.find(':'), b = d.location.find(':', a + 1);
    out.push_back(d.code + ":" + (a == std::string::npos ? "" : d.location.substr(a + 1, b - a - 1)));
  }
  return out;
}
const std::string kHead = "@T.prim_func\ndef f(A: T.Buffer((64,), \"float32\"), n: T.int64):\n";

std::string repeated(const std::string& s, size_t bytes) {
  std::string out;
  out.reserve(bytes + s.size());
  while (out.size() < bytes) out += s;
  return out;
}

TEST(BadInput, ManyMistakesOfOneTextAreReported) {
  const auto found =
      places(kHead +
             "    A[0] = unknown\n"                                                               // 3
             "    for i in range(8):\n"                                                           // 4
             "        A[i, 0] = 1.0\n"                                                            // 5
             "        A[i] = A.data\n"                                                            // 6
             "        A[T.Ramp(0, 1, 70000)] = 1.0\n"                                             // 7
             "    B[0] = 1.0\n"                                                                   // 8
             "    A[0] = T.float99(1)\n"                                                          // 9
             "    with T.block(\"b\"):\n"                                                         // 10
             "        v = T.axis.sideways(8, 0)\n"                                                // 11
             "        A[1] = 1.0\n"                                                               // 12
             "    A[0] = T.exp(A[0], A[1])\n"                                                     // 13
             "    A[0] = T.Shuffle([A[0]], [9])\n"                                                // 14
             "    C = T.allocate((8,), \"float32x40000\")\n"                                      // 15
             "    A[0] = A[1] + T.Broadcast(T.float32(1), 4) + T.Broadcast(T.float32(1), 8)\n");  // 16
  EXPECT_EQ(found, (std::vector<std::string>{"T0220:3", "T0233:5", "T0230:6", "T0224:7", "T0220:8", "T0222:9",
                                             "T0222:11", "T0223:13", "T0224:14", "T0224:15", "T0230:16"}));
}

// A statement ends at its first mistake, and a loop or branch at that of its head; what else they name that
// nothing defines is said, too, each name once a statement.
TEST(BadInput, AllUnknownNamesOfAStatementAreReported) {
  auto columns = [](const std::string& text) {  // "code:line:column"
    std::vector<std::string> out;
    for (const Diagnostic& d : mistakes_of(text)) out.push_back(d.code + d.location.substr(6));
    std::sort(out.begin(), out.end());
    return out;
  };
  EXPECT_EQ(columns(kHead + "    A[j] = A[i] + k * T.nosuch(A[i]) + T.exp(m)\n"
                            "    for v in range(p):\n"
                            "        A[v] = A[v + q]\n"
                            "    while r:\n"
                            "        A[0] = s\n"
                            "    with T.block(\"b\"):\n"
                            "        w = T.axis.spatial(u, t)\n"
                            "        A[w] = 1.0\n"),
            (std::vector<std::string>{"T0220:3:14", "T0220:3:19", "T0220:3:46", "T0220:3:7", "T0220:4:20",
                                      "T0220:5:22", "T0220:6:11", "T0220:7:16", "T0220:9:28", "T0220:9:31",
                                      "T0222:3:23"}));
  EXPECT_EQ(columns("@R.function\n"
                    "def main(x: R.Tensor((4, 4), \"float32\")):\n"
                    "    y = R.add(u, R.multiply(v, R.nosuch(v)))\n"
                    "    if R.any(c, d):\n"
                    "        z = e\n"
                    "    else:\n"
                    "        z = f\n"
                    "    s = R.match_cast(g, R.Tensor((n, 4), \"float32\"))\n"
                    "    t = R.full(R.shape([n]), R.const(1, \"float32\"))\n"
                    "    return R.concat((y, z, h))\n"),
            (std::vector<std::string>{"T0220:10:28", "T0220:3:15", "T0220:3:29", "T0220:4:14", "T0220:4:17",
                                      "T0220:5:13", "T0220:7:13", "T0220:8:22", "T0222:3:32"}));
}

TEST(BadInput, BuffersBeyondMemoryHaveTheirPlace) {
  EXPECT_EQ(places("@T.prim_func\n"
                   "def f(A: T.Buffer((4294967296, 4294967296), \"int8\"),\n"
                   "      B: T.Buffer((8,), \"int8\")):\n"
                   "    C = T.alloc_buffer((4294967296, 4294967296), \"int32\")\n"
                   "    B[0] = A[0, 0]\n"),
            (std::vector<std::string>{"T0401:2", "T0401:4"}));
}

TEST(BadInput, OneMistakeDoesNotHideThoseOfOtherFunctions) {
  std::string text;
  std::vector<std::string> want;
  for (int k = 0; k < 500; ++k) {
    text += "@T.prim_func\ndef f" + std::to_string(k) +
            "(A: T.Buffer((8,), \"float32\")):\n    A[0] = missing" + std::to_string(k) + "\n";
    want.push_back("T0220:" + std::to_string(3 * k + 3));
  }
  EXPECT_EQ(places(text), want);
}

TEST(BadInput, BlocksThatDoNotBalance) {
  auto first = [](const std::string& body) {
    const auto found = places(kHead + body);
    return found.empty() ? std::string() : found[0];
  };
  EXPECT_EQ(first("    for i in range(8):\n"), "T0208:4");
  EXPECT_EQ(first("    for i in range(8):\n    A[0] = 1.0\n"), "T0208:4");
  EXPECT_EQ(first("    A[0] = 1.0\n        A[1] = 1.0\n"), "T0208:4");
  EXPECT_EQ(first("    if n > 1:\n        A[0] = 1.0\n      A[1] = 1.0\n"), "T0203:5");
  EXPECT_EQ(first("    else:\n        A[0] = 1.0\n").substr(0, 3), "T02");
  EXPECT_EQ(first("    for i in range(8):\n        with T.init():\n            A[0] = 1.0\n"), "T0235:4");
  EXPECT_EQ(first("    A[0] = (1.0\n    A[1] = 2.0\n"), "T0205:3");
  EXPECT_EQ(first("    A[0] = 1.0)\n"), "T0206:3");
  EXPECT_EQ(first("    A[(0] = 1.0)\n"), "T0206:3");
  EXPECT_EQ(first("    assert n > 1, \"never closed\n"), "T0202:3");
}

TEST(BadInput, VectorsOutOfRange) {
  auto first = [](const std::string& body) {
    const auto found = mistakes_of(kHead + "    " + body + "\n");
    return found.empty() ? std::string() : found[0].code;
  };
  EXPECT_EQ(first("A[T.Ramp(0, 1, 8)] = T.Broadcast(T.float32(1), 8)"), "");
  for (const char* lanes : {"1", "0", "-4", "32768", "65536", "9223372036854775807", "n", "1.5", "\"8\""}) {
    EXPECT_NE(first(std::string("A[T.Ramp(0, 1, ") + lanes + ")] = 1.0"), "") << lanes;
    EXPECT_NE(first(std::string("T.evaluate(T.Broadcast(n, ") + lanes + "))"), "") << lanes;
  }
  EXPECT_EQ(first("A[T.Ramp(0, 1, 8)] = T.Broadcast(T.float32(1), 4)"), "T0230");
  EXPECT_EQ(first("A[T.Ramp(T.Ramp(0, 1, 4), 1, 4)] = 1.0"), "T0224");
  EXPECT_EQ(first("T.evaluate(T.Broadcast(T.Broadcast(n, 4), 4))"), "T0224");
  EXPECT_EQ(first("T.evaluate(T.Ramp(T.float32(0), T.float32(1), 4))"), "T0224");
  EXPECT_EQ(first("T.evaluate(T.Shuffle([T.Broadcast(n, 4)], [4]))"), "T0224");
  EXPECT_EQ(first("T.evaluate(T.Shuffle([T.Broadcast(n, 4)], [-1]))"), "T0224");
  EXPECT_EQ(
      first("A.vstore([T.Ramp(0, 1, 4)], T.Broadcast(T.float32(1), 4), predicate=T.Broadcast(True, 8))"),
      "T0308");
  EXPECT_EQ(first("T.evaluate(A.vload([T.Ramp(0, 1, 4)], predicate=n))"), "T0308");
  EXPECT_EQ(first("B = T.allocate((8, 8), \"float32\")\n    B[T.Ramp(0, 1, 4), T.Ramp(0, 1, 8)] = "
                  "T.Broadcast(T.float32(1), 8)"),
            "T0308");
}

// A function that calls itself is text like any other; who runs it meets the limit of depth (test_interpret).
TEST(BadInput, DefinitionsThatUseThemselves) {
  auto first = [](const std::string& text) {
    const auto found = mistakes_of(text);
    return found.empty() ? std::string() : found[0].code;
  };
  EXPECT_EQ(first(kHead + "    x: T.float32 = x + 1.0\n    A[0] = x\n"), "T0220");
  EXPECT_EQ(first(kHead + "    for i in range(i):\n        A[i] = 0.0\n"), "T0220");
  EXPECT_EQ(first("@T.prim_func\ndef f(A: T.Buffer((A[0],), \"float32\")):\n    A[0] = 1.0\n").substr(0, 3),
            "T02");
  EXPECT_EQ(first(kHead + "    B = T.alloc_buffer((B[0],), \"float32\")\n    B[0] = 1.0\n"), "T0220");
  EXPECT_EQ(first("@I.ir_module\nclass M:\n    @I.data_type\n    class L:\n        C: (K,)\n"), "T0229");
}

// ---------------------------------------------------------------- size
constexpr size_t kMegabyte = size_t(1) << 20;

TEST(BadInput, TenMegabytesOfGoodText) {
  const std::string line = "    A[3] = A[4] * T.float32(2) + A[T.min(n, 63)]\n";
  const std::string text = kHead + repeated(line, 10 * kMegabyte);
  const IRModule m = parse_module(text);
  const auto f = m.find("f").cast<tir::PrimFuncNode>();
  EXPECT_EQ(f->body.as<tir::SeqStmt>()->seq.size(), (10 * kMegabyte + line.size() - 1) / line.size());
}

TEST(BadInput, TenMegabytesWithAMistakeAtTheirEnd) {
  const std::string line = "    A[3] = A[4] * T.float32(2) + A[T.min(n, 63)]\n";
  const std::string good = repeated(line, 10 * kMegabyte);
  const auto found = mistakes_of(kHead + good + "    A[3] = missing\n");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].code, "T0220");
  EXPECT_EQ(found[0].location, "<text>:" + std::to_string(good.size() / line.size() + 3) + ":12");
}

TEST(BadInput, TenMegabytesOfOneThing) {
  const size_t n = 10 * kMegabyte, less = kMegabyte;  // of what has many parts
  const std::pair<const char*, std::string> texts[] = {
      {"brackets", kHead + "    A[0] = " + repeated("(", n)},
      {"closing brackets", kHead + "    A[0] = 1.0" + repeated(")", n)},
      {"a string", kHead + "    assert n > 1, \"" + repeated("x", n) + "\n"},
      {"a name", kHead + "    A[0] = " + repeated("x", n) + "\n"},
      {"a number", kHead + "    A[0] = " + repeated("7", n) + "\n"},
      {"a comment", repeated("#", n)},
      {"empty lines", repeated("\n", n)},
      {"spaces", kHead + repeated(" ", n) + "A[0] = missing\n"},
      {"good lines before a thousand mistakes",
       kHead + repeated("    A[0] = 1.0\n", less) + repeated("    A[0] = missing\n", 20000)},
      {"commas", kHead + "    A[0" + repeated(",", less) + "] = 1.0\n"},
      {"a list", kHead + "    T.func_attr({\"a\": [" + repeated("1, ", less) + "1]})\n    A[0] = missing\n"},
      {"mistakes", kHead + repeated("    A[0] = missing\n", less)},
      {"signs", repeated("$", less)},
      {"zeros", std::string(n, '\0')},
      {"bytes that are no text", std::string(n, '\xff')},
      {"statements of one mistake each", kHead + repeated("    A[0 = 1.0\n", less)},
      {"functions", repeated("@T.prim_func\ndef f(A: T.Buffer((8,), \"float32\")):\n    pass\n", less)}};
  for (const auto& [what, text] : texts) {
    const auto found = mistakes_of(text);
    const std::string name = what;
    if (name == "a comment" || name == "empty lines") continue;  // an empty module, or a refusal
    ASSERT_FALSE(found.empty()) << what;
    EXPECT_LE(found.size(), 1001u) << what;
    EXPECT_EQ(found[0].code.substr(0, 3), "T02") << what;
    EXPECT_FALSE(found[0].location.empty()) << what;
    EXPECT_LT(render(found[0]).size(), 4000u) << what;  // the line is not shown as a whole
  }
}

/// Eight times the text takes at most sixteen times as long (the smaller of two; a machine with other work
/// is slow now and then, and quadratic time would be sixty-four times).
TEST(BadInput, TimeGrowsWithTheText) {
  const std::pair<const char*, std::function<std::string(size_t)>> kinds[] = {
      {"statements", [](size_t n) { return kHead + repeated("    A[3] = A[4] * T.float32(2)\n", n); }},
      {"mistakes", [](size_t n) { return kHead + repeated("    A[0] = missing\n", n); }},
      {"names",
       [](size_t n) {
         std::string s = kHead;
         for (size_t k = 0; s.size() < n; ++k) s += "    x" + std::to_string(k) + ": T.float32 = A[0]\n";
         return s.substr(0, s.rfind('\n', n) + 1);
       }},
      {"functions",
       [](size_t n) {
         std::string s;
         for (size_t k = 0; s.size() < n; ++k)
           s += "@T.prim_func\ndef f" + std::to_string(k) +
                "(A: T.Buffer((8,), \"float32\")):\n    A[0] = 1.0\n";
         return s;
       }},
      {"blocks",
       [](size_t n) {
         return kHead + repeated(
                            "    for i in range(8):\n        with T.block(\"b\"):\n            v = "
                            "T.axis.spatial(8, i)\n"
                            "            A[v] = A[v] + 1.0\n",
                            n);
       }},
      {"graph bindings",
       [](size_t n) {
         std::string s = "@R.function\ndef f(x: R.Tensor((2,), \"float32\")):\n";
         size_t k = 0;
         for (; s.size() < n; ++k)
           s +=
               "    y" + std::to_string(k) + " = R.add(" + (k ? "y" + std::to_string(k - 1) : "x") + ", x)\n";
         return s + "    return y" + std::to_string(k - 1) + "\n";
       }},
  };
  for (const auto& [what, make_text] : kinds) {
    auto time = [&](size_t bytes) {
      const std::string text = make_text(bytes);
      double best = HUGE_VAL;
      for (int k = 0; k < 2; ++k) {
        const std::clock_t start = std::clock();  // of this process: a machine may have other work
        try {
          parse_module(text);
        } catch (const DiagnosticError&) {
        }
        best = std::min(best, double(std::clock() - start) / CLOCKS_PER_SEC);
      }
      return best;
    };
    const double small = time(kMegabyte / 32);
    double large = time(kMegabyte / 4);
    // Other work can slow one moment: what grows too fast does so every time.
    for (int again = 0; large >= 16 * small + 0.01 && again < 8; ++again)
      large = std::min(large, time(kMegabyte / 4));
    EXPECT_LT(large, 16 * small + 0.01) << what << ": " << small << " s and " << large << " s";
  }
}

}  // namespace
}  // namespace tenon
