// SPDX-License-Identifier: Apache-2.0
// Operators that change a tensor's shape without looking at values: reshape, permute_dims, concat, split, ….
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "op/family.h"
#include "op/layout_rule.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;

// ---------------------------------------------------------------- reshape and friends
/// Takes factors that both products have out of them. Where one of them is 0 the quotient of the rest is as
/// good as any: both sides have no elements.
void cancel(PrimExpr& elements, PrimExpr& rest) {
  auto factors_of = [](const PrimExpr& product) {
    std::vector<PrimExpr> out, left{product};
    while (!left.empty()) {
      const PrimExpr e = left.back();
      left.pop_back();
      if (const auto* m = e.as<tir::Mul>())
        left.insert(left.end(), {m->a, m->b});
      else
        out.push_back(e);
    }
    return out;
  };
  std::vector<PrimExpr> above = factors_of(elements), below;
  for (const PrimExpr& f : factors_of(rest)) {
    const auto same = std::ranges::find_if(above, [&](const PrimExpr& e) { return same_dim(e, f); });
    if (same != above.end() && !tir::as_int(f))
      above.erase(same);
    else
      below.push_back(f);
  }
  elements = simplify(product(Shape(above.begin(), above.end())));
  rest = simplify(product(Shape(below.begin(), below.end())));
}

Type infer_reshape(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  auto wanted = ctx.shape(1);
  auto have = shape_of(x);
  if (!wanted) {
    return graph::tensor_type_unknown(ctx.shape_rank(1), x.dtype);
  }
  Shape out = *wanted;
  int64_t hole = -1;
  for (size_t i = 0; i < out.size(); ++i) {
    auto v = tir::as_int(out[i]);
    if (!v || *v >= 0) continue;
    if (*v != -1) return ctx.error(fmt::format("{} is no size", *v));
    if (hole >= 0)
      return ctx.error(fmt::format("two sizes of {} are -1", show(out)), "leave at most one open");
    hole = int64_t(i);
  }
  if (!have)
    return hole < 0 ? make_type(out, 0, x.dtype) : make_type(std::nullopt, int64_t(out.size()), x.dtype);
  const PrimExpr elements = product(*have);
  if (hole >= 0) {
    Shape others;
    for (size_t i = 0; i < out.size(); ++i)
      if (int64_t(i) != hole) others.push_back(out[i]);
    PrimExpr all = simplify(elements), rest = simplify(product(others));
    cancel(all, rest);
    const auto r = tir::as_int(rest);
    if (r == 0 || !ctx.require_equal(simplify(tir::floormod(all, rest)), PrimExpr(0)))
      return ctx.error(
          fmt::format("{} cannot become {}: the open size is not determined", show(*have), show(out)));
    out.set(size_t(hole), simplify(tir::floordiv(all, rest)));
  } else if (!ctx.require_equal(simplify(elements), simplify(product(out)))) {
    return ctx.error(
        fmt::format("{} cannot become {}: the numbers of elements differ", show(*have), show(out)));
  }
  return make_type(out, 0, x.dtype);
}

Tensors def_reshape(const Call& call, const Tensors& in) {
  return {reshape_to(in[0], output_info(call).shape, short_name(call))};
}

/// The axes in their new order: those given, or all reversed.
std::vector<int64_t> permutation(const Array<int64_t>& axes, int64_t ndim) {
  if (axes.empty()) {
    std::vector<int64_t> p(static_cast<size_t>(ndim));
    for (int64_t i = 0; i < ndim; ++i) p[size_t(i)] = ndim - 1 - i;
    return p;
  }
  return normal_axes(axes, ndim, false);
}

