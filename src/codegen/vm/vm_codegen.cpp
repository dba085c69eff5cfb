// SPDX-License-Identifier: Apache-2.0
// One walk over each graph function.
#include "codegen/vm/vm_codegen.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "codegen/vm/vm_emitter.h"
#include "ir/bodies.h"
#include "ir/memory_plan.h"
#include "ir/structural.h"
#include "ir/symbols.h"
#include "ir/text.h"
#include "ir/walk.h"
#include "op/infer.h"
#include "op/unify.h"

namespace tenon {
namespace {

using namespace graph;

class FunctionCodegen : VMEmitter {
 public:
  FunctionCodegen(ModuleCodegen& owner, const std::string& name, const Ref<Function>& f, bool entry)
      : VMEmitter(owner), name_(name), function_(f), entry_(entry) {
    if (!f->plan) return;
    const std::vector<std::string> problems = memory_plan_problems(*f);
    CHECK(problems.empty(), fmt::format("the memory plan of function `{}` does not fit it: {}", name,
                                        fmt::join(problems, "; ")));
    const PlannedBindings bindings = planned_bindings(*f);
    for (size_t i = 0; i < bindings.calls.size(); ++i)
      places_[bindings.calls[i].first.get()] = f->plan->calls[i].vec();
    for (size_t i = 0; i < bindings.loops.size(); ++i)
      places_[bindings.loops[i].first.get()] = f->plan->loops[i].vec();
    for (int64_t call : f->plan->joined) joined_.insert(bindings.calls[size_t(call)].first.get());
    bounds_ = bounds_of(*f->plan);
  }

  VMFunction run() {
    VMFunction out;
    out.name = name_;
    out.first_instruction = uint32_t(exe_.code.size());
    for (const VarRef& p : function_->params) {
      Operand o{Arg::of(ArgKind::Register, registers_++), false, true, {}};
      values_[p.get()] = o;
      out.params.push_back((name_ == "main" ? input_info : value_info)(p->name, p->declared));
    }
    for (const VarRef& p : function_->params)  // who calls the model gives shapes as vectors
      if (name_ == "main" && p->declared && p->declared.is<ShapeType>())
        values_[p.get()].arg = builtin_value(Builtin::tensor_to_shape, {values_[p.get()].arg});
    out.num_params = int32_t(function_->params.size());
    name_values(*function_, out.params, "input_names");
    // Arguments that the callers' types do not vouch for are looked at.
    bool check = m_.checked.count(name_) != 0;
    // Callers from outside: tensors are checked before the call, what tuples hold is checked here.
    for (const VarRef& p : function_->params) check |= entry_ && p->declared.is<TupleType>();
    for (const VarRef& p : function_->params) {
      if (check) check_kinds(p->declared, values_[p.get()]);
      bind_type(p->declared, values_[p.get()], check);
    }
    for (const VarRef& p : function_->params) check_expressions(p->declared, values_[p.get()]);
    Type type = result_of(function_->body)->type ? result_of(function_->body)->type : function_->ret_type;
    if (name_ == "main") refuse_functions(m_.problems, *function_, result_of(function_->body), type);
    if (entry_) {
      Operand result = owned(body(function_->body), type);
      return_value(result);
    } else {
      tail(function_->body);
    }
    if (const auto* t = type.as<TupleType>()) {
      for (size_t i = 0; i < t->items.size(); ++i)
        out.results.push_back(value_info(fmt::format("output_{}", i), t->items[i]));
    } else {
      out.results.push_back(value_info("output", type));
    }
    name_values(*function_, out.results, "output_names");
    out.heap_size = heap_;
    out.num_instructions = uint32_t(exe_.code.size()) - out.first_instruction;
    out.num_registers = share_registers(exe_, out.first_instruction, out.num_params, registers_);
    return out;
  }

