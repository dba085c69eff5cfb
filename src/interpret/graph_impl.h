// SPDX-License-Identifier: Apache-2.0
// The interpreter of graph programs: graph.cpp has functions, patterns and expressions, graph_calls.cpp what
// is called. Used by these two only.
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "interpret/interpret.h"
#include "interpret/memo.h"
#include "ir/origin.h"
#include "ir/tir.h"
#include "runtime/executable.h"
#include "runtime/library.h"

namespace tenon::graph::interpreter {

using interpret_detail::Symbols;
using PackedFunction = tenon::Function;

[[noreturn]] inline void error(std::string code, std::string message, const Origin& origin = {},
                               std::string hint = {}) {
  throw Error(ErrorKind::model, std::move(code), std::move(message), place(origin), std::move(hint));
}

struct Environment {
  std::unordered_map<const graph::Var*, Value> vars;
  Symbols symbols;
};

/// A function value: what it closes over is copied, since values never change. `self`: the variable under
/// which its body calls it. A constructor as a value has no function.
struct FunctionValue : Object {
  static constexpr std::string_view type_key = "interpret.Function";
  Ref<Function> function;
  std::shared_ptr<Environment> environment;
  graph::VarRef self;
  Ref<Constructor> constructor;
  std::vector<Value> captured;  ///< first arguments
};

inline Value data_value(int64_t tag, std::vector<Value> items) {
  auto d = make<DataObj>();
  d.edit()->tag = tag;
  d.edit()->items = std::move(items);
  return Any(d);
}
template <class T>
const T* as_object(const Value& v) {
  return v.is_object() && is_type_index<T>(v.tag()) ? static_cast<const T*>(v.object()) : nullptr;
}

inline Value tuple_value(const std::vector<Value>& items) {
  auto a = make<ArrayObj>();
  a.edit()->items = items;
  return Any(a);
}
inline std::optional<NDArray> as_array(const Value& v) {
  auto a = v.try_as<NDArray>();
  return a && *a ? a : std::nullopt;
}
inline const ArrayObj* as_tuple(const Value& v) {
  return v.is_object() && is_type_index<ArrayObj>(v.tag()) ? static_cast<const ArrayObj*>(v.object())
                                                           : nullptr;
}
inline const ShapeObj* as_shape(const Value& v) {
  return v.is_object() && is_type_index<ShapeObj>(v.tag()) ? static_cast<const ShapeObj*>(v.object())
                                                           : nullptr;
}
inline Value shape_value(std::vector<int64_t> dims) {
  auto s = make<ShapeObj>();
  s.edit()->dims = std::move(dims);
  return Any(s);
}
inline std::string describe(const Value& v) {
  if (auto a = as_array(v))
    return fmt::format("tensor {}({})", to_string(a->dtype()), fmt::join(a->shape(), ", "));
  if (const ShapeObj* s = as_shape(v)) return fmt::format("shape ({})", fmt::join(s->dims, ", "));
  return v.kind_name();
}

class GraphInterpreter {
 public:
  GraphInterpreter(const IRModule& module, const InterpretOptions& options)
      : module_(module), options_(options) {}
  Value run(const Ref<Function>& f, const std::vector<Value>& args);

 private:
  /// A call whose value is the caller's value: it takes the caller's place.
  struct TailCall {
    Ref<Function> function;
    std::vector<Value> args;
    Environment env;
  };
  Value call_function(Ref<Function> f, std::vector<Value> args, Environment env);

  /// The value of a body; its last call is left to the caller when it ends the body.
  Value tail(const Expr& e, Environment& env, std::optional<TailCall>& next);
  static Environment environment_of(const Value& callee, const FunctionValue& f);
  void bind(const Binding& b, Environment& env);

  /// The body of the clause that takes the value; its variables are bound.
  Expr clause(const graph::Match& m, Environment& env);
  bool takes(const PatternNode& p, const Value& v);
  void bind_pattern(const PatternNode& p, const Value& v, Environment& env);
  int64_t integer(const PrimExpr& e, const Environment& env);
  DataType stored(DataType t) const { return options_.float64 && t.is_float() ? f64 : t; }
  NDArray as_stored(const NDArray& a) const;

  /// A size in symbols that are not bound yet.
  struct LateSize {
    PrimExpr size;
    int64_t actual;
    std::string what;
  };
  /// Binds the symbols that `type` introduces and checks the rest; what cannot be checked yet goes to `late`.
  void match_type(const Type& type, const Value& v, Symbols& symbols, const std::string& what,
                  std::vector<LateSize>* late = nullptr);
  static bool unbound(const PrimExpr& e, const Symbols& symbols);
  bool truth(const Value& v, const Origin& origin);
  Value eval(const Expr& e, Environment& env);
  NDArray allocate(const Type& type, Environment& env);
  Value call(const graph::Call& n, Environment& env);
  static Value construct(const Constructor& c, std::vector<Value> args);
  Value call_destination(const graph::Call& n, const Op& op, Environment& env);

  /// A packed function is given shapes and numbers, too, and then the tensors that it fills.
  Value call_packed_destination(const graph::Call& n, std::vector<Value> args, Environment& env);

  /// A tuple of one stays a tuple.
  static Value results_of(const graph::Call& n, const std::vector<Value>& outputs);

  /// Runs or remembers a program. `outputs` are the last arrays, but for those that are arguments, too.
  void run_program(const tir::PrimFunc& f, const std::vector<NDArray>& arrays, std::vector<Value>& outputs,
                   const Array<int64_t>& inplace);

  /// What rules may see of an argument beside its value.
  static void form_of(const Expr& e, std::string& out);

  /// A variable of the concrete type of `v`; tuples become tuples of variables.
  Expr concrete(const Expr& e, const Value& v, std::vector<NDArray>& arrays);
  Value call_operator(const graph::Call& n, const Op& op, Environment& env);

  const IRModule& module_;
  const InterpretOptions& options_;
  int depth_ = 0;
  RefCells cells_;
};

}  // namespace tenon::graph::interpreter
