// SPDX-License-Identifier: Apache-2.0
#include "pipeline/memory_limit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/bodies.h"
#include "ir/calls_out.h"
#include "ir/origin.h"

namespace tenon {
namespace {

std::string size_text(int64_t bytes) {
  if (bytes < 1 << 20) return fmt::format("{:.1f} KiB", double(bytes) / 1024);
  return fmt::format("{:.1f} MiB", double(bytes) / (1 << 20));
}

/// The largest tensor that a call makes, in words, and the node of the model that wants it.
std::pair<std::string, std::string> largest_tensor(const IRModule& module) {
  std::pair<std::string, std::string> out;
  int64_t most = -1;
  for (auto [name, object] : module.functions()) {
    const auto* f = object.as<graph::Function>();
    if (!f) continue;
    graph::for_each_binding(f->body, [&](const graph::Binding& binding) {
      const graph::Expr value = binding->value;
      const auto* call = value.as<graph::Call>();
      if (!call || !graph::is_call_tir(value)) return;
      for (const graph::Type& type : call->type_args) {
        const auto shape = graph::known_shape(type);
        const auto* tensor = type.as<graph::TensorType>();
        if (!shape || !tensor || tensor->dtype.is_void()) continue;
        std::vector<int64_t> dims;
        for (const PrimExpr& d : *shape)
          if (const auto n = tir::as_int(d)) dims.push_back(*n);
        if (dims.size() != shape->size()) continue;
        const auto bytes = int64_t(storage_bytes(element_count(dims), tensor->dtype));
        if (bytes <= most) continue;
        most = bytes;
        out.first =
            fmt::format("{} is the largest, {} of {}, {}", binding->var->name, to_string(tensor->dtype),
                        fmt::format("[{}]", fmt::join(dims, ", ")), size_text(bytes));
        out.second = place(value->origin);
      }
    });
  }
  return out;
}

}  // namespace

void check_memory_limit(const IRModule& module, int64_t limit) {
  int64_t arena = 0;
  for (auto [name, object] : module.functions())
    if (const auto* f = object.as<graph::Function>())
      if (f->plan) arena = std::max(arena, f->plan->arena_bytes);
  if (limit == 0 || arena <= limit) return;
  const auto [largest, where] = largest_tensor(module);
  fail("T0902",
       fmt::format("intermediate tensors need {}, more than the limit of {}{}", size_text(arena),
                   size_text(limit), largest.empty() ? "" : "; " + largest),
       where, "give a larger limit, or smaller dimensions with --dim", ErrorKind::limit);
}

}  // namespace tenon
