// SPDX-License-Identifier: Apache-2.0
// Tensors without a buffer (ProducerLoad, ProducerStore) in tensor programs: text, verifier, equality and the
// interpreter.
#include <gtest/gtest.h>

#include "interpret/interpret.h"
#include "ir/structural.h"
#include "ir/text.h"
#include "ir/tir.h"
#include "ir/verify.h"
#include "te/te.h"

namespace tenon {
namespace {

const char* const kRunningSum = R"(
@T.prim_func
def f(A: T.Buffer((n, 4), "float32"), B: T.Buffer((n, 4), "float32")):
    T.func_attr({"global_symbol": "f"})
    S = T.producer((n, 4), "float32")
    one = T.producer((), "int64")
    one[()] = 1
    for i, j in T.grid(n, 4):
        if j == 0:
            S[i, j] = A[i, j]
        else:
            S[i, j] = S[i, j - one[()]] + A[i, j]
        S[i, j] *= T.float32(2)
        B[i, j] = S[i, j]
)";

std::string problems_of(const IRModule& m) {
  DiagnosticList problems;
  verify(m, problems);
  std::string text;
  for (const Diagnostic& d : problems.all()) text += render(d) + "\n";
  return text;
}
std::string mistake_in(const std::string& text) {
  try {
    parse_module(text);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}
tir::PrimFunc first_of(const IRModule& m) {
  for (auto [name, f] : m.functions()) return f.cast<tir::PrimFuncNode>();
  return {};
}

TEST(Producer, ReadAndPrinted) {
  const IRModule m = parse_module(kRunningSum);
  EXPECT_EQ(problems_of(m), "");
  const std::string text = print(m);
  EXPECT_NE(text.find("S = T.producer((n, 4), \"float32\")"), std::string::npos) << text;
  EXPECT_NE(text.find("one = T.producer((), \"int64\")"), std::string::npos) << text;
  const IRModule again = parse_module(text);
  EXPECT_EQ(first_difference(m, again), "") << text;
  EXPECT_EQ(structural_hash(m), structural_hash(again));
  EXPECT_EQ(print(again), text);
  EXPECT_EQ(first_difference(m, from_json(to_json(m))), "");
}

TEST(Producer, Interpreted) {
  const tir::PrimFunc f = first_of(parse_module(kRunningSum));
  NDArray a = NDArray::empty({3, 4}, f32), b = NDArray::zeros({3, 4}, f32);
  for (int64_t i = 0; i < 12; ++i) a.set_element(i, double(i) - 5);
  interpret_prim_func(f, {a, b});
  for (int64_t i = 0; i < 3; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < 4; ++j) {
      sum = (sum + a.element(i * 4 + j)) * 2;
      EXPECT_EQ(b.element(i * 4 + j), sum) << i << ", " << j;
    }
  }
}

TEST(Producer, AnElementNeverStored) {
  ParseOptions options;
  options.name = "program.tir";
  const tir::PrimFunc f = first_of(parse_module(R"(
@T.prim_func
def f(A: T.Buffer((4,), "float32")):
    S = T.producer((4,), "float32")
    S[1] = T.float32(5)
    for i in range(4):
        A[i] = S[i + 1]
)",
                                                options));
  NDArray a = NDArray::zeros({4}, f32);
  try {
    interpret_prim_func(f, {a});
    FAIL() << "an element that was never stored was read";
  } catch (const Error& e) {
    EXPECT_EQ(e.code, "T0359");
    EXPECT_NE(e.message.find("element [2] of tensor S"), std::string::npos) << e.message;
    EXPECT_EQ(e.location.substr(0, 13), "program.tir:7") << e.location;
  }
  EXPECT_EQ(a.element(0), 5);
}

