// SPDX-License-Identifier: Apache-2.0
// plan_memory: every intermediate tensor of known size gets a place in the function's arena.
//
//   before   lv = R.call_tir(conv, …);  lv1 = R.call_tir(relu, (lv,), …)
//   after    the same, and the function's attributes "arena_offsets": [0, 0], "arena_bytes": 4096
//
// Needs: call_tir. Keeps: the graph as it is. Results, loop states, branch results, tensors handed to packed
// functions and tensors of unknown size are not in the arena (offset -1): they come from the pool. Functions
// that other functions call have no arena, because calls nest. An element-wise program may write over an
// input that dies there ("tir.noalias" of that program becomes false).
//
// A concatenation whose parts lie one behind the other in memory (leading axes are 1, so with one image also
// channels in blocks) is no work: its parts are written into its memory, and the attribute "arena_joins"
// lists it, so that no call is made. Not where a part is something else's memory (a parameter, a result, a
// part of another concatenation) or would not begin on 64 bytes. A program that no call is left of has the
// attribute "tenon.memory_only". Configuration: "plan_memory.in_place", "plan_memory.concat" (both true).
#include "pass/graph/plan_memory.h"

#include <algorithm>
#include <map>
#include <set>

#include "pass/graph/lowering.h"
#include "pass/graph/passes.h"

namespace tenon {
namespace graph {
namespace {

constexpr int64_t kAlign = 64;
int64_t align(int64_t n) { return (n + kAlign - 1) / kAlign * kAlign; }

/// Of a tensor of known size; -1.
int64_t bytes_of(const Type& type) {
  const auto* t = type ? as_tensor(type) : nullptr;
  auto shape = t && !t->dtype.is_void() ? static_shape(type) : std::nullopt;
  return shape ? int64_t(storage_bytes(element_count(*shape), t->dtype)) : -1;
}

bool is_call_tir(const Expr& value) { return value.is<Call>() && is_op(value, "call_tir"); }
size_t num_outputs(const Expr& value) { return value.as<Call>()->type_args.size(); }

/// Tensors that a value may be made of; items when it is a tuple whose parts are known apart.
struct Alias {
  std::set<int> ids;
  std::vector<Alias> items;
  void add(const Alias& o) {
    ids.insert(o.ids.begin(), o.ids.end());
    for (const Alias& i : o.items) ids.insert(i.ids.begin(), i.ids.end()), add_nested(i);
  }
  std::set<int> all() const {
    std::set<int> out = ids;
    for (const Alias& i : items) {
      std::set<int> more = i.all();
      out.insert(more.begin(), more.end());
    }
    return out;
  }

 private:
  void add_nested(const Alias& o) {
    for (const Alias& i : o.items) ids.insert(i.ids.begin(), i.ids.end()), add_nested(i);
  }
};

class Planner {
 public:
  Planner(const IRModule& module, bool arena, bool in_place, bool concat)
      : module_(module), arena_(arena), in_place_(in_place), concat_(concat) {}

  MemoryPlan run(const Function& f) {
    for (auto [name, object] : module_.functions())
      if (object.is<Function>() && !has_references_)
        post_order(object, [&](const ObjectRef& n) {
          const auto* op = n.as<Op>();
          has_references_ = has_references_ || (op && (op->name == "ref_create" || op->name == "ref_write"));
        });
    Alias result = body(f.body);
    escape(result);
    resolve_loops();
    if (arena_) {
      join_concats();
      choose_in_place();
      place();
    }
    return std::move(plan_);
  }

 private:
  struct CallSite {
    VarRef var;
    Expr value;
    int step;
    int first;
    std::vector<Alias> args;
    std::vector<int64_t> bytes;  ///< of the arguments; -1: not known
    int loop;
  };
  struct Loop {
    int begin, end;
    int parent;
  };

  Alias of(const Expr& e) const {
    if (const auto* v = e.as<Var>()) {
      auto it = aliases_.find(v);
      return it == aliases_.end() ? Alias() : it->second;
    }
    if (const auto* t = e.as<Tuple>()) {
      Alias out;
      for (const Expr& i : t->items) out.items.push_back(of(i));
      return out;
    }
    return {};
  }

