// SPDX-License-Identifier: Apache-2.0
#include "tools/verify_bounds.h"

#include <cmath>
#include <numbers>
#include <random>

#include "ir/pass.h"
#include "ir/structural.h"
#include "op/attrs.h"
#include "op/body_rewriter.h"
#include "op/build.h"

namespace tenon {
namespace {

using namespace graph;

constexpr int kDraws = 4;
/// Errors of a pass add up in ways that few draws of errors of the inputs do not show.
constexpr double kRoundings = 16;
/// Values that are moved as far as one rounding reaches add up less.
constexpr double kMoves = 2;
/// Of the quantised values this share is moved, far more than lie next to a half; so little more is allowed.
constexpr double kMoved = 0.25, kSteps = 2;

/// Values of floating type, each with a relative error of at most `by`.
Any rounded(const Any& v, double by, std::mt19937_64& random) {
  if (auto a = v.try_as<NDArray>(); a && *a && (*a).dtype().is_float()) {
    NDArray out = NDArray::empty((*a).shape(), (*a).dtype());
    for (int64_t i = 0; i < out.size(); ++i)
      out.set_element(i, (*a).element(i) * (1 + (double(random() >> 11) * 0x1p-52 - 1) * by));
    return Any(out);
  }
  auto items = v.try_as<Array<Any>>();
  if (!items || !*items) return v;
  Array<Any> out;
  for (const Any& i : *items) out.push_back(rounded(i, by, random));
  return out;
}

/// The largest difference of two elements; infinite when the shapes differ or only one is a number.
double distance(const NDArray& a, const NDArray& b) {
  if (a.shape() != b.shape()) return INFINITY;
  double out = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    const double x = a.element(i), y = b.element(i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    const double d = std::abs(x - y);
    out = std::max(out, std::isnan(d) ? INFINITY : d);
  }
  return out;
}

/// Raises `most` to what the results of a run with errors are off by; its checks may fail then, and nothing
/// is known.
void raise(std::vector<double>& most, const MeasuredModel& m, const IRModule& module,
           const std::vector<Any>& values) {
  std::vector<NDArray> results;
  try {
    results = m.run(module, values);
  } catch (const Error&) {
  }
  for (size_t k = 0; k < most.size(); ++k)
    most[k] = std::max(most[k], k < results.size() ? distance(m.results[k], results[k]) : INFINITY);
}

/// The call of an operator whose result, or the first item of it, is steps of few bits; null for others.
const Call* quantisation(const Expr& value) {
  const Op* op = op_of(value);
  if (!op || !op::definition(*op).quantizes) return nullptr;
  const auto* t = as_tensor(value);
  return !t || t->dtype.is_float() || t->dtype.bits <= 16 ? value.as<Call>() : nullptr;
}

/// Rewrites that compute in other types.
class TypedRewriter : public BodyRewriter {
 protected:
  /// Of the type: what it is, or a cast of it.
  Expr as(const Expr& x, DataType t) {
    return as_tensor(x)->dtype == t ? x : emit(op::op_call("cast", {x}, op::make_attrs<op::CastAttrs>(t)));
  }
};

/// Results of float16 that float32 would not round become the next number on the other side of what float32
/// gives for the same operands; those that are exact stay. So a function with a jump (floor, frac, a
/// comparison) sees what it sees where values are not rounded.
class FollowErrors : public TypedRewriter {
 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    const Op* op = op_of(value);
    if (!op || !op->pure || !op::definition(*op).tensor_def || op::definition(*op).moves) return value;
    if (op::definition(*op).precision == op::Precision::bytes || !is_f16(var)) return value;
    const Call& call = *value.as<Call>();
    Array<Expr> args;
    for (const Expr& a : call.args) {
      if (a && a->type.is<TupleType>()) return value;
      args.push_back(a && is_f16(a) ? as(a, f32) : a);
    }
    const Expr exact = op->name == "cast" ? args[0] : op::op_call(op->name, args, call.attrs);
    const auto* type = as_tensor(exact);
    return type && type->dtype == f32 ? moved(as(emit(value), f32), emit(exact)) : value;
  }

 private:
  static bool is_f16(const Expr& e) {
    const auto* t = as_tensor(e);
    return t && t->dtype == f16;
  }
  Expr moved(const Expr& y, const Expr& exact) {
    const Expr finite = emit(op::op_call("clip", {y}, op::make_attrs<op::ClipAttrs>(-kLargest, kLargest)));
    const Expr side = emit_op("sign", {emit_op("subtract", {exact, finite})});
    const Expr share = emit_op("multiply", {emit_op("abs", {finite}), op::scalar(kStep, f32)});
    const Expr step = emit_op("multiply", {side, emit_op("add", {share, op::scalar(kLeast, f32)})});
    const Expr rounded =
        emit_op("logical_and", {emit_op("isfinite", {exact}), emit_op("not_equal", {exact, y})});
    return as(emit_op("where", {rounded, emit_op("add", {finite, step}), y}), f16);
  }
  /// Of float16: the largest number, the largest step from one number to the next as a share of it, the
  /// smallest number.
  static constexpr double kLargest = 65504, kStep = 0x1p-10, kLeast = 0x1p-24;
};

/// Puts other values in place of quantised ones: a share of them, which the operand's digits choose (of a
/// pool, whose operand has other sizes, its own), is a step more or less, within the range of the type.
class MoveSteps : public TypedRewriter {
 public:
  explicit MoveSteps(double phase) : phase_(phase) {}

 protected:
  Expr visit(const Expr& value, const VarRef&) override {
    if (const Call* call = quantisation(value); call && as_tensor(value))
      return moved(emit(value), call->args[0]);
    const auto* item = value.as<TupleGetItem>();
    const Expr tuple = item && item->index == 0 ? definition(item->tuple) : Expr();
    const Call* call = tuple ? quantisation(tuple) : nullptr;
    return call ? moved(emit(value), call->args[0]) : value;
  }

