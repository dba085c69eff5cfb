// SPDX-License-Identifier: Apache-2.0
// From graph functions to the VM: control flow, sizes, tuples, ownership of results.
#include "base/function.h"
#include "support.h"

namespace tenon::graph::testing_graph {
namespace {

NDArray flag(bool v) {
  NDArray a = NDArray::empty({}, boolean);
  a.set_element_int(0, v);
  return a;
}
NDArray number(int64_t v) { return NDArray::scalar(v, i64); }
ObjectRef axis(int64_t a) { return op::make_attrs<op::AxisAttrs>(a); }

Expr typed(Expr e, const Type& t) {
  e.edit()->type = t;
  return e;
}

TEST(VmCodegen, OneOperator) {
  Model m;
  auto x = m.param("x", {2, 3});
  expect_vm_agrees(m.done(m.op("add", {x, m.weight({3})})), {random_array({2, 3})});
}

TEST(VmCodegen, NetworkWithArenaAndViews) {
  Model m;
  auto x = m.param("x", {1, 2, 6, 6});
  Expr y = m.op("nn.conv2d", {x, m.weight({3, 2, 3, 3})}, op::make_attrs<op::ConvAttrs>());
  y = m.op("nn.relu", {m.op("add", {y, m.weight({3, 1, 1})})});
  y = m.op("nn.max_pool2d", {y}, op::make_attrs<op::PoolAttrs>([](auto& a) {
             a.pool_size = Array<int64_t>{2, 2};
             a.strides = Array<int64_t>{2, 2};
           }));
  y = m.op("reshape", {y, op::shape({1, 12})});
  y = m.op("nn.softmax", {m.op("nn.dense", {y, m.weight({4, 12})})}, axis(-1));
  IRModule in = m.done(y);
  expect_vm_agrees(in, {random_array({1, 2, 6, 6})});
  IRModule planned;
  Artifact a = build(in, &planned);
  EXPECT_GT(a.executable().arena_bytes, 0);
  // Only the result comes from the pool.
  int allocations = 0;
  for (const Instruction& i : a.executable().code)
    allocations +=
        i.op == Opcode::Call && a.executable().callees[size_t(i.callee)].name == "vm.builtin.alloc_tensor";
  EXPECT_EQ(allocations, 1);
}

TEST(VmCodegen, ResultsThatAreInputsConstantsOrTwice) {
  Model m;
  auto x = m.param("x", {3});
  Expr y = m.op("exp", {x});
  IRModule in = m.done(op::tuple({x, y, m.weight({2}), y}));
  NDArray input = random_array({3});
  std::vector<NDArray> got = expect_vm_agrees(in, {input});
  EXPECT_NE(got[0].data(), input.data());
}

TEST(VmCodegen, ViewOfAnInputIsACopyAsResult) {
  Model m;
  auto x = m.param("x", {3, 2});
  NDArray input = random_array({3, 2});
  std::vector<NDArray> got = expect_vm_agrees(m.done(m.op("reshape", {x, op::shape({6})})), {input});
  EXPECT_NE(got[0].data(), input.data());
}

TEST(VmCodegen, Branches) {
  Model m;
  auto c = m.param("c", {}, boolean);
  auto x = m.param("x", {4});
  Expr e = m.op("exp", {x});
  auto branch = [&](const char* name) {
    BlockBuilder b = op::make_builder();
    Expr s = b.emit(op::op_call("nn.softmax", {e}, axis(0)), "s");
    return b.finish(b.emit(op::op_call("nn.softmax", {b.emit(op::op_call(name, {s}), "u")}, axis(0)), "v"));
  };
  Expr choice = typed(make<If>(c, branch("sin"), branch("cos")), x->type);
  Expr y = m.op("nn.softmax", {m.op("add", {m.builder.emit(choice), e})}, axis(0));
  IRModule in = m.done(y);
  NDArray a = random_array({4});
  expect_vm_agrees(in, {flag(true), a});
  expect_vm_agrees(in, {flag(false), a});
}

TEST(VmCodegen, BranchThatGivesAnOuterValueOrAConstant) {
  Model m;
  auto c = m.param("c", {}, boolean);
  auto x = m.param("x", {2});
  Expr outer = make<SeqExpr>(Array<BindingBlock>(), x),
       fixed = make<SeqExpr>(Array<BindingBlock>(), m.weight({2}));
  outer.edit()->type = fixed.edit()->type = x->type;
  IRModule in = m.done(m.builder.emit(typed(make<If>(c, outer, fixed), x->type)));
  NDArray a = random_array({2});
  std::vector<NDArray> got = expect_vm_agrees(in, {flag(true), a});
  EXPECT_NE(got[0].data(), a.data());
  expect_vm_agrees(in, {flag(false), a});
}

IRModule loop_model(int64_t iterations, const PrimExpr& size = 4, bool change_places = true) {
  Model m;
  auto x = m.param("x", {size});
  Expr outside = m.op("nn.softmax", {x}, axis(0));
  auto i = var("i", tensor_type({}, i64)), s = var("s", x->type), t = var("t", x->type);
  BlockBuilder cond = op::make_builder(), body = op::make_builder();
  Expr condition =
      cond.finish(cond.emit(op::op_call("less", {i, op::scalar(double(iterations), i64)}), "go"));
  Expr next = body.emit(op::op_call("add", {i, op::scalar(1, i64)}), "next");
  Expr u = body.emit(op::op_call("nn.softmax", {body.emit(op::op_call("add", {s, outside}), "sum")}, axis(0)),
                     "u");
  Expr step = body.finish(change_places ? op::tuple({next, t, u}) : op::tuple({next, u, t}));
  Expr loop =
      make<While>(Array<VarRef>{i, s, t}, Array<Expr>{op::scalar(0, i64), x, outside}, condition, step);
  loop.edit()->type = op::infer_type(loop);
  Expr all = m.builder.emit(loop);
  Expr a = m.builder.emit(op::get_item(all, 1)), b = m.builder.emit(op::get_item(all, 2)),
       n = m.builder.emit(op::get_item(all, 0));
  return m.done(op::tuple({m.op("subtract", {a, b}), a, n}));
}

TEST(VmCodegen, LoopsOfAnyCount) {
  for (int64_t iterations : {0, 1, 2, 5}) expect_vm_agrees(loop_model(iterations), {random_array({4})});
}

TEST(VmCodegen, LoopsWhoseStateIsHeldInRegisters) {
  auto takes_apart = [](const IRModule& m) {
    const Artifact artifact = build(m);
    return std::ranges::any_of(artifact.executable().callees,
                               [](const Callee& c) { return c.name == "vm.builtin.tuple_get"; });
  };
  for (const bool change_places : {true, false}) {
    for (int64_t iterations : {0, 1, 2, 5})
      expect_vm_agrees(loop_model(iterations, tir::var("n"), change_places), {random_array({4})});
    // What a turn leaves goes over, and is not shared with the register that it was made in.
    const Artifact artifact = build(loop_model(2, tir::var("n"), change_places));
    EXPECT_TRUE(std::ranges::any_of(artifact.executable().code, [&](const Instruction& i) {
      return i.op == Opcode::Call && i.num_args == 2 &&
             artifact.executable().callees[size_t(i.callee)].name == "vm.builtin.move";
    }));
    // Only values that change places have to wait for each other.
    EXPECT_EQ(takes_apart(loop_model(2, tir::var("n"), change_places)), change_places);
  }
}

TEST(VmCodegen, SymbolicSizesAndDerivedOnes) {
  auto n = tir::var("n");
  Model m;
  auto x = m.param("x", {PrimExpr(n), PrimExpr(3)});
  Expr c = m.op("concat", {op::tuple({x, m.op("exp", {x})})}, axis(0));  // 2n
  Expr f = m.op("reshape", {c, shape_expr({PrimExpr(n) * 6})});          // 6n
  Expr y = m.op("nn.softmax", {f}, axis(0));
  IRModule in = m.done(op::tuple({y, c}));
  for (int64_t size : {1, 4, 7}) expect_vm_agrees(in, {random_array({size, 3})});
  Session session(build(in));
  for (int64_t size : {5, 2})
    EXPECT_EQ(session.invoke({random_array({size, 3})})[0].shape(), std::vector<int64_t>({6 * size}));
  EXPECT_EQ(session.artifact().inputs()[0].shape[0].symbol, "n");
}

TEST(VmCodegen, PartsOfSizesAreComputedOnce) {
  Model m;
  auto x = m.param("x", {PrimExpr(tir::var("n")), PrimExpr(3)});
  auto z = m.param("z", {PrimExpr(tir::var("m"))});
  Expr flat = m.op("nn.softmax", {m.op("reshape", {x, op::shape({-1})})}, axis(0));
  Expr y = m.op("nn.softmax", {m.op("concat", {op::tuple({flat, z})}, axis(0))}, axis(0));
  IRModule in = m.done(op::tuple({flat, y}));
  for (int64_t size : {1, 4}) expect_vm_agrees(in, {random_array({size, 3}), random_array({2})});
  const Artifact built = build(in);
  const Executable& e = built.executable();
  std::vector<uint32_t> words;
  for (const Instruction& i : e.code)
    if (i.op == Opcode::Call && e.callees[size_t(i.callee)].name == "vm.builtin.compute_shape")
      words.push_back(i.num_args);
  // A slot, then pairs: n, 3 and their product; the slot of the product, m and the sum.
  EXPECT_EQ(words, (std::vector<uint32_t>{7, 7}));
}

TEST(VmCodegen, DynamicChainsShareRegisters) {
  Model m;
  Expr x = m.param("x", {PrimExpr(tir::var("n"))});
  Expr first = m.op("nn.softmax", {x}, axis(0));
  Expr y = first;
  for (int i = 0; i < 40; ++i) y = m.op("nn.softmax", {y}, axis(0));
  IRModule in = m.done(m.op("add", {y, first}));
  expect_vm_agrees(in, {random_array({6})});
  EXPECT_LE(build(in).executable().functions[0].num_registers, 6);
}

TEST(VmCodegen, WhatIsOverGoesBeforeAnAllocation) {
  // Four tensors end with their concatenation, and what follows takes the register of one of them only. It
  // and the two results behind it are of four parts each.
  constexpr int64_t kColumns = 512, kBlock = 64 + kColumns * 4;
  Model m;
  Expr x = m.param("x", {PrimExpr(tir::var("n")), PrimExpr(kColumns)});
  Array<Expr> parts;
  for (int i = 0; i < 4; ++i) parts.push_back(m.op("nn.softmax", {i ? parts[size_t(i - 1)] : x}, axis(1)));
  Expr all = m.op("concat", {make<Tuple>(parts)}, axis(0));
  IRModule in = m.done(m.op("nn.softmax", {m.op("nn.softmax", {all}, axis(0))}, axis(0)));
  expect_vm_agrees(in, {random_array({2, kColumns})});
  Session session(build(in), {.memory_limit = 12 * kBlock});
  EXPECT_EQ(session.invoke({random_array({1, kColumns})})[0].shape(), std::vector<int64_t>({4, kColumns}));
}

TEST(VmCodegen, APlanThatDoesNotFitIsOurMistake) {
  Model m;
  auto x = m.param("x", {16});
  IRModule planned;
  build(m.done(m.op("nn.softmax", {m.op("nn.softmax", {x}, axis(0))}, axis(0))), &planned);
  Ref<Function> f = main_of(planned);
  ASSERT_TRUE(f->plan);
  Ref<MemoryPlan> plan = f->plan;
  plan.edit()->calls.push_back({int64_t(0)});
  f.edit()->plan = plan;
  planned.set("main", f);
  EXPECT_THROW(vm_codegen(planned, {}), InternalError);
  f.edit()->plan = {};  // no plan: everything from the pool
  planned.set("main", f);
  EXPECT_EQ(vm_codegen(planned, {}).arena_bytes, 0);
}

/// Tables whose plan was changed behind the code's back are refused when they are loaded.
TEST(VmCodegen, KernelsSayWhatTheyTouch) {
  Model m;
  auto x = m.param("x", {16});
  IRModule planned;
  const Artifact artifact =
      build(m.done(m.op("nn.softmax", {m.op("nn.softmax", {x}, axis(0))}, axis(0))), &planned);
  Executable e = artifact.executable();
  ASSERT_EQ(e.arena_tensors.size(), 1u);
  for (const Callee& c : e.callees)
    if (c.kind == CalleeKind::Kernel) {
      EXPECT_EQ(c.buffer_bytes, (std::vector<int64_t>{64, 64}));
    }
  check_executable(e);
  e.arena_tensors[0].shape = {15};
  try {
    check_executable(e);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code, "T0607");
    EXPECT_NE(std::string(error.what()).find("the memory plan does not fit the code"), std::string::npos);
  }
}

TEST(VmCodegen, BoundedSizesLieInTheArena) {
  Model m;
  auto x = m.param("x", {PrimExpr(tir::var("n")), PrimExpr(4)});
  Expr e = m.op("exp", {x});
  Expr both = m.op("concat", {op::tuple({e, x})}, op::make_attrs<op::AxisAttrs>(0));
  const IRModule in = m.done(m.op("nn.softmax", {both}, op::make_attrs<op::AxisAttrs>(0)));
  IRModule planned;
  const Artifact artifact = build(in, &planned, [](PassContext& context) {
    context.options.set("plan_memory.bounds", Map<std::string, int64_t>{{"n", 8}});
    context.disabled.insert("fuse_ops");
  });
  EXPECT_GE(artifact.executable().arena_bytes, 16 * 4 * 4);
  Session session(artifact);
  for (int64_t n : {8, 3, 1, 8}) {
    const NDArray a = random_array({n, 4});
    expect_close(run(in, {a}), session.invoke({a}), 1e-5);
  }
  const int64_t resting = session.memory_used();
  try {
    session.invoke({random_array({9, 4})});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code, "T0505");
    EXPECT_NE(e.message.find("at most 8"), e.message.npos) << e.message;
  }
  EXPECT_EQ(session.memory_used(), resting);
  const NDArray a = random_array({2, 4});
  expect_close(run(in, {a}), session.invoke({a}), 1e-5);
}

