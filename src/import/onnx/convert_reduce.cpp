// SPDX-License-Identifier: Apache-2.0
// Converters: reductions, arg-reductions and scans.
#include <cmath>

#include "import/onnx/importer.h"

namespace tenon::onnx {
namespace {

using namespace op;
using N = NodeContext;
using R = RegisterConverter;

Values reduce(N& n) {
  static const std::map<std::string, const char*> names{
      {"ReduceSum", "sum"},    {"ReduceMean", "mean"},
      {"ReduceProd", "prod"},  {"ReduceMax", "max"},
      {"ReduceMin", "min"},    {"ReduceL1", "l1_norm"},
      {"ReduceL2", "l2_norm"}, {"ReduceSumSquare", "sum_square"},
      {"ReduceLogSum", "sum"}, {"ReduceLogSumExp", "logsumexp"}};
  const std::string& kind = n.op_type();
  const int64_t moved = kind == "ReduceSum" ? 13 : 18;
  std::vector<int64_t> axes = n.since < moved ? n.attr_ints("axes")
                              : n.has(1)      ? n.const_ints(1, "axes")
                                              : std::vector<int64_t>();
  const bool keep = n.attr_int("keepdims", 1) != 0;
  const DataType t = n.dtype(0);
  // Roots and logarithms of integers are those of real numbers, cut off.
  const bool real =
      t.is_integer() && (kind == "ReduceL2" || kind == "ReduceLogSum" || kind == "ReduceLogSumExp");
  Expr x = real ? n.cast(n.in(0), f64) : n.in(0);
  auto finish = [&](Expr y) { return Values{n.cast(kind == "ReduceLogSum" ? n.op("log", {y}) : y, t)}; };
  if (axes.empty() && n.since >= moved && n.attr_int("noop_with_empty_axes", 0) != 0) {
    if (kind == "ReduceSum" || kind == "ReduceMean" || kind == "ReduceProd" || kind == "ReduceMax" ||
        kind == "ReduceMin")
      return {x};
    // No axis is reduced, but what is done to each element is.
    Expr y = n.op("expand_dims", {x}, make_attrs<AxesAttrs>(Array<int64_t>{-1}));
    return finish(n.op(names.at(kind), {y}, make_attrs<ReduceAttrs>(Array<int64_t>{-1}, false)));
  }
  if (n.type(0).ndim == 0) {
    if (!axes.empty())
      for (int64_t a : axes)
        if (a != 0 && a != -1) n.malformed(fmt::format("axis {} of {} is outside of rank 0", a, kind));
    Expr y = n.op("expand_dims", {x}, make_attrs<AxesAttrs>(Array<int64_t>{0}));
    return finish(n.op(names.at(kind), {y}, make_attrs<ReduceAttrs>(Array<int64_t>{0}, false)));
  }
  for (int64_t& a : axes) a = n.axis(a, n.rank(0));
  if (auto s = n.shape(0)) {
    // Nothing to reduce: the result is the operation's neutral element.
    std::vector<bool> gone(s->size(), axes.empty());
    for (int64_t a : axes) gone[size_t(a)] = true;
    bool none = false;
    Array<PrimExpr> rest;
    for (size_t i = 0; i < s->size(); ++i) {
      none |= gone[i] && tir::is_zero((*s)[i]);
      if (!gone[i] || keep) rest.push_back(gone[i] ? PrimExpr(1) : (*s)[i]);
    }
    if (none) {
      double v = kind == "ReduceProd"                                  ? 1
                 : kind == "ReduceLogSum" || kind == "ReduceLogSumExp" ? -INFINITY
                 : kind == "ReduceMean"                                ? NAN
                                                                       : 0;
      if (kind == "ReduceMax" || kind == "ReduceMin") {
        const bool max = kind == "ReduceMax";
        const double high = t.is_bool()    ? 1
                            : t.is_float() ? INFINITY
                                           : std::ldexp(1.0, t.bits - (t.is_int() ? 1 : 0));
        const double low = t.is_int() ? -high : t.is_float() ? -INFINITY : 0;
        v = max ? low : t.is_integer() && t.bits < 64 ? high - 1 : high;
        if (t.is_integer() && t.bits == 64)
          n.unsupported(fmt::format("{} of nothing is not supported for this type", kind));
      }
      if (!t.is_float() && !std::isfinite(v))
        n.unsupported(fmt::format("{} of nothing is not supported for this type", kind));
      return {n.op("full", {graph::shape_expr(rest), n.scalar(v, t)}, make_attrs<DTypeAttrs>(t))};
    }
  }
  if (t.is_bool()) {
    // Largest and smallest of truth values (from version 20 on).
    if (kind != "ReduceMax" && kind != "ReduceMin") n.malformed(fmt::format("{} of truth values", kind));
    return {
        n.op(kind == "ReduceMax" ? "any" : "all", {x}, make_attrs<ReduceAttrs>(Array<int64_t>(axes), keep))};
  }
  return finish(n.op(names.at(kind), {x}, make_attrs<ReduceAttrs>(Array<int64_t>(axes), keep)));
}
const R r1("ReduceSum", {1, 11, 13}, reduce), r2("ReduceMean", {1, 11, 13, 18}, reduce),
    r3("ReduceProd", {1, 11, 13, 18}, reduce), r4("ReduceMax", {1, 11, 12, 13, 18, 20}, reduce),
    r5("ReduceMin", {1, 11, 12, 13, 18, 20}, reduce), r6("ReduceL1", {1, 11, 13, 18}, reduce),
    r7("ReduceL2", {1, 11, 13, 18}, reduce), r8("ReduceSumSquare", {1, 11, 13, 18}, reduce),
    r9("ReduceLogSum", {1, 11, 13, 18}, reduce), r10("ReduceLogSumExp", {1, 11, 13, 18}, reduce);

Values arg_reduce(N& n) {
  auto a = make<ArgReduceAttrs>();
  a.edit()->axis = n.axis(n.attr_int("axis", 0), n.rank(0));
  a.edit()->keepdims = n.attr_int("keepdims", 1) != 0;
  a.edit()->select_last_index = n.attr_int("select_last_index", 0) != 0;
  return {n.op(n.op_type() == "ArgMax" ? "argmax" : "argmin", {n.in(0)}, a)};
}
const R a1("ArgMax", {1, 11, 12, 13}, arg_reduce), a2("ArgMin", {1, 11, 12, 13}, arg_reduce);

Values cumsum(N& n) {
  const auto axis = n.const_ints(1, "axis");
  if (axis.size() != 1) n.malformed("'axis' of CumSum must be one number");
  auto a = make<CumsumAttrs>();
  a.edit()->axis = n.axis(axis[0], n.rank(0));
  a.edit()->exclusive = n.attr_int("exclusive", 0) != 0, a.edit()->reverse = n.attr_int("reverse", 0) != 0;
  return {n.op("cumsum", {n.in(0)}, a)};
}
const R a3("CumSum", {11, 14}, cumsum);

}  // namespace
}  // namespace tenon::onnx
