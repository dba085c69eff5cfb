// SPDX-License-Identifier: Apache-2.0
// Reductions over axes, and positions of extremes.
#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "op/family.h"
#include "op/folds.h"
#include "op/layout_rule.h"

#include "base/define_type.h"
#include "ir/tir.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;

/// The axes that are folded: those given, or all.
std::vector<int64_t> reduced_axes(const ReduceAttrs& a, int64_t ndim) {
  if (!a.axis.empty()) return normal_axes(a.axis, ndim);
  std::vector<int64_t> all(static_cast<size_t>(ndim));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

Type infer_reduce(InferContext& ctx, Domain domain) {
  const auto& a = ctx.attrs<ReduceAttrs>();
  const auto& x = ctx.tensor(0);
  if (!ctx.expect_domain(x.dtype, domain)) return {};
  if (x.ndim < 0) return graph::tensor_type_unknown(a.axis.empty() && !a.keepdims ? 0 : -1, x.dtype);
  if (!ctx.expect_axes(a.axis, x.ndim)) return {};
  const auto axes = reduced_axes(a, x.ndim);
  auto have = shape_of(x);
  const int64_t ndim = a.keepdims ? x.ndim : x.ndim - int64_t(axes.size());
  if (!have) return make_type(std::nullopt, ndim, x.dtype);
  Shape out = drop_axes(*have, axes);
  if (a.keepdims)
    for (int64_t axis : axes) out.insert(size_t(axis), PrimExpr(1));
  return make_type(out, ndim, x.dtype);
}

PrimExpr all_of(PrimExpr e, Array<tir::IterVar> axis, PrimExpr) {
  if (axis.empty()) return e;
  auto both = [](const Vars& l, const Vars& r) { return Shape{tir::logical_and(l[0], r[0])}; };
  return te::reduce({std::move(e)}, both, {PrimExpr::int_imm(1, boolean)}, std::move(axis))[0];
}
PrimExpr any_of(PrimExpr e, Array<tir::IterVar> axis, PrimExpr) {
  if (axis.empty()) return e;
  auto either = [](const Vars& l, const Vars& r) { return Shape{tir::logical_or(l[0], r[0])}; };
  return te::reduce({std::move(e)}, either, {PrimExpr::int_imm(0, boolean)}, std::move(axis))[0];
}

/// What goes into the fold, and what becomes of its result; `count` is the number of folded elements.
struct Fold {
  OpName name;
  const char* doc;
  Domain domain;
  ReduceOne fold;
  PrimExpr (*before)(const PrimExpr& e);
  PrimExpr (*after)(const PrimExpr& e, const PrimExpr& count);
};
PrimExpr same(const PrimExpr& e) { return e; }
PrimExpr squared(const PrimExpr& e) { return e * e; }
PrimExpr magnitude(const PrimExpr& e) { return e.dtype().is_uint() ? e : tir::abs(e); }
PrimExpr mean(const PrimExpr& e, const PrimExpr& count) {
  // The mean of no integers is 0, as a division by 0 would be.
  const PrimExpr n = tir::cast(e.dtype(), count);
  return e.dtype().is_float() ? tir::div(e, n) : tir::div(e, tir::max(n, constant(e.dtype(), 1)));
}
PrimExpr root(const PrimExpr& e, const PrimExpr&) { return tir::sqrt(e); }

PrimExpr logarithm(const PrimExpr& e, const PrimExpr&) { return tir::log(e); }
template <int otherwise>  // 0, 1, or an infinity of that sign for 2 and -2
PrimExpr number_or(const PrimExpr& e) {
  const double value = otherwise == 2 ? INFINITY : otherwise == -2 ? -INFINITY : otherwise;
  return tir::select(tir::call(boolean, "tir.isnan", {e}), constant(e.dtype(), value), e);
}

const Fold folds[] = {
    {"sum", "Sum.", Domain::number, te::sum, same, nullptr},
    {"prod", "Product.", Domain::number, te::prod, same, nullptr},
    {"max", "Largest element; NaN propagates.", Domain::number, te::max, same, nullptr},
    {"min", "Smallest element; NaN propagates.", Domain::number, te::min, same, nullptr},
    {"all", "Whether all hold.", Domain::boolean, all_of, same, nullptr},
    {"any", "Whether one holds.", Domain::boolean, any_of, same, nullptr},
    {"mean", "Arithmetic mean; integers round to zero.", Domain::number, te::sum, same, mean},
    {"sum_square", "Sum of squares.", Domain::number, te::sum, squared, nullptr},
    {"l1_norm", "Sum of magnitudes.", Domain::number, te::sum, magnitude, nullptr},
    {"log_sum", "Logarithm of the sum.", Domain::floating, te::sum, same, logarithm},
    {"abs_max", "Largest magnitude.", Domain::number, te::max, magnitude, nullptr},
    {"mean_square", "Mean of squares.", Domain::floating, te::sum, squared, mean},
    {"nansum", "Sum; what is no number counts as 0.", Domain::floating, te::sum, number_or<0>, nullptr},
    {"nanprod", "Product; what is no number counts as 1.", Domain::floating, te::prod, number_or<1>, nullptr},
    {"nanmax", "Largest number; -∞ when there is none.", Domain::floating, te::max, number_or<-2>, nullptr},
    {"nanmin", "Smallest number; ∞ when there is none.", Domain::floating, te::min, number_or<2>, nullptr},
    {"l2_norm", "Square root of the sum of squares.", Domain::floating, te::sum, squared, root},
};

PrimExpr element_count(const te::Tensor& x, const std::vector<int64_t>& axes) {
  PrimExpr n = 1;
  for (int64_t a : axes) n = n * x.shape()[size_t(a)];
  return n;
}

Tensors def_fold(const Call& call, const Tensors& in, const Fold& f) {
  const te::Tensor& x = in[0];
  const auto axes = reduced_axes(attrs_of<ReduceAttrs>(call), int64_t(x.ndim()));
  // A sum of many small integers that is divided afterwards must not wrap before.
  const bool widen = f.after && x.dtype().is_integer();
  // Nor may the error of a sum of unknown length grow with it (pass block_wide_sums).
  const PrimExpr count = element_count(x, axes);
  const bool unknown = f.fold == te::sum && x.dtype().is_float() && !tir::as_int(simplify(count));
  const DataType acc = widen     ? (x.dtype().is_int() ? i64 : DataType::uint(64))
                       : unknown ? f64
                                 : wide_type(x.dtype());
  auto element = [&](const PrimExpr& e, const Shape&) {
    const bool blocks = unknown && wide_type(x.dtype()) == f32;
    return blocks ? tir::call(f64, "tir.wide_term", {f.before(tir::cast(f32, e))})
                  : f.before(tir::cast(acc, e));
  };
  te::Tensor folded =
      reduce_over(x, axes, attrs_of<ReduceAttrs>(call).keepdims, f.fold, element, f.name.text);
  if (!f.after) return {cast_to(folded, x.dtype())};
  return {te::compute(
      folded.shape(), [&](const Vars& v) { return tir::cast(x.dtype(), f.after(folded(indices(v)), count)); },
      f.name.text + "_result")};
}

/// index into a reduction that keeps no axes, for an index of the operator's result.
Shape inner_index(const Shape& out, const std::vector<int64_t>& axes, bool keepdims) {
  return keepdims ? drop_axes(out, axes) : out;
}

Tensors def_spread(const Call& call, const Tensors& in, bool rooted, const Blocked& blocks) {
  const te::Tensor& x = in[0];
  const bool keep = attrs_of<ReduceAttrs>(call).keepdims;
  const auto axes = reduced_axes(attrs_of<ReduceAttrs>(call), int64_t(x.ndim()));
  const PrimExpr count = element_count(x, axes);
  Statistics of;  // sum and squares
  if (blocks) {
    of = sums_by_blocks(rows_along(x, axes), *blocks, "variance");
  } else {
    of.first = reduce_over(
        x, axes, false, te::sum, [](const PrimExpr& e, const Shape&) { return wide(e); }, "variance_sum");
    of.second = reduce_over(
        x, axes, false, te::sum,
        [&](const PrimExpr& e, const Shape& at) {
          return squared(wide(e) - mean(of.first(drop_axes(at, axes)), count));
        },
        "variance_squares");
  }
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        const PrimExpr square = mean(of.second(inner_index(indices(v), axes, keep)), count);
        return tir::cast(x.dtype(), rooted ? tir::sqrt(square) : square);
      },
      short_name(call))};
}