Type infer_permute(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  const auto& axes = ctx.attrs<AxesAttrs>().axes;
  if (x.ndim < 0) return graph::tensor_type_unknown(axes.empty() ? -1 : int64_t(axes.size()), x.dtype);
  if (!axes.empty() && int64_t(axes.size()) != x.ndim)
    return ctx.error(fmt::format("{} axes for a tensor of {} dimensions", axes.size(), x.ndim));
  if (!ctx.expect_axes(axes, x.ndim)) return {};
  const auto p = permutation(axes, x.ndim);
  auto have = shape_of(x);
  if (!have) return make_type(std::nullopt, x.ndim, x.dtype);
  Shape out;
  for (int64_t a : p) out.push_back((*have)[size_t(a)]);
  return make_type(out, x.ndim, x.dtype);
}

Tensors def_permute(const Call& call, const Tensors& in) {
  const auto p = permutation(attrs_of<AxesAttrs>(call).axes, int64_t(in[0].ndim()));
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        Shape at = indices(v);
        for (size_t i = 0; i < p.size(); ++i) at.set(size_t(p[i]), v[i]);
        return in[0](at);
      },
      "permute_dims")};
}

Type infer_expand_dims(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  const auto& axes = ctx.attrs<AxesAttrs>().axes;
  if (x.ndim < 0) return graph::tensor_type_unknown(-1, x.dtype);
  const int64_t n = x.ndim + int64_t(axes.size());
  if (!ctx.expect_axes(axes, n)) return {};
  const auto at = normal_axes(axes, n);
  auto have = shape_of(x);
  if (!have) return make_type(std::nullopt, n, x.dtype);
  Shape out = *have;
  for (int64_t a : at) out.insert(size_t(a), PrimExpr(1));
  return make_type(out, n, x.dtype);
}

Tensors def_expand_dims(const Call& call, const Tensors& in) {
  const Shape shape = output_info(call).shape;
  const auto axes = normal_axes(attrs_of<AxesAttrs>(call).axes, int64_t(shape.size()));
  return {
      te::compute(shape, [&](const Vars& v) { return in[0](drop_axes(indices(v), axes)); }, "expand_dims")};
}

/// The axes that go: those given, or all that are known to be 1.
std::vector<int64_t> squeezed(const Array<int64_t>& axes, const Shape& shape) {
  if (!axes.empty()) return normal_axes(axes, int64_t(shape.size()));
  std::vector<int64_t> out;
  for (size_t i = 0; i < shape.size(); ++i)
    if (tir::is_one(shape[i])) out.push_back(int64_t(i));
  return out;
}

Type infer_squeeze(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  const auto& axes = ctx.attrs<AxesAttrs>().axes;
  auto have = shape_of(x);
  if (x.ndim < 0 || (!have && axes.empty())) return graph::tensor_type_unknown(-1, x.dtype);
  if (!ctx.expect_axes(axes, x.ndim)) return {};
  if (!have) return make_type(std::nullopt, x.ndim - int64_t(axes.size()), x.dtype);
  const auto gone = squeezed(axes, *have);
  for (int64_t a : gone)
    if (!ctx.require_equal((*have)[size_t(a)], PrimExpr(1)))
      return ctx.error(fmt::format("axis {} of {} is not 1", a, show(*have)));
  return make_type(drop_axes(*have, gone), 0, x.dtype);
}

Tensors def_squeeze(const Call& call, const Tensors& in) {
  const auto gone = squeezed(attrs_of<AxesAttrs>(call).axes, in[0].shape());
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        Shape at = indices(v);
        for (int64_t a : gone) at.insert(size_t(a), PrimExpr(0));
        return in[0](at);
      },
      "squeeze")};
}

Type infer_flatten(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  auto have = shape_of(x);
  if (!have) return make_type(std::nullopt, 2, x.dtype);
  int64_t axis = ctx.attrs<AxisAttrs>().axis;
  if (axis != x.ndim && !ctx.expect_axis(axis, x.ndim)) return {};
  axis = normal_axis(axis, x.ndim);
  const Shape head(have->begin(), have->begin() + axis), tail(have->begin() + axis, have->end());
  return make_type(Shape{simplify(product(head)), simplify(product(tail))}, 2, x.dtype);
}

