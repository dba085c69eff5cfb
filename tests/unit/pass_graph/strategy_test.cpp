// SPDX-License-Identifier: Apache-2.0
// Strategies: which implementation a call gets, why not the others, and that lowering and libraries follow.
#include "op/strategy.h"

#include "implementations.h"
#include "op/attrs_sort.h"
#include "runtime/library.h"

namespace tenon::graph::testing_graph {
namespace {

/// GPUs, which no code generator of this version makes code for.
const bool gpus_registered = [] {
  for (const char* name : {"cuda", "opencl"})
    register_target_kind({.name = name, .doc = "a GPU", .device = DeviceKind::gpu});
  return true;
}();

Call dense_call(int64_t rows, int64_t outputs, int64_t inputs, bool constant_weight) {
  const Expr x = var("x", tensor_type({PrimExpr(rows), PrimExpr(inputs)}, f32));
  const Expr w = constant_weight ? constant(random_array({outputs, inputs}))
                                 : Expr(var("w", tensor_type({PrimExpr(outputs), PrimExpr(inputs)}, f32)));
  return *op::op_call("nn.dense", {x, w}).as<Call>();
}
const op::Selection::Rejected* rejected(const op::Selection& s, std::string_view name) {
  for (const auto& r : s.rejected)
    if (r.name == name) return &r;
  return nullptr;
}

TEST(Strategy, ALibraryTakesCallsButNoTensorProgram) {
  const Call call = dense_call(8, 64, 32, true);
  auto without = op::select(call, record("llvm"));
  ASSERT_TRUE(without && rejected(*without, "dense.cblas"));
  EXPECT_EQ(rejected(*without, "dense.cblas")->reason, "the target does not name the library `cblas`");
  auto library = op::select(call, record("llvm", {"cblas"}));
  ASSERT_TRUE(library);
  EXPECT_EQ(library->chosen.name, "dense.cblas");
  EXPECT_EQ(library->chosen.priority, 15);
  EXPECT_EQ(library->key, "cpu");
  EXPECT_EQ(op::lowering_of(call, record("llvm", {"cblas"})).name, "dense.panels");
  EXPECT_EQ(op::select(call, record("opencl"))->key, "default");
}

TEST(Strategy, PanelsBeatThePlainSum) {
  const Target target = record("llvm");
  auto packed = op::select(dense_call(8, 64, 32, true), target);
  ASSERT_TRUE(packed);
  EXPECT_EQ(packed->chosen.name, "dense.panels");
  EXPECT_EQ(packed->chosen.priority, 10);
  ASSERT_TRUE(rejected(*packed, "dense.sum"));
  EXPECT_EQ(rejected(*packed, "dense.sum")->priority, 5);
  EXPECT_EQ(rejected(*packed, "dense.sum")->reason, "`dense.panels` has a higher priority");
  // Where packing would be done again in every call for few rows, it is not.
  auto plain = op::select(dense_call(8, 64, 32, false), target);
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->chosen.name, "dense.sum");
  EXPECT_EQ(rejected(*plain, "dense.panels")->reason,
            "8 rows of such a matrix do not pay for packing in every call");
  auto odd = op::select(dense_call(8, 63, 32, true), target);
  EXPECT_EQ(odd->chosen.name, "dense.sum");
}

TEST(Strategy, PanelsComputeTheProduct) {
  Target target = record("llvm");
  target.edit()->l2_bytes = 512;  // so that a small matrix is a large one
  Model m;
  auto x = m.param("x", {64, 8}), w = m.param("w", {32, 8});
  const IRModule in = m.done(m.op("nn.dense", {x, w}));
  PassContext context = make_context();
  context.target = target;
  const IRModule out = run_pass("lower_to_call_tir", in, context);
  EXPECT_NE(print(out).find("dense_panels"), std::string::npos);
  const std::vector<NDArray> inputs{random_array({64, 8}, f32, 1), random_array({32, 8}, f32, 2)};
  expect_close(run(in, inputs), run(out, inputs), 1e-6);
}

TEST(Strategy, LibraryWinsWhenTheTargetNamesIt) {
  Model m;
  auto x = m.param("x", {3, 4}), w = m.param("w", {4, 5});
  const IRModule in = m.done(m.op("nn.relu", {m.op("matmul", {x, w})}));
  PassContext context = make_context();
  context.target = record("llvm");
  EXPECT_EQ(ops_of(run_pass("use_libraries", in, context)), Names({"matmul", "nn.relu"}));
  context.target = record("llvm", {"cblas"});
  // Where nothing is measured, the compiler's own code stays.
  EXPECT_EQ(ops_of(run_pass("use_libraries", in, context)), Names({"matmul", "nn.relu"}));
  context.options.set("use_libraries.choose", Any("always"));
  const IRModule out = run_pass("use_libraries", in, context);
  expect_valid(out);
  EXPECT_EQ(ops_of(out), Names({"call_dps_packed", "nn.relu"}));
  // What the name stands for is called: here a function of the test.
  int calls = 0;
  const tenon::Function before = find_function("tenon.cblas.matmul");
  registry::add("tenon.cblas.matmul", tenon::Function([&](Arguments a) -> Any {
                  ++calls;
                  const NDArray p = a[0].as<NDArray>(), q = a[1].as<NDArray>(), r = a[2].as<NDArray>();
                  for (int64_t i = 0; i < 3; ++i)
                    for (int64_t j = 0; j < 5; ++j) {
                      double sum = 0;
                      for (int64_t k = 0; k < 4; ++k) sum += p.element(i * 4 + k) * q.element(k * 5 + j);
                      r.set_element(i * 5 + j, sum);
                    }
                  return Any();
                }),
                true);
  const std::vector<NDArray> inputs{random_array({3, 4}, f32, 1), random_array({4, 5}, f32, 2)};
  const auto got = run(out, inputs);
  registry::add("tenon.cblas.matmul", before, true);
  EXPECT_EQ(calls, 1);
  expect_close(run(in, inputs), got, 1e-6);
}

TEST(Strategy, ALibraryWinsWhereItIsMeasuredFaster) {
  Model m;
  auto x = m.param("x", {3, 4}), w = m.param("w", {4, 5}), v = m.param("v", {5, 5});
  const auto product = m.op("matmul", {x, w});
  const IRModule in = m.done(m.op("matmul", {m.op("nn.relu", {product}), v}));
  // Three forms of the first product are measured with the relu behind it, of the second alone.
  std::vector<double> seconds{3, 2, 1};
  std::vector<Names> forms;
  PassContext context = make_context();
  context.target = record("llvm", {"cblas", "dnnl"});
  context.measure = [&](const std::vector<IRModule>& modules) {
    for (const IRModule& form : modules) forms.push_back(ops_of(form));
    return Measured{seconds, {}};
  };
  const auto called = [&] {
    const std::string text = print(run_pass("use_libraries", in, context));
    return std::pair(text.find("tenon.cblas.matmul") != text.npos,
                     text.find("tenon.dnnl.matmul") != text.npos);
  };
  EXPECT_EQ(called(), std::pair(false, true));
  EXPECT_EQ(forms, (std::vector<Names>{{"matmul", "nn.relu"},
                                       {"call_dps_packed", "nn.relu"},
                                       {"call_dps_packed", "nn.relu"},
                                       {"matmul"},
                                       {"call_dps_packed"},
                                       {"call_dps_packed"}}));
  seconds = {3, 2, 2.5};
  EXPECT_EQ(called(), std::pair(true, false));
  // A gain that is less than what measuring varies by is none.
  seconds = {3, 2.95, 3.2};
  EXPECT_EQ(called(), std::pair(false, false));
  seconds = {};
  EXPECT_EQ(called(), std::pair(false, false));
}

TEST(Strategy, TargetsOverrideAndShapesSpecialise) {
  op::register_op("test.twice", "2 · x")
      .argument("x", "Tensor", "the operand")
      .infer(op::infer_same)
      .fusion(FusionKind::element_wise)
      .tensor_def([](const Call& c, const std::vector<te::Tensor>& in) {
        return std::vector<te::Tensor>{te::compute(
            op::output_info(c).shape,
            [&](const op::Vars& v) { return in[0](op::indices(v)) * op::constant(f32, 2); }, "own")};
      });
  auto define = [](const char* block) {
    return op::TensorDef([block](const Call& c, const std::vector<te::Tensor>& in) {
      return std::vector<te::Tensor>{te::compute(
          op::output_info(c).shape,
          [&](const op::Vars& v) { return in[0](op::indices(v)) + in[0](op::indices(v)); }, block)};
    });
  };
  op::Strategy strategy([=](const Call&, const Target&) {
    return std::vector<op::OpImpl>{{.name = "any", .priority = 10, .define = define("any_block")}};
  });
  strategy.override_for("cpu", [=](const Call&, const Target&) {
    return std::vector<op::OpImpl>{
        {.name = "cpu", .priority = 10, .define = define("cpu_block")},
        op::specialized(
            {.name = "cpu.small", .priority = 20, .define = define("small_block"), .schedule = "none"},
            [](const Call& c) {
              auto shape = static_shape(c.args[0]->type);
              return shape && element_count(*shape) <= 4;
            },
            "at most 4 elements")};
  });
  op::register_strategy("test.twice", strategy);
  auto lowered = [](int64_t n, const Target& target) {
    Model m;
    auto x = m.param("x", {PrimExpr(n)});
    PassContext context = make_context();
    context.target = target;
    return run_pass("lower_to_call_tir", m.done(m.op("test.twice", {x})), context);
  };
  for (auto [n, kind, block] :
       {std::tuple{4, "llvm", "small_block"}, {5, "llvm", "cpu_block"}, {4, "opencl", "any_block"}}) {
    const IRModule m = lowered(n, record(kind));
    EXPECT_NE(print(m).find(block), std::string::npos) << n << " " << kind;
    EXPECT_EQ(print(m).find("tenon.schedule_rule") != std::string::npos,
              std::string_view(block) == "small_block");
    const NDArray x = random_array({n});
    for (int64_t i = 0; i < n; ++i) EXPECT_EQ(run(m, {x})[0].element(i), 2 * x.element(i));
  }
  auto choice = op::select(*op::op_call("test.twice", {var("x", tensor_type({PrimExpr(9)}, f32))}).as<Call>(),
                           record("llvm"));
  ASSERT_TRUE(choice);
  EXPECT_EQ(rejected(*choice, "cpu.small")->reason, "specialised for at most 4 elements");
}

TEST(Strategy, WithoutOneTheDefinitionIsTheImplementation) {
  const Call call = *op::op_call("exp", {var("x", tensor_type({PrimExpr(2)}, f32))}).as<Call>();
  auto choice = op::select(call, record("llvm"));
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->chosen.name, "exp.default");
  EXPECT_EQ(choice->why, "its only implementation");
  EXPECT_TRUE(choice->rejected.empty());
}

