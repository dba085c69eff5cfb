// SPDX-License-Identifier: Apache-2.0
// plan_memory: every intermediate tensor of known size gets a place in the function's arena.
//
//   before   lv = R.call_tir(conv, …);  lv1 = R.call_tir(relu, (lv,), …)
//   after    the same, and R.memory_plan(calls=[[0], [0]], arena_bytes=4096, lower_bound=4096)
//
// Where another order of the pure bindings needs an arena that is smaller by a share that is worth it, they
// stand in that order (option `reorder`; plan_memory_order.h).
//
// Needs: call_tir. Keeps: values, the order of effects. Results, tensors handed to packed functions, kept in
// references, data or closures, and tensors of unknown size are not in the arena (offset -1): they come from
// the pool. An element-wise program may write over an input that dies there ("tir.noalias" of that program
// becomes false).
//
// Control flow shares the arena: what branches of one choice make may lie at one place, because only one of
// them runs; the state of a loop has a place of its own (`loops`: one per loop variable, -1: a register),
// into which each iteration copies its result. Functions that others call lie behind their callers; recursive
// ones, and those used as values, have no arena.
//
// A symbolic size with an upper bound (option `bounds`) is planned at its most; the plan says with which.
//
// A concatenation whose parts lie one behind the other in memory (leading axes are 1, so with one image also
// channels in blocks) is no work: its parts are written into its memory, and the plan lists it as joined, so
// that no call is made. Not where a part is something else's memory (a parameter, a result, a
// part of another concatenation) or would not begin on 64 bytes. A program that no call is left of has the
// attribute "tenon.memory_only".
#include "pass/graph/lowering/plan_memory.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/attr_keys.h"
#include "ir/bodies.h"
#include "ir/calls_out.h"
#include "ir/pass.h"
#include "ir/tir.h"
#include "ir/walk.h"
#include "pass/graph/lowering/lower_function.h"
#include "pass/graph/lowering/plan_memory_order.h"
#include "pass/graph/types/size_bounds.h"