 private:
  // ---------------------------------------------------------------- sizes
  /// A scalar argument for an integer expression of sizes.
  Arg size(const PrimExpr& e) {
    if (auto n = tir::as_int(e); n && Arg::holds(*n)) return number(*n);
    if (const auto* v = e.as<tir::Var>()) {
      auto it = slots_.find(v);
      if (it == slots_.end())
        fail("T0812", fmt::format("the size '{}' has no value in function `{}`", v->name, name_), {},
             "bind it with match_cast, or by the shape of a parameter");
      return Arg::of(ArgKind::Heap, it->second);
    }
    if (const auto known = computed_slot(e)) return Arg::of(ArgKind::Heap, *known);
    const int slot = heap_++;
    std::vector<Arg> args{number(slot)};
    shape_postfix(e, name_, args, [&](const PrimExpr& part) {
      return part.is<tir::Var>() ? size(part).value() : computed_slot(part);
    });
    builtin(Builtin::compute_shape, args, -1);
    computed_[symbol_hash(e)].emplace_back(e, slot);
    return Arg::of(ArgKind::Heap, slot);
  }
  /// Where the value of an expression lies that was computed before.
  std::optional<int64_t> computed_slot(const PrimExpr& e) const {
    if (const auto same = computed_.find(symbol_hash(e)); same != computed_.end())
      for (const auto& [known, slot] : same->second)
        if (structural_equal(known, e)) return slot;
    return std::nullopt;
  }
  /// Binds the symbols that `type` shows first; `check`: also compares what is known already.
  void bind_type(const Type& type, const Operand& o, bool check) {
    if (!type) return;
    if (const auto* t = type.as<TupleType>()) {
      for (size_t i = 0; i < t->items.size(); ++i) bind_type(t->items[i], item(o, int64_t(i)), check);
      return;
    }
    if (const auto* t = type.as<PrimType>()) {
      const auto* s = t->value.as<tir::Var>();
      if (!s || slots_.count(s)) return;
      slots_[s] = heap_++;
      Arg shape = builtin_value(Builtin::make_shape, {arg(o)});
      builtin(Builtin::match_shape, {shape, number(1), number(DimMatch::Bind), number(slots_[s])}, -1);
      return;
    }
    auto shape = known_shape(type);
    if (!shape) return;
    std::vector<Arg> args{arg(o), number(int64_t(shape->size()))};
    bool needed = check && shape->empty();  // a value without dimensions has none to compare
    for (const PrimExpr& d : *shape) {
      if (auto n = tir::as_int(d)) {
        args.push_back(number(DimMatch::Number));
        args.push_back(number(*n));
        needed |= check;
      } else if (const auto* s = d.as<tir::Var>()) {
        auto [it, fresh] = slots_.try_emplace(s, heap_);
        if (fresh) ++heap_;
        args.push_back(number(fresh ? DimMatch::Bind : DimMatch::Slot));
        args.push_back(number(it->second));
        needed = true;
      } else {
        args.push_back(number(DimMatch::Any));
        args.push_back(number(0));
      }
    }
    if (needed) builtin(Builtin::match_shape, args, -1);
  }
  /// Dimensions that are expressions, once every symbol has its value.
  void check_expressions(const Type& type, const Operand& o) {
    if (!type) return;
    if (const auto* t = type.as<TupleType>()) {
      for (size_t i = 0; i < t->items.size(); ++i) check_expressions(t->items[i], item(o, int64_t(i)));
      return;
    }
    auto shape = known_shape(type);
    if (!shape) return;
    bool needed = false;
    std::vector<Arg> pairs;
    for (const PrimExpr& d : *shape) {
      const bool expression = !tir::as_int(d) && !d.is<tir::Var>();
      needed |= expression;
      pairs.push_back(number(expression ? DimMatch::Slot : DimMatch::Any));
      pairs.push_back(number(expression ? size(d).value() : 0));
    }
    if (!needed) return;
    std::vector<Arg> args{arg(o), number(int64_t(shape->size()))};
    args.insert(args.end(), pairs.begin(), pairs.end());
    builtin(Builtin::match_shape, args, -1);
  }

