// SPDX-License-Identifier: Apache-2.0
// "compiler.memory": what a model's memory plan needs, beside the least that any plan can do with.
//
//   memory        model, target, opt_level, dims, dim_bounds, threads → json: arena_bytes, lower_bound_bytes,
//                 ratio, constant_bytes, functions[{name, arena_bytes, lower_bound_bytes, tensors, planned,
//                 pool, joined}]
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/function.h"
#include "ir/walk.h"
#include "pipeline/compile.h"
#include "pipeline/program_entry.h"

namespace tenon {
namespace {

using memory_json = nlohmann::ordered_json;

std::map<std::string, int64_t> sizes(const AttrMap& request, const std::string& key) {
  std::map<std::string, int64_t> out;
  if (const auto given = request.find(key); given && !given->is_none())
    for (const auto& [name, value] : given->as<AttrMap>()) out[name] = value.as<int64_t>();
  return out;
}

AttrMap memory_report(const AttrMap& request) {
  CompileOptions options;
  const auto target = request.find("target");
  const std::string text = target ? target->as<std::string>() : std::string();
  options.target = text.empty() ? host_target() : parse_target(text);
  if (const auto level = request.find("opt_level")) options.opt_level = level->as<int>();
  if (const auto threads = request.find("threads")) options.threads = threads->as<int>();
  options.dim_bounds = sizes(request, "dim_bounds");
  const auto dims = sizes(request, "dims");
  for (const auto& [name, value] : dims) options.dim_bounds.erase(name);
  const IRModule module = module_at_stage(with_entry(load_model(request.at("model").as<std::string>(), dims)),
                                          options, "plan_memory");
  memory_json functions = memory_json::array();
  int64_t arena = 0, bound = 0, constants = 0;
  std::set<uint64_t> seen;
  for (const auto& [name, object] : module.functions()) {
    post_order(object, [&](const ObjectRef& n) {
      const auto* c = n.as<graph::Constant>();
      if (c && seen.insert(c->data.hash()).second) constants += int64_t(c->data.byte_size());
    });
    const auto* f = object.as<graph::Function>();
    if (!f || !f->plan) continue;
    int64_t tensors = 0, planned = 0;
    for (const Array<int64_t>& call : f->plan->calls)
      for (int64_t offset : call) ++tensors, planned += offset >= 0;
    const int64_t own = f->plan->arena_bytes, least = f->plan->lower_bound;
    functions.push_back({{"name", name},
                         {"arena_bytes", own},
                         {"lower_bound_bytes", least},
                         {"tensors", tensors},
                         {"planned", planned},
                         {"pool", tensors - planned},
                         {"joined", f->plan->joined.size()}});
    arena = std::max(arena, own);
    bound = std::max(bound, least);
  }
  const memory_json out = {{"arena_bytes", arena},
                           {"lower_bound_bytes", bound},
                           {"ratio", bound ? double(arena) / double(bound) : 1.0},
                           {"constant_bytes", constants},
                           {"functions", functions}};
  return {{"json", out.dump()}};
}

const bool memory_registered = [] {
  registry::add("compiler.memory",
                TypedFunction<AttrMap(AttrMap)>([](AttrMap request) { return memory_report(request); },
                                                "compiler.memory")
                    .packed(),
                false, "the memory plan of a model beside its lower bound");
  return true;
}();

}  // namespace
}  // namespace tenon
