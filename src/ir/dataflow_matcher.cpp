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

DataflowView::DataflowView(const Expr& body, IRModule module, const DataflowView* outer)
    : module_(std::move(module)), outer_(outer), body_(body) {
  for (const graph::Binding& b : graph::bindings_of(body)) {
    if (b.is<graph::VarBindingNode>()) definitions_[b->var.get()] = b->value;
    graph::for_each_use(b->value, [&](const VarRef& v) {
      auto& users = users_[v.get()];
      if (users.empty() || !users.back().same_as(b->var)) users.push_back(b->var);
    });
  }
  graph::for_each_use(graph::result_of(body), [&](const VarRef& v) { results_.insert(v.get()); });
}

const DataflowView& DataflowView::of(const Expr& variable) const {
  const DataflowView* view = this;
  while (view->outer_ && !view->definitions_.contains(variable.get())) view = view->outer_;
  return *view;
}

Expr DataflowView::definition(const Expr& e) const {
  const DataflowView& owner = of(e);
  if (const auto it = owner.definitions_.find(e.get()); it != owner.definitions_.end()) return it->second;
  if (const auto* g = e.as<graph::GlobalVar>(); g && module_)
    if (auto f = module_.find(g->name).cast<graph::Function>()) return f;
  return e;
}

const std::vector<VarRef>& DataflowView::users(const Expr& variable) const {
  static const std::vector<VarRef> none;
  const DataflowView& owner = of(variable);
  const auto it = owner.users_.find(variable.get());
  return it == owner.users_.end() ? none : it->second;
}

bool DataflowView::is_local(const Expr& variable) const {
  const DataflowView& owner = of(variable);
  return owner.definitions_.contains(variable.get()) && !owner.is_result(variable);
}

