// SPDX-License-Identifier: Apache-2.0
// use_libraries: what a library of the target computes faster becomes a call of it.
//
//   before   lv = R.matmul(x, w)                                  # the target names the library: -libs=cblas
//   after    lv = R.call_dps_packed("tenon.cblas.matmul", (x, w), out_sinfo=R.Tensor((m, n), "float32"))
//
// Libraries and their conditions are the operator's strategy's (op/strategy.h); both forms are compiled and
// run (library_choice.h), so a call whose sizes are not known stays, as all do where the target's code does
// not run. `choose=always` takes a library that can, unmeasured. Stands before packing and layouts, which
// would hide the operator. Needs: types; a target; results of known shape. Keeps: types; values up to the
// order of the library's sums.
#include "op/body_rewriter.h"
#include "pass/graph/lowering/library_choice.h"

namespace tenon {
namespace graph {
namespace {

class UseLibraries : public BodyRewriter {
 public:
  UseLibraries(const Function& f, LibraryChooser& chooser, PassContext& context) {
    std::vector<Binding> bindings;
    for_each_binding(f.body, [&](const Binding& b) { bindings.push_back(b); });
    for (size_t i = 0; i < bindings.size(); ++i) {
      const auto choice = chooser.choose(bindings, i);
      if (!choice) continue;
      const VarRef& var = bindings[i]->var;
      if (context.report) context.report("use_libraries", Any(var->name + ": " + choice->why));
      if (!choice->function.empty()) functions_[var.get()] = choice->function;
    }
  }

 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    const auto it = functions_.find(var.get());
    return it == functions_.end() ? value : library_call(it->second, *value.as<Call>(), value->type);
  }

 private:
  std::map<const Var*, std::string> functions_;
};

}  // namespace
}  // namespace graph

static const Option<std::string> kChoose(
    "use_libraries.choose", "measured",
    "`measured`: a library computes what it is measured to compute faster; `always`: all that it can",
    {.one_of = {"measured", "always"}});

static IRModule use_libraries(IRModule module, PassContext& context) {
  Target target = context.target.cast<TargetNode>();
  if (!target || target->libs.empty()) return module;
  graph::LibraryChooser chooser(target, context.measure, context.options.get(kChoose) == "always");
  return module.map_graph([&](const std::string&, const Ref<graph::Function>& f) -> ObjectRef {
    Ref<graph::Function> out = graph::UseLibraries(*f, chooser, context).run(f);
    return out.same_as(f) ? ObjectRef() : ObjectRef(out);
  });
}

const Pass& use_libraries_pass = register_pass({
    .name = "use_libraries",
    .run = use_libraries,
    .level = 0,
    .summary = "what a library of the target computes faster becomes a call of it",
    .needs = {"infer_types"},
    .changes = Changes::sum_order,
    .options = {kChoose},
});

}  // namespace tenon
