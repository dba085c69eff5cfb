// SPDX-License-Identifier: Apache-2.0
// What the verifier says of parallel loops, vectors and calls of intrinsics.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "ir/intrinsic_table.h"
#include "ir/parallel.h"
#include "ir/text.h"
#include "ir/tir.h"
#include "ir/verify.h"

namespace tenon {
namespace {

std::string codes(const IRModule& m) {
  DiagnosticList problems;
  verify(m, problems);
  std::string out;
  for (const Diagnostic& d : problems.all()) out += (out.empty() ? "" : " ") + d.code;
  return out;
}
/// A program of two buffers and a size; the codes that reading and verifying it give.
std::string body(const std::string& text) {
  try {
    return codes(
        parse_module("@T.prim_func\ndef f(A: T.Buffer((8,), \"float32\"), B: T.Buffer((8, 8), \"float32\"), "
                     "n: T.int64):\n" +
                     text));
  } catch (const DiagnosticError& e) {
    std::string out;
    for (const Diagnostic& d : e.diagnostics) out += (out.empty() ? "" : " ") + d.code;
    return out;
  }
}

TEST(VerifySizes, OfNumbersThatAreNotAddedUp) {
  const auto sized = [](const std::string& shape) {
    try {
      return codes(parse_module("@T.prim_func\ndef f(A: T.Buffer((" + shape +
                                ",), \"float32\")):\n    A[0] = T.float32(1)\n"));
    } catch (const DiagnosticError& e) {
      return e.diagnostics[0].code;
    }
  };
  EXPECT_EQ(sized("4 * 32 + 1 - 1"), "");
  EXPECT_EQ(sized("4611686018427387904 * 4"), "T0204");
  EXPECT_EQ(sized("4611686018427387904 * 1 * 4"), "T0401");
  EXPECT_EQ(sized("4 - 8"), "T0401");
}

TEST(VerifyLoops, LanesThatLeaveTheirBuffer) {
  EXPECT_EQ(body("    A[T.Ramp(0, 1, 8)] = A[T.Ramp(7, -1, 8)]\n"), "");
  EXPECT_EQ(body("    A[T.Ramp(4, 1, 8)] = A[T.Ramp(0, 1, 8)]\n"), "T0337");
  EXPECT_EQ(body("    A[T.Ramp(0, 1, 8)] = A[T.Ramp(6, -1, 8)]\n"), "T0337");
  EXPECT_EQ(body("    for i in range(2):\n        A[T.Ramp(i * 4, 1, 4)] = B[i, T.Ramp(0, 2, 4)]\n"), "");
  EXPECT_EQ(body("    for i in range(3):\n        A[T.Ramp(i * 4, 1, 4)] = B[i, T.Ramp(0, 2, 4)]\n"),
            "T0337");
  EXPECT_EQ(body("    A[T.Ramp(0, 1, 4)] = B[T.Broadcast(8, 4), T.Ramp(0, 1, 4)]\n"), "T0337");
  // A predicate may say that these lanes are off.
  EXPECT_EQ(body("    A.vstore([T.Ramp(4, 1, 8)], A[T.Ramp(0, 1, 8)], predicate=T.Broadcast(n > 3, 8))\n"),
            "");
}

TEST(VerifyLoops, DivisionsByZeroThatAreMade) {
  EXPECT_EQ(body("    for i in range(8):\n        A[i] = B[i // 0, 0]\n"), "T0360");
  EXPECT_EQ(body("    for i in range(8):\n        A[i % 0] = B[i, 0]\n"), "T0360");
  EXPECT_EQ(body("    A[0] = A[0] / T.float32(0)\n"), "");
  // Nothing comes here, or needs not.
  EXPECT_EQ(body("    if n > 3:\n        A[n // 0] = B[0, 0]\n"), "");
  EXPECT_EQ(body("    for i in range(n):\n        A[i // 0] = B[0, 0]\n"), "");
  EXPECT_EQ(body("    A[0] = T.if_then_else(n > 3, B[n // 0, 0], T.float32(0))\n"), "");
}

TEST(VerifyLoops, LoopsThatNeverEnd) {
  EXPECT_EQ(body("    while True:\n        A[0] = A[0] + T.float32(1)\n"), "T0333");
  EXPECT_EQ(body("    while True:\n        A[0] = A[0] + T.float32(1)\n        if A[0] > T.float32(9):\n"
                 "            break\n"),
            "");
  EXPECT_EQ(body("    while True:\n        assert A[0] < T.float32(9), \"enough\"\n"
                 "        A[0] = A[0] + T.float32(1)\n"),
            "");
  EXPECT_EQ(body("    while A[0] < T.float32(9):\n        A[0] = A[0] + T.float32(1)\n"), "");
}

TEST(VerifyLoops, InitsOfReductions) {
  const auto begins = [](const std::string& at) {
    return body(
        "    for i, j in T.grid(8, 8):\n        with T.block(\"sum\"):\n"
        "            v = T.axis.spatial(8, i)\n            r = T.axis.reduce(8, j)\n"
        "            with T.init():\n                A[" +
        at +
        "] = T.float32(0)\n"
        "            A[v] = A[v] + B[v, r]\n");
  };
  EXPECT_EQ(begins("v"), "");
  EXPECT_EQ(begins("r"), "T0334");
}

/// What a condition leaves of sizes and indices passes know and the verifier does not.
TEST(VerifyLoops, RacesUnderAConditionAreThoseOfGivenPrograms) {
  const auto behind_a_pass = [](const std::string& text) {
    DiagnosticList problems;
    VerifiedPrograms known;
    verify(parse_module("@T.prim_func\ndef f(A: T.Buffer((8,), \"float32\"), n: T.int64):\n" + text),
           problems, false, known);
    return problems.all().size();
  };
  const std::string race = "for i in T.parallel(n):\n", store = "A[0] = T.float32(1)\n";
  EXPECT_EQ(behind_a_pass("    if 3 - n >= n:\n        " + race + "            " + store), 0u);
  EXPECT_EQ(behind_a_pass("    " + race + "        " + store), 1u);
  EXPECT_EQ(body("    if 3 - n >= n:\n        " + race + "            " + store), "T0335");
}

TEST(VerifyLoops, RacesOfParallelLoops) {
  // The same element in every iteration.
  EXPECT_EQ(body("    for i in T.parallel(8):\n        A[0] = B[i, 0]\n"), "T0335");
  EXPECT_EQ(
      body("    for i in T.parallel(8):\n        for j in range(8):\n            A[j] = A[j] + B[i, j]\n"),
      "T0335");
  EXPECT_EQ(body("    for i in T.parallel(n):\n        A[n % 8] = T.float32(1)\n"), "T0335");
  // A size that is assumed to be 0 or 1 has no second iteration.
  const std::string same = "    for i in T.parallel(n):\n        A[0] = T.float32(1)\n";
  for (const char* few : {"n < 2", "n <= 1", "n >= 0 and n < 2", "n == 1"})
    EXPECT_EQ(body("    T.evaluate(T.assume(" + std::string(few) + "))\n" + same), "") << few;
  for (const char* many : {"n < 3", "n >= 1", "n == 2"})
    EXPECT_EQ(body("    T.evaluate(T.assume(" + std::string(many) + "))\n" + same), "T0335") << many;
  EXPECT_EQ(body("    for i in T.parallel(8):\n"
                 "        for k in range(8):\n"
                 "            with T.block(\"sum\"):\n"
                 "                v = T.axis.spatial(8, k)\n"
                 "                r = T.axis.reduce(8, i)\n"
                 "                A[v] = A[v] + B[r, v]\n"),
            "T0335");
  // An element for each, memory of the iteration's own, or an iteration that is picked.
  EXPECT_EQ(body("    for i in T.parallel(8):\n        A[i] = T.float32(0)\n"), "");
  EXPECT_EQ(
      body("    for i in T.parallel(8):\n        x: T.int64 = i * 3 % 8\n        A[x] = T.float32(0)\n"), "");
  EXPECT_EQ(body("    for i in T.parallel(8):\n        if i == 3:\n            A[0] = T.float32(0)\n"), "");
  EXPECT_EQ(
      body("    for i in T.parallel(8):\n        S = T.allocate((4,), \"float32\")\n        S[0] = A[i]\n"
           "        B[i, 0] = S[0]\n"),
      "");
  EXPECT_EQ(body("    for i in T.parallel(1):\n        A[0] = T.float32(0)\n"), "");
  EXPECT_EQ(body("    for i in T.parallel(T.min(n, 1)):\n        A[0] = T.float32(0)\n"), "");
}

// Two iterations that touch one element are named; conditions and sizes with values are followed, what memory
// or a symbol decides is left alone.
TEST(VerifyLoops, RacesOfTwoIterations) {
  auto message = [](const std::string& text) {
    DiagnosticList problems;
    verify(
        parse_module("@T.prim_func\ndef f(A: T.Buffer((8,), \"float32\"), B: T.Buffer((8, 8), \"float32\"), "
                     "n: T.int64):\n" +
                     text),
        problems);
    return problems.empty() ? std::string() : problems.all()[0].message;
  };
  const std::string loop = "    for i in T.parallel(8):\n        ";
  EXPECT_EQ(message(loop + "A[i // 2] = T.float32(1)\n"),
            "iterations 0 and 1 of the parallel loop `i` both store to A[0]");
  EXPECT_EQ(message("    for i in T.parallel(7):\n        A[i + 1] = A[i]\n"),
            "iteration 1 of the parallel loop `i` reads A[1], which iteration 0 stores to");
  EXPECT_EQ(message(loop + "B[n, i % 4] = A[i]\n"),
            "iterations 0 and 4 of the parallel loop `i` both store to B[n, 0]");
  EXPECT_EQ(message(loop + "if i >= 6:\n            A[3] = B[i, i]\n"),
            "iterations 6 and 7 of the parallel loop `i` both store to A[3]");
  // Memory around the loop may be planned inside of it only when each iteration fills it.
  EXPECT_EQ(
      message("    for i in T.parallel(n):\n        for j in range(8):\n            B[i // 2, j] = A[j]\n"),
      "iterations 0 and 1 of the parallel loop `i` both store to B[0, 0]");
  // Rows that overlap at their end.
  EXPECT_EQ(
      message(
          "    for i in T.parallel(2):\n        for j in range(5):\n            A[i * 3 + j] = B[i, j]\n"),
      "iterations 0 and 1 of the parallel loop `i` both store to A[3]");
  for (const char* fine : {
           "A[i] = A[i] + B[7 - i, i]\n",
           "if i < 4:\n            A[i] = A[i + 4]\n",
           "A[T.cast(B[i, 0], \"int64\") % 8] = T.float32(1)\n",
           "if n > 3:\n            A[i // 2] = T.float32(1)\n",
           "A[i] = T.if_then_else(i < 4, A[T.min(i + 4, 7)], T.float32(0))\n",
           "x: T.float32 = B[i, 0]\n        A[i] = x\n",
           "A[i * n] = T.float32(1)\n",
       })
    EXPECT_EQ(message(loop + fine), "") << fine;
}

// Random stores and loads, and all of their iterations one by one.
TEST(VerifyLoops, RacesOfTwoIterationsAreThoseOfAllIterations) {
  std::mt19937 random(20261126);
  auto pick = [&](int n) { return int(random() % unsigned(n)); };
  struct Index {
    int a, b, c, divisor;
    bool remainder;
    int operator()(int i, int j) const {
      const int x = a * i + b * j + c;
      return divisor < 2 ? x : remainder ? x % divisor : x / divisor;
    }
    std::string text() const {
      std::string x = fmt::format("(i * {} + j * {} + {})", a, b, c);
      return divisor < 2 ? x : fmt::format("{} {} {}", x, remainder ? "%" : "//", divisor);
    }
  };
  int races = 0;
  constexpr int kPrograms = 2000;
  for (int k = 0; k < kPrograms; ++k) {
    auto index = [&] { return Index{pick(5), pick(3), pick(4), pick(4) * pick(4), pick(2) == 0}; };
    const Index to = index(), from = index();
    const int n = 2 + pick(6), m = 1 + pick(5), least = pick(3) == 0 ? pick(n + 1) : 0;
    const std::string text = fmt::format(
        "@T.prim_func\ndef f(A: T.Buffer((128,), \"float32\"), B: T.Buffer((128,), \"float32\")):\n"
        "    for i in T.parallel({}):\n        for j in range({}):\n            if i >= {}:\n"
        "                A[{}] = {}[{}]\n",
        n, m, least, to.text(), pick(2) ? "A" : "B", from.text());
    const bool reads = text.find("= A[") != std::string::npos;
    bool race = false;
    for (int i = least; i < n; ++i)
      for (int other = least; other < n; ++other)
        for (int j = 0; i != other && j < m; ++j)
          for (int l = 0; l < m; ++l)
            race = race || to(i, j) == to(other, l) || (reads && to(i, j) == from(other, l));
    EXPECT_EQ(codes(parse_module(text)), race ? "T0335" : "") << text;
    races += race;
  }
  EXPECT_GT(races, kPrograms / 4);
  EXPECT_LT(races, kPrograms * 3 / 4);
}

TEST(VerifyLoops, RacesOfParallelLoopsWithJumps) {
  auto parallel = [](const std::string& inner) { return body("    for i in T.parallel(8):\n" + inner); };
  const std::string first = "        for j in range(8):\n            A[j] = B[i, j]\n",
                    stop = "            if B[i, j] > T.float32(0):\n";
  // What an iteration does before a jump, or where only a loop inside has ended.
  EXPECT_EQ(
      parallel("        A[0] = B[i, 0]\n        for j in range(8):\n" + stop + "                break\n"),
      "T0335");
  EXPECT_EQ(
      parallel("        for j in range(8):\n" + stop + "                break\n        A[0] = B[i, 0]\n"),
      "T0335");
  for (const char* jump : {"break", "continue"})
    EXPECT_EQ(parallel(first + stop + "                " + jump + "\n"), "T0335") << jump;
  // What stands behind a jump may be done by one iteration only.
  for (const char* jump : {"break", "continue"})
    EXPECT_EQ(parallel("        for j in range(8):\n" + stop + "                " + jump +
                       "\n            A[j] = B[i, j]\n"),
              "")
        << jump;
  // The parallel loop itself cannot be left.
  for (const char* jump : {"break", "continue", "return"})
    EXPECT_EQ(parallel("        if B[i, 0] > T.float32(0):\n            " + std::string(jump) +
                       "\n        A[0] = B[i, 0]\n"),
              "T0339")
        << jump;
}

TEST(VerifyLoops, AccessesOutsideOfTheirBuffer) {
  auto block = [](const std::string& index, const std::string& more = "") {
    return body(
        "    for i in range(8):\n        with T.block(\"b\"):\n            v = T.axis.spatial(8, i)\n" +
        more + "            A[v] = B[0, " + index + "]\n");
  };
  EXPECT_EQ(block("v + 100000000"), "T0337");
  EXPECT_EQ(block("v + 1"), "T0337");
  EXPECT_EQ(block("v - 1"), "T0337");
  EXPECT_EQ(block("v"), "");
  EXPECT_EQ(block("7 - v"), "");
  EXPECT_EQ(block("v + n"), "");
  EXPECT_EQ(block("v - 1", "            T.where(i > 0)\n"), "");
  EXPECT_EQ(body("    for i in range(8):\n        A[i + 1] = T.float32(0)\n"), "T0337");
  EXPECT_EQ(body("    for i in range(8):\n        A[i] = T.exp(A[i + 1])\n"), "T0337");
  EXPECT_EQ(body("    for i in range(8):\n        if i > 0:\n            A[i - 1] = T.float32(0)\n"), "");
  EXPECT_EQ(body("    for i in range(8):\n        A[i] = T.if_then_else(i > 0, A[i - 1], T.float32(0))\n"),
            "");
  EXPECT_EQ(body("    for i in range(n):\n        A[8] = T.float32(0)\n"), "");  // there may be no iteration
  EXPECT_EQ(body("    A[8] = T.float32(0)\n"), "T0337");
}

TEST(VerifyLoops, NumbersAtTheEndsOfTheirTypeAreNotAddedUp) {
  const std::string least = "T.int64(-9223372036854775808)", most = "T.int64(9223372036854775807)";
  for (const std::string& end : {least, most})
    for (const char* index : {"i + {}", "i - {}", "{} - i", "i * 3 + {}"})
      EXPECT_EQ(body("    for i in range(8):\n        A[" + fmt::format(fmt::runtime(index), end) +
                     "] = T.float32(0)\n"),
                "")
          << index << " " << end;
  EXPECT_EQ(body("    for i in range(" + least + ", " + least +
                 " + T.int64(8)):\n        A[i - 1] = T.float32(0)\n"),
            "");
}

TEST(VerifyLoops, IteratorsThatLeaveTheirDomain) {
  auto block = [](const std::string& loop, const std::string& value, const std::string& more = "") {
    return body("    for " + loop + ":\n        with T.block(\"b\"):\n            v = T.axis.spatial(8, " +
                value + ")\n" + more + "            A[v] = T.float32(0)\n");
  };
  EXPECT_EQ(block("i in range(16)", "i"), "T0336");
  EXPECT_EQ(body("    for i in range(8):\n        with T.block(\"b\"):\n"
                 "            v = T.axis.spatial((T.int64(-9223372036854775808), 8), i)\n"
                 "            A[0] = T.float32(0)\n"),
            "");
  EXPECT_EQ(block("i in range(8)", "i + 1"), "T0336");
  EXPECT_EQ(block("i, j in T.grid(3, 4)", "i * 4 + j"), "T0336");
  EXPECT_EQ(block("i in range(8)", "i"), "");
  EXPECT_EQ(block("i, j in T.grid(2, 4)", "i * 4 + j"), "");
  // What a predicate keeps out, and what nobody knows.
  EXPECT_EQ(block("i in range(16)", "i", "            T.where(i < 8)\n"), "");
  EXPECT_EQ(block("i in range(n)", "i"), "");
  EXPECT_EQ(block("i in range(16)", "i % 8"), "");
}

TEST(VerifyLoops, VectorsOutOfRange) {
  using namespace tir;
  auto problem = [](const PrimExpr& e) {
    IRModule m = IRModule::create();
    m.set("f", make<PrimFuncNode>(Array<VarRef>(), Map<VarRef, Buffer>(), Stmt(make<Evaluate>(e)),
                                  DataType::void_(), AttrMap()));
    return codes(m);
  };
  const PrimExpr four = make<Ramp>(PrimExpr(0), PrimExpr(1), int64_t(4));
  EXPECT_EQ(problem(make<Shuffle>(Array<PrimExpr>{four}, Array<int64_t>{0, 3})), "");
  EXPECT_EQ(problem(make<Shuffle>(Array<PrimExpr>{four}, Array<int64_t>{0, 4})), "T0308");
}

TEST(Verify, ProgramsThatAreKnownAreNotLookedAtAgain) {
  IRModule m = parse_module(
      "@T.prim_func\ndef f(A: T.Buffer((8,), \"float32\")):\n    A[0] = T.float32(1)\n"
      "@T.prim_func\ndef g(A: T.Buffer((8,), \"float32\")):\n    A[0] = T.float32(2)\n");
  auto found = [](const IRModule& module, VerifiedPrograms& known) {
    DiagnosticList problems;
    verify(module, problems, false, known);
    std::string out;
    for (const Diagnostic& d : problems.all()) out += d.code + " " + d.location + "; ";
    return out;
  };
  VerifiedPrograms known;
  EXPECT_EQ(found(m, known), "");
  EXPECT_EQ(known.size(), 2u);
  // Held by `known`, so that an edit makes another program of it.
  auto f = m.find("f").cast<tir::PrimFuncNode>();
  m.set("f", ObjectRef());
  f.edit()->body = tir::Stmt();
  m.set("f", f);
  for (const int threads : {1, 2}) {
    const ParallelPrograms parallel(threads);
    EXPECT_EQ(found(m, known), "T0315 function `f`; ");
    EXPECT_EQ(known.size(), 2u);
  }
  EXPECT_EQ(codes(m), "T0315");
}

TEST(Intrinsics, CallsHaveTheTypeOfTheirRule) {
  EXPECT_EQ(body("    A[0] = T.exp(A[1])\n"), "");
  EXPECT_EQ(
      body("    A[0] = T.call(\"tir.exp\", B[0, 0], dtype=\"float32\") + T.cast(T.call(\"tir.exp\", A[0], "
           "dtype=\"float64\"), \"float32\")\n"),
      "T0314");
  EXPECT_EQ(body("    T.evaluate(T.call(\"tir.storage_sync\", \"shared\", dtype=\"int32\"))\n"), "T0314");
  EXPECT_EQ(body("    T.evaluate(T.call(\"tir.frobnicate\", dtype=\"int32\"))\n"), "T0314");
}

TEST(Intrinsics, EveryOneHasAGroupAndADescription) {
  for (const tir::Intrinsic& i : tir::all_intrinsics()) {
    EXPECT_FALSE(i.doc.empty()) << i.name;
    EXPECT_FALSE(to_string(tir::group_of(i)).empty()) << i.name;
    // What needs threads is no pure function of its arguments.
    if (tir::group_of(i) >= tir::IntrinsicGroup::atomic) {
      EXPECT_FALSE(i.pure) << i.name;
    }
  }
}

}  // namespace
}  // namespace tenon