bool DataflowView::is_result(const Expr& variable) const {
  return of(variable).results_.contains(variable.get());
}

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
    const Mark before = mark();
    if (visit(p, e) && shapes_agree(p, e)) {
      values_[p.get()] = e;
      trail_.push_back(p.get());
      return true;
    }
    undo(before);
    return false;
  }

  /// Nullopt where a part whose shape counts stands for nothing.
  std::optional<PatternMatch> result() {
    for (const auto& [other, value] : same_shapes_)
      if (!values_.contains(other)) return std::nullopt;
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
  /// Where the trail ends: what is found behind it is forgotten where an alternative fails.
  struct Mark {
    size_t values, inside, same_shapes;
  };
  Mark mark() const { return {trail_.size(), inside_.size(), same_shapes_.size()}; }
  void undo(const Mark& to) {
    for (; trail_.size() > to.values; trail_.pop_back()) values_.erase(trail_.back());
    inside_.resize(to.inside);
    same_shapes_.resize(to.same_shapes);
  }

  static bool same_shape(const Expr& a, const Expr& b) {
    const auto x = graph::as_tensor(a) ? graph::known_shape(a) : std::nullopt;
    const auto y = graph::as_tensor(b) ? graph::known_shape(b) : std::nullopt;
    return x && y && structural_equal(ObjectRef(*x), ObjectRef(*y), true);
  }
  /// What must have the shape of this part does.
  bool shapes_agree(const DFPattern& part, const Expr& e) const {
    return std::ranges::all_of(same_shapes_, [&](const auto& waiting) {
      return waiting.first != part.get() || same_shape(waiting.second, e);
    });
  }
  bool same_shape_as(const SameShapePattern& p, const Expr& e) {
    if (!run(p.pattern, e)) return false;
    if (const auto known = values_.find(p.other.get()); known != values_.end())
      return same_shape(known->second, e);
    same_shapes_.emplace_back(p.other.get(), e);
    return true;
  }

  bool visit(const DFPattern& p, const Expr& e) {
    if (p.is<WildcardPattern>()) return true;
    if (const auto* x = p.as<ExprPattern>()) return is_value(x->expr, e);
    if (p.is<ConstantPattern>()) return view_->definition(e).is<graph::Constant>();
    if (const auto* x = p.as<VarPattern>()) {
      const auto* v = e.as<graph::Var>();
      return v && (x->name.empty() || v->name == x->name) && (!x->local || view_->is_local(e));
    }
    if (const auto* x = p.as<GlobalVarPattern>()) {
      const auto* g = e.as<graph::GlobalVar>();
      return g && (x->name.empty() || g->name == x->name);
    }
    if (const auto* x = p.as<ExternFuncPattern>()) {
      const auto* f = e.as<graph::ExternFunc>();
      return f && (x->symbol.empty() || f->symbol == x->symbol);
    }
    if (const auto* x = p.as<OrPattern>()) return run(x->left, e) || run(x->right, e);
    if (const auto* x = p.as<AndPattern>()) return run(x->left, e) && run(x->right, e);
    if (const auto* x = p.as<NotPattern>()) {
      const Mark before = mark();
      const bool matched = run(x->reject, e);
      undo(before);
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
    if (const auto* x = p.as<SameShapePattern>()) return same_shape_as(*x, e);
    if (const auto* x = p.as<LetPattern>()) {
      if (!run(x->body, e)) return false;
      const auto var = values_.find(x->var.get());
      return var != values_.end() && run(x->value, Expr(var->second));
    }
    if (const auto* x = p.as<DominatorPattern>()) return dominator(*x, e);
    if (const auto* x = p.as<PatternSequence>()) return sequence(*x, e, x->patterns.size());
    return structure(p, e);
  }

  /// A constant may have a name.
  bool is_value(const Expr& wanted, const Expr& e) const {
    return e.same_as(wanted) ||
           structural_equal(wanted, wanted.is<graph::Constant>() ? view_->definition(e) : e);
  }

  /// Patterns that look at what a variable is bound to.
  bool structure(const DFPattern& p, const Expr& e) {
    const Expr value = view_->definition(e);
    if (e.is<graph::Var>()) inside_.push_back(e.cast<graph::Var>());
    if (const auto* x = p.as<AttrPattern>()) return attributes(x->attrs, value) && run(x->pattern, e);
    if (const auto* x = p.as<CallPattern>()) {
      const auto* c = value.as<graph::Call>();
      return c && run(x->op, c->op) && arguments(*x, *c);
    }
    if (const auto* x = p.as<TuplePattern>()) {
      const auto* t = value.as<graph::Tuple>();
      if (!t || x->any_items) return t;
      std::vector<char> taken(t->items.size());
      return x->unordered ? x->items.size() == t->items.size() && in_any_order(x->items, t->items, taken, 0)
                          : all(x->items, t->items);
    }
    if (const auto* x = p.as<PrimArrPattern>()) {
      const auto* shape = value.as<graph::ShapeExpr>();
      return shape && structural_equal(ObjectRef(x->values), ObjectRef(shape->values), true);
    }
    if (const auto* x = p.as<IfPattern>()) {
      const auto* choice = value.as<graph::If>();
      return choice && run(x->condition, choice->condition) && way(x->true_branch, choice->true_branch) &&
             way(x->false_branch, choice->false_branch);
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

  /// In their order, or where that changes nothing the other way round.
  bool arguments(const CallPattern& p, const graph::Call& call) {
    const Mark before = mark();
    if (p.any_args ? first_of(p.args, call.args) : all(p.args, call.args)) return true;
    undo(before);
    const auto* op = call.op.as<graph::Op>();
    return op && op->rules && op->rules->commutes() && p.args.size() == 2 && call.args.size() == 2 &&
           all(p.args, {call.args[1], call.args[0]});
  }
  bool all(const Array<DFPattern>& patterns, const Array<Expr>& values) {
    return patterns.size() == values.size() && first_of(patterns, values);
  }
  bool first_of(const Array<DFPattern>& patterns, const Array<Expr>& values) {
    if (patterns.size() > values.size()) return false;
    for (size_t i = 0; i < patterns.size(); ++i)
      if (!run(patterns[i], values[i])) return false;
    return true;
  }

  /// The patterns from the i-th on match values that are not taken yet, one each.
  bool in_any_order(const Array<DFPattern>& patterns, const Array<Expr>& values, std::vector<char>& taken,
                    size_t i) {
    if (i == patterns.size()) return true;
    for (size_t k = 0; k < values.size(); ++k) {
      if (taken[k]) continue;
      const Mark before = mark();
      taken[k] = 1;
      if (run(patterns[i], values[k]) && in_any_order(patterns, values, taken, i + 1)) return true;
      taken[k] = 0;
      undo(before);
    }
    return false;
  }

  static bool attributes(const AttrMap& wanted, const Expr& value) {
    const auto* f = value.as<graph::Function>();
    const auto* c = value.as<graph::Call>();
    const auto* op = value.as<graph::Op>();
    for (const auto& [name, want] : wanted) {
      if (op) {
        if (!op->rules || !equal(op->rules->property(name), want)) return false;
        continue;
      }
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
    return f || c || op;
  }

  bool function(const FunctionPattern& p, const graph::Function& f) {
    if (!p.any_params && p.params.size() != f.params.size()) return false;
    for (size_t i = 0; i < p.params.size() && !p.any_params; ++i)
      if (!run(p.params[i], f.params[i])) return false;
    return inner(p.body, DataflowView(f.body, view_->module()), f.body);
  }
  bool way(const DFPattern& p, const Expr& body) {
    return inner(p, DataflowView(body, view_->module(), view_), body);
  }
  /// The result of a body inside of this one.
  bool inner(const DFPattern& p, const DataflowView& own, const Expr& body) {
    const DataflowView* outer = std::exchange(view_, &own);
    const size_t inside = inside_.size();
    const bool matched = run(p, graph::result_of(body));
    inside_.resize(inside);  // those are the body's own
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
      const Mark before = mark();
      if (run(p.parent, at)) {
        if (post_dominated(at, p.path, child)) return true;
        undo(before);
      }
      if (on_path(p.path, at))
        for (const Expr& o : operands(at)) work.push_back(o);
    }
    return false;
  }
  /// The path's pattern matches many values: what it stood for at one of them is not kept.
  bool on_path(const DFPattern& path, const Expr& at) {
    const Mark before = mark();
    const bool matched = run(path, at);
    undo(before);
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
    const Mark before = mark();
    if (!run(p.patterns[count - 1], e)) return false;
    if (count == 1) return true;
    const size_t link = count - 2;
    const bool only = p.only_used_by[link] != 0;
    const int64_t argument = link < p.argument.size() ? p.argument[link] : -1;
    const auto* call = view_->definition(e).as<graph::Call>();
    for (const Expr& operand : operands(e)) {
      if (only && (view_->is_result(operand) || view_->users(operand).size() != 1)) continue;
      if (argument >= 0 &&
          !(call && size_t(argument) < call->args.size() && call->args[size_t(argument)].same_as(operand)))
        continue;
      if (sequence(p, operand, link + 1)) return true;
    }
    undo(before);
    return false;
  }

  const DataflowView* view_;
  int64_t steps_, limit_;
  std::unordered_map<const DFPatternNode*, Expr> values_;
  std::vector<const DFPatternNode*> trail_;
  std::vector<VarRef> inside_;
  std::vector<std::pair<const DFPatternNode*, Expr>> same_shapes_;  ///< of the value, that of the part
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
