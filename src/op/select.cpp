// SPDX-License-Identifier: Apache-2.0
// Operators whose result has a size that only the data tells: each gives a buffer of the largest size and how
// much of it counts; `slice_to` cuts it when the size has become a symbol (match_cast). And counts of values.
#include <fmt/format.h>

#include "base/define_type.h"
#include "op/attrs_sort.h"
#include "op/family.h"
#include "op/program.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;

Type counted(const Shape& shape, DataType dtype) {
  return graph::tuple_type({make_type(shape, 0, dtype), make_type(Shape(), 0, i64)});
}
PrimExpr is_set(const PrimExpr& e) { return e.dtype().is_bool() ? e : tir::ne(e, constant(e.dtype(), 0)); }

/// Positions below n at which `holds`, in order, zeros behind them; and their number.
Tensors positions_where(const PrimExpr& n, const te::Tensor& flags) {
  auto body = [&](const Array<tir::Buffer>& in, const Array<tir::Buffer>& out) {
    const PrimExpr count = tir::load(out[1], {});
    return tir::seq({each("i", n, [&](const PrimExpr& i) { return tir::store(out[0], PrimExpr(0), {i}); }),
                     tir::store(out[1], PrimExpr(0), {}), each("i", n, [&](const PrimExpr& i) {
                       return when(
                           is_set(tir::load(in[0], {i})),
                           tir::seq({tir::store(out[0], i, {count}), tir::store(out[1], count + 1, {})}));
                     })});
  };
  return te::external({Shape{n}, Shape()}, {i64, i64}, {flags}, body, "positions");
}
te::Tensor flat(const te::Tensor& x) { return reshape_to(x, {simplify(product(x.shape()))}, "flat"); }

// ---------------------------------------------------------------- nonzero, compress, masked_select
Type infer_nonzero(InferContext& ctx) {
  Shape shape;
  if (!ctx.expect_shape(ctx.tensor(0), "x", shape)) return {};
  return counted({PrimExpr(int64_t(shape.size())), simplify(product(shape))}, i64);
}
/// Coordinates are written as they are found: to divide positions by sizes that are not known costs more.
Tensors def_nonzero(const Call& call, const Tensors& in) {
  const Shape out = output_info(call).shape;
  auto body = [&](const Array<tir::Buffer>& ins, const Array<tir::Buffer>& outs) {
    const PrimExpr count = tir::load(outs[1], {});
    auto clear = [&](const Shape& at) { return tir::store(outs[0], PrimExpr(0), at); };
    auto visit = [&](const Shape& at) {
      Array<tir::Stmt> steps;
      for (size_t i = 0; i < at.size(); ++i)
        steps.push_back(tir::store(outs[0], at[i], {PrimExpr(int64_t(i)), count}));
      steps.push_back(tir::store(outs[1], count + 1, {}));
      return when(is_set(tir::load(ins[0], at)), tir::seq(steps));
    };
    return tir::seq(
        {each_of(out, clear), tir::store(outs[1], PrimExpr(0), {}), each_of(in[0].shape(), visit)});
  };
  return te::external({out, Shape()}, {i64, i64}, {in[0]}, body, "nonzero");
}