TEST(Strategy, TargetsAreReadAndPrinted) {
  const Target t = parse_target("llvm -mcpu=x86-64-v3 -libs=cblas");
  EXPECT_TRUE(t->has_library("cblas"));
  EXPECT_EQ(to_string(t), "llvm -mcpu=x86-64-v3 -libs=cblas");
  EXPECT_TRUE(target_from_json(to_json(t))->has_library("cblas"));
  EXPECT_FALSE(host_target()->has_library("cblas"));
}

TEST(Strategy, ConvolutionsAreDirectDepthwiseOrProducts) {
  const Target target = record("llvm");
  auto conv = [](std::vector<int64_t> x, std::vector<int64_t> w, int64_t groups) {
    auto dims = [](const std::vector<int64_t>& d) {
      Array<PrimExpr> out;
      for (int64_t v : d) out.push_back(PrimExpr(v));
      return out;
    };
    return *op::op_call("nn.conv2d",
                        {var("x", tensor_type(dims(x), f32)), var("w", tensor_type(dims(w), f32))},
                        op::make_attrs<op::ConvAttrs>([&](op::ConvAttrs& a) {
                          a.groups = groups;
                          a.strides = {2, 1};
                          a.padding = {1, 0, 0, 2};
                        }))
                .as<Call>();
  };
  const Call plain = conv({2, 3, 6, 5}, {4, 3, 3, 2}, 1), depthwise = conv({1, 4, 6, 5}, {4, 1, 3, 3}, 4),
             point = conv({1, 4, 6, 5}, {4, 4, 1, 1}, 1), grouped = conv({1, 4, 6, 5}, {4, 2, 3, 3}, 2);
  EXPECT_EQ(op::select(depthwise, target)->chosen.name, "conv2d.depthwise");
  EXPECT_EQ(rejected(*op::select(plain, target), "conv2d.depthwise")->reason,
            "channels of a group are summed up");
  EXPECT_EQ(rejected(*op::select(grouped, target), "conv2d.im2col")->reason, "2 groups are as many products");
  EXPECT_EQ(rejected(*op::select(point, target), "conv2d.im2col")->reason,
            "windows of one element need no copy");
  const auto results =
      computed_by_all(plain, {random_array({2, 3, 6, 5}), random_array({4, 3, 3, 2}, f32, 9)}, target);
  EXPECT_EQ(results.size(), 2u);
  expect_all_alike(results);
  expect_all_alike(
      computed_by_all(depthwise, {random_array({1, 4, 6, 5}), random_array({4, 1, 3, 3}, f32, 9)}, target));
}