Type infer_count(InferContext& ctx) {
  const Type t = infer_reduce(ctx, Domain::any);
  if (!t) return {};
  return like(*t.as<graph::TensorType>(), i64);
}
Tensors def_count(const Call& call, const Tensors& in) {
  auto counts = [](const PrimExpr& e, const Shape&) {
    return tir::select(tir::ne(e, constant(e.dtype(), 0)), PrimExpr(1), PrimExpr(0));
  };
  return {reduce_over(in[0], reduced_axes(attrs_of<ReduceAttrs>(call), int64_t(in[0].ndim())),
                      attrs_of<ReduceAttrs>(call).keepdims, te::sum, counts, "count_nonzero")};
}

Tensors def_logsumexp(const Call& call, const Tensors& in, const Blocked& blocks) {
  const te::Tensor& x = in[0];
  const bool keep = attrs_of<ReduceAttrs>(call).keepdims;
  const auto axes = reduced_axes(attrs_of<ReduceAttrs>(call), int64_t(x.ndim()));
  Statistics of;  // the largest, and the sum of exponentials
  if (blocks) {
    of = exponentials_by_blocks(rows_along(x, axes), *blocks, finite_shift, "logsumexp");
  } else {
    of.first = reduce_over(
        x, axes, false, te::max, [](const PrimExpr& e, const Shape&) { return wide(e); }, "logsumexp_max");
    of.second = reduce_over(
        x, axes, false, te::sum,
        [&](const PrimExpr& e, const Shape& at) {
          return tir::exp(wide(e) - finite_shift(of.first(drop_axes(at, axes))));
        },
        "logsumexp_sum");
  }
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        const Shape at = inner_index(indices(v), axes, keep);
        return tir::cast(x.dtype(), tir::log(of.second(at)) + finite_shift(of.first(at)));
      },
      "logsumexp")};
}

