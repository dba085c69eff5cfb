// SPDX-License-Identifier: Apache-2.0
// All implementations of a call, run by the interpreter.
#pragma once
#include "op/strategy.h"
#include "support.h"

namespace tenon::graph::testing_graph {

inline Target record(const char* kind, Array<std::string> libs = {}) {
  Target t = make<TargetNode>();
  t.edit()->kind = kind;
  t.edit()->libs = libs;
  return t;
}

/// What each implementation of the call computes on these tensors, those that refuse it left out unless
/// `forced`.
inline std::map<std::string, std::vector<NDArray>> computed_by_all(const Call& call,
                                                                   const std::vector<NDArray>& in,
                                                                   const Target& target,
                                                                   bool forced = false) {
  std::map<std::string, std::vector<NDArray>> out;
  for (const op::OpImpl& impl : op::implementations(call, target)) {
    if (!impl.define || (!forced && impl.refuse && !impl.refuse(call, target).empty())) continue;
    std::vector<te::Tensor> inputs;
    Array<te::Tensor> all;
    for (const Expr& a : call.args) {
      const auto* t = as_tensor(a);
      if (!t) continue;
      inputs.push_back(te::placeholder(*known_shape(a->type), t->dtype, "in"));
      all.push_back(inputs.back());
    }
    const std::vector<te::Tensor> outputs = impl.define(call, inputs);
    for (const te::Tensor& t : outputs) all.push_back(t);
    const tir::PrimFunc f = te::create_prim_func(all);
    std::vector<NDArray> args = in;
    for (const te::Tensor& t : outputs) {
      std::vector<int64_t> shape;
      for (const PrimExpr& d : t.shape()) shape.push_back(*tir::as_int(d));
      args.push_back(NDArray::zeros(shape, t.dtype()));
      out[impl.name].push_back(args.back());
    }
    interpret_prim_func(f, args);
  }
  return out;
}
inline void expect_all_alike(const std::map<std::string, std::vector<NDArray>>& results) {
  for (const auto& [name, value] : results) {
    SCOPED_TRACE(name);
    expect_close(results.begin()->second, value, 1e-5);
  }
}

}  // namespace tenon::graph::testing_graph