  // ---------------------------------------------------------------- values
  Operand leaf(const Expr& e) {
    if (const auto* v = e.as<Var>()) {
      auto it = values_.find(v);
      CHECK(it != values_.end(), fmt::format("variable {} of `{}` has no value", v->name, name_));
      return it->second;
    }
    if (const auto* g = e.as<GlobalVar>()) return closure(*g, {}, e->origin);
    if (const auto* c = e.as<Constant>())
      return {Arg::of(ArgKind::Constant, m_.constant(c->data)), false, true, {}};
    if (const auto* t = e.as<Tuple>()) {
      Operand out{{}, true, false, {}};
      for (const Expr& i : t->items) out.items.push_back(leaf(i));
      return out;
    }
    if (const auto* s = e.as<ShapeExpr>()) {
      std::vector<Arg> dims;
      for (const PrimExpr& d : s->values) dims.push_back(size(d));
      return {builtin_value(Builtin::make_shape, dims), false, false, {}};
    }
    if (const auto* p = e.as<PrimValue>()) {
      if (!p->value.dtype().is_float()) return {size(p->value), false, false, {}};
      if (const auto* f = p->value.as<tir::FloatImm>()) {
        Arg c = Arg::of(ArgKind::Constant, m_.constant(NDArray::scalar(f->value, f64)));
        return {builtin_value(Builtin::scalar, {c}), false, false, {}};
      }
    }
    if (const auto* t = e.as<graph::StringImm>()) {
      const int64_t length = int64_t(t->value.size());
      Arg c = Arg::of(ArgKind::Constant,
                      m_.constant(NDArray::from_bytes({length}, u8, t->value.data(), t->value.size())));
      return {builtin_value(Builtin::text, {c}), false, false, {}};
    }
    if (const auto* d = e.as<DataTypeImm>()) return {number(dtype_word(d->value)), false, false, {}};
    if (e.is<SeqExpr>()) return body(e);
    m_.problems.add(
        Diagnostic{"T0813",
                   fmt::format("a value of kind {} cannot be compiled yet: {}", type_key_of(e), print(e)),
                   place(e->origin),
                   "",
                   {}});
    return {number(0), false, false, {}};
  }

  Operand body(const Expr& e) {
    for (const Binding& b : bindings_of(e)) bind(b);
    return leaf(result_of(e));
  }
  void bind(const Binding& b) {
    const VarRef var = b->var;
    const Expr bound = b->value;
    Operand o = value(bound, var);
    values_[var.get()] = o;
    if (const auto* mc = b.as<MatchCastNode>()) {
      check_value(mc->type, mc->value->type, o);
    } else if (const auto* c = bound.as<Call>(); c && !c->op.is<Op>() && !c->op.is<Constructor>()) {
      // What a call gives is what its callee's type says; a declaration that says more is checked.
      const Type declared = var->declared;
      if (declared && op::knowledge(declared) > op::knowledge(bound->type))
        check_value(declared, bound->type, o);
    }
  }
  void check_value(const Type& type, const Type& known, const Operand& o) {
    const auto *t = type.as<TensorType>(), *k = known ? as_tensor(known) : nullptr;
    if (t && !(k && k->dtype == t->dtype)) check_kind(type, o);
    bind_type(type, o, true);
    check_expressions(type, o);
  }
  /// A tensor of this data type and rank.
  void check_kind(const Type& type, const Operand& o) {
    const auto* t = type ? as_tensor(type) : nullptr;
    if (!t) return;
    builtin(Builtin::check_tensor,
            {arg(o), number(t->ndim), number(t->dtype.is_void() ? 0 : dtype_word(t->dtype))}, registers_++);
  }

  void check_kinds(const Type& type, const Operand& o) {
    if (const auto* t = type.as<TupleType>())
      for (size_t i = 0; i < t->items.size(); ++i) check_kinds(t->items[i], item(o, int64_t(i)));
    else
      check_kind(type, o);
  }

  // ---------------------------------------------------------------- ends of functions
  /// A body whose value the function returns. Each branch returns on its own, so that a last call stands
  /// directly before its return: the VM lets it take the frame.
  void tail(const Expr& e) {
    const std::vector<Binding> all = bindings_of(e);
    const auto* last = all.empty() ? nullptr : all.back().as<VarBindingNode>();
    if (last && !last->var.same_as(result_of(e))) last = nullptr;
    for (size_t i = 0; i + (last ? 1 : 0) < all.size(); ++i) bind(all[i]);
    if (!last) {
      const Operand o = leaf(result_of(e));
      const Type actual = result_of(e)->type, wanted = function_->ret_type;
      if (wanted && op::knowledge(wanted) > op::knowledge(actual))
        scoped([&] { check_value(wanted, actual, o); });
      return return_value(o);
    }
    if (const auto* n = last->value.as<If>()) {
      const size_t to_false = jump(Opcode::If, condition(n->condition, leaf(n->condition)));
      scoped([&] { tail(n->true_branch); });
      land(to_false);
      scoped([&] { tail(n->false_branch); });
      return;
    }
    if (const auto* n = last->value.as<graph::Match>()) {
      cases(*n, [&](const Expr& body) {
        tail(body);
        return false;
      });
      return;
    }
    bind(all.back());
    const Operand o = values_[last->var.get()];
    const Type actual = last->value->type, wanted = function_->ret_type;
    if (wanted && op::knowledge(wanted) > op::knowledge(actual) &&
        op::knowledge(wanted) > op::knowledge(last->var->declared))
      scoped([&] { check_value(wanted, actual, o); });
    return_value(o);
  }

