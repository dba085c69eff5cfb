// SPDX-License-Identifier: Apache-2.0
// Runs operators on small tensors through create_prim_func and the interpreter, and compares with definitions
// that the tests write themselves in double.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "base/diagnostic.h"
#include "interpret/interpret.h"
#include "ir/text.h"
#include "ir/tir.h"
#include "op/build.h"

namespace tenon::op_test {

using namespace tenon::op;
using Index = std::vector<int64_t>;
using Dims = std::vector<int64_t>;
inline const double inf = std::numeric_limits<double>::infinity();
inline const double nan = std::nan("");

inline DataType bf16() { return DataType::bfloat16(); }

/// Reproducible values, with a spread that suits most functions.
inline double pseudo(int64_t i, int64_t seed = 1) {
  uint64_t x = uint64_t(i + 1) * 0x9E3779B97F4A7C15ull + uint64_t(seed) * 0xD1B54A32D192ED03ull;
  x ^= x >> 31;
  x *= 0xBF58476D1CE4E5B9ull;
  x ^= x >> 29;
  return double(x >> 11) / double(uint64_t(1) << 53);
}

inline NDArray random(Dims shape, DataType dtype = f32, double low = -2, double high = 2, int64_t seed = 1) {
  NDArray a = NDArray::empty(std::move(shape), dtype);
  for (int64_t i = 0; i < a.size(); ++i) {
    const double v = low + (high - low) * pseudo(i, seed);
    if (dtype.is_float())
      a.set_element(i, v);
    else
      a.set_element_int(i, int64_t(std::floor(v)));
  }
  return a;
}
inline NDArray values(Dims shape, std::vector<double> v, DataType dtype = f32) {
  NDArray a = NDArray::empty(std::move(shape), dtype);
  EXPECT_EQ(a.size(), int64_t(v.size()));
  for (int64_t i = 0; i < a.size(); ++i) {
    if (dtype.is_float())
      a.set_element(i, v[size_t(i)]);
    else
      a.set_element_int(i, int64_t(v[size_t(i)]));
  }
  return a;
}
inline NDArray iota(Dims shape, DataType dtype = f32) {
  NDArray a = NDArray::empty(std::move(shape), dtype);
  for (int64_t i = 0; i < a.size(); ++i) a.set_element(i, double(i));
  return a;
}

inline double at(const NDArray& a, const Index& i) {
  int64_t flat = 0;
  EXPECT_EQ(i.size(), a.shape().size());
  for (size_t d = 0; d < i.size(); ++d) {
    EXPECT_TRUE(i[d] >= 0 && i[d] < a.shape()[d]) << "the test reads outside";
    flat = flat * a.shape()[d] + i[d];
  }
  return a.dtype().is_float() ? a.element(flat) : double(a.element_int(flat));
}
/// Element of a, or `otherwise` outside.
inline double at_or(const NDArray& a, const Index& i, double otherwise) {
  for (size_t d = 0; d < i.size(); ++d)
    if (i[d] < 0 || i[d] >= a.shape()[d]) return otherwise;
  return at(a, i);
}
inline std::vector<double> list(const NDArray& a) {
  std::vector<double> out;
  for (int64_t i = 0; i < a.size(); ++i)
    out.push_back(a.dtype().is_float() ? a.element(i) : double(a.element_int(i)));
  return out;
}

template <class F>
void for_each_index(const Dims& shape, F f) {
  for (int64_t d : shape)
    if (d == 0) return;
  Index i(shape.size(), 0);
  for (;;) {
    f(i);
    size_t d = shape.size();
    while (d > 0 && ++i[d - 1] == shape[d - 1]) i[--d] = 0;
    if (d == 0) return;
  }
}

/// Compares every element with the definition.
inline void expect_all(const NDArray& got, const Dims& shape,
                       const std::function<double(const Index&)>& wanted, double tolerance = 1e-5) {
  ASSERT_EQ(got.shape(), shape);
  int wrong = 0;
  for_each_index(shape, [&](const Index& i) {
    if (wrong > 3) return;
    const double w = wanted(i), g = at(got, i);
    const bool same =
        std::isnan(w) ? std::isnan(g) : w == g || std::abs(w - g) <= tolerance * std::max(1.0, std::abs(w));
    if (same) return;
    ++wrong;
    std::string where;
    for (int64_t v : i) where += std::to_string(v) + " ";
    ADD_FAILURE() << "at [ " << where << "] got " << g << ", wanted " << w;
  });
}

inline graph::VarRef input(const std::string& name, const Dims& shape, DataType dtype) {
  Shape dims;
  for (int64_t d : shape) dims.push_back(d);
  return graph::var(name, graph::tensor_type(dims, dtype));
}
inline graph::VarRef input(const std::string& name, const Shape& shape, DataType dtype = f32) {
  return graph::var(name, graph::tensor_type(shape, dtype));
}

/// Compiles the call, runs it and compares with what the interpreter gave.
void compare_compiled(const Expr& call, const std::vector<NDArray>& inputs,
                      const std::vector<NDArray>& outputs);

/// Names of the operators that were run, written to the file that TENON_RECORD_OPERATORS names. With
/// TENON_COMPILE_OPERATORS=N, every N-th operator's first calls (with TENON_ALL_CALLS all) are compiled and
/// compared, too. The file that
/// TENON_RECORD_CALLS names gets the smallest call of each operator on its values as a function without
/// parameters: random graphs draw from it (tests/unit/trust/operators.tir).
class Recorder {
 public:
  void add(const graph::Call& call, const std::vector<NDArray>& inputs) {
    const std::string name = call.op.as<graph::Op>()->name;
    names_.insert(name);
    if (std::getenv("TENON_RECORD_CALLS")) keep(name, call, inputs);
  }
  bool compiles(const std::string& name) {
    static const char* every = std::getenv("TENON_COMPILE_OPERATORS");
    static const bool all_calls = std::getenv("TENON_ALL_CALLS") != nullptr;
    if (!every || (compiled_[name] > 1 && !all_calls)) return false;
    uint64_t hash = 1469598103934665603ull;
    for (char c : name) hash = (hash ^ uint8_t(c)) * 1099511628211ull;
    if ((hash >> 20) % uint64_t(std::max(1, std::atoi(every))) != 0) return false;
    return ++compiled_[name] > 0;
  }
  ~Recorder() {
    if (const char* file = std::getenv("TENON_RECORD_OPERATORS")) {
      std::ofstream out(file);
      for (const std::string& n : names_) out << n << "\n";
    }
    if (const char* file = std::getenv("TENON_RECORD_CALLS")) {
      std::ofstream out(file);
      out << "@I.ir_module\nclass Module:\n";
      for (const auto& [name, kept] : calls_) out << kept.second;
    }
  }

