// SPDX-License-Identifier: Apache-2.0
#include "ir/function_symbols.h"

#include <fmt/format.h>

#include <map>

#include "ir/graph.h"
#include "ir/origin.h"
#include "ir/tir.h"
#include "ir/walk.h"

namespace tenon {

/// A program begins where the first of its statements does whose place is known.
static Origin origin_of(const ObjectRef& function) {
  if (const auto* f = function.as<graph::Function>()) return f->origin;
  Origin first;
  if (const auto* p = function.as<tir::PrimFuncNode>())
    pre_order(p->body, [&](const ObjectRef& n) {
      const auto* s = n.as<tir::StmtNode>();
      if (!first && s && s->origin && s->origin->span) first = s->origin;
      return !first;
    });
  return first;
}

Diagnostic two_of_symbol(const std::string& symbol, const std::string& first, const std::string& second,
                         const ObjectRef& second_function) {
  const Origin at = origin_of(second_function);
  return {"T1033", fmt::format("`{}` and `{}` have the same symbol `{}`", first, second, symbol),
          at ? place(at) : fmt::format("function `{}`", second), "give each a `global_symbol` of its own",
          at ? at->span : Span()};
}

void check_graph_symbols(const IRModule& module, DiagnosticList& problems) {
  std::map<std::string, std::string> functions;  // by symbol
  for (const auto& [name, object] : module.functions()) {
    const auto* f = object.as<graph::Function>();
    const auto symbol = f ? f->attrs.find("global_symbol") : std::nullopt;
    if (!symbol) continue;
    const auto [first, fresh] = functions.emplace(symbol->as<std::string>(), name);
    if (!fresh) problems.add(two_of_symbol(first->first, first->second, name, object));
  }
}

}  // namespace tenon
