// SPDX-License-Identifier: Apache-2.0
// Operators of Relay that make, move and reduce elements.
#include <algorithm>
#include <limits>

#include "import/relay/operators.h"

namespace tenon::relay {
using namespace graph;

namespace {

Expr copy(OpCall& call) {
  call.expect_args(1, 1);
  return call.args[0];
}

/// Halves go away from zero, as in the reference's code.
Expr round(OpCall& call) {
  call.expect_args(1, 1);
  constexpr double half = 0.5;
  const Expr &x = call.args[0], whole = call.emit("trunc", {x});
  const Expr rest = call.emit("abs", {call.emit("subtract", {x, whole})});
  const Expr up = call.emit("greater_equal", {rest, call.like(0, half)});
  return call.emit("add", {whole, call.emit("where", {up, call.emit("sign", {x}), call.like(0, 0)})});
}

Expr where(OpCall& call) {
  call.expect_args(3, 3);
  Expr condition = call.args[0];
  if (const TensorType* t = call.tensor(0); t && !t->dtype.is_bool() && !t->dtype.is_void())
    condition = call.emit("not_equal", {condition, call.like(0, 0)});
  return call.emit("where", {condition, call.args[1], call.args[2]});
}

Expr cast_like(OpCall& call) {
  call.expect_args(2, 2);
  return call.cast(call.args[0], call.element(1));
}

// ---------------------------------------------------------------- shapes
/// Relay's short forms: 0 keeps a dimension, -1 is what is left, -2 keeps all others, -3 joins two, -4 parts
/// one.
op::Shape new_shape(OpCall& call, const Array<int64_t>& wanted, bool allow_zero) {
  constexpr int64_t keep = 0, open = -1, others = -2, join = -3, part = -4;
  const bool plain = std::all_of(wanted.begin(), wanted.end(),
                                 [&](int64_t v) { return v > 0 || v == open || (v == 0 && allow_zero); });
  op::Shape out;
  if (plain) {
    for (const int64_t v : wanted) out.push_back(v);
    return out;
  }
  const op::Shape& have = call.shape(0);
  size_t at = 0;
  auto next = [&] {
    if (at >= have.size())
      call.fail("T0227",
                fmt::format("`newshape` asks for more than the {} dimensions there are", have.size()));
    return have[at++];
  };
  for (size_t i = 0; i < wanted.size(); ++i) {
    switch (wanted[i]) {
      case keep:
        if (allow_zero)
          out.push_back(0);
        else
          out.push_back(next());
        break;
      case open:
        out.push_back(open);
        if (at < have.size()) ++at;
        break;
      case others:
        while (at < have.size()) out.push_back(next());
        break;
      case join: {
        const PrimExpr first = next();
        out.push_back(simplify(first * next()));
        break;
      }
      case part: {
        if (i + 2 >= wanted.size()) call.fail("T0227", "two sizes stand behind -4");
        const PrimExpr whole = next();
        int64_t a = wanted[i + 1], b = wanted[i + 2];
        i += 2;
        if ((a == open && b == open) || a == 0 || b == 0 || a < open || b < open)
          call.fail("T0227", "behind -4 stand two sizes, one of which may be -1");
        out.push_back(a == open ? simplify(tir::floordiv(whole, PrimExpr(b))) : PrimExpr(a));
        out.push_back(b == open ? simplify(tir::floordiv(whole, PrimExpr(a))) : PrimExpr(b));
        break;
      }
      default:
        if (wanted[i] < 0) call.fail("T0227", fmt::format("`newshape` has the size {}", wanted[i]));
        out.push_back(wanted[i]);
        if (at < have.size()) ++at;
    }
  }
  return out;
}

Expr reshape(OpCall& call) {
  call.expect_args(1, 1);
  if (!call.given("newshape")) call.fail("T0223", "`newshape` is missing");
  const Array<int64_t> wanted = call.integers("newshape");
  return call.emit("reshape",
                   {call.args[0], shape_expr(new_shape(call, wanted, call.flag("allowzero", false)))});
}

/// A shape that a tensor holds.
Expr as_shape(OpCall& call, size_t i) { return call.emit("tensor_to_shape", {call.args[i]}); }

Expr dyn_reshape(OpCall& call) {
  call.expect_args(2, 2);
  call.only("newshape", "~");
  call.only("allowzero", "0");
  return call.emit("reshape", {call.args[0], as_shape(call, 1)});
}

Expr broadcast_to(OpCall& call) {
  call.expect_args(1, 2);
  call.ignore({"dtype"});
  const Expr shape = call.args.size() == 2 ? as_shape(call, 1) : Expr();
  if (shape) {
    call.ignore({"shape"});
    return call.emit("broadcast_to", {call.args[0], shape});
  }
  if (!call.given("shape")) call.fail("T0223", "`shape` is missing");
  op::Shape out;
  for (const int64_t v : call.integers("shape")) out.push_back(v);
  return call.emit("broadcast_to", {call.args[0], shape_expr(out)});
}

Expr expand_dims(OpCall& call) {
  call.expect_args(1, 1);
  const int64_t axis = call.integer("axis", 0), count = call.integer("num_newaxis", 1);
  constexpr int64_t most = 64;
  if (count < 0 || count > most) call.fail("T0227", fmt::format("{} new axes", count));
  // Axes of the result; counted from the end, the new ones stand before those that -1, -2, … name.
  Array<int64_t> axes;
  for (int64_t i = 0; i < count; ++i) axes.push_back(axis < 0 ? axis - count + 1 + i : axis + i);
  return axes.empty() ? call.args[0] : call.axes("expand_dims", call.args[0], axes);
}

Expr split(OpCall& call) {
  call.expect_args(1, 1);
  const NamedAttr* parts = call.given("indices_or_sections");
  if (!parts) call.fail("T0223", "`indices_or_sections` is missing");
  const bool sections = parts->value->kind == AttrKind::integer;
  const Array<int64_t> list = call.integers("indices_or_sections");
  return call.emit("split", {call.args[0]},
                   make<op::SplitAttrs>(call.integer("axis", 0), sections ? list[0] : int64_t(0),
                                        sections ? Array<int64_t>() : list));
}

Expr strided_slice(OpCall& call) {
  call.expect_args(1, 1);
  const std::string mode = call.text("slice_mode", "end");
  const Array<int64_t> begin = call.integers("begin"), end = call.integers("end");
  Array<int64_t> strides = call.integers("strides"), axes = call.integers("axes");
  if (begin.size() != end.size())
    call.fail("T0227", fmt::format("`begin` has {} numbers and `end` {}", begin.size(), end.size()));
  constexpr int64_t to_the_end = std::numeric_limits<int64_t>::max();
  op::Shape first, last;
  for (size_t i = 0; i < begin.size(); ++i) {
    first.push_back(begin[i]);
    // By size: numbers of elements; -1: all that is left.
    const bool rest = end[i] < 0 || (begin[i] < 0 && begin[i] + end[i] >= 0);
    last.push_back(mode == "end" ? end[i] : rest ? to_the_end : begin[i] + end[i]);
  }
  if (mode != "end" && mode != "size")
    call.fail("T0227", fmt::format("`slice_mode` is \"end\" or \"size\", not \"{}\"", mode));
  if (mode == "size") strides = {};
  // One step stands for all.
  if (strides.size() == 1 && begin.size() > 1)
    strides = Array<int64_t>(std::vector<int64_t>(begin.size(), strides[0]));
  return call.emit("strided_slice", {call.args[0]}, make<op::StridedSliceAttrs>(axes, first, last, strides));
}

// ---------------------------------------------------------------- positions
Expr take(OpCall& call) {
  call.expect_args(2, 2);
  call.only("batch_dims", "0");
  Expr x = call.args[0], at = call.args[1];
  int64_t axis = 0;
  if (call.given("axis"))
    axis = call.integer("axis", 0);
  else
    x = call.emit("reshape", {x, op::shape({-1})});
  const std::string mode = call.text("mode", "clip");
  if (mode == "clip") {
    // Below 0 is the first element here; ours counts from the end.
    if (call.element(1).is_int()) at = call.emit("maximum", {at, call.like(1, 0)});
  } else if (mode == "wrap") {
    const auto* t = as_tensor(x->type);
    const auto size = t ? static_shape(x->type) : std::nullopt;
    const int64_t place = size ? op::normal_axis(axis, int64_t(size->size())) : 0;
    if (!size || place < 0 || place >= int64_t(size->size()))
      call.fail("T0245", "the axis that wraps must have a known size");
    at = call.emit("floor_mod", {at, call.like(1, double((*size)[size_t(place)]))});
  } else if (mode != "fast") {
    call.fail("T0227", fmt::format("`mode` is \"clip\", \"wrap\" or \"fast\", not \"{}\"", mode));
  }
  return call.emit("take", {x, at}, make<op::AxisAttrs>(axis));
}

/// Relay's positions stand along the first axis, ours along the last.
Expr turned(OpCall& call, size_t i) {
  Array<int64_t> axes;
  for (int64_t a = 1; a < call.rank(i); ++a) axes.push_back(a);
  axes.push_back(0);
  return axes.size() == 1 ? call.args[i] : call.axes("permute_dims", call.args[i], axes);
}
Expr gather_nd(OpCall& call) {
  call.expect_args(2, 2);
  call.ignore({"index_rank"});
  return call.emit("gather_nd", {call.args[0], turned(call, 1)},
                   make<op::GatherNdAttrs>(call.integer("batch_dims", 0)));
}
Expr scatter_nd(OpCall& call) {
  call.expect_args(3, 3);
  return call.emit("scatter_nd", {call.args[0], turned(call, 1), call.args[2]},
                   make<op::ScatterAttrs>(int64_t(0), call.text("mode", "update")));
}
Expr scatter(OpCall& call) {
  call.expect_args(3, 3);
  return call.emit(
      "scatter_elements", call.args,
      make<op::ScatterAttrs>(call.integer("axis", 0),
                             call.name == "scatter_add" ? "add" : call.text("reduction", "update")));
}
Expr one_hot(OpCall& call) {
  call.expect_args(3, 3);
  Expr on = call.args[1], off = call.args[2];
  if (const DataType t = call.dtype("dtype"); !t.is_void()) on = call.cast(on, t), off = call.cast(off, t);
  return call.emit("one_hot", {call.args[0], on, off},
                   make<op::OneHotAttrs>(call.integer("depth", 1), call.integer("axis", -1)));
}
Expr repeat(OpCall& call) {
  call.expect_args(1, 1);
  Expr x = call.args[0];
  const bool flat = !call.given("axis");
  if (flat) x = call.emit("reshape", {x, op::shape({-1})});
  return call.emit("repeat", {x}, make<op::RepeatAttrs>(call.integer("repeats", 1), call.integer("axis", 0)));
}
Expr trilu(OpCall& call) {
  call.expect_args(2, 2);
  const int64_t k = call.constant(1, "the diagonal").element_int(0);
  return call.emit(call.flag("upper", true) ? "triu" : "tril", {call.args[0]}, make<op::DiagonalAttrs>(k));
}

// ---------------------------------------------------------------- making
Expr filled(OpCall& call) {
  const bool value = call.name.ends_with("full");
  const size_t operands = value ? 1 : 0;
  call.expect_args(operands, operands + 1);
  Expr shape;
  if (call.args.size() > operands) {
    shape = as_shape(call, operands);
    call.ignore({"shape"});
  } else {
    op::Shape dims;
    if (!call.given("shape")) call.fail("T0223", "`shape` is missing");
    for (const int64_t v : call.integers("shape")) dims.push_back(v);
    shape = shape_expr(dims);
  }
  const auto attrs = make<op::DTypeAttrs>(call.dtype("dtype"));
  const std::string ours = call.name.starts_with("dyn.") ? call.name.substr(4) : call.name;
  return value ? call.emit("full", {shape, call.args[0]}, attrs) : call.emit(ours, {shape}, attrs);
}
Expr arange(OpCall& call) {
  call.expect_args(3, 3);
  call.ignore({"start", "stop", "step"});
  const DataType wanted = call.dtype("dtype");
  Array<Expr> ends;
  for (size_t i = 0; i < 3; ++i) {
    const NDArray v = call.constant(i, "each end and the step");
    if (v.size() != 1) call.fail("T0227", "ends and step are scalars");
    ends.push_back(make<PrimValue>(v.dtype().is_float() ? PrimExpr::float_imm(v.element(0), v.dtype())
                                                        : PrimExpr::int_imm(v.element_int(0), v.dtype())));
  }
  return call.emit("arange", ends, make<op::DTypeAttrs>(wanted.is_void() ? call.element(0) : wanted));
}
Expr shape_of(OpCall& call) {
  call.expect_args(1, 1);
  const Expr sizes = call.emit("shape_to_tensor", {call.emit("shape_of", {call.args[0]})});
  return call.cast(sizes, call.dtype("dtype", i32));
}
Expr ndarray_size(OpCall& call) {
  call.expect_args(1, 1);
  const Expr sizes = call.emit("shape_to_tensor", {call.emit("shape_of", {call.args[0]})});
  return call.cast(call.reduced("prod", sizes, {}, false), call.dtype("dtype", i32));
}

// ---------------------------------------------------------------- reductions
/// The axes of a reduction, those that are left out where `exclude` says so.
Array<int64_t> reduced_axes(OpCall& call) {
  const Array<int64_t> axes = call.integers("axis");
  if (!call.flag("exclude", false)) return axes;
  const int64_t rank = call.rank(0);
  Array<int64_t> out;
  for (int64_t i = 0; i < rank; ++i)
    if (std::none_of(axes.begin(), axes.end(), [&](int64_t a) { return op::normal_axis(a, rank) == i; }))
      out.push_back(i);
  if (out.empty()) call.fail("T0227", "`exclude` leaves no axis to reduce");
  return out;
}
Expr reduce(OpCall& call) {
  call.expect_args(1, 1);
  const Array<int64_t> axes = reduced_axes(call);
  return call.reduced(call.name, call.args[0], axes, call.flag("keepdims", false));
}
/// The mean is an operand there.
Expr variance(OpCall& call) {
  call.expect_args(2, 2);
  call.only("unbiased", "0");
  const Expr away = call.emit("subtract", {call.args[0], call.args[1]});
  const Array<int64_t> axes = reduced_axes(call);
  return call.reduced("mean", call.emit("multiply", {away, away}), axes, call.flag("keepdims", false));
}
Expr arg_reduce(OpCall& call) {
  call.expect_args(1, 1);
  const Array<int64_t> axes = reduced_axes(call);
  const bool flat = axes.empty();
  if (axes.size() > 1) call.fail("T0227", "positions along several axes have no counterpart here");
  const Expr at =
      call.emit(call.name, {call.args[0]},
                make<op::ArgReduceAttrs>(flat ? int64_t(0) : axes[0], call.flag("keepdims", false), flat,
                                         call.flag("select_last_index", false)));
  return call.cast(at, i32);
}
Expr running(OpCall& call) {
  call.expect_args(1, 1);
  Expr x = call.args[0];
  if (!call.given("axis")) x = call.emit("reshape", {x, op::shape({-1})});
  if (const DataType t = call.dtype("dtype"); !t.is_void()) x = call.cast(x, t);
  return call.emit(call.name, {x},
                   make<op::CumsumAttrs>(call.integer("axis", 0), call.flag("exclusive", false), false));
}
/// What gives a sum of the shape of another tensor.
Expr collapse_sum_like(OpCall& call) {
  call.expect_args(2, 2);
  const op::Shape have = call.shape(0), want = call.shape(1);
  if (want.size() > have.size()) call.fail("T0227", "the second value has more dimensions than the first");
  const size_t lead = have.size() - want.size();
  Array<int64_t> axes;
  for (size_t i = 0; i < have.size(); ++i)
    if (i < lead || (tir::as_int(want[i - lead]) == 1 && tir::as_int(have[i]) != 1))
      axes.push_back(int64_t(i));
  Expr x = call.args[0];
  if (!axes.empty()) x = call.reduced("sum", x, axes, true);
  return lead == 0 ? x : call.emit("reshape", {x, shape_expr(want)});
}

// ---------------------------------------------------------------- order
ObjectRef sort_attrs(OpCall& call, const char* op, bool ascending) {
  const Ref<Op> o = get_op(op);
  ObjectRef attrs = o->default_attrs;
  for (const FieldInfo& f : o->attrs_type->fields) {
    if (f.name == "axis") f.set(attrs.edit(), call.integer("axis", -1));
    if (f.name == "descending") f.set(attrs.edit(), !ascending);
    if (f.name == "largest") f.set(attrs.edit(), !ascending);
  }
  return attrs;
}
Expr sort(OpCall& call) {
  call.expect_args(1, 1);
  call.ignore({"dtype"});
  return call.emit("sort", call.args, sort_attrs(call, "sort", call.flag("is_ascend", true)));
}
Expr argsort(OpCall& call) {
  call.expect_args(1, 1);
  const Expr order =
      call.emit("argsort", call.args, sort_attrs(call, "argsort", call.flag("is_ascend", true)));
  return call.cast(order, call.dtype("dtype", i32));
}
Expr topk(OpCall& call) {
  call.expect_args(1, 1);
  const int64_t k = call.integer("k", 1);
  const std::string parts = call.text("ret_type", "both");
  if (k < 1) call.fail("T0227", "`k` is at least 1");
  const Expr both = call.emit("topk", {call.args[0], op::shape({k})},
                              sort_attrs(call, "topk", call.flag("is_ascend", false)));
  const DataType t = call.dtype("dtype", i32);
  if (parts == "values") return call.get(both, 0);
  const Expr at = call.cast(call.get(both, 1), t);
  if (parts == "indices") return at;
  if (parts != "both") call.fail("T0227", fmt::format("`ret_type` is no \"{}\"", parts));
  return make<Tuple>(Array<Expr>{call.get(both, 0), at});
}

constexpr Converted kConverters[] = {
    {"copy annotation.stop_fusion annotation.checkpoint annotation.cast_hint", copy, 1},
    {"round", round, 1},
    {"where", where, 3},
    {"cast_like", cast_like, 2},
    {"reshape", reshape, 0},
    {"dyn.reshape", dyn_reshape, 2},
    {"broadcast_to dyn.broadcast_to", broadcast_to, 0},
    {"expand_dims", expand_dims, 0},
    {"split", split, 0},
    {"strided_slice", strided_slice, 0},
    {"take", take, 0},
    {"gather_nd", gather_nd, 2},
    {"scatter_nd", scatter_nd, 0},
    {"scatter scatter_add scatter_elements", scatter, 0},
    {"one_hot", one_hot, 0},
    {"repeat", repeat, 0},
    {"trilu", trilu, 0},
    {"full zeros ones dyn.full dyn.zeros dyn.ones", filled, 0},
    {"arange", arange, 0},
    {"shape_of", shape_of, 1},
    {"ndarray_size", ndarray_size, 1},
    {"sum mean max min prod all any logsumexp", reduce, 1},
    {"variance", variance, 2},
    {"argmax argmin", arg_reduce, 1},
    {"cumsum cumprod", running, 1},
    {"collapse_sum_like", collapse_sum_like, 2},
    {"sort", sort, 1},
    {"argsort", argsort, 1},
    {"topk", topk, 0},
};

}  // namespace

std::span<const Converted> shape_converters() { return kConverters; }

}  // namespace tenon::relay
