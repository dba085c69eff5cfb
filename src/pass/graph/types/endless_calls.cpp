// SPDX-License-Identifier: Apache-2.0
#include "pass/graph/types/endless_calls.h"

#include <fmt/format.h>

#include <map>
#include <unordered_map>
#include <vector>

#include "ir/bodies.h"
#include "ir/origin.h"

namespace tenon::graph {
namespace {

struct CallFound {
  std::string name;  ///< as the program says it
  Ref<Function> callee;
  Origin origin;
};
/// By name, local functions by number: those of one name are several.
using Calls = std::map<std::string, CallFound>;

class EndlessCalls {
 public:
  EndlessCalls(const IRModule& module, DiagnosticList& problems) : module_(module), problems_(problems) {}

  void run() {
    for (const auto& [name, object] : module_.functions()) {
      const auto f = object.cast<Function>();
      if (f && is_entry(name, *f) && !states_.contains(name)) from(name, f);
    }
  }

 private:
  enum class State { waiting, done };
  struct Frame {
    std::string key, name;
    Calls left;
  };

  void enter(const std::string& key, const std::string& name, const Ref<Function>& f) {
    states_[key] = State::waiting;
    for_each_binding(f->body, [&](const Binding& b) {
      if (const auto local = b->value.cast<Function>())
        locals_.try_emplace(b->var.get(), std::pair(number(), local));
    });
    stack_.push_back({key, name, calls_for_sure(f->body)});
  }
  std::string number() const { return fmt::format("\x7f{:09}", locals_.size()); }

  void from(const std::string& entry, const Ref<Function>& f) {
    for (enter(entry, entry, f); !stack_.empty();) {
      Frame& top = stack_.back();
      if (top.left.empty()) {
        states_[top.key] = State::done;
        stack_.pop_back();
        continue;
      }
      const auto [key, call] = *top.left.begin();
      top.left.erase(top.left.begin());
      const auto known = states_.find(key);
      if (known == states_.end())
        enter(key, call.name, call.callee);
      else if (known->second == State::waiting)
        report(key == top.key, top.name, call);
    }
  }
  void report(bool itself, const std::string& caller, const CallFound& call) {
    Diagnostic d{"T1109",
                 itself
                     ? fmt::format("`{}` calls itself whatever it is given: the model never ends", call.name)
                     : fmt::format("`{}` calls `{}`, which waits for it whatever it is given: the model "
                                   "never ends",
                                   caller, call.name),
                 place(call.origin),
                 {},
                 {}};
    if (call.origin && call.origin->span) d.span = call.origin->span;
    problems_.add(std::move(d));
  }

  /// What each of the ways calls; each is looked at once, as choices stand in choices.
  Calls in_all(const std::vector<Expr>& ways) const {
    Calls out = calls_for_sure(ways[0]);
    for (size_t i = 1; i < ways.size() && !out.empty(); ++i) {
      const Calls other = calls_for_sure(ways[i]);
      std::erase_if(out, [&](const auto& call) { return !other.contains(call.first); });
    }
    return out;
  }
  /// Functions that a body calls on every way through it.
  Calls calls_for_sure(const Expr& body) const {
    Calls out;
    for (const Binding& b : bindings_of(body)) {
      const Expr& value = b->value;
      if (const auto* call = value.as<Call>()) {
        called(*call, call->origin ? call->origin : b->var->origin, out);
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
  void called(const Call& call, const Origin& origin, Calls& out) const {
    if (const auto* g = call.op.as<GlobalVar>()) {
      if (const auto f = module_.find(g->name).cast<Function>())
        out.emplace(g->name, CallFound{g->name, f, origin});
    } else if (const auto* v = call.op.as<Var>()) {
      if (const auto it = locals_.find(v); it != locals_.end())
        out.emplace(it->second.first, CallFound{v->name, it->second.second, origin});
    }
  }

  const IRModule& module_;
  DiagnosticList& problems_;
  std::map<std::string, State> states_;
  std::unordered_map<const Var*, std::pair<std::string, Ref<Function>>> locals_;
  std::vector<Frame> stack_;
};

}  // namespace

void find_endless_calls(const IRModule& module, DiagnosticList& problems) {
  EndlessCalls(module, problems).run();
}

}  // namespace tenon::graph