PrimExpr smaller(const PrimExpr& a, const PrimExpr& b) {
  return same_dim(a, b) ? a : simplify(tir::min(a, b));
}
Type infer_compress(InferContext& ctx) {
  const auto& a = ctx.attrs<CompressAttrs>();
  const auto &x = ctx.tensor(0), &condition = ctx.tensor(1);
  if (!ctx.expect_domain(condition.dtype, Domain::boolean)) return {};
  if (!ctx.expect_rank(condition, "the condition", 1)) return {};
  Shape shape, c;
  if (!ctx.expect_shape(x, "x", shape) || !ctx.expect_shape(condition, "the condition", c)) return {};
  if (a.flat) shape = {simplify(product(shape))};
  if (!a.flat && !ctx.expect_axis(a.axis, x.ndim)) return {};
  const auto axis = a.flat ? 0 : size_t(normal_axis(a.axis, int64_t(shape.size())));
  const auto have = tir::as_int(shape[axis]), want = tir::as_int(c[0]);
  if (have && want && *want > *have)
    return ctx.error(
        fmt::format("a condition of {} elements for {} of {}", *want, a.flat ? "the" : "an axis of", *have));
  shape.set(axis, smaller(c[0], shape[axis]));
  return counted(shape, x.dtype);
}
Tensors def_compress(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<CompressAttrs>(call);
  const Shape out = output_info(call).shape;
  const te::Tensor x = a.flat ? flat(in[0]) : in[0];
  const auto axis = a.flat ? 0 : size_t(normal_axis(a.axis, int64_t(out.size())));
  const Tensors found = positions_where(out[axis], in[1]);
  return {te::compute(
              out,
              [&](const Vars& v) {
                Shape at = indices(v);
                at.set(axis, safe_index(found[0]({v[axis]}), x.shape()[axis]));
                return x(at);
              },
              "compress"),
          found[1]};
}
Type infer_masked_select(InferContext& ctx) {
  const auto &x = ctx.tensor(0), &mask = ctx.tensor(1);
  if (!ctx.expect_domain(mask.dtype, Domain::boolean)) return {};
  Shape shape, m;
  if (!ctx.expect_shape(x, "x", shape) || !ctx.expect_shape(mask, "the mask", m)) return {};
  if (!ctx.require_equal(shape, m))
    return ctx.error(fmt::format("the mask {} is not of the shape {}", show(m), show(shape)));
  return counted({simplify(product(shape))}, x.dtype);
}
Tensors def_masked_select(const Call& call, const Tensors& in) {
  const PrimExpr n = output_info(call).shape[0];
  const te::Tensor x = flat(in[0]);
  const Tensors found = positions_where(n, flat(in[1]));
  return {te::compute(
              {n}, [&](const Vars& v) { return x({safe_index(found[0]({v[0]}), n)}); }, "masked_select"),
          found[1]};
}