TEST(Producer, AnElementOutsideTheShape) {
  const tir::PrimFunc f = first_of(parse_module(R"(
@T.prim_func
def f(n: T.int64):
    S = T.producer((4,), "float32")
    S[n] = T.float32(5)
)"));
  NDArray n = NDArray::zeros({}, i64);
  interpret_prim_func(f, {n});
  n.set_element_int(0, 4);
  try {
    interpret_prim_func(f, {n});
    FAIL() << "an element outside was stored";
  } catch (const Error& e) {
    EXPECT_EQ(e.code, "T0355");
  }
}

TEST(Producer, MistakesInText) {
  auto f = [](const std::string& body) {
    return "@T.prim_func\ndef f(A: T.Buffer((4,), \"float32\")):\n    S = T.producer((4, 4), \"float32\")\n  "
           "  " +
           body + "\n";
  };
  EXPECT_NE(mistake_in(f("A[0] = S[0]")).find("T0233"), std::string::npos);
  EXPECT_NE(mistake_in(f("A[0] = S[0, T.float32(1)]")).find("T0233"), std::string::npos);
  EXPECT_NE(mistake_in(f("S[0, 0] = A.data")).find("T0230"), std::string::npos);
  EXPECT_NE(mistake_in(f("A[0] = S")).find("T0225"), std::string::npos);
  EXPECT_NE(mistake_in(f("R = S")).find("T0225"), std::string::npos);
  EXPECT_NE(mistake_in(f("A[0] = R[0]")).find("T0220"), std::string::npos);
  EXPECT_NE(mistake_in(f("R = T.producer((k,), \"float32\")")).find("T0220"), std::string::npos);
  EXPECT_NE(mistake_in(f("R = T.producer((4,), \"float32\", \"global\")")).find("T0223"), std::string::npos);
  EXPECT_EQ(mistake_in(f("A[0] = S[0, 0]")), "");
}

TEST(Producer, Verified) {
  using namespace tir;
  auto t = make<DataProducerNode>(Array<PrimExpr>{PrimExpr(int64_t(4))}, f32, std::string("t"));
  auto problems = [&](const Stmt& body) {
    IRModule m = IRModule::create();
    m.set("f", make<PrimFuncNode>(Array<VarRef>(), Map<VarRef, Buffer>(), body, DataType(), AttrMap()));
    return problems_of(m);
  };
  const PrimExpr zero(int64_t(0));
  EXPECT_EQ(problems(make<ProducerStore>(t, PrimExpr(1.0), Array<PrimExpr>{zero})), "");
  EXPECT_NE(problems(make<ProducerStore>(t, PrimExpr(1.0), Array<PrimExpr>{})).find("T0305"),
            std::string::npos);
  EXPECT_NE(problems(make<ProducerStore>(t, zero, Array<PrimExpr>{zero})).find("T0307"), std::string::npos);
  EXPECT_NE(problems(make<ProducerStore>(t, PrimExpr(1.0), Array<PrimExpr>{PrimExpr(1.0)})).find("T0306"),
            std::string::npos);
  EXPECT_NE(problems(make<Evaluate>(make<ProducerLoad>(t, Array<PrimExpr>{zero, zero}))).find("T0305"),
            std::string::npos);
  EXPECT_NE(
      problems(make<Evaluate>(make<ProducerLoad>(t, Array<PrimExpr>{PrimExpr(var("i"))}))).find("T0303"),
      std::string::npos);
  auto wild = make<DataProducerNode>(Array<PrimExpr>{var("n")}, f32, std::string("wild"));
  EXPECT_NE(problems(make<ProducerStore>(wild, PrimExpr(1.0), Array<PrimExpr>{zero})).find("T0303"),
            std::string::npos);
}

TEST(Producer, TwoOfOneShapeAreTwo) {
  auto f = [](const std::string& read) {
    return parse_module(
        "@T.prim_func\ndef f():\n    A = T.producer((4,), \"int32\")\n"
        "    B = T.producer((4,), \"int32\")\n    A[0] = 1\n    B[0] = 2\n    A[1] = " +
        read + "[0]\n");
  };
  EXPECT_TRUE(structural_equal(f("A"), f("A")));
  EXPECT_FALSE(structural_equal(f("A"), f("B")));
  // Outside a function a tensor is itself.
  auto make_tensor = [] {
    return make<tir::DataProducerNode>(Array<PrimExpr>{PrimExpr(int64_t(4))}, f32, std::string("t"));
  };
  const PrimExpr zero(int64_t(0));
  const auto x = make<tir::ProducerLoad>(make_tensor(), Array<PrimExpr>{zero}),
             y = make<tir::ProducerLoad>(make_tensor(), Array<PrimExpr>{zero});
  EXPECT_TRUE(structural_equal(x, x));
  EXPECT_FALSE(structural_equal(x, y));
  EXPECT_TRUE(structural_equal(x, y, true));
}

TEST(Producer, ATensorExpressionsTensorPrintsAsItsDeclaration) {
  const te::Tensor t = te::placeholder({PrimExpr(int64_t(8))}, f32, "t");
  tir::Buffer out = tir::buffer("out", {PrimExpr(int64_t(8))}, f32);
  tir::VarRef p = tir::var("p", DataType::handle()), i = tir::var("i");
  Map<tir::VarRef, tir::Buffer> buffers;
  buffers.set(p, out);
  const tir::Stmt body =
      tir::for_(i, PrimExpr(int64_t(0)), PrimExpr(int64_t(8)),
                tir::seq({make<tir::ProducerStore>(tir::DataProducer(t), PrimExpr(3.0), Array<PrimExpr>{i}),
                          tir::store(out, t({i}), {i})}));
  IRModule m = IRModule::create();
  m.set("f", make<tir::PrimFuncNode>(Array<tir::VarRef>{p}, buffers, body, DataType(), AttrMap()));
  EXPECT_EQ(problems_of(m), "");
  const IRModule again = parse_module(print(m));
  EXPECT_EQ(first_difference(m, again), "") << print(m);
  EXPECT_EQ(structural_hash(m), structural_hash(again));
  EXPECT_EQ(first_difference(m, from_json(to_json(m))), "");
  NDArray a = NDArray::zeros({8}, f32);
  interpret_prim_func(first_of(m), {a});
  EXPECT_EQ(a.element(7), 3);
}

TEST(Producer, ReduceStandsInAProgramToo) {
  const IRModule m = parse_module(R"(
@T.prim_func
def f(A: T.Buffer((n,), "float32"), B: T.Buffer((1,), "float32")):
    B[0] = T.Reduce(T.comm_reducer(lambda x, y: (x + y,), [T.float32(0)]), axis=[T.IterVar(k, T.Range(0, n), "reduce")], source=[A[k]])
)");
  EXPECT_EQ(problems_of(m), "");
  EXPECT_EQ(first_difference(m, parse_module(print(m))), "") << print(m);
  for (int64_t n : {0, 3}) {
    NDArray a = NDArray::empty({n}, f32), b = NDArray::zeros({1}, f32);
    for (int64_t i = 0; i < n; ++i) a.set_element(i, double(i + 1));
    b.set_element(0, 99);
    interpret_prim_func(first_of(m), {a, b});
    EXPECT_EQ(b.element(0), n * (n + 1) / 2.0);
  }
}

}  // namespace
}  // namespace tenon