  // ---------------------------------------------------------------- data
  Operand part(const PatternNode& p, const Operand& o, size_t i) {
    if (p.kind == PatternKind::tuple) return item(o, int64_t(i));
    return {builtin_value(Builtin::data_field, {arg(o), number(int64_t(i))}), false, true, {}};
  }
  /// Jumps in `fails` leave when the value is another one.
  void test(const PatternNode& p, const Operand& o, std::vector<size_t>& fails) {
    if (always(p)) return;
    if (p.kind == PatternKind::constructor)
      fails.push_back(
          jump(Opcode::If, builtin_value(Builtin::data_is, {arg(o), number(p.constructor->tag)})));
    for (size_t i = 0; i < p.items.size(); ++i)
      if (!always(*p.items[i])) test(*p.items[i], part(p, o, i), fails);
  }
  void bind_pattern(const PatternNode& p, const Operand& o) {
    if (p.var) {
      values_[p.var.get()] = o;
      bind_type(p.var->declared, o, false);
      check_expressions(p.var->declared, o);
    }
    for (size_t i = 0; i < p.items.size(); ++i) {
      std::vector<VarRef> vars;
      variables_of(p.items[i], vars);
      if (!vars.empty()) bind_pattern(*p.items[i], part(p, o, i));
    }
  }
  /// The clauses in order; `body` makes one's code and says whether it goes on behind the match.
  template <class F>
  void cases(const graph::Match& n, F body) {
    Operand subject = leaf(n.value);
    if (!subject.is_tuple && subject.arg.kind() != ArgKind::Register)
      subject.arg = Arg::of(ArgKind::Register, reg(subject));
    std::vector<size_t> ends;
    bool all = false;
    for (const MatchClause& c : n.clauses) {
      if (all) break;  // nothing is left for further clauses
      all = always(*c->pattern);
      std::vector<size_t> fails;
      scoped([&] {
        test(*c->pattern, subject, fails);
        bind_pattern(*c->pattern, subject);
        if (body(c->body)) ends.push_back(jump(Opcode::Goto));
      });
      for (size_t f : fails) land(f);
    }
    if (!all) {
      builtin(Builtin::no_case, {}, -1);
      // The VM does not come here; the code of a function ends with a return.
      return_value({Arg::of(ArgKind::Register, reg(subject)), false, false, {}});
    }
    for (size_t e : ends) land(e);
  }
  Operand match_value(const graph::Match& n) {
    Type type;
    for (const MatchClause& c : n.clauses) {
      const Type t = result_of(c->body)->type;
      type = !t ? object_type() : type ? op::join(type, t) : t;
    }
    Operand target = merge_target(type ? type : object_type(), true);
    bool borrowed = false;
    cases(n, [&](const Expr& e) {
      const Operand o = body(e);
      borrowed |= any_borrowed(o);
      assign(target, o);
      return true;
    });
    set_borrowed(target, borrowed);
    return target;
  }

  Operand value(const Expr& e, const VarRef& var) {
    if (const auto* n = e.as<TupleGetItem>()) return item(leaf(n->tuple), n->index);
    if (const auto* n = e.as<If>()) return branch(*n);
    if (const auto* n = e.as<While>()) return loop(*n, var);
    if (const auto* n = e.as<graph::Match>()) return match_value(*n);
    if (const auto* n = e.as<Call>()) return call(*n, var);
    return leaf(e);
  }

