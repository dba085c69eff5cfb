// SPDX-License-Identifier: Apache-2.0
// Converters: operators that give the elements another shape or other axes.
#include <algorithm>

#include "analysis/analyzer.h"
#include "analysis/linear.h"
#include "import/onnx/values.h"

namespace tenon::onnx {
namespace {

using namespace op;
using N = NodeContext;
using R = RegisterConverter;
using Shape = Array<PrimExpr>;

/// Replaces the -1 of a reshape when the other sizes divide the number of elements as polynomials of symbolic
/// sizes.
void settle_rest(const Shape& from, Shape& to) {
  PrimExpr all = 1, others = 1;
  size_t at = to.size();
  for (const PrimExpr& d : from) all = all * d;
  for (size_t i = 0; i < to.size(); ++i) {
    const auto v = tir::as_int(to[i]);
    if (v && *v == -1)
      at = i;
    else
      others = others * to[i];
  }
  Analyzer analyzer;
  if (at == to.size() || tir::is_zero(analyzer.simplify(all))) return;
  if (const auto rest = exact_quotient(all, others, analyzer)) to.set(at, analyzer.simplify(*rest));
}

/// Sizes that the run finds to be 0 copy the dimension, too, as written ones do. Where all sizes are computed
/// and none is -1, those of an empty tensor stay what they are: they are what the exporter's tensor had. The
/// -1 is then 0, and where no size is 0 what divides the elements there.
void copy_where_zero(N& n, const Shape& have, Shape& to) {
  struct Copied {
    size_t at;
    PrimExpr zero, size;
  };
  std::vector<Copied> copied;
  Analyzer elsewhere;
  size_t rest = to.size();
  for (size_t i = 0; i < to.size(); ++i) {
    if (tir::as_int(to[i]) == -1) rest = i;
    const auto symbol = to[i].cast<tir::Var>();
    if (!symbol || i >= have.size() || n.importer.is_not_zero(symbol)) continue;
    const PrimExpr size = simplify(tir::substitute(have[i], {{symbol.get(), PrimExpr(0)}}));
    if (tir::is_zero(size)) continue;
    copied.push_back({i, tir::eq(to[i], PrimExpr(0)), size});
    elsewhere.assume_size(symbol, 1);
  }
  if (!copied.empty()) settle_rest(have.map([&](const PrimExpr& d) { return elsewhere.simplify(d); }), to);
  const bool settled = rest < to.size() && tir::as_int(to[rest]) != -1;
  for (const Copied& c : copied) {
    to.set(c.at, tir::select(c.zero, c.size, to[c.at]));
    if (settled) to.set(rest, tir::select(c.zero, PrimExpr(0), to[rest]));
  }
}

/// Exporters say a size of the data in other words, such as (n - 1) // 8 + 1 for (n + 7) // 8, which it is
/// unless n is 0. One expression for both lets kernels see that the axis stays; that they are equal is
/// checked when the model runs.
void take_sizes_of(N& n, const Shape& have, Shape& out) {
  Analyzer analyzer;
  for (const Shape& shape : {have, out})
    for (const PrimExpr& size : shape)
      for (const tir::VarRef& v : tir::free_vars(size)) analyzer.assume_size(v, 1);
  for (size_t i = 0; i < out.size(); ++i) {
    if (tir::as_int(out[i]) || out[i].is<tir::Var>()) continue;
    for (const PrimExpr& size : have) {
      if (tir::as_int(size) || !analyzer.can_prove_equal(out[i], size)) continue;
      n.require_equal(out[i], size);
      out.set(i, size);
      break;
    }
  }
}

Values reshape(N& n) {
  if (!known_sizes(n, 1)) return reshape_at_run_time(n);
  Shape want = n.sizes(1, "shape");
  Analyzer analyzer;  // a computed size that is negative stands for the rest, as a written one does
  for (const PrimExpr& size : want)
    if (!tir::as_int(size) && analyzer.can_prove_lt(size, 0)) return reshape_at_run_time(n);
  const bool allowzero = n.attr_int("allowzero", 0) != 0;
  auto have = n.shape(0);
  Shape out;
  int rest = 0;
  bool copies = false;
  for (size_t i = 0; i < want.size(); ++i) {
    const auto v = tir::as_int(want[i]);
    if (v && *v < -1) n.malformed(fmt::format("the size {} in 'shape' of Reshape is negative", *v));
    rest += v && *v == -1;
    if (v && *v == 0 && !allowzero) {
      if (have && i >= have->size())
        n.malformed(fmt::format("'shape' of Reshape copies dimension {}, which the input does not have", i));
      if (!have) n.not_known("Reshape of a tensor whose shape is not known at import is not supported");
      out.push_back((*have)[i]);
      copies = true;
    } else {
      out.push_back(want[i]);
    }
  }
  if (rest > 1) n.malformed("'shape' of Reshape has more than one -1");
  if (have) take_sizes_of(n, *have, out);
  if ((rest == 1 || copies) && have && !allowzero) copy_where_zero(n, *have, out);
  if (rest == 1 && have) settle_rest(*have, out);
  return {n.op("reshape", {n.in(0), graph::shape_expr(out)})};
}
const R r1("Reshape", {1, 5, 13, 14, 19, 21, 23, 24, 25}, reshape, {.operations = 0, .values = {1}});

Values transpose(N& n) {
  std::vector<int64_t> perm = n.attr_ints("perm");
  const int64_t r = n.rank(0);
  if (!n.has_attr("perm"))
    for (int64_t i = r; i-- > 0;) perm.push_back(i);
  std::vector<int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] != int64_t(i) || int64_t(sorted.size()) != r)
      n.malformed(fmt::format("'perm' of Transpose is no permutation of {} axes", r));
  return {n.transpose(n.in(0), perm)};
}
const R r2("Transpose", {1, 13, 21, 23, 24, 25}, transpose, {.operations = 0});

