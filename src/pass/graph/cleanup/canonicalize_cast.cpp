// SPDX-License-Identifier: Apache-2.0
// canonicalize_cast: a cast to a wider type with several users is made by each of them.
//
//   before   lv = R.cast(x, "float32");  lv1 = R.exp(lv);  lv2 = R.sin(lv)               # x float16
//   after    lv1_cast = R.cast(x, "float32");  lv1 = R.exp(lv1_cast);  lv2_cast = …;  lv2 = R.sin(lv2_cast)
//
// So each user's kernel reads the narrow tensor, and the wide one is never stored. For element-wise users;
// stands behind eliminate_common_subexpr, which would undo it. Needs: types. Keeps: values bit by bit.
#include <unordered_set>

#include "op/body_rewriter.h"
#include "op/build.h"

namespace tenon {
namespace graph {
namespace {

class CanonicalizeCast : public BodyRewriter {
 public:
  explicit CanonicalizeCast(std::unordered_map<const Var*, int> uses) : uses_(std::move(uses)) {}

 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    const Op* op = op_of(value);
    if (!op || !op->pure || op::definition(*op).fusion > FusionKind::broadcast || op->name == "cast")
      return value;
    const Call& call = *value.as<Call>();
    Array<Expr> args = call.args;
    bool changed = false;
    for (size_t i = 0; i < args.size(); ++i) {
      const Call* cast = args[i] ? definition_call(args[i], "cast") : nullptr;
      if (!cast || made_.count(args[i].as<Var>())) continue;
      const auto *from = as_tensor(cast->args[0]), *to = as_tensor(args[i]);
      auto used = uses_.find(args[i].as<Var>());
      if (!from || !to || from->dtype.bits >= to->dtype.bits || used == uses_.end() || used->second < 2)
        continue;
      const Expr old = args[i];
      Expr copy = emit(op::op_call("cast", cast->args, cast->attrs, cast->origin), var->name + "_cast");
      made_.insert(copy.as<Var>());
      for (size_t k = i; k < args.size(); ++k)
        if (args[k].same_as(old)) args.set(k, copy);
      changed = true;
    }
    if (!changed) return value;
    return with_origin(tenon::graph::call(call.op, args, call.attrs, call.type_args), call.origin);
  }

 private:
  std::unordered_map<const Var*, int> uses_;
  std::unordered_set<const Var*> made_;
};

}  // namespace
}  // namespace graph

static IRModule canonicalize_cast(IRModule module, PassContext&) {
  using namespace graph;
  return module.map_graph([](const std::string&, const Ref<graph::Function>& f) -> ObjectRef {
    CanonicalizeCast rewriter(count_uses(*f));
    Ref<graph::Function> out = rewriter.run(f);
    return out.same_as(f) ? ObjectRef() : ObjectRef(out);
  });
}

const Pass& canonicalize_cast_pass = register_pass({
    .name = "canonicalize_cast",
    .run = canonicalize_cast,
    .summary = "each user of a wider value widens it itself",
    .needs = {"infer_types"},
});

}  // namespace tenon
