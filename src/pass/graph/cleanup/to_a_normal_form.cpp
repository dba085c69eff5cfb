// SPDX-License-Identifier: Apache-2.0
// to_a_normal_form: nested expressions become bindings, each value bound once, in the order of evaluation.
//
//   before   return R.add(R.exp(x), R.exp(x))                      # one node, used twice
//   after    lv = R.exp(x);  lv1 = R.add(lv, lv);  return lv1
//
// Every other pass wants this form; importers and the parser give it. This pass is for programs built as
// trees through the interface of nodes. A node that several places share is bound once, in the scope that
// meets it first: branches see what stands before them. Keeps: values, order of effects. Needs nothing; types
// are inferred for what it binds when their parts have them.
#include <algorithm>

#include "ir/bodies.h"
#include "ir/pass.h"
#include "op/infer.h"

namespace tenon {
namespace graph {
namespace {

/// Nothing is nested: every argument is a leaf or a tuple of leaves, every body a sequence.
bool is_normal_leaf(const Expr& e) {
  if (!e || is_leaf(e)) return true;
  const auto* t = e.as<Tuple>();
  return t && std::all_of(t->items.begin(), t->items.end(), [](const Expr& i) { return is_normal_leaf(i); });
}
bool is_normal_value(const Expr& e);
bool is_normal_body(const Expr& e) {
  const auto* s = e.as<SeqExpr>();
  if (!s || !is_normal_leaf(s->body)) return false;
  for (const Binding& b : bindings_of(e))
    if (!is_normal_value(b->value)) return false;
  return true;
}
bool is_normal_value(const Expr& e) {
  if (is_normal_leaf(e)) return true;
  bool fine = true;
  auto all = [&](const Array<Expr>& items) {
    for (const Expr& i : items) fine = fine && is_normal_leaf(i);
  };
  if (const auto* c = e.as<Call>()) {
    all(c->args);
    return fine && is_leaf(c->op);
  }
  if (const auto* g = e.as<TupleGetItem>()) return is_normal_leaf(g->tuple);
  if (const auto* i = e.as<If>()) fine = is_normal_leaf(i->condition);
  if (const auto* m = e.as<Match>()) fine = is_normal_leaf(m->value);
  if (const auto* w = e.as<While>()) all(w->init);
  if (e.is<SeqExpr>()) return false;
  for (const Expr& b : bodies_of(e)) fine = fine && is_normal_body(b);
  return fine;
}

class NormalForm {
 public:
  Ref<Function> run(const Ref<Function>& f) {
    for (const VarRef& p : f->params) names_[p->name] = 1;
    for_each_binding(f->body, [&](const Binding& b) { names_[b->var->name] = 1; });
    Ref<Function> out = f;
    const Expr next = body(f->body);
    set_body(out, next);
    return out;
  }

 private:
  /// Scopes are nested no deeper than the verifier allows; chains inside one are walked with a stack.
  Expr body(const Expr& e) {
    std::vector<Binding> outer = std::move(bindings_);
    bindings_.clear();
    scopes_.emplace_back();
    const Expr result = sequence(e);
    const Expr out = make_body(bindings_, result);
    for (const Object* key : scopes_.back()) known_.erase(key);
    scopes_.pop_back();
    bindings_ = std::move(outer);
    return out;
  }

  /// The bindings of a (nested) sequence, then its result as a leaf.
  Expr sequence(Expr e) {
    while (const auto* s = e.as<SeqExpr>()) {
      for (const Binding& b : bindings_of(e)) bind(b);
      e = s->body;
    }
    return leaf(e);
  }

  void bind(const Binding& b) {
    const VarRef var = b->var;
    if (const auto* m = b.as<MatchCastNode>()) {
      const Expr value = leaf(m->value);
      bindings_.push_back(value.same_as(m->value) ? b : make<MatchCastNode>(var, value, m->type));
      return;
    }
    Expr value = b->value;
    if (value.is<SeqExpr>()) value = sequence(value);
    value = with_leaves(value);
    bindings_.push_back(value.same_as(b->value) ? b : make<VarBindingNode>(var, value));
  }

