// SPDX-License-Identifier: Apache-2.0
// run_codegen: regions get what their external code generators make of them.
//
//   before   lv = tenon_cutlass_main_0(x, w)           with Codegen = "cutlass"
//   after    lv = R.call_dps_packed("cutlass.gemm", (x, w), out_sinfo=…)      or the function that it gave
//
// The generator "tenon.ext.NAME" gets a module of its regions with the functions that these call, and the
// options "KEY=VALUE". It gives a map from each region's name to the name of a packed function, which writes
// its results into its last arguments, to a module whose function of that name computes the region, or to a
// function of C text or LLVM IR (tir.ImportedFunction). Needs: types. Keeps: values as far as the generators
// do.
#include <fmt/format.h>

#include "base/function.h"
#include "ir/bodies.h"
#include "ir/pass.h"
#include "ir/structural.h"
#include "ir/symbols.h"
#include "ir/walk.h"
#include "op/unify.h"
#include "pass/graph/module/private_functions.h"
#include "pass/graph/partition/imported_program.h"
#include "pass/graph/partition/outline.h"

namespace tenon {
namespace graph {
namespace {

const Option<Map<std::string, std::string>> kOptions{
    "run_codegen.options", {}, "what the generators get, by key"};

/// The functions that `name` calls, and it itself.
std::set<std::string> reached_from(const IRModule& module, const std::string& name) {
  std::set<std::string> seen{name};
  std::vector<std::string> work{name};
  while (!work.empty()) {
    const ObjectRef f = module.find(work.back());
    work.pop_back();
    post_order(f, [&](const ObjectRef& n) {
      if (const auto* g = n.as<GlobalVar>(); g && module.find(g->name) && seen.insert(g->name).second)
        work.push_back(g->name);
    });
  }
  return seen;
}

/// "nn.dense, nn.relu": what a region computes.
std::string operators_of(const IRModule& module, const std::string& name) {
  std::string out;
  for (const std::string& f : reached_from(module, name))
    if (const auto function = module.find(f).cast<Function>())
      for_each_binding(function->body, [&](const Binding& b) {
        if (const Op* op = op_of(b->value)) out += (out.empty() ? "" : ", ") + op->name;
      });
  return out;
}

class CodegenRunner {
 public:
  CodegenRunner(IRModule module, const Map<std::string, std::string>& options)
      : module_(std::move(module)), options_(options) {}

  IRModule run() {
    std::map<std::string, std::vector<std::string>> regions;  // of each generator
    for (const auto& [name, f] : graph_functions(module_))
      if (const auto codegen = f->attrs.find(std::string(kCodegen)))
        regions[codegen->as<std::string>()].push_back(name);
    for (const auto& [generator, names] : regions) run_one(generator, names);
    return module_;
  }

 private:
  [[noreturn]] void refuse(const std::string& code, const std::string& message,
                           const std::vector<std::string>& regions) {
    std::string text = message;
    for (const std::string& r : regions)
      text += fmt::format("\n  region `{}` of {}", r, operators_of(module_, r));
    fail(code, text, {}, {}, ErrorKind::usage);
  }

  void run_one(const std::string& generator, const std::vector<std::string>& names) {
    const tenon::Function make_code = registry::find("tenon.ext." + generator);
    if (!make_code)
      refuse("T1153", fmt::format("there is no external code generator `{}`", generator), names);
    IRModule regions = IRModule::create();
    std::set<std::string> callees;
    for (const std::string& name : names)
      for (const std::string& f : reached_from(module_, name)) {
        regions.set(f, module_.find(f));
        if (f != name) callees.insert(f);
      }
    const Any result = called(make_code, generator, regions, names);
    const auto made = result.try_as<AttrMap>();
    if (!made) refuse("T1154", fmt::format("the code generator `{}` gives no map", generator), names);
    for (const std::string& name : names) {
      const auto code = made->find(name);
      if (!code)
        refuse("T1154", fmt::format("the code generator `{}` leaves a region out", generator), {name});
      if (const auto symbol = code->try_as<std::string>())
        call_packed(name, *symbol);
      else if (const auto given = code->try_as<IRModule>(); given && *given)
        take(generator, name, *given);
      else if (const auto function = code->try_as<Ref<tir::ImportedFunction>>(); function && *function)
        call_imported(name, **function);
      else
        refuse("T1154",
               fmt::format("the code generator `{}` gives no name, module or imported function", generator),
               {name});
    }
  }

