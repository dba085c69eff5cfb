// SPDX-License-Identifier: Apache-2.0
#include "codegen/calls.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "codegen/lowered.h"
#include "ir/imported_code.h"

namespace tenon::codegen {
namespace {

using namespace tir;

std::string symbol_of(const std::string& name, const PrimFuncNode& f) {
  return f.attrs.get_or("global_symbol", Any(name)).as<std::string>();
}
/// The name that a call of the kind has as its first argument; null for other nodes.
const std::string* named(const ObjectRef& n, std::string_view op) {
  const auto* c = n.as<tir::Call>();
  const auto* name = c && c->op == op && !c->args.empty() ? c->args[0].as<StringImm>() : nullptr;
  return name ? &name->value : nullptr;
}
void for_each_program(const IRModule& module,
                      const std::function<void(const std::string&, const PrimFuncNode&)>& f) {
  for (const auto& [name, object] : module.functions())
    if (const auto* p = object.as<PrimFuncNode>(); p && p->body) f(name, *p);
}
NamesByKernel collect(const IRModule& module, std::string_view op,
                      const std::function<bool(const PrimFuncNode&, const std::string&)>& counts) {
  NamesByKernel out;
  for_each_program(module, [&](const std::string& name, const PrimFuncNode& f) {
    std::vector<std::string> names;
    pre_order(f.body, [&](const ObjectRef& n) {
      const std::string* called = named(n, op);
      if (called && counts(f, *called) && std::ranges::find(names, *called) == names.end())
        names.push_back(*called);
      return true;
    });
    if (!names.empty()) out.emplace_back(symbol_of(name, f), std::move(names));
  });
  return out;
}

bool is_identifier(const std::string& s) {
  auto letter = [](char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return !s.empty() && letter(s[0]) &&
         std::ranges::all_of(s, [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

/// The programs that call packed functions, by themselves or through others.
std::set<std::string> callers(const IRModule& module) {
  std::map<std::string, std::set<std::string>> calls;  // by symbol
  std::set<std::string> out;
  for_each_program(module, [&](const std::string& name, const PrimFuncNode& f) {
    const std::string symbol = symbol_of(name, f);
    pre_order(f.body, [&](const ObjectRef& n) {
      if (named(n, "tir.call_packed")) out.insert(symbol);
      if (const std::string* callee = named(n, "tir.call_prim_func")) calls[symbol].insert(*callee);
      return true;
    });
  });
  for (bool grown = !out.empty(); grown;) {
    grown = false;
    for (const auto& [symbol, callees] : calls)
      if (!out.count(symbol) &&
          std::ranges::any_of(callees, [&](const std::string& c) { return out.count(c) != 0; }))
        grown = out.insert(symbol).second;
  }
  return out;
}

}  // namespace

NamesByKernel packed_functions(const IRModule& module) {
  return collect(module, "tir.call_packed", [](const PrimFuncNode&, const std::string&) { return true; });
}

NamesByKernel external_functions(const IRModule& module) {
  const std::vector<std::string> imported = imported_functions(module);
  return collect(module, "tir.call_extern", [&](const PrimFuncNode& f, const std::string& name) {
    return !tir::is_mathematics(name) && imported_code(f).empty() &&
           std::ranges::find(imported, name) == imported.end();
  });
}

std::set<std::string> externals_of(const ObjectCode& code) {
  std::set<std::string> out;
  for (const auto& [kernel, names] : code.externals)
    for (const std::string& name : names)
      if (out.insert(name).second && !dlsym(RTLD_DEFAULT, name.c_str()))
        fail("T0625", fmt::format("this process has no C function `{}`", name),
             fmt::format("kernel `{}`", kernel), "load the library that has it first, with global symbols",
             ErrorKind::model);
  return out;
}

/// Whether the value of a call is all that a statement computes: then there is no question of what comes
/// before it.
static bool stands_alone(const ObjectRef& statement, const tir::Call* call) {
  PrimExpr value;
  if (const auto* n = statement.as<LetStmt>()) value = n->value;
  if (const auto* n = statement.as<BufferStore>()) value = n->value;
  if (const auto* n = statement.as<tir::Evaluate>()) value = n->value;
  if (const auto* n = statement.as<IfThenElse>()) value = n->condition;
  while (const auto* cast = value.as<Cast>()) value = cast->value;
  return value.get() == call;
}

/// Calls of packed functions inside of expressions.
static void check_places(const std::string& kernel, const PrimFuncNode& f, DiagnosticList* problems) {
  pre_order(f.body, [&](const ObjectRef& statement) {
    if (!statement.is<StmtNode>()) return false;
    for (const ObjectRef& child : children(statement))
      if (child.is<PrimExprNode>())
        pre_order(child, [&](const ObjectRef& n) {
          const std::string* name = named(n, "tir.call_packed");
          if (name && !stands_alone(statement, n.as<tir::Call>()))
            problems->add(Diagnostic{
                "T0801",
                fmt::format("the packed function `{}` is called inside of an expression", *name),
                fmt::format("kernel {}", kernel),
                "give its value to a variable first: the order of calls and loads is then that of the lines",
                {}});
          return true;
        });
    return true;
  });
}

void check_calls(const IRModule& module, DiagnosticList* problems) {
  const std::set<std::string> calling = callers(module);
  std::set<std::string> kernels;
  for (const std::string& symbol : kernel_symbols(module)) kernels.insert(symbol);
  for (const auto& [kernel, names] : external_functions(module))
    for (const std::string& name : names) {
      const bool own = kernels.count(name) != 0;
      if (own || !is_identifier(name))
        problems->add(
            Diagnostic{"T0801",
                       fmt::format("the C function `{}` cannot be called: {}", name,
                                   own ? "a program of the module has this symbol" : "this is no name of C"),
                       fmt::format("kernel {}", kernel),
                       own ? "call the program with T.call_prim_func" : "",
                       {}});
    }
  if (calling.empty()) return;
  for_each_program(module, [&](const std::string& name, const PrimFuncNode& f) {
    check_places(symbol_of(name, f), f, problems);
    pre_order(f.body, [&](const ObjectRef& n) {
      const auto* loop = n.as<For>();
      if (!loop || loop->kind != ForKind::parallel) return true;
      pre_order(loop->body, [&](const ObjectRef& inner) {
        const std::string* packed = named(inner, "tir.call_packed");
        const std::string* callee = named(inner, "tir.call_prim_func");
        if (packed || (callee && calling.count(*callee)))
          problems->add(Diagnostic{
              "T0801",
              packed ? fmt::format("the packed function `{}` is called in a parallel loop", *packed)
                     : fmt::format("a parallel loop calls `{}`, which calls packed functions", *callee),
              fmt::format("kernel {}", symbol_of(name, f)),
              "make the loop serial: packed functions are called in order, on the thread that runs the model",
              {}});
        return true;
      });
      return false;
    });
  });
}

}  // namespace tenon::codegen
