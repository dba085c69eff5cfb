// SPDX-License-Identifier: Apache-2.0
// Contractions of narrow types as programs that know nothing of instructions, and what their tests ask of
// them.
#pragma once
#include <sstream>

#include "../schedule/programs.h"
#include "autoschedule/default.h"
#include "codegen/elf.h"
#include "codegen/llvm/llvm.h"
#include "ir/text.h"
#include "pipeline/pass_lists.h"
#include "runtime/kernel.h"

namespace tenon::testing {

inline constexpr DataType i8 = DataType::int_(8), bf16 = DataType::bfloat16();

/// Fixed records, so that the outcome does not depend on the machine of the test.
inline Target record(const char* triple, Array<std::string> features, int64_t bits, int64_t registers) {
  Target t = make<TargetNode>();
  TargetNode* n = t.edit();
  n->triple = triple;
  n->features = std::move(features);
  n->vector_bits = bits;
  n->vector_registers = registers;
  n->fma = true;
  n->cores = 2;
  return t;
}

/// D[i, j] = Σ wide(A[i, k]) · wide(B[k, j]) + bias[j], where B may be stored as B[j, k].
inline Program product(PrimExpr m, int64_t n, int64_t k, DataType a_type, DataType b_type,
                       bool by_columns = false, bool epilogue = true) {
  const DataType sum = a_type.is_float() ? f32 : i32;
  Tensor a = te::placeholder({m, k}, a_type, "A"),
         b = te::placeholder(by_columns ? Array<PrimExpr>{n, k} : Array<PrimExpr>{k, n}, b_type, "B"),
         bias = te::placeholder({n}, sum, "bias");
  tir::IterVar r = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(k)), "k");
  Tensor c = te::compute(
      {m, n},
      [&](const Vars& v) {
        const PrimExpr at_b = by_columns ? b({v[1], r->var}) : b({r->var, v[1]});
        return te::sum(tir::cast(sum, a({v[0], r->var})) * tir::cast(sum, at_b), {r});
      },
      "C");
  const std::string name = to_string(a_type) + " · " + to_string(b_type) + (by_columns ? " by columns" : "");
  if (!epilogue) return {name, te::create_prim_func({a, b, c}), {}};
  Tensor d = te::compute({m, n}, [&](const Vars& v) { return c({v[0], v[1]}) + bias({v[1]}); }, "D");
  return {name, te::create_prim_func({a, b, bias, d}), {}};
}
/// Channels last: y[h, w, o] = Σ x[h + r, w + s, c] · k[r, s, c, o].
inline Program image(int64_t channels) {
  Tensor x = te::placeholder({9, 11, channels}, u8, "X"), k = te::placeholder({3, 3, channels, 20}, i8, "K");
  tir::IterVar r = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(3)), "r"),
               s = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(3)), "s"),
               c = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(channels)), "c");
  Tensor y = te::compute(
      {7, 9, 20},
      [&](const Vars& v) {
        return te::sum(tir::cast(i32, x({v[0] + r->var, v[1] + s->var, c->var})) *
                           tir::cast(i32, k({r->var, s->var, c->var, v[2]})),
                       {r, s, c});
      },
      "Y");
  return {"image", te::create_prim_func({x, k, y}), {}};
}

inline std::string script_of(const tir::PrimFunc& f) {
  return Trace::from_json(f->attrs.at("tenon.trace").as<std::string>()).to_script();
}
inline IRModule lowered(const tir::PrimFunc& f, const Target& target) {
  IRModule m = IRModule::create();
  tir::PrimFunc named = f;
  named.edit()->attrs.set("global_symbol", Any(std::string("f")));
  m.set("f", named);
  PassContext context;
  context.target = target;
  for (const Pass& p : tensor_passes()) m = p.run(m, context);
  return m;
}
/// The instructions, read back from their bytes.
inline std::string assembly(const Program& p, const Target& t) {
  return codegen::disassemble(codegen::llvm_object(lowered(default_schedule(p.function, t), t), t), t);
}
/// How often `word` stands in a line that also has `other`.
inline int64_t lines_with(const std::string& text, const std::string& word, const std::string& other) {
  int64_t n = 0;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    n += line.find(word) != std::string::npos && line.find(other) != std::string::npos;
  return n;
}

