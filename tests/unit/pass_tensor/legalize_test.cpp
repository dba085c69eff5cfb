// SPDX-License-Identifier: Apache-2.0
// Narrow floats: each legalisation alone keeps every bit, and leaves what it promises.
#include <bit>

#include "programs.h"
#include "target/target.h"

namespace tenon {
namespace {

using namespace tir;

struct Kind {
  const char* name;
  DataType type;
  const char *compute, *storage;  ///< its passes
};
DataType fp8(TypeCode code) { return DataType{code, 8, 1}; }
const Kind kinds[] = {
    {"f16", f16, "f16_compute_legalize", "f16_storage_legalize"},
    {"bf16", DataType::bfloat16(), "bf16_compute_legalize", "bf16_storage_legalize"},
    {"e4m3fn", fp8(TypeCode::Float8_e4m3fn), "fp8_compute_legalize", "fp8_storage_legalize"},
    {"e5m2", fp8(TypeCode::Float8_e5m2), "fp8_compute_legalize", "fp8_storage_legalize"},
    {"e4m3fnuz", fp8(TypeCode::Float8_e4m3fnuz), "fp8_compute_legalize", "fp8_storage_legalize"},
    {"e5m2fnuz", fp8(TypeCode::Float8_e5m2fnuz), "fp8_compute_legalize", "fp8_storage_legalize"}};

struct Program {
  Array<VarRef> params;
  Map<VarRef, Buffer> map;
  std::vector<NDArray> args;
  Buffer add(const std::string& name, const NDArray& a) {
    Buffer b = buffer(name, {n64(a.size())}, a.dtype());
    VarRef p = var("p_" + name, DataType::handle());
    params.push_back(p);
    map.set(p, b);
    args.push_back(a);
    return b;
  }
  IRModule module(Stmt body) {
    return module_of(make<PrimFuncNode>(params, map, body, DataType::void_(), AttrMap()));
  }
};

/// Expressions of a narrow type below the function's body, and those that compute with it.
std::pair<size_t, size_t> narrow_nodes(const IRModule& m, DataType t) {
  size_t any = 0, computing = 0;
  auto is = [&](const ObjectRef& n) {
    const auto* e = n.as<PrimExprNode>();
    return e && e->dtype.element() == t;
  };
  pre_order(body_of(m)->body, [&](const ObjectRef& n) {
    if (n.is<BufferNode>()) return false;
    any += is(n);
    const bool arithmetic = n.is<Add>() || n.is<Mul>() || n.is<Div>() || n.is<Max>() || n.is<Min>() ||
                            n.is<LT>() || n.is<EQ>() ||
                            (n.is<tir::Call>() && n.as<tir::Call>()->op != "tir.reinterpret" &&
                             n.as<tir::Call>()->op != "tir.if_then_else");
    if (arithmetic)
      for (const ObjectRef& c : children(n)) computing += is(c);
    return true;
  });
  return {any, computing};
}

PassContext plain_context() {
  PassContext context;
  context.target = parse_target("llvm -mcpu=x86-64");
  return context;
}

void check(Program& p, const Stmt& body, const Kind& k, size_t outputs) {
  IRModule m = p.module(body);
  expect_valid(m, "input");
  const std::vector<NDArray> want = run_on(body_of(m), p.args, outputs, m);
  PassContext context = plain_context();
  m = run_pass(k.compute, m, context);
  expect_valid(m, std::string(k.name) + " compute");
  EXPECT_EQ(narrow_nodes(m, k.type).second, 0u) << print(m);
  expect_same(want, run_on(body_of(m), p.args, outputs, m), std::string(k.name) + " compute");
  m = run_pass(k.storage, m, context);
  expect_valid(m, std::string(k.name) + " storage");
  EXPECT_EQ(narrow_nodes(m, k.type).first, 0u) << print(m);
  expect_same(want, run_on(body_of(m), p.args, outputs, m), std::string(k.name) + " storage");
  // Text of it reads back.
  EXPECT_EQ(print(parse_module(print(m))), print(m));
}

TEST(Legalize, OperationsAndMoves) {
  for (const Kind& k : kinds) {
    Program p;
    const int64_t n = 24, lanes = 6;
    Buffer a = p.add("a", random_array({n}, k.type, 1)), b = p.add("b", random_array({n}, k.type, 2));
    p.args[0].set_element(3, NAN);
    p.args[0].set_element(7, -0.0);
    std::vector<Buffer> outs;
    std::vector<Stmt> body;
    const VarRef i = var("i");
    const PrimExpr at = make<Ramp>(i * PrimExpr(lanes), PrimExpr(int64_t(1)), lanes);
    const PrimExpr x = load(a, {at}), y = load(b, {at});
    auto out = [&](const PrimExpr& v, PrimExpr index) {
      const Buffer o = p.add("o" + std::to_string(outs.size()), NDArray::zeros({n}, v.dtype().element()));
      outs.push_back(o);
      body.push_back(store(o, v, {index}));
    };
    const DataType vector = k.type.with_lanes(int(lanes));
    out(make<Add>(x, make<Mul>(x, y)), at);
    out(make<Div>(make<Sub>(x, y), y), at);
    out(make<Max>(x, make<Min>(y, const_of(vector, 1))), at);
    out(select(make<LT>(x, y), x, const_of(vector, 0.5)), at);
    out(make<EQ>(x, y), at);
    out(call(vector, "tir.sqrt", {call(vector, "tir.abs", {x})}), at);
    out(call(boolean.with_lanes(int(lanes)), "tir.isnan", {x}), at);
    out(cast(i32.with_lanes(int(lanes)), y), at);
    out(cast(vector, cast(i32.with_lanes(int(lanes)), y)), at);
    out(cast(f64.with_lanes(int(lanes)), x), at);
    out(call(k.type, "tir.vector_reduce_add", {y}), i);
    out(call(k.type, "tir.vector_reduce_max", {x}), i);
    const VarRef v = var("v", vector);
    out(make<Let>(v, make<Add>(y, y), make<Mul>(v, v)), at);
    out(if_then_else(lt(i, n64(2)), x, y), at);
    // A private buffer, a constant and a scalar let.
    const Buffer t = buffer("t", {n64(2)}, k.type), c = buffer("c", {n64(2)}, k.type);
    NDArray data = NDArray::empty({2}, k.type);
    data.set_element(0, 1.5);
    data.set_element(1, -2);
    const VarRef s = var("s", k.type);
    const Buffer o = p.add("o_last", NDArray::zeros({n}, k.type));
    Stmt inner = seq({store(t, make<Add>(s, load(c, {n64(1)})), {n64(0)}),
                      store(o, make<Mul>(load(t, {n64(0)}), load(c, {n64(0)})), {i})});
    inner = make<LetStmt>(s, load(b, {i}), inner);
    body.push_back(make<Allocate>(t, make<AllocateConst>(c, data, inner), AttrMap()));
    check(p, for_(i, 0, n / lanes, seq(Array<Stmt>(body))), k, outs.size() + 1);
    if (HasFatalFailure()) return;
  }
}

TEST(Legalize, EveryCodeWidensAndComesBack) {
  for (const Kind& k : kinds) {
    const int64_t n = k.type.bits == 8 ? 256 : 65536;
    NDArray codes = NDArray::empty({n}, k.type);
    for (int64_t i = 0; i < n; ++i)
      if (k.type.bits == 8)
        codes.as_ptr<uint8_t>()[i] = uint8_t(i);
      else
        codes.as_ptr<uint16_t>()[i] = uint16_t(i);
    Program p;
    Buffer a = p.add("a", codes), w = p.add("w", NDArray::zeros({n}, f32)),
           back = p.add("back", NDArray::zeros({n}, k.type));
    const VarRef i = var("i");
    check(p,
          for_(i, 0, n,
               seq({store(w, cast(f32, load(a, {i})), {i}),
                    store(back, cast(k.type, cast(f32, load(a, {i})) * PrimExpr(0.75)), {i})})),
          k, 2);
    if (HasFatalFailure()) return;
  }
}

TEST(Legalize, FloatsRoundToNearestEven) {
  std::mt19937 random(5);
  for (const Kind& k : kinds) {
    std::vector<float> x = {
        0.0f,    -0.0f,   HUGE_VALF, -HUGE_VALF, NAN,      3.4028235e38f, 1e-45f,
        -1e-40f, 65504,   65519,     65520,      447,      448,           449,
        464,     465,     57344,     61440,      61441,    240,           248,
        249,     0x1p-9f, 0x1p-10f,  0x1.8p-10f, 0x1p-24f, 0x1p-25f,      0x1.000002p-25f};
    while (x.size() < 1000) x.push_back(std::bit_cast<float>(uint32_t(random())));
    while (x.size() < 2000) x.push_back(float(int(random() % 4000001) - 2000000) / 4096);
    const int64_t n = int64_t(x.size());
    Program p;
    Buffer a = p.add("a", NDArray::from_bytes({n}, f32, x.data(), x.size() * 4)),
           o = p.add("o", NDArray::zeros({n}, k.type));
    const VarRef i = var("i");
    check(p, for_(i, 0, n, store(o, cast(k.type, load(a, {i})), {i})), k, 1);
    if (HasFatalFailure()) return;
  }
}

TEST(Legalize, StorageAloneRefusesArithmetic) {
  Program p;
  Buffer a = p.add("a", NDArray::zeros({4}, DataType::bfloat16()));
  const VarRef i = var("i");
  PassContext context = plain_context();
  try {
    run_pass("bf16_storage_legalize",
             p.module(for_(i, 0, 4, store(a, make<Add>(load(a, {i}), load(a, {i})), {i}))), context);
    FAIL() << "not refused";
  } catch (const DiagnosticError& e) {
    EXPECT_NE(std::string(e.what()).find("bf16_compute_legalize"), std::string::npos) << e.what();
  }
}

TEST(Legalize, InstructionsStayWhereTheTargetHasThem) {
  Program p;
  Buffer a = p.add("a", NDArray::zeros({16}, f32)), h = p.add("h", NDArray::zeros({16}, f16)),
         b = p.add("b", NDArray::zeros({16}, DataType::bfloat16()));
  const PrimExpr at = make<Ramp>(PrimExpr(int64_t(0)), PrimExpr(int64_t(1)), int64_t(16));
  const IRModule m = p.module(seq({store(h, cast(f16.with_lanes(16), load(a, {at})), {at}),
                                   store(b, cast(DataType::bfloat16(16), load(a, {at})), {at})}));
  PassContext context;
  context.target = parse_target("llvm -mcpu=znver4");
  EXPECT_GT(narrow_nodes(run_pass("f16_storage_legalize", m, context), f16).first, 0u);
  // What rounds is an instruction; subnormals, which it would drop, go the long way.
  const IRModule bits = run_pass("bf16_storage_legalize", m, context);
  EXPECT_EQ(narrow_nodes(bits, DataType::bfloat16()).first, 1u);
  EXPECT_NE(print(bits).find("select_rare"), std::string::npos);
  PassContext rounded = context;
  rounded.options.set("bf16_storage_legalize.drop_subnormals", true);
  const IRModule dropped = run_pass("bf16_storage_legalize", m, rounded);
  EXPECT_EQ(narrow_nodes(dropped, DataType::bfloat16()).first, 1u);
  EXPECT_EQ(print(dropped).find("select_rare"), std::string::npos);
  PassContext arm;
  Target target = make<TargetNode>();
  target.edit()->triple = "aarch64-unknown-linux-gnu";
  target.edit()->features = {"asimd", "bf16"};
  arm.target = target;
  const IRModule exact = run_pass("bf16_storage_legalize", m, arm);
  EXPECT_EQ(narrow_nodes(exact, DataType::bfloat16()).first, 1u);
  EXPECT_EQ(print(exact).find("select_rare"), std::string::npos);
}

TEST(Legalize, DotProductsAreInstructionsOrFloat32) {
  for (const Kind& k : {kinds[0], kinds[1]})
    for (int64_t lanes : {1, 16}) {
      Program p;
      const int64_t n = 32 * lanes;
      Buffer c = p.add("c", random_array({16 * lanes}, f32, 1)), a = p.add("a", random_array({n}, k.type, 2)),
             b = p.add("b", random_array({n}, k.type, 3)), o = p.add("o", NDArray::zeros({16 * lanes}, f32));
      const VarRef i = var("i");
      auto at = [&](int64_t count) -> PrimExpr {
        return count == 1 ? PrimExpr(i) : make<Ramp>(i * PrimExpr(count), PrimExpr(int64_t(1)), count);
      };
      const PrimExpr shared = make<Ramp>(i * PrimExpr(int64_t(2)), PrimExpr(int64_t(1)), int64_t(2));
      const PrimExpr dot = call(f32.with_lanes(int(lanes)), "tir.dot",
                                {load(c, {at(lanes)}), load(a, {shared}), load(b, {at(2 * lanes)})});
      const IRModule m = p.module(for_(i, 0, 16, store(o, dot, {at(lanes)})));
      expect_valid(m, "input");
      const std::vector<NDArray> want = run_on(body_of(m), p.args, 1, m);
      for (const char* cpu : {"x86-64-v3", "znver4"}) {
        PassContext context;
        context.target = parse_target(std::string("llvm -mcpu=") + cpu);
        IRModule r = run_pass(k.storage, run_pass(k.compute, m, context), context);
        expect_valid(r, cpu);
        expect_same(want, run_on(body_of(r), p.args, 1, r), cpu);
        const bool instruction =
            k.type == DataType::bfloat16() && lanes == 16 && cpu == std::string("znver4");
        EXPECT_EQ(print(r).find("tir.dot") != std::string::npos, instruction) << print(r);
        r = run_pass(k.storage, run_pass(k.compute, r, context), context);  // again: nothing is left to do
        expect_same(want, run_on(body_of(r), p.args, 1, r), cpu);
      }
    }
}

TEST(NarrowDataType, DivisionsThatFitAreDoneIn32Bits) {
  auto divisions = [](const IRModule& m) {
    std::pair<size_t, size_t> n{0, 0};  // of int32, of int64
    pre_order(body_of(m)->body, [&](const ObjectRef& e) {
      if (e.is<FloorDiv>() || e.is<FloorMod>())
        ++(static_cast<const PrimExprNode*>(e.get())->dtype.element() == i32 ? n.first : n.second);
      return true;
    });
    return n;
  };
  PassContext context;
  auto run = [&](const PrimExpr& index, const VarRef& i, int64_t extent, const VarRef& size = {}) {
    Program p;
    Buffer a = p.add("a", random_array({64}, i64, 1));
    Buffer o = size ? buffer("o", {size}, i64) : p.add("o", NDArray::zeros({extent}, i64));
    if (size) {
      VarRef handle = var("p_o", DataType::handle());
      p.params.push_back(handle);
      p.map.set(handle, o);
      p.args.push_back(NDArray::zeros({extent}, i64));
    }
    const PrimExpr n = size ? PrimExpr(size) : PrimExpr(extent);
    const IRModule m = p.module(for_(i, 0, n, store(o, load(a, {index}) + index, {i})));
    const IRModule narrowed = run_pass("narrow_data_type", m, context);
    expect_valid(narrowed, "narrow_data_type");
    expect_same(run_on(body_of(m), p.args, 1, m), run_on(body_of(narrowed), p.args, 1, narrowed),
                "narrow_data_type");
    return divisions(narrowed);
  };
  const VarRef i = var("i"), n = var("n");
  EXPECT_EQ(run(floordiv(i, n64(7)) * 3 + floormod(i, n64(7)), i, 100).second, 0u);
  EXPECT_EQ(run(floordiv(i - 50, n64(7)) + 10, i, 100).second, 0u);  // negative numerators
  // A symbolic size has no bound, a product on the way does not fit.
  EXPECT_EQ(run(floormod(i, n64(7)), i, 100, n).first, 0u);
  EXPECT_EQ(run(floormod(i * 100000 * 100000, n64(7)), i, 100).first, 0u);
}

}  // namespace
}  // namespace tenon
