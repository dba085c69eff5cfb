// SPDX-License-Identifier: Apache-2.0
#include "pipeline/bind_inputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/diagnostic.h"
#include "base/nearest.h"
#include "ir/pass.h"
#include "ir/text.h"
#include "pipeline/dimensions.h"
#include "pipeline/program_entry.h"

namespace tenon {
namespace {

constexpr int64_t kShownElements = 8;  ///< of a bound value, in messages

std::string text_of(const NDArray& a) {
  std::vector<std::string> items;
  for (int64_t i = 0; i < std::min(a.size(), kShownElements); ++i)
    items.push_back(a.dtype().is_float() ? fmt::format("{:g}", a.element(i))
                                         : fmt::format("{}", a.element_int(i)));
  if (a.size() > kShownElements) items.push_back("…");
  return fmt::format("{}({}) [{}]", to_string(a.dtype()), fmt::join(a.shape(), ", "), fmt::join(items, ", "));
}

/// Whether a parameter can be the tensor; `dims` receives what its shape says of symbolic sizes.
bool fits(const graph::Type& type, const NDArray& a, Map<std::string, int64_t>& dims) {
  const auto* t = graph::as_tensor(type);
  if (!t || (!t->dtype.is_void() && t->dtype != a.dtype()) || (t->ndim >= 0 && t->ndim != a.ndim()))
    return false;
  const auto shape = graph::known_shape(type);
  for (size_t i = 0; shape && i < shape->size(); ++i) {
    const int64_t size = a.shape()[i];
    const auto* symbol = (*shape)[i].as<tir::Var>();
    const auto have = symbol ? dims.find(symbol->name) : tir::as_int((*shape)[i]);
    if (have && *have != size) return false;
    if (symbol) dims.set(symbol->name, size);
  }
  return true;
}

}  // namespace

IRModule bind_inputs(IRModule module, const Map<std::string, NDArray>& values) {
  const std::string entry = entry_name(module);
  const auto main = module.find(entry).cast<graph::Function>();
  if (!main)
    fail("T0912", "the module has no graph function whose inputs could be bound", {}, {}, ErrorKind::usage);
  std::vector<std::string> names;
  for (const auto& p : main->params) names.push_back(p->name);
  DiagnosticList problems(ErrorKind::usage);
  Map<std::string, int64_t> dims;
  for (const auto& [name, value] : values) {
    const auto at = std::ranges::find(names, name);
    if (at == names.end()) {
      problems.add("T0912", fmt::format("the model has no input `{}`", name), {},
                   did_you_mean(name, names, "its inputs are "));
      continue;
    }
    const graph::Type& type = main->params[size_t(at - names.begin())]->declared;
    if (!fits(type, value, dims))
      problems.add("T0953", fmt::format("the input `{}` is {} and cannot be bound to {}", name, print(type),
                                        text_of(value)));
  }
  problems.throw_if_any();
  if (!dims.empty()) module = specialize_dims(std::move(module), sizes_of(dims));
  Map<std::string, NDArray> own;  // the caller's may change
  for (const auto& [name, value] : values) own.set(name, value.copy());
  PassContext context;
  context.options.set("bind_params.values", own);
  context.options.set("bind_params.function", entry);
  return with_bound_inputs(run_pass("bind_params", std::move(module), context), values);
}

IRModule with_bound_inputs(IRModule module, const Map<std::string, NDArray>& values) {
  const std::string entry = entry_name(module);
  auto main = module.find(entry).cast<graph::Function>();
  if (!main || values.empty()) return module;
  Map<std::string, Any> texts;
  if (const auto had = main->attrs.find("bound_inputs")) texts = had->as<Map<std::string, Any>>();
  for (const auto& [name, value] : values) texts.set(name, Any(text_of(value)));
  main.edit()->attrs.set("bound_inputs", Any(texts));
  module.set(entry, main);
  return module;
}

}  // namespace tenon