TEST(VmCodegen, OneSymbolInTwoInputsMustAgree) {
  auto n = tir::var("n");
  Model m;
  auto x = m.param("x", {PrimExpr(n)});
  auto y = m.param("y", {PrimExpr(n)});
  Session session(build(m.done(m.op("add", {x, y}))));
  EXPECT_EQ(session.invoke({random_array({3}), random_array({3})})[0].shape(), std::vector<int64_t>({3}));
  EXPECT_THROW(session.invoke({random_array({3}), random_array({4})}), Error);
}

TEST(VmCodegen, MatchCastBindsAndChecks) {
  auto k = tir::var("k");
  Model m;
  auto x = m.params.emplace_back(var("x", tensor_type_unknown(2, f32)));
  VarRef y = m.builder.emit_match_cast(x, tensor_type({PrimExpr(k), PrimExpr(2)}, f32), "y");
  IRModule in = m.done(m.op("exp", {y}));
  expect_vm_agrees(in, {random_array({3, 2})});
  Session session(build(in));
  EXPECT_THROW(session.invoke({random_array({3, 4})}), Error);
}

TEST(VmCodegen, MatchCastToNoDimensionsIsChecked) {
  Model m;
  auto x = m.param("x", {3});
  VarRef y = m.builder.emit_match_cast(x, tensor_type({}, f32), "y");
  Session session(build(m.done(m.op("exp", {y}))));
  std::string code;
  try {
    session.invoke({random_array({3})});
  } catch (const Error& e) {
    code = e.code;
  }
  EXPECT_EQ(code, "T0501");
}

