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
  if (e.is<SeqExpr>()) return false;
  const auto* call = e.as<Call>();
  bool fine = !call || is_leaf(call->op);
  for_each_part(e, [&](const Expr& part, bool is_body) {
    fine = fine && (is_body ? is_normal_body(part) : is_normal_leaf(part));
  });
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
    for_each_part(e, [&](const Expr& part, bool is_body) {
      if (!is_body) out.push_back(part);
    });
    return out;
  }
  Expr of(const Expr& e) {
    auto it = e ? known_.find(e.get()) : known_.end();
    return it == known_.end() ? e : it->second;
  }

  /// The value over leaves, its bodies normalised; the same object when nothing was nested.
  Expr with_leaves(const Expr& e) {
    if (is_normal_value(e)) return e;
    return map_parts(e, [&](const Expr& part, bool is_body) { return is_body ? body(part) : leaf(part); });
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
