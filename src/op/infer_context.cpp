// SPDX-License-Identifier: Apache-2.0
#include "op/infer_context.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/origin.h"
#include "ir/text.h"
#include "op/infer.h"
#include "op/op_def.h"

namespace tenon::op {

bool in_domain(DataType t, Domain d) {
  switch (d) {
    case Domain::any:
      return true;
    case Domain::number:
      return t.is_integer() || t.is_float();
    case Domain::signed_number:
      return t.is_int() || t.is_float();
    case Domain::floating:
      return t.is_float();
    case Domain::integer:
      return t.is_integer();
    case Domain::bits:
      return t.is_integer() || t.is_bool();
    case Domain::boolean:
      return t.is_bool();
  }
  return false;
}

namespace {
std::string_view values_of(Domain d) {
  switch (d) {
    case Domain::floating:
      return "floating values";
    case Domain::integer:
      return "integers";
    case Domain::bits:
      return "integers or booleans";
    case Domain::boolean:
      return "booleans";
    case Domain::signed_number:
      return "signed numbers";
    default:
      return "numbers";
  }
}

/// The declaration of argument i; the last one repeats.
const graph::OpArgument* declaration(const graph::Op& op, size_t i) {
  return op.arguments.empty() ? nullptr : &op.arguments[std::min(i, op.arguments.size() - 1)];
}
}  // namespace

// ---------------------------------------------------------------- the call
const Type& InferContext::type(size_t i) const {
  CHECK(has(i), "a rule looks at an argument that the call does not have");
  return call.args[i]->type;
}
const graph::TensorType& InferContext::tensor(size_t i) const { return tensor_arg(call, i); }

std::optional<std::vector<const graph::TensorType*>> InferContext::tuple(size_t i) {
  std::vector<const graph::TensorType*> out;
  const auto* tuple = type(i).as<graph::TupleType>();
  bool tensors = tuple;
  for (size_t k = 0; tensors && k < tuple->items.size(); ++k) {
    out.push_back(tuple->items[k].as<graph::TensorType>());
    tensors = out.back();
  }
  if (!tensors) return error(fmt::format("argument '{}' must be a tuple of tensors", name(i)));
  return out;
}

std::optional<Shape> InferContext::shape(size_t i) const { return shape_arg(call, i); }

int64_t InferContext::shape_rank(size_t i) const {
  const auto* s = type(i).as<graph::ShapeType>();
  return s ? s->ndim : -1;
}

bool InferContext::expect_kinds() {
  for (size_t i = 0; i < call.args.size(); ++i) {
    const graph::OpArgument* a = declaration(op(), i);
    if (!a || !call.args[i]) continue;
    if (a->type == "Tensor" && !type(i).is<graph::TensorType>())
      return error(fmt::format("argument '{}' must be a tensor", a->name));
    if (a->type == "Shape" && !type(i).is<graph::ShapeType>() && !type(i).is<graph::ObjectType>())
      return error(fmt::format("argument '{}' must be a shape", a->name),
                   "turn a tensor into one with tensor_to_shape");
    if (a->type == "Prim" && !type(i).is<graph::PrimType>())
      return error(fmt::format("{} must be a scalar value", a->name));
  }
  return true;
}

// ---------------------------------------------------------------- mistakes
Mistake InferContext::error(std::string message, std::string hint) {
  std::string types;
  for (size_t i = 0; i < call.args.size(); ++i) {
    const std::string& argument = i < op().arguments.size() ? name(i) : std::to_string(i);
    types += fmt::format("{}{}: {}", i ? ", " : "", argument,
                         call.args[i] && call.args[i]->type ? print(call.args[i]->type) : "?");
  }
  run.problems.add({"T1101",
                    fmt::format("{}: {} (given {})", op().name, message, types),
                    place(call.origin),
                    std::move(hint),
                    {}});
  return {};
}

// ---------------------------------------------------------------- other operators
Expr InferContext::call_op(std::string_view name, Array<Expr> args, ObjectRef attrs) {
  const Ref<graph::Op> op = graph::get_op(name);
  Expr e = graph::call(op, std::move(args), attrs ? std::move(attrs) : op->default_attrs);
  Inference inner;
  const Type type = infer_type(inner, e);
  run.facts.insert(run.facts.end(), inner.facts.begin(), inner.facts.end());
  for (const Diagnostic& d : inner.problems.all()) {
    if (d.code == "T1101")
      error(d.message, d.hint);
    else
      run.problems.add(d);
  }
  if (!type) return {};
  e.edit()->type = type;
  return e;
}

// ---------------------------------------------------------------- sizes
bool InferContext::require_equal(const PrimExpr& a, const PrimExpr& b) {
  const auto x = tir::as_int(a), y = tir::as_int(b);
  if (x && y) return *x == *y;
  if (a.same_as(b)) return true;
  run.facts.push_back({a, b});
  return true;
}
bool InferContext::require_equal(const Shape& a, const Shape& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!require_equal(a[i], b[i])) return false;
  return true;
}
bool InferContext::require_at_most(const PrimExpr& have, const PrimExpr& most) {
  return require_equal(tir::max(have, most), most);
}
bool InferContext::require_not_negative(const PrimExpr& size) {
  if (const auto n = tir::as_int(size)) return *n >= 0;
  return require_equal(tir::max(size, PrimExpr(0)), size);
}
bool InferContext::require_multiple(const PrimExpr& size, int64_t n) {
  return n == 1 || require_equal(simplify(tir::floordiv(size, PrimExpr(n)) * PrimExpr(n)), size);
}
bool InferContext::expect_elements(const Shape& from, size_t i, const PrimExpr& count) {
  if (tir::as_int(from[i]).value_or(0) > 0) return true;
  PrimExpr picked = simplify(tir::select(tir::eq(from[i], PrimExpr(0)), count, PrimExpr(0)));
  // In fewer steps, and alike for all that pick so many times a number of elements.
  if (const auto* cases = picked.as<tir::Select>(); cases && tir::is_zero(cases->false_value)) {
    const auto* times = cases->true_value.as<tir::Mul>();
    const PrimExpr some = times && tir::as_int(times->b).value_or(0) > 0 ? times->a : cases->true_value;
    picked = simplify(tir::max(PrimExpr(1) - from[i], PrimExpr(0)) * some);
  }
  return require_equal(picked, PrimExpr(0)) ||
         error(fmt::format("axis {} of {} has no elements", i, show(from)));
}
void InferContext::require_equal_or_one(const PrimExpr& have, const PrimExpr& want) {
  if (!tir::is_one(have)) run.facts.push_back({have, want, true});
}

