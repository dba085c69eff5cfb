// SPDX-License-Identifier: Apache-2.0
// convert_layout: convolutions and what lies between them work on channels in blocks as wide as a vector.
//
//   before   lv = R.nn.conv2d(x, w);  lv1 = R.nn.relu(lv);  lv2 = R.nn.conv2d(lv1, w1)      # constant w, w1
//   after    lv_1 = R.nn.conv2d(x, layout_transform(w), out_layout="NCHW16c");  lv = layout_transform(lv_1)
//            lv1_1 = R.nn.relu(lv_1);  lv1 = layout_transform(lv1_1)
//            lv2_1 = R.nn.conv2d(lv1_1, layout_transform(w1), data_layout="NCHW16c", …);  lv2 =
//            layout_transform(lv2_1)
//
// Each operator's definition has the rule that decides (OpDef::layout, op/layout_rule.h). Rules of
// convolutions choose blocks; those of element-wise operators, pooling, nearest resizing, concatenation and
// folds over the image take the layout in which their operands are there. This pass calls the rules in the
// order of the program: it keeps, for each variable, its value in the other layout, binds what the rule made,
// and behind it the value in the program's layout again. Nothing else changes, so a rule may refuse any call.
// The transformations that nobody needs then go: those of weights become constants in fold_constant, those
// that undo one another meet in canonicalize, eliminate_dead_code drops the others. Needs: types; normal
// form; weights constant. Keeps: values up to the order of sums, types of all variables.
#include "analysis/cost/layout.h"
#include "ir/pass.h"
#include "op/body_rewriter.h"
#include "op/layout_rule.h"
#include "schedule/dot_intrin.h"

namespace tenon {
namespace graph {
namespace {

class ConvertLayout : public BodyRewriter {
 public:
  explicit ConvertLayout(Target target) : target_(std::move(target)) {}

 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    const Op* op = op_of(value);
    const op::LayoutRule rule = op && op->pure ? op::layout_rule(op::definition(*op)) : nullptr;
    const Type type = var->declared ? var->declared : value->type;
    const auto shape = known_shape(type);
    if (!rule || !shape || !as_tensor(type)) return value;
    Context context(*this, *value.as<Call>(), *shape, as_tensor(type)->dtype);
    auto result = rule(context);
    if (!result) return value;
    op::Inference run;
    result->tensor = op::typed(run, result->tensor);
    if (!result->tensor->type) return value;  // the operator does not compute in that layout
    result->tensor = emit(result->tensor, var->name);
    if (op::program_layout(shape->size())) laid_out_[var.get()] = *result;
    return context.back(*result);
  }

 private:
  class Context : public op::LayoutContext {
   public:
    Context(ConvertLayout& pass, const Call& call, op::Shape shape, DataType dtype)
        : LayoutContext(call, std::move(shape), dtype, pass.target_), pass_(pass) {}
    Expr emit(const Expr& value) override { return pass_.emit(value); }
    const op::LaidOut* laid_out(const Expr& variable) const override {
      const auto* v = variable.as<Var>();
      const auto it = v ? pass_.laid_out_.find(v) : pass_.laid_out_.end();
      return it == pass_.laid_out_.end() ? nullptr : &it->second;
    }
    Expr definition(const Expr& variable) const override { return pass_.definition(variable); }
    int64_t dot_group(DataType data, DataType weight, DataType sum) const override {
      const auto form = dot_form(target, data, weight, sum);
      return form ? form->group : 0;
    }

   private:
    ConvertLayout& pass_;
  };

  Target target_;
  std::unordered_map<const Var*, op::LaidOut> laid_out_;  ///< of variables that the function keeps
};

}  // namespace
}  // namespace graph

static IRModule convert_layout(IRModule module, PassContext& context) {
  Target target = context.target.cast<TargetNode>();
  if (!target) return module;  // a blocked layout is a decision for a machine
  // A block has as many channels as a vector has lanes: no layout has one where vectors are too short.
  if (!cost::channel_block(target->lanes(f32), target)) return module;
  return graph::rewrite_functions<graph::ConvertLayout>(std::move(module), target);
}

const Pass& convert_layout_pass = register_pass({
    .name = "convert_layout",
    .run = convert_layout,
    .level = 2,
    .summary = "channels of convolutions in blocks as wide as a vector",
    .needs = {"infer_types"},
    .changes = Changes::sum_order,
});

}  // namespace tenon