Type infer_broadcast_to(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  auto have = shape_of(x), wanted = ctx.shape(1);
  if (have && wanted) {
    if (!ctx.expect_broadcast(*have, *wanted)) return {};
    if (auto shape = broadcast_shapes(*have, *wanted)) return make_type(shape, 0, x.dtype);
    // Symbols that may differ: the wanted ones are what the result has.
    if (have->size() <= wanted->size()) {
      for (size_t i = 1; i <= have->size(); ++i)
        ctx.require_equal_or_one((*have)[have->size() - i], (*wanted)[wanted->size() - i]);
      return make_type(wanted, 0, x.dtype);
    }
  }
  const int64_t n = ctx.shape_rank(1);
  return make_type(std::nullopt, n < 0 || x.ndim < 0 ? -1 : std::max(n, x.ndim), x.dtype);
}

Tensors def_broadcast_to(const Call& call, const Tensors& in) {
  const Shape shape = output_info(call).shape;
  return {te::compute(
      shape, [&](const Vars& v) { return broadcast_at(in[0], shape, indices(v)); }, "broadcast_to")};
}

// ---------------------------------------------------------------- concat and split
Type infer_concat(InferContext& ctx) {
  const auto tensors = ctx.tuple(0);
  if (!tensors) return {};
  const auto& parts = *tensors;
  if (parts.empty()) return ctx.error("nothing to concatenate");
  DataType dtype = parts[0]->dtype;
  int64_t ndim = parts[0]->ndim;
  for (const auto* p : parts) {
    if (dtype.is_void()) dtype = p->dtype;
    if (ndim < 0) ndim = p->ndim;
    if (!p->dtype.is_void() && p->dtype != dtype)
      return ctx.error(fmt::format("element types {} and {} differ", to_string(dtype), to_string(p->dtype)));
    if (p->ndim >= 0 && p->ndim != ndim)
      return ctx.error(fmt::format("tensors of {} and {} dimensions", ndim, p->ndim));
  }
  if (ndim < 0) return graph::tensor_type_unknown(-1, dtype);
  if (!ctx.expect_axis(ctx.attrs<AxisAttrs>().axis, ndim)) return {};
  const auto axis = size_t(normal_axis(ctx.attrs<AxisAttrs>().axis, ndim));
  std::optional<Shape> out = shape_of(*parts[0]), first = out;
  for (size_t i = 1; i < parts.size(); ++i) {
    auto s = shape_of(*parts[i]);
    if (!s || !out) {
      out = std::nullopt;
      continue;
    }
    for (size_t d = 0; d < s->size(); ++d) {
      if (d == axis) continue;
      if (!ctx.require_equal((*first)[d], (*s)[d]))
        return ctx.error(
            fmt::format("shapes {} and {} differ outside of axis {}", show(*first), show(*s), axis));
      if (tir::as_int((*s)[d])) out->set(d, (*s)[d]);
    }
    out->set(axis, simplify((*out)[axis] + (*s)[axis]));
  }
  return make_type(out, ndim, dtype);
}

Tensors def_concat(const Call& call, const Tensors& in) {
  const Shape shape = output_info(call).shape;
  const auto axis = size_t(normal_axis(attrs_of<AxisAttrs>(call).axis, int64_t(shape.size())));
  return {te::compute(
      shape,
      [&](const Vars& v) {
        std::vector<PrimExpr> begin{PrimExpr(0)};
        for (const te::Tensor& t : in) begin.push_back(simplify(begin.back() + t.shape()[axis]));
        auto element = [&](size_t i) {
          Shape at = indices(v);
          at.set(axis, v[axis] - begin[i]);
          return in[i](at);
        };
        PrimExpr value = element(in.size() - 1);
        for (size_t i = in.size() - 1; i-- > 0;)
          value = tir::if_then_else(tir::lt(v[axis], begin[i + 1]), element(i), value);
        return value;
      },
      "concat")};
}

