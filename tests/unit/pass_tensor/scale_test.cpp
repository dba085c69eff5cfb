// SPDX-License-Identifier: Apache-2.0
// Long programs: ten times the statements take about ten times as long, and 100,000 statements (2,000 by
// default; TENON_SCALE=full for all) go through every pass, text and back, the verifier, equality, hash and
// both code generators.
#include <cstdlib>
#include <ctime>
#include <map>

#include "../codegen/c_text.h"
#include "codegen/llvm/llvm.h"
#include "ir/structural.h"
#include "pipeline/compile.h"
#include "programs.h"
#include "target/target.h"

namespace tenon {
namespace {

using namespace tir;

/// Stores, small loops, conditions and names in a row, all different; `scratch` allocations around them.
IRModule chain(int64_t statements, int64_t scratch) {
  Array<VarRef> params;
  Map<VarRef, Buffer> map;
  auto parameter = [&](const std::string& name) {
    Buffer b = buffer(name, {n64(4096)}, f32);
    VarRef p = var("p_" + name, DataType::handle());
    params.push_back(p);
    map.set(p, b);
    return b;
  };
  const Buffer x = parameter("x"), y = parameter("y");
  std::vector<Buffer> temps;
  for (int64_t k = 0; k < scratch; ++k) temps.push_back(buffer("t", {n64(4)}, f32));
  Array<Stmt> all;
  for (int64_t k = 0; k < statements; ++k) {
    const PrimExpr at = n64(k % 4000);
    const Buffer& t = temps[size_t(k * scratch / statements)];
    switch (k % 4) {
      case 0:
        all.push_back(store(t, load(x, {at}) + PrimExpr(double(k % 7)), {n64(k % 4)}));
        break;
      case 1: {
        VarRef i = var("i");
        all.push_back(for_(i, n64(0), n64(4), store(t, load(x, {at + i}) * 2.0, {i})));
        break;
      }
      case 2:
        all.push_back(
            make<IfThenElse>(gt(load(x, {at}), PrimExpr(0.0)), store(y, load(t, {n64(1)}), {at}), Stmt()));
        break;
      default:
        all.push_back(store(y, load(t, {n64(0)}) + load(x, {at}), {at + 1}));
    }
  }
  Stmt body = seq(all);
  for (const Buffer& t : temps) body = make<Allocate>(t, body, AttrMap());
  return module_of(make<PrimFuncNode>(params, map, body, DataType::void_(), AttrMap()));
}

/// Processor time: others work on this machine too.
double cpu_ms(std::clock_t start) { return 1e3 * double(std::clock() - start) / CLOCKS_PER_SEC; }

/// Milliseconds of each pass.
std::map<std::string, double> times(IRModule m) {
  std::map<std::string, double> out;
  PassContext context;
  IRModule packed;
  auto timed = [&](const char* name, auto f) {
    const std::clock_t start = std::clock();
    f();
    out[name] = cpu_ms(start);
  };
  std::string text;
  timed("print", [&] { text = print(m); });
  timed("parse", [&] {
    const IRModule again = parse_module(text);
    EXPECT_TRUE(structural_equal(again, m));
  });
  timed("hash", [&] { EXPECT_NE(structural_hash(m), 0u); });
  auto run = [&](const Pass& p) {
    if (out.count(std::string(p.name))) return;
    const std::clock_t start = std::clock();
    const IRModule r = p.run(m, context);
    out[std::string(p.name)] = cpu_ms(start);
    if (p.name == "make_packed_api") packed = r;
    if (p.name != "make_packed_api" && p.name != "instrument_bound_checkers") m = r;
  };
  for (const Pass& p : passes_by_name()) run(p);
  for (const Pass& p : device_passes()) run(p);
  for (const Pass& p : tensor_passes()) run(p);
  const std::clock_t start = std::clock();
  DiagnosticList problems;
  verify(m, problems);
  EXPECT_TRUE(problems.empty());
  out["verify"] = cpu_ms(start);
  timed("c text", [&] { EXPECT_GT(test::c_text(packed).size(), 1000u); });
  // LLVM's own time is LLVM's own affair.
  out["llvm front"] = codegen::llvm_object(packed, parse_target("llvm -mcpu=x86-64-v3"), 0).front_ms;
  return out;
}

TEST(Scale, NoPassIsWorseThanNLogN) {
  const bool full = std::getenv("TENON_SCALE") && std::string(std::getenv("TENON_SCALE")) == "full";
  const int64_t n = full ? 10000 : 200;
  for (int64_t scratch : {int64_t(1), int64_t(100)}) {
    // The largest of three for the smaller program: others work on this machine too.
    std::map<std::string, double> small = times(chain(n, scratch / 10 + 1)),
                                  large = times(chain(10 * n, scratch));
    for (int k = 0; k < 2; ++k)
      for (const auto& [name, ms] : times(chain(n, scratch / 10 + 1)))
        small[name] = std::max(small[name], ms);
    for (const auto& [name, ms] : large) {
      if (full) printf("%-34s %9.1f ms %9.1f ms\n", name.c_str(), small[name], ms);
      // A quadratic pass takes 100 times as long.
      EXPECT_LT(ms, 35 * std::max(small[name], 3.0)) << name << " over " << 10 * n << " statements";
    }
  }
}

TEST(Scale, ManyStatementsKeepTheirMeaning) {
  IRModule m = chain(400, 20);
  const std::vector<NDArray> args{random_array({4096}, f32, 1), NDArray::zeros({4096}, f32)};
  const std::vector<NDArray> want = run_on(body_of(m), args, 1, m);
  PassContext context;
  for (const Pass& p : passes_by_name()) {
    m = p.run(m, context);
    expect_same(want, run_on(body_of(m), args, 1, m), std::string(p.name));
    ASSERT_FALSE(HasFatalFailure());
  }
}

}  // namespace
}  // namespace tenon