  /// e as a leaf: what is below it is bound first, children before parents.
  Expr leaf(const Expr& root) {
    if (is_normal_leaf(root)) return root;
    std::vector<std::pair<Expr, bool>> stack{{root, false}};
    while (!stack.empty()) {
      auto [e, ready] = stack.back();
      stack.pop_back();
      if (!e || is_leaf(e) || known_.count(e.get())) continue;
      if (!ready) {
        stack.emplace_back(e, true);
        std::vector<Expr> parts = operands(e);
        for (size_t i = parts.size(); i-- > 0;) stack.emplace_back(parts[i], false);
        continue;
      }
      Expr value = e.is<SeqExpr>() ? sequence(e) : with_leaves(e);
      if (!is_normal_leaf(value)) {
        const VarRef v = var(fresh(), value->type ? value->type : op::infer_type(value));
        if (!value->type) value.edit()->type = v->declared;
        bindings_.push_back(make<VarBindingNode>(v, value));
        value = v;
      }
      known_[e.get()] = value;
      keep_.push_back(e);
      scopes_.back().push_back(e.get());
    }
    return of(root);
  }

  /// What a value reads where it stands; bodies are scopes of their own.
  static std::vector<Expr> operands(const Expr& e) {
    std::vector<Expr> out;
    if (const auto* c = e.as<Call>()) {
      out.push_back(c->op);
      for (const Expr& a : c->args) out.push_back(a);
    } else if (const auto* t = e.as<Tuple>())
      for (const Expr& i : t->items) out.push_back(i);
    else if (const auto* g = e.as<TupleGetItem>())
      out = {g->tuple};
    else if (const auto* i = e.as<If>())
      out = {i->condition};
    else if (const auto* m = e.as<Match>())
      out = {m->value};
    else if (const auto* w = e.as<While>())
      for (const Expr& i : w->init) out.push_back(i);
    return out;
  }
  Expr of(const Expr& e) {
    auto it = e ? known_.find(e.get()) : known_.end();
    return it == known_.end() ? e : it->second;
  }

  /// The value over leaves, its bodies normalised; the same object when nothing was nested.
  Expr with_leaves(const Expr& e) {
    if (is_normal_value(e)) return e;
    auto list = [&](const Array<Expr>& items) {
      return items.map([&](const Expr& i) { return i ? leaf(i) : i; });
    };
    Expr out = e;
    if (const auto* c = e.as<Call>())
      out = make<Call>(leaf(c->op), list(c->args), c->attrs, c->type_args);
    else if (const auto* t = e.as<Tuple>())
      out = make<Tuple>(list(t->items));
    else if (const auto* g = e.as<TupleGetItem>())
      out = make<TupleGetItem>(leaf(g->tuple), g->index);
    else if (const auto* i = e.as<If>())
      out = make<If>(leaf(i->condition), i->true_branch, i->false_branch);
    else if (const auto* m = e.as<Match>())
      out = make<Match>(leaf(m->value), m->clauses);
    else if (const auto* w = e.as<While>())
      out = make<While>(w->loop_vars, list(w->init), w->condition, w->body);
    std::vector<Expr> bodies = bodies_of(out);
    if (!bodies.empty()) {
      for (Expr& b : bodies) b = body(b);
      out = with_bodies(out, bodies);
    }
    return out.same_as(e) ? e : with_type(std::move(out), e->type, e->origin);
  }

  std::string fresh() {
    for (;;) {
      std::string name = next_ == 0 ? "lv" : "lv" + std::to_string(next_);
      ++next_;
      if (names_.emplace(name, 1).second) return name;
    }
  }

  std::vector<Binding> bindings_;
  std::unordered_map<const Object*, Expr> known_;
  std::vector<std::vector<const Object*>> scopes_;
  std::vector<Expr> keep_;
  std::unordered_map<std::string, int> names_;
  int next_ = 0;
};

}  // namespace
}  // namespace graph

static IRModule to_a_normal_form(IRModule module, PassContext&) {
  using namespace graph;
  return module.map_graph([](const std::string&, const Ref<graph::Function>& f) -> ObjectRef {
    if (!f->body || is_normal_body(f->body)) return {};
    return NormalForm().run(f);
  });
}

const Pass& to_a_normal_form_pass = register_pass({
    .name = "to_a_normal_form",
    .run = to_a_normal_form,
    .summary = "nested expressions become bindings",
});

}  // namespace tenon
