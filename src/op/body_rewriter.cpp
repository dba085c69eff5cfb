// SPDX-License-Identifier: Apache-2.0
#include "op/body_rewriter.h"

#include <algorithm>

#include "ir/structural.h"
#include "op/infer.h"

namespace tenon::graph {

Type infer_value(const Expr& value) { return op::infer_type(value); }

Expr BodyRewriter::replaced(const Expr& e) const {
  if (auto* v = e.as<Var>())
    if (auto it = replaced_.find(v); it != replaced_.end()) return it->second;
  return e;
}

Expr BodyRewriter::definition(const Expr& variable) const {
  if (auto* v = variable.as<Var>())
    if (auto it = definitions_.find(v); it != definitions_.end()) return it->second;
  return {};
}

const Call* BodyRewriter::definition_call(const Expr& variable, std::string_view op) const {
  Expr value = definition(variable);
  return value && value.is<Call>() && is_op(value, op) ? value.as<Call>() : nullptr;
}

std::string BodyRewriter::fresh_name(const std::string& hint) {
  std::string base = hint.empty() ? "lv" : hint;
  for (;;) {
    int& n = names_[base];
    std::string name = n == 0 ? base : base + "_" + std::to_string(n);
    ++n;
    if (name == base || !names_.contains(name)) {
      if (name != base) names_[name] = 1;
      return name;
    }
  }
}

Expr BodyRewriter::emit(Expr value, const std::string& name) {
  if (is_leaf(value)) return value;
  if (!value->type) value = op::typed(std::move(value));
  VarRef v = var(fresh_name(name), value->type);
  bindings_.push_back(make<VarBindingNode>(v, value));
  definitions_[v.get()] = value;
  keep_.push_back(v);
  return v;
}

Expr BodyRewriter::emit_op(std::string_view op, Array<Expr> args, ObjectRef attrs, const std::string& name) {
  return emit(call(get_op(op), std::move(args), std::move(attrs)), name);
}

namespace {
/// Whether taking the body apart loses nothing: no other holder, no marks of dataflow regions.
bool can_consume(const Expr& body) {
  const auto* s = body.as<SeqExpr>();
  if (!s || body.use_count() != 1) return false;
  for (const BindingBlock& b : s->blocks)
    if (b->dataflow) return false;
  return true;
}
}  // namespace

void BodyRewriter::drop(const Expr& variable) {
  constexpr size_t kLatest = 64;
  const auto* v = variable.as<Var>();
  for (size_t i = bindings_.size(), n = 0; v && i-- > 0 && n < kLatest; ++n)
    if (binding_var(bindings_[i]).get() == v) {
      keep_.push_back(variable);
      definitions_.erase(v);
      bindings_.erase(i);
      return;
    }
}

Expr BodyRewriter::rewrite_body(Expr body) {
  Array<Binding> outer = std::move(bindings_);
  bindings_ = {};
  enter_scope();
  bool was_seq = body.is<SeqExpr>();
  std::vector<Binding> old = bindings_of(body);
  const Expr old_result = result_of(body);
  const Type old_type = body->type;
  const bool consume = can_consume(body);
  if (consume) body = Expr();
  // Shared when every binding is the one that was there.
  bool same = true;
  for (size_t i = 0; i < old.size(); ++i) {
    bind(old[i]);
    same = same && bindings_.size() == i + 1 && bindings_[i].same_as(old[i]);
    if (!consume) continue;
    keep_.push_back(binding_var(old[i]));
    // What was put in the place of a variable goes with the variable's last use.
    for_each_use(binding_value(old[i]), [&](const VarRef& v) {
      if (auto left = uses_left_.find(v.get()); left != uses_left_.end() && --left->second == 0)
        replaced_.erase(v.get());
    });
    old[i] = Binding();
  }
  Expr result = substitute(old_result);
  leave_scope();
  Array<Binding> built = std::move(bindings_);
  bindings_ = std::move(outer);
  same = same && result.same_as(old_result);
  if (same && !consume) return body;
  if (!was_seq && built.empty()) return result;
  Array<BindingBlock> blocks;
  if (!built.empty()) blocks.push_back(make<BindingBlockNode>(built));
  auto seq = make<SeqExpr>(blocks, result);
  seq.edit()->type = same ? old_type : result->type;
  return seq;
}

Expr BodyRewriter::substitute(const Expr& value) {
  auto list = [&](const Array<Expr>& items, bool& changed) {
    Array<Expr> out;
    for (const Expr& item : items) {
      Expr r = substitute(item);
      if (!r.same_as(item)) changed = true;
      out.push_back(r);
    }
    return out;
  };
  bool changed = false;
  if (value.is<Var>()) return replaced(value);
  if (auto* n = value.as<Tuple>()) {
    Array<Expr> items = list(n->items, changed);
    if (!changed) return value;
    Expr out = make<Tuple>(items);
    if (std::all_of(items.begin(), items.end(), [](const Expr& i) { return i && i->type; }))
      out.mut()->type = tuple_type(items.map([](const Expr& i) { return i->type; }));
    return out;
  }
  if (auto* n = value.as<TupleGetItem>()) {
    Expr tuple = substitute(n->tuple);
    if (tuple.same_as(n->tuple)) return value;
    Expr out = make<TupleGetItem>(tuple, n->index);
    out.mut()->type = value->type;
    return out;
  }
  if (auto* n = value.as<Call>()) {
    Expr op = substitute(n->op);
    changed = !op.same_as(n->op);
    Array<Expr> args = list(n->args, changed);
    if (!changed) return value;
    Ref<Call> out = make<Call>(op, args, n->attrs, n->type_args);
    out.edit()->origin = n->origin;
    return out;
  }
  if (auto* n = value.as<If>()) {
    Expr condition = substitute(n->condition), t = rewrite_body(n->true_branch),
         f = rewrite_body(n->false_branch);
    if (condition.same_as(n->condition) && t.same_as(n->true_branch) && f.same_as(n->false_branch))
      return value;
    Ref<If> out = make<If>(condition, t, f);
    out.edit()->origin = n->origin;
    return out;
  }
  if (auto* n = value.as<While>()) {
    Array<Expr> init = list(n->init, changed);
    Expr condition = rewrite_body(n->condition), body = rewrite_body(n->body);
    if (!changed && condition.same_as(n->condition) && body.same_as(n->body)) return value;
    Ref<While> out = make<While>(n->loop_vars, init, condition, body);
    out.edit()->origin = n->origin;
    return out;
  }
  if (auto* n = value.as<Match>()) {
    Expr subject = substitute(n->value);
    enter_match(*n, subject);
    Array<MatchClause> clauses;
    changed = !subject.same_as(n->value);
    for (const MatchClause& c : n->clauses) {
      Expr body = rewrite_body(c->body);
      changed = changed || !body.same_as(c->body);
      clauses.push_back(body.same_as(c->body) ? c : make<MatchClauseNode>(c->pattern, body));
    }
    if (!changed) return value;
    Ref<Match> out = make<Match>(subject, clauses);
    out.edit()->origin = n->origin;
    return out;
  }
  if (auto* n = value.as<Function>()) {
    Expr body = rewrite_body(n->body);
    if (body.same_as(n->body)) return value;
    Ref<Function> out = value.cast<Function>();
    set_body(out, body);
    return out;
  }
  if (value.is<SeqExpr>()) return rewrite_body(value);
  return value;
}

void BodyRewriter::append(const VarRef& old, const Expr& value, const Binding& binding) {
  const Expr typed = value->type ? value : op::typed(value);
  const Type type = typed->type;
  VarRef v = old;
  if (type && !(type.is<ObjectType>() && old->declared) &&
      !(old->declared && structural_equal(type, old->declared, false))) {
    v = var(old->name, type);
    v.edit()->origin = old->origin;
    replaced_[old.get()] = v;
  }
  (void)binding;
  bindings_.push_back(make<VarBindingNode>(v, typed));
  definitions_[v.get()] = typed;
  keep_.push_back(v);
}

void BodyRewriter::bind(const Binding& binding) {
  if (auto* mc = binding.as<MatchCastNode>()) {
    Expr value = substitute(mc->value);
    if (Expr other = visit_match_cast(value, mc->type, mc->var)) {
      if (is_leaf(other)) {
        replaced_[mc->var.get()] = other;
        keep_.push_back(mc->var);
      } else
        append(mc->var, other, binding);
      return;
    }
    if (value.same_as(mc->value))
      bindings_.push_back(binding);
    else
      bindings_.push_back(make<MatchCastNode>(mc->var, value, mc->type));
    return;
  }
  const auto* vb = binding.as<VarBindingNode>();
  CHECK(vb, "a binding of unknown kind");
  Expr old = vb->value, value = substitute(old);
  Expr out = visit(value, vb->var);
  if (is_leaf(out) && (forward_copies() || !is_leaf(old))) {
    replaced_[vb->var.get()] = out;
    keep_.push_back(vb->var);
    return;
  }
  if (old.is<Function>() && out.is<Function>()) {
    // The body may call the function by its variable, so that one stays.
    if (Type type = retype(out, vb->var)) {
      VarRef v = vb->var;
      v.mut()->declared = v.mut()->type = type;
    }
    bindings_.push_back(out.same_as(old) ? binding : Binding(make<VarBindingNode>(vb->var, out)));
    definitions_[vb->var.get()] = out;
    keep_.push_back(vb->var);
    return;
  }
  if (out.same_as(old)) {
    if (Type type = retype(out, vb->var)) {
      if (!out->type || !structural_equal(out->type, type)) {
        out.edit()->type = type;
      }
      append(vb->var, out, binding);
      return;
    }
    bindings_.push_back(binding);
    definitions_[vb->var.get()] = old;
    return;
  }
  append(vb->var, out, binding);
}

Ref<Function> BodyRewriter::run(Ref<Function> function) {
  replaced_.clear();
  definitions_.clear();
  keep_.clear();
  uses_left_.clear();
  names_.clear();
  bindings_ = {};
  for (const VarRef& p : function->params) names_[p->name] = 1;
  for_each_binding(function->body, [&](const Binding& b) { names_[binding_var(b)->name] = 1; });
  if (function.use_count() == 1) {
    uses_left_ = count_uses(*function);
    Expr body = std::move(function.edit()->body);
    function.edit()->body = Expr();
    body = rewrite_body(std::move(body));
    set_body(function, std::move(body));
    return function;
  }
  Expr body = rewrite_body(function->body);
  if (body.same_as(function->body)) return function;
  set_body(function, body);
  return function;
}

IRModule consume_functions(IRModule module, FunctionRef<Ref<Function>(Ref<Function>)> rewrite) {
  std::vector<std::string> names;
  for (auto [name, object] : module.functions())
    if (object.is<Function>()) names.push_back(name);
  const bool alone = module.use_count() == 1;
  // Another module object, so that callers see the change.
  if (alone) {
    IRModule copy = module;
    copy.edit();
    module = std::move(copy);
  }
  for (const std::string& name : names) {
    Ref<Function> f = module.find(name).cast<Function>();
    const Function* before = f.get();
    if (alone) module.set(name, ObjectRef());
    Ref<Function> next = rewrite(std::move(f));
    if (alone || next.get() != before) module.set(name, next);
  }
  return module;
}

}  // namespace tenon::graph