  /// An int that is 0 for false.
  Arg condition(const Expr& e, const Operand& o) {
    if (e->type && as_tensor(e->type)) return builtin_value(Builtin::scalar, {arg(o)});
    return arg(o);
  }
  template <class F>
  void scoped(F f) {
    auto slots = slots_;
    auto computed = computed_;
    f();
    slots_ = std::move(slots);
    computed_ = std::move(computed);
  }

  Operand branch(const If& n) {
    Type type = result_of(n.true_branch)->type;
    if (!type) type = object_type();
    Operand target = merge_target(type, true);
    size_t to_false = jump(Opcode::If, condition(n.condition, leaf(n.condition)));
    bool borrowed = false;
    scoped([&] {
      Operand o = body(n.true_branch);
      borrowed |= any_borrowed(o);
      assign(target, o);
    });
    size_t to_end = jump(Opcode::Goto);
    land(to_false);
    scoped([&] {
      Operand o = body(n.false_branch);
      borrowed |= any_borrowed(o);
      assign(target, o);
    });
    land(to_end);
    set_borrowed(target, borrowed);
    return target;
  }
  /// A state with a place in the arena is copied there by each turn; the others are held in registers.
  Operand loop(const While& n, const VarRef& var) {
    Operand state{{}, true, false, {}};
    bool borrowed = false;
    const auto places = places_.find(var.get());
    auto place_of = [&](size_t i, const Operand& o) -> std::optional<Arg> {
      const auto shape = n.loop_vars[i]->declared ? static_shape(n.loop_vars[i]->declared) : std::nullopt;
      if (places == places_.end() || places->second[i] < 0 || !shape) return {};
      if (!keeps_type(n, i)) check_value(n.loop_vars[i]->declared, {}, o);
      return Arg::of(ArgKind::Arena,
                     m_.arena(places->second[i], *shape, as_tensor(n.loop_vars[i]->declared)->dtype));
    };
    std::vector<Arg> copies;
    for (size_t i = 0; i < n.init.size(); ++i) {
      Operand init = leaf(n.init[i]);
      if (const auto at = place_of(i, init)) {
        copies.insert(copies.end(), {*at, arg(init)});
        state.items.push_back({*at, false, false, {}});
        values_[n.loop_vars[i].get()] = state.items.back();
        continue;
      }
      borrowed |= any_borrowed(init);
      Operand target =
          merge_target(n.loop_vars[i]->declared ? n.loop_vars[i]->declared : object_type(), true);
      assign(target, init);
      state.items.push_back(target);
      values_[n.loop_vars[i].get()] = target;
    }
    if (!copies.empty()) builtin(Builtin::copy_into, copies, -1);
    const size_t begin = exe_.code.size();
    scoped([&] {
      for (size_t i = 0; i < n.loop_vars.size(); ++i)
        bind_type(n.loop_vars[i]->declared, state.items[i], !keeps_type(n, i));
      Operand more = body(n.condition);
      size_t to_end = jump(Opcode::If, condition(result_of(n.condition), more));
      Operand next = body(n.body);
      Operand fresh{{}, true, false, {}};
      std::vector<size_t> held;
      copies.clear();
      for (size_t i = 0; i < n.loop_vars.size(); ++i) {
        Operand o = item(next, int64_t(i));
        if (const auto at = place_of(i, o)) {
          copies.insert(copies.end(), {*at, arg(o)});
          continue;
        }
        borrowed |= any_borrowed(o);
        fresh.items.push_back({arg(o), false, o.borrowed, {}});
        held.push_back(i);
      }
      next_state(state, held, fresh);
      if (!copies.empty()) builtin(Builtin::copy_into, copies, -1);
      size_t back = jump(Opcode::Goto);
      exe_.code[back].offset = int32_t(int64_t(begin) - int64_t(back));
      land(to_end);
    });
    set_borrowed(state, borrowed);
    return state;
  }

  /// Of the items of a loop's state that are held in registers. All new values are there before the first old
  /// one goes.
  void next_state(const Operand& state, const std::vector<size_t>& held, const Operand& fresh) {
    auto same = [](const Arg& a, const Arg& b) { return a.word == b.word; };
    bool apart = true;  // no new value is the old one of another item
    for (size_t k = 0; k < held.size(); ++k)
      for (size_t j = 0; j < held.size(); ++j) {
        const Operand& old = state.items[held[j]];
        apart = apart && !old.is_tuple && (j == k || !same(fresh.items[k].arg, old.arg));
      }
    if (apart) {
      for (size_t k = 0; k < held.size(); ++k) {
        const Operand& old = state.items[held[k]];
        if (!same(fresh.items[k].arg, old.arg)) assign(old, {fresh.items[k].arg, false, false, {}});
      }
      return;
    }
    const Arg all = arg(fresh);
    for (size_t k = 0; k < held.size(); ++k)
      assign(state.items[held[k]],
             {builtin_value(Builtin::tuple_get, {all, number(int64_t(k))}), false, false, {}});
  }

