// SPDX-License-Identifier: Apache-2.0
// check_sizes: what operators take for granted of symbolic sizes is checked at run time.
//
//   before   y: R.Tensor((n, m)) = R.reshape(x, R.shape([n, m]))              # x: R.Tensor((k,))
//   after    checked = R.match_cast(R.shape([k]), R.Shape([n * m]));  y = …
//
// A check that holds only where two sizes of inputs are one makes them one everywhere, and the inputs are
// checked themselves:
//
//   before   main(x: R.Tensor((n, 3)), y: R.Tensor((m, 6))): z = R.reshape(x, R.shape([m, 3]))
//   after    main(x: R.Tensor((n, 3)), y: R.Tensor((n, 6))): z = R.reshape(x, R.shape([n, 3]))
//
// Inference refuses sizes that differ and cannot compare symbols: a kernel made from such types would read
// past the end of its arguments. What a primitive function takes for granted is checked where it is called.
// Needs: types. Keeps: values and their types; equal checks of a scope, and
// what the analyzer proves, are made once or not at all, those that the program brings included.
#include <algorithm>
#include <map>
#include <set>

#include "analysis/given_up.h"
#include "ir/find_node.h"
#include "ir/structural.h"
#include "ir/symbols.h"
#include "op/body_rewriter.h"
#include "op/infer.h"
#include "pass/graph/lowering/lower_function.h"
#include "pass/graph/types/size_bounds.h"

namespace tenon {
namespace graph {
namespace {

using Primitives = std::map<std::string, Ref<Function>>;

class CheckSizes : public BodyRewriter {
 public:
  /// `inputs`: sizes of what the module is called with, those of a function that others call are none.
  CheckSizes(GivenUpProofs& given_up, const Primitives& primitives, const std::vector<tir::VarRef>& inputs)
      : analyzer_(given_up, "check_sizes"), primitives_(primitives), inputs_(inputs) {}

  /// Sizes of inputs that every run finds to be others.
  const tir::VarMap& same_sizes() const { return same_sizes_; }

 protected:
  void enter_scope() override { scopes_.push_back(made_.size()); }
  void leave_scope() override {
    for (; made_.size() > scopes_.back(); made_.pop_back()) {
      const auto same = by_sizes_.find(made_.back());
      same->second.pop_back();
      if (same->second.empty()) by_sizes_.erase(same);
    }
    scopes_.pop_back();
  }
  Expr visit_match_cast(const Expr& value, const Type& type, const VarRef&) override {
    // What the program checks itself.
    const auto have = known_shape(value->type), want = known_shape(type);
    if (value.is<ShapeExpr>() && have && want && have->size() == want->size()) {
      bool again = true;  // converters of two operators may have asked for the same
      for (size_t i = 0; again && i < have->size(); ++i) again = checked({(*have)[i], (*want)[i], false});
      if (again) return value;
    }
    for (size_t i = 0; have && want && i < have->size() && i < want->size(); ++i)
      note({(*have)[i], (*want)[i], false});
    return {};
  }
  Expr visit(const Expr& value, const VarRef&) override {
    const auto* call = value.as<Call>();
    const auto* name = call ? call->op.as<GlobalVar>() : nullptr;
    const auto primitive = name ? primitives_.find(name->name) : primitives_.end();
    const Op* op = op_of(value);
    if (primitive == primitives_.end() && (!op || !op->pure || !has_tensor_def(*op))) return value;
    for (const Expr& arg : call->args) assume_sizes(arg);
    op::Inference run;
    if (op)
      op::infer_type(run, value);
    else
      facts_of(*primitive->second, call->args, run);
    for (const op::SizeFact& a : run.facts)
      if (!checked(a)) check(a);
    return value;
  }

