// SPDX-License-Identifier: Apache-2.0
// The last step: kernels behind make_packed_api, compiled in this process, against the interpreter.
#include <cstdlib>

#include "autoschedule/default.h"
#include "codegen/elf.h"
#include "codegen/llvm/llvm.h"
#include "ir/symbols.h"
#include "programs.h"
#include "runtime/kernel.h"

namespace tenon {
namespace {

using namespace tir;
using te::Tensor;

int32_t run_serial(const TenonKernelContext* context, TenonParallelBody body, void* closure, int64_t extent,
                   int64_t) {
  // In three parts, the last first: iterations are independent.
  const int64_t a = extent / 3, b = extent * 2 / 3;
  for (auto [begin, end] : {std::pair{b, extent}, std::pair{a, b}, std::pair{int64_t(0), a}})
    if (begin < end)
      if (int32_t code = body(closure, begin, end, context)) return code;
  return 0;
}
void* scratch(const TenonKernelContext*, int64_t bytes) {
  return std::aligned_alloc(64, size_t((bytes + 127) / 64 * 64));
}
void give_back(const TenonKernelContext*, void* p) { std::free(p); }

void check(const PrimFunc& f, const std::vector<NDArray>& args, size_t outputs = 1) {
  const std::vector<NDArray> want = run_on(f, args, outputs);
  for (bool scheduled : {false, true}) {
    const PrimFunc g = scheduled ? default_schedule(f, host_target()) : f;
    const std::vector<VarRef> scalars = kernel_scalars(g);
    IRModule m = module_of(g);
    PassContext context;
    for (const Pass& p : tensor_passes()) m = p.run(m, context);
    const codegen::LoadedCode jit = codegen::load_elf(codegen::llvm_object(m, host_target()), host_target());
    auto* kernel = reinterpret_cast<TenonKernel>(jit.find("f"));
    ASSERT_TRUE(kernel);
    std::vector<void*> buffers;
    std::vector<int64_t> numbers;
    std::vector<NDArray> copy, got;
    std::unordered_map<const Var*, int64_t> sizes;
    for (size_t i = 0; i < args.size(); ++i) {
      copy.push_back(args[i].copy());
      auto b = g->buffer_map.find(g->params[i]);
      if (!b) {
        sizes[g->params[i].get()] = args[i].element_int(0);
        continue;
      }
      buffers.push_back(copy.back().data());
      for (size_t d = 0; d < (*b)->shape.size(); ++d)
        if (const auto* v = (*b)->shape[d].as<Var>()) sizes[v] = args[i].shape()[d];
    }
    for (const VarRef& v : scalars) numbers.push_back(sizes.at(v.get()));
    const TenonKernelContext runtime{run_serial, scratch, give_back, nullptr};
    ASSERT_EQ(kernel(buffers.data(), numbers.data(), &runtime), 0);
    size_t arrays = buffers.size(), k = 0;
    for (size_t i = 0; i < args.size(); ++i) {
      if (!g->buffer_map.contains(g->params[i])) continue;
      if (k++ >= arrays - outputs) got.push_back(copy[i]);
    }
    for (size_t o = 0; o < want.size(); ++o)
      for (int64_t i = 0; i < want[o].size(); ++i)
        ASSERT_NEAR(want[o].element(i), got[o].element(i), 1e-3 * (1 + std::abs(want[o].element(i))))
            << (scheduled ? "scheduled" : "plain") << " element " << i << "\n"
            << print(m);
  }
}

TEST(MachineCode, Matmul) {
  for (auto [m, n, k] :
       std::vector<std::array<int64_t, 3>>{{5, 7, 6}, {33, 50, 17}, {1, 64, 32}, {64, 64, 64}}) {
    Tensor a = te::placeholder({n64(m), n64(k)}, f32, "A"), b = te::placeholder({n64(k), n64(n)}, f32, "B");
    IterVar v = te::reduce_axis(range(n64(0), n64(k)), "k");
    Tensor c = te::compute(
        {n64(m), n64(n)},
        [&](const Array<VarRef>& i) { return te::sum(a({i[0], v->var}) * b({v->var, i[1]}), {v}); }, "C");
    Tensor d = te::compute(
        {n64(m), n64(n)}, [&](const Array<VarRef>& i) { return tir::max(c({i[0], i[1]}), PrimExpr(0.0)); },
        "D");
    check(te::create_prim_func({a, b, d}),
          {random_array({m, k}, f32, 1), random_array({k, n}, f32, 2), NDArray::zeros({m, n}, f32)});
  }
}

TEST(MachineCode, SoftmaxOfSymbolicSizes) {
  VarRef r = var("r"), c = var("c");
  Tensor x = te::placeholder({r, c}, f32, "X");
  IterVar k = te::reduce_axis(range(n64(0), c), "k"), l = te::reduce_axis(range(n64(0), c), "l");
  Tensor m = te::compute({r}, [&](const Array<VarRef>& v) { return te::max(x({v[0], k->var}), {k}); }, "M");
  Tensor e =
      te::compute({r, c}, [&](const Array<VarRef>& v) { return exp(x({v[0], v[1]}) - m({v[0]})); }, "E");
  Tensor s = te::compute({r}, [&](const Array<VarRef>& v) { return te::sum(e({v[0], l->var}), {l}); }, "S");
  Tensor y =
      te::compute({r, c}, [&](const Array<VarRef>& v) { return div(e({v[0], v[1]}), s({v[0]})); }, "Y");
  const PrimFunc f = te::create_prim_func({x, y}, {r, c});
  for (auto [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{{3, 5}, {1, 1}, {7, 65}, {0, 4}})
    check(f, {random_array({rows, columns}, f32, 3), NDArray::zeros({rows, columns}, f32)});
}

TEST(MachineCode, DivisionsBySizesKnowNoSign) {
  const VarRef rows = var("rows"), columns = var("columns");
  const Tensor x = te::placeholder({rows, columns}, f32, "X");
  const Tensor y = te::compute(
      {rows * columns},
      [&](const Array<VarRef>& v) { return x({floormod(v[0], rows), floordiv(v[0], rows)}); }, "Y");
  const PrimFunc f = te::create_prim_func({x, y}, {rows, columns});
  for (auto [r, c] : std::vector<std::pair<int64_t, int64_t>>{{3, 5}, {1, 1}, {7, 65}, {0, 4}, {4, 0}})
    check(f, {random_array({r, c}, f32, 3), NDArray::zeros({r * c}, f32)});
  IRModule m = module_of(default_schedule(f, host_target()));
  PassContext context;
  for (const Pass& p : tensor_passes()) m = p.run(m, context);
  const std::string text = codegen::llvm_ir(m, host_target());
  EXPECT_NE(text.find(" udiv "), std::string::npos) << text;
  for (const char* with_sign : {" sdiv ", " srem "})
    EXPECT_EQ(text.find(with_sign), std::string::npos) << text;
}

TEST(MachineCode, TransposedCopiesOfAFewColumnsGatherNothingOnZen) {
  const VarRef batch = var("batch"), rows = var("rows");
  const Tensor x = te::placeholder({batch, rows, n64(8)}, f32, "X");
  const Tensor y =
      te::compute({batch, n64(8), rows}, [&](const Array<VarRef>& v) { return x({v[0], v[2], v[1]}); }, "Y");
  const PrimFunc f = te::create_prim_func({x, y}, {batch, rows});
  for (auto [b, r] : std::vector<std::pair<int64_t, int64_t>>{{2, 0}, {3, 1}, {2, 9}, {1, 37}})
    check(f, {random_array({b, r, 8}, f32, 3), NDArray::zeros({b, 8, r}, f32)});
  PassContext context;
  context.target = parse_target("llvm -mcpu=znver4");
  const Target zen = context.target.cast<TargetNode>();
  IRModule m = module_of(default_schedule(f, zen));
  for (const Pass& p : tensor_passes()) m = p.run(m, context);
  const std::string text = codegen::llvm_assembly(m, zen);
  EXPECT_EQ(text.find("gather"), std::string::npos) << text;
}

TEST(MachineCode, ConvolutionWithPadding) {
  Tensor x = te::placeholder({n64(1), n64(3), n64(11), n64(11)}, f32, "X"),
         w = te::placeholder({n64(20), n64(3), n64(3), n64(3)}, f32, "W");
  IterVar c = te::reduce_axis(range(n64(0), n64(3)), "c"), kh = te::reduce_axis(range(n64(0), n64(3)), "kh"),
          kw = te::reduce_axis(range(n64(0), n64(3)), "kw");
  Tensor p = te::compute(
      {n64(1), n64(3), n64(13), n64(13)},
      [&](const Array<VarRef>& v) {
        PrimExpr in = logical_and(logical_and(ge(v[2], n64(1)), lt(v[2], n64(12))),
                                  logical_and(ge(v[3], n64(1)), lt(v[3], n64(12))));
        return if_then_else(in, x({v[0], v[1], v[2] - 1, v[3] - 1}), PrimExpr(0.0));
      },
      "pad");
  Tensor y = te::compute(
      {n64(1), n64(20), n64(11), n64(11)},
      [&](const Array<VarRef>& v) {
        return te::sum(
            p({v[0], c->var, v[2] + kh->var, v[3] + kw->var}) * w({v[1], c->var, kh->var, kw->var}),
            {c, kh, kw});
      },
      "Y");
  check(te::create_prim_func({x, w, y}),
        {random_array({1, 3, 11, 11}, f32, 1), random_array({20, 3, 3, 3}, f32, 2),
         NDArray::zeros({1, 20, 11, 11}, f32)});
}

TEST(MachineCode, ConcatenationGatherAndArgmax) {
  Tensor a = te::placeholder({n64(3), n64(9)}, f32, "A"), b = te::placeholder({n64(2), n64(9)}, f32, "B"),
         at = te::placeholder({n64(6)}, i64, "at");
  Tensor y = te::compute(
      {n64(5), n64(9)},
      [&](const Array<VarRef>& v) {
        return if_then_else(lt(v[0], n64(3)), a({v[0], v[1]}), b({v[0] - 3, v[1]}));
      },
      "Y");
  Tensor g =
      te::compute({n64(6), n64(9)}, [&](const Array<VarRef>& v) { return y({at({v[0]}), v[1]}); }, "G");
  NDArray index = NDArray::empty({6}, i64);
  for (int64_t i = 0; i < 6; ++i) index.set_element_int(i, (i * 3) % 5);
  check(te::create_prim_func({a, b, at, g}),
        {random_array({3, 9}, f32, 1), random_array({2, 9}, f32, 2), index, NDArray::zeros({6, 9}, f32)});
  IterVar k = te::reduce_axis(range(n64(0), n64(9)), "k");
  auto z = te::compute_multi(
      {n64(3)}, [&](const Array<VarRef>& v) { return te::argmax(k->var, a({v[0], k->var}), {k}); }, "Z");
  check(te::create_prim_func({a, z[0], z[1]}),
        {random_array({3, 9}, f32, 5), NDArray::zeros({3}, i64), NDArray::zeros({3}, f32)}, 2);
}

TEST(MachineCode, ElementwiseOfSymbolicSize) {
  VarRef n = var("n");
  Tensor x = te::placeholder({n, n64(3)}, f32, "X");
  Tensor y =
      te::compute({n, n64(3)}, [&](const Array<VarRef>& v) { return tanh(x({v[0], v[1]})) * 2.0; }, "Y");
  const PrimFunc f = te::create_prim_func({x, y}, {n});
  for (int64_t size : {0, 1, 7, 100})
    check(f, {random_array({size, 3}, f32, 1), NDArray::zeros({size, 3}, f32)});
}

}  // namespace
}  // namespace tenon
