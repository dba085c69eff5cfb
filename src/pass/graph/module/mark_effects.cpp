// SPDX-License-Identifier: Apache-2.0
// mark_effects
//   before: a = R.call_tir(log, (x,), …)          log calls a packed function, or a C function of the process
//   after:  a = R.call_tir_impure(log, (x,), …)
// What such a program calls is not seen here and may have effects: its calls keep their order and number, and
// stay where nobody reads their results. Mathematics and what programs import (import_c, import_llvm) have
// none. Needs: nothing. Keeps: values, types.
#include <set>

#include "ir/imported_code.h"
#include "ir/op.h"
#include "ir/pass.h"
#include "ir/tir.h"
#include "op/body_rewriter.h"

namespace tenon {
namespace graph {
namespace {

/// Whether a program calls code of the process; programs that it calls are in `called`.
bool calls_process(const tir::PrimFuncNode& f, std::set<std::string>& called) {
  const bool imports = !tir::imported_code(f).empty();
  bool found = false;
  pre_order(f.body, [&](const ObjectRef& n) {
    const auto* c = n.as<tir::Call>();
    const auto* name = c && !c->args.empty() ? c->args[0].as<tir::StringImm>() : nullptr;
    if (!name) return true;
    if (c->op == "tir.call_prim_func") called.insert(name->value);
    found = found || c->op == "tir.call_packed" ||
            (c->op == "tir.call_extern" && !imports && !tir::is_mathematics(name->value));
    return true;
  });
  return found;
}

/// The programs of a module that have effects, by themselves or through others.
std::set<std::string> programs_with_effects(const IRModule& module) {
  std::map<std::string, std::set<std::string>> called;
  std::set<std::string> out;
  for (const auto& [name, object] : module.functions())
    if (const auto* f = object.as<tir::PrimFuncNode>(); f && f->body)
      if (calls_process(*f, called[name])) out.insert(name);
  for (bool grown = !out.empty(); grown;) {
    grown = false;
    for (const auto& [name, callees] : called)
      if (!out.count(name))
        for (const std::string& callee : callees)
          if (out.count(callee)) grown = out.insert(name).second;
  }
  return out;
}

class MarkEffects : public BodyRewriter {
 public:
  explicit MarkEffects(std::set<std::string> programs) : programs_(std::move(programs)) {}

 protected:
  Expr visit(const Expr& value, const VarRef&) override {
    const auto* call = value.as<Call>();
    const auto* program =
        call && is_op(value, "call_tir") && !call->args.empty() ? call->args[0].as<GlobalVar>() : nullptr;
    if (!program || !programs_.count(program->name)) return value;
    Ref<Call> marked = value.cast<Call>();
    marked.edit()->op = get_op("call_tir_impure");
    return with_origin(with_type(Expr(marked), value->type), value->origin);
  }

 private:
  std::set<std::string> programs_;
};

}  // namespace
}  // namespace graph

static IRModule mark_effects(IRModule module, PassContext&) {
  const std::set<std::string> programs = graph::programs_with_effects(module);
  if (programs.empty()) return module;
  return module.map_graph([&](const std::string&, const Ref<graph::Function>& f) -> ObjectRef {
    return graph::MarkEffects(programs).run(f);
  });
}

const Pass& mark_effects_pass = register_pass({
    .name = "mark_effects",
    .run = mark_effects,
    .level = 0,
    .summary = "calls of programs that call code of the process keep their place",
});

}  // namespace tenon
