// SPDX-License-Identifier: Apache-2.0
// horizontal_fusion: kernels that read the same tensor side by side become one with several results.
//
//   before   a = fused_exp_neg(x);  b = fused_sin_add(x, y)          # element-wise, results of one shape
//   after    t = fused_…(x, y);  a = t[0];  b = t[1]
//
// The tensor is read once and one kernel is started. Joins primitive calls and single operators of
// element-wise, broadcast or injective kind whose results have one shape, that share an operand of that
// shape, and of which none needs another's result; at most `max_outputs` of them.
// Stands behind fuse_ops. Needs: types. Keeps: values bit by bit.
#include <algorithm>
#include <functional>
#include <unordered_map>

#include "ir/bodies.h"
#include "ir/pass.h"
#include "ir/structural.h"
#include "ir/symbols.h"
#include "op/op_def.h"
#include "pass/graph/fusion/group.h"
#include "pass/graph/fusion/places.h"
#include "pass/graph/lowering/lower_function.h"

namespace tenon {
namespace graph {
namespace {

class HorizontalFusion {
 public:
  HorizontalFusion(IRModule module, size_t most) : module_(std::move(module)), most_(most) {}

  IRModule run() {
    for (const auto& [name, f] : graph_functions(module_)) {
      if (is_primitive(*f)) continue;
      Expr next = body(f->body);
      if (next.same_as(f->body)) continue;
      module_.set(name, with_bodies(f, {next}));
    }
    return module_;
  }

 private:
  struct Candidate {
    VarRef var;
    Ref<Function> function;  // null: a single operator
    Array<Expr> args;
  };

  Expr body(const Expr& e) {
    std::vector<Binding> bindings = bindings_of(e);
    bool changed = false;
    for (Binding& b : bindings) {
      changed |= map_bodies(b, [&](const Expr& x) { return body(x); });
    }
    Places places(bindings);
    for (size_t i = 0; i < bindings.size(); ++i) {
      const auto first = places.moved[i] ? std::nullopt : candidate(bindings[i]);
      if (!first) continue;
      std::vector<size_t> members{i};
      std::vector<Candidate> all{*first};
      for (size_t k = i + 1, seen = 1; k < bindings.size() && seen < kReach && members.size() < most_; ++k) {
        if (places.moved[k]) continue;
        ++seen;
        const auto next = candidate(bindings[k]);
        if (!next || !structural_equal(next->var->declared, first->var->declared) || !share(*first, *next))
          continue;
        // It could stand where the first does: what it reads is known there.
        std::vector<size_t> views;  // stay where they are
        if (!places.known_before(i, bindings[k]->value, views) || !views.empty()) continue;
        members.push_back(k);
        all.push_back(*next);
      }
      if (members.size() < 2) continue;
      places.instead_of[i] = join(bindings, members, all);
      for (size_t k : members) places.take_away(k, i);
      changed = true;
    }
    if (!changed) return e;
    return places.body(result_of(e));
  }

  static FusionKind kind_of(const Function& f) {
    FusionKind kind = FusionKind::element_wise;
    for (const Binding& b : bindings_of(f.body)) {
      const Expr value = b->value;
      const Op* op = op_of(value);
      if (value.is<Tuple>() || value.is<TupleGetItem>() || !op) return FusionKind::opaque;
      kind = std::max(kind, op::definition(*op).fusion);
    }
    return kind;
  }

  std::optional<Candidate> candidate(const Binding& b) const {
    const auto* call = b->value.as<Call>();
    const VarRef var = b->var;
    if (!call || !b.is<VarBindingNode>() || !as_tensor(var->declared) || !known_shape(var->declared))
      return {};
    if (const auto* g = call->op.as<GlobalVar>()) {
      const auto f = module_.find(g->name).cast<Function>();
      if (!f || !is_primitive(*f) || kind_of(*f) > FusionKind::injective) return {};
      return Candidate{var, f, call->args};
    }
    const Op* op = call->op.as<Op>();
    if (!op || !op->pure || op::definition(*op).fusion > FusionKind::injective || !can_lower(b->value))
      return {};
    for (const Expr& a : call->args)
      if (!a || !is_leaf(a)) return {};
    return Candidate{var, {}, call->args};
  }
  static bool share(const Candidate& a, const Candidate& b) {
    auto want = known_shape(a.var->declared);
    for (const Expr& x : a.args)
      for (const Expr& y : b.args)
        if (x.is<Var>() && x.same_as(y))
          if (auto shape = known_shape(x); shape && structural_equal(*shape, *want)) return true;
    return false;
  }

