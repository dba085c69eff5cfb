// SPDX-License-Identifier: Apache-2.0
// qnn_canonicalize: operators of quantised tensors, and recurrent layers, become the operators that they are
// made of, which layouts, packing and fusion know.
//
//   before   lv = R.qnn.dequantize(x, s, z)
//   after    lv1 = R.cast(x, "float32");  lv2 = R.subtract(lv1, z);  lv = R.multiply(lv2, s)
//
// Needs: types. Keeps: values; the formula is the operator's own (OpDef::canonical).
#include "op/body_rewriter.h"
#include "op/build.h"

namespace tenon {
namespace graph {
namespace {

class QnnCanonicalize : public BodyRewriter {
 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    const Op* op = op_of(value);
    if (!op || !op::definition(*op).canonical) return value;
    op::Inference run;
    op::InferContext ctx(run, *value.as<Call>());
    const Expr form = op::definition(*op).canonical(ctx);
    if (!form) return value;
    bound_.clear();
    return flat(form, value.as<Call>()->origin, var->name);
  }

 private:
  /// The formula with each operand bound, equal ones once.
  Expr flat(const Expr& e, const Origin& origin, const std::string& name) {
    auto bound = [&](const Expr& operand) {
      if (is_leaf(operand)) return operand;
      auto [it, first] = bound_.try_emplace(operand.get());
      if (first) {
        const Expr value = emit(flat(operand, origin, name), name);
        bound_[operand.get()] = value;
        return value;
      }
      return it->second;
    };
    if (const auto* c = e.as<Call>())
      return op::op_call(op_of(e)->name, c->args.map(bound), c->attrs, origin);
    if (const auto* t = e.as<Tuple>()) return op::tuple(t->items.map(bound));
    if (const auto* g = e.as<TupleGetItem>()) return op::get_item(bound(g->tuple), g->index);
    return e;
  }

  std::unordered_map<const Object*, Expr> bound_;
};

}  // namespace
}  // namespace graph

const Pass& qnn_canonicalize_pass = register_pass({
    .name = "qnn_canonicalize",
    .run = graph::each_function<graph::QnnCanonicalize>,
    .level = 1,
    .summary = "operators of quantised tensors and recurrent layers become those that they are made of",
    .needs = {"infer_types"},
});

}  // namespace tenon
