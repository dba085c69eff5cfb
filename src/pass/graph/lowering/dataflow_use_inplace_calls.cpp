// SPDX-License-Identifier: Apache-2.0
// dataflow_use_inplace_calls: a program writes its result over an argument that nobody needs any more.
//
//   before   lv1 = R.call_tir(relu, (lv,), …)                          # the last use of lv
//   after    lv1 = R.call_tir_inplace(relu_inplace, (lv,), inplace_indices=[0], …)
//
// For arguments that an earlier program of the same body made, that nothing else reads afterwards, and whose
// elements the program reads only to write the result's at the same place (may_write_in_place). plan_memory
// does the same on its plan without changing calls; this pass says it in the program, for those who read or
// run the module as it is (the VM of this version copies the argument first). Constant shapes, one result.
// Needs: call_tir. Keeps: values.
#include <unordered_set>

#include "ir/bodies.h"
#include "ir/pass.h"
#include "ir/tir.h"
#include "op/attrs.h"
#include "pass/graph/fusion/programs.h"
#include "pass/graph/lowering/lower_function.h"

namespace tenon {
namespace graph {
namespace {

class UseInplaceCalls {
 public:
  explicit UseInplaceCalls(IRModule module) : module_(std::move(module)) {}

  IRModule run() {
    for (const auto& [name, f] : graph_functions(module_)) {
      uses_ = count_uses(*f);
      Expr next = body(f->body);
      if (!next.same_as(f->body)) module_.set(name, with_bodies(f, {next}));
    }
    erase_uncalled(module_, replaced_);
    return module_;
  }

 private:
  Expr body(const Expr& e) {
    std::vector<Binding> bindings = bindings_of(e);
    std::unordered_set<const Var*> made;  // by programs of this body, in memory of their own
    bool changed = false;
    for (Binding& b : bindings) {
      if (!b.is<VarBindingNode>()) continue;
      const Expr value = b->value;
      changed |= map_bodies(b, [&](const Expr& x) { return body(x); });
      const auto call = program_call(value, module_);
      if (!call || call->outputs.size() != 1 || !call->scalars.empty()) continue;
      for (size_t i = 0; i < call->args.size(); ++i) {
        const auto* v = call->args[i].as<Var>();
        // One use altogether: this one.
        if (!v || !made.count(v) || uses_[v] != 1 || !may_write_in_place(call->program, i, call->args.size()))
          continue;
        const std::string name = in_place(*call, i);
        if (name.empty()) continue;
        b = make<VarBindingNode>(b->var, inplace_call(name, *call, i, value));
        changed = true;
        break;
      }
      made.insert(b->var.get());
    }
    return changed ? make_body(bindings, result_of(e)) : e;
  }

  static Expr inplace_call(const std::string& name, const ProgramCall& call, size_t at, const Expr& value) {
    return with_type(graph::call(get_op("call_tir_inplace"), {global(name), make<Tuple>(call.args)},
                                 make<op::InplaceAttrs>(Array<int64_t>{int64_t(at)}), call.outputs),
                     value->type, value->origin);
  }

  /// The program without its result: it stores to argument `at`.
  std::string in_place(const ProgramCall& call, size_t at) {
    auto [it, fresh] = programs_.try_emplace({call.name, at});
    if (!fresh) return it->second;
    auto p = staged(tir::rename_all(call.program));
    if (!p || p->params.size() != call.args.size() + 1) return {};
    const tir::Buffer in = p->params[at], out = p->params.back();
    // A plan of memory may give one place to elements of one size; one parameter has one type.
    if (in->dtype != out->dtype) return {};
    p->params.pop_back();
    for (tir::Stmt& s : p->stages) s = tir::replace_buffers(s, {{out.get(), in}});
    it->second = module_.fresh_name(call.name + "_inplace");
    module_.set(it->second, program_of(*p, it->second, 0, call.program->attrs));
    replaced_.insert(call.name);
    return it->second;
  }

  IRModule module_;
  std::unordered_map<const Var*, int> uses_;
  std::map<std::pair<std::string, size_t>, std::string> programs_;
  std::set<std::string> replaced_;
};

}  // namespace
}  // namespace graph

static IRModule dataflow_use_inplace_calls(IRModule module, PassContext&) {
  return graph::UseInplaceCalls(std::move(module)).run();
}

const Pass& dataflow_use_inplace_calls_pass = register_pass({
    .name = "dataflow_use_inplace_calls",
    .run = dataflow_use_inplace_calls,
    .summary = "programs write over arguments that nobody needs any more",
    .needs = {"lower_to_call_tir"},
});

}  // namespace tenon