  void use(const Alias& a) {
    for (int id : a.all()) {
      PlannedTensor& t = plan_.tensors[size_t(id)];
      t.end = std::max(t.end, step_);
      // A loop around the use, but not around the definition, reads again in its next turn.
      int outermost = -1;
      for (int loop = loop_; loop >= 0; loop = loops_[size_t(loop)].parent)
        if (loops_[size_t(loop)].begin > t.begin) outermost = loop;
      if (outermost >= 0) loop_uses_.emplace_back(id, outermost);
    }
  }
  void escape(const Alias& a) {
    for (int id : a.all()) escaped_.insert(id);
  }

  Alias body(const Expr& e) {
    for (const Binding& b : bindings_of(e)) {
      const Expr value = binding_value(b);
      Alias made = visit(binding_var(b), value);
      aliases_[binding_var(b).get()] = made;
      ++step_;
    }
    Alias result = of(result_of(e));
    use(result);
    return result;
  }

  Alias visit(const VarRef& var, const Expr& value) {
    if (const auto* n = value.as<If>()) {
      use(of(n->condition));
      Alias t = body(n->true_branch), f = body(n->false_branch);
      ++step_;
      // A value of either branch is held in one register: its memory must not be planned.
      escape(t), escape(f);
      Alias out;
      out.add(t), out.add(f);
      return out;
    }
    if (const auto* n = value.as<Match>()) {
      Alias subject = of(n->value), out;
      use(subject);
      for (const MatchClause& c : n->clauses) {
        // A part of a tuple may be any tensor of it; parts of other data are not planned.
        std::vector<VarRef> vars;
        variables_of(c->pattern, vars);
        Alias part;
        part.add(subject);
        for (const VarRef& v : vars) aliases_[v.get()] = part;
        Alias made = body(c->body);
        escape(made);
        out.add(made);
        ++step_;
      }
      return out;
    }
    if (const auto* n = value.as<While>()) {
      Alias out;
      for (size_t i = 0; i < n->init.size(); ++i) {
        Alias init = of(n->init[i]);
        use(init);
        escape(init);
        aliases_[n->loop_vars[i].get()] = init;
        out.add(init);
      }
      ++step_;
      const int self = int(loops_.size());
      loops_.push_back({step_, step_, loop_});
      loop_ = self;
      use(out);
      escape(body(n->condition));
      ++step_;
      Alias next = body(n->body);
      escape(next);
      out.add(next);
      use(out);
      loops_[size_t(self)].end = step_;
      loop_ = loops_[size_t(self)].parent;
      ++step_;
      return out;
    }
    if (const auto* c = value.as<Call>()) return call(var, value, *c);
    if (const auto* t = value.as<TupleGetItem>()) {
      Alias tuple = of(t->tuple);
      use(tuple);
      if (size_t(t->index) < tuple.items.size()) return tuple.items[size_t(t->index)];
      Alias out;
      out.add(tuple);
      return out;
    }
    if (const auto* f = value.as<Function>()) {
      // When a closure runs is not known here: nothing that it touches is planned.
      for_each_use(f->body, [&](const VarRef& v) { use(of(v)), escape(of(v)); });
      const int first = int(plan_.tensors.size());
      body(f->body);
      for (int id = first; id < int(plan_.tensors.size()); ++id) escaped_.insert(id);
      return {};
    }
    Alias a = of(value);
    use(a);
    return a;
  }

  Alias call(const VarRef& var, const Expr& value, const Call& c) {
    if (is_call_tir(value)) {
      CallSite site{var, value, step_, int(plan_.tensors.size()), {}, {}, loop_};
      const auto* args = c.args[1].as<Tuple>();
      for (const Expr& a : args ? args->items : Array<Expr>{c.args[1]}) {
        site.args.push_back(of(a));
        site.bytes.push_back(bytes_of(a->type));
        use(site.args.back());
      }
      Alias out;
      for (size_t i = 0; i < num_outputs(value); ++i) {
        PlannedTensor t;
        t.name = var->name;
        t.begin = t.end = step_;
        if (const int64_t bytes = bytes_of(c.type_args[i]); bytes >= 0)
          t.bytes = align(std::max<int64_t>(1, bytes));
        Alias one;
        one.ids.insert(int(plan_.tensors.size()));
        out.items.push_back(one);
        plan_.tensors.push_back(t);
        loop_of_.push_back(loop_);
      }
      sites_.push_back(site);
      const bool tuple = var->declared ? var->declared.is<TupleType>() : c.type_args.size() != 1;
      return tuple ? out : out.items[0];
    }
    Alias out;
    const auto* name = c.args.empty() ? nullptr : c.args[0].as<ExternFunc>();
    const bool view = name && name->symbol.starts_with("vm.builtin.");
    const bool graph_function = c.op.is<GlobalVar>();
    for (const Expr& a : c.args) {
      Alias arg = of(a);
      use(arg);
      // A packed function, a reference, data or a closure may keep what it gets.
      if (!view && (!graph_function || has_references_)) escape(arg);
      out.add(arg);  // and may give it back
    }
    // What a called function returns may be its argument; the caller's tensors outlive the call then.
    return out;
  }

