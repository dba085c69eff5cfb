// SPDX-License-Identifier: Apache-2.0
// pack_weights: constant matrices of products lie in panels as wide as the register tile, so that the inner
// loop reads them one after the other; so do large matrices that are not constant when many rows read them.
//
//   before   lv = R.matmul(x, w)             # w (k, n), a constant; R.nn.dense with w (n, k) alike
//   after    lv = R.layout_transform(w, "KN" → "NK32n")        # folded by the next fold_constant
//            lv1 = R.nn.packed_matmul(x, lv, units=n)
//
// Narrow types lie in groups where the target has an instruction that multiplies groups (dot_intrin.h): bf16
// in pairs, bytes in fours, "NK32n4k" with the last two axes as one. So do the weights of an operator that
// multiplies step by step (OpDef::grouped_weight).
//
// Of few columns, whose panels would be empty for the most part, each lies as a row of x does, and nn.dense
// adds up along both.
//
// Where few rows, or an unknown number, read a large matrix of float32 whose elements a narrower type holds,
// the panels are of that type (narrow_storage.h).
//
// The width of a panel comes from the target record and the number of rows of x: the tile of rows × vectors
// with the largest useful share that the vector registers hold. Needs: types, a target. Keeps: values; sums
// run over k in the same order.
#include <fmt/format.h>

#include <algorithm>

#include "analysis/cost/layout.h"
#include "analysis/cost/tile.h"
#include "op/body_rewriter.h"
#include "op/build.h"
#include "pass/graph/layout/narrow_storage.h"
#include "schedule/dot_intrin.h"
#include "target/target.h"

namespace tenon {
namespace graph {
namespace {

class PackWeights : public BodyRewriter {
 public:
  explicit PackWeights(Target target) : target_(std::move(target)) {}

 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    const Op* op = op_of(value);
    if (!op) return value;
    const Call& call = *value.as<Call>();
    if (const auto& weight = op::definition(*op).grouped_weight) return grouped(value, *weight, var);
    const auto product = op::contraction_of(value);
    if (!product || product->spatial > 0 || product->batch > 0) return value;
    const bool dense = product->weight_out == 0;
    const auto *x = as_tensor(call.args[0]), *w = as_tensor(call.args[1]);
    const auto shape_w = static_shape(call.args[1]->type);
    if (!x || !w || !shape_w || x->ndim < 2 || shape_w->size() != 2 || element_count(*shape_w) == 0)
      return value;
    const DataType type = w->dtype;
    if (type != x->dtype && !(byte(type) && byte(x->dtype))) return value;
    if (type.is_float() && type.bits < 16) return value;
    const DataType sum = type.is_float() ? (type.bits < 32 ? f32 : type) : i32;
    const auto form = dot_form(target_, x->dtype, type, sum);
    const int64_t inputs = (*shape_w)[dense ? 1 : 0];
    const int64_t group = form && inputs % form->group == 0 ? form->group : 1;
    if (!type.is_float() && group == 1) return value;
    const int64_t columns = (*shape_w)[dense ? 0 : 1];
    // A tile takes its rows from all axes, as one or from two of them.
    const int64_t rows = product_rows(call.args[0]);
    // What is not constant is packed for every call.
    if (!call.args[1].is<Constant>() &&
        !cost::worth_packing(rows, element_count(*shape_w) * type.bytes(), target_))
      return value;
    if (type == f32 && call.args[1].is<Constant>() && cost::worth_dots(columns, inputs, target_))
      return dense ? value : dots(call, var);
    Expr weight = call.args[1];
    DataType out = product->out_dtype;
    if (const auto narrow = narrow_storage(value, target_)) {
      weight = emit(op::op_call("cast", {weight}, op::make_attrs<op::CastAttrs>(*narrow), call.origin),
                    var->name + "_narrow");
      out = f32;
    }
    return packed(call.args[0], weight, dense, rows, columns, inputs, group, sum, out, var, call.origin);
  }

