// SPDX-License-Identifier: Apache-2.0
#include "ir/module.h"

#include "base/define_type.h"
#include "base/time_limit.h"
#include "ir/attr_keys.h"
#include "ir/parallel.h"
#include "ir/tir.h"

namespace tenon {

std::string IRModule::fresh_name(const std::string& hint) const {
  if (!get()->functions.contains(hint)) return hint;
  for (int i = 1;; ++i)
    if (std::string name = hint + "_" + std::to_string(i); !get()->functions.contains(name)) return name;
}

template <class Node>
static IRModule map_functions(const IRModule& module,
                              FunctionRef<ObjectRef(const std::string&, const Ref<Node>&)> f) {
  IRModule out = module;
  for (auto [name, function] : module.functions())
    if (auto typed = function.template cast<Node>())
      if (ObjectRef next = f(name, typed); next && !next.same_as(function)) out.set(name, next);
  return out;
}
std::string words_of(const std::string& name, const tir::PrimFunc& program) {
  const auto sources = program->attrs.get_or(kSourceAttr, Any(Array<std::string>())).as<Array<std::string>>();
  std::string nodes;
  constexpr size_t kShown = 3;
  for (size_t i = 0; i < std::min(sources.size(), kShown); ++i) nodes += (i ? "; " : " of ") + sources[i];
  return fmt::format("the program `{}`{}{}", name, nodes, sources.size() > kShown ? "; …" : "");
}
IRModule IRModule::map_graph(
    FunctionRef<ObjectRef(const std::string&, const Ref<graph::Function>&)> f) const {
  return map_functions<graph::Function>(*this, f);
}
IRModule IRModule::map_prim(FunctionRef<ObjectRef(const std::string&, const tir::PrimFunc&)> f) const {
  const auto visit = [&](const std::string& name, const tir::PrimFunc& program) {
    const AtWork at([&] { return words_of(name, program); });
    TimeLimit::check();
    return f(name, program);
  };
  if (ParallelPrograms::threads() <= 1) return map_functions<tir::PrimFuncNode>(*this, visit);
  std::vector<std::pair<std::string, tir::PrimFunc>> programs;
  for (auto [name, function] : functions())
    if (auto typed = function.cast<tir::PrimFuncNode>()) programs.emplace_back(name, typed);
  std::vector<ObjectRef> next(programs.size());
  for_each_parallel(programs.size(), ParallelPrograms::threads(),
                    [&](size_t i) { next[i] = visit(programs[i].first, programs[i].second); });
  IRModule out = *this;
  for (size_t i = 0; i < programs.size(); ++i)
    if (next[i] && !next[i].same_as(programs[i].second)) out.set(programs[i].first, next[i]);
  return out;
}

template const TypeInfo* type_info<OriginObj>();

namespace {
// Known by key (JSON, text) even before one is made.
const bool opaque_types_registered = [] {
  type_info<OriginObj>(), type_info<NDArrayObj>(), type_info<ArrayObj>(), type_info<MapObj>(),
      type_info<StringObj>();
  return true;
}();
}  // namespace

}  // namespace tenon

template struct tenon::DefineTypes<tenon::IRModuleNode>;