 private:
  static constexpr int64_t kKeptElements = 700;
  /// Among calls on no more than so many elements, and one in each operand at least, that on the fewest.
  void keep(const std::string& name, const graph::Call& call, const std::vector<NDArray>& inputs) {
    int64_t elements = 0;
    for (const NDArray& a : inputs) {
      if (a.size() == 0) return;
      elements += a.size();
    }
    if (elements > kKeptElements || (calls_.count(name) && calls_[name].first <= elements)) return;
    size_t next = 0;
    Array<Expr> args;
    for (const Expr& a : call.args) {
      if (a.is<graph::Call>()) return;  // of a parameter, which is gone
      if (const auto* t = a->type.as<graph::TupleType>()) {
        Array<Expr> items;
        for (size_t i = 0; i < t->items.size(); ++i) items.push_back(graph::constant(inputs.at(next++)));
        args.push_back(tuple(items));
      } else {
        args.push_back(a->type.is<graph::TensorType>() ? graph::constant(inputs.at(next++)) : a);
      }
    }
    const Expr result = op_call(name, args, call.attrs);
    auto f = make<graph::Function>(Array<graph::VarRef>{}, result, result->type);
    IRModule module = IRModule::create();
    std::string global = name;
    std::replace(global.begin(), global.end(), '.', '_');
    module.set("call_" + global, f);
    PrintOptions in_full;
    in_full.inline_elements = kKeptElements;
    const std::string text = print(module, in_full);
    const size_t body = text.find("    @R.function");
    if (body != std::string::npos) calls_[name] = {elements, text.substr(body)};
  }