  Operand closure(const GlobalVar& g, const std::vector<Arg>& captured, const Origin& origin) {
    auto it = m_.function_index.find(g.name);
    if (it == m_.function_index.end())
      fail("T0814",
           fmt::format("function `{}` uses `{}` as a value, which is no graph function", name_, g.name),
           place(origin));
    std::vector<Arg> args{number(it->second)};
    args.insert(args.end(), captured.begin(), captured.end());
    return {builtin_value(Builtin::make_closure, args), false, false, {}};
  }

  Operand call(const Call& c, const VarRef& var) {
    if (const auto* made = c.op.as<Constructor>()) {
      std::vector<Arg> args{number(made->tag)};
      for (const Expr& a : c.args) args.push_back(arg(leaf(a)));
      return {builtin_value(Builtin::make_data, args), false, true, {}};
    }
    if (c.op.is<Var>()) {
      std::vector<Arg> args{arg(leaf(c.op))};
      for (const Expr& a : c.args) args.push_back(arg(leaf(a)));
      const int32_t dst = emit_call(m_.callee(CalleeKind::Closure, "closure"), args, registers_++);
      return {Arg::of(ArgKind::Register, dst), false, true, {}};
    }
    if (const auto* g = c.op.as<GlobalVar>()) {
      auto it = m_.function_index.find(g->name);
      if (it == m_.function_index.end())
        fail("T0814", fmt::format("function `{}` calls `{}`, which the module does not have", name_, g->name),
             place(c.origin));
      std::vector<Arg> args;
      for (const Expr& a : c.args) args.push_back(arg(leaf(a)));
      int32_t dst = emit_call(m_.callee(CalleeKind::Function, g->name, it->second), args, registers_++);
      return {Arg::of(ArgKind::Register, dst), false, true, {}};
    }
    const auto* op = c.op.as<Op>();
    if (!op) {
      m_.problems.add(Diagnostic{"T0813",
                                 "a closure is called before lambda_lift made it a function",
                                 place(c.origin),
                                 "run the pass lambda_lift",
                                 {}});
      return {number(0), false, false, {}};
    }
    if (op->name == "make_closure") {
      std::vector<Arg> captured;
      for (size_t i = 1; i < c.args.size(); ++i) captured.push_back(arg(leaf(c.args[i])));
      const auto* g = c.args[0].as<GlobalVar>();
      if (!g) fail("T0813", "make_closure needs a function of the module", place(c.origin));
      return closure(*g, captured, c.origin);
    }
    if (const std::optional<Builtin> own = reference_builtin(op->name)) {
      std::vector<Arg> args;
      for (const Expr& a : c.args) args.push_back(arg(leaf(a)));
      return {builtin_value(*own, args), false, true, {}};
    }
    if (op->name == "call_tir" || op->name == "call_tir_impure") return call_kernel(c, var);
    if (op->name == "call_tir_inplace") return call_inplace(c);
    if (op->name == "call_dps_packed") return call_dps(c);
    if (op->name == "call_packed" || op->name == "call_pure_packed") return call_packed(c);
    if (const std::optional<Builtin> own = shape_builtin(op->name))
      return {builtin_value(*own, {arg(leaf(c.args[0]))}), false, false, {}};
    m_.problems.add(Diagnostic{"T0811",
                               fmt::format("operator `{}` cannot be compiled here: {}", op->name, why_not(c)),
                               place(c.origin),
                               "fix the sizes that are not known, for example with --dim",
                               {}});
    return {number(0), false, false, {}};
  }
  std::vector<Operand> tensors(const Expr& e) {
    Operand o = leaf(e);
    if (!o.is_tuple) return {o};
    return o.items;
  }
  /// New memory for one output: at its offset in the arena, or from the pool (-1).
  Operand destination(const Type& type, int64_t at) {
    const auto* t = as_tensor(type);
    auto shape = known_shape(type);
    if (t && !shape && t->shape &&
        t->shape.is<Var>())  // as many sizes as the shape has when the program runs
      return {builtin_value(Builtin::alloc_tensor, {number(dtype_word(t->dtype)), arg(leaf(t->shape))}),
              false,
              false,
              {}};
    if (!t || !shape) fail("T0812", "the shape of a kernel's output is not known: " + print(type));
    auto dims = static_shape(type);
    if (dims && at >= 0) return {Arg::of(ArgKind::Arena, m_.arena(at, *dims, t->dtype)), false, false, {}};
    std::vector<Arg> args;
    if (const int64_t most = at >= 0 ? most_bytes(type, bounds_) : -1; most >= 0)
      args.push_back(Arg::of(ArgKind::Arena, m_.arena(at, {std::max<int64_t>(1, most)}, u8)));
    const bool bounded = !args.empty();
    args.push_back(number(dtype_word(t->dtype)));
    for (const PrimExpr& d : *shape) args.push_back(size(d));
    if (bounded) return {builtin_value(Builtin::arena_tensor, args), false, false, {}};
    return {builtin_value(Builtin::alloc_tensor, args), false, false, {}};
  }
  static Operand result(const Call& c, std::vector<Operand> outputs) {
    const bool tuple = c.type ? c.type.is<TupleType>() : outputs.size() != 1;
    if (!tuple) return outputs[0];
    return {{}, true, false, std::move(outputs)};
  }

