// SPDX-License-Identifier: Apache-2.0
// Programs and the check that every pass keeps their meaning: the interpreter runs them before and after.
#pragma once
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "interpret/interpret.h"
#include "ir/intrinsic.h"
#include "ir/text.h"
#include "ir/tir.h"
#include "ir/verify.h"
#include "pipeline/pass_lists.h"
#include "te/te.h"

namespace tenon {

inline PrimExpr n64(int64_t v) { return PrimExpr::int_imm(v, i64); }

inline NDArray random_array(std::vector<int64_t> shape, DataType t, uint64_t seed) {
  std::mt19937_64 r(seed);
  NDArray a = NDArray::empty(shape, t);
  for (int64_t i = 0; i < a.size(); ++i) {
    if (t.is_float())
      a.set_element(i, double(int64_t(r() % 2001) - 1000) / 128);
    else
      a.set_element_int(i, int64_t(r() % 7));
  }
  return a;
}

inline tir::PrimFunc body_of(const IRModule& m) { return m.find("f").cast<tir::PrimFuncNode>(); }
inline IRModule module_of(const tir::PrimFunc& f) {
  IRModule m = IRModule::create();
  m.set("f", f);
  return m;
}

/// Tensor passes that stand in no list of a compilation: they run by name only.
inline std::vector<Pass> passes_by_name() {
  std::set<std::string> listed;
  for (const auto list : {tensor_passes(), device_passes()})
    for (const Pass& p : list) listed.insert(p.name);
  std::vector<Pass> out;
  for (const Pass* p : all_passes())
    if (p->file.starts_with("src/pass/tensor/") && !listed.count(p->name)) out.push_back(*p);
  return out;
}

/// Fresh outputs (the last `outputs` arguments) of a run.
inline std::vector<NDArray> run_on(const tir::PrimFunc& f, const std::vector<NDArray>& args, size_t outputs,
                                   const IRModule& m = {}) {
  std::vector<NDArray> copy = args, out;
  size_t arrays = 0;
  for (const tir::VarRef& p : f->params) arrays += f->buffer_map.contains(p);
  for (size_t i = 0; i < args.size(); ++i) copy[i] = args[i].copy();
  interpret_prim_func(f, copy, m);
  for (size_t i = arrays - outputs; i < arrays; ++i) out.push_back(copy[i]);
  return out;
}

inline void expect_same(const std::vector<NDArray>& want, const std::vector<NDArray>& got,
                        const std::string& what, double relative = 0) {
  ASSERT_EQ(want.size(), got.size());
  for (size_t k = 0; k < want.size(); ++k)
    for (int64_t i = 0; i < want[k].size(); ++i) {
      const double a = want[k].element(i), b = got[k].element(i);
      ASSERT_TRUE(a == b || (std::isnan(a) && std::isnan(b)) || std::fabs(a - b) <= relative * std::fabs(a))
          << what << ": element " << i << " of output " << k << " is " << b << ", wanted " << a;
    }
}

inline void expect_valid(const IRModule& m, const std::string& what) {
  DiagnosticList problems;
  verify(m, problems);
  std::string text;
  for (const Diagnostic& d : problems.all()) text += render(d) + "\n";
  ASSERT_TRUE(problems.empty()) << what << "\n" << text << print(m);
}

/// Runs the pipeline pass by pass; after each the verifier is content and the result is bit for bit the
/// first (lower_intrin: within 1e-6 of it). Returns the module before make_packed_api; `module` may hold more
/// functions.
inline IRModule check_pipeline(IRModule m, const std::vector<NDArray>& args, size_t outputs = 1) {
  std::vector<NDArray> want = run_on(body_of(m), args, outputs, m);
  PassContext context;
  IRModule before;
  expect_valid(m, "input");
  for (const Pass& pass : tensor_passes()) {
    before = m;
    m = pass.run(m, context);
    expect_valid(m, std::string(pass.name));
    if (testing::Test::HasFatalFailure()) return m;
    if (pass.name == "make_packed_api") break;
    std::vector<NDArray> got;
    try {
      got = run_on(body_of(m), args, outputs, m);
    } catch (const Error& e) {
      ADD_FAILURE() << pass.name << ": " << e.what() << "\n" << print(m);
      return m;
    }
    // Before it mathematics is the interpreter's, after it ours.
    const bool mathematics = pass.name == "lower_intrin";
    expect_same(want, got, std::string(pass.name), mathematics ? 1e-6 : 0);
    if (mathematics) want = got;
    if (testing::Test::HasFatalFailure()) {
      ADD_FAILURE() << print(m);
      return m;
    }
  }
  EXPECT_TRUE(body_of(m)->attrs.contains("tenon.kernel"));
  return before;
}
inline IRModule check_pipeline(const tir::PrimFunc& f, const std::vector<NDArray>& args, size_t outputs = 1) {
  return check_pipeline(module_of(f), args, outputs);
}

inline size_t count_nodes(const IRModule& m, std::string_view key) {
  size_t n = 0;
  pre_order(body_of(m)->body, [&](const ObjectRef& x) {
    n += type_key_of(x) == key;
    return true;
  });
  return n;
}

/// The k-th loop with this variable name, changed to a kind.
inline tir::PrimFunc with_kind(const tir::PrimFunc& f, const std::string& loop, tir::ForKind kind) {
  tir::PrimFunc out = f;
  out.edit()->body = rewrite(f->body, [&](const tir::For& n) -> tir::Stmt {
    if (n.loop_var->name != loop || n.kind != tir::ForKind::serial) return {};
    Ref<tir::For> r(&n);
    r.edit()->kind = kind;
    return r;
  });
  return out;
}

}  // namespace tenon