  void resolve_loops() {
    for (auto& [id, loop] : loop_uses_) {
      PlannedTensor& t = plan_.tensors[size_t(id)];
      t.end = std::max(t.end, loops_[size_t(loop)].end);
    }
  }

  bool planned(int id) const { return plan_.tensors[size_t(id)].bytes >= 0 && !escaped_.count(id); }

  /// The whole that a tensor is part of, and where in it.
  std::pair<int, int64_t> whole_of(int id) const {
    int64_t offset = 0;
    for (int up; (up = plan_.tensors[size_t(id)].part_of) >= 0; id = up)
      offset += plan_.tensors[size_t(id)].part_offset;
    return {id, offset};
  }

  void join_concats() {
    if (!concat_) return;
    for (const CallSite& site : sites_) {
      const auto* g = site.value.as<Call>()->args[0].as<GlobalVar>();
      tir::PrimFunc f = g ? module_.find(g->name).cast<tir::PrimFuncNode>() : tir::PrimFunc();
      auto axis = f ? f->attrs.find("tenon.concat_axis") : std::nullopt;
      const Type type = site.value.as<Call>()->type_args[0];
      const auto shape = static_shape(type);
      if (!axis || !shape || num_outputs(site.value) != 1 || !planned(site.first)) continue;
      bool fits = site.args.size() > 1;
      for (int64_t d = 0; d < axis->as<int64_t>(); ++d) fits = fits && (*shape)[size_t(d)] == 1;
      std::set<int> ids;
      int64_t offset = 0;
      for (size_t i = 0; fits && i < site.args.size(); ++i) {
        const std::set<int> one = site.args[i].all();
        fits = one.size() == 1 && site.bytes[i] > 0;
        if (!fits) break;
        const int id = *one.begin();
        const PlannedTensor& t = plan_.tensors[size_t(id)];
        fits = planned(id) && t.part_of < 0 && ids.insert(id).second && loop_of_[size_t(id)] == site.loop &&
               t.bytes == align(site.bytes[i]) && offset % kAlign == 0;
        offset += site.bytes[i];
      }
      if (!fits || offset != bytes_of(type)) continue;
      offset = 0;
      for (size_t i = 0; i < site.args.size(); ++i) {
        PlannedTensor& t = plan_.tensors[size_t(*site.args[i].all().begin())];
        t.part_of = site.first;
        t.part_offset = offset;
        offset += site.bytes[i];
      }
      plan_.joined.push_back(site.first);
    }
    // What shares memory lives as long as the longest of it: neither is overwritten before.
    std::map<int, int> end;
    for (int id = 0; id < int(plan_.tensors.size()); ++id) {
      int& e = end[whole_of(id).first];
      e = std::max(e, plan_.tensors[size_t(id)].end);
    }
    for (int id = 0; id < int(plan_.tensors.size()); ++id)
      plan_.tensors[size_t(id)].end = end[whole_of(id).first];
  }

  void choose_in_place() {
    if (!in_place_) return;
    const std::set<int64_t> joined(plan_.joined.begin(), plan_.joined.end());
    std::set<std::string> programs;
    std::set<int> taken;
    for (const CallSite& site : sites_) {
      const auto* g = site.value.as<Call>()->args[0].as<GlobalVar>();
      tir::PrimFunc f = g ? module_.find(g->name).cast<tir::PrimFuncNode>() : tir::PrimFunc();
      if (!f) continue;
      for (size_t o = 0; o < num_outputs(site.value); ++o) {
        const int out = site.first + int(o);
        if (!planned(out) || joined.count(out) || plan_.tensors[size_t(out)].part_of >= 0) continue;
        for (size_t a = 0; a < site.args.size(); ++a) {
          std::set<int> ids = site.args[a].all();
          if (ids.size() != 1) continue;
          const int in = *ids.begin();
          const PlannedTensor& t = plan_.tensors[size_t(in)];
          if (!planned(in) || t.part_of >= 0 || taken.count(in) || t.end != site.step ||
              t.bytes != plan_.tensors[size_t(out)].bytes)
            continue;
          int times = 0;
          for (const Alias& other : site.args)
            for (int id : other.all()) times += int(whole_of(id).first == in);
          if (times != 1 || !may_write_in_place(f, a, site.args.size() + o)) continue;
          plan_.tensors[size_t(out)].in_place_of = in;
          taken.insert(in);
          programs.insert(g->name);
          break;
        }
      }
    }
    plan_.in_place.assign(programs.begin(), programs.end());
  }

