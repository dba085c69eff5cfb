// SPDX-License-Identifier: Apache-2.0
#include "pipeline/program_entry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "ir/walk.h"
#include "pass/graph/passes.h"
#include "pipeline/te_build.h"

namespace tenon {
namespace {

[[noreturn]] void refuse(std::string message, const tir::PrimFunc& f, std::string help) {
  fail("T0928", std::move(message),
       f && f->body->origin && f->body->origin->span ? f->body->origin->span.to_string() : std::string(),
       std::move(help), ErrorKind::model);
}

/// How many of the last tensors of a program are its results: those that it stores to.
int64_t results_of(const std::string& name, const tir::PrimFunc& f) {
  std::set<const tir::Var*> stored;
  std::vector<std::pair<const tir::Var*, const tir::Var*>> parts;  // match_buffer: what it is of, itself
  pre_order(f->body, [&](const ObjectRef& n) {
    if (const auto* s = n.as<tir::BufferStore>()) stored.insert(s->buffer->data.get());
    if (const auto* b = n.as<tir::Block>())
      for (const tir::MatchBufferRegion& m : b->match_buffers)
        parts.emplace_back(m->source->buffer->data.get(), m->buffer->data.get());
    return !n.is<tir::PrimExprNode>();
  });
  for (size_t round = 0; round <= parts.size(); ++round) {
    const size_t before = stored.size();
    for (const auto& [whole, part] : parts)
      if (stored.count(part)) stored.insert(whole);
    if (stored.size() == before) break;
  }
  int64_t count = 0;
  for (const tir::VarRef& p : f->params) {
    const auto b = f->buffer_map.find(p);
    if (!b) continue;
    const bool written = stored.count((*b)->data.get()) != 0;
    if (!written && count > 0)
      refuse(fmt::format("the program `{}` reads the tensor `{}`, which stands behind one that it stores to",
                         name, (*b)->name),
             f, "give inputs first, then results; or call the program from a graph function");
    count += written;
  }
  if (count == 0)
    refuse(fmt::format("the program `{}` stores to none of its tensors", name), f,
           "results are the last parameters of a program");
  return count;
}

}  // namespace

std::string entry_name(const IRModule& module) {
  if (module.find("main").is<graph::Function>()) return "main";
  std::string only;
  for (const auto& [name, f] : module.functions())
    if (f.is<graph::Function>()) {
      if (!only.empty()) return "";
      only = name;
    }
  return only;
}

IRModule with_entry(IRModule module) {
  std::vector<std::string> programs;
  for (const auto& [name, f] : module.functions()) {
    if (f.is<graph::Function>()) return module;
    if (f.is<tir::PrimFuncNode>()) programs.push_back(name);
  }
  if (programs.empty())
    fail("T0928", "the module has no function to run", {}, "give it a graph function `main`",
         ErrorKind::model);
  std::string name = programs[0];
  tir::PrimFunc f = module.find("main").cast<tir::PrimFuncNode>();
  if (f)
    name = "main";
  else if (programs.size() > 1)
    refuse(fmt::format("which of the tensor programs `{}` runs is not clear", fmt::join(programs, "`, `")),
           {}, "name one of them main, or give the module a graph function that calls them");
  f = module.find(name).cast<tir::PrimFuncNode>();
  if (f->attrs.contains("tenon.kernel"))
    refuse(fmt::format("the program `{}` is lowered for kernels: its tensors are no longer known", name), f,
           "run the program as it was before make_packed_api");
  if (!f->attrs.contains("num_outputs")) {
    const int64_t count = results_of(name, f);
    f.edit()->attrs.set("num_outputs", Any(count));
  }
  if (name == "main") {
    module.erase(name);
    name = module.fresh_name("main_program");
    f.edit()->attrs.set("global_symbol", Any(name));
  }
  module.set(name, f);
  PassContext context;
  return infer_types(te::runnable(std::move(module), name), context);
}

}  // namespace tenon
