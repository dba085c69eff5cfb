// SPDX-License-Identifier: Apache-2.0
#include "op/body_rewriter.h"

#include <algorithm>

#include "ir/regions.h"
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

Expr BodyRewriter::without_known_cast(const Expr& value, const Type& type, const VarRef& var) {
  const Type& known = value->type;
  if (!known || !var->declared || !structural_equal(known, type, false)) return {};
  return structural_equal(known, var->declared, false) ? value : Expr();
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

void BodyRewriter::drop(const Expr& variable) {
  constexpr size_t kLatest = 64;
  const auto* v = variable.as<Var>();
  for (size_t i = bindings_.size(), n = 0; v && i-- > 0 && n < kLatest; ++n)
    if (bindings_[i]->var.get() == v) {
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
  const bool consume = was_seq && body.use_count() == 1;
  Regions regions(body);
  if (consume) body = Expr();
  // Shared when every binding is the one that was there.
  bool same = true;
  for (size_t i = 0; i < old.size(); ++i) {
    bind(old[i]);
    regions.reached(i + 1, bindings_.size());
    same = same && bindings_.size() == i + 1 && bindings_[i].same_as(old[i]);
    if (!consume) continue;
    keep_.push_back(old[i]->var);
    // What was put in the place of a variable goes with the variable's last use.
    for_each_use(old[i]->value, [&](const VarRef& v) {
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
  auto seq = make<SeqExpr>(regions.blocks(built, result), result);
  seq.edit()->type = same ? old_type : result->type;
  return seq;
}

/// A type whose shape is a variable, with what stands for that now, and with the sizes where they are known.
static Type with_shapes(const Type& type, FunctionRef<Expr(const Expr&)> replaced) {
  if (const auto* tuple = type.as<TupleType>()) {
    bool same = true;
    const Array<Type> items = tuple->items.map([&](const Type& item) {
      const Type next = with_shapes(item, replaced);
      same = same && next.same_as(item);
      return next;
    });
    return same ? type : tuple_type(items);
  }
  const auto* t = type.as<TensorType>();
  if (!t || !t->shape.is<Var>()) return type;
  Expr now = replaced(t->shape);
  if (const auto* v = now.as<Var>())
    if (const auto sizes = known_shape(v->declared ? v->declared : v->type)) now = shape_expr(*sizes);
  if (now.same_as(t->shape)) return type;
  auto out = type.cast<TensorType>();
  out.edit()->shape = now;
  if (const auto* sizes = now.as<ShapeExpr>()) out.edit()->ndim = int64_t(sizes->values.size());
  return out;
}

/// The match with other patterns (none: its own); the same object when all stay.
static Ref<Match> with_patterns(Ref<Match> match, const std::vector<Pattern>& patterns) {
  for (size_t i = 0; i < patterns.size(); ++i) {
    const MatchClause old = match->clauses[i];
    if (!patterns[i].same_as(old->pattern))
      match.edit()->clauses.set(i, make<MatchClauseNode>(patterns[i], old->body));
  }
  return match;
}

Expr BodyRewriter::substitute(const Expr& value) {
  if (is_leaf(value)) return replaced(value);
  if (value.is<SeqExpr>()) return rewrite_body(value);
  const auto* match = value.as<Match>();
  std::vector<Pattern> now;
  Expr out = map_parts(value, [&](const Expr& part, bool is_body) {
    if (is_body) return rewrite_body(part);
    const Expr operand = substitute(part);
    if (match) now = patterns(*match, operand);
    return operand;
  });
  if (match) out = with_patterns(out.cast<Match>(), now);
  if (const auto* c = out.as<Call>(); c && !c->type_args.empty()) {
    bool changed = false;
    const Array<Type> types = c->type_args.map([&](const Type& t) {
      const Type next = with_shapes(t, [&](const Expr& e) { return replaced(e); });
      changed = changed || !next.same_as(t);
      return next;
    });
    if (changed) static_cast<Call*>(out.edit())->type_args = types;
  }
  if (out.same_as(value) || value.is<Function>() || value.is<TupleGetItem>()) return out;
  const auto* tuple = out.as<Tuple>();
  const bool known = tuple && std::all_of(tuple->items.begin(), tuple->items.end(),
                                          [](const Expr& i) { return i && i->type; });
  out.edit()->type = known ? tuple_type(tuple->items.map([](const Expr& i) { return i->type; })) : Type();
  return out;
}

Expr BodyRewriter::typed(const Expr& value, bool changed) {
  return value->type || !changed || value.is<Function>() ? value : op::typed(value);
}

Type BodyRewriter::variable_type(const Expr& value, const VarRef& var, bool changed) {
  const Type& type = value->type;
  if (!changed || !type || value.is<Function>() || (type.is<ObjectType>() && var->declared)) return {};
  return var->declared && structural_equal(type, var->declared, false) ? Type() : type;
}

/// Binds the value in the place of `binding`, under its variable or one of a better type.
void BodyRewriter::append(const VarRef& old, const Expr& given, bool changed, const Binding& binding) {
  Expr value = typed(given, changed);
  VarRef v = value.is<Function>() ? replaced(old).cast<Var>() : old;
  if (const Type type = variable_type(value, old, changed)) {
    const VarRef before = v;
    v = var(old->name, type);
    v.edit()->origin = old->origin;
    if (value.is<Function>())  // its body may call it by its variable
      value = rewrite_any(value, [&](const ObjectRef& n) {
                return n.same_as(before) ? v : ObjectRef();
              }).cast<ExprNode>();
    replace(old, v);
  }
  const auto* same = binding.as<VarBindingNode>();
  const bool kept = same && v.same_as(same->var) && value.same_as(same->value);
  bindings_.push_back(kept ? binding : Binding(make<VarBindingNode>(v, value)));
  definitions_[v.get()] = value;
  keep_.push_back(v);
}

void BodyRewriter::bind(const Binding& binding) {
  if (auto* mc = binding.as<MatchCastNode>()) {
    Expr value = substitute(mc->value);
    if (Expr other = visit_match_cast(value, mc->type, mc->var)) {
      if (is_leaf(other))
        replace(mc->var, other);
      else
        append(mc->var, other, true, binding);
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
  if (const auto* f = vb->value.as<Function>()) enter_function(vb->var, *f);
  const Expr out = visit(substitute(vb->value), vb->var);
  if (is_leaf(out) && (forward_copies() || !is_leaf(vb->value)))
    replace(vb->var, out);
  else
    append(vb->var, out, !out.same_as(vb->value), binding);
}

Ref<Function> BodyRewriter::run(Ref<Function> function) {
  replaced_.clear();
  definitions_.clear();
  keep_.clear();
  uses_left_.clear();
  names_.clear();
  bindings_ = {};
  for (const VarRef& p : function->params) names_[p->name] = 1;
  for_each_binding(function->body, [&](const Binding& b) { names_[b->var->name] = 1; });
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