TEST(VmCodegen, CallsAndRecursion) {
  // f(i, x) = i <= 0 ? x : f(i - 1, tanh(x + 1))
  auto i = var("i", tensor_type({}, i64)), x = var("x", tensor_type({3}, f32));
  BlockBuilder b = op::make_builder();
  Expr done = b.emit(op::op_call("less_equal", {i, op::scalar(0, i64)}), "done");
  BlockBuilder rest = op::make_builder();
  Expr less = rest.emit(op::op_call("subtract", {i, op::scalar(1, i64)}), "less");
  Expr next =
      rest.emit(op::op_call("tanh", {rest.emit(op::op_call("add", {x, op::scalar(1, f32)}), "sum")}), "next");
  Expr again = rest.emit(typed(call(global("f"), {less, next}), x->type), "again");
  Expr stop = make<SeqExpr>(Array<BindingBlock>(), x);
  stop.edit()->type = x->type;
  Expr r = b.emit(typed(make<If>(done, stop, rest.finish(again)), x->type), "r");
  Model m;
  auto n = m.param("n", {}, i64);
  auto y = m.param("y", {3});
  Expr result = m.op("negative", {m.builder.emit(typed(call(global("f"), {n, y}), x->type))});
  IRModule in = m.done(result);
  in.set("f", make<Function>(Array<VarRef>{i, x}, b.finish(r), x->type, AttrMap()));
  for (int64_t depth : {0, 1, 6}) expect_vm_agrees(in, {number(depth), random_array({3})});
}