// ---------------------------------------------------------------- positions
Type infer_arg(InferContext& ctx) {
  const auto& a = ctx.attrs<ArgReduceAttrs>();
  const auto& x = ctx.tensor(0);
  if (!ctx.expect_domain(x.dtype, Domain::number)) return {};
  auto have = shape_of(x);
  if (a.flat) {
    for (size_t i = 0; have && i < have->size(); ++i)
      if (!ctx.expect_elements(*have, i, PrimExpr(1))) return {};
    if (!a.keepdims) return make_type(Shape(), 0, i64);
    if (x.ndim < 0) return graph::tensor_type_unknown(-1, i64);
    Shape ones;
    ones.resize(size_t(x.ndim), PrimExpr(1));
    return make_type(ones, 0, i64);
  }
  if (x.ndim < 0) return graph::tensor_type_unknown(-1, i64);
  if (!ctx.expect_axis(a.axis, x.ndim)) return {};
  const auto axis = size_t(normal_axis(a.axis, x.ndim));
  if (!have) return make_type(std::nullopt, x.ndim - !a.keepdims, i64);
  if (!ctx.expect_elements(*have, axis, product(drop_axes(*have, {int64_t(axis)})))) return {};
  Shape out = *have;
  if (a.keepdims)
    out.set(axis, PrimExpr(1));
  else
    out.erase(axis);
  return make_type(out, 0, i64);
}

Tensors def_arg(const Call& call, const Tensors& in, bool largest) {
  const auto& a = attrs_of<ArgReduceAttrs>(call);
  const te::Tensor& x = in[0];
  const Shape shape = output_info(call).shape;
  std::vector<int64_t> axes;
  if (a.flat)
    for (size_t i = 0; i < x.ndim(); ++i) axes.push_back(int64_t(i));
  else
    axes.push_back(normal_axis(a.axis, int64_t(x.ndim())));
  if (axes.empty()) return {te::compute(shape, [](const Vars&) { return PrimExpr(0); }, short_name(call))};
  const PrimExpr last = element_count(x, axes) - 1;
  Shape extents;
  for (int64_t axis : axes) extents.push_back(x.shape()[size_t(axis)]);
  // Two passes over lanes of numbers alone: the largest element, then the first place that holds it.
  const auto count = tir::as_int(last);
  const DataType narrow = count && *count < (int64_t(1) << 31) ? i32 : i64;
  auto search = [&](const std::string& name,
                    FunctionRef<PrimExpr(const Shape& out, const PrimExpr& value, const PrimExpr& position,
                                         const Array<tir::IterVar>& ks)>
                        reduce) {
    Array<tir::IterVar> ks;
    Shape k;
    for (const PrimExpr& extent : extents) {
      ks.push_back(te::reduce_axis(tir::range(PrimExpr(0), extent), fmt::format("k{}", ks.size())));
      k.push_back(ks.back()->var);
    }
    return te::compute(
        shape,
        [&](const Vars& v) {
          Shape at = inner_index(indices(v), axes, a.keepdims);
          for (size_t i = 0; i < axes.size(); ++i) at.insert(size_t(axes[i]), k[i]);
          // Counted from the end, the first of equals is the last.
          const PrimExpr position = flatten_index(k, extents);
          return reduce(indices(v), wide(x(at)), a.select_last_index ? last - position : position, ks);
        },
        name);
  };
  using Ks = Array<tir::IterVar>;
  const te::Tensor best = search(short_name(call) + "_value",
                                 [&](const Shape&, const PrimExpr& value, const PrimExpr&, const Ks& ks) {
                                   return largest ? te::max(value, ks) : te::min(value, ks);
                                 });
  const te::Tensor found = search(
      short_name(call), [&](const Shape& out, const PrimExpr& value, const PrimExpr& position, const Ks& ks) {
        PrimExpr here = tir::eq(value, best(out));
        if (value.dtype().is_float())
          here = tir::logical_or(here, tir::call(DataType::boolean(), "tir.isnan", {value}));
        return te::min(tir::select(here, tir::cast(narrow, position), tir::max_value(narrow)), ks);
      });
  return {te::compute(
      shape,
      [&](const Vars& v) {
        const PrimExpr position = tir::cast(i64, found(indices(v)));
        return a.select_last_index ? last - position : position;
      },
      "position")};
}