  /// One primitive function of all members, its result a tuple; the members' variables are its items.
  std::vector<Binding> join(const std::vector<Binding>& bindings, const std::vector<size_t>& members,
                            const std::vector<Candidate>& all) {
    std::vector<Binding> inside;
    Array<Expr> results;
    Array<Type> types;
    for (size_t m = 0; m < members.size(); ++m) {
      const VarRef var = all[m].var;
      if (!all[m].function) {
        const VarRef copy = graph::var(var->name, var->declared);
        inside.push_back(make<VarBindingNode>(copy, bindings[members[m]]->value));
        results.push_back(copy);
      } else {
        results.push_back(inlined(all[m], inside));
      }
      types.push_back(var->declared);
    }
    const VarRef pair = graph::var(all[0].var->name + "_side", tuple_type(types));
    Expr tuple = with_type(make<Tuple>(results), pair->declared);
    inside.push_back(make<VarBindingNode>(pair, tuple));
    Group group = make_group(inside, pair);
    const std::string name = module_.fresh_name(kernel_name("side", inside));
    module_.set(name, group.function);
    Expr callee = global(name);
    Array<Type> params;
    for (const VarRef& p : group.function->params) params.push_back(p->declared);
    callee.edit()->type = make<FuncType>(params, group.function->ret_type, false);
    Expr made = with_type(call(callee, group.args), pair->declared, bindings[members[0]]->value->origin);
    const VarRef whole = graph::var(pair->name, pair->declared);
    std::vector<Binding> out{make<VarBindingNode>(whole, made)};
    for (size_t k = 0; k < members.size(); ++k) {
      Expr item = with_type(make<TupleGetItem>(whole, int64_t(k)), types[k]);
      out.push_back(make<VarBindingNode>(all[k].var, item));
    }
    return out;
  }

  /// The bindings of a primitive function over the arguments of its call; returns its result.
  static Expr inlined(const Candidate& c, std::vector<Binding>& out) {
    tir::VarMap sizes;
    for (const SymbolValue& s : match_symbols(*c.function, c.args)) sizes[s.symbol.get()] = s.value;
    std::unordered_map<const Object*, Expr> map;
    for (size_t i = 0; i < c.args.size(); ++i) map[c.function->params[i].get()] = c.args[i];
    std::function<Expr(const Expr&)> leaf = [&](const Expr& e) -> Expr {
      if (auto it = e ? map.find(e.get()) : map.end(); it != map.end()) return it->second;
      if (const auto* t = e ? e.as<Tuple>() : nullptr) {
        return with_type(make<Tuple>(t->items.map(leaf)), substitute_symbols(t->type, sizes));
      }
      return e && (e.is<ShapeExpr>() || e.is<PrimValue>()) ? substitute_symbols(e, sizes) : e;
    };
    for (const Binding& b : bindings_of(c.function->body)) {
      const Call& k = *b->value.as<Call>();
      ObjectRef attrs = k.attrs;
      if (attrs && !sizes.empty())
        attrs = rewrite_any(attrs, [&](const ObjectRef& n) -> ObjectRef {
          const auto* v = n.as<tir::Var>();
          auto it = v ? sizes.find(v) : sizes.end();
          return it == sizes.end() ? ObjectRef() : ObjectRef(it->second);
        });
      Expr copy = call(k.op, k.args.map(leaf), attrs, k.type_args);
      const VarRef v = graph::var(b->var->name, substitute_symbols(b->var->declared, sizes));
      out.push_back(make<VarBindingNode>(v, with_type(std::move(copy), v->declared, k.origin)));
      map[b->var.get()] = v;
    }
    return leaf(result_of(c.function->body));
  }

  static constexpr size_t kReach = 64;  ///< how far apart they may stand
  IRModule module_;
  size_t most_;
};

}  // namespace
}  // namespace graph

static const Option<int64_t> kMaxOutputs("horizontal_fusion.max_outputs", 4, "results of one kernel at most",
                                         {.least = 1});

static IRModule horizontal_fusion(IRModule module, PassContext& context) {
  const int64_t most = context.options.get(kMaxOutputs);
  return graph::HorizontalFusion(std::move(module), size_t(most)).run();
}

const Pass& horizontal_fusion_pass = register_pass({
    .name = "horizontal_fusion",
    .run = horizontal_fusion,
    .summary = "kernels that read one tensor side by side become one",
    .needs = {"infer_types"},
    .options = {kMaxOutputs},
});

}  // namespace tenon
