// SPDX-License-Identifier: Apache-2.0
// Branches, loops and matches of a graph function.
#include "codegen/vm/vm_function.h"

#include "ir/bodies.h"
#include "op/infer.h"
#include "op/unify.h"

namespace tenon {

using namespace graph;

void FunctionCodegen::tail(const Expr& e) {
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

Operand FunctionCodegen::part(const PatternNode& p, const Operand& o, size_t i) {
  if (p.kind == PatternKind::tuple) return item(o, int64_t(i));
  return {builtin_value(Builtin::data_field, {arg(o), number(int64_t(i))}), false, true, {}};
}

void FunctionCodegen::test(const PatternNode& p, const Operand& o, std::vector<size_t>& fails) {
  if (always(p)) return;
  if (p.kind == PatternKind::constructor)
    fails.push_back(jump(Opcode::If, builtin_value(Builtin::data_is, {arg(o), number(p.constructor->tag)})));
  for (size_t i = 0; i < p.items.size(); ++i)
    if (!always(*p.items[i])) test(*p.items[i], part(p, o, i), fails);
}

void FunctionCodegen::bind_pattern(const PatternNode& p, const Operand& o) {
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

void FunctionCodegen::cases(const graph::Match& n, FunctionRef<bool(const Expr&)> body) {
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

void FunctionCodegen::scoped(FunctionRef<void()> f) {
  auto slots = slots_;
  auto computed = computed_;
  f();
  slots_ = std::move(slots);
  computed_ = std::move(computed);
}

Operand FunctionCodegen::match_value(const graph::Match& n) {
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

Operand FunctionCodegen::value(const Expr& e, const VarRef& var) {
  if (const auto* n = e.as<TupleGetItem>()) return item(leaf(n->tuple), n->index);
  if (const auto* n = e.as<If>()) return branch(*n);
  if (const auto* n = e.as<While>()) return loop(*n, var);
  if (const auto* n = e.as<graph::Match>()) return match_value(*n);
  if (const auto* n = e.as<Call>()) return call(*n, var);
  return leaf(e);
}

Arg FunctionCodegen::condition(const Expr& e, const Operand& o) {
  if (e->type && as_tensor(e->type)) return builtin_value(Builtin::scalar, {arg(o)});
  return arg(o);
}

Operand FunctionCodegen::branch(const If& n) {
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

Operand FunctionCodegen::loop(const While& n, const VarRef& var) {
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
    Operand target = merge_target(n.loop_vars[i]->declared ? n.loop_vars[i]->declared : object_type(), true);
    assign(target, init);
    state.items.push_back(target);
    values_[n.loop_vars[i].get()] = target;
  }
  if (!copies.empty()) builtin(Builtin::copy_into, copies, -1);
  const size_t begin = exe_.code.size();
  scoped([&] {
    for (size_t i = 0; i < n.loop_vars.size(); ++i)
      if (!keeps_type(n, i)) bind_type(n.loop_vars[i]->declared, state.items[i], true);
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

void FunctionCodegen::next_state(const Operand& state, const std::vector<size_t>& held,
                                 const Operand& fresh) {
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

}  // namespace tenon
