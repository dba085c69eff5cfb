// SPDX-License-Identifier: Apache-2.0
// bundle_model_params: parameters behind the inputs become one tuple.
//
//   before   main(x, w, b):  …                                    "num_inputs" = 1
//   after    main(x, model_params): w = model_params[0];  b = model_params[1];  …
//
// For entries with the attribute "num_inputs". Needs: types. Keeps: values.
#include "ir/bodies.h"
#include "ir/pass.h"

namespace tenon {

static IRModule bundle_model_params(IRModule module, PassContext&) {
  using namespace graph;
  return module.map_graph([](const std::string&, const Ref<graph::Function>& f) -> ObjectRef {
    auto inputs = f->attrs.find("num_inputs");
    const size_t n = inputs ? size_t(inputs->as<int64_t>()) : f->params.size();
    if (!f->body || n >= f->params.size()) return {};
    Array<VarRef> params;
    Array<Type> types;
    for (size_t i = 0; i < n; ++i) params.push_back(f->params[i]);
    for (size_t i = n; i < f->params.size(); ++i) types.push_back(f->params[i]->declared);
    const VarRef bundle = var("model_params", tuple_type(types));
    std::vector<Binding> bindings;
    for (size_t i = n; i < f->params.size(); ++i) {
      Expr item = with_type(make<TupleGetItem>(bundle, int64_t(i - n)), f->params[i]->declared);
      bindings.push_back(make<VarBindingNode>(f->params[i], item));
    }
    for (const Binding& b : bindings_of(f->body)) bindings.push_back(b);
    params.push_back(bundle);
    Ref<graph::Function> out = f;
    out.edit()->params = params;
    set_body(out, make_body(bindings, result_of(f->body)));
    return out;
  });
}

const Pass& bundle_model_params_pass = register_pass({
    .name = "bundle_model_params",
    .run = bundle_model_params,
    .summary = "parameters behind the inputs become a tuple",
    .needs = {"infer_types"},
});

}  // namespace tenon
