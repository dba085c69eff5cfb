// SPDX-License-Identifier: Apache-2.0
// Structural equality and hash, walks over long chains, the verifier's findings, and the runner of passes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ir/intrinsic.h"
#include "ir/pass.h"
#include "ir/structural.h"
#include "ir/text.h"
#include "ir/tir.h"
#include "ir/verify.h"
#include "ir/walk.h"

namespace tenon {
namespace {

template <class T>
concept ChangesInPlace = requires(Ref<T> node) { node.mut(); };
static_assert(!ChangesInPlace<tir::PrimExprNode> && !ChangesInPlace<tir::Add> &&
              !ChangesInPlace<tir::Block> && !ChangesInPlace<graph::TypeNode> &&
              !ChangesInPlace<graph::ExprNode> && !ChangesInPlace<graph::Call> &&
              !ChangesInPlace<graph::TensorType> && !ChangesInPlace<graph::BindingBlockNode> &&
              !ChangesInPlace<IRModuleNode>);

tir::PrimFunc only_function(const std::string& text) {
  IRModule m = parse_module(text);
  for (auto [name, f] : m.functions()) return f.cast<tir::PrimFuncNode>();
  return {};
}
std::string program(const std::string& body) {
  return "@T.prim_func\ndef f(A: T.Buffer((8, 8), \"float32\"), n: T.int64, m: T.int64):\n    for i, j in "
         "T.grid(8, 8):\n        " +
         body + "\n";
}

TEST(Structural, AlphaEquivalence) {
  const auto base = only_function(program("A[i, j] = A[j, i] + T.float32(1)"));
  const auto renamed = only_function(
      "@T.prim_func\ndef g(B: T.Buffer((8, 8), \"float32\"), x: T.int64, y: T.int64):\n    for p, q in "
      "T.grid(8, 8):\n        B[p, q] = B[q, p] + T.float32(1)\n");
  EXPECT_TRUE(structural_equal(base, renamed));
  EXPECT_EQ(structural_hash(base), structural_hash(renamed));
  const char* different[] = {"A[i, j] = A[i, j] + T.float32(1)", "A[j, i] = A[j, i] + T.float32(1)",
                             "A[i, j] = A[j, i] + T.float32(2)", "A[i, j] = A[j, i] - T.float32(1)",
                             "A[i, n] = A[j, i] + T.float32(1)", "A[i, j] = T.float32(1) + A[j, i]"};
  for (const char* body : different) {
    const auto other = only_function(program(body));
    EXPECT_FALSE(structural_equal(base, other)) << body;
    EXPECT_NE(structural_hash(base), structural_hash(other)) << body;
    EXPECT_NE(first_difference(base, other), "");
  }
  // Which of two parameters is used matters although their types are the same.
  const auto uses_n = only_function(program("A[i, j] = T.cast(n, \"float32\")")),
             uses_m = only_function(program("A[i, j] = T.cast(m, \"float32\")"));
  EXPECT_FALSE(structural_equal(uses_n, uses_m));
  EXPECT_NE(structural_hash(uses_n), structural_hash(uses_m));
}

TEST(Structural, FreeVariables) {
  tir::VarRef x = tir::var("x"), y = tir::var("y"), z = tir::var("z", i32);
  const PrimExpr a = x + 1, b = y + 1, c = z + PrimExpr::int_imm(1, i32);
  EXPECT_TRUE(structural_equal(a, x + 1));
  EXPECT_FALSE(structural_equal(a, b));
  EXPECT_TRUE(structural_equal(a, b, true));
  EXPECT_FALSE(structural_equal(a, c, true));
  // One to one: x + y is not x + x.
  EXPECT_FALSE(structural_equal(PrimExpr(make<tir::Add>(x, y)), PrimExpr(make<tir::Add>(x, x)), true));
  EXPECT_FALSE(structural_equal(PrimExpr(make<tir::Add>(x, x)), PrimExpr(make<tir::Add>(x, y)), true));
}

TEST(Structural, LoadsOfOtherMemoryDiffer) {
  const tir::Buffer a = tir::buffer("A", {PrimExpr(4)}, i32), b = tir::buffer("B", {PrimExpr(4)}, i32);
  const PrimExpr x = tir::load(a, {PrimExpr(1)}), y = tir::load(b, {PrimExpr(1)});
  EXPECT_FALSE(structural_equal(x, y));
  EXPECT_TRUE(structural_equal(x, y, /*map_free=*/true));
  EXPECT_TRUE(structural_equal(x, tir::load(a, {PrimExpr(1)})));
  tir::Buffer view = a;  // of the same memory
  view.edit()->name = "V";
  EXPECT_TRUE(structural_equal(x, tir::load(view, {PrimExpr(1)})));
}

TEST(Structural, ValuesCompareExactly) {
  auto f = [](double v) { return PrimExpr::float_imm(v, f32); };
  EXPECT_TRUE(structural_equal(f(NAN), f(NAN)));
  EXPECT_FALSE(structural_equal(f(0.0), f(-0.0)));
  EXPECT_FALSE(structural_equal(PrimExpr::int_imm(1, i64), PrimExpr::int_imm(1, i32)));
  // Absent and empty lists are the same; maps compare by key, not by order.
  AttrMap one{{"a", Any(1)}, {"b", Any(2)}}, two{{"b", Any(2)}, {"a", Any(1)}},
      three{{"a", Any(1)}, {"b", Any(3)}};
  EXPECT_TRUE(structural_equal(one, two));
  EXPECT_EQ(structural_hash(one), structural_hash(two));
  EXPECT_FALSE(structural_equal(one, three));
  const auto plain = make<tir::Evaluate>(tir::call(f32, "tir.undef", {}));
  Array<PrimExpr> none{PrimExpr(1)};
  none.pop_back();
  EXPECT_TRUE(structural_equal(plain, make<tir::Evaluate>(tir::call(f32, "tir.undef", none))));
  EXPECT_EQ(structural_hash(plain), structural_hash(make<tir::Evaluate>(tir::call(f32, "tir.undef", none))));
  NDArray p = NDArray::zeros({2}, f32), q = NDArray::zeros({2}, f32);
  EXPECT_TRUE(structural_equal(graph::constant(p), graph::constant(q)));
  q.set_element(1, 1);
  EXPECT_FALSE(structural_equal(graph::constant(NDArray::zeros({2}, f32)), graph::constant(q.copy())));
}

TEST(Structural, FirstDifferenceIsAPath) {
  IRModule a = parse_module(program("A[i, j] = A[j, i] + T.float32(1)")),
           b = parse_module(program("A[i, j] = A[j, i] * T.float32(1)"));
  const std::string path = first_difference(a, b);
  EXPECT_NE(path.find("body"), std::string::npos) << path;
  EXPECT_NE(path.find("value"), std::string::npos) << path;
  EXPECT_NE(path.find("tir.Add"), std::string::npos) << path;
}

/// 2^64 paths over 65 nodes.
PrimExpr doubled(PrimExpr e) {
  for (int i = 0; i < 64; ++i) e = make<tir::Add>(e, e);
  return e;
}

TEST(Structural, SharedNodesAreComparedOnce) {
  const tir::VarRef x = tir::var("x"), y = tir::var("y");
  const PrimExpr a = doubled(x + 1), b = doubled(x + 1), c = doubled(y + 1), d = doubled(x + 2);
  EXPECT_TRUE(structural_equal(a, b));
  EXPECT_FALSE(structural_equal(a, c));
  EXPECT_TRUE(structural_equal(a, c, true));
  EXPECT_FALSE(structural_equal(a, d, true));
  EXPECT_EQ(first_difference(a, b), "");
  EXPECT_EQ(structural_hash(a), structural_hash(b));
  EXPECT_EQ(structural_hash(a, true), structural_hash(c, true));
  EXPECT_NE(structural_hash(a), structural_hash(d));
  // Below binders, where identical nodes are walked too.
  auto function = [](const tir::VarRef& v, const PrimExpr& e) {
    return make<tir::PrimFuncNode>(Array<tir::VarRef>{v}, Map<tir::VarRef, tir::Buffer>(),
                                   tir::Stmt(make<tir::Evaluate>(e)), DataType(), AttrMap());
  };
  EXPECT_TRUE(structural_equal(function(x, a), function(y, c)));
  EXPECT_FALSE(structural_equal(function(x, a), function(y, a)));
  EXPECT_EQ(structural_hash(function(x, a)), structural_hash(function(y, c)));
}

TEST(Structural, SharingDoesNotMatter) {
  const tir::VarRef x = tir::var("x"), y = tir::var("y");
  const PrimExpr one = x * y + 1;
  const PrimExpr shared = make<tir::Add>(one, one), separate = make<tir::Add>(x * y + 1, x * y + 1);
  EXPECT_TRUE(structural_equal(shared, separate));
  EXPECT_TRUE(structural_equal(separate, shared, true));
  EXPECT_EQ(structural_hash(shared), structural_hash(separate));
  const PrimExpr swapped = make<tir::Add>(x * y + 1, y * x + 1);
  EXPECT_FALSE(structural_equal(shared, swapped, true));
  EXPECT_NE(structural_hash(shared, true), structural_hash(swapped, true));
}

TEST(Structural, AVariableThatIsBoundLaterIsComparedAgain) {
  // `e` is the same on both sides while x is free, and differs where x is bound to another variable.
  const tir::VarRef x = tir::var("x"), y = tir::var("y"), p = tir::var("p"), q = tir::var("q");
  const PrimExpr e = x + 1;
  auto code = [&](const tir::VarRef& before, const tir::VarRef& v, const PrimExpr& inner) {
    const tir::Stmt first = make<tir::LetStmt>(before, PrimExpr(3), tir::Stmt(make<tir::Evaluate>(e)));
    const tir::Stmt second = make<tir::LetStmt>(v, PrimExpr(3), tir::Stmt(make<tir::Evaluate>(inner)));
    return tir::seq({first, second});
  };
  EXPECT_TRUE(structural_equal(code(p, x, e), code(q, x, e)));
  EXPECT_FALSE(structural_equal(code(p, x, e), code(q, y, e)));
  EXPECT_TRUE(structural_equal(code(p, x, e), code(q, y, y + 1)));
}

TEST(Walk, LongChains) {
  constexpr int n = 100000;
  tir::VarRef x = tir::var("x");
  PrimExpr sum = x;
  for (int i = 0; i < n; ++i) sum = make<tir::Add>(sum, PrimExpr(1));
  int adds = 0;
  post_order(sum, [&](const ObjectRef& o) { adds += o.is<tir::Add>(); });
  EXPECT_EQ(adds, n);
  tir::VarRef y = tir::var("y");
  const PrimExpr replaced = tir::substitute(sum, {{x.get(), y}});
  EXPECT_TRUE(structural_equal(sum, replaced, true));
  EXPECT_FALSE(structural_equal(sum, replaced));
  EXPECT_EQ(structural_hash(sum, true), structural_hash(replaced, true));
  EXPECT_FALSE(print(sum).empty());
  tir::Stmt s = make<tir::Evaluate>(x);
  for (int i = 0; i < n; ++i) s = make<tir::IfThenElse>(tir::true_(), s, tir::Stmt());
  EXPECT_FALSE(print(s).empty());
  DiagnosticList problems;
  verify_prim_func("f",
                   make<tir::PrimFuncNode>(Array<tir::VarRef>{x}, Map<tir::VarRef, tir::Buffer>(), s,
                                           DataType(), AttrMap()),
                   problems);
  ASSERT_EQ(problems.all().size(), 1u);
  EXPECT_EQ(problems.all()[0].code, "T0310");
}

TEST(Walk, SharedNodesAreVisitedOnce) {
  PrimExpr e = tir::var("x");
  for (int i = 0; i < 60; ++i) e = make<tir::Mul>(e, e);  // 2^60 paths
  int count = 0;
  post_order(e, [&](const ObjectRef&) { ++count; });
  EXPECT_EQ(count, 61);
  int rewritten = 0;
  ObjectRef out = rewrite_any(e, [&](const ObjectRef& o) -> ObjectRef {
    if (o.is<tir::Var>()) {
      ++rewritten;
      return PrimExpr(2);
    }
    return {};
  });
  EXPECT_EQ(rewritten, 1);
  count = 0;
  post_order(out, [&](const ObjectRef&) { ++count; });
  EXPECT_EQ(count, 61);
}

TEST(Verify, TensorPrograms) {
  tir::VarRef i = tir::var("i"), x = tir::var("x", f32), p = tir::var("p", DataType::handle());
  tir::Buffer a = tir::buffer("A", {8, 8}, f32), b = tir::buffer("B", {8}, f32);
  auto code = [&](tir::Stmt body, Array<tir::VarRef> params = {}) -> std::string {
    DiagnosticList problems;
    Array<tir::VarRef> all{p};
    for (const tir::VarRef& v : params) all.push_back(v);
    verify_prim_func(
        "f", make<tir::PrimFuncNode>(all, Map<tir::VarRef, tir::Buffer>{{p, a}}, body, DataType(), AttrMap()),
        problems);
    return problems.empty() ? "" : problems.all()[0].code;
  };
  auto store = [&](PrimExpr value, Array<PrimExpr> at) { return tir::store(a, value, at); };
  const PrimExpr one = PrimExpr::float_imm(1, f32);
  EXPECT_EQ(code(store(one, {0, 0})), "");
  EXPECT_EQ(code({}), "T0315");
  EXPECT_EQ(code(store(x, {0, 0})), "T0303");
  EXPECT_EQ(code(store(x, {0, 0}), {x}), "");
  EXPECT_EQ(code(store(x, {0, 0}), {x, x}), "T0311");
  EXPECT_EQ(code(tir::store(b, one, {0})), "T0304");
  EXPECT_EQ(code(store(one, {0})), "T0305");
  EXPECT_EQ(code(store(one, {0, one})), "T0306");
  EXPECT_EQ(code(store(PrimExpr(1), {0, 0})), "T0307");
  EXPECT_EQ(code(tir::store(a, one, {0, 0}, PrimExpr(1))), "T0308");
  const tir::Stmt loop = tir::for_(i, 0, 8, store(one, {i, 0}));
  Ref<tir::For> narrow = loop.cast<tir::For>();  // for_ gives bounds the type of their variable
  narrow.edit()->min = PrimExpr::int_imm(0, i32);
  EXPECT_EQ(code(narrow), "T0309");
  EXPECT_EQ(code(loop), "");
  EXPECT_EQ(code(tir::seq({loop, loop})), "T0311");
  EXPECT_EQ(code(tir::seq({loop, store(one, {i, 0})})), "T0303");
  EXPECT_EQ(code(make<tir::IfThenElse>(PrimExpr(1), store(one, {0, 0}), tir::Stmt())), "T0302");
  EXPECT_EQ(code(make<tir::Evaluate>(tir::call(f32, "tir.frobnicate", {one}))), "T0314");
  EXPECT_EQ(code(make<tir::Evaluate>(tir::call(f32, "tir.exp", {one, one}))), "T0314");
  EXPECT_EQ(code(make<tir::LetStmt>(x, PrimExpr(1), store(x, {0, 0}))), "T0307");
  EXPECT_EQ(code(make<tir::DeclBuffer>(b, tir::store(b, one, {0}))), "T0303");
  EXPECT_EQ(code(make<tir::Allocate>(b, make<tir::DeclBuffer>(b, tir::store(b, one, {0})), AttrMap())), "");
  EXPECT_EQ(
      code(make<tir::Allocate>(b, make<tir::Allocate>(b, tir::store(b, one, {0}), AttrMap()), AttrMap())),
      "T0312");
  tir::IterVar iv = tir::iter_var(tir::range(0, 8), "v");
  auto block =
      make<tir::Block>(Array<tir::IterVar>{iv}, Array<tir::BufferRegion>(), Array<tir::BufferRegion>(),
                       std::string("b"), store(one, {iv->var, 0}), tir::Stmt(), Array<tir::Buffer>(),
                       Array<tir::MatchBufferRegion>(), AttrMap());
  EXPECT_EQ(code(make<tir::BlockRealize>(Array<PrimExpr>{PrimExpr(3)}, tir::true_(), block)), "");
  EXPECT_EQ(code(make<tir::BlockRealize>(Array<PrimExpr>(), tir::true_(), block)), "T0313");
  EXPECT_EQ(code(make<tir::BlockRealize>(Array<PrimExpr>{PrimExpr(3)}, PrimExpr(1), block)), "T0302");
  // All problems are reported.
  DiagnosticList problems;
  verify_prim_func(
      "f",
      make<tir::PrimFuncNode>(Array<tir::VarRef>{p}, Map<tir::VarRef, tir::Buffer>{{p, a}},
                              tir::seq({store(x, {0}), tir::store(b, one, {0})}), DataType(), AttrMap()),
      problems);
  EXPECT_EQ(problems.all().size(), 3u);
}

TEST(Verify, GraphFunctions) {
  graph::VarRef x = graph::var("x", graph::tensor_type({2}, f32)), y = graph::var("y"), z = graph::var("z");
  const graph::Expr call = graph::call(graph::get_op("call_packed"), {make<graph::ExternFunc>("f"), x});
  auto body = [](std::vector<std::pair<graph::VarRef, graph::Expr>> list, graph::Expr result) -> graph::Expr {
    Array<graph::Binding> bindings;
    for (auto& [v, e] : list) bindings.push_back(make<graph::VarBindingNode>(v, e));
    return make<graph::SeqExpr>(
        Array<graph::BindingBlock>{make<graph::BindingBlockNode>(bindings, false, Array<graph::VarRef>())},
        result);
  };
  auto code = [&](graph::Expr b) -> std::string {
    IRModule m = IRModule::create();
    m.set("main", make<graph::Function>(Array<graph::VarRef>{x}, b, graph::Type(), AttrMap()));
    DiagnosticList problems;
    verify(m, problems);
    return problems.empty() ? "" : problems.all()[0].code;
  };
  EXPECT_EQ(code(body({{y, call}}, y)), "");
  EXPECT_EQ(code(call), "T0321");
  EXPECT_EQ(code(body({{y, call}}, call)), "T0321");
  EXPECT_EQ(
      code(body({{y, graph::call(graph::get_op("call_packed"), {make<graph::ExternFunc>("f"), call})}}, y)),
      "T0321");
  EXPECT_EQ(code(body({{y, call}, {y, x}}, y)), "T0322");
  EXPECT_EQ(code(body({{y, z}}, y)), "T0323");
  EXPECT_EQ(code(body({{y, graph::call(graph::global("no"), {x})}}, y)), "T0324");
  EXPECT_EQ(code(body({{y, graph::call(graph::global("main"), {x, x})}}, y)), "T0325");
  EXPECT_EQ(code(body({{y, graph::call(graph::get_op("call_packed"), {})}}, y)), "T0325");
  EXPECT_EQ(code(body({{y, graph::call(graph::get_op("call_tir_inplace"), {graph::global("main"), x})}}, y)),
            "T0326");
  EXPECT_EQ(code(body({{y, graph::shape_expr({tir::var("n")})}}, y)), "T0329");
}

TEST(Verify, ParametersLieAsTheTensorsThatACallGives) {
  const auto problems = [](const std::string& layout, const std::string& sizes = "") {
    IRModule m = parse_module(R"(
@T.prim_func
def copy(A: T.Buffer((3, 2), "float32")" +
                              layout + R"(), B: T.Buffer((3, 2), "float32"), s: T.int64):
    for i, j in T.grid(3, 2):
        B[i, j] = A[i, j]

@R.function
def main(x: R.Tensor((3, 2), "float32")) -> R.Tensor((3, 2), "float32"):
    y = R.call_tir(copy, (x,), R.Tensor((3, 2), "float32"), tir_vars=R.shape([)" +
                              sizes + R"(]))
    return y
)");
    DiagnosticList found;
    verify(m, found);
    std::string text;
    for (const Diagnostic& d : found.all()) text += d.code + ": " + d.message;
    return text;
  };
  EXPECT_EQ(problems("", "2"), "");
  EXPECT_EQ(problems(", strides=(2, 1)", "2"), "");
  EXPECT_EQ(problems(", strides=(s, 1)", "2"), "");
  EXPECT_THAT(problems(", strides=(1, 3)", "2"),
              testing::HasSubstr("the buffer `A` of `copy` has the stride 3 along axis 1, and a tensor 1"));
  EXPECT_THAT(problems(", strides=(1, 1)", "2"),
              testing::HasSubstr("has the stride 1 along axis 0, and a tensor 2"));
  EXPECT_THAT(problems(", strides=(s, 1)", "1"), testing::HasSubstr("T0363: "));
  EXPECT_THAT(problems(", elem_offset=1", "2"),
              testing::HasSubstr("begins at element 1, and a tensor at its first"));
}

// ---------------------------------------------------------------- the runner
IRModule add_function(IRModule m, PassContext&) {
  m.set(m.fresh_name("added"), parse_module("@T.prim_func\ndef f():\n    pass\n").find("f"));
  return m;
}
IRModule nothing(IRModule m, PassContext&) { return m; }
IRModule breaks(IRModule m, PassContext&) {
  m.set("broken",
        make<tir::PrimFuncNode>(Array<tir::VarRef>(), Map<tir::VarRef, tir::Buffer>(),
                                tir::Stmt(make<tir::Evaluate>(tir::var("lost"))), DataType(), AttrMap()));
  return m;
}
const Pass passes[] = {{"test_add", add_function, 0, "adds"},
                       {"test_high", add_function, 3, "adds at level 3"},
                       {"test_nothing", nothing, 0, "does nothing"}};

struct Veto : PassInstrument {
  std::string refuse;
  std::vector<std::string> seen;
  bool should_run(const Pass& p, const IRModule&) override { return p.name != refuse; }
  void before(const Pass& p, const IRModule&) override { seen.push_back("+" + std::string(p.name)); }
  void after(const Pass& p, const IRModule&) override { seen.push_back("-" + std::string(p.name)); }
};

std::string names(const PassContext& c) {
  std::string out;
  for (const PassTiming& t : c.timings) out += t.name + (t.changed ? "* " : " ");
  return out;
}

TEST(PassRunner, LevelsAndNames) {
  PassContext two;
  EXPECT_EQ(run_passes(IRModule::create(), passes, two).functions().size(), 1u);
  EXPECT_EQ(names(two), "test_add* test_nothing ");
  PassContext three;
  three.opt_level = 3;
  EXPECT_EQ(run_passes(IRModule::create(), passes, three).functions().size(), 2u);
  PassContext required;
  required.required = {"test_high"};
  required.disabled = {"test_add"};
  EXPECT_EQ(run_passes(IRModule::create(), passes, required).functions().size(), 1u);
  EXPECT_EQ(names(required), "test_high* test_nothing ");
  for (const PassTiming& t : three.timings) EXPECT_GE(t.ms, 0);
}

TEST(PassRunner, InstrumentsSeeAndVeto) {
  Veto veto;
  veto.refuse = "test_add";
  PassContext c;
  c.instruments = {&veto};
  EXPECT_EQ(run_passes(IRModule::create(), passes, c).functions().size(), 0u);
  EXPECT_EQ(veto.seen, (std::vector<std::string>{"+test_nothing", "-test_nothing"}));
}

TEST(PassRunner, NamesThePassThatBrokeTheModule) {
  const Pass broken[] = {passes[0], {"test_breaks", breaks, 0, "breaks"}};
  PassContext c;
  c.verify = true;
  try {
    run_passes(IRModule::create(), broken, c);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("test_breaks"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("lost"), std::string::npos) << e.what();
  }
}

TEST(PassRunner, CancelAndPrint) {
  PassContext c;
  int asked = 0;
  c.cancelled = [&] { return ++asked > 1; };
  EXPECT_THROW(run_passes(IRModule::create(), passes, c), Error);
  PassContext p;
  std::string printed;
  p.print_after = {"test_add"};
  p.print_sink = [&](const std::string& pass, const std::string& text) { printed += pass + "\n" + text; };
  run_passes(IRModule::create(), passes, p);
  EXPECT_EQ(printed,
            "test_add\n@I.ir_module\nclass Module:\n    @T.prim_func\n    def added():\n        pass\n");
}

TEST(PassRunner, Registered) {
  const Pass& high = register_pass(passes[1]);
  EXPECT_EQ(find_pass("test_high"), &high);
  EXPECT_EQ(find_pass("no_such_pass"), nullptr);
  EXPECT_THROW(register_pass(passes[1]), InternalError);
}

}  // namespace
}  // namespace tenon
