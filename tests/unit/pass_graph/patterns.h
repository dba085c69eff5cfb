// SPDX-License-Identifier: Apache-2.0
// A graph for patterns.
#pragma once
#include "base/function.h"
#include "pass/graph/partition/fuse_ops_by_pattern.h"
#include "support.h"

namespace tenon::graph::testing_graph {

inline IRModule typed_module(const std::string& text) {
  PassContext context = make_context();
  return run_pass("infer_types", parse_module(text), context);
}

/// x → conv → relu → add(relu, leaky) → out, and a dense with a constant beside it.
inline const char* const kText = R"(
@R.function
def main(x: R.Tensor((2, 4), "float32"), w: R.Tensor((3, 4), "float32"), f: R.Tensor((2, 3), "float16")):
    d = R.nn.dense(x, w)
    r = R.nn.relu(d)
    e = R.exp(r)
    t = R.tanh(r)
    s = R.add(e, t)
    k = R.add(s, R.const(1.0, "float32"))
    p = (s, d)
    g = p[1]
    l = R.nn.leaky_relu(g, alpha=0.25)
    h = R.exp(f)
    return (k, l, h)
)";

template <class F>
std::string code_of(F f) {
  try {
    f();
  } catch (const Error& e) {
    return e.code;
  }
  return "none";
}

}  // namespace tenon::graph::testing_graph