  /// Largest first; each takes the tightest gap between what lives at the same time and already has a place.
  void place() {
    struct Slot {
      int64_t bytes;
      int begin, end;
      int64_t offset;
      std::vector<int> tensors;
    };
    std::vector<Slot> slots;
    std::vector<int> slot_of(plan_.tensors.size(), -1);
    std::map<int, int> begin;  // of wholes: their first part's
    for (int id = 0; id < int(plan_.tensors.size()); ++id) {
      const int whole = whole_of(id).first, at = plan_.tensors[size_t(id)].begin;
      auto [it, fresh] = begin.emplace(whole, at);
      if (!fresh) it->second = std::min(it->second, at);
    }
    for (int id = 0; id < int(plan_.tensors.size()); ++id) {
      const PlannedTensor& t = plan_.tensors[size_t(id)];
      if (!planned(id) || t.part_of >= 0) continue;
      if (t.in_place_of >= 0) {
        slot_of[size_t(id)] = slot_of[size_t(t.in_place_of)];
        Slot& s = slots[size_t(slot_of[size_t(id)])];
        s.end = std::max(s.end, t.end);
        s.tensors.push_back(id);
      } else {
        slot_of[size_t(id)] = int(slots.size());
        slots.push_back({t.bytes, begin[id], t.end, -1, {id}});
      }
    }
    lower_bound(slots);
    std::vector<int> order(slots.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = int(i);
    std::sort(order.begin(), order.end(), [&](int a, int b) {
      const int64_t x = slots[size_t(a)].bytes, y = slots[size_t(b)].bytes;
      return x != y ? x > y : a < b;
    });
    // Placed slots by stretches of time, so that long programs stay fast.
    constexpr int kStretch = 128;
    std::map<int, std::vector<int>> stretches;
    for (int i : order) {
      Slot& s = slots[size_t(i)];
      std::vector<std::pair<int64_t, int64_t>> busy;
      std::set<int> seen;
      for (int k = s.begin / kStretch; k <= s.end / kStretch; ++k)
        for (int j : stretches[k]) {
          const Slot& o = slots[size_t(j)];
          if (o.begin <= s.end && s.begin <= o.end && seen.insert(j).second)
            busy.emplace_back(o.offset, o.offset + o.bytes);
        }
      std::sort(busy.begin(), busy.end());
      int64_t at = 0, best = -1, best_gap = INT64_MAX;
      for (auto& [from, to] : busy) {
        if (from - at >= s.bytes && from - at < best_gap) best = at, best_gap = from - at;
        at = std::max(at, to);
      }
      s.offset = best >= 0 ? best : at;
      plan_.arena_bytes = std::max(plan_.arena_bytes, s.offset + s.bytes);
      for (int k = s.begin / kStretch; k <= s.end / kStretch; ++k) stretches[k].push_back(i);
    }
    for (size_t id = 0; id < plan_.tensors.size(); ++id) {
      const auto [whole, offset] = whole_of(int(id));
      if (slot_of[size_t(whole)] >= 0)
        plan_.tensors[id].offset = slots[size_t(slot_of[size_t(whole)])].offset + offset;
    }
  }

  template <class Slots>
  void lower_bound(const Slots& slots) {
    std::map<int, int64_t> change;
    for (const auto& s : slots) change[s.begin] += s.bytes, change[s.end + 1] -= s.bytes;
    int64_t now = 0;
    for (auto& [step, bytes] : change) plan_.lower_bound = std::max(plan_.lower_bound, now += bytes);
  }

  const IRModule& module_;
  const bool arena_, in_place_, concat_;
  bool has_references_ = false;  ///< a called function may keep its arguments
  MemoryPlan plan_;
  int step_ = 0, loop_ = -1;
  std::vector<Loop> loops_;
  std::vector<std::pair<int, int>> loop_uses_;
  std::vector<CallSite> sites_;
  std::vector<int> loop_of_;  // of each tensor; -1: none
  std::set<int> escaped_;
  std::unordered_map<const Var*, Alias> aliases_;
};

MemoryPlan plan(const Function& function, const IRModule& module, bool arena, bool in_place, bool concat) {
  MemoryPlan joined = Planner(module, arena, in_place, concat).run(function);
  if (joined.joined.empty()) return joined;
  // A whole is held from its first part on: not at the price of a much larger arena.
  MemoryPlan apart = Planner(module, arena, in_place, false).run(function);
  return joined.arena_bytes <= apart.arena_bytes + apart.arena_bytes / 8 ? joined : apart;
}

}  // namespace

MemoryPlan plan_function(const Function& function, const IRModule& module, bool arena) {
  return plan(function, module, arena, true, true);
}

std::unordered_map<const Var*, int> planned_positions(const Function& function) {
  std::unordered_map<const Var*, int> out;
  int next = 0;
  for_each_binding(function.body, [&](const Binding& b) {
    if (!is_call_tir(binding_value(b))) return;
    out[binding_var(b).get()] = next;
    next += int(num_outputs(binding_value(b)));
  });
  return out;
}

namespace {
std::vector<int64_t> numbers(const Function& function, const char* attribute) {
  auto v = function.attrs.find(attribute);
  auto list = v ? v->try_as<Array<int64_t>>() : std::nullopt;
  return list && *list ? list->vec() : std::vector<int64_t>();
}
}  // namespace

std::vector<int64_t> planned_offsets(const Function& function) { return numbers(function, "arena_offsets"); }
std::vector<int64_t> planned_joins(const Function& function) { return numbers(function, "arena_joins"); }

}  // namespace graph

IRModule plan_memory(IRModule module, PassContext& context) {
  using namespace graph;
  auto option = context.config.find("plan_memory.in_place");
  const bool in_place = !option || option->try_as<bool>().value_or(true);
  option = context.config.find("plan_memory.concat");
  const bool concat = !option || option->try_as<bool>().value_or(true);
  std::set<std::string> called;
  for (auto [name, object] : module.functions())
    if (object.is<graph::Function>())
      post_order(object, [&](const ObjectRef& n) {
        // Called, or handed on as a closure.
        if (const auto* g = n.as<GlobalVar>()) called.insert(g->name);
      });
  std::set<std::string> aliased, joined, run;
  const IRModule whole = module;
  module = module.map_graph([&](const std::string& name, const Ref<graph::Function>& f) -> ObjectRef {
    if (is_primitive(*f)) return {};
    MemoryPlan p = plan(*f, whole, !called.count(name), in_place, concat);
    aliased.insert(p.in_place.begin(), p.in_place.end());
    Array<int64_t> offsets;
    for (const PlannedTensor& t : p.tensors) offsets.push_back(t.offset);
    Ref<graph::Function> out = f;
    out.edit()->attrs.set("arena_offsets", Any(offsets));
    out.edit()->attrs.set("arena_bytes", Any(p.arena_bytes));
    if (!p.joined.empty()) out.edit()->attrs.set("arena_joins", Any(Array<int64_t>(p.joined)));
    const std::set<int64_t> left_out(p.joined.begin(), p.joined.end());
    const auto positions = planned_positions(*f);
    for_each_binding(f->body, [&](const Binding& b) {
      const auto* call = binding_value(b).as<Call>();
      const auto* g = call && !call->args.empty() ? call->args[0].as<GlobalVar>() : nullptr;
      if (!g) return;
      auto at = positions.find(binding_var(b).get());
      (at != positions.end() && left_out.count(at->second) ? joined : run).insert(g->name);
    });
    return out;
  });
  return module.map_prim([&](const std::string& name, const tir::PrimFunc& f) -> ObjectRef {
    const bool only_memory = joined.count(name) && !run.count(name);
    if (!aliased.count(name) && !only_memory) return {};
    tir::PrimFunc out = f;
    if (aliased.count(name)) out.edit()->attrs.set("tir.noalias", Any(false));
    if (only_memory) out.edit()->attrs.set("tenon.memory_only", Any(true));
    return out;
  });
}

}  // namespace tenon
