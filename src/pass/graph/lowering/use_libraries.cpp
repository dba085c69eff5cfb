// SPDX-License-Identifier: Apache-2.0
// use_libraries: what a library of the target computes best becomes a call of it.
//
//   before   lv = R.matmul(x, w)                                  # the target names the library: -libs=cblas
//   after    lv = R.call_dps_packed("tenon.cblas.matmul", (x, w), out_sinfo=R.Tensor((m, n), "float32"))
//
// The choice is the operator's strategy's (op/strategy.h); without libraries in the target nothing happens.
// Stands before packing and layouts, which would hide the operator. Needs: types; a target; results of known
// shape. Keeps: types; values up to the order of the library's sums.
#include "op/body_rewriter.h"
#include "op/strategy.h"

namespace tenon {
namespace graph {
namespace {

class UseLibraries : public BodyRewriter {
 public:
  explicit UseLibraries(Target target) : target_(std::move(target)) {}

 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    const Op* op = op_of(value);
    if (!op || !op->pure || !op::find_strategy(op->name)) return value;
    const Type type = var->declared ? var->declared : value->type;
    if (!as_tensor(type) || !known_shape(type)) return value;
    const Call& call = *value.as<Call>();
    Ref<Call> typed = with_type(make<Call>(call.op, call.args, call.attrs, call.type_args), type);
    const auto choice = op::select(*typed, target_);
    if (!choice || choice->chosen.external.empty()) return value;
    Array<Expr> tensors;
    for (const Expr& a : call.args)
      if (as_tensor(a)) tensors.push_back(a);
    return with_type(tenon::graph::call(
                         get_op("call_dps_packed"),
                         {Expr(make<ExternFunc>(choice->chosen.external)), make<Tuple>(tensors)}, {}, {type}),
                     type, call.origin);
  }

 private:
  Target target_;
};

}  // namespace
}  // namespace graph

static IRModule use_libraries(IRModule module, PassContext& context) {
  Target target = context.target.cast<TargetNode>();
  if (!target || target->libs.empty()) return module;
  return graph::rewrite_functions<graph::UseLibraries>(std::move(module), target);
}

const Pass& use_libraries_pass = register_pass({
    .name = "use_libraries",
    .run = use_libraries,
    .level = 0,
    .summary = "what a library of the target computes becomes a call of it",
    .needs = {"infer_types"},
    .changes = Changes::sum_order,
});

}  // namespace tenon
