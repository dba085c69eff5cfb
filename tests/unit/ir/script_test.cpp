// SPDX-License-Identifier: Apache-2.0
// Script text: the examples that people write are read, what is printed is read back into the same module.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "ir/lookup.h"
#include "ir/structural.h"
#include "ir/text.h"
#include "ir/tir.h"
#include "ir/verify.h"

namespace tenon {
namespace {

/// Parses, verifies, and checks that printing and parsing again gives the same module.
IRModule round_trip(const std::string& text) {
  IRModule m;
  try {
    m = parse_module(text);
    verify_or_throw(m);
    ConstantTable constants;
    PrintOptions print_options;
    print_options.constants = &constants;
    const std::string printed = print(m, print_options);
    ParseOptions options;
    options.constants = &constants;
    options.name = "printed";
    try {
      IRModule again = parse_module(printed, options);
      EXPECT_EQ(first_difference(m, again), "") << printed;
      EXPECT_EQ(structural_hash(m), structural_hash(again));
      EXPECT_EQ(print(again, print_options), printed);
      ObjectRef json = from_json(to_json(m));
      EXPECT_EQ(first_difference(m, json), "") << to_json(m);
    } catch (const Error& e) {
      ADD_FAILURE() << e.what() << "\n" << printed;
    }
  } catch (const Error& e) {
    ADD_FAILURE() << e.what();
  }
  return m;
}

TEST(Script, MatmulRelu) {
  IRModule m = round_trip(R"(
@tvm.script.ir_module
class MyModule:
    @T.prim_func
    def mm_relu(A: T.Buffer[(128, 128), "float32"],
                B: T.Buffer[(128, 128), "float32"],
                C: T.Buffer[(128, 128), "float32"]):
        T.func_attr({"global_symbol": "mm_relu", "tir.noalias": True})
        Y = T.alloc_buffer((128, 128), dtype="float32")
        for i, j, k in T.grid(128, 128, 128):
            with T.block("Y"):
                vi = T.axis.spatial(128, i)
                vj = T.axis.spatial(128, j)
                vk = T.axis.reduce(128, k)
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(128, 128):
            with T.block("C"):
                vi = T.axis.spatial(128, i)
                vj = T.axis.spatial(128, j)
                C[vi, vj] = T.max(Y[vi, vj], T.float32(0))
)");
  ASSERT_TRUE(m.get());
  EXPECT_EQ(print(m), R"(@I.ir_module
class Module:
    @T.prim_func
    def mm_relu(A: T.Buffer((128, 128), "float32"), B: T.Buffer((128, 128), "float32"), C: T.Buffer((128, 128), "float32")):
        T.func_attr({"global_symbol": "mm_relu", "tir.noalias": True})
        # with T.block("root"):
        Y = T.alloc_buffer((128, 128), "float32")
        for i, j, k in T.grid(128, 128, 128):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                T.reads(A[vi, vk], B[vk, vj])
                T.writes(Y[vi, vj])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i_1, j_1 in T.grid(128, 128):
            with T.block("C"):
                vi_1, vj_1 = T.axis.remap("SS", [i_1, j_1])
                T.reads(Y[vi_1, vj_1])
                T.writes(C[vi_1, vj_1])
                C[vi_1, vj_1] = T.max(Y[vi_1, vj_1], T.float32(0))
)");
}

TEST(Script, StatementsAndExpressions) {
  round_trip(R"(
@I.ir_module
class Module:
    @T.prim_func
    def f(A: T.Buffer((n, 128), "float32", strides=[s0, 1], elem_offset=off, scope="shared", align=128), a: T.handle, p: T.handle, n: T.int64, x: T.float32, m: T.int32) -> T.int64:
        B = T.match_buffer(a, (16, T.Var("k", "int32")), "int8", axis_separators=[1])
        T.func_attr({"global_symbol": "f", "list": [1, 2.5, "x", True, None], "map": {"a": {"b": T.int64(3)}}, "dtype": I.dtype("float16"), "e": n * 2 + 1, "nan": float("nan")})
        y: T.float32 = x * T.float32(2)
        T.attr(A, "pragma", 1)
        T.attr(None, "other", "text")
        T.attr(T.IterVar(tx, T.Range(0, 128), "thread_index", "threadIdx.x"), "thread_extent", 128)
        C = T.allocate((64,), "float32", scope="local", annotations={"disable": 1})
        T.decl_buffer(C)
        D = T.decl_buffer((8, 8), "float32", data=C.data)
        K = T.allocate_const(I.ndarray([1.0, -0.0, 2.5], "float32"), (3,), "float32")
        with T.allocate((32,), "float32x4") as V:
            V[T.Ramp(0, 1, 8)] = T.Broadcast(y, 32)
            V.vstore([T.Ramp(0, 4, 8)], V.vload([T.Ramp(0, 4, 8)], predicate=T.Broadcast(True, 32)), predicate=T.Broadcast(n > 3, 32))
        with T.LetStmt(n + 1, dtype="int64") as z:
            T.evaluate(z)
        R = T.realize((4, 4), "float32", bounds=[T.Range(0, 4), T.Range(1, 2)], condition=n > 2)
        R[1, 1] = T.float32(1)
        for i in T.serial(2, 10, annotations={"pragma_unroll": 4}):
            for j in T.parallel(n):
                D[i - 2, j % 8] = T.Select(i < j, A[i, j], T.if_then_else(i == j or not (j > 3) and i != 5, K[0], T.float32("inf")))
            for j in T.vectorized(8):
                C[j] = T.cast(B[j, m], "float32") + T.Let(q, T.exp(x), q * q)
            for j in T.unroll(4):
                C[j] = T.min(T.max(C[j], x), y) - T.float32("nan") / T.float32("-inf")
        for t in T.thread_binding(32, thread="threadIdx.x"):
            B[t // 2, T.int32(0)] = T.int8(-1)
        for u in T.serial(n, extent=n + 3):
            T.evaluate(T.call_extern("int32", "puts", "text", C.data))
        while C[0] > T.float32(0):
            C[0] = C[0] - T.float32(1)
            T.evaluate(T.call("tir.undef", dtype="float32"))
        if n > 5:
            assert n < 100, "n is \"large\"\n"
        elif n > 4:
            T.prefetch(A[0:16, n:n + 4])
        elif n > 3:
            pass
        else:
            T.evaluate(T.Shuffle([T.Broadcast(x, 4), T.Broadcast(y, 4)], [0, 7, 3, 1]))
        C[1] = T.Select(T.truncmod(m, T.int32(7)) // T.int32(2) * m == m - (m - m), T.float32(1), T.reinterpret("float32", m))
        C[2] = T.cast(n, "float32") + T.cast(T.bool(True), "float32")
        T.evaluate(T.isnan(x))
        T.evaluate(T.fma(x, y, x))
        T.evaluate(T.shift_left(n, 3))
        T.evaluate(T.address_of(C[3]))
        T.evaluate(T.vector_reduce_add(T.Broadcast(x, 8)))
        T.evaluate(T.likely(n > 2))
        T.ret(n)
)");
}

/// A table of 256 bytes that gives bytes of the operand's type, which the printer leaves out, and of another.
TEST(Script, TablesOfBytes) {
  std::string words;
  for (int i = 0; i < tir::kLookupWords; ++i) words += fmt::format(", T.int32({})", i * 1000003);
  round_trip(fmt::format(R"(
@I.ir_module
class Module:
    @T.prim_func
    def f(A: T.Buffer((64,), "uint8"), B: T.Buffer((64,), "uint8"), C: T.Buffer((64,), "int8")):
        for i in range(32):
            B[i] = T.lookup(A[i]{0})
            C[i] = T.call("tir.lookup", A[i]{0}, dtype="int8")
        B[T.Ramp(32, 1, 32)] = T.lookup(A[T.Ramp(32, 1, 32)]{0})
)",
                         words));
}

TEST(Script, BlocksOfAllKinds) {
  round_trip(R"(
@I.ir_module
class Module:
    @T.prim_func
    def f(A: T.Buffer((128, 128), "float32"), B: T.Buffer((128,), "float32")):
        Z = T.alloc_buffer((128, 128), "float32", scope="local")
        for i, k in T.grid(16, T.int64(128)):
            with T.block("rows"):
                vi = T.axis.spatial(128, i * 8)
                vs = T.axis.spatial((2, 10), 3)
                vr = T.axis.spatial(T.Range(i, k), 3)
                vk = T.axis.reduce(128, k)
                vo, vq = T.axis.remap("SR", [i, k])
                vx = T.axis.opaque(4, 1)
                vc = T.axis.scan(4, 1)
                T.where(i * 8 < 120 and k > 1)
                T.reads(A[vi, vk], A[0:128, 4:8], B[vi:vi + 4])
                T.writes(Z[vi, 0:vk + 1])
                T.block_attr({"tag": "x", "n": 3})
                W = T.alloc_buffer((4,), "float32")
                M = T.match_buffer(A[0:16, vi:vi + 16], (16, 16), "float32", strides=[st, 1], elem_offset=eo)
                with T.init():
                    Z[vi, 0] = T.float32(0)
                Z[vi, vk] = M[0, 0] + W[1]
                with T.block("inner"):
                    T.reads()
                    T.writes(W[0])
                    W[0] = T.float32(2)
    @T.prim_func(root=False)
    def g(A: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("b"):
                v = T.axis.spatial(8, i)
                T.reads()
                T.writes(A[v])
                A[v] = T.float32(1)
    @T.prim_func
    def h(A: T.Buffer((), "float32")):
        with T.block("only"):
            T.reads()
            T.writes(A[()])
            A[()] = T.float32(1)
    @T.prim_func
    def e(n: T.int32):
        pass
)");
}

// A part of a buffer that the block makes itself is no region of the block.
TEST(Script, PartsOfOwnBuffers) {
  const IRModule m = round_trip(R"(
@T.prim_func
def f(A: T.Buffer((8, 4), "float32")):
    for i in range(8):
        with T.block("rows"):
            v = T.axis.spatial(8, i)
            own = T.alloc_buffer((8, 4), "float32")
            row = T.match_buffer(own[v, 0:4], (4,), "float32")
            given = T.match_buffer(A[v, 0:4], (4,), "float32")
            row[1] = T.float32(1)
            given[2] = row[1]
)");
  const std::string text = print(m);
  EXPECT_NE(text.find("T.reads()"), text.npos) << text;
  EXPECT_NE(text.find("T.writes(A[v, 0:4])"), text.npos) << text;
}

// Older spellings mean the same as the newer ones.
TEST(Script, OlderSpellings) {
  const IRModule newer = round_trip(R"(
@I.ir_module
class Module:
    @T.prim_func
    def main(a: T.handle, b: T.handle):
        A = T.match_buffer(a, (8,), "float32")
        B = T.match_buffer(b, (8,), "float32")
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                T.reads(A[vi])
                T.writes(B[vi])
                B[vi] = A[vi] + T.float32(1)
)");
  const char* others[] = {R"(
import tvm
from tvm.script import tir as T
@tvm.script.ir_module
class MyModule:
    @T.prim_func
    def main(a: T.handle, b: T.handle):
        # We exchange data between function by handles, which are similar to pointer.
        A = T.match_buffer(a, (8,), dtype="float32")
        B = T.match_buffer(b, (8,), dtype="float32")
        for i in range(8):
            with T.block("B"):
                # Define a spatial block iterator and bind it to value i.
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] + 1.0
)",
                          R"(
@tvm.script.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer[8, "float32"], B: T.Buffer[8, "float32"]) -> None:
        # body
        # with T.block("root")
        for i0 in T.serial(8):
            with T.block("B"):
                i0_1 = T.axis.spatial(8, i0)
                T.reads(A[i0_1])
                T.writes(B[i0_1])
                B[i0_1] = A[i0_1] + T.float32(1)
)",
                          R"(
@tvm.script.ir_module
class Module:
    @tvm.script.tir.prim_func
    def main(A: tir.Buffer[(8,), "float32"], B: tir.Buffer[(8,)]) -> None:
        for i0 in tir.serial(0, 8):
            with tir.block([8], "B") as [vi]:
                tir.bind(vi, i0)
                tir.reads([A[vi]])
                tir.writes([B[vi:vi + 1]])
                B[vi] = A[vi] + tir.float32(1)
)"};
  for (const char* text : others) {
    IRModule m = round_trip(text);
    ASSERT_TRUE(m.get());
    EXPECT_EQ(first_difference(newer, m), "") << text;
  }
}