Call topk_call(const Array<PrimExpr>& shape, int64_t k, DataType dtype, int64_t axis = -1,
               bool largest = true) {
  return *op::op_call("topk", {var("x", tensor_type(shape, dtype)), op::shape({k})},
                      op::make_attrs<op::TopKAttrs>(axis, largest))
              .as<Call>();
}

TEST(Strategy, TheFirstOfARowByInsertionHeapOrSort) {
  const Target target = record("llvm");
  auto chosen = [&](int64_t n, int64_t k, DataType t) {
    return op::select(topk_call({PrimExpr(3), PrimExpr(n)}, k, t), target)->chosen.name;
  };
  EXPECT_EQ(chosen(16, 4, f32), "topk.insert");
  EXPECT_EQ(chosen(100, 20, f32), "topk.heap");
  EXPECT_EQ(chosen(100, 20, f64), "topk.wide_heap");
  EXPECT_EQ(chosen(100, 30, f32), "topk.sort");
  EXPECT_EQ(op::select(topk_call({PrimExpr(3), tir::var("n")}, 20, f32), target)->chosen.name, "topk.heap");
  const PrimExpr n = tir::var("n");
  const Call whole =
      *op::op_call("topk",
                   {var("x", tensor_type({PrimExpr(3), n}, f32)), make<ShapeExpr>(Array<PrimExpr>{n})},
                   op::make_attrs<op::TopKAttrs>(int64_t(-1), true))
           .as<Call>();
  EXPECT_EQ(op::select(whole, target)->chosen.name, "topk.sort");
  const auto many = op::select(topk_call({PrimExpr(3), PrimExpr(100)}, 30, i64), target);
  EXPECT_EQ(rejected(*many, "topk.insert")->reason, "int64 and a position are more than 64 bits");
  EXPECT_EQ(rejected(*many, "topk.wide_heap")->reason, "30 of 100 are more than a heap gains on");
  const auto few = op::select(topk_call({PrimExpr(3), PrimExpr(100)}, 20, f32), target);
  EXPECT_EQ(rejected(*few, "topk.insert")->reason, "20 are more than the 8 that are kept in order");
  // Each way gives the same, along memory and across it, of equals and of what is no number.
  for (const bool largest : {true, false})
    for (const int64_t axis : {0, 1, 2})
      for (const int64_t k : {1, 3}) {
        NDArray x = random_array({3, 70, 37});
        for (int64_t i = 0; i < x.size(); ++i) x.set_element(i, std::round(x.element(i) * 3));
        x.set_element(5, 1e30), x.set_element(37 * 4 + 5, -1e30), x.set_element(2, std::nan("")),
            x.set_element(37 * 9 + 2, -0.0);
        const auto results = computed_by_all(
            topk_call({PrimExpr(3), PrimExpr(70), PrimExpr(37)}, k, f32, axis, largest), {x}, target);
        EXPECT_EQ(results.size(), axis == 0 ? 2u : 4u);
        expect_all_alike(results);
      }
}