  std::map<std::string, std::pair<int64_t, std::string>> calls_;
  std::set<std::string> names_;
  std::map<std::string, int> compiled_;
};
inline Recorder recorder;

/// Runs a typed call on tensors; sizes that its types leave open are taken from the tensors.
inline std::vector<NDArray> run_call(const Expr& e, const std::vector<NDArray>& inputs,
                                     tir::VarMap symbols = {}) {
  const auto& call = *e.as<Call>();
  recorder.add(call, inputs);
  EXPECT_TRUE(can_lower(call));
  std::vector<tir::VarRef> scalars;
  tir::PrimFunc f = lower_call(call, &scalars);
  size_t next = 0;
  auto bind = [&](const Type& t) {
    auto shape = graph::known_shape(t);
    for (size_t i = 0; i < shape->size(); ++i)
      if (const auto* v = (*shape)[i].as<tir::Var>()) symbols[v] = PrimExpr(inputs[next].shape()[i]);
    ++next;
  };
  for (const Expr& a : call.args) {
    if (a->type.is<graph::TensorType>()) bind(a->type);
    if (const auto* t = a->type.as<graph::TupleType>())
      for (const Type& i : t->items) bind(i);
  }
  EXPECT_EQ(next, inputs.size());
  std::vector<Type> types;
  if (const auto* t = call.type.as<graph::TupleType>())
    types = t->items.vec();
  else
    types = {call.type};
  std::vector<NDArray> args = inputs, outputs;
  for (const Type& t : types) {
    Dims shape;
    const auto dims = graph::known_shape(t);
    for (const PrimExpr& d : *dims) {
      auto v = tir::as_int(simplify(tir::substitute(d, symbols)));
      EXPECT_TRUE(v.has_value()) << "a size of the result is not determined by the inputs";
      shape.push_back(v.value_or(0));
    }
    outputs.push_back(NDArray::zeros(shape, graph::as_tensor(t)->dtype));
    // What the program leaves out shows.
    for (int64_t i = 0; i < outputs.back().size(); ++i) {
      if (outputs.back().dtype().is_float())
        outputs.back().set_element(i, -123.25);
      else
        outputs.back().set_element_int(i, 85);
    }
    args.push_back(outputs.back());
  }
  for (const tir::VarRef& v : scalars) {
    NDArray s = NDArray::empty({}, i64);
    s.set_element_int(0, *tir::as_int(symbols.at(v.get())));
    args.push_back(s);
  }
  interpret_prim_func(f, args);
  if (scalars.empty() && recorder.compiles(call.op.as<graph::Op>()->name))
    compare_compiled(e, inputs, outputs);
  return outputs;
}

inline Expr typed_call(const std::string& name, const std::vector<NDArray>& inputs, ObjectRef attrs = {},
                       Array<Expr> tail = {}) {
  Array<Expr> args;
  for (size_t i = 0; i < inputs.size(); ++i)
    args.push_back(input("x" + std::to_string(i), inputs[i].shape(), inputs[i].dtype()));
  for (const Expr& e : tail) args.push_back(e);
  return op_call(name, args, std::move(attrs));
}
/// The operator on tensors of known shapes; further arguments (shapes) behind them.
inline std::vector<NDArray> run_all(const std::string& name, const std::vector<NDArray>& inputs,
                                    ObjectRef attrs = {}, Array<Expr> tail = {}) {
  return run_call(typed_call(name, inputs, std::move(attrs), std::move(tail)), inputs);
}
inline NDArray run(const std::string& name, const std::vector<NDArray>& inputs, ObjectRef attrs = {},
                   Array<Expr> tail = {}) {
  return run_all(name, inputs, std::move(attrs), std::move(tail)).at(0);
}
/// The operator on one tuple of tensors.
inline NDArray run_tuple(const std::string& name, const std::vector<NDArray>& inputs, ObjectRef attrs = {}) {
  Array<Expr> items;
  for (size_t i = 0; i < inputs.size(); ++i)
    items.push_back(input("x" + std::to_string(i), inputs[i].shape(), inputs[i].dtype()));
  return run_call(op_call(name, {tuple(items)}, std::move(attrs)), inputs).at(0);
}

/// The call is refused with this code, and the message has all of the words.
inline void expect_refused(const std::function<void()>& f, const std::string& code,
                           const std::vector<std::string>& words) {
  try {
    f();
    ADD_FAILURE() << "nothing was refused";
  } catch (const DiagnosticError& e) {
    ASSERT_FALSE(e.diagnostics.empty());
    EXPECT_EQ(e.diagnostics[0].code, code);
    for (const std::string& w : words)
      EXPECT_NE(e.diagnostics[0].message.find(w), std::string::npos)
          << "'" << w << "' is not in: " << e.diagnostics[0].message;
  }
}
inline void expect_refused(const std::string& name, const std::vector<NDArray>& inputs, ObjectRef attrs,
                           const std::vector<std::string>& words, Array<Expr> tail = {}) {
  expect_refused([&] { typed_call(name, inputs, attrs, tail); }, "T1101", words);
}

inline Array<int64_t> ints(std::initializer_list<int64_t> v) { return Array<int64_t>(v); }
inline std::string shape_text(const Expr& e) {
  auto s = graph::known_shape(e);
  return s ? show(*s) : "unknown";
}

}  // namespace tenon::op_test
