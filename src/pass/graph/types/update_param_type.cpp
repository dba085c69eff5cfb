// SPDX-License-Identifier: Apache-2.0
// update_param_type: parameters get more exact types, and what depends on them follows.
//
//   before   main(x: R.Tensor(ndim=2)): lv = R.exp(x)             config "update_param_type": {"x": type}
//   after    main(x: R.Tensor((2, 3))): lv = R.exp(x)             # lv: (2, 3)
//
// Where the new type has another size for a symbol, the symbol becomes that size everywhere. Configuration:
// "update_param_type", a map from names of parameters of entries to types. Needs: types.
// Keeps: values for arguments of the new types.
#include "ir/symbols.h"
#include "op/body_rewriter.h"
#include "pass/graph/passes.h"

namespace tenon {
namespace graph {
namespace {

class UpdateParamType : public BodyRewriter {
 public:
  Ref<Function> update(const Ref<Function>& given, const AttrMap& types) {
    const Ref<Function> f = with_sizes(given, new_sizes(given, types));
    Array<VarRef> params;
    for (const VarRef& p : f->params) {
      auto type = types.find(p->name);
      auto wanted = type ? type->try_as<ObjectRef>() : std::nullopt;
      if (!wanted || !wanted->is<TypeNode>()) {
        params.push_back(p);
        continue;
      }
      const VarRef q = var(p->name, wanted->cast<TypeNode>());
      q.mut()->origin = p->origin;
      changed_.emplace_back(p, q);
      params.push_back(q);
    }
    if (changed_.empty()) return given;
    Ref<Function> out = f;
    out.edit()->params = params;
    out = run(out);
    if (const Type type = result_of(out->body)->type) out.edit()->ret_type = type;
    return out;
  }

 protected:
  void enter_scope() override {
    for (const auto& [old, fresh] : changed_) replace(old, fresh);
  }

 private:
  /// What the new types say of symbols: (n, 4) becoming (3, 4) says that n is 3.
  static tir::VarMap new_sizes(const Ref<Function>& f, const AttrMap& types) {
    tir::VarMap out;
    for (const VarRef& p : f->params) {
      auto type = types.find(p->name);
      auto wanted = type ? type->try_as<ObjectRef>() : std::nullopt;
      if (!wanted || !wanted->is<TypeNode>()) continue;
      const auto before = known_shape(p->declared), after = known_shape(wanted->cast<TypeNode>());
      if (!before || !after || before->size() != after->size()) continue;
      for (size_t i = 0; i < before->size(); ++i)
        if (const auto* v = (*before)[i].as<tir::Var>(); v && !(*after)[i].same_as((*before)[i]))
          out.emplace(v, (*after)[i]);
    }
    return out;
  }
  std::vector<std::pair<VarRef, VarRef>> changed_;
};

}  // namespace
}  // namespace graph

IRModule update_param_type(IRModule module, PassContext& context) {
  using namespace graph;
  const AttrMap types = config_or<AttrMap>(context, "update_param_type", {});
  if (types.empty()) return module;
  return module.map_graph([&](const std::string& name, const Ref<graph::Function>& f) -> ObjectRef {
    if (!f->body || !is_entry(name, *f)) return {};
    Ref<graph::Function> out = UpdateParamType().update(f, types);
    return out.same_as(f) ? ObjectRef() : ObjectRef(out);
  });
}

}  // namespace tenon