TEST(Script, GraphFunctions) {
  round_trip(R"(
@I.ir_module
class Module:
    I.module_attrs({"version": 1})
    ext = R.ExternFunc("my.symbol")

    @T.prim_func
    def tir_exp(X: T.Buffer((n,), "float32"), Y: T.Buffer((n,), "float32")):
        for i in range(n):
            Y[i] = T.exp(X[i])

    @I.name("weird/name:0")
    @R.function
    def weird(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        return x

    @R.function
    def main(x: R.Tensor((n, 4), "float32"), w: R.Tensor(dtype="float32"), s: R.Shape([n, m]), d: R.Shape(ndim=2), q: R.Prim("int64", value=n), o: R.Object, t: R.Tuple(R.Tensor((n,), "float32"), R.Tensor(ndim=3)), c: R.Callable((R.Tensor((n, 4), "float32"),), R.Object), oc: R.Callable(ret=R.Object, opaque=True), u) -> R.Tensor((n, 4), "float32"):
        R.func_attr({"num_inputs": 1, "input_names": ["x", "w"]})
        with R.dataflow():
            a: R.Tensor((n,), "float32") = t[0]
            b: R.Tensor((n,), "float32") = R.call_tir(cls.tir_exp, (a,), out_sinfo=R.Tensor((n,), "float32"))
            e = R.call_dps_packed("ext", (a, b), out_sinfo=[R.Tensor((n,), "float32"), R.Tensor(s, "float32")])
            k: R.Tensor((2, 2), "int64") = R.const([[1, 2], [3, -4]], "int64")
            R.output(a, b)
        z = R.const(1.5, "float16")
        z0 = R.const([], "float32", shape=(0, 3))
        z1 = R.const([1.0, float("inf"), -0.0], "float64")
        z2 = R.const([True, False], "bool")
        z3 = R.const_bytes("0000c07f", (1,), "float32")
        mc: R.Tensor((n, k1), "float32") = R.match_cast(w, R.Tensor((n, k1), "float32"))
        ms = R.match_cast(d, R.Shape([n, k2]))
        sh = R.shape([n, k1 * 2, 7])
        p = R.prim_value(n * 2)
        st = R.str("text")
        dt = R.dtype("int8")
        r = R.call_packed("my.fn", x, sh, p, (x, w), sinfo_args=R.Tensor((n,), "float32"))
        R.call_packed("my.effect", x)
        v = R.call_dps_packed("dps", (x,), out_sinfo=R.Tensor((n,), "float32"))
        g = cls.ext(x)
        g1 = I.GlobalVar("weird/name:0")(x)
        g2 = c(x)
        g3 = R.ExternFunc("other")(x, sinfo_args=R.Object)
        tt = (x, (w, x), R.tuple())
        cond = R.call_packed("flag", x)
        if cond:
            l1 = R.call_packed("f1", x)
            y: R.Object = l1
        else:
            if cond:
                y2: R.Object = x
            else:
                l2 = R.call_packed("f2", x)
                y2: R.Object = l2
            y: R.Object = y2
        @R.loop(x, p)
        def looped(i: R.Tensor((n, 4), "float32"), j: R.Prim("int64")) -> R.Tuple(R.Tensor((n, 4), "float32"), R.Prim("int64")):
            with R.condition():
                lt = R.call_packed("less", j)
                return lt
            i1 = R.call_packed("step", i)
            return (i1, j)
        @R.function
        def closure(i: R.Tensor((n, 4), "float32")) -> R.Tensor((n, 4), "float32"):
            R.func_attr({"primitive": 1})
            ii = c(i)
            return ii
        h = closure(x)
        with R.block():
            h1 = closure(x)
        return h
)");
}

TEST(Script, NormalFormOnEntry) {
  IRModule m = parse_module(R"(
@R.function
def main(x: R.Tensor((2,), "float32"), t: R.Tuple(R.Tensor((2,), "float32"), R.Tensor((2,), "float32"))):
    a, b = t
    if R.call_packed("c", R.call_packed("d", x)):
        y = R.call_packed("e", a)
    else:
        y = b
    return R.call_packed("f", y, t[1])
)");
  DiagnosticList problems;
  verify(m, problems);
  EXPECT_TRUE(problems.empty()) << render(problems.all()[0]) << print(m);
  const auto* f = m.find("main").as<graph::Function>();
  EXPECT_EQ(graph::bindings_of(f->body).size(), 7u) << print(m);
}

TEST(Script, LargeConstantsStandBesideTheText) {
  NDArray big = NDArray::empty({10, 10}, f32);
  for (int i = 0; i < 100; ++i) big.set_element(i, i * 0.5);
  graph::VarRef v = graph::var("v", {});
  graph::Expr body =
      make<graph::SeqExpr>(Array<graph::BindingBlock>{make<graph::BindingBlockNode>(
                               Array<graph::Binding>{make<graph::VarBindingNode>(v, graph::constant(big))},
                               false, Array<graph::VarRef>())},
                           graph::Expr(v));
  IRModule m = IRModule::create();
  m.set("main", make<graph::Function>(Array<graph::VarRef>(), body, graph::Type(), AttrMap()));
  ConstantTable table;
  PrintOptions print_options;
  print_options.constants = &table;
  const std::string text = print(m, print_options);
  EXPECT_NE(text.find("R.const_ref(0x"), std::string::npos);
  ASSERT_EQ(table.size(), 1u);
  const std::string path = testing::TempDir() + "tenon_constants_test.bin";
  save_constants(path, table);
  ConstantTable loaded = load_constants(path);
  ParseOptions options;
  options.constants = &loaded;
  EXPECT_EQ(first_difference(m, parse_module(text, options)), "");
  EXPECT_THROW(parse_module(text), DiagnosticError);
  // Every truncation and every changed byte is refused; nothing crashes.
  std::ifstream in(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  for (size_t i = 0; i <= bytes.size(); i += 3) {
    for (bool cut : {true, false}) {
      std::string bad = bytes;
      if (cut)
        bad.resize(i);
      else if (i < bad.size())
        bad[i] = char(bad[i] ^ 0x41);
      if (bad == bytes) continue;
      std::ofstream(path, std::ios::binary) << bad;
      try {
        load_constants(path);
        ADD_FAILURE() << (cut ? "cut at " : "changed at ") << i;
      } catch (const Error& e) {
        EXPECT_EQ(e.code, "T0290") << i;
      }
    }
  }
  std::remove(path.c_str());
  try {
    load_constants(path);
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.code, "T3001");
  }
}

TEST(Script, LongSequences) {
  // 100,000 bindings, and as many statements in one sequence and as many nested lets.
  graph::VarRef x = graph::var("x", graph::tensor_type({2}, f32));
  graph::Expr last = x;
  graph::BlockBuilder b;
  for (int i = 0; i < 100000; ++i)
    last = b.emit(graph::call(graph::get_op("call_packed"), {make<graph::ExternFunc>("f"), last}));
  IRModule m = IRModule::create();
  m.set("main", make<graph::Function>(Array<graph::VarRef>{x}, b.finish(last), graph::Type(), AttrMap()));
  tir::Buffer a = tir::buffer("A", {8}, f32);
  tir::VarRef p = tir::var("a", DataType::handle());
  Array<tir::Stmt> stmts;
  for (int i = 0; i < 100000; ++i) stmts.push_back(tir::store(a, 1.0, {i % 8}));
  auto f = make<tir::PrimFuncNode>(Array<tir::VarRef>{p}, Map<tir::VarRef, tir::Buffer>{{p, a}},
                                   tir::seq(stmts), DataType(), AttrMap());
  m.set("stores", f);
  DiagnosticList problems;
  verify(m, problems);
  EXPECT_TRUE(problems.empty());
  const std::string text = print(m);
  EXPECT_TRUE(structural_equal(m, parse_module(text)));
  tir::Stmt chain = stmts[0];
  for (int i = 0; i < 100000; ++i) chain = make<tir::LetStmt>(tir::var("v"), PrimExpr(i), chain);
  auto g = make<tir::PrimFuncNode>(Array<tir::VarRef>{p}, Map<tir::VarRef, tir::Buffer>{{p, a}}, chain,
                                   DataType(), AttrMap());
  IRModule n = IRModule::create();
  n.set("lets", g);
  EXPECT_TRUE(structural_equal(n, parse_module(print(n))));
  EXPECT_TRUE(structural_equal(g, from_json(to_json(g))));
  verify(n, problems);
  ASSERT_EQ(problems.all().size(), 1u);
  EXPECT_EQ(problems.all()[0].code, "T0310");
}

}  // namespace
}  // namespace tenon