// ---------------------------------------------------------------- unique
Type infer_unique(InferContext& ctx) {
  const auto& a = ctx.attrs<UniqueAttrs>();
  const auto& x = ctx.tensor(0);
  if (!a.flat && !ctx.expect_axis(a.axis, x.ndim)) return {};
  const auto have = shape_of(x);
  if (!have) {
    const Type list = make_type(std::nullopt, 1, i64),
               values = make_type(std::nullopt, a.flat ? 1 : x.ndim, x.dtype);
    return graph::tuple_type({values, list, list, list, make_type(Shape(), 0, i64)});
  }
  Shape shape = *have;
  if (a.flat) shape = {simplify(product(shape))};
  const PrimExpr n = shape[a.flat ? 0 : size_t(normal_axis(a.axis, int64_t(shape.size())))];
  const Type list = make_type(Shape{n}, 0, i64);
  return graph::tuple_type({make_type(shape, 0, x.dtype), list, list, list, make_type(Shape(), 0, i64)});
}
/// Groups of equal rows from an order: where each first occurs, the group of each row, sizes, number of
/// groups.
Tensors groups_of(const te::Tensor& rows, const te::Tensor& order, bool sorted) {
  const PrimExpr n = rows.shape()[0], m = rows.shape()[1];
  const Shape list{n};
  auto body = [&](const Array<tir::Buffer>& in, const Array<tir::Buffer>& out) {
    const tir::Buffer &first = out[0], &group = out[1], &size = out[2], &count = out[3], &fresh = out[4],
                      &rank = out[5];
    const PrimExpr groups = tir::load(count, {}), zero = 0, is_new = tir::ne(tir::load(fresh, {}), zero);
    auto clear = [&](const tir::Buffer& b) {
      return each("i", n, [&](const PrimExpr& i) { return tir::store(b, zero, {i}); });
    };
    auto bump = [&](const tir::Buffer& b, Shape at) { return tir::store(b, tir::load(b, at) + 1, at); };
    auto visit = [&](const PrimExpr& p) {
      return named("here", tir::load(in[1], {p}), [&](const PrimExpr& here) {
        return named("before", tir::load(in[1], {tir::max(p - 1, zero)}), [&](const PrimExpr& before) {
          auto differ_at = [&](const PrimExpr& k) {
            const PrimExpr u = tir::load(in[0], {here, k}), v = tir::load(in[0], {before, k});
            return when(tir::ne(u, v), tir::store(fresh, PrimExpr(1), {}));
          };
          const tir::Stmt open =
              tir::seq({tir::store(first, here, {groups}), tir::store(count, groups + 1, {})});
          return tir::seq({tir::store(fresh, tir::cast(i64, tir::eq(p, zero)), {}), each("k", m, differ_at),
                           when(is_new, open), tir::store(group, groups - 1, {here}),
                           bump(size, {groups - 1})});
        });
      });
    };
    Array<tir::Stmt> steps{
        clear(first),       clear(size), clear(group), clear(rank), tir::store(count, zero, {}),
        each("p", n, visit)};
    if (!sorted) {
      // Numbered by first occurrence: a group's number is that of groups which occur before it. `rank` holds
      // the new numbers at the rows where groups begin.
      steps.push_back(tir::store(fresh, zero, {}));
      steps.push_back(each("i", n, [&](const PrimExpr& i) {
        return when(tir::eq(tir::load(first, {tir::load(group, {i})}), i),
                    tir::seq({tir::store(rank, tir::load(fresh, {}), {i}), bump(fresh, {})}));
      }));
    }
    return tir::seq(steps);
  };
  return te::external({list, list, list, Shape(), Shape(), list}, {i64, i64, i64, i64, i64, i64},
                      {rows, order}, body, "groups");
}
Tensors def_unique(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<UniqueAttrs>(call);
  const Shape out = output_info(call).shape;
  const te::Tensor x = a.flat ? flat(in[0]) : in[0];
  const auto axis = a.flat ? size_t(0) : size_t(normal_axis(a.axis, int64_t(x.ndim())));
  const te::Tensor rows = as_rows(x, axis);
  const PrimExpr n = out[axis];
  const Tensors g = groups_of(rows, order_of_rows(rows), a.sorted);
  te::Tensor first = g[0], inverse = g[1], size = g[2];
  if (!a.sorted) {
    auto number = [&](const PrimExpr& group) { return g[5]({safe_index(g[0]({group}), n)}); };
    inverse = te::compute({n}, [&](const Vars& v) { return number(safe_index(g[1]({v[0]}), n)); }, "inverse");
    auto moved = [&](const te::Tensor& t, const char* name) {
      auto body = [&](const Array<tir::Buffer>& ins, const Array<tir::Buffer>& outs) {
        const tir::Stmt clear =
            each("i", n, [&](const PrimExpr& i) { return tir::store(outs[0], PrimExpr(0), {i}); });
        const tir::Stmt place = each("i", n, [&](const PrimExpr& i) {
          return when(
              tir::lt(i, tir::load(ins[3], {})),
              tir::store(outs[0], tir::load(ins[0], {i}), {tir::load(ins[2], {tir::load(ins[1], {i})})}));
        });
        return tir::seq({clear, place});
      };
      return te::external({Shape{n}}, {i64}, {t, g[0], g[5], g[3]}, body, name)[0];
    };
    first = moved(g[0], "first"), size = moved(g[2], "sizes");
  }
  const te::Tensor values = te::compute(
      out,
      [&](const Vars& v) {
        Shape at = indices(v);
        at.set(axis, safe_index(first({v[axis]}), n));
        return x(at);
      },
      "unique");
  return {values, first, inverse, size, g[3]};
}

// ---------------------------------------------------------------- slice_to, counts
Type infer_slice_to(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  const auto size = ctx.shape(1);
  auto have = shape_of(x);
  if (size && x.ndim >= 0 && int64_t(size->size()) != x.ndim)
    return ctx.error(fmt::format("{} sizes for a tensor of {} dimensions", size->size(), x.ndim));
  for (size_t i = 0; size && have && i < size->size(); ++i) {
    const auto want = tir::as_int((*size)[i]), limit = tir::as_int((*have)[i]);
    if (want && limit && *want > *limit)
      return ctx.error(fmt::format("{} is more than there is of {}", show(*size), show(*have)));
  }
  return make_type(size, x.ndim, x.dtype);
}
Tensors def_slice_to(const Call& call, const Tensors& in) {
  return {te::compute(output_info(call).shape, [&](const Vars& v) { return in[0](indices(v)); }, "slice_to")};
}

