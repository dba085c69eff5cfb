// SPDX-License-Identifier: Apache-2.0
#include "tools/strategy_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ir/bodies.h"
#include "ir/text.h"
#include "pass/graph/lowering/library_choice.h"
#include "pass/graph/lowering/lower_function.h"
#include "pipeline/compile.h"
#include "pipeline/evaluator.h"

namespace tenon {

using json = nlohmann::ordered_json;

namespace {

/// What the call gets that `bindings[at]` binds, and why; empty where there is nothing to choose.
json described(const std::vector<graph::Binding>& bindings, size_t at, const Target& target,
               graph::LibraryChooser& libraries) {
  using namespace graph;
  const VarRef var = bindings[at]->var;
  const Expr value = bindings[at]->value;
  const Op* op = op_of(value);
  if (!op) return {};
  const Call& call = *value.as<Call>();
  Ref<Call> typed = with_type(make<Call>(call.op, call.args, call.attrs, call.type_args),
                              var->declared ? var->declared : value->type);
  if (!has_tensor_def(*op) || !typed->type || !can_lower(typed)) return {};
  const auto library = libraries.choose(bindings, at);
  auto choice = op::select(*typed, target, false);
  if (!choice) return {};
  if (library) {
    choice->why = library->why;
    for (const op::OpImpl& l : op::library_implementations(*typed, target)) {
      const auto same = [&](const auto& r) { return r.name == l.name; };
      if (l.external != library->function) {
        std::ranges::find_if(choice->rejected, same)->reason = library->why;
        continue;
      }
      std::erase_if(choice->rejected, same);
      choice->rejected.insert(choice->rejected.begin(),
                              {choice->chosen.name, choice->chosen.priority, library->why});
      choice->chosen = l;
    }
  }
  json entry = {{"function", ""},
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
  return entry;
}

}  // namespace

std::string strategies_json(IRModule module, const Target& target, PassContext context) {
  using namespace graph;
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
  LibraryChooser libraries(target, context.measure, false);
  for (auto [name, object] : module.functions()) {
    const auto* f = object.as<graph::Function>();
    if (!f) continue;
    std::vector<Binding> bindings;
    for_each_binding(f->body, [&](const Binding& b) { bindings.push_back(b); });
    for (size_t i = 0; i < bindings.size(); ++i)
      if (json call = described(bindings, i, target, libraries); !call.empty()) {
        call["function"] = name;
        calls.push_back(std::move(call));
      }
  }
  return json{{"target", to_string(target)}, {"calls", std::move(calls)}}.dump();
}

}  // namespace tenon
