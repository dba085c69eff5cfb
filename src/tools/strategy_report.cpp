// SPDX-License-Identifier: Apache-2.0
#include "tools/strategy_report.h"

#include <nlohmann/json.hpp>

#include "ir/bodies.h"
#include "ir/text.h"
#include "op/strategy.h"
#include "pass/graph/lowering/lower_function.h"
#include "pipeline/compile.h"
#include "pipeline/evaluator.h"

namespace tenon {

std::string strategies_json(IRModule module, const Target& target, PassContext context) {
  using namespace graph;
  using json = nlohmann::ordered_json;
  context.target = target;
  if (!context.evaluate) context.evaluate = make_evaluator();
  std::vector<Pass> passes;
  for (const Pass& p : graph_passes()) {
    if (p.name == "fuse_ops") break;
    // These carry the choice out; the report is about the operators that the model has.
    if (p.name != "use_libraries" && p.name != "convert_layout" && p.name != "pack_weights")
      passes.push_back(p);
  }
  module = run_passes(std::move(module), passes, context);
  json calls = json::array();
  for (auto [name, object] : module.functions()) {
    const auto* f = object.as<graph::Function>();
    if (!f) continue;
    for_each_binding(f->body, [&, function = name](const Binding& b) {
      const Expr value = b->value;
      const VarRef var = b->var;
      const Op* op = op_of(value);
      if (!op) return;
      const Call& call = *value.as<Call>();
      Ref<Call> typed = with_type(make<Call>(call.op, call.args, call.attrs, call.type_args),
                                  var->declared ? var->declared : value->type);
      if (!has_tensor_def(*op) || !typed->type || !can_lower(typed)) return;
      const auto choice = op::select(*typed, target);
      if (!choice) return;
      json entry = {{"function", function},
                    {"value", var->name},
                    {"operator", op->name},
                    {"type", print(typed->type)},
                    {"key", choice->key},
                    {"chosen", choice->chosen.name},
                    {"priority", choice->chosen.priority},
                    {"schedule", choice->chosen.schedule},
                    {"why", choice->why},
                    {"rejected", json::array()}};
      if (!choice->chosen.library.empty()) entry["library"] = choice->chosen.library;
      for (const auto& r : choice->rejected)
        entry["rejected"].push_back({{"name", r.name}, {"priority", r.priority}, {"reason", r.reason}});
      calls.push_back(std::move(entry));
    });
  }
  return json{{"target", to_string(target)}, {"calls", std::move(calls)}}.dump();
}

}  // namespace tenon