TEST(Strategy, RowsAreSortedByRanksBytesOrMerges) {
  const Target target = record("llvm");
  auto sort_call = [](const char* name, const Array<PrimExpr>& shape, DataType t, bool descending) {
    return *op::op_call(name, {var("x", tensor_type(shape, t))},
                        op::make_attrs<op::SortAttrs>(int64_t(-1), descending))
                .as<Call>();
  };
  auto chosen = [&](PrimExpr n, DataType t) {
    return op::select(sort_call("argsort", {PrimExpr(3), std::move(n)}, t, false), target)->chosen.name;
  };
  EXPECT_EQ(chosen(16, f32), "argsort.ranks");
  EXPECT_EQ(chosen(17, f32), "argsort.merge");
  EXPECT_EQ(chosen(200, DataType::bfloat16()), "argsort.radix");
  EXPECT_EQ(chosen(tir::var("n"), u8), "argsort.radix");
  EXPECT_EQ(chosen(200, f64), "argsort.wide_merge");
  const auto few = op::select(sort_call("sort", {PrimExpr(3), PrimExpr(20)}, f32, false), target);
  EXPECT_EQ(rejected(*few, "sort.ranks")->reason, "each of 20 elements would be compared with all others");
  EXPECT_EQ(rejected(*few, "sort.radix")->reason, "20 elements are fewer than its counters pay for");
  for (const char* name : {"sort", "argsort"})
    for (const bool descending : {false, true})
      for (const int64_t n : {1, 9, 16, 203}) {
        NDArray x = random_array({3, n});
        for (int64_t i = 0; i < x.size(); ++i) x.set_element(i, std::round(x.element(i) * 3));
        if (n > 8) x.set_element(3, std::nan("")), x.set_element(6, -0.0), x.set_element(7, -1e30);
        const auto results =
            computed_by_all(sort_call(name, {PrimExpr(3), PrimExpr(n)}, f32, descending), {x}, target);
        EXPECT_EQ(results.size(), 3u);
        expect_all_alike(results);
      }
}

