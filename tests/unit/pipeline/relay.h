// SPDX-License-Identifier: Apache-2.0
// What tests of Relay text share: programs run by the interpreter, by the VM's code and as machine code.
#pragma once
#include "import/relay/load.h"
#include "pipeline/emit.h"
#include "pipeline/program_entry.h"
#include "support.h"

namespace tenon::graph::testing_graph {

inline NDArray scalar(double v, DataType t = f32) {
  NDArray a = NDArray::empty({}, t);
  t.is_float() ? a.set_element(0, v) : a.set_element_int(0, int64_t(v));
  return a;
}
inline NDArray array(std::vector<int64_t> shape, const std::vector<double>& values, DataType t = f32) {
  NDArray a = NDArray::empty(std::move(shape), t);
  for (size_t i = 0; i < values.size(); ++i)
    t.is_float() ? a.set_element(int64_t(i), values[i]) : a.set_element_int(int64_t(i), int64_t(values[i]));
  return a;
}

inline std::vector<NDArray> run_compiled(const IRModule& m, const std::vector<NDArray>& inputs) {
  Session session(jit_artifact(compile(with_entry(m), {})));
  return session.invoke(inputs);
}

/// The text's results everywhere; its module also survives printing and reading as script text.
inline std::vector<NDArray> run_relay(const std::string& text, const std::vector<NDArray>& inputs,
                                      double tolerance = 1e-5) {
  const IRModule m = relay::import_relay(text);
  EXPECT_TRUE(structural_equal(parse_module(print(m, {.inline_elements = 1000})), m)) << print(m);
  const std::vector<NDArray> got = expect_vm_agrees(m, inputs, tolerance);
  expect_close(got, run_compiled(m, inputs), tolerance);
  return got;
}

inline std::vector<double> numbers(const std::vector<NDArray>& arrays) {
  std::vector<double> out;
  for (const NDArray& a : arrays)
    for (int64_t i = 0; i < a.size(); ++i) out.push_back(a.element(i));
  return out;
}

inline void expect_numbers(const std::string& text, const std::vector<NDArray>& inputs,
                           const std::vector<double>& want) {
  const std::vector<double> got = numbers(run_relay(text, inputs));
  ASSERT_EQ(got.size(), want.size()) << text;
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(got[i], want[i], 1e-5 * std::max(1.0, std::abs(want[i]))) << i << "\n" << text;
}

/// The same results as a program of script text.
inline void expect_same_as(const std::string& script, const std::string& relay,
                           const std::vector<NDArray>& inputs, double tolerance = 1e-5) {
  expect_close(run(parse_module(script), inputs), run_relay(relay, inputs, tolerance), tolerance);
}

inline constexpr const char* kVersion = "#[version = \"0.0.5\"]\n";
inline constexpr const char* kList = R"(
type List[A] {
  Cons(A, List[A]),
  Nil,
}
)";

}  // namespace tenon::graph::testing_graph
