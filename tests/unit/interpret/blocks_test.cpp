// SPDX-License-Identifier: Apache-2.0
// Blocks, buffers and views, each run: inferred regions against the elements that were touched, matched
// regions, nested and opaque blocks, axis separators, elements that are vectors; and what is not well formed.
#include <random>
#include <set>

#include "ir/walk.h"
#include "support.h"

namespace tenon::interpret_test {
namespace {

// ---------------------------------------------------------------- regions that the text does not give
int64_t constant(const PrimExpr& e, const tir::VarMap& values) {
  tir::PrimFunc f;
  const PrimExpr x = tir::substitute(e, values);
  NDArray out = NDArray::zeros({1}, i64);
  const tir::Buffer b = tir::buffer("b", {PrimExpr(1)}, i64);
  const tir::VarRef p = tir::var("p", DataType::handle());
  interpret_prim_func(make<tir::PrimFuncNode>(Array<tir::VarRef>{p}, Map<tir::VarRef, tir::Buffer>{{p, b}},
                                              tir::store(b, x, {PrimExpr(0)}), DataType(), AttrMap()),
                      {out});
  return out.element_int(0);
}

/// Elements of a region for given values of the iterators.
std::set<std::vector<int64_t>> elements(const tir::BufferRegion& r, const tir::VarMap& values) {
  std::set<std::vector<int64_t>> out{{}};
  for (const tir::Range& x : r->region) {
    const int64_t min = constant(x->min, values), extent = constant(x->extent, values);
    std::set<std::vector<int64_t>> next;
    for (const auto& head : out)
      for (int64_t i = min; i < min + extent; ++i) {
        auto tail = head;
        tail.push_back(i);
        next.insert(tail);
      }
    out = next;
  }
  return out;
}

// Random affine accesses under loops inside a block: the inferred box is the box around what is touched;
// where the loops walk without gaps it is exactly that.
TEST(InferredRegions, HoldWhatTheBlockTouches) {
  std::mt19937 rng(3);
  auto below = [&](int n) { return int(rng() % unsigned(n)); };
  int exact = 0;
  for (int round = 0; round < 120; ++round) {
    const int e0 = 1 + below(4), e1 = 1 + below(3), c0 = below(3), c1 = below(3), k = below(4), w0 = below(2);
    const std::string at0 = std::to_string(c0) + " * i + v + " + std::to_string(k),
                      at1 = std::to_string(c1) + " * j + " + std::to_string(w0) + " * i",
                      at2 = "v * 4 + " + std::to_string(c1) + " * j";
    const std::string text = R"(
@T.prim_func
def f(A: T.Buffer((32, 32), "float32"), B: T.Buffer((64,), "float32")):
    for o in range(3):
        with T.block("b"):
            v = T.axis.opaque(3, o)
            for i, j in T.grid()" +
                             std::to_string(e0) + ", " + std::to_string(e1) + R"():
                B[)" + at2 + "] = A[" +
                             at0 + ", " + at1 + R"(] + T.float32(1)
)";
    const IRModule m = read(text);
    tir::Block const* block = nullptr;
    post_order(function(m), [&](const ObjectRef& n) {
      if (const auto* b = n.as<tir::Block>(); b && b->name == "b") block = b;
    });
    ASSERT_NE(block, nullptr);
    ASSERT_EQ(block->reads.size(), 1u) << print(m);
    ASSERT_EQ(block->writes.size(), 1u) << print(m);
    for (int v = 0; v < 3; ++v) {
      tir::VarMap values{{block->iter_vars[0]->var.get(), PrimExpr(v)}};
      std::set<std::vector<int64_t>> read, written;
      for (int i = 0; i < e0; ++i)
        for (int j = 0; j < e1; ++j) {
          read.insert({c0 * i + v + k, c1 * j + w0 * i});
          written.insert({v * 4 + c1 * j});
        }
      const auto r = elements(block->reads[0], values), w = elements(block->writes[0], values);
      EXPECT_TRUE(std::includes(r.begin(), r.end(), read.begin(), read.end())) << print(m);
      EXPECT_TRUE(std::includes(w.begin(), w.end(), written.begin(), written.end())) << print(m);
      for (size_t d = 0; d < 2; ++d) {  // no wider than the box around it
        auto side = [&](const std::set<std::vector<int64_t>>& s, bool top) {
          int64_t x = top ? INT64_MIN : INT64_MAX;
          for (const auto& p : s) x = top ? std::max(x, p[d]) : std::min(x, p[d]);
          return x;
        };
        EXPECT_EQ(side(r, false), side(read, false)) << print(m);
        EXPECT_EQ(side(r, true), side(read, true)) << print(m);
      }
      exact += r == read && w == written;
    }
  }
  EXPECT_GT(exact, 100);
}

TEST(InferredRegions, OfEveryStatementThatTouchesMemory) {
  const IRModule m = read(R"(
@T.prim_func
def f(A: T.Buffer((16,), "float32"), J: T.Buffer((16,), "int64"), B: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
    for o in range(4):
        with T.block("b"):
            v = T.axis.spatial(4, o)
            T.where(C[0] < 10.0)
            W = T.alloc_buffer((4,), "float32")
            M = T.match_buffer(B[v * 4:v * 4 + 4], (4,), "float32", elem_offset=T.Var("at", "int64"))
            x: T.float32 = A[v]
            for i in range(4):
                W[i] = x + A[J[i]]
            k: T.int64 = 0
            if A[4] > 0.0:
                M[3] = W[0]
            assert C[v + 1] < 100.0, "large"
            while W[1] < A[5]:
                W[1] = W[1] + 1.0
)");
  const std::string text = print(m);
  // A: all of it, since one index comes from memory; the matched region counts as its source; W is the
  // block's own.
  EXPECT_NE(text.find("T.reads(A[0:16], J[0:4], C[v + 1])"), std::string::npos) << text;
  EXPECT_NE(text.find("T.writes(B[v * 4:v * 4 + 4])"), std::string::npos) << text;
}

// ---------------------------------------------------------------- matched regions, nested and opaque blocks
TEST(MatchBuffer, SeesTheSourceWithItsStrides) {
  const IRModule m = read(R"(
@T.prim_func
def f(A: T.Buffer((6, 8), "int32"), B: T.Buffer((4, 3), "int32")):
    with T.block("outer"):
        M = T.match_buffer(A[1:5, 2:8], (4, 6), "int32", strides=[T.Var("s", "int64"), 1], elem_offset=T.Var("o", "int64"))
        for i, j in T.grid(4, 3):
            with T.block("inner"):
                vi, vj = T.axis.remap("SS", [i, j])
                N = T.match_buffer(M[vi:vi + 1, vj * 2:vj * 2 + 2], (1, 2), "int32", strides=[T.Var("s2", "int64"), 1], elem_offset=T.Var("o2", "int64"))
                R = T.match_buffer(M[vi, 0:6], (6,), "int32", elem_offset=T.Var("o3", "int64"))
                B[vi, vj] = N[0, 0] * 100 + N[0, 1] + R[0] * 10000
        M[0, 0] = -1
)");
  NDArray a = numbers({6, 8}, i32), b = NDArray::zeros({4, 3}, i32);
  interpret_prim_func(function(m), {a, b}, m);
  auto at = [](int i, int j) { return i * 8 + j; };
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 3; ++j)
      EXPECT_EQ(b.element_int(i * 3 + j),
                at(1 + i, 2 + 2 * j) * 100 + at(1 + i, 3 + 2 * j) + at(1 + i, 2) * 10000);
  EXPECT_EQ(a.element_int(at(1, 2)), -1);
}

// A size that a later buffer names is known where an earlier one computes with it.
TEST(SymbolicSizes, AreThoseOfAllBuffers) {
  const IRModule m = read(R"(
@T.prim_func
def f(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n * 2,), "int64")
    B = T.match_buffer(b, (n,), "int64")
    for i in range(n):
        B[i] = A[i * 2 + 1]
)");
  const NDArray b = numbers({3}, i64);
  EXPECT_EQ(run_error(m, {numbers({6}, i64), b}), "");
  EXPECT_EQ(values(b), (std::vector<double>{1, 3, 5}));
  EXPECT_EQ(run_error(m, {numbers({5}, i64), b}), "T0353");
}