TEST(VmCodegen, PackedFunctions) {
  static int calls = 0;
  registry::add("test.pipeline.twice", tenon::Function([](Arguments a) {
                  ++calls;
                  NDArray x = a[0].as<NDArray>(), y = NDArray::empty(x.shape(), x.dtype());
                  for (int64_t i = 0; i < x.size(); ++i) y.set_element(i, 2 * x.element(i));
                  return Any(y);
                }),
                true);
  Model m;
  auto x = m.param("x", {3});
  Expr e = m.op("exp", {x});
  Expr packed =
      call(get_op("call_packed"), {Expr(make<ExternFunc>("test.pipeline.twice")), e}, {}, {x->type});
  Expr y = m.op("add", {m.builder.emit(typed(packed, x->type)), e});
  IRModule in = m.done(y);
  calls = 0;
  Session session(build(in));
  expect_close(run(in, {random_array({3})}), session.invoke({random_array({3})}), 1e-6);
  EXPECT_EQ(calls, 2);
}

TEST(VmCodegen, NamesOfInputsAndOutputs) {
  Model m;
  auto x = m.param("x", {3});
  IRModule in = m.done(op::tuple({m.op("exp", {x}), m.op("sin", {x})}));
  Ref<Function> f = main_of(in);
  f.edit()->attrs.set("input_names", Any(Array<std::string>{"image"}));
  f.edit()->attrs.set("output_names", Any(Array<std::string>{"a", "b"}));
  in.set("main", f);
  Artifact a = build(in);
  EXPECT_EQ(a.inputs()[0].name, "image");
  EXPECT_EQ(a.outputs()[0].name, "a");
  EXPECT_EQ(a.outputs()[1].name, "b");
  EXPECT_EQ(a.outputs()[1].shape[0].value, 3);
}

TEST(VmCodegen, RefusesWhatNothingLowered) {
  Model m;
  auto x = m.params.emplace_back(var("x", tensor_type_unknown(-1, f32)));
  Expr e = call(get_op("squeeze"), {x}, op::make_attrs<op::AxesAttrs>());
  e.edit()->origin = make<OriginObj>("model.onnx, node 'e' (Squeeze-13)");
  Expr y = m.builder.emit(typed(e, x->declared));
  IRModule in = m.done(y);
  PassContext context = make_context();
  IRModule lowered = run_passes(in, graph_passes(), context);
  try {
    vm_codegen(lowered, {});
    FAIL() << "an operator without known shapes was compiled";
  } catch (const DiagnosticError& error) {
    ASSERT_EQ(error.diagnostics.size(), 1u);
    EXPECT_EQ(error.diagnostics[0].code, "T0811");
    EXPECT_EQ(error.diagnostics[0].location, "model.onnx, node 'e' (Squeeze-13)");
    EXPECT_NE(error.diagnostics[0].message.find("squeeze"), std::string::npos);
  }
}

}  // namespace
}  // namespace tenon::graph::testing_graph