  void kernel(const Call& c, std::vector<Arg> args, int num_buffers) {
    const auto* g = c.args[0].as<GlobalVar>();
    tir::PrimFunc f = g ? m_.program(g->name) : tir::PrimFunc();
    if (!f)
      fail("T0814",
           fmt::format("function `{}` calls the program `{}`, which the module does not have", name_,
                       g ? g->name : "?"),
           place(c.origin));
    if (c.args.size() > 2) {
      auto sizes = c.args[2].is<ShapeExpr>() ? std::optional(c.args[2].as<ShapeExpr>()->values)
                                             : known_shape(c.args[2]->type);
      if (!sizes) fail("T0812", "the sizes that a kernel is called with are not known", place(c.origin));
      for (const PrimExpr& d : *sizes) args.push_back(size(d));
    }
    for (const PrimExpr& d : implied_sizes(c, f, args.size() - size_t(num_buffers))) args.push_back(size(d));
    const std::string symbol = f->attrs.get_or("global_symbol", Any(g->name)).as<std::string>();
    // The graph executor asks which buffers a kernel writes; one is the rule.
    if (c.type_args.size() != 1 && m_.told.insert(symbol).second)
      exe_.metadata.emplace_back("outputs." + symbol, std::to_string(c.type_args.size()));
    emit_call(m_.callee(CalleeKind::Kernel, symbol, -1, buffer_bytes(f, size_t(num_buffers))), args, -1);
  }

  Operand call_kernel(const Call& c, const VarRef& var) {
    std::vector<Arg> args;
    for (const Operand& o : tensors(c.args[1])) args.push_back(arg(o));
    const auto places = places_.find(var.get());
    std::vector<Operand> outputs;
    for (size_t i = 0; i < c.type_args.size(); ++i) {
      outputs.push_back(destination(c.type_args[i], places == places_.end() ? -1 : places->second[i]));
      args.push_back(outputs.back().arg);
    }
    // A concatenation whose parts were written in their place needs no call.
    if (!joined_.count(var.get())) kernel(c, args, int(args.size()));
    return result(c, outputs);
  }