std::vector<int64_t> axes_input(N& n, int64_t moved) {
  return n.since < moved ? n.attr_ints("axes") : n.has(1) ? n.const_ints(1, "axes") : std::vector<int64_t>();
}

Values squeeze(N& n) {
  if (n.since >= 13 && !known_numbers(n, 1)) return squeeze_at_run_time(n);
  std::vector<int64_t> axes = axes_input(n, 13);
  if (axes.empty() && !n.has_attr("axes") && !n.has(1)) {
    // Whether a symbolic size is 1 is found out at run time, and what follows is compiled for both.
    Shape s = n.known_shape(0);
    for (size_t i = 0; i < s.size(); ++i) {
      const PrimExpr one(1);
      const auto known = tir::as_int(s[i]) ? tir::is_one(s[i]) : n.importer.sizes_equal(s[i], one);
      if (!known && !n.importer.fork_on_sizes(n, {{s[i], one}}))
        n.unsupported("which axes this Squeeze removes is known only when the model runs",
                      "give its axes in the model, or its sizes with --dim");
      if (known == true) axes.push_back(int64_t(i));
    }
  }
  if (axes.empty()) return {n.in(0)};
  Expr x = n.in(0);
  if (auto s = n.shape(0)) {
    // A symbolic size that is squeezed is 1, or it is found out at run time that it is not.
    Shape one = *s;
    for (int64_t a : axes) {
      const size_t at = size_t(n.axis(a, int64_t(one.size())));
      if (!tir::as_int(one[at])) one.set(at, PrimExpr(1));
    }
    x = n.checked(x, one);
  }
  return {n.op("squeeze", {x}, make_attrs<AxesAttrs>(Array<int64_t>(axes)))};
}
Values unsqueeze(N& n) {
  if (n.since >= 13 && !known_numbers(n, 1)) return unsqueeze_at_run_time(n);
  std::vector<int64_t> axes = axes_input(n, 13);
  if (axes.empty()) return {n.in(0)};
  // Axes count in the result; the operator's order does not matter.
  const int64_t r = n.rank(0) + int64_t(axes.size());
  for (int64_t& a : axes) a = n.axis(a, r);
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end())
    n.malformed("an axis of Unsqueeze is given twice");
  return {n.op("expand_dims", {n.in(0)}, make_attrs<AxesAttrs>(Array<int64_t>(axes)))};
}
Values flatten(N& n) {
  const int64_t r = n.rank(0);
  int64_t axis = n.attr_int("axis", 1);
  if (axis < -r || axis > r) n.malformed(fmt::format("axis {} of Flatten is outside of rank {}", axis, r));
  if (axis < 0) axis += r;
  if (axis == 1 && r == 2) return {n.in(0)};
  Shape s = n.known_shape(0);
  PrimExpr a = 1, b = 1;
  for (int64_t i = 0; i < r; ++i) (i < axis ? a : b) = (i < axis ? a : b) * s[size_t(i)];
  return {n.reshape(n.in(0), {simplify(a), simplify(b)})};
}
const R r3("Squeeze", {1, 11, 13, 21, 23, 24, 25}, squeeze, {.operations = 0, .values = {1}}),
    r4("Unsqueeze", {1, 11, 13, 21, 23, 24, 25}, unsqueeze, {.operations = 0, .values = {1}}),
    r5("Flatten", {1, 9, 11, 13, 21, 23, 24, 25}, flatten);

Values depth_to_space(N& n) {
  const int64_t block = n.need_int("blocksize");
  if (block < 1 || block > (int64_t(1) << 20))
    n.malformed(fmt::format("the block size {} of {} is not possible", block, n.op_type()));
  const std::string mode = n.attr_string("mode", "DCR");
  if (mode != "DCR" && mode != "CRD")
    n.malformed(fmt::format("the mode {} of {} is not known", in_quotes(mode), n.op_type()));
  return {n.op(n.op_type() == "DepthToSpace" ? "depth_to_space" : "space_to_depth", {n.in(0)},
               make_attrs<BlockSizeAttrs>(block, mode))};
}
const R i9("DepthToSpace", {1, 11, 13, 28}, depth_to_space, {.operations = 0}),
    i10("SpaceToDepth", {1, 13, 28}, depth_to_space, {.operations = 0});

}  // namespace
}  // namespace tenon::onnx
