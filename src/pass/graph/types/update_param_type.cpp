// SPDX-License-Identifier: Apache-2.0
// update_param_type: parameters get more exact types, and what depends on them follows.
//
//   before   main(x: R.Tensor(ndim=2)): lv = R.exp(x)             update_param_type.types: x=<type>
//   after    main(x: R.Tensor((2, 3))): lv = R.exp(x)             # lv: (2, 3)
//
// Where the new type has another size for a symbol, the symbol becomes that size everywhere. Names are those
// of parameters of entries; others are refused (T1031). Keeps: values for arguments of the new types.
#include <fmt/format.h>

#include "base/diagnostic.h"
#include "ir/symbols.h"
#include "op/body_rewriter.h"

namespace tenon {
namespace graph {

using Types = Map<std::string, Type>;  ///< by parameter

namespace {

class UpdateParamType : public BodyRewriter {
 public:
  Ref<Function> update(const Ref<Function>& given, const Types& types) {
    const Ref<Function> f = with_sizes(given, new_sizes(given, types));
    Array<VarRef> params;
    for (const VarRef& p : f->params) {
      const auto type = types.find(p->name);
      if (!type) {
        params.push_back(p);
        continue;
      }
      const VarRef q = with_origin(var(p->name, *type), p->origin);
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
  static tir::VarMap new_sizes(const Ref<Function>& f, const Types& types) {
    tir::VarMap out;
    for (const VarRef& p : f->params) {
      const auto type = types.find(p->name);
      if (!type) continue;
      const auto before = known_shape(p->declared), after = known_shape(*type);
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

static const Option<graph::Types> kTypes("update_param_type.types", {}, "types for parameters of entries");

static IRModule update_param_type(IRModule module, PassContext& context) {
  using namespace graph;
  const Types types = context.options.get(kTypes);
  if (types.empty()) return module;
  std::set<std::string> known;
  IRModule next = module.map_graph([&](const std::string& name, const Ref<graph::Function>& f) -> ObjectRef {
    if (!f->body || !is_entry(name, *f)) return {};
    for (const VarRef& p : f->params) known.insert(p->name);
    Ref<graph::Function> out = UpdateParamType().update(f, types);
    return out.same_as(f) ? ObjectRef() : ObjectRef(out);
  });
  for (const auto& [name, type] : types)
    if (!known.count(name))
      fail("T1031", fmt::format("no entry has a parameter `{}`", name), {}, {}, ErrorKind::usage);
  return next;
}

const Pass& update_param_type_pass = register_pass({
    .name = "update_param_type",
    .run = update_param_type,
    .summary = "parameters get more exact types",
    .needs = {"infer_types"},
    .options = {kTypes},
});

}  // namespace tenon