/// Parts along the channels that are all there in one other order of the axes.
std::optional<LaidOut> concat_in_order(LayoutContext& ctx, const Array<Expr>& items) {
  const LaidOut* first = items.empty() ? nullptr : ctx.laid_out(items[0]);
  if (!first || first->layout.has_blocks()) return std::nullopt;
  Array<Expr> parts;
  for (const Expr& item : items) {
    const LaidOut* x = ctx.laid_out(item);
    if (!x || x->layout != first->layout) return std::nullopt;
    parts.push_back(x->tensor);
  }
  const auto axis = int64_t(first->layout.name().find('C'));
  const Expr joined = ctx.emit(make<graph::Tuple>(parts));
  return LaidOut{ctx.make("concat", {joined}, make_attrs<AxisAttrs>(axis)), first->layout,
                 *tir::as_int(ctx.shape[1])};
}

/// Runs of a part's channels in blocks of this size; nullopt: it would have to be moved there.
std::optional<ChannelRuns> runs_in_blocks(const LayoutContext& ctx, const Expr& part, int64_t block) {
  const auto s = graph::known_shape(part->type);
  const auto channels = s && s->size() == ctx.shape.size() ? tir::as_int((*s)[1]) : std::nullopt;
  if (!channels) return std::nullopt;
  const LaidOut* have = ctx.laid_out(part);
  if (have && trailing_block(have->layout)) return have->runs(*channels);
  if (*channels % block || (!have && !part.is<graph::Constant>())) return std::nullopt;
  return ChannelRuns{{*channels, *channels}};
}

Expr part_in_blocks(LayoutContext& ctx, const Expr& part, const Layout& layout) {
  const LaidOut* have = ctx.laid_out(part);
  if (!have || !trailing_block(have->layout) || ctx.in_blocks(part))
    return ctx.arranged(part, *graph::known_shape(part->type), layout);
  // Its last block was filled up: it stays so in smaller ones.
  if (have->layout == layout) return have->tensor;
  return ctx.emit_transform(have->tensor, have->layout.name(), layout.name());
}

/// Parts along the channels, each in whole blocks of the smallest size that one of them has.
std::optional<LaidOut> layout_of_concat(LayoutContext& ctx) {
  const Expr& arg = ctx.call.args[0];
  const Expr whole = arg.is<graph::Tuple>() ? arg : ctx.definition(arg);
  const auto* tuple = whole.as<graph::Tuple>();
  const int64_t axis = normal_axis(attrs_of<AxisAttrs>(ctx.call).axis, int64_t(ctx.shape.size()));
  const auto plain = program_layout(ctx.shape.size());
  if (axis != 1 || !tuple || !plain) return std::nullopt;
  if (auto laid = concat_in_order(ctx, tuple->items)) return laid;
  int64_t block = 0;
  for (const Expr& part : tuple->items)
    if (const LaidOut* x = ctx.laid_out(part); x && trailing_block(x->layout))
      block = block ? std::min(block, trailing_block(x->layout)) : trailing_block(x->layout);
  if (!block) return std::nullopt;
  ChannelRuns runs;
  for (const Expr& part : tuple->items) {
    const auto own = runs_in_blocks(ctx, part, block);
    if (!own) return std::nullopt;
    runs.insert(runs.end(), own->begin(), own->end());
  }
  const Layout layout = plain->blocked('C', block);
  Array<Expr> parts;
  for (const Expr& part : tuple->items) parts.push_back(part_in_blocks(ctx, part, layout));
  Expr joined = make<graph::Tuple>(parts);
  if (!arg.is<graph::Tuple>()) joined = ctx.emit(joined);
  return in_runs(ctx.make("concat", {joined}, make_attrs<AxisAttrs>(int64_t(1))), layout, runs);
}

/// First index of each part, and the end of the last.
std::vector<PrimExpr> split_points(const SplitAttrs& a, const PrimExpr& size) {
  std::vector<PrimExpr> at{PrimExpr(0)};
  if (a.sections > 0) {
    const PrimExpr part = simplify(tir::ceildiv(size, PrimExpr(a.sections)));
    for (int64_t i = 1; i < a.sections; ++i) at.push_back(simplify(tir::min(part * PrimExpr(i), size)));
  } else {
    for (int64_t i : a.indices) at.push_back(PrimExpr(i));
  }
  at.push_back(size);
  return at;
}

