// SPDX-License-Identifier: Apache-2.0
// The memory of one function: what its tensors may be made of, how long each is held, which share memory, and
// the place of each. plan_memory.cpp says what the plan promises.
#include <algorithm>
#include <map>
#include <set>

#include "ir/attr_keys.h"
#include "ir/bodies.h"
#include "ir/calls_out.h"
#include "ir/structural.h"
#include "ir/tir.h"
#include "ir/walk.h"
#include "pass/graph/lowering/lower_function.h"
#include "pass/graph/lowering/plan_memory.h"
#include "pass/graph/lowering/plan_memory_place.h"

namespace tenon {
namespace graph {
namespace {

constexpr int64_t kAlign = 64;
int64_t align(int64_t n) { return (n + kAlign - 1) / kAlign * kAlign; }

/// Of a tensor of known size; -1.
int64_t bytes_of(const Type& type) { return most_bytes(type, {}); }

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

  /// One of both; parts stay apart where both have them.
  static Alias either(const Alias& a, const Alias& b) {
    Alias out;
    if (!a.items.empty() && a.items.size() == b.items.size()) {
      out.ids = a.ids;
      out.ids.insert(b.ids.begin(), b.ids.end());
      for (size_t i = 0; i < a.items.size(); ++i) out.items.push_back(either(a.items[i], b.items[i]));
    } else {
      out.add(a), out.add(b);
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
  Planner(const IRModule& module, const PlanOptions& options) : module_(module), options_(options) {}

  PlannedMemory run(const Function& f) {
    for (auto [name, object] : module_.functions())
      if (object.is<Function>() && !has_references_)
        post_order(object, [&](const ObjectRef& n) {
          const auto* op = n.as<Op>();
          has_references_ = has_references_ || (op && (op->name == "ref_create" || op->name == "ref_write"));
        });
    Alias result = body(f.body);
    escape(result);
    next_step();
    resolve_loops();
    resolve_states();
    if (options_.arena) {
      join_concats();
      choose_in_place();
      place();
    }
    return finished(f);
  }

 private:
  /// A tensor of the plan, with what only planning needs.
  struct Item : PlannedTensor {
    Type type;
    int loop = -1, branch = -1;
    bool is_static = true;
    bool is_state = false;  ///< of a loop: in no list of outputs
  };
  struct CallSite {
    VarRef var;
    Expr value;
    int step;
    int first;
    std::vector<Alias> args;
    std::vector<int64_t> bytes;  ///< of the arguments; -1: not known
    int loop, branch;
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
  static Alias item_of(const Alias& a, size_t i) {
    if (i < a.items.size()) return a.items[i];
    Alias out;
    out.add(a);
    return out;
  }

  void next_step() {
    branch_of_step_.push_back(branch_);
    ++step_;
  }
  void use(const Alias& a) {
    for (int id : a.all()) {
      Item& t = items_[size_t(id)];
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
  int add_item(const VarRef& var, const Type& type) {
    Item t;
    t.name = var->name;
    t.begin = t.end = step_;
    t.type = type;
    t.loop = loop_;
    t.branch = branch_;
    t.is_static = bytes_of(type) >= 0;
    if (const int64_t bytes = most_bytes(type, options_.bounds); bytes >= 0)
      t.bytes = align(std::max<int64_t>(1, bytes));
    items_.push_back(std::move(t));
    return int(items_.size()) - 1;
  }

  Alias body(const Expr& e) {
    for (const Binding& b : bindings_of(e)) {
      const Expr value = b->value;
      Alias made = visit(b->var, value);
      aliases_[b->var.get()] = made;
      next_step();
    }
    Alias result = of(result_of(e));
    use(result);
    return result;
  }
  /// One branch of a choice (an If, a match): `f` walks it.
  template <class F>
  Alias in_branch(int choice, F f) {
    const int outer = branch_;
    next_step();
    branch_ = branches_.add(choice, outer);
    Alias made = f();
    next_step();
    branch_ = outer;
    return made;
  }

  Alias visit(const VarRef& var, const Expr& value) {
    if (const auto* n = value.as<If>()) {
      use(of(n->condition));
      const int choice = choices_++;
      const Alias t = in_branch(choice, [&] { return body(n->true_branch); });
      const Alias f = in_branch(choice, [&] { return body(n->false_branch); });
      return Alias::either(t, f);
    }
    if (const auto* n = value.as<Match>()) {
      Alias subject = of(n->value), out;
      use(subject);
      const int choice = choices_++;
      bool first = true;
      for (const MatchClause& c : n->clauses) {
        // A part of a tuple may be any tensor of it; parts of other data are not planned.
        std::vector<VarRef> vars;
        variables_of(c->pattern, vars);
        Alias part;
        part.add(subject);
        for (const VarRef& v : vars) aliases_[v.get()] = part;
        const Alias made = in_branch(choice, [&] { return body(c->body); });
        out = first ? made : Alias::either(out, made);
        first = false;
      }
      return out;
    }
    if (const auto* n = value.as<While>()) return loop(var, *n);
    if (const auto* c = value.as<Call>()) return call(var, value, *c);
    if (const auto* t = value.as<TupleGetItem>()) {
      Alias tuple = of(t->tuple);
      use(tuple);
      return item_of(tuple, size_t(t->index));
    }
    if (const auto* f = value.as<Function>()) {
      // When a closure runs is not known here: nothing that it touches is planned.
      for_each_use(f->body, [&](const VarRef& v) { use(of(v)), escape(of(v)); });
      const int first = int(items_.size());
      body(f->body);
      for (int id = first; id < int(items_.size()); ++id) escaped_.insert(id);
      return {};
    }
    Alias a = of(value);
    use(a);
    return a;
  }

  Alias loop(const VarRef& var, const While& n) {
    Alias out;
    std::vector<int>& states = states_[var.get()];
    states.assign(n.loop_vars.size(), -1);
    std::vector<Alias> flows(n.loop_vars.size());
    for (size_t i = 0; i < n.loop_vars.size(); ++i) {
      const Alias init = of(n.init[i]);
      use(init);
      const Type type = n.loop_vars[i]->declared;
      if (type && bytes_of(type) >= 0) {
        states[i] = add_item(n.loop_vars[i], type);
        items_.back().is_state = true;
        Alias state;
        state.ids.insert(states[i]);
        out.items.push_back(state);
        links_.emplace_back(states[i], init);
      } else {
        escape(init);
        out.items.push_back(init);
      }
      aliases_[n.loop_vars[i].get()] = out.items.back();
    }
    next_step();
    const int self = int(loops_.size());
    loops_.push_back({step_, step_, loop_});
    loop_ = self;
    use(out);
    escape(body(n.condition));
    next_step();
    const Alias next = body(n.body);
    next_step();
    for (size_t i = 0; i < n.loop_vars.size(); ++i) {
      const Alias part = item_of(next, i);
      use(part);
      if (states[i] >= 0) {
        links_.emplace_back(states[i], part);
      } else {
        escape(part);
        out.items[i].add(part);
      }
    }
    use(out);
    loops_[size_t(self)].end = step_;
    loop_ = loops_[size_t(self)].parent;
    next_step();
    return out;
  }

  Alias call(const VarRef& var, const Expr& value, const Call& c) {
    if (is_call_tir(value)) {
      CallSite site{var, value, step_, int(items_.size()), {}, {}, loop_, branch_};
      const auto* args = c.args[1].as<Tuple>();
      for (const Expr& a : args ? args->items : Array<Expr>{c.args[1]}) {
        site.args.push_back(of(a));
        site.bytes.push_back(bytes_of(a->type));
        use(site.args.back());
      }
      Alias out;
      for (size_t i = 0; i < num_outputs(value); ++i) {
        Alias one;
        one.ids.insert(add_item(var, c.type_args[i]));
        out.items.push_back(one);
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
      Item& t = items_[size_t(id)];
      t.end = std::max(t.end, loops_[size_t(loop)].end);
    }
  }
  /// A state that is held in a register holds its begin and what each turn made.
  void resolve_states() {
    for (bool changed = true; changed;) {
      changed = false;
      for (const auto& [state, alias] : links_) {
        if (!escaped_.count(state)) continue;
        for (int id : alias.all()) changed |= escaped_.insert(id).second;
      }
    }
  }

  bool planned(int id) const { return items_[size_t(id)].bytes >= 0 && !escaped_.count(id); }

  /// The whole that a tensor is part of, and where in it.
  std::pair<int, int64_t> whole_of(int id) const {
    int64_t offset = 0;
    for (int up; (up = items_[size_t(id)].part_of) >= 0; id = up) offset += items_[size_t(id)].part_offset;
    return {id, offset};
  }

  void join_concats() {
    if (!options_.concat) return;
    for (const CallSite& site : sites_) {
      const auto* g = site.value.as<Call>()->args[0].as<GlobalVar>();
      tir::PrimFunc f = g ? module_.find(g->name).cast<tir::PrimFuncNode>() : tir::PrimFunc();
      auto axis = f ? f->attrs.find(kConcatAxisAttr) : std::nullopt;
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
        const Item& t = items_[size_t(id)];
        fits = planned(id) && !t.is_state && t.part_of < 0 && ids.insert(id).second && t.loop == site.loop &&
               t.branch == site.branch && t.bytes == align(site.bytes[i]) && offset % kAlign == 0;
        offset += site.bytes[i];
      }
      if (!fits || offset != bytes_of(type)) continue;
      offset = 0;
      for (size_t i = 0; i < site.args.size(); ++i) {
        Item& t = items_[size_t(*site.args[i].all().begin())];
        t.part_of = site.first;
        t.part_offset = offset;
        offset += site.bytes[i];
      }
      joined_.insert(site.first);
    }
    // What shares memory lives as long as the longest of it: neither is overwritten before.
    std::map<int, int> end;
    for (int id = 0; id < int(items_.size()); ++id) {
      int& e = end[whole_of(id).first];
      e = std::max(e, items_[size_t(id)].end);
    }
    for (int id = 0; id < int(items_.size()); ++id) items_[size_t(id)].end = end[whole_of(id).first];
  }

  /// Both have the same number of bytes in every call.
  static bool same_size(const Item& a, const Item& b) {
    if (a.bytes != b.bytes) return false;
    if (a.is_static && b.is_static) return true;
    const auto x = known_shape(a.type), y = known_shape(b.type);
    if (!x || !y || x->size() != y->size()) return false;
    for (size_t i = 0; i < x->size(); ++i)
      if (!structural_equal((*x)[i], (*y)[i])) return false;
    return as_tensor(a.type)->dtype == as_tensor(b.type)->dtype;
  }

  void choose_in_place() {
    if (!options_.in_place) return;
    std::set<std::string> programs;
    std::set<int> taken;
    for (const CallSite& site : sites_) {
      const auto* g = site.value.as<Call>()->args[0].as<GlobalVar>();
      tir::PrimFunc f = g ? module_.find(g->name).cast<tir::PrimFuncNode>() : tir::PrimFunc();
      if (!f) continue;
      for (size_t o = 0; o < num_outputs(site.value); ++o) {
        const int out = site.first + int(o);
        if (!planned(out) || joined_.count(out) || items_[size_t(out)].part_of >= 0) continue;
        for (size_t a = 0; a < site.args.size(); ++a) {
          std::set<int> ids = site.args[a].all();
          if (ids.size() != 1) continue;
          const int in = *ids.begin();
          const Item& t = items_[size_t(in)];
          if (!planned(in) || t.part_of >= 0 || taken.count(in) || t.end != site.step ||
              !same_size(t, items_[size_t(out)]))
            continue;
          int times = 0;
          for (const Alias& other : site.args)
            for (int id : other.all()) times += int(whole_of(id).first == in);
          if (times != 1 || !may_write_in_place(f, a, site.args.size() + o)) continue;
          items_[size_t(out)].in_place_of = in;
          taken.insert(in);
          programs.insert(g->name);
          break;
        }
      }
    }
    plan_.in_place.assign(programs.begin(), programs.end());
  }

  void place() {
    std::vector<MemoryPiece> pieces, alive;
    std::vector<int> piece_of(items_.size(), -1), alive_of(items_.size(), -1);
    std::map<int, int> begin;  // of wholes: their first part's
    for (int id = 0; id < int(items_.size()); ++id) {
      const int whole = whole_of(id).first, at = items_[size_t(id)].begin;
      auto [it, fresh] = begin.emplace(whole, at);
      if (!fresh) it->second = std::min(it->second, at);
    }
    auto extend = [&](MemoryPiece& p, const Item& t) {
      p.end = std::max(p.end, t.end);
      p.branch = branches_.common(p.branch, t.branch);
    };
    for (int id = 0; id < int(items_.size()); ++id) {
      const Item& t = items_[size_t(id)];
      if (!planned(id)) continue;
      if (t.in_place_of >= 0) {
        piece_of[size_t(id)] = piece_of[size_t(t.in_place_of)];
        alive_of[size_t(id)] = alive_of[size_t(t.in_place_of)];
        extend(pieces[size_t(piece_of[size_t(id)])], t);
        // What a joined whole holds is counted by its parts.
        if (alive_of[size_t(id)] >= 0) extend(alive[size_t(alive_of[size_t(id)])], t);
        continue;
      }
      if (!joined_.count(id)) {
        alive_of[size_t(id)] = int(alive.size());
        alive.push_back({t.bytes, t.begin, t.end, t.branch, -1});
      }
      if (t.part_of >= 0) continue;
      piece_of[size_t(id)] = int(pieces.size());
      pieces.push_back({t.bytes, begin[id], t.end, t.branch, -1});
    }
    plan_.lower_bound = most_alive(alive, branches_, branch_of_step_);
    plan_.arena_bytes = place_pieces(pieces, branches_, most_alive(pieces, branches_, branch_of_step_));
    for (size_t id = 0; id < items_.size(); ++id) {
      const auto [whole, offset] = whole_of(int(id));
      if (piece_of[size_t(whole)] >= 0)
        items_[id].offset = pieces[size_t(piece_of[size_t(whole)])].offset + offset;
    }
  }

  /// Outputs of programs in the order of the program; states by their loops.
  PlannedMemory finished(const Function& f) {
    std::vector<int> position(items_.size(), -1);
    int next = 0;
    for (size_t id = 0; id < items_.size(); ++id)
      if (!items_[id].is_state) position[id] = next++;
    auto moved = [&](int id) { return id < 0 ? -1 : position[size_t(id)]; };
    for (size_t id = 0; id < items_.size(); ++id) {
      Item& t = items_[id];
      // A tensor that a loop's state holds is not written over another output.
      t.in_place_of = moved(t.in_place_of);
      t.part_of = moved(t.part_of);
      if (!t.is_state) plan_.tensors.push_back(t);
    }
    for (int id : joined_) plan_.joined.insert(position[size_t(id)]);
    for (const auto& [var, loop] : planned_bindings(f).loops) {
      std::vector<int64_t>& offsets = plan_.states.emplace_back(loop->loop_vars.size(), -1);
      if (const auto it = states_.find(var.get()); it != states_.end())
        for (size_t i = 0; i < offsets.size(); ++i)
          if (it->second[i] >= 0) offsets[i] = items_[size_t(it->second[i])].offset;
    }
    return std::move(plan_);
  }

  const IRModule& module_;
  const PlanOptions& options_;
  bool has_references_ = false;  ///< a called function may keep its arguments
  PlannedMemory plan_;
  std::vector<Item> items_;
  int step_ = 0, loop_ = -1, branch_ = -1, choices_ = 0;
  Branches branches_;
  std::vector<int> branch_of_step_;
  std::vector<Loop> loops_;
  std::vector<std::pair<int, int>> loop_uses_;
  std::vector<std::pair<int, Alias>> links_;                 ///< states, and what flows into them
  std::unordered_map<const Var*, std::vector<int>> states_;  ///< of loops, by the variable each is bound to
  std::vector<CallSite> sites_;
  std::set<int> escaped_, joined_;
  std::unordered_map<const Var*, Alias> aliases_;
};

// A concat in place saves a copy of all its bytes: worth an arena an eighth larger, and always where the
// arena is within a tenth of what any plan needs.
constexpr int64_t kNearBound = 10, kPriceOfJoining = 8;

}  // namespace

PlannedMemory plan_function(const Function& function, const IRModule& module, PlanOptions options) {
  PlannedMemory joined = Planner(module, options).run(function);
  if (joined.joined.empty()) return joined;
  // A whole is held from its first part on: not at the price of a much larger arena.
  options.concat = false;
  PlannedMemory apart = Planner(module, options).run(function);
  const int64_t bound = std::min(joined.lower_bound, apart.lower_bound);
  joined.lower_bound = apart.lower_bound = bound;
  const bool near = joined.arena_bytes <= bound + bound / kNearBound;
  return near || joined.arena_bytes <= apart.arena_bytes + apart.arena_bytes / kPriceOfJoining ? joined
                                                                                               : apart;
}

PlannedMemory plan_function(const Function& function, const IRModule& module, bool arena) {
  PlanOptions options;
  options.arena = arena;
  if (function.plan) options.bounds = bounds_of(*function.plan);
  return plan_function(function, module, options);
}

}  // namespace graph
}  // namespace tenon
