// SPDX-License-Identifier: Apache-2.0
#include "import/onnx/values.h"

#include <algorithm>

#include "analysis/analyzer.h"
#include "ir/structural.h"
#include "op/attrs_sort.h"

namespace tenon::onnx {

using namespace op;
using N = NodeContext;
using Shape = Array<PrimExpr>;

int64_t Index::length() const {
  const auto shape = graph::known_shape(e_);
  const auto count = shape && shape->size() == 1 ? n_->importer.known_size((*shape)[0]) : std::nullopt;
  if (!count) {
    if (shape && shape->size() == 1) n_->importer.fork_on_rank(*n_, (*shape)[0]);
    n_->not_known(
        fmt::format("{} with a number of values that only the run knows is not supported", n_->op_type()),
        "export the model with inputs of known rank");
  }
  return *count;
}
Index Index::range(int64_t begin, int64_t end) const {
  return {*n_, n_->op("strided_slice", {e_},
                      make_attrs<StridedSliceAttrs>(Array<int64_t>{0}, Shape{begin}, Shape{end},
                                                    Array<int64_t>{1}))};
}
Index Index::shaped(Shape shape) const { return {*n_, n_->reshape(e_, std::move(shape))}; }
Index Index::operator[](int64_t i) const { return range(i, i + 1).shaped({}); }

Index where(const Expr& condition, const Index& yes, const Index& no) {
  return {yes.node(), yes.node().op("where", {condition, yes, no})};
}
Index sum(const Index& a, int64_t axis) {
  return {a.node(), a.node().op("sum", {a}, make_attrs<ReduceAttrs>(Array<int64_t>{axis}, false))};
}
Index product(const Index& a) {
  return {a.node(), a.node().op("prod", {a}, make_attrs<ReduceAttrs>(Array<int64_t>{0}, false))};
}
Index running_sum(const Index& a) {
  return {a.node(), a.node().op("cumsum", {a}, make_attrs<CumsumAttrs>([](auto& s) { s.axis = 0; }))};
}

bool known_sizes(N& n, size_t i) { return !n.has(i) || n.small(i); }
bool known_numbers(N& n, size_t i) {
  if (!n.has(i)) return true;
  const SmallRef s = n.small(i);
  return s ? s->all_const() : n.in(i).is<graph::Constant>();
}

Index index_input(N& n, size_t i) {
  if (!n.dtype(i).is_integer()) n.malformed(fmt::format("input {} of {} must be integers", i, n.op_type()));
  const Expr x = n.cast(n.in(i), i64);
  if (n.rank(i) == 0) return {n, n.reshape(x, {PrimExpr(1)})};
  const auto shape = graph::known_shape(x);
  const auto count = shape && shape->size() == 1 ? n.importer.known_size((*shape)[0]) : std::nullopt;
  return {n, count ? n.checked(x, {PrimExpr(*count)}) : x};
}
Index index_of(N& n, const Shape& sizes) {
  std::vector<int64_t> known;
  for (const PrimExpr& s : sizes)
    if (auto v = tir::as_int(s)) known.push_back(*v);
  if (known.size() < sizes.size()) return {n, n.op("shape_to_tensor", {graph::shape_expr(sizes)})};
  NDArray a = NDArray::empty({int64_t(known.size())}, i64);
  std::copy(known.begin(), known.end(), a.as_ptr<int64_t>());
  return {n, graph::constant(a)};
}
Index iota(N& n, const PrimExpr& size) {
  auto prim = [](const PrimExpr& e) { return Expr(make<graph::PrimValue>(e)); };
  // Inference allows for a negative end; sizes have none.
  return {n, n.checked(n.op("arange", {prim(0), prim(size), prim(1)}, make_attrs<DTypeAttrs>(i64)), {size})};
}
Shape sizes_of(const Index& vector, std::string_view name) {
  Shape out;
  if (const auto* c = vector.expr().as<graph::Constant>()) {
    for (int64_t i = 0; i < c->data.size(); ++i) out.push_back(c->data.element_int(i));
    return out;
  }
  N& n = vector.node();
  const int64_t count = vector.length();
  for (int64_t i = 0; i < count; ++i)
    out.push_back(tir::var(n.importer.builder.fresh_name(std::string(name)), i64));
  if (count > 0)
    n.importer.builder.emit_match_cast(n.op("tensor_to_shape", {vector}),
                                       make<graph::ShapeType>(out, count, true), "sizes");
  return out;
}
std::pair<Expr, Shape> with_shape(N& n, size_t i) {
  const int64_t rank = n.rank(i);
  if (const auto s = n.shape(i)) return {n.in(i), *s};
  Shape shape;
  for (int64_t k = 0; k < rank; ++k) shape.push_back(tir::var(n.importer.builder.fresh_name("n"), i64));
  return {n.importer.builder.emit_match_cast(n.in(i), graph::tensor_type(shape, n.dtype(i)), "sized"), shape};
}

Index require(const Index& value, const Expr& condition, const std::string& message) {
  N& n = value.node();
  Importer::Body yes = n.importer.convert_body("value", [&] { return Values{Value(value.expr())}; }), no;
  no.expr = n.importer.refusal(fmt::format("{} ({})", message, n.where()), value.expr()->type);
  no.expr.edit()->type = graph::result_of(no.expr)->type;
  return {n, n.emit(n.importer.branches(condition, yes, no, n.origin, n.where()))};
}

/// Must y, a size of at most one, be one wherever x is not 0? So it is where x is never one (a multiple of
/// 8), and where indices were picked for each element of x: the axis that they are inside of is not empty.
static bool one_for_each(N& n, const PrimExpr& x, const PrimExpr& y) {
  Analyzer plain;
  for (const PrimExpr& e : {x, y})
    for (const tir::VarRef& v : tir::free_vars(e)) plain.assume_size(v, 0);
  if (tir::as_int(y) || !plain.can_prove_lt(y, 2) || !plain.can_prove_ge(y, 0)) return false;
  if (plain.can_prove(tir::ne(x, PrimExpr(1)))) return true;
  return std::ranges::any_of(n.importer.picked_, [&](const auto& p) {
    Analyzer some, inside;
    const auto there = some.assume(tir::ge(x, PrimExpr(1))),
               holds = inside.assume(tir::ge(p.size, PrimExpr(1)));
    return some.can_prove_ge(p.indices, 1) && inside.can_prove_equal(y, PrimExpr(1));
  });
}

PrimExpr broadcast_size(N& n, const PrimExpr& x, const PrimExpr& y, bool one_way) {
  for (const auto& known : n.importer.stretched_)
    if (known.a.same_as(x) && known.b.same_as(y)) return known.size;
  Analyzer analyzer;  // of at most one element because there are no more: it stretches to them, or to none
  if (analyzer.can_prove_equal(y, tir::min(x, PrimExpr(1)))) return x;
  if (!one_way && analyzer.can_prove_equal(x, tir::min(y, PrimExpr(1)))) return y;
  if (one_for_each(n, x, y)) {
    n.require_equal(tir::select(tir::eq(x, PrimExpr(0)), PrimExpr(1), y), PrimExpr(1));
    return x;
  }
  const Index both = index_of(n, {x, y}), a = both[0], b = both[1];
  const Expr same = equal(a, b), second = equal(b, 1);
  const Expr fits = n.op("logical_or", {same, one_way ? second : n.op("logical_or", {equal(a, 1), second})});
  const Index checked = require((one_way ? a : where(equal(a, 1), b, a)).shaped({PrimExpr(1)}), fits,
                                "sizes that are broadcast are neither equal nor 1");
  const PrimExpr size = sizes_of(checked, "size")[0];
  n.importer.stretched_.push_back({x, y, size});
  return size;
}
Expr stretch(N& n, const Expr& x, int64_t axis, const PrimExpr& size) {
  const PrimExpr have = (*graph::known_shape(x))[size_t(axis)];
  if (have.same_as(size)) return x;
  return pick(n, x, min(iota(n, size), index_of(n, {have})[0] - 1), axis);
}

RunTimeAxes run_time_axes(const Index& axes, int64_t rank) {
  N& n = axes.node();
  const int64_t count = axes.length();
  const Index counted = where(less(axes, 0), axes + rank, axes).shaped({PrimExpr(count), PrimExpr(1)});
  const Index places = iota(n, rank).shaped({PrimExpr(1), PrimExpr(rank)});
  const Index matches(n, n.cast(equal(counted, places), i64));
  const Index marks = sum(matches, 0);
  const Expr fits = equal(sum(min(marks, 1), 0), count);
  const std::string message =
      fmt::format("the axes of {} are not {} different ones of {}", n.op_type(), count, rank);
  return {require(marks, fits, message), matches, count};
}
Index RunTimeAxes::spread(const Index& values, const Index& otherwise) const {
  const Index at = sum(matches * values.shaped({PrimExpr(count), PrimExpr(1)}), 0);
  return where(equal(marks, 1), at, otherwise);
}
Index RunTimeAxes::order() const {
  N& n = marks.node();
  return {n, n.cast(n.op("argsort", {marks}, make_attrs<SortAttrs>(int64_t(0), false)), i64)};
}

Expr pick(N& n, const Expr& x, const Index& positions, int64_t axis) {
  const auto shape = graph::known_shape(x), at = graph::known_shape(positions.expr());
  if (!shape || !at || !tir::is_zero((*shape)[size_t(axis)]))
    return n.op("take", {x, positions}, make_attrs<AxisAttrs>(axis));
  // Nothing is there to pick.
  Shape out(shape->begin(), shape->begin() + axis);
  for (const PrimExpr& d : *at) out.push_back(d);
  for (size_t i = size_t(axis) + 1; i < shape->size(); ++i) out.push_back((*shape)[i]);
  const DataType t = graph::as_tensor(x)->dtype;
  return n.op("full", {graph::shape_expr(out), n.scalar(0, t)}, make_attrs<DTypeAttrs>(t));
}
Shape beside(const PrimExpr& size, int64_t axis, int64_t rank) {
  Shape s(std::vector<PrimExpr>(size_t(rank), PrimExpr(1)));
  s.set(size_t(axis), size);
  return s;
}
Expr pick_or(N& n, const Expr& x, const Index& at, const Index& extent, int64_t axis, const Expr& otherwise,
             bool may_be_empty) {
  const Shape shape = *graph::known_shape(x);
  const Expr inside = n.op("logical_and", {less(Index(n, n.scalar(-1, i64)), at), less(at, extent)});
  if (may_be_empty && tir::as_int(shape[size_t(axis)]).value_or(0) < 1) {
    Shape one = shape;  // the other value lies behind what may be nothing
    one.set(size_t(axis), 1);
    const Expr filler = n.op("broadcast_to", {otherwise, graph::shape_expr(one)});
    return pick(n, n.concat({x, filler}, axis), where(inside, at, extent), axis);
  }
  const PrimExpr size = (*graph::known_shape(at.expr()))[0];
  return n.op("where", {n.reshape(inside, beside(size, axis, int64_t(shape.size()))),
                        pick(n, x, max(min(at, extent - 1), 0), axis), otherwise});
}
Expr transposed(N& n, const Expr& x, const Index& order) {
  const Shape shape = *graph::known_shape(x);
  const size_t rank = shape.size();
  Shape strides(std::vector<PrimExpr>(rank, PrimExpr(1)));
  PrimExpr total = 1;
  for (size_t i = rank; i-- > 0;) {
    strides.set(i, total);
    total = simplify(total * shape[i]);
  }
  const Index steps(n, pick(n, index_of(n, strides), order, 0));
  const Shape sizes = sizes_of({n, pick(n, index_of(n, shape), order, 0)}, "size");
  Index at(n, n.scalar(0, i64));
  for (size_t i = 0; i < rank; ++i) {
    at = (iota(n, sizes[i]) * steps[int64_t(i)]).shaped(beside(sizes[i], int64_t(i), int64_t(rank))) + at;
  }
  return pick(n, n.reshape(x, {total}), at, 0);
}
Expr along_axis(N& n, const Expr& x, const Index& axis, int64_t at, FunctionRef<Expr(const Expr&)> make) {
  const int64_t rank = int64_t(graph::known_shape(x)->size());
  const Index mark = run_time_axes(axis, rank).marks, places = iota(n, rank);
  // Swapping two axes undoes itself.
  const Index named = sum(mark * places, 0);
  const Index order =
      where(equal(places, at), named, where(equal(mark, 1), Index(n, n.scalar(double(at), i64)), places));
  return transposed(n, make(transposed(n, x, order)), order);
}

Expr of_sizes(NodeContext& n, const Expr& x) {
  const auto shape = graph::known_shape(x);
  if (!shape) return x;
  Analyzer analyzer;
  Array<PrimExpr> simple;
  bool changed = false;
  for (const PrimExpr& d : *shape) {
    for (const tir::VarRef& v : tir::free_vars(d)) analyzer.assume_size(v, 0);
    simple.push_back(analyzer.simplify(d));
    changed = changed || !structural_equal(simple.back(), d);
  }
  return changed ? n.op("slice_to", {x, graph::shape_expr(simple)}) : x;
}

}  // namespace tenon::onnx
