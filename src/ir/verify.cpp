// SPDX-License-Identifier: Apache-2.0
// The verifier of modules: data types, and functions of each kind (verify_prim_func.cpp, verify_graph.cpp)
// side by side. Every problem is collected.
#include "ir/verify.h"

#include <fmt/format.h>

#include <unordered_set>

#include "ir/graph.h"
#include "ir/parallel.h"
#include "ir/tir.h"
#include "ir/walk.h"

namespace tenon {

/// Fields of data types name what exists.
static void verify_types(const IRModule& module, DiagnosticList& problems) {
  for (const auto& [name, def] : module.get()->types) {
    auto add = [&, n = name](std::string message) {
      problems.add(Diagnostic{"T0331", std::move(message), fmt::format("data type `{}`", n), {}, {}});
    };
    const std::unordered_set<std::string> params(def->params.begin(), def->params.end());
    for (const auto& c : def->constructors)
      for (const graph::Type& t : c->items)
        post_order(t, [&](const ObjectRef& n) {
          if (const auto* v = n.as<graph::TypeVar>(); v && !params.count(v->name))
            add(fmt::format("there is no type parameter `{}`", v->name));
          const auto* a = n.as<graph::AdtType>();
          if (!a) return;
          const graph::AdtDef other = module.find_type(a->name);
          if (!other)
            add(fmt::format("the module has no data type `{}`", a->name));
          else if (other->params.size() != a->args.size())
            add(fmt::format("data type `{}` has {} parameters and is given {}", a->name, other->params.size(),
                            a->args.size()));
        });
  }
}

static void verify_function(const std::string& name, const ObjectRef& function, const IRModule& module,
                            DiagnosticList& problems, bool typed, bool given) {
  if (auto f = function.cast<tir::PrimFuncNode>())
    verify_prim_func(name, f, problems, given);
  else if (auto g = function.cast<graph::Function>())
    verify_graph_function(name, g, module, problems, typed);
  else if (!function.is<graph::ExternFunc>())
    problems.add(Diagnostic{
        "T0317", fmt::format("`{}` is {}, no function", name, type_key_of(function)), "module", {}, {}});
}

static void verify_all(const IRModule& module, DiagnosticList& problems, bool typed, VerifiedPrograms& known,
                       bool given) {
  verify_types(module, problems);
  std::vector<std::pair<std::string, ObjectRef>> functions;
  VerifiedPrograms programs;
  for (const auto& [name, function] : module.functions()) {
    if (function.is<tir::PrimFuncNode>()) programs.emplace(function.get(), function);
    if (!known.contains(function.get())) functions.emplace_back(name, function);
  }
  std::vector<DiagnosticList> found(functions.size());
  for_each_parallel(functions.size(), ParallelPrograms::threads(), [&](size_t i) {
    verify_function(functions[i].first, functions[i].second, module, found[i], typed, given);
  });
  const bool right = problems.empty();
  for (const DiagnosticList& of_one : found)
    for (const Diagnostic& d : of_one.all()) problems.add(d);
  if (right && problems.empty()) known = std::move(programs);
}

void verify(const IRModule& module, DiagnosticList& problems, bool typed) {
  VerifiedPrograms none;
  verify_all(module, problems, typed, none, true);
}
void verify(const IRModule& module, DiagnosticList& problems, bool typed, VerifiedPrograms& known) {
  verify_all(module, problems, typed, known, false);
}

void verify_or_throw(const IRModule& module, bool typed) {
  DiagnosticList problems;
  verify(module, problems, typed);
  problems.throw_if_any();
}

}  // namespace tenon