bool InferContext::expect_broadcast(const Shape& a, const Shape& b) {
  for (size_t i = std::min(a.size(), b.size()); i-- > 0;) {
    const PrimExpr &x = a[a.size() - 1 - i], &y = b[b.size() - 1 - i];
    if (tir::is_one(x) || tir::is_one(y) || same_dim(x, y)) continue;
    if (differ(x, y))
      return error(fmt::format("shapes {} and {} do not broadcast: {} against {}", show(a), show(b),
                               show_dim(x), show_dim(y)));
    // The symbolic side is 1 or the same.
    if (tir::as_int(x)) require_equal_or_one(y, x);
    if (tir::as_int(y)) require_equal_or_one(x, y);
  }
  return true;
}

bool InferContext::require_broadcast_to(const Shape& from, const Shape& to) {
  if (from.size() > to.size()) return false;
  const size_t skip = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i) {
    if (differ(from[i], PrimExpr(1)) && !require_equal(from[i], to[i + skip])) return false;
    if (!tir::as_int(from[i])) require_equal_or_one(from[i], to[i + skip]);
  }
  return true;
}

bool InferContext::expect_shape(const graph::TensorType& t, std::string_view what, Shape& shape) {
  auto known = shape_of(t);
  if (!known) return error(fmt::format("the shape of {} is not known", what), "give it by match_cast");
  shape = *known;
  return true;
}

// ---------------------------------------------------------------- arguments
bool InferContext::expect_rank(const graph::TensorType& t, std::string_view what, int64_t rank) {
  if (t.ndim < 0) return error(fmt::format("the number of dimensions of {} is not known", what));
  if (t.ndim != rank) return error(fmt::format("{} must have {} dimensions, it has {}", what, rank, t.ndim));
  return true;
}
bool InferContext::expect_domain(DataType t, Domain d) {
  if (t.is_void() || in_domain(t, d)) return true;
  return error(fmt::format("takes {}, not {}", values_of(d), to_string(t)), "cast the argument");
}
bool InferContext::expect_integers(size_t i) {
  const DataType t = tensor(i).dtype;
  if (t.is_void() || t.is_integer()) return true;
  return error(fmt::format("{} must be integers, not {}", name(i), to_string(t)), "cast them");
}
bool InferContext::expect_same_type(DataType a, DataType b) {
  if (a == b || a.is_void() || b.is_void()) return true;
  return error(fmt::format("element types {} and {} differ", to_string(a), to_string(b)), "cast one of them");
}
bool InferContext::expect_factors(DataType a, DataType b) {
  const bool bytes = a.is_integer() && b.is_integer() && a.bits == 8 && b.bits == 8;
  if (!bytes && !expect_same_type(a, b)) return false;
  if (a.is_bool()) return error("booleans cannot be multiplied", "cast them to an integer type");
  return true;
}

// ---------------------------------------------------------------- attributes
bool InferContext::expect_axis(int64_t axis, int64_t ndim, std::string_view what) {
  if (ndim < 0 || (-ndim <= axis && axis < ndim)) return true;
  return error(fmt::format("{} {} is outside of a tensor of {} dimensions", what, axis, ndim),
               ndim ? fmt::format("use a value from {} to {}", -ndim, ndim - 1) : std::string());
}
bool InferContext::expect_axes(const Array<int64_t>& axes, int64_t ndim) {
  if (ndim < 0) return true;
  std::vector<int64_t> seen;
  for (int64_t axis : axes) {
    if (!expect_axis(axis, ndim)) return false;
    if (std::ranges::count(seen, normal_axis(axis, ndim)))
      return error(fmt::format("axis {} is given twice", axis));
    seen.push_back(normal_axis(axis, ndim));
  }
  return true;
}
bool InferContext::expect_per_axis(const Array<int64_t>& list, size_t n, std::string_view what) {
  if (list.size() <= 1 || list.size() == n) return true;
  return error(fmt::format("{} must have 1 or {} values, not {}", what, n, list.size()));
}
bool InferContext::expect_paddings(const Array<int64_t>& list, size_t n) {
  return list.size() == 2 * n || expect_per_axis(list, n, "padding");
}
bool InferContext::expect_one_of(const char* what, const std::string& value,
                                 std::initializer_list<const char*> known) {
  std::string list;
  for (const char* k : known) {
    if (value == k) return true;
    list += fmt::format("{}'{}'", list.empty() ? "" : ", ", k);
  }
  return error(fmt::format("{} is '{}'", what, value), "use one of " + list);
}

}  // namespace tenon::op
