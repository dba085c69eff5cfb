// SPDX-License-Identifier: Apache-2.0
// Programs as text, run by the interpreter (and compiled, where that is asked for) against plain C++.
#pragma once
#include <gtest/gtest.h>

#include <cmath>

#include "base/diagnostic.h"
#include "interpret/interpret.h"
#include "ir/structural.h"
#include "ir/text.h"
#include "ir/tir.h"
#include "ir/verify.h"

namespace tenon::interpret_test {

/// The module of the text, verified, and equal to what its own print reads as.
inline IRModule read(const std::string& text) {
  IRModule m = parse_module(text);
  verify_or_throw(m);
  EXPECT_EQ(first_difference(m, parse_module(print(m))), "") << print(m);
  return m;
}
inline tir::PrimFunc function(const IRModule& m, const std::string& name = "f") {
  return m.find(name).cast<tir::PrimFuncNode>();
}
inline NDArray numbers(std::vector<int64_t> shape, DataType t, int64_t first = 0, int64_t step = 1) {
  NDArray a = NDArray::empty(std::move(shape), t);
  for (int64_t i = 0; i < a.size(); ++i) a.set_element(i, double(first + i * step));
  return a;
}
inline std::vector<double> values(const NDArray& a) {
  std::vector<double> out;
  for (int64_t i = 0; i < a.size(); ++i) out.push_back(a.element(i));
  return out;
}
/// Code of the first problem of the text: of parsing or of verifying. Empty: there is none.
inline std::string problem(const std::string& text) {
  try {
    verify_or_throw(parse_module(text));
  } catch (const DiagnosticError& e) {
    return e.diagnostics.at(0).code;
  }
  return {};
}
/// Code of the error of a run. Empty: there is none.
inline std::string run_error(const IRModule& m, const std::vector<NDArray>& args,
                             InterpretOptions options = {}) {
  try {
    interpret_prim_func(function(m), args, m, options);
  } catch (const Error& e) {
    return e.code;
  }
  return {};
}

}  // namespace tenon::interpret_test
