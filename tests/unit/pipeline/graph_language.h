// SPDX-License-Identifier: Apache-2.0
// What tests of the graph language share: programs as text, run by the interpreter and by the VM's code.
#pragma once
#include "data_types.h"
#include "ir/text.h"
#include "support.h"

namespace tenon::graph::testing_graph {

struct Graph : testing::Test {
  static IRModule module(const std::string& functions) {
    return parse_module("@I.ir_module\nclass Module:\n" + std::string(kDataTypes) + functions);
  }
  static NDArray number(double v, DataType t = f32) { return NDArray::scalar(v, t); }
  static NDArray vector(std::vector<float> v) {
    return NDArray::from_bytes({int64_t(v.size())}, f32, v.data(), v.size() * sizeof(float));
  }

  /// Interpreter, VM, and what is expected; the text form keeps the program.
  static void expect_value(const std::string& functions, const std::vector<NDArray>& inputs,
                           std::vector<double> want) {
    const IRModule m = module(functions);
    EXPECT_TRUE(structural_equal(parse_module(print(m)), m)) << print(m);
    PassContext context = make_context();
    const IRModule typed = run_passes(m, std::span(find_pass("infer_types"), 1), context);
    EXPECT_TRUE(structural_equal(parse_module(print(typed)), typed)) << print(typed);
    expect_valid(typed);
    expect_same_evaluated(typed, inputs);
    const std::vector<NDArray> got = expect_vm_agrees(m, inputs);
    std::vector<double> all;
    for (const NDArray& a : got)
      for (int64_t i = 0; i < a.size(); ++i) all.push_back(a.element(i));
    EXPECT_EQ(all, want);
  }

  /// What known values decide is decided by partial_evaluate, and means the same.
  static void expect_same_evaluated(const IRModule& typed, const std::vector<NDArray>& inputs) {
    PassContext context = make_context();
    const IRModule out = run_pass("partial_evaluate", typed, context);
    expect_valid(out);
    SCOPED_TRACE(print(out));
    expect_close(run(typed, inputs), run(out, inputs), 0);
    expect_valid(run_pass("infer_types", out, context));
  }

  static std::string compile_error(const std::string& functions) {
    try {
      PassContext context = make_context();
      const IRModule m = module(functions);
      verify_or_throw(m);
      vm_codegen(run_passes(m, graph_passes(), context), {});
    } catch (const DiagnosticError& e) {
      return e.diagnostics[0].code + ": " + e.diagnostics[0].message;
    }
    return "";
  }
  template <class F>
  static std::string run_error(F f) {
    try {
      f();
    } catch (const Error& e) {
      return e.code;
    }
    return "";
  }

  static constexpr const char* kSum = R"(
    @R.function
    def sum(xs: cls.List[R.Tensor((), "float32")]):
        match xs:
            case cls.List.Nil():
                r = R.const(0.0, "float32")
            case cls.List.Cons(h, t):
                r = R.add(h, cls.sum(t))
        return r
)";
};

}  // namespace tenon::graph::testing_graph