  Operand call_inplace(const Call& c) {
    std::vector<Operand> inputs = tensors(c.args[1]);
    Array<int64_t> places;
    if (c.attrs)
      for (const FieldInfo& f : type_of(c.attrs)->fields)
        if (f.name == "inplace_indices") places = f.get(c.attrs.get()).as<Array<int64_t>>();
    std::vector<Operand> outputs;
    std::vector<Arg> fresh;
    for (size_t i = 0; i < c.type_args.size(); ++i) {
      const int64_t at = i < places.size() ? places[i] : -1;
      if (at >= 0 && size_t(at) < inputs.size()) {
        inputs[size_t(at)] = owned_copy(inputs[size_t(at)]);
        outputs.push_back(inputs[size_t(at)]);
      } else {
        outputs.push_back(destination(c.type_args[i], -1));
        fresh.push_back(outputs.back().arg);
      }
    }
    std::vector<Arg> args;
    for (const Operand& o : inputs) args.push_back(arg(o));
    args.insert(args.end(), fresh.begin(), fresh.end());
    kernel(c, args, int(args.size()));
    return result(c, outputs);
  }
  /// Writing over a value that someone else may read later needs a copy first.
  Operand owned_copy(const Operand& o) { return {builtin_value(Builtin::copy, {arg(o)}), false, false, {}}; }

  Operand call_dps(const Call& c) {
    std::vector<Arg> args;
    for (const Operand& o : tensors(c.args[1])) args.push_back(arg(o));
    std::vector<Operand> outputs;
    for (const Type& t : c.type_args) {
      outputs.push_back(destination(t, -1));
      args.push_back(outputs.back().arg);
    }
    packed(symbol_of(c), args, -1);
    return result(c, outputs);
  }
  Operand call_packed(const Call& c) {
    const std::string symbol = symbol_of(c);
    if (symbol == name_of(Builtin::reshape)) {
      Operand from = leaf(c.args[1]);
      auto dims = c.type ? static_shape(c.type) : std::nullopt;
      if (from.arg.kind() == ArgKind::Arena && !from.is_tuple && dims) {
        const ArenaTensor t = exe_.arena_tensors[size_t(from.arg.value())];
        return {Arg::of(ArgKind::Arena, m_.arena(t.offset, *dims, t.dtype)), false, false, {}};
      }
      std::vector<Arg> args{arg(from)};
      for (size_t i = 2; i < c.args.size(); ++i) args.push_back(arg(leaf(c.args[i])));
      return {builtin_value(Builtin::reshape, args), false, any_borrowed(from), {}};
    }
    std::vector<Arg> args;
    for (size_t i = 1; i < c.args.size(); ++i) args.push_back(arg(leaf(c.args[i])));
    return {Arg::of(ArgKind::Register, packed(symbol, args, registers_++)), false, false, {}};
  }

  std::string name_;
  Ref<Function> function_;
  bool entry_;
  /// The memory plan by what calls and loops are bound to: offsets of their results and variables.
  std::unordered_map<const Var*, std::vector<int64_t>> places_;
  std::set<const Var*> joined_;  ///< results of calls that are left out
  SizeBounds bounds_;            ///< of symbolic sizes in the arena
  std::unordered_map<const Var*, Operand> values_;
  std::map<const tir::Var*, int> slots_;
  std::unordered_map<uint64_t, std::vector<std::pair<PrimExpr, int>>> computed_;  ///< by symbol_hash
  int32_t heap_ = 0;
};

Ref<Function> module_main(const IRModule& module) { return module.find("main").cast<Function>(); }

Executable run(ModuleCodegen& m) {
  std::set<std::string> called;
  std::vector<std::pair<std::string, Ref<Function>>> functions;
  for (auto [name, object] : m.module().functions()) {
    Ref<Function> f = object.cast<Function>();
    if (!f || is_primitive(*f)) continue;
    m.function_index[name] = int(functions.size());
    functions.emplace_back(name, f);
    post_order(f, [&](const ObjectRef& n) {
      if (const auto* g = n.as<GlobalVar>()) called.insert(g->name);
    });
  }
  for (auto& [name, f] : functions) find_checked(m, f);
  for (auto& [name, f] : functions) {
    m.exe.functions.push_back(FunctionCodegen(m, name, f, name == "main" || !called.count(name)).run());
    if (f->plan) m.exe.arena_bytes = std::max(m.exe.arena_bytes, f->plan->arena_bytes);
  }
  m.problems.throw_if_any();
  if (const auto main = module_main(m.module()); main && main->plan)
    for (const auto& [symbol, most] : bounds_of(*main->plan))
      m.exe.metadata.emplace_back("bound." + symbol, std::to_string(most));
  return std::move(m.exe);
}

}  // namespace

Executable vm_codegen(const IRModule& module, const Target& target) {
  ModuleCodegen m(module, target);
  return run(m);
}

}  // namespace tenon
