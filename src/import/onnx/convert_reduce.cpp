// SPDX-License-Identifier: Apache-2.0
// Converters: reductions, arg-reductions and scans.
#include <cmath>
#include <limits>

#include "import/onnx/values.h"

namespace tenon::onnx {
namespace {

using namespace op;
using N = NodeContext;
using R = RegisterConverter;

/// The version from which on axes are an input.
int64_t axes_moved(N& n) { return n.op_type() == "ReduceSum" ? 13 : 18; }

/// What a reduction of nothing is: the operation's neutral element, of extremes the type's other end. T2102
/// where the standard has none (a mean or a logarithm among integers).
Expr neutral(N& n, DataType t) {
  const std::string& kind = n.op_type();
  const bool min = kind == "ReduceMin";
  if (t.is_integer() && (min || kind == "ReduceMax")) {
    const int64_t top = std::numeric_limits<int64_t>::max() >> (64 - t.bits);
    const NDArray end = NDArray::empty({}, t);
    end.set_element_int(0, t.is_int() ? (min ? top : -top - 1) : min ? 2 * uint64_t(top) + 1 : 0);
    return graph::constant(end);
  }
  double v = 0;
  if (min || kind == "ReduceMax") v = t.is_bool() ? double(min) : min ? INFINITY : -INFINITY;
  if (kind == "ReduceProd") v = 1;
  if (kind == "ReduceLogSum" || kind == "ReduceLogSumExp") v = -INFINITY;
  if (kind == "ReduceMean") v = NAN;
  if (!t.is_float() && !std::isfinite(v))
    n.unsupported(fmt::format("{} of nothing is not supported for this type", kind));
  return n.scalar(v, t);
}
Values reduce(N& n, const Expr& given, std::vector<int64_t> axes, bool keep) {
  static const std::map<std::string, const char*> names{
      {"ReduceSum", "sum"},    {"ReduceMean", "mean"},
      {"ReduceProd", "prod"},  {"ReduceMax", "max"},
      {"ReduceMin", "min"},    {"ReduceL1", "l1_norm"},
      {"ReduceL2", "l2_norm"}, {"ReduceSumSquare", "sum_square"},
      {"ReduceLogSum", "sum"}, {"ReduceLogSumExp", "logsumexp"}};
  const std::string& kind = n.op_type();
  const DataType t = n.dtype(0);
  // Roots and logarithms of integers are those of real numbers, cut off.
  const bool real =
      t.is_integer() && (kind == "ReduceL2" || kind == "ReduceLogSum" || kind == "ReduceLogSumExp");
  const Expr x = real ? n.cast(given, f64) : given;
  auto over = [&](const Expr& e, const Array<int64_t>& axes, bool keep) -> Values {
    const auto a = make_attrs<ReduceAttrs>(axes, keep);
    if (t.is_bool()) {
      // Largest and smallest of truth values (from version 20 on).
      if (kind != "ReduceMax" && kind != "ReduceMin") n.malformed(fmt::format("{} of truth values", kind));
      return {n.op(kind == "ReduceMax" ? "any" : "all", {e}, a)};
    }
    const Expr y = n.op(names.at(kind), {e}, a);
    return {n.cast(kind == "ReduceLogSum" ? n.op("log", {y}) : y, t)};
  };
  if (axes.empty() && n.since >= axes_moved(n) && n.attr_int("noop_with_empty_axes", 0) != 0) {
    if (kind == "ReduceSum" || kind == "ReduceMean" || kind == "ReduceProd" || kind == "ReduceMax" ||
        kind == "ReduceMin")
      return {x};
    // No axis is reduced, but what is done to each element is.
    return over(n.op("expand_dims", {x}, make_attrs<AxesAttrs>(Array<int64_t>{-1})), {-1}, false);
  }
  if (n.type(0).ndim == 0) {
    if (!axes.empty())
      for (int64_t a : axes)
        if (a != 0 && a != -1) n.malformed(fmt::format("axis {} of {} is outside of rank 0", a, kind));
    return over(n.op("expand_dims", {x}, make_attrs<AxesAttrs>(Array<int64_t>{0})), {0}, false);
  }
  for (int64_t& a : axes) a = n.axis(a, n.rank(0));
  if (auto s = graph::known_shape(x)) {
    // Nothing to reduce: the result is the operation's neutral element.
    std::vector<bool> gone(s->size(), axes.empty());
    for (int64_t a : axes) gone[size_t(a)] = true;
    bool none = false;
    Array<PrimExpr> rest;
    for (size_t i = 0; i < s->size(); ++i) {
      none |= gone[i] && tir::is_zero((*s)[i]);
      if (!gone[i] || keep) rest.push_back(gone[i] ? PrimExpr(1) : (*s)[i]);
    }
    if (none) return {n.op("full", {graph::shape_expr(rest), neutral(n, t)}, make_attrs<DTypeAttrs>(t))};
  }
  return over(x, Array<int64_t>(axes), keep);
}
/// The axes that stay come first, those that go last; the result has its axes in order.
Values reduce_at_run_time(N& n, bool keep) {
  const auto [x, shape] = with_shape(n, 0);
  const int64_t rank = int64_t(shape.size());
  const Index given = index_input(n, 1);
  if (given.length() == 0 || rank == 0) return reduce(n, x, {}, keep);
  const RunTimeAxes axes = run_time_axes(given, rank);
  std::vector<int64_t> last;
  for (int64_t i = rank - axes.count; i < rank; ++i) last.push_back(i);
  const Values y = reduce(n, transposed(n, x, axes.order()), last, false);
  if (!keep) return y;
  const Index one(n, n.scalar(1, i64));
  return {n.reshape(y[0].expr, sizes_of(where(equal(axes.marks, 1), one, index_of(n, shape)), "size"))};
}
Values reduce(N& n) {
  const bool keep = n.attr_int("keepdims", 1) != 0;
  if (n.since < axes_moved(n)) return reduce(n, n.in(0), n.attr_ints("axes"), keep);
  if (!known_numbers(n, 1)) return reduce_at_run_time(n, keep);
  return reduce(n, n.in(0), n.has(1) ? n.const_ints(1, "axes") : std::vector<int64_t>(), keep);
}
const R r1("ReduceSum", {1, 11, 13}, reduce, {.values = {1}}),
    r2("ReduceMean", {1, 11, 13, 18}, reduce, {.values = {1}}),
    r3("ReduceProd", {1, 11, 13, 18}, reduce, {.values = {1}}),
    r4("ReduceMax", {1, 11, 12, 13, 18, 20}, reduce, {.values = {1}}),
    r5("ReduceMin", {1, 11, 12, 13, 18, 20}, reduce, {.values = {1}}),
    r6("ReduceL1", {1, 11, 13, 18}, reduce, {.values = {1}}),
    r7("ReduceL2", {1, 11, 13, 18}, reduce, {.values = {1}}),
    r8("ReduceSumSquare", {1, 11, 13, 18}, reduce, {.values = {1}}),
    r9("ReduceLogSum", {1, 11, 13, 18, 28}, reduce, {.values = {1}}),
    r10("ReduceLogSumExp", {1, 11, 13, 18, 28}, reduce, {.values = {1}});

Values arg_reduce(N& n) {
  auto a = make<ArgReduceAttrs>();
  a.edit()->axis = n.axis(n.attr_int("axis", 0), n.rank(0));
  a.edit()->keepdims = n.attr_int("keepdims", 1) != 0;
  a.edit()->select_last_index = n.attr_int("select_last_index", 0) != 0;
  return {n.op(n.op_type() == "ArgMax" ? "argmax" : "argmin", {n.in(0)}, a)};
}
const R a1("ArgMax", {1, 11, 12, 13}, arg_reduce), a2("ArgMin", {1, 11, 12, 13}, arg_reduce);

/// Running sums and products.
Values running(N& n) {
  const auto [x, shape] = with_shape(n, 0);
  auto a = make<CumsumAttrs>();
  a.edit()->exclusive = n.attr_int("exclusive", 0) != 0, a.edit()->reverse = n.attr_int("reverse", 0) != 0;
  const char* name = n.op_type() == "CumSum" ? "cumsum" : "cumprod";
  if (!known_numbers(n, 1)) {
    a.edit()->axis = int64_t(shape.size()) - 1;
    auto along = [&](const Expr& moved) { return n.op(name, {moved}, a); };
    return {n.checked(along_axis(n, x, index_input(n, 1), a->axis, along), shape)};
  }
  const auto axis = n.const_ints(1, "axis");
  if (axis.size() != 1) n.malformed(fmt::format("'axis' of {} must be one number", n.op_type()));
  a.edit()->axis = n.axis(axis[0], int64_t(shape.size()));
  return {n.op(name, {x}, a)};
}
const R a3("CumSum", {11, 14}, running, {.values = {1}}), a4("CumProd", {26}, running, {.values = {1}});

}  // namespace
}  // namespace tenon::onnx