/// Of a symbolic size where it is negative.
Call pool_call(const char* name, const std::vector<int64_t>& x, const op::PoolAttrs& attrs,
               DataType dtype = f32) {
  Array<PrimExpr> dims;
  for (int64_t d : x) dims.push_back(d < 0 ? PrimExpr(tir::var("n")) : PrimExpr(d));
  return *op::op_call(name, {var("x", tensor_type(dims, dtype))},
                      op::make_attrs<op::PoolAttrs>([&](op::PoolAttrs& a) { a = attrs; }))
              .as<Call>();
}
op::PoolAttrs window(Array<int64_t> size, Array<int64_t> strides, const char* layout = "") {
  op::PoolAttrs a;
  a.pool_size = size;
  a.strides = strides;
  a.layout = layout;
  return a;
}

TEST(Strategy, LargeWindowsAreFoldedAxisByAxis) {
  const Target target = record("llvm");
  const auto chosen = [&](const Call& c) { return op::select(c, target)->chosen.name; };
  const auto why_not = [&](const Call& c, const char* name) {
    return rejected(*op::select(c, target), name)->reason;
  };
  for (const std::string kind : {"max", "avg", "lp"}) {
    const std::string op = "nn." + kind + "_pool2d", by_axes = kind + "_pool2d.by_axes",
                      at_once = kind + "_pool2d.at_once";
    const auto pool = [&](const std::vector<int64_t>& x, const op::PoolAttrs& a) {
      return pool_call(op.c_str(), x, a);
    };
    EXPECT_EQ(chosen(pool({1, 2, 9, 12}, window({5, 5}, {1, 1}))), by_axes);
    EXPECT_EQ(chosen(pool({1, 2, 9, 12}, window({3, 3}, {1, 1}))), at_once);
    EXPECT_EQ(why_not(pool({1, 2, 9, 12}, window({3, 3}, {1, 1})), by_axes.c_str()),
              "9 elements at once are no more than 2 times 6 axis by axis");
    EXPECT_EQ(chosen(pool({-1, 2, -1, -1}, window({5, 5}, {1, 1}))), by_axes);
    EXPECT_EQ(chosen(pool({-1, 2, -1, -1}, window({3, 3}, {1, 1}))), at_once);
    // What lies between the axes is far larger than a cache.
    EXPECT_EQ(why_not(pool({1, 64, 512, 512}, window({5, 5}, {1, 1})), by_axes.c_str()),
              "25 elements at once are no more than 3 times 10 axis by axis");
    // Windows side by side: at once each vector is gathered.
    EXPECT_EQ(chosen(pool({1, 8, 64, 64}, window({8, 8}, {8, 8}))), by_axes);
    EXPECT_EQ(chosen(pool({1, 8, 64, 64}, window({2, 2}, {2, 2}))), at_once);
    EXPECT_EQ(chosen(pool({1, 64, 64, 8}, window({8, 8}, {8, 8}, "NHWC"))), at_once);
    EXPECT_EQ(chosen(pool({1, 9, 12, 8}, window({5, 5}, {1, 1}, "NHWC"))), at_once);
  }
}