namespace tenon {
namespace graph {
namespace {

/// Another order also changes what caches hold: taken for an arena that is smaller by one part in so many.
constexpr int64_t kWorthReordering = 20;

/// A function and its plan, in the order of its pure bindings that needs the smallest arena of those tried.
struct Ordered {
  Ref<Function> function;
  PlannedMemory plan;
};
Ordered plan_in_best_order(const Ref<Function>& f, const IRModule& module, const PlanOptions& options) {
  Ordered best{f, plan_function(*f, module, options)};
  if (!options.arena || !options.reorder) return best;
  for (MemoryOrder order : {MemoryOrder::depth, MemoryOrder::list}) {
    const Expr body = reordered_for_memory(f->body, order, options.bounds);
    if (body.same_as(f->body)) continue;
    Ref<Function> other = f;
    other.edit()->body = body;
    PlannedMemory p = plan_function(*other, module, options);
    if (p.arena_bytes <= best.plan.arena_bytes - best.plan.arena_bytes / kWorthReordering &&
        p.arena_bytes < best.plan.arena_bytes)
      best = {other, std::move(p)};
  }
  return best;
}

/// Who calls each graph function. `without` gets those that have no arena, because their calls nest or may
/// come from anywhere: functions used as values, recursive ones, and all that these reach.
std::map<std::string, std::vector<std::string>> callers_of(const IRModule& module,
                                                           std::set<std::string>& without) {
  std::map<std::string, std::vector<std::string>> callees, callers;
  std::vector<std::string> values;
  for (auto [name, object] : module.functions()) {
    if (!object.is<Function>()) continue;
    callers[name];
    auto value = [&](const Expr& e) {
      if (const auto* g = e.as<GlobalVar>()) values.push_back(g->name);
    };
    post_order(object, [&, from = name](const ObjectRef& n) {
      if (const auto* c = n.as<Call>()) {
        for (const Expr& a : c->args) value(a);
        if (const auto* g = c->op.as<GlobalVar>()) callees[from].push_back(g->name);
      }
      if (const auto* t = n.as<Tuple>())
        for (const Expr& i : t->items) value(i);
      if (const auto* q = n.as<SeqExpr>()) value(q->body);
      if (const auto* b = n.as<VarBindingNode>()) value(b->value);
      if (const auto* w = n.as<While>())
        for (const Expr& i : w->init) value(i);
      if (const auto* f = n.as<Function>()) value(f->body);
    });
  }
  auto reach = [&](std::vector<std::string> from, std::set<std::string>& out) {
    while (!from.empty()) {
      const std::string name = from.back();
      from.pop_back();
      if (!out.insert(name).second) continue;
      for (const std::string& c : callees[name]) from.push_back(c);
    }
  };
  reach(values, without);
  for (const auto& [name, unused] : callers) {
    std::set<std::string> reached;
    reach(callees[name], reached);
    if (reached.count(name)) reach({name}, without);
  }
  for (const auto& [name, list] : callees)
    for (const std::string& c : list)
      if (callers.count(c)) callers[c].push_back(name);
  return callers;
}

/// What was planned, as the function carries it; its arena begins at `begin`.
Ref<MemoryPlan> plan_node(const PlannedMemory& p, const PlannedBindings& bindings, int64_t begin,
                          const SizeBounds& bounds) {
  auto placed = [&](int64_t offset) { return offset < 0 ? offset : begin + offset; };
  auto out = make<MemoryPlan>();
  MemoryPlan* plan = out.edit();
  size_t tensor = 0;
  for (size_t i = 0; i < bindings.calls.size(); ++i) {
    Array<int64_t> offsets;
    if (p.joined.count(int64_t(tensor))) plan->joined.push_back(int64_t(i));
    for (size_t k = bindings.calls[i].second->type_args.size(); k-- > 0;)
      offsets.push_back(placed(p.tensors[tensor++].offset));
    plan->calls.push_back(offsets);
  }
  for (const std::vector<int64_t>& loop : p.states) {
    Array<int64_t> offsets;
    for (int64_t offset : loop) offsets.push_back(placed(offset));
    plan->loops.push_back(offsets);
  }
  for (const auto& [symbol, most] : bounds) plan->bounds.set(symbol, most);
  plan->arena_bytes = p.arena_bytes ? begin + p.arena_bytes : 0;
  plan->lower_bound = p.lower_bound;
  return out;
}

}  // namespace

}  // namespace graph

static const Option<bool> kInPlace("plan_memory.in_place", true, "results take the memory of arguments");
static const Option<bool> kConcat("plan_memory.concat", true, "parts are written into their concatenation");
static const Option<bool> kReorder("plan_memory.reorder", true,
                                   "pure bindings change places where that makes the arena smaller");

static IRModule plan_memory(IRModule module, PassContext& context) {
  using namespace graph;
  PlanOptions options;
  options.in_place = context.options.get(kInPlace);
  options.concat = context.options.get(kConcat);
  options.reorder = context.options.get(kReorder);
  for (const auto& [name, most] : context.options.get(kSizeBounds)) options.bounds[name] = most;
  std::set<std::string> without;
  const auto callers = callers_of(module, without);
  std::set<std::string> aliased, joined, called;
  const IRModule whole = module;
  std::map<std::string, Ordered> plans;
  for (auto [name, object] : module.functions()) {
    const auto f = object.cast<graph::Function>();
    if (!f || is_primitive(*f)) continue;
    PlanOptions o = options;
    o.arena = !without.count(name);
    plans[name] = plan_in_best_order(f, whole, o);
  }
  // The arena of a called function begins behind those of all its callers. No cycles are left here.
  std::map<std::string, int64_t> base;
  std::vector<std::string> todo;
  for (const auto& [name, unused] : plans) todo.push_back(name);
  while (!todo.empty()) {
    const std::string name = todo.back();
    if (base.count(name) || without.count(name) || !plans.count(name)) {
      todo.pop_back();
      continue;
    }
    int64_t begin = 0;
    bool ready = true;
    for (const std::string& c : callers.at(name)) {
      if (without.count(c) || !plans.count(c)) continue;
      if (!base.count(c)) {
        todo.push_back(c);
        ready = false;
        break;
      }
      begin = std::max(begin, base[c] + plans[c].plan.arena_bytes);
    }
    if (!ready) continue;
    base[name] = begin;
    todo.pop_back();
  }
  module = module.map_graph([&](const std::string& name, const Ref<graph::Function>&) -> ObjectRef {
    const auto it = plans.find(name);
    if (it == plans.end()) return {};
    const PlannedMemory& p = it->second.plan;
    aliased.insert(p.in_place.begin(), p.in_place.end());
    Ref<graph::Function> out = it->second.function;
    const PlannedBindings bindings = planned_bindings(*out);
    out.edit()->plan = plan_node(p, bindings, base[name], options.bounds);
    for_each_binding(out->body, [&](const Binding& b) {
      const auto* call = b->value.as<Call>();
      const auto* g = call && !call->args.empty() ? call->args[0].as<GlobalVar>() : nullptr;
      if (g && !is_call_tir(b->value)) called.insert(g->name);
    });
    int64_t tensor = 0;
    for (const auto& [var, call] : bindings.calls) {
      if (const auto* g = call->args[0].as<GlobalVar>())
        (p.joined.count(tensor) ? joined : called).insert(g->name);
      tensor += int64_t(call->type_args.size());
    }
    return out;
  });
  return module.map_prim([&](const std::string& name, const tir::PrimFunc& f) -> ObjectRef {
    const bool only_memory = joined.count(name) && !called.count(name);
    if (!aliased.count(name) && !only_memory) return {};
    tir::PrimFunc out = f;
    if (aliased.count(name)) out.edit()->attrs.set("tir.noalias", Any(false));
    if (only_memory) out.edit()->attrs.set(kMemoryOnlyAttr, Any(true));
    return out;
  });
}

const Pass& plan_memory_pass = register_pass({
    .name = "plan_memory",
    .run = plan_memory,
    .level = 0,
    .summary = "places of intermediate tensors in one arena",
    .needs = {"lower_to_call_tir"},
    .options = {kInPlace, kConcat, kReorder, kSizeBounds},
});

}  // namespace tenon
