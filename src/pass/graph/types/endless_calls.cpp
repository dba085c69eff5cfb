// SPDX-License-Identifier: Apache-2.0
#include "pass/graph/types/endless_calls.h"

#include <fmt/format.h>

#include <map>

#include "ir/bodies.h"
#include "ir/origin.h"

namespace tenon::graph {
namespace {

/// Functions of the module by name, each with the place of a call.
using Calls = std::map<std::string, Origin>;

Calls calls_for_sure(const Expr& body);

/// What each of the ways calls; each is looked at once, as choices stand in choices.
Calls in_all(const std::vector<Expr>& ways) {
  Calls out = calls_for_sure(ways[0]);
  for (size_t i = 1; i < ways.size() && !out.empty(); ++i) {
    const Calls other = calls_for_sure(ways[i]);
    std::erase_if(out, [&](const auto& call) { return !other.contains(call.first); });
  }
  return out;
}

/// Functions that a body calls on every way through it.
Calls calls_for_sure(const Expr& body) {
  Calls out;
  for (const Binding& b : bindings_of(body)) {
    const Expr& value = b->value;
    if (const auto* call = value.as<Call>()) {
      const auto* callee = call->op.as<GlobalVar>();
      if (callee) out.emplace(callee->name, call->origin ? call->origin : b->var->origin);
    } else if (const auto* choice = value.as<If>()) {
      out.merge(in_all({choice->true_branch, choice->false_branch}));
    } else if (const auto* match = value.as<Match>()) {
      std::vector<Expr> ways;
      for (const MatchClause& clause : match->clauses) ways.push_back(clause->body);
      if (!ways.empty()) out.merge(in_all(ways));
    } else if (const auto* loop = value.as<While>()) {
      out.merge(calls_for_sure(loop->condition));
    }
  }
  return out;
}

}  // namespace

void find_endless_calls(const IRModule& module, DiagnosticList& problems) {
  enum class State { waiting, done };
  std::map<std::string, State> states;
  struct Frame {
    std::string name;
    Calls left;
  };
  std::vector<Frame> stack;
  auto enter = [&](const std::string& name) {
    const auto f = module.find(name).cast<Function>();
    states[name] = f ? State::waiting : State::done;
    if (f) stack.push_back({name, calls_for_sure(f->body)});
  };
  for (const auto& [entry, object] : module.functions()) {
    const auto* f = object.as<Function>();
    if (!f || !is_entry(entry, *f) || states.contains(entry)) continue;
    for (enter(entry); !stack.empty();) {
      Frame& top = stack.back();
      if (top.left.empty()) {
        states[top.name] = State::done;
        stack.pop_back();
        continue;
      }
      const auto [callee, origin] = *top.left.begin();
      top.left.erase(top.left.begin());
      const auto known = states.find(callee);
      if (known == states.end()) {
        enter(callee);
      } else if (known->second == State::waiting) {
        Diagnostic d{"T1109",
                     callee == top.name
                         ? fmt::format("`{}` calls itself whatever it is given: the model never ends", callee)
                         : fmt::format("`{}` calls `{}`, which waits for it whatever it is given: the model "
                                       "never ends",
                                       top.name, callee),
                     place(origin),
                     {},
                     {}};
        if (origin && origin->span) d.span = origin->span;
        problems.add(std::move(d));
      }
    }
  }
}

}  // namespace tenon::graph