/// A fold over exactly the spatial axes.
std::optional<LaidOut> layout_of_fold(LayoutContext& ctx) {
  const int64_t rank = tensor_arg(ctx.call, 0).ndim;
  const auto axes = reduced_axes(attrs_of<ReduceAttrs>(ctx.call), rank);
  if (int64_t(axes.size()) != rank - 2 || axes.empty() || axes[0] != 2) return std::nullopt;
  return layout_of_image_fold(ctx, ctx.call.op.as<graph::Op>()->name);
}

const bool reduce_registered = [] {
  auto add = [](OpName name, const char* doc, FusionKind kind, InferType infer, TensorDef def) {
    return register_op(std::move(name), doc, kind, std::move(infer), std::move(def))
        .argument("x", "Tensor", "the operand");
  };
  for (const Fold& f : folds) {
    const Fold* fold = &f;
    add(
        f.name, f.doc, FusionKind::comm_reduce,
        [fold](InferContext& ctx) { return infer_reduce(ctx, fold->domain); },
        [fold](const Call& c, const Tensors& in) { return def_fold(c, in, *fold); })
        .attrs<ReduceAttrs>()
        .layout(layout_of_fold);
  }
  auto floating = [](InferContext& ctx) { return infer_reduce(ctx, Domain::floating); };
  add("variance", "Population variance.", FusionKind::comm_reduce, floating,
      [](const Call& c, const Tensors& in) { return def_spread(c, in, false, {}); })
      .attrs<ReduceAttrs>();
  add("std", "Population standard deviation.", FusionKind::comm_reduce, floating,
      [](const Call& c, const Tensors& in) { return def_spread(c, in, true, {}); })
      .attrs<ReduceAttrs>();
  add("count_nonzero", "Number of elements that are not 0.", FusionKind::comm_reduce, infer_count, def_count)
      .attrs<ReduceAttrs>();
  add("logsumexp", "log(sum(exp(x))) without overflow.", FusionKind::comm_reduce, floating,
      [](const Call& c, const Tensors& in) { return def_logsumexp(c, in, {}); })
      .attrs<ReduceAttrs>();
  add("argmax", "Position of the largest element; NaN counts as largest.", FusionKind::comm_reduce, infer_arg,
      [](const Call& c, const Tensors& in) { return def_arg(c, in, true); })
      .attrs<ArgReduceAttrs>();
  add("argmin", "Position of the smallest element; NaN counts as smallest.", FusionKind::comm_reduce,
      infer_arg, [](const Call& c, const Tensors& in) { return def_arg(c, in, false); })
      .attrs<ArgReduceAttrs>();
  return true;
}();

}  // namespace

Shape folded_by_reduction(const Call& call, const Shape& x) {
  return only_axes(x, reduced_axes(attrs_of<ReduceAttrs>(call), int64_t(x.size())));
}
Defined define_logsumexp(const Call& call, const Defined& in, const Blocked& blocks) {
  return def_logsumexp(call, in, blocks);
}
Defined define_spread(const Call& call, const Defined& in, bool rooted, const Blocked& blocks) {
  return def_spread(call, in, rooted, blocks);
}

}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::ArgReduceAttrs>;
