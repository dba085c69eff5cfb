// SPDX-License-Identifier: Apache-2.0
// "compiler.memory": what a model's memory plan needs, beside the least that any plan can do with.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "capi/compiler_function.h"
#include "capi/request_model.h"
#include "ir/walk.h"
#include "pipeline/program_entry.h"

namespace tenon {
namespace {

using json = nlohmann::ordered_json;

AttrMap memory_report(const MemoryRequest& r) {
  CompileOptions options = options_of<PassSettings>(r);
  options.dim_bounds = r.dim_bounds;
  IRModule loaded = load_with_dims(r.model, options);
  const IRModule module = module_at_stage(with_entry(std::move(loaded)), options, "plan_memory");
  json functions = json::array();
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
  const json out = {{"arena_bytes", arena},
                    {"lower_bound_bytes", bound},
                    {"ratio", bound ? double(arena) / double(bound) : 1.0},
                    {"constant_bytes", constants},
                    {"functions", functions}};
  return reply_json(out);
}

const bool memory_registered = [] {
  add_compiler_function("memory", memory_report, "the memory plan of a model beside its lower bound");
  return true;
}();

}  // namespace
}  // namespace tenon