 private:
  /// What the operators of a function that becomes one kernel take for granted, in the caller's sizes.
  static void facts_of(const Function& f, const Array<Expr>& args, op::Inference& run) {
    op::Inference own;
    for (const Binding& b : bindings_of(f.body))
      if (op_of(b->value)) op::infer_type(own, b->value);
    tir::VarMap sizes;
    for (const SymbolValue& s : match_symbols(f, args)) sizes[s.symbol.get()] = s.value;
    for (const op::SizeFact& a : own.facts)
      run.facts.push_back({tir::substitute(a.have, sizes), tir::substitute(a.want, sizes), a.or_one});
  }
  /// Sizes of a tensor that is there are not negative.
  void assume_sizes(const Expr& arg) {
    const auto shape = arg ? known_shape(arg->type) : std::nullopt;
    if (!shape || !arg->type.is<TensorType>()) return;
    for (const PrimExpr& size : *shape)
      if (size.is<tir::Var>() && assumed_.insert(size.as<tir::Var>()).second)
        analyzer_.assume_size(size.cast<tir::Var>());
  }
  bool checked(const op::SizeFact& a) {
    if (const auto same = by_sizes_.find(hash(a)); same != by_sizes_.end())
      for (const op::SizeFact& b : same->second)
        if ((a.or_one || !b.or_one) &&
            ((structural_equal(a.have, b.have) && structural_equal(a.want, b.want)) ||
             (!a.or_one && !b.or_one && structural_equal(a.have, b.want) &&
              structural_equal(a.want, b.have))))
          return true;
    return analyzer_.can_prove_equal(a.have, a.want);
  }
  void note(const op::SizeFact& a) {
    made_.push_back(hash(a));
    by_sizes_[made_.back()].push_back(a);
  }
  /// The same whichever of the two sizes comes first.
  static uint64_t hash(const op::SizeFact& a) { return symbol_hash(a.have) + symbol_hash(a.want); }
  void check(const op::SizeFact& a) {
    const PrimExpr have = a.or_one ? tir::select(tir::eq(a.have, PrimExpr(1)), a.want, a.have) : a.have;
    const Type wanted = make<ShapeType>(Array<PrimExpr>{a.want}, int64_t(1), true);
    splice(make<MatchCastNode>(var("checked", wanted), shape_expr({have}), wanted));
    note(a);
    if (scopes_.size() == 1 && !a.or_one) find_same(a);
  }
  /// Among the sizes of inputs; -1: it is none.
  std::ptrdiff_t place_of(const tir::VarRef& size) const {
    const auto at = std::ranges::find_if(inputs_, [&](const tir::VarRef& x) { return x.same_as(size); });
    return at == inputs_.end() ? -1 : at - inputs_.begin();
  }
  /// n · c and m · c are equal where n and m are, and nowhere else when c is no zero.
  void find_same(const op::SizeFact& a) {
    for (const tir::VarRef& n : tir::free_vars(a.have))
      for (const tir::VarRef& m : tir::free_vars(a.want)) {
        const auto first = place_of(n), second = place_of(m);
        if (!same_sizes_.empty() || first < 0 || second < 0 || mentions(a.want, n.get()) ||
            mentions(a.have, m.get()))
          continue;
        const PrimExpr c = analyzer_.simplify(tir::substitute(a.have, {{n.get(), PrimExpr(1)}}));
        if (!analyzer_.can_prove_ge(c, 1) || !analyzer_.can_prove_equal(a.have, n * c) ||
            !analyzer_.can_prove_equal(a.want, m * c))
          continue;
        // The first one stays.
        if (first < second)
          same_sizes_[m.get()] = n;
        else
          same_sizes_[n.get()] = m;
      }
  }

  std::unordered_map<uint64_t, std::vector<op::SizeFact>> by_sizes_;  ///< what is checked already
  std::vector<uint64_t> made_;                                        ///< keys of `by_sizes_`, in order
  std::vector<size_t> scopes_;
  std::set<const tir::Var*> assumed_;  ///< sizes of tensors
  Analyzer analyzer_;
  const Primitives& primitives_;
  const std::vector<tir::VarRef>& inputs_;
  tir::VarMap same_sizes_;
};

/// Sizes of the inputs, where the function is what a user calls; those that the user gave a bound keep their
/// names.
std::vector<tir::VarRef> sizes_of_inputs(const Function& f, const Map<std::string, int64_t>& bounds) {
  std::vector<tir::VarRef> out;
  if (!f.attrs.contains("global_symbol")) return out;
  for (const VarRef& p : f.params)
    if (p->declared.is<TensorType>()) symbols_of(p->declared, out);
  std::erase_if(out, [&](const tir::VarRef& v) { return bounds.contains(v->name); });
  return out;
}

Ref<Function> with_checks(Ref<Function> f, GivenUpProofs& given_up, const Primitives& primitives,
                          const Map<std::string, int64_t>& bounds) {
  for (;;) {
    const std::vector<tir::VarRef> inputs = sizes_of_inputs(*f, bounds);
    CheckSizes checks(given_up, primitives, inputs);
    const Ref<Function> out = checks.run(f);
    if (checks.same_sizes().empty()) return out;
    f = with_sizes(f, checks.same_sizes());
  }
}

}  // namespace
}  // namespace graph

static IRModule check_sizes(IRModule module, PassContext& context) {
  using namespace graph;
  Primitives primitives;
  for (const auto& [name, object] : module.functions())
    if (const auto f = object.cast<graph::Function>(); f && is_primitive(*f)) primitives[name] = f;
  const Map<std::string, int64_t> bounds = context.options.get(kSizeBounds);
  GivenUpProofs given_up;
  module = module.map_graph([&](const std::string& name, const Ref<graph::Function>& f) -> ObjectRef {
    if (primitives.contains(name)) return {};
    const Ref<graph::Function> out = with_checks(f, given_up, primitives, bounds);
    return out.same_as(f) ? ObjectRef() : ObjectRef(out);
  });
  report_given_up(context, given_up);
  return module;
}

const Pass& check_sizes_pass = register_pass({
    .name = "check_sizes",
    .run = check_sizes,
    .level = 0,
    .summary = "what operators take for granted of symbolic sizes is checked",
    .needs = {"infer_types"},
});

}  // namespace tenon