Type infer_bincount(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  if (!ctx.expect_domain(x.dtype, Domain::integer)) return {};
  const int64_t n = ctx.attrs<LengthAttrs>().length;
  if (n < 0) return ctx.error(fmt::format("the length {} is negative", n));
  return make_type(Shape{PrimExpr(n)}, 1, i64);
}
/// Counts of the values that `bin` maps elements to; what is outside of [0, n) does not count.
te::Tensor counts(const te::Tensor& x, const PrimExpr& n,
                  const std::function<PrimExpr(const PrimExpr&)>& bin) {
  auto body = [&](const Array<tir::Buffer>& in, const Array<tir::Buffer>& out) {
    return tir::seq({each("i", n, [&](const PrimExpr& i) { return tir::store(out[0], PrimExpr(0), {i}); }),
                     each_of(x.shape(), [&](const Shape& at) {
                       return named("bin", bin(tir::load(in[0], at)), [&](const PrimExpr& b) {
                         return when(tir::logical_and(tir::ge(b, PrimExpr(0)), tir::lt(b, n)),
                                     tir::store(out[0], tir::load(out[0], {b}) + 1, {b}));
                       });
                     })});
  };
  return te::external({Shape{n}}, {i64}, {x}, body, "counts")[0];
}
Tensors def_bincount(const Call& call, const Tensors& in) {
  return {counts(in[0], PrimExpr(attrs_of<LengthAttrs>(call).length),
                 [](const PrimExpr& e) { return tir::cast(i64, e); })};
}
Type infer_histogram(InferContext& ctx) {
  const auto& a = ctx.attrs<HistogramAttrs>();
  if (!ctx.expect_domain(ctx.tensor(0).dtype, Domain::floating)) return {};
  if (a.bins < 1 || !(a.low < a.high))
    return ctx.error(fmt::format("{} bins from {} to {} hold nothing", a.bins, a.low, a.high));
  return make_type(Shape{PrimExpr(a.bins)}, 1, i64);
}
Tensors def_histogram(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<HistogramAttrs>(call);
  return {counts(in[0], PrimExpr(a.bins), [&](const PrimExpr& element) {
    const PrimExpr e = wide(element);
    auto num = [&](double v) { return constant(e.dtype(), v); };
    const PrimExpr place = tir::div((e - num(a.low)) * num(double(a.bins)), num(a.high - a.low));
    const PrimExpr bin =
        tir::min(tir::cast(i64, tir::call(e.dtype(), "tir.floor", {place})), PrimExpr(a.bins - 1));
    return tir::select(tir::logical_and(tir::ge(e, num(a.low)), tir::le(e, num(a.high))), bin, PrimExpr(-1));
  })};
}

const bool select_registered = [] {
  auto add = [](OpName name, const char* doc, InferType infer, TensorDef def) {
    return register_op(std::move(name), doc, FusionKind::opaque, std::move(infer), std::move(def))
        .argument("x", "Tensor", "the operand");
  };
  add("nonzero",
      "Positions of elements that are not 0, one column each, in order; and how many columns count.",
      infer_nonzero, def_nonzero);
  add("compress", "Slices of an axis where a condition holds, in order; and how many of them count.",
      infer_compress, def_compress)
      .argument("condition", "Tensor", "booleans, at most as many as the axis has")
      .attrs<CompressAttrs>();
  add("masked_select", "Elements where the mask holds, in order; and how many of them count.",
      infer_masked_select, def_masked_select)
      .argument("mask", "Tensor", "booleans in x's shape");
  add("unique",
      "Different elements or slices; where each first occurs; which one each element is; how often each "
      "occurs; and "
      "how many there are.",
      infer_unique, def_unique)
      .attrs<UniqueAttrs>();
  add("slice_to", "The leading part of each axis: what counts of a buffer whose size only the data tells.",
      infer_slice_to, def_slice_to)
      .argument("size", "Shape", "sizes of the result, none larger than x's")
      .fusion(FusionKind::injective);
  add("bincount", "How often each of 0, 1, … length - 1 occurs.", infer_bincount, def_bincount)
      .attrs<LengthAttrs>();
  add("histogram", "How many elements lie in each part of a range.", infer_histogram, def_histogram)
      .attrs<HistogramAttrs>();
  return true;
}();

}  // namespace
}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::UniqueAttrs, tenon::op::CompressAttrs,
                                   tenon::op::HistogramAttrs, tenon::op::LengthAttrs>;