 private:
  Expr moved(const Expr& q, const Expr& operand) {
    const DataType t = as_tensor(q)->dtype;
    const Expr& chooses = same_shape(q, operand) ? operand : q;
    const Expr digits = emit_op("multiply", {as(chooses, f32), op::scalar(kDigits, f32)});
    const Expr wave = emit_op("sin", {emit_op("add", {digits, op::scalar(phase_, f32)})});
    // |sin| is beyond this height for the share of arguments that is to move.
    const double height = std::sin((1 - kMoved) * std::numbers::pi / 2);
    const Expr step = emit_op("trunc", {emit_op("multiply", {wave, op::scalar(1 / height, f32)})});
    Expr sum = emit_op("add", {as(q, f32), step});
    if (t.is_float()) return sum;
    const double low = t.is_uint() ? 0 : -std::ldexp(1, t.bits - 1), high = low + std::ldexp(1, t.bits) - 1;
    sum = emit(op::op_call("clip", {sum}, op::make_attrs<op::ClipAttrs>(low, high)));
    return as(sum, t);
  }
  static bool same_shape(const Expr& a, const Expr& b) {
    const auto x = known_shape(a->type), y = known_shape(b->type);
    return x && y && structural_equal(*x, *y);
  }

  /// So many turns of the wave lie between neighbouring values that its heights are like random ones.
  static constexpr double kDigits = 1e4;
  double phase_;
};

/// A product of matrices or vectors; null for other values.
const Call* matrix_product(const Expr& value) {
  const auto* call = value.as<Call>();
  return call && op_of(value) && call->attrs.as<op::MatmulAttrs>() ? call : nullptr;
}

/// Operands of products of matrices are 0 where they are infinite or no number.
class FiniteOperands : public BodyRewriter {
 protected:
  Expr visit(const Expr& value, const VarRef&) override {
    const Call* product = matrix_product(value);
    if (!product) return value;
    Array<Expr> operands;
    for (const Expr& x : product->args) operands.push_back(finite(x));
    return op::op_call(op_of(value)->name, operands, product->attrs);
  }

 private:
  Expr finite(const Expr& x) {
    const auto* t = as_tensor(x);
    if (!t || !t->dtype.is_float()) return x;
    return emit_op("where", {emit_op("isfinite", {x}), x, op::scalar(0, t->dtype)});
  }
};

}  // namespace

std::vector<double> what_rounding_does(const MeasuredModel& m, double by) {
  std::vector<double> most;
  for (const NDArray& a : m.results) {
    most.push_back(0);
    for (int64_t i = 0; a.dtype().is_float() && i < a.size(); ++i)
      if (const double x = std::abs(a.element(i)) * by; std::isfinite(x))
        most.back() = std::max(most.back(), x);
  }
  std::mt19937_64 random(m.seed);
  for (int draw = 0; draw < kDraws; ++draw) {
    std::vector<Any> values;
    for (const Any& v : m.values) values.push_back(rounded(v, by, random));
    raise(most, m, m.module, values);
  }
  for (double& x : most) x *= kRoundings;
  PassContext typing;
  const IRModule typed = run_pass("infer_types", m.module, typing);
  const IRModule followed = rewrite_functions<FollowErrors>(typed);
  if (followed.same_as(typed)) return most;
  std::vector<double> moves(most.size(), 0);
  raise(moves, m, followed, m.values);
  for (size_t k = 0; k < most.size(); ++k) most[k] = std::max(most[k], kMoves * moves[k]);
  return most;
}

/// Does `f` hold of a value that the module binds?
static bool binds(const IRModule& module, FunctionRef<bool(const Expr&)> f) {
  bool found = false;
  for (const auto& [name, function] : graph_functions(module))
    for_each_binding(function->body, [&](const Binding& b) { found = found || f(b->value); });
  return found;
}

bool quantizes(const IRModule& module) {
  return binds(module, [](const Expr& value) {
    const Op* op = op_of(value);
    return op && op::definition(*op).quantizes;
  });
}
bool multiplies_matrices(const IRModule& module) {
  return binds(module, [](const Expr& value) { return matrix_product(value) != nullptr; });
}

std::vector<double> what_steps_do(const MeasuredModel& m) {
  std::vector<double> most(m.results.size(), 0);
  PassContext typing;
  const IRModule typed = run_pass("infer_types", m.module, typing);
  for (int draw = 0; draw < kDraws; ++draw)
    raise(most, m, rewrite_functions<MoveSteps>(typed, double(m.seed % 1024) + draw), m.values);
  for (double& x : most) x *= kSteps;
  return most;
}

std::vector<std::vector<bool>> what_infinities_do(const MeasuredModel& m) {
  std::vector<std::vector<bool>> out;
  for (const NDArray& a : m.results) out.emplace_back(size_t(a.size()), false);
  PassContext typing;
  const IRModule typed = run_pass("infer_types", m.module, typing);
  std::vector<NDArray> finite;
  try {
    finite = m.run(rewrite_functions<FiniteOperands>(typed), m.values);
  } catch (const Error&) {  // what a check saw was infinite: nothing is known
  }
  for (size_t k = 0; k < out.size() && k < finite.size(); ++k) {
    const NDArray &a = m.results[k], &b = finite[k];
    for (int64_t i = 0; a.shape() == b.shape() && i < a.size(); ++i) {
      const double x = a.element(i), y = b.element(i);
      out[k][size_t(i)] = !(x == y || (std::isnan(x) && std::isnan(y)));
    }
  }
  return out;
}

}  // namespace tenon