 private:
  static bool byte(DataType t) { return t.is_integer() && t.bits == 8; }

  /// With constant weights whose sums lie in groups, where the target multiplies such groups.
  Expr grouped(const Expr& value, const op::GroupedWeight& weight, const VarRef& var) {
    const Call& call = *value.as<Call>();
    const Expr& w = call.args[weight.argument];
    auto shape = static_shape(w->type);
    if (!w.is<Constant>() || !shape) return value;
    const DataType type = as_tensor(w)->dtype;
    const auto form = dot_form(target_, type, type, type.is_float() ? f32 : i32);
    const size_t lanes = shape->size() - 1, sum = lanes - 1;
    if (!form || (*shape)[sum] % form->group != 0) return value;
    const ObjectRef attrs = weight.with_group(call.attrs, form->group);
    if (!attrs) return value;
    std::string axes;
    for (size_t i = 0; i <= lanes; ++i) axes += char('A' + i);
    const std::string groups = fmt::format("{}{}{}", axes, form->group, char('a' + sum));
    const Expr apart = emit(op::op_call("layout_transform", {w},
                                        op::make_attrs<op::LayoutTransformAttrs>(axes, groups), call.origin),
                            var->name + "_pairs");
    (*shape)[sum] /= form->group, (*shape)[lanes] *= form->group;
    Array<Expr> args = call.args;
    args.set(weight.argument, emit(op::op_call("reshape", {apart, op::shape(*shape)}, {}, call.origin),
                                   var->name + "_groups"));
    return op::op_call(call.op.as<Op>()->name, args, attrs, call.origin);
  }

  /// The product of rows with columns that lie as rows do.
  Expr dots(const Call& call, const VarRef& var) {
    const Expr columns = emit(op::op_call("layout_transform", {call.args[1]},
                                          op::make_attrs<op::LayoutTransformAttrs>("KN", "NK"), call.origin),
                              var->name + "_columns");
    return op::op_call("nn.dense", {call.args[0], columns}, call.attrs, call.origin);
  }

  /// The product with `w` in panels.
  Expr packed(const Expr& x, const Expr& w, bool dense, int64_t rows, int64_t columns, int64_t inputs,
              int64_t group, DataType sum, DataType out, const VarRef& var, const Origin& origin) {
    const DataType type = as_tensor(w)->dtype;
    const int64_t lanes = std::max<int64_t>(1, target_->lanes(sum));
    const int64_t vectors = cost::panel_vectors(rows > 0 ? rows : cost::kUnknown, columns, inputs / group,
                                                lanes, type.bytes() * group, target_);
    const int64_t width = vectors * lanes;
    const std::string source = dense ? "NK" : "KN", layout = group == 1
                                                                 ? fmt::format("NK{}n", width)
                                                                 : fmt::format("NK{}n{}k", width, group);
    Expr panels = emit(op::op_call("layout_transform", {w},
                                   op::make_attrs<op::LayoutTransformAttrs>(source, layout), origin),
                       var->name + "_panels");
    if (group > 1)
      panels = emit(
          op::op_call("reshape",
                      {panels, op::shape({(columns + width - 1) / width, inputs / group, width * group})}, {},
                      origin),
          var->name + "_groups");
    return op::op_call("nn.packed_matmul", {x, panels},
                       op::make_attrs<op::PackedMatmulAttrs>(columns, out, group), origin);
  }

  Target target_;
};

}  // namespace
}  // namespace graph

static IRModule pack_weights(IRModule module, PassContext& context) {
  Target target = context.target.cast<TargetNode>();
  // Without evaluation constants would be packed again in every call.
  if (!target || !context.evaluate) return module;
  return graph::rewrite_functions<graph::PackWeights>(std::move(module), target);
}

const Pass& pack_weights_pass = register_pass({
    .name = "pack_weights",
    .run = pack_weights,
    .level = 2,
    .summary = "constant matrices are laid out in panels for the register tile",
    .needs = {"infer_types"},
    .changes = Changes::sum_order,
});

}  // namespace tenon