TEST(Strategy, WindowsFoldedAxisByAxisHaveTheSameValues) {
  std::mt19937 random(7);
  const auto any = [&](int64_t from, int64_t to) {
    return std::uniform_int_distribution<int64_t>(from, to)(random);
  };
  for (int round = 0; round < 15; ++round) {
    const size_t n = round % 3 == 0 ? 3 : 2;
    op::PoolAttrs a;
    std::vector<int64_t> x{any(1, 2), any(1, 3)};
    Array<int64_t> begins, ends;
    for (size_t i = 0; i < n; ++i) {
      a.pool_size.push_back(any(3, 5));
      a.strides.push_back(any(1, 4));
      a.dilation.push_back(any(1, 2));
      begins.push_back(any(0, 2));
      ends.push_back(any(0, 2));
      x.push_back(any(9, 10));
    }
    for (int64_t e : ends) begins.push_back(e);
    a.padding = begins;
    a.ceil_mode = any(0, 1);
    a.count_include_pad = any(0, 1);
    a.p = any(1, 3);
    if (n == 2 && any(0, 1)) {
      a.layout = "NHWC";
      std::rotate(x.begin() + 1, x.begin() + 2, x.end());
    }
    for (const std::string kind : {"max", "avg", "lp"}) {
      SCOPED_TRACE(fmt::format("round {} of {}", round, kind));
      const DataType dtype = round % 5 == 4 ? f16 : f32;
      const Call call = pool_call(fmt::format("nn.{}_pool{}d", kind, n).c_str(), x, a, dtype);
      const auto results =
          computed_by_all(call, {random_array(x, dtype, uint64_t(round))}, record("llvm"), true);
      EXPECT_EQ(results.size(), 2u);
      for (const auto& [name, value] : results)
        expect_close(results.begin()->second, value, dtype == f16 ? 2e-3 : 1e-5);
    }
  }
}

TEST(Strategy, AUserNamesTheImplementation) {
  Model m;
  const Expr x = m.param("x", {PrimExpr(1), PrimExpr(3), PrimExpr(5), PrimExpr(5)}),
             w = m.param("w", {PrimExpr(4), PrimExpr(3), PrimExpr(2), PrimExpr(2)});
  const IRModule in = m.done(m.op("nn.conv2d", {x, w}));
  const std::vector<NDArray> inputs{random_array({1, 3, 5, 5}), random_array({4, 3, 2, 2}, f32, 9)};
  auto lowered = [&](const std::string& named) {
    PassContext context = make_context();
    context.target = record("llvm");
    context.options.set_text("lower_to_call_tir.implementations=" + named);
    return run_pass("lower_to_call_tir", in, context);
  };
  auto has_product = [](const IRModule& m) { return print(m).find("conv2d_product") != std::string::npos; };
  EXPECT_TRUE(has_product(lowered("nn.conv2d=conv2d.im2col")));
  EXPECT_FALSE(has_product(lowered("nn.conv2d=conv2d.direct")));
  expect_close(run(in, inputs), run(lowered("nn.conv2d=conv2d.im2col"), inputs), 1e-5);
  auto refused = [&](const std::string& named) {
    try {
      lowered(named);
    } catch (const DiagnosticError& e) {
      return e.diagnostics[0].code + ": " + e.diagnostics[0].message;
    }
    return std::string();
  };
  EXPECT_EQ(refused("nn.conv2d=conv2d.depthwise"),
            "T1108: `conv2d.depthwise` does not compute this `nn.conv2d`: channels of a group are summed up");
  EXPECT_EQ(refused("nn.conv2d=conv2d.winograd"),
            "T1108: `nn.conv2d` has no implementation `conv2d.winograd`");
  EXPECT_EQ(refused("nn.convolution=x"),
            "T1108: there is no operator `nn.convolution` for the implementation `x`");
}

}  // namespace
}  // namespace tenon::graph::testing_graph
