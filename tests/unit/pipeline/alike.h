// SPDX-License-Identifier: Apache-2.0
// A tensor program of script text, interpreted, compiled by LLVM at two levels and as C text: the same bits.
#pragma once
#include <cstring>

#include "interpret/interpret.h"
#include "ir/text.h"
#include "ir/tir.h"
#include "pipeline/emit.h"
#include "pipeline/program_entry.h"
#include "support.h"

namespace tenon::testing_programs {

inline NDArray ints(const std::vector<int64_t>& values, DataType dtype = i32) {
  NDArray a = NDArray::empty({int64_t(values.size())}, dtype);
  for (size_t i = 0; i < values.size(); ++i) a.set_element_int(int64_t(i), values[i]);
  return a;
}

/// The results of `main`, interpreted; sizes of results are constants.
inline std::vector<NDArray> interpreted(const IRModule& module, const std::vector<NDArray>& inputs) {
  const auto f = module.find("main").cast<tir::PrimFuncNode>();
  std::vector<NDArray> args;
  for (const NDArray& x : inputs) args.push_back(x.copy());
  for (size_t k = inputs.size(); k < f->params.size(); ++k) {
    const tir::Buffer& b = f->buffer_map.at(f->params[k]);
    std::vector<int64_t> shape;
    for (const PrimExpr& d : b->shape) shape.push_back(*tir::as_int(d));
    args.push_back(NDArray::zeros(shape, b->dtype));
  }
  interpret_prim_func(f, args, module);
  return {args.begin() + std::ptrdiff_t(inputs.size()), args.end()};
}

inline std::vector<NDArray> compiled_run(const IRModule& module, const std::vector<NDArray>& inputs,
                                         const std::string& target, int level) {
  CompileOptions options;
  options.target = target;
  options.opt_level = level;
  options.code = CodeForm::objects;
  Session session(jit_artifact(compile(with_entry(module), options)));
  return session.invoke(inputs);
}

inline void expect_same_bits(const std::vector<NDArray>& want, const std::vector<NDArray>& got,
                             const std::string& by) {
  ASSERT_EQ(want.size(), got.size()) << by;
  for (size_t k = 0; k < want.size(); ++k)
    for (int64_t i = 0; i < want[k].size(); ++i)
      ASSERT_EQ(want[k].element(i), got[k].element(i)) << by << ", result " << k << ", element " << i;
}

/// The common result, element by element.
inline std::vector<NDArray> run_alike(const std::string& text, const std::vector<NDArray>& inputs) {
  const IRModule module = parse_module(text);
  const std::vector<NDArray> want = interpreted(module, inputs);
  for (const auto& [target, level] : {std::pair("llvm", 2), {"llvm", 0}, {"c", 2}})
    expect_same_bits(want, compiled_run(module, inputs, target, level), std::string(target) + " " + text);
  return want;
}
inline std::vector<int64_t> values(const NDArray& a) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < a.size(); ++i) out.push_back(a.element_int(i));
  return out;
}

/// Code and text of the refusal of a compilation, with where it points; "runs" when there is none.
inline std::string refusal(const std::string& text, const std::string& target = "llvm") {
  try {
    CompileOptions options;
    options.target = target;
    options.code = CodeForm::objects;
    compile(with_entry(parse_module(text)), options);
    return "runs";
  } catch (const Error& e) {
    return e.code + " " + e.location + " " + e.what();
  }
}

}  // namespace tenon::testing_programs
