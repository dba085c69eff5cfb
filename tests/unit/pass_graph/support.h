// SPDX-License-Identifier: Apache-2.0
// Models for the tests of graph passes, and execution by the interpreter before and after a pass.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "interpret/interpret.h"
#include "ir/bodies.h"
#include "ir/pass.h"
#include "ir/structural.h"
#include "ir/text.h"
#include "ir/tir.h"
#include "ir/verify.h"
#include "op/build.h"

namespace tenon::graph::testing_graph {

inline NDArray random_array(std::vector<int64_t> shape, DataType t = f32, uint64_t seed = 7) {
  std::mt19937_64 random(seed);
  NDArray a = NDArray::empty(std::move(shape), t);
  for (int64_t i = 0; i < a.size(); ++i)
    a.set_element(i, t.is_float() ? double(random() >> 11) * 0x1p-52 - 1 : double(random() % 5));
  return a;
}

/// One function "main" under construction.
struct Model {
  BlockBuilder builder = op::make_builder();
  std::vector<VarRef> params;
  VarRef param(const std::string& name, Array<PrimExpr> shape, DataType t = f32) {
    params.push_back(var(name, tensor_type(std::move(shape), t)));
    return params.back();
  }
  Expr op(std::string_view name, Array<Expr> args, ObjectRef attrs = {}) {
    return builder.emit(op::op_call(name, std::move(args), std::move(attrs)));
  }
  Expr weight(std::vector<int64_t> shape, uint64_t seed = 11, DataType t = f32) {
    return constant(random_array(std::move(shape), t, seed));
  }
  IRModule done(const Expr& result) {
    Expr r = result;
    if (r.is<Tuple>() && !r->type) r.edit()->type = op::infer_type(r);
    Expr body = builder.finish(r);
    AttrMap attrs;
    attrs.set("global_symbol", Any("main"));
    IRModule m = IRModule::create();
    m.set("main", make<Function>(Array<VarRef>(params), body, r->type, attrs));
    return m;
  }
};

inline Ref<Function> main_of(const IRModule& m) { return m.find("main").cast<Function>(); }

/// Operators called in main, nested bodies included, in order.
inline std::vector<std::string> ops_of(const IRModule& m) {
  std::vector<std::string> out;
  for_each_binding(main_of(m)->body, [&](const Binding& b) {
    Expr v = b->value;
    if (const Op* op = op_of(v))
      out.push_back(op->name);
    else if (const auto* c = v.as<Call>(); c && c->op.is<GlobalVar>())
      out.push_back("@" + c->op.as<GlobalVar>()->name);
  });
  return out;
}
using Names = std::vector<std::string>;

/// Evaluation of one program by the interpreter, for constant folding.
inline std::vector<NDArray> evaluate_by_interpreter(const IRModule& m, const std::string& name,
                                                    const std::vector<NDArray>& args) {
  auto f = m.find(name).cast<tir::PrimFuncNode>();
  std::vector<NDArray> all = args, out;
  for (size_t i = args.size(); i < f->params.size(); ++i) {
    tir::Buffer b = f->buffer_map.at(f->params[i]);
    std::vector<int64_t> shape;
    for (const PrimExpr& d : b->shape) shape.push_back(*tir::as_int(d));
    out.push_back(NDArray::zeros(shape, b->dtype));
    all.push_back(out.back());
  }
  interpret_prim_func(f, all, m);
  return out;
}

inline PassContext make_context() {
  PassContext c;
  c.evaluate = evaluate_by_interpreter;
  return c;
}

inline void expect_valid(const IRModule& m) {
  DiagnosticList problems;
  verify(m, problems, true);
  for (const Diagnostic& d : problems.all()) ADD_FAILURE() << render(d);
}

inline void flatten(const Any& v, std::vector<NDArray>& out) {
  if (auto a = v.try_as<NDArray>(); a && *a) return out.push_back(*a);
  if (auto items = v.try_as<Array<Any>>(); items && *items)
    for (const Any& i : *items) flatten(i, out);
}
inline std::vector<NDArray> run(const IRModule& m, const std::vector<NDArray>& inputs) {
  std::vector<Value> args;
  for (const NDArray& a : inputs) args.push_back(Any(a));
  std::vector<NDArray> out;
  flatten(interpret(m, "main", args), out);
  return out;
}

inline void expect_close(const std::vector<NDArray>& want, const std::vector<NDArray>& got,
                         double tolerance) {
  ASSERT_EQ(want.size(), got.size());
  for (size_t k = 0; k < want.size(); ++k) {
    ASSERT_EQ(want[k].shape(), got[k].shape());
    ASSERT_EQ(to_string(want[k].dtype()), to_string(got[k].dtype()));
    for (int64_t i = 0; i < want[k].size(); ++i) {
      const double x = want[k].element(i), y = got[k].element(i);
      if (x == y || (std::isnan(x) && std::isnan(y))) continue;
      ASSERT_LE(std::abs(x - y), tolerance * std::max(1.0, std::abs(x)))
          << "result " << k << ", element " << i;
    }
  }
}

/// Runs the passes; the result must be valid and compute what the input computes.
inline IRModule apply(IRModule m, std::initializer_list<std::string_view> passes,
                      const std::vector<NDArray>& inputs, double tolerance = 0) {
  expect_valid(m);
  std::vector<NDArray> before = run(m, inputs);
  PassContext context = make_context();
  IRModule out = m;
  for (std::string_view pass : passes) out = run_pass(pass, out, context);
  expect_valid(out);
  expect_close(before, run(out, inputs), tolerance);
  // The input is shared with others: passes must not have changed it.
  expect_close(before, run(m, inputs), 0);
  return out;
}

}  // namespace tenon::graph::testing_graph
