// SPDX-License-Identifier: Apache-2.0
// Element-wise definitions and row-major index arithmetic, shared by the families.
#include "op/family.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace tenon::op {

OpRegistration register_unary(OpName name, std::string doc, Domain domain, UnaryRule f, bool to_bool) {
  auto def = [f = std::move(f), to_bool](const Call& call, const std::vector<te::Tensor>& in) {
    const te::Tensor& x = in[0];
    const DataType out = to_bool ? boolean : x.dtype();
    return std::vector<te::Tensor>{te::compute(
        x.shape(), [&](const Vars& v) { return tir::cast(out, f(call, wide(x(indices(v))))); },
        short_name(call))};
  };
  auto r = register_op(std::move(name), std::move(doc));
  r.argument("x", "Tensor", "the operand")
      .infer([domain, to_bool](InferContext& ctx) -> Type {
        const auto& t = ctx.tensor(0);
        if (!ctx.expect_domain(t.dtype, domain)) return {};
        return like(t, to_bool ? boolean : t.dtype);
      })
      .fusion(FusionKind::element_wise)
      .tensor_def(def);
  return r;
}

te::Tensor copy_of(const te::Tensor& t, const std::string& name) {
  return te::compute(t.shape(), [&](const Vars& v) { return t(indices(v)); }, name);
}

PrimExpr flatten_index(const Shape& index, const Shape& shape) {
  PrimExpr flat = 0;
  for (size_t i = 0; i < index.size(); ++i) flat = flat * shape[i] + index[i];
  return flat;
}

Shape unflatten_index(PrimExpr flat, const Shape& shape) {
  Shape out;
  out.resize(shape.size(), PrimExpr(0));
  bool outermost = true;  // of the axes that are not 1: needs no remainder
  size_t first = 0;
  while (first < shape.size() && tir::is_one(shape[first])) ++first;
  for (size_t i = shape.size(); i-- > 0;) {
    if (tir::is_one(shape[i])) continue;
    outermost = i == first;
    out.set(i, outermost ? flat : tir::floormod(flat, shape[i]));
    if (!outermost) flat = tir::floordiv(flat, shape[i]);
  }
  return out;
}

namespace {

/// Axes that two shapes have at the same place in memory: as many elements of each.
struct AxisGroup {
  Shape from, to;
  size_t first = 0;  ///< of `to`
};

PrimExpr product_of_axes(const Shape& shape, size_t first, size_t count) {
  PrimExpr out = 1;
  for (size_t i = first; i < first + count; ++i) out = out * shape[i];
  return out;
}

/// The smallest groups that the analysis finds, the last one of what is left. Numbers stay together:
/// divisions by them cost little, and what they make of an index is simplified.
std::vector<AxisGroup> groups_of(const Shape& from, const Shape& to) {
  const auto is_number = [](const PrimExpr& d) { return tir::as_int(d).has_value(); };
  const bool numbers =
      std::all_of(from.begin(), from.end(), is_number) && std::all_of(to.begin(), to.end(), is_number);
  std::vector<AxisGroup> out;
  size_t a = 0, b = 0;
  const auto take = [&](size_t m, size_t n) {
    out.push_back({{}, {}, b});
    for (; m > 0; --m) out.back().from.push_back(from[a++]);
    for (; n > 0; --n) out.back().to.push_back(to[b++]);
  };
  const auto next = [&]() -> std::optional<std::pair<size_t, size_t>> {
    const size_t m = from.size() - a, n = to.size() - b;
    for (size_t sum = 2; !numbers && sum < m + n; ++sum)
      for (size_t i = 1; i < sum && i <= m; ++i)
        if (sum - i <= n && same_dim(product_of_axes(from, a, i), product_of_axes(to, b, sum - i)))
          return std::pair(i, sum - i);
    return std::nullopt;
  };
  while (const auto found = next()) {
    // Ones at the end have no elements of their own.
    if (a + found->first == from.size() || b + found->second == to.size()) break;
    take(found->first, found->second);
  }
  take(from.size() - a, to.size() - b);
  return out;
}

}  // namespace

te::Tensor reshape_to(const te::Tensor& t, const Shape& shape, const std::string& name) {
  // Axes that both shapes share at the beginning and at the end keep their index: cheaper, and the analysis
  // sees through it, also where sizes are symbols.
  size_t same = 0, tail = 0;
  while (same < t.ndim() && same < shape.size() && same_dim(t.shape()[same], shape[same])) ++same;
  while (same + tail < t.ndim() && same + tail < shape.size() &&
         same_dim(t.shape()[t.ndim() - 1 - tail], shape[shape.size() - 1 - tail]))
    ++tail;
  auto middle = [&](const Shape& all) {
    Shape part;
    for (size_t i = same; i + tail < all.size(); ++i) part.push_back(all[i]);
    return part;
  };
  const std::vector<AxisGroup> groups = groups_of(middle(t.shape()), middle(shape));
  return te::compute(
      shape,
      [&](const Vars& v) {
        Shape at;
        for (size_t i = 0; i < same; ++i) at.push_back(v[i]);
        Analyzer analyzer;
        for (size_t i = 0; i < shape.size(); ++i) analyzer.bind(v[i], tir::range(PrimExpr(0), shape[i]));
        for (const AxisGroup& g : groups) {
          Shape index;
          for (size_t i = 0; i < g.to.size(); ++i) index.push_back(v[same + g.first + i]);
          for (const PrimExpr& e : unflatten_index(flatten_index(index, g.to), g.from))
            at.push_back(analyzer.simplify(e));
        }
        for (size_t i = shape.size() - tail; i < shape.size(); ++i) at.push_back(v[i]);
        return t(at);
      },
      name);
}

DataType accumulator_type(DataType out) { return wide_type(out); }

PrimExpr like(const PrimExpr& x, double v) { return constant(x.dtype(), v); }

PrimExpr softplus(const PrimExpr& x) {
  return tir::call(x.dtype(), "tir.log1p", {tir::exp(-tir::abs(x))}) + tir::max(x, like(x, 0));
}

PrimExpr exp_of_share(const PrimExpr& x) {
  if (x.dtype() != f32) return tir::exp(x);
  constexpr double kLeast = -87.33;  // above log(2⁻¹²⁶)
  return tir::select(tir::lt(x, like(x, kLeast)), like(x, 0), tir::exp(x));
}

PrimExpr share_or_zero(const PrimExpr& x) {
  if (x.dtype() != f32) return x;
  return tir::select(tir::lt(x, like(x, std::numeric_limits<float>::min())), like(x, 0), x);
}

double alpha_attr(const Call& call) { return attrs_of<AlphaAttrs>(call).alpha; }

}  // namespace tenon::op