Type infer_split(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  const auto& a = ctx.attrs<SplitAttrs>();
  if (a.sections < 0) return ctx.error("the number of sections is negative");
  const size_t parts = a.sections > 0 ? size_t(a.sections) : a.indices.size() + 1;
  auto have = shape_of(x);
  Array<Type> types;
  if (!have) {
    for (size_t i = 0; i < parts; ++i) types.push_back(make_type(std::nullopt, x.ndim, x.dtype));
    return graph::tuple_type(types);
  }
  if (!ctx.expect_axis(a.axis, x.ndim)) return {};
  const auto axis = size_t(normal_axis(a.axis, x.ndim));
  const auto size = tir::as_int((*have)[axis]);
  for (int64_t last = 0; int64_t i : a.indices) {
    if (i < last || (size && i > *size))
      return ctx.error(fmt::format("split index {} is out of order or outside of the axis", i));
    last = i;
  }
  const auto at = split_points(a, (*have)[axis]);
  for (size_t i = 0; i < parts; ++i) {
    Shape s = *have;
    s.set(axis, simplify(at[i + 1] - at[i]));
    types.push_back(make_type(s, x.ndim, x.dtype));
  }
  return graph::tuple_type(types);
}

Tensors def_split(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<SplitAttrs>(call);
  const auto axis = size_t(normal_axis(a.axis, int64_t(in[0].ndim())));
  const auto begin = split_points(a, in[0].shape()[axis]);
  Tensors out;
  for (size_t i = 0; i + 1 < begin.size(); ++i)
    out.push_back(te::compute(
        output_info(call, i).shape,
        [&](const Vars& v) {
          Shape at = indices(v);
          at.set(axis, v[axis] + begin[i]);
          return in[0](at);
        },
        "split"));
  return out;
}

const bool transform_registered = [] {
  auto add = [](OpName name, const char* doc, InferType infer, TensorDef def) {
    return register_op(std::move(name), doc)
        .argument("x", "Tensor", "the operand")
        .infer(std::move(infer))
        .fusion(FusionKind::injective)
        .moves()
        .tensor_def(std::move(def));
  };
  add("reshape", "The same elements in row-major order under another shape.", infer_reshape, def_reshape)
      .argument("shape", "Shape", "the new shape; one size may be -1")
      .view();
  add("permute_dims", "Axes in another order; none given: reversed.", infer_permute, def_permute)
      .attrs<AxesAttrs>();
  add("expand_dims", "New axes of extent 1 at the given places of the result.", infer_expand_dims,
      def_expand_dims)
      .attrs<AxesAttrs>()
      .view();
  add("squeeze", "Without the given axes of extent 1; none given: without all of them.", infer_squeeze,
      def_squeeze)
      .attrs<AxesAttrs>()
      .view();
  add("flatten", "Two dimensions: the axes before `axis`, and those from it on.", infer_flatten, def_reshape)
      .attrs<AxisAttrs>()
      .view();
  add("broadcast_to", "The operand broadcast together with a shape.", infer_broadcast_to, def_broadcast_to)
      .argument("shape", "Shape", "the shape")
      .fusion(FusionKind::broadcast);
  register_op("concat", "Tensors behind one another along an axis.")
      .argument("tensors", "Tuple", "the parts")
      .attrs<AxisAttrs>()
      .infer(infer_concat)
      .layout(layout_of_concat)
      .moves()
      .precision(Precision::follows)
      .fusion(FusionKind::injective)
      .tensor_def(def_concat);
  add("split", "Parts of a tensor along an axis, as a tuple.", infer_split, def_split).attrs<SplitAttrs>();
  return true;
}();

}  // namespace
}  // namespace tenon::op