  /// An error that leaves the generator gets the regions' names on its way.
  Any called(const tenon::Function& make_code, const std::string& generator, const IRModule& regions,
             const std::vector<std::string>& names) {
    try {
      return make_code(regions, options_);
    } catch (const Error& e) {
      refuse("T1154", fmt::format("the code generator `{}` failed: {}", generator, e.message), names);
    }
  }

  void call_packed(const std::string& region, const std::string& symbol) {
    auto rewrite = [&](const Call& c, const VarRef& var, EmitBefore) -> Expr {
      const Type type = var->declared;
      for (const Expr& a : c.args)
        if (!as_tensor(a))
          refuse("T1154", "a packed function takes tensors, the region takes sizes, too", {region});
      const auto* tuple = type.as<TupleType>();
      return with_type(
          tenon::graph::call(get_op("call_dps_packed"), {Expr(make<ExternFunc>(symbol)), make<Tuple>(c.args)},
                             {}, tuple ? tuple->items : Array<Type>{type}),
          type);
    };
    module_ = rewrite_calls(module_, {region}, rewrite);
    module_.erase(region);
  }

  /// The region becomes a tensor program that calls the function.
  void call_imported(const std::string& region, const tir::ImportedFunction& function) {
    const auto f = module_.find(region).cast<Function>();
    std::vector<tir::VarRef> symbols;
    for (const VarRef& p : f->params) symbols_of(p->declared, symbols);
    const std::string program = module_.fresh_name(region + "_program");
    module_.set(program, imported_program(*f, Array<tir::VarRef>(symbols), function));
    auto rewrite = [&](const Call& c, const VarRef& var, EmitBefore) -> Expr {
      Array<PrimExpr> sizes;
      for (const SymbolValue& s : match_symbols(*f, c.args)) sizes.push_back(s.value);
      const auto* tuple = var->declared.as<TupleType>();
      return with_type(call_tir(make<GlobalVar>(program), c.args,
                                tuple ? tuple->items : Array<Type>{var->declared}, sizes),
                       var->declared);
    };
    module_ = rewrite_calls(module_, {region}, rewrite);
    module_.erase(region);
  }

  /// The region's function is the one of the module that was given; what that calls gets names of its own.
  void take(const std::string& generator, const std::string& region, const IRModule& given) {
    auto f = given.find(region).cast<Function>();
    const auto before = module_.find(region).cast<Function>();
    const Type wanted = op::function_type(*before);
    if (!f || !f->body || !structural_equal(op::function_type(*f), wanted, true))
      refuse("T1154",
             fmt::format("the code generator `{}` gives no function of the region's type", generator),
             {region});
    std::map<std::string, std::string> names;
    for (const std::string& name : reached_from(given, region))
      if (name != region && !structural_equal(given.find(name), module_.find(name))) {
        names[name] = module_.fresh_name(name);
        module_.set(names[name], given.find(name));
      }
    auto renamed = [&](const ObjectRef& function) {
      return rewrite_any(function, [&](const ObjectRef& n) -> ObjectRef {
        const auto* g = n.as<GlobalVar>();
        const auto it = g ? names.find(g->name) : names.end();
        return it == names.end() ? ObjectRef() : ObjectRef(with_type(make<GlobalVar>(it->second), g->type));
      });
    };
    for (const auto& [old, name] : names) module_.set(name, renamed(module_.find(name)));
    f = renamed(f).cast<Function>();
    AttrMap attrs;
    for (const auto& [name, value] : f->attrs)
      if (name != kCodegen && name != "global_symbol") attrs.set(name, value);
    f.edit()->attrs = attrs;
    module_.set(region, f);
  }

  IRModule module_;
  const Map<std::string, std::string>& options_;
};

}  // namespace
}  // namespace graph

static IRModule run_codegen(IRModule module, PassContext& context) {
  const auto options = context.options.get(graph::kOptions);
  return graph::CodegenRunner(std::move(module), options).run();
}

const Pass& run_codegen_pass = register_pass({
    .name = "run_codegen",
    .run = run_codegen,
    .summary = "regions get what their external code generators make of them",
    .needs = {"infer_types"},
    .options = {graph::kOptions},
});

}  // namespace tenon
