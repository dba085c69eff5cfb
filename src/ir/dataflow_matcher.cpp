// SPDX-License-Identifier: Apache-2.0
// The matcher of dataflow patterns: from the value down to its operands, with a trail for alternatives that
// fail. Recursion is as deep as the pattern, which check_pattern bounds.
#include <fmt/format.h>

#include <algorithm>

#include "ir/bodies.h"
#include "ir/dataflow_pattern.h"
#include "ir/structural.h"

namespace tenon::dpl {

using graph::Expr;
using graph::VarRef;

DataflowView::DataflowView(const Expr& body, IRModule module) : module_(std::move(module)), body_(body) {
  for (const graph::Binding& b : graph::bindings_of(body)) {
    if (b.is<graph::VarBindingNode>()) definitions_[b->var.get()] = b->value;
    graph::for_each_use(b->value, [&](const VarRef& v) {
      auto& users = users_[v.get()];
      if (users.empty() || !users.back().same_as(b->var)) users.push_back(b->var);
    });
  }
  graph::for_each_use(graph::result_of(body), [&](const VarRef& v) { results_.insert(v.get()); });
}

Expr DataflowView::definition(const Expr& e) const {
  if (const auto it = definitions_.find(e.get()); it != definitions_.end()) return it->second;
  if (const auto* g = e.as<graph::GlobalVar>(); g && module_)
    if (auto f = module_.find(g->name).cast<graph::Function>()) return f;
  return e;
}

const std::vector<VarRef>& DataflowView::users(const Expr& variable) const {
  static const std::vector<VarRef> none;
  const auto it = users_.find(variable.get());
  return it == users_.end() ? none : it->second;
}

bool DataflowView::is_result(const Expr& variable) const { return results_.contains(variable.get()); }

namespace {

bool equal(const Any& a, const Any& b) {
  return structural_equal(ObjectRef(Array<Any>{a}), ObjectRef(Array<Any>{b}), true);
}

class Matcher {
 public:
  Matcher(const DataflowView& view, int64_t steps) : view_(&view), steps_(steps), limit_(steps) {}

  bool run(const DFPattern& p, const Expr& e) {
    count_step();
    if (const auto known = values_.find(p.get()); known != values_.end()) return known->second.same_as(e);
    const size_t values = trail_.size(), inside = inside_.size();
    if (visit(p, e)) {
      values_[p.get()] = e;
      trail_.push_back(p.get());
      return true;
    }
    undo(values, inside);
    return false;
  }

  PatternMatch result() {
    PatternMatch out{std::move(values_), {}};
    std::set<const Object*> seen;
    for (const VarRef& v : inside_)
      if (seen.insert(v.get()).second) out.inside.push_back(v);
    return out;
  }

 private:
  void count_step() {
    if (--steps_ < 0)
      fail("T1151", fmt::format("{} steps do not decide whether the pattern matches", limit_), {}, {},
           ErrorKind::limit);
  }
  void undo(size_t values, size_t inside) {
    for (; trail_.size() > values; trail_.pop_back()) values_.erase(trail_.back());
    inside_.resize(inside);
  }

  bool visit(const DFPattern& p, const Expr& e) {
    if (p.is<WildcardPattern>()) return true;
    if (const auto* x = p.as<ExprPattern>()) return e.same_as(x->expr) || structural_equal(x->expr, e);
    if (p.is<ConstantPattern>()) return e.is<graph::Constant>();
    if (const auto* x = p.as<OrPattern>()) return run(x->left, e) || run(x->right, e);
    if (const auto* x = p.as<AndPattern>()) return run(x->left, e) && run(x->right, e);
    if (const auto* x = p.as<NotPattern>()) {
      const size_t values = trail_.size(), inside = inside_.size();
      const bool matched = run(x->reject, e);
      undo(values, inside);
      return !matched;
    }
    if (const auto* x = p.as<TypePattern>())
      return e->type && structural_equal(x->type, e->type, true) && run(x->pattern, e);
    if (const auto* x = p.as<DataTypePattern>()) {
      const auto* t = graph::as_tensor(e);
      return t && t->dtype == x->dtype && run(x->pattern, e);
    }
    if (const auto* x = p.as<ShapePattern>()) {
      const auto shape = graph::as_tensor(e) ? graph::known_shape(e) : std::nullopt;
      return shape && structural_equal(ObjectRef(x->shape), ObjectRef(*shape), true) && run(x->pattern, e);
    }
    if (const auto* x = p.as<DominatorPattern>()) return dominator(*x, e);
    if (const auto* x = p.as<PatternSequence>()) return sequence(*x, e, x->patterns.size());
    return structure(p, e);
  }