TEST(NestedBlocks, ReductionInsideASpatialBlock) {
  const IRModule m = read(R"(
@T.prim_func
def f(A: T.Buffer((6, 8), "int32"), S: T.Buffer((6,), "int32")):
    for r in range(3):
        with T.block("rows"):
            v = T.axis.spatial(3, r)
            W = T.alloc_buffer((2,), "int32")
            for i, k in T.grid(2, 8):
                with T.block("sum"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        W[vi] = 0
                    W[vi] = W[vi] + A[v * 2 + vi, vk]
            with T.block("copy"):
                T.reads(W[0:2])
                T.writes(S[v * 2:v * 2 + 2])
                for i in range(2):
                    S[v * 2 + i] = W[i]
)");
  NDArray a = numbers({6, 8}, i32), s = NDArray::zeros({6}, i32);
  interpret_prim_func(function(m), {a, s}, m);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(s.element_int(i), 8 * (8 * i) + 28);
}

// An opaque iterator promises nothing about the order: a running sum keeps it.
TEST(OpaqueBlocks, KeepTheirOrder) {
  const IRModule m = read(R"(
@T.prim_func
def f(A: T.Buffer((10,), "int32"), S: T.Buffer((10,), "int32")):
    for i in range(10):
        with T.block("prefix"):
            v = T.axis.opaque(10, i)
            S[v] = A[v] + T.if_then_else(v > 0, S[T.max(v - 1, 0)], 0)
    with T.block("no iterators"):
        S[0] = S[0] + S[9]
)");
  NDArray a = numbers({10}, i32, 1), s = NDArray::zeros({10}, i32);
  interpret_prim_func(function(m), {a, s}, m);
  for (int i = 1; i < 10; ++i) EXPECT_EQ(s.element_int(i), (i + 1) * (i + 2) / 2);
  EXPECT_EQ(s.element_int(0), 1 + 55);
}

TEST(BlockBindings, OutsideTheirDomainAreFound) {
  const IRModule m = read(R"(
@T.prim_func
def f(A: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("b"):
            v = T.axis.spatial((2, 6), i)
            T.where(i >= 2)
            A[v] = 1
)");
  EXPECT_EQ(run_error(m, {NDArray::zeros({8}, i32)}), "T0356");
}

// ---------------------------------------------------------------- buffers
TEST(AxisSeparators, AreReadPrintedRunAndVerified) {
  const IRModule m = read(R"(
@T.prim_func
def f(A: T.Buffer((4, 6), "int32"), B: T.Buffer((4, 6), "int32", axis_separators=[1])):
    W = T.alloc_buffer((4, 2, 3), "int32", axis_separators=[1, 2])
    for i, j in T.grid(4, 6):
        with T.block("w"):
            vi, vj = T.axis.remap("SS", [i, j])
            W[vi, vj // 3, vj % 3] = A[vi, vj] * 2
    for i, j in T.grid(4, 6):
        with T.block("b"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = W[vi, vj // 3, vj % 3] + 1
)");
  EXPECT_NE(print(m).find("axis_separators=[1, 2]"), std::string::npos);
  NDArray a = numbers({4, 6}, i32), b = NDArray::zeros({4, 6}, i32);
  interpret_prim_func(function(m), {a, b}, m);
  for (int i = 0; i < 24; ++i) EXPECT_EQ(b.element_int(i), 2 * i + 1);
  auto buffer = [](const std::string& list) {
    return problem("@T.prim_func\ndef f(A: T.Buffer((4, 6), \"int32\", axis_separators=" + list +
                   ")):\n    pass\n");
  };
  EXPECT_EQ(buffer("[1]"), "");
  for (const char* bad : {"[0]", "[2]", "[1, 1]", "[-1]"}) EXPECT_EQ(buffer(bad), "T0305") << bad;
}

TEST(VectorElements, LieOneBehindTheOther) {
  const IRModule m = read(R"(
@T.prim_func
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    V = T.allocate((3,), "int32x4")
    V[0] = A[T.Ramp(0, 1, 4)]
    V[2] = A[T.Ramp(4, 1, 4)]
    V[1] = V[0] + V[2]
    V.vstore([T.Ramp(0, 2, 2)], V.vload([T.Ramp(1, 1, 2)]), predicate=T.Shuffle([T.Broadcast(True, 4), T.Broadcast(False, 4)], [0, 1, 4, 5, 6, 7, 2, 3]))
    B[T.Ramp(0, 1, 4)] = V[0]
    B[T.Ramp(4, 1, 4)] = V[2]
)");
  NDArray a = numbers({8}, i32, 1), b = NDArray::zeros({8}, i32);
  interpret_prim_func(function(m), {a, b}, m);
  // V0 = 1 2 3 4 takes two lanes of V1 = 6 8 10 12, V2 = 5 6 7 8 takes the last two of V2 itself.
  EXPECT_EQ(values(b), (std::vector<double>{6, 8, 3, 4, 5, 6, 7, 8}));
  const IRModule outside = read(R"(
@T.prim_func
def f(A: T.Buffer((8,), "int32")):
    V = T.allocate((2,), "int32x4")
    if A[0] != 5:
        V[2] = A[T.Ramp(0, 1, 4)]
)");
  EXPECT_EQ(run_error(outside, {NDArray::zeros({8}, i32)}), "T0355");
}

// ---------------------------------------------------------------- definitions come before uses
TEST(WellFormed, BuffersAndVariablesBeforeTheirDefinition) {
  auto body = [](const std::string& lines) {
    return problem("@T.prim_func\ndef f(A: T.Buffer((8,), \"float32\"), n: T.int64):\n" + lines);
  };
  // The text knows names by their place; what it cannot say is made of nodes in Verify.TensorPrograms.
  EXPECT_EQ(body("    B[0] = A[0]\n    B = T.alloc_buffer((8,), \"float32\")\n"), "T0220");
  EXPECT_EQ(body("    if n > 0:\n        x: T.float32 = A[0]\n        A[1] = x\n    A[2] = x\n"), "T0220");
  EXPECT_EQ(body("    for i in range(8):\n        A[i] = 0.0\n    A[i] = 1.0\n"), "T0220");
  EXPECT_EQ(body("    with T.block(\"b\"):\n        W = T.alloc_buffer((8,), \"float32\")\n        W[0] = "
                 "1.0\n    A[0] = W[0]\n"),
            "T0220");
  EXPECT_EQ(body("    for i in range(n):\n        with T.block(\"b\"):\n            v = T.axis.spatial(8, "
                 "j)\n            A[v] = 0.0\n"),
            "T0220");
}

/// A definition in one branch does not reach the other, nor what follows: dominance, over nodes.
TEST(WellFormed, UsesAreDominatedByTheirDefinition) {
  const tir::VarRef p = tir::var("p", DataType::handle()), x = tir::var("x", f32), i = tir::var("i");
  const tir::Buffer a = tir::buffer("A", {8}, f32), w = tir::buffer("W", {8}, f32);
  auto code = [&](const tir::Stmt& body) {
    DiagnosticList problems;
    verify_prim_func("f",
                     make<tir::PrimFuncNode>(Array<tir::VarRef>{p}, Map<tir::VarRef, tir::Buffer>{{p, a}},
                                             body, DataType(), AttrMap()),
                     problems);
    return problems.empty() ? std::string() : problems.all()[0].code;
  };
  auto put = [&](const PrimExpr& v) { return tir::store(a, v, {PrimExpr(0)}); };
  const PrimExpr one = PrimExpr::float_imm(1, f32);
  const tir::Stmt let = make<tir::LetStmt>(x, one, put(x)),
                  alloc = make<tir::Allocate>(w, tir::store(w, one, {PrimExpr(0)}), AttrMap());
  EXPECT_EQ(code(let), "");
  EXPECT_EQ(code(tir::seq({let, put(x)})), "T0303");
  EXPECT_EQ(code(tir::seq({put(x), let})), "T0303");
  EXPECT_EQ(code(make<tir::IfThenElse>(tir::true_(), let, put(x))), "T0303");
  EXPECT_EQ(code(tir::seq({alloc, put(tir::load(w, {PrimExpr(0)}))})), "T0304");
  EXPECT_EQ(code(tir::seq({put(tir::load(w, {PrimExpr(0)})), alloc})), "T0304");
  EXPECT_EQ(code(make<tir::LetStmt>(x, x, put(x))), "T0303");
  EXPECT_EQ(code(tir::for_(i, PrimExpr(0), i, put(one))), "T0303");
  EXPECT_EQ(code(put(make<tir::Let>(x, one, x) + PrimExpr(x))), "T0303");
  const auto block =
      make<tir::Block>(Array<tir::IterVar>{}, Array<tir::BufferRegion>(), Array<tir::BufferRegion>(),
                       std::string("b"), tir::store(w, one, {PrimExpr(0)}), tir::Stmt(),
                       Array<tir::Buffer>{w}, Array<tir::MatchBufferRegion>(), AttrMap());
  const tir::Stmt realize = make<tir::BlockRealize>(Array<PrimExpr>(), tir::true_(), block);
  EXPECT_EQ(code(realize), "");
  EXPECT_EQ(code(tir::seq({realize, put(tir::load(w, {PrimExpr(0)}))})), "T0304");
}

TEST(WellFormed, TypesOfIntrinsicsAndLanes) {
  auto value = [](const std::string& e) {
    return problem("@T.prim_func\ndef f(A: T.Buffer((64,), \"float32\"), n: T.int64):\n    T.evaluate(" + e +
                   ")\n");
  };
  for (const char* good : {"T.exp(A[0])", "T.isnan(A[T.Ramp(0, 1, 4)])", "T.popcount(n)",
                           "T.fma(A[0], A[1], A[2])", "T.ldexp(A[0], T.int32(3))",
                           "T.reinterpret(\"int32\", A[0])", "T.vector_reduce_max(A[T.Ramp(0, 1, 8)])",
                           "T.address_of(A[3])", "T.abs(n)", "T.call(\"tir.undef\", dtype=\"float32x4\")"})
    EXPECT_EQ(value(good), "") << good;
  for (const char* bad :
       {"T.call(\"tir.exp\", A[T.Ramp(0, 1, 4)], dtype=\"float32x8\")",
        "T.call(\"tir.exp\", n, dtype=\"int64\")", "T.call(\"tir.isnan\", A[0], dtype=\"float32\")",
        "T.call(\"tir.popcount\", A[0], dtype=\"int32\")",
        "T.call(\"tir.bitwise_and\", A[0], A[1], dtype=\"float32\")",
        "T.call(\"tir.fma\", A[0], A[1], dtype=\"float32\")",
        "T.call(\"tir.reinterpret\", A[0], dtype=\"int64\")",
        "T.call(\"tir.address_of\", A[0] + A[1], dtype=\"handle\")",
        "T.call(\"tir.vector_reduce_add\", A[T.Ramp(0, 1, 4)], dtype=\"float32x4\")",
        "T.call(\"tir.if_then_else\", n > 1, A[0], n, dtype=\"float32\")",
        "T.call(\"tir.call_extern\", n, dtype=\"int32\")",
        "T.call(\"tir.pow\", A[0], n > 1, dtype=\"float32\")",
        "T.call(\"tir.frobnicate\", n, dtype=\"int32\")"})
    EXPECT_EQ(value(bad), "T0314") << bad;
  EXPECT_EQ(value("T.cast(A[T.Ramp(0, 1, 4)], \"int32x8\")"), "T0301");
  EXPECT_EQ(value("A[0]"), "");
}

}  // namespace
}  // namespace tenon::interpret_test