/// The schedule's script has `word`, and the program computes what it did.
inline void expect_scheduled(const Program& p, const Target& t, const std::string& word) {
  const std::vector<NDArray> expected = run(p.function, p.sizes);
  const tir::PrimFunc f = default_schedule(p.function, t);
  const std::string script = script_of(f);
  EXPECT_NE(script.find(word), std::string::npos) << p.name << "\n" << script;
  ASSERT_EQ(problems_of(f), "") << p.name << "\n" << script;
  ASSERT_TRUE(same(expected, run(f, p.sizes))) << p.name << "\n" << script << print(f);
  Schedule again =
      Schedule::replay(p.function, Trace::from_json(f->attrs.at("tenon.trace").as<std::string>()));
  ASSERT_TRUE(structural_equal(again.function()->body, f->body)) << p.name;
}

inline int32_t in_order(const TenonKernelContext* context, TenonParallelBody body, void* closure,
                        int64_t extent, int64_t) {
  return body(closure, 0, extent, context);
}
inline void* scratch(const TenonKernelContext*, int64_t bytes) {
  return std::aligned_alloc(64, size_t((bytes + 127) / 64 * 64));
}
inline void give_back(const TenonKernelContext*, void* p) { std::free(p); }

/// All values of the types, not only small ones.
inline NDArray random_values(std::vector<int64_t> shape, DataType t, uint64_t seed) {
  std::mt19937_64 random(seed);
  NDArray a = NDArray::empty(std::move(shape), t);
  for (int64_t i = 0; i < a.size(); ++i)
    if (t.is_float())
      a.set_element(i, double(int64_t(random() % 2001) - 1000) / 64);
    else
      a.set_element_int(
          i, t.bits > 8 ? int64_t(random() % 1000) : int64_t(random() % 256) - (t.is_int() ? 128 : 0));
  return a;
}

/// Machine code of the product (m may be symbolic in it) for this machine computes what the interpreter does,
/// over all values of the types.
inline void expect_machine_code(const Program& p, int64_t m, int64_t n, int64_t k, DataType x, DataType y) {
  const Target host = host_target();
  const DataType sum = x.is_float() ? f32 : i32;
  std::vector<NDArray> args{random_values({m, k}, x, 1), random_values({k, n}, y, 2),
                            random_values({n}, sum, 3), NDArray::zeros({m, n}, sum)};
  std::vector<NDArray> want;
  for (const NDArray& a : args) want.push_back(a.copy());
  interpret_prim_func(p.function, want, {});
  const codegen::LoadedCode jit =
      codegen::load_elf(codegen::llvm_object(lowered(default_schedule(p.function, host), host), host), host);
  auto* kernel = reinterpret_cast<TenonKernel>(jit.find("f"));
  ASSERT_TRUE(kernel);
  void* buffers[] = {args[0].data(), args[1].data(), args[2].data(), args[3].data()};
  const TenonKernelContext context{in_order, scratch, give_back, nullptr};
  ASSERT_EQ(kernel(buffers, &m, &context), 0);
  for (int64_t i = 0; i < m * n; ++i) {
    if (!sum.is_float()) {
      ASSERT_EQ(args[3].element_int(i), want[3].element_int(i)) << p.name << " element " << i;
    } else {
      double bound = 0;
      for (int64_t q = 0; q < k; ++q)
        bound += std::abs(args[0].element(i / n * k + q) * args[1].element(q * n + i % n));
      ASSERT_NEAR(args[3].element(i), want[3].element(i), 1e-6 * (bound + 1)) << p.name << " element " << i;
    }
  }
}

}  // namespace tenon::testing