  /// Patterns that look at what a variable is bound to.
  bool structure(const DFPattern& p, const Expr& e) {
    const Expr value = view_->definition(e);
    if (e.is<graph::Var>()) inside_.push_back(e.cast<graph::Var>());
    if (const auto* x = p.as<AttrPattern>()) return attributes(x->attrs, value) && run(x->pattern, e);
    if (const auto* x = p.as<CallPattern>()) {
      const auto* c = value.as<graph::Call>();
      return c && run(x->op, c->op) && (x->any_args || all(x->args, c->args));
    }
    if (const auto* x = p.as<TuplePattern>()) {
      const auto* t = value.as<graph::Tuple>();
      return t && (x->any_items || all(x->items, t->items));
    }
    if (const auto* x = p.as<TupleGetItemPattern>()) {
      const auto* t = value.as<graph::TupleGetItem>();
      return t && (x->index < 0 || x->index == t->index) && run(x->tuple, t->tuple);
    }
    if (const auto* x = p.as<FunctionPattern>()) {
      const auto* f = value.as<graph::Function>();
      return f && function(*x, *f);
    }
    CHECK(false, "a pattern of unknown kind");
  }

  bool all(const Array<DFPattern>& patterns, const Array<Expr>& values) {
    if (patterns.size() != values.size()) return false;
    for (size_t i = 0; i < patterns.size(); ++i)
      if (!run(patterns[i], values[i])) return false;
    return true;
  }

  static bool attributes(const AttrMap& wanted, const Expr& value) {
    const auto* f = value.as<graph::Function>();
    const auto* c = value.as<graph::Call>();
    for (const auto& [name, want] : wanted) {
      if (f) {
        const auto has = f->attrs.find(name);
        if (!has || !equal(*has, want)) return false;
        continue;
      }
      if (!c || !c->attrs) return false;
      const auto& fields = type_of(c->attrs)->fields;
      const auto field = std::ranges::find(fields, std::string_view(name), &FieldInfo::name);
      Any fit;
      if (field == fields.end() || !field->coerce(want, &fit) || !equal(field->get(c->attrs.get()), fit))
        return false;
    }
    return f || c;
  }

  bool function(const FunctionPattern& p, const graph::Function& f) {
    if (p.params.size() != f.params.size()) return false;
    for (size_t i = 0; i < p.params.size(); ++i)
      if (!run(p.params[i], f.params[i])) return false;
    const DataflowView own(f.body, view_->module()), *outer = std::exchange(view_, &own);
    const size_t inside = inside_.size();
    const bool matched = run(p.body, graph::result_of(f.body));
    inside_.resize(inside);  // those are the function's own
    view_ = outer;
    return matched;
  }

  std::vector<Expr> operands(const Expr& e) const {
    std::vector<Expr> out;
    const Expr value = view_->definition(e);
    if (!value.same_as(e)) graph::for_each_use(value, [&](const VarRef& v) { out.push_back(v); });
    return out;
  }

  bool dominator(const DominatorPattern& p, const Expr& child) {
    if (!run(p.child, child)) return false;
    std::vector<Expr> work = operands(child);
    std::set<const Object*> seen;
    for (size_t i = 0; i < work.size(); ++i) {
      if (!seen.insert(work[i].get()).second) continue;
      const Expr at = work[i];
      const size_t values = trail_.size(), inside = inside_.size();
      if (run(p.parent, at)) {
        if (post_dominated(at, p.path, child)) return true;
        undo(values, inside);
      }
      if (on_path(p.path, at))
        for (const Expr& o : operands(at)) work.push_back(o);
    }
    return false;
  }
  /// The path's pattern matches many values: what it stood for at one of them is not kept.
  bool on_path(const DFPattern& path, const Expr& at) {
    const size_t values = trail_.size(), inside = inside_.size();
    const bool matched = run(path, at);
    undo(values, inside);
    return matched;
  }
  bool post_dominated(const Expr& parent, const DFPattern& path, const Expr& child) {
    std::vector<Expr> work{parent};
    std::set<const Object*> seen;
    for (size_t i = 0; i < work.size(); ++i) {
      count_step();
      const Expr at = work[i];
      if (at.same_as(child) || !seen.insert(at.get()).second) continue;
      if (view_->is_result(at) || view_->users(at).empty()) return false;
      if (i > 0) {
        if (!on_path(path, at)) return false;
        inside_.push_back(at.cast<graph::Var>());
      }
      for (const VarRef& user : view_->users(at)) work.push_back(user);
    }
    return true;
  }

  /// The first `count` patterns of the sequence, the last of which stands at `e`.
  bool sequence(const PatternSequence& p, const Expr& e, size_t count) {
    const size_t values = trail_.size(), inside = inside_.size();
    if (!run(p.patterns[count - 1], e)) return false;
    if (count == 1) return true;
    for (const Expr& before : operands(e)) {
      const bool only = p.only_used_by[count - 2] != 0;
      if (only && (view_->is_result(before) || view_->users(before).size() != 1)) continue;
      if (sequence(p, before, count - 1)) return true;
    }
    undo(values, inside);
    return false;
  }

  const DataflowView* view_;
  int64_t steps_, limit_;
  std::unordered_map<const DFPatternNode*, Expr> values_;
  std::vector<const DFPatternNode*> trail_;
  std::vector<VarRef> inside_;
};

}  // namespace

std::optional<PatternMatch> match_pattern(const DFPattern& pattern, const Expr& value,
                                          const DataflowView& view, int64_t steps) {
  check_pattern(pattern);
  Matcher matcher(view, steps);
  if (!matcher.run(pattern, value)) return std::nullopt;
  return matcher.result();
}

}  // namespace tenon::dpl
