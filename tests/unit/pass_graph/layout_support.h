// SPDX-License-Identifier: Apache-2.0
// For tests of convert_layout: convolutions and pools of a model, the pass with what cleans up behind it, and
// layouts found.
#pragma once
#include "support.h"
#include "target/target.h"

namespace tenon::graph::testing_graph {

inline ObjectRef conv(Array<int64_t> strides, Array<int64_t> padding, int64_t groups = 1) {
  return op::make_attrs<op::ConvAttrs>([&](op::ConvAttrs& a) {
    a.strides = strides;
    a.padding = padding;
    a.groups = groups;
  });
}
inline ObjectRef pool(int64_t size, int64_t stride, Array<int64_t> padding, bool ceil_mode = false) {
  return op::make_attrs<op::PoolAttrs>([&](op::PoolAttrs& a) {
    a.pool_size = {size, size};
    a.strides = {stride, stride};
    a.padding = padding;
    a.ceil_mode = ceil_mode;
  });
}

/// Layouts of the convolutions of main, in order: "data kernel result".
template <class Attrs = op::ConvAttrs>
std::vector<std::string> layouts(const IRModule& m) {
  std::vector<std::string> out;
  for_each_binding(main_of(m)->body, [&](const Binding& b) {
    Expr v = b->value;
    if (const auto* c = v.as<Call>())
      if (const auto* a = c->attrs.as<Attrs>())
        out.push_back(a->data_layout + " " + a->kernel_layout + " " + a->out_layout);
  });
  return out;
}
inline int count(const IRModule& m, const std::string& name) {
  int n = 0;
  for (const std::string& o : ops_of(m)) n += o == name;
  return n;
}

/// The pass for vectors of 16 floats, with what cleans up behind it; results compared by the interpreter.
inline IRModule blocked(const IRModule& in, const std::vector<NDArray>& inputs, int64_t vector_bits = 512) {
  PassContext context = make_context();
  Ref<TargetNode> target = make<TargetNode>();
  target.edit()->vector_bits = vector_bits;
  context.target = target;
  const std::vector<NDArray> want = run(in, inputs);
  IRModule out = run_pass("convert_layout", run_pass("infer_types", in, context), context);
  expect_valid(out);
  out = run_pass("canonicalize",
                 run_pass("fold_constant", run_pass("eliminate_dead_code", out, context), context), context);
  out = run_pass("eliminate_dead_code", out, context);
  expect_valid(out);
  expect_close(want, run(out, inputs), 1e-4);
  return out;
}

}  // namespace tenon::graph::testing_graph
