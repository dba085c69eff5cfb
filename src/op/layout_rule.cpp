// SPDX-License-Identifier: Apache-2.0
#include "op/layout_rule.h"

#include <algorithm>

namespace tenon::op {
namespace {

bool all_ones(const Shape& shape) { return std::all_of(shape.begin(), shape.end(), tir::is_one); }

/// One element a channel is little to move.
bool one_point(const Shape& shape) { return std::all_of(shape.begin() + 2, shape.end(), tir::is_one); }

Shape shape_or_empty(const Expr& e) { return graph::known_shape(e->type).value_or(Shape()); }

/// x of the shape `from` as `to`, which has axes of extent 1 more; a constant stays one.
Expr of_rank(LayoutContext& ctx, const Expr& x, const Shape& from, const Shape& to) {
  if (from.size() == to.size()) return x;
  const auto* c = x.as<graph::Constant>();
  if (!c) return ctx.emit_op("reshape", {x, graph::shape_expr(to)});
  std::vector<int64_t> dims;
  for (const PrimExpr& d : to) dims.push_back(*tir::as_int(d));
  return graph::constant(c->data.reshape(dims));
}

/// That of an operand with as many channels as the result: one of whole images before one of single points,
/// smaller blocks, which divide larger ones, before these. Without channels: there is none.
LaidOut layout_of_operands(const LayoutContext& ctx) {
  LaidOut out;
  bool of_points = true;
  for (const Expr& e : ctx.call.args) {
    const LaidOut* x = ctx.laid_out(e);
    const Shape s = shape_or_empty(e);
    if (!x || s.size() != ctx.shape.size() || !same_dim(s[1], ctx.shape[1])) continue;
    const int64_t block = trailing_block(x->layout);
    auto smaller = [&] {
      return block && block < trailing_block(out.layout) && tir::is_const_int(s[1], x->channels);
    };
    if (!out.channels || (of_points && !one_point(s)) || (of_points == one_point(s) && smaller()))
      out = *x, of_points = one_point(s);
  }
  return out;
}

}  // namespace

std::optional<Layout> program_layout(size_t rank) {
  if (rank < 3 || rank > 5) return std::nullopt;
  return data_layout(rank - 2);
}

int64_t trailing_block(const Layout& layout) {
  const Layout::Axis& last = layout.axes.back();
  const auto blocks = std::ranges::count_if(layout.axes, [](const Layout::Axis& a) { return a.block != 0; });
  return last.letter == 'C' && blocks == 1 ? last.block : 0;
}

LaidOut in_runs(Expr tensor, Layout layout, const ChannelRuns& runs) {
  LaidOut out{std::move(tensor), std::move(layout)};
  for (const ChannelRun& run : runs) {
    out.channels += run.filled;
    // What follows a run without added channels is part of it.
    if (out.parts.empty() || out.parts.back().channels != out.parts.back().filled)
      out.parts.push_back(run);
    else
      out.parts.back().channels += run.channels, out.parts.back().filled += run.filled;
  }
  if (out.parts.size() == 1) out.parts.clear();
  return out;
}

Expr LayoutContext::make(std::string_view op, Array<Expr> args, ObjectRef attrs) const {
  Expr e = graph::call(graph::get_op(op), std::move(args), std::move(attrs));
  e.edit()->origin = call.origin;
  return e;
}

// ---------------------------------------------------------------- operands
const LaidOut* LayoutContext::in_blocks(const Expr& variable) const {
  const LaidOut* x = laid_out(variable);
  const bool exact =
      x && trailing_block(x->layout) && tir::is_const_int(shape_or_empty(variable)[1], x->channels);
  return exact ? x : nullptr;
}

Expr LayoutContext::arranged(const Expr& x, const Shape& shape, const Layout& layout) {
  if (const LaidOut* have = laid_out(x);
      have && have->layout == layout && tir::is_const_int(shape[1], have->channels))
    return have->tensor;
  const Layout plain = *program_layout(shape.size());
  if (layout.same_memory(plain, shape))
    return emit_op("reshape", {x, graph::shape_expr(layout.shape(plain, shape))});
  return emit_transform(x, plain.name(), layout.name());
}

Expr LayoutContext::in_layout_of(const Expr& x, const Shape& shape, const LaidOut& like) {
  if (const LaidOut* have = laid_out(x); have && have->same_layout(like)) return have->tensor;
  const Layout plain = *program_layout(shape.size());
  // Axes that are the same for all have no blocks.
  Layout layout;
  std::vector<size_t> ones;
  for (size_t i = 0; i < like.layout.axes.size(); ++i) {
    const Layout::Axis& a = like.layout.axes[i];
    if (a.block && tir::is_one(plain.size(a.letter, shape)))
      ones.push_back(i);
    else
      layout.axes.push_back(a);
  }
  Shape dims = shape;
  Expr arranged_x = x;
  if (!tir::is_one(shape[1])) {
    const int64_t channels = *tir::as_int(shape[1]);
    if (channels != like.channels && !x.is<graph::Constant>() && !one_point(shape)) return {};
    dims.set(1, PrimExpr(like.channels));
    arranged_x = filled(x, 1, like.runs(channels));
  }
  if (layout != plain) arranged_x = arranged(arranged_x, dims, layout);
  if (ones.empty()) return arranged_x;
  Shape whole = layout.shape(plain, dims);
  for (size_t i : ones) whole.insert(i, PrimExpr(1));
  return emit_op("reshape", {arranged_x, graph::shape_expr(whole)});
}

Expr LayoutContext::padded(const Expr& x, int64_t axis, int64_t have, int64_t want) {
  if (have == want) return x;
  std::vector<int64_t> width(2 * size_t(graph::as_tensor(x)->ndim), 0);
  width[size_t(2 * axis + 1)] = want - have;
  return emit_op("pad", {x}, make_attrs<PadAttrs>([&](PadAttrs& a) { a.pad_width = width; }));
}

Expr LayoutContext::slice(const Expr& x, int64_t axis, int64_t begin, int64_t end) const {
  return make("strided_slice", {x}, make_attrs<StridedSliceAttrs>([&](StridedSliceAttrs& a) {
                a.axes = {axis};
                a.begin = {PrimExpr(begin)};
                a.end = {PrimExpr(end)};
              }));
}

Expr LayoutContext::filled(const Expr& x, int64_t axis, const ChannelRuns& runs) {
  if (runs.size() == 1) return padded(x, axis, runs[0].channels, runs[0].filled);
  Array<Expr> items;
  int64_t at = 0;
  for (const ChannelRun& run : runs) {
    const Expr own = emit(slice(x, axis, at, at + run.channels));
    items.push_back(padded(own, axis, run.channels, run.filled));
    at += run.channels;
  }
  return emit_op("concat", {emit(tenon::make<graph::Tuple>(items))}, make_attrs<AxisAttrs>(axis));
}

Expr LayoutContext::with_zeros(const LaidOut& x, int64_t channels) {
  std::vector<int64_t> dims;
  for (const Layout::Axis& a : x.layout.axes)
    dims.push_back(a.block ? a.block : a.letter == 'C' ? x.channels / x.layout.block('C') : 1);
  const NDArray real = NDArray::zeros(dims, DataType::boolean());
  int64_t at = 0;
  for (const ChannelRun& run : x.runs(channels)) {
    for (int64_t i = 0; i < run.channels; ++i) real.set_element_int(at + i, 1);
    at += run.filled;
  }
  const DataType type = graph::as_tensor(x.tensor)->dtype;
  return emit_op("where", {graph::constant(real), x.tensor, graph::constant(NDArray::scalar(0, type))});
}

// ---------------------------------------------------------------- result
Expr LayoutContext::back(const LaidOut& result) {
  Shape whole = shape;
  whole.set(1, PrimExpr(result.channels));
  const auto plain = program_layout(shape.size());
  // A result without spatial axes has one element along each of them here.
  const bool same_memory = !plain || result.layout.same_memory(*plain, whole);
  const Expr out = same_memory ? make("reshape", {result.tensor, graph::shape_expr(whole)})
                               : make("layout_transform", {result.tensor},
                                      make_attrs<LayoutTransformAttrs>(result.layout.name(), plain->name()));
  if (tir::is_const_int(shape[1], result.channels)) return out;
  const Expr with_added = emit(out);
  if (result.parts.empty()) return slice(with_added, 1, 0, *tir::as_int(shape[1]));
  Array<Expr> items;
  int64_t at = 0;
  for (const ChannelRun& run : result.parts) {
    items.push_back(emit(slice(with_added, 1, at, at + run.channels)));
    at += run.filled;
  }
  return make("concat", {emit(tenon::make<graph::Tuple>(items))}, make_attrs<AxisAttrs>(int64_t(1)));
}

// ---------------------------------------------------------------- rules of several families
LayoutRule layout_rule(const OpDef& def) {
  if (def.layout || def.fusion > FusionKind::broadcast) return def.layout;
  return [](LayoutContext& ctx) { return layout_of_elements(ctx); };
}

std::optional<LaidOut> keep_layout(LayoutContext&) { return std::nullopt; }

std::optional<LaidOut> layout_of_elements(LayoutContext& ctx) {
  std::vector<Shape> shapes;
  for (const Expr& e : ctx.call.args) {
    Shape full;
    const Shape s = shape_or_empty(e);
    for (size_t d = s.size(); d < ctx.shape.size(); ++d) full.push_back(PrimExpr(1));
    for (const PrimExpr& d : s) full.push_back(d);
    shapes.push_back(full);
  }
  return layout_of_elements(ctx, ctx.call.op.as<graph::Op>()->name, ctx.call.attrs, shapes);
}

std::optional<LaidOut> layout_of_elements(LayoutContext& ctx, std::string_view op, ObjectRef attrs,
                                          const std::vector<Shape>& shapes) {
  const Shape& shape = ctx.shape;
  if (shape.size() < 3 || !tir::as_int(shape[1])) return std::nullopt;
  const Array<Expr>& operands = ctx.call.args;
  const LaidOut out = layout_of_operands(ctx);
  if (!out.channels) return std::nullopt;
  Array<Expr> args;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Expr& e = operands[i];
    if (e->type.is<graph::ShapeType>()) return std::nullopt;  // it says sizes in the program's layout
    const bool tensor = graph::as_tensor(e);
    if (tensor && (!graph::known_shape(e->type) || shapes[i].size() != shape.size())) return std::nullopt;
    if (!tensor || all_ones(shapes[i])) {
      args.push_back(e);
      continue;
    }
    if (!tir::is_one(shapes[i][1]) && !same_dim(shapes[i][1], shape[1])) return std::nullopt;
    const Expr x = ctx.in_layout_of(of_rank(ctx, e, shape_or_empty(e), shapes[i]), shapes[i], out);
    if (!x) return std::nullopt;
    args.push_back(x);
  }
  return out.with(ctx.make(op, args, std::move(attrs)));
}

std::optional<LaidOut> layout_of_image_fold(LayoutContext& ctx, std::string_view op) {
  const LaidOut* x = ctx.laid_out(ctx.call.args[0]);
  if (!x || (x->layout.has_blocks() && !trailing_block(x->layout))) return std::nullopt;
  std::vector<int64_t> spatial;
  for (size_t i = 0; i < x->layout.axes.size(); ++i)
    if (x->layout.axes[i].letter != 'N' && x->layout.axes[i].letter != 'C') spatial.push_back(int64_t(i));
  return x->with(ctx.make(op, {x->tensor}, make_attrs<ReduceAttrs>(Array<int64_t>(spatial), true)));
}

}  // namespace tenon::op
