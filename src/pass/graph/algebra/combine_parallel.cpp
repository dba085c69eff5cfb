// SPDX-License-Identifier: Apache-2.0
// combine_parallel, combine_parallel_conv2d, combine_parallel_dense, combine_parallel_batch_matmul:
// contractions of one tensor with several others become one wider contraction, whose result is cut.
//
//   before   q = R.matmul(x, wq);  k = R.matmul(x, wk);  v = R.matmul(x, wv)
//   after    w = R.concat((wq, wk, wv), axis=1);  y = R.matmul(x, w)
//            q = R.strided_slice(y, …);  k = R.strided_slice(y, …);  v = R.strided_slice(y, …)
//
// One wide contraction reads x once and fills vectors where narrow ones do not; the cuts cost a copy unless
// their users read them in place. By default (combine_parallel) those of constant weights are joined that the
// machine gains by: together they fill fewer vectors, and what that saves is more than the cuts cost (gains).
// The other three passes join on request what is of their kind; at least
// `min_branches` of them must share tensor, attributes and sizes but for the joined
// axis; the other operands are known where the first contraction stands. Element-wise operators that follow
// all branches of a group alike are joined, too, their operands along the channels one behind the other:
//
//   before   a = R.nn.conv2d(x, u);  b = R.nn.conv2d(x, v);  c = R.add(a, p);  d = R.add(b, q)
//   after    y = R.nn.conv2d(x, R.concat((u, v)));  z = R.add(y, R.concat((p, q)))
//            c = R.strided_slice(z, …);  d = R.strided_slice(z, …)
//
// Needs: types; normal form. Keeps: values bit by bit where the schedule of the wider program sums in the
// same order.
#include "analysis/cost/nest.h"
#include "ir/structural.h"
#include "op/body_rewriter.h"
#include "op/build.h"

namespace tenon {
namespace graph {
namespace {

/// The contractions that a pass joins.
using Selection = bool (*)(const op::Contraction& c);
bool is_conv2d(const op::Contraction& c) { return c.spatial == 2 && c.groups == 1 && !c.transposed; }
bool is_dense(const op::Contraction& c) { return c.spatial == 0 && c.batch == 0; }
bool is_batch_matmul(const op::Contraction& c) { return c.spatial == 0 && c.batch > 0; }
bool is_plain(const op::Contraction& c) { return c.groups == 1 && c.batch == 0 && !c.transposed; }

/// Multiply-adds that take as long as cutting one element out of the whole result. Measured on a Zen 5, three
/// 1×1 convolutions of 72 channels on 64 (saved per element: 5) take as long together, two of 85 (6) 1.5
/// times as long; three products of 72 columns, sums of 128 (9), take 0.89, three convolutions of 3×3 with 24
/// channels (128) 0.61.
constexpr int64_t kCut = 8;

class CombineParallel : public BodyRewriter {
 public:
  /// `lanes`: of a vector of the machine that has to gain; 0: whatever it gains.
  CombineParallel(Selection select, size_t least, int64_t lanes)
      : select_(select), least_(least), lanes_(lanes) {}

  void find(const Function& f) {
    for (const VarRef& p : f.params) define(p);
    for (const auto& [v, n] : count_uses(f)) uses_[v] = n;
    scan(f.body);
  }

 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    if (auto end = ends_.find(var.get()); end != ends_.end()) {
      const auto& [group, branch] = end->second;
      const Branches& b = groups_[group];
      return part(b, b.vars[branch].get(), value.as<Call>()->origin);
    }
    auto at = member_.find(var.get());
    if (at == member_.end()) return value;
    Branches& b = groups_[at->second];
    const Call& call = *value.as<Call>();
    if (!b.whole) {
      Array<Expr> parts;
      for (const VarRef& v : b.vars) parts.push_back(replaced(b.right.at(v.get())));
      Expr right = emit_op("concat", {op::tuple(parts)}, op::make_attrs<op::AxisAttrs>(b.join.weight_out));
      Array<Expr> args = call.args;
      args.set(1, right);
      b.whole = emit(op::op_call(op_of(value)->name, args, call.attrs, call.origin), var->name + "_wide");
      for (const Step& step : b.steps) b.whole = emit(stacked(step, b.whole), var->name + "_wide");
    }
    // What follows all branches reads the whole: nobody reads this one, which eliminate_dead_code drops.
    return b.steps.empty() ? part(b, var.get(), call.origin) : value;
  }

 private:
  /// An operator that follows all branches alike.
  struct Step {
    Call first;         ///< that of the first branch
    size_t place = 0;   ///< the operand that is the branch
    size_t joined = 0;  ///< the operand that each branch has its own of; `place`: none
    int64_t axis = 0;   ///< along which those are joined
    std::vector<Expr> own;
  };
  struct Branches {
    Expr left, whole;
    Call first;
    op::Contraction join;
    std::vector<VarRef> vars;
    std::unordered_map<const Var*, Expr> right;
    std::unordered_map<const Var*, int64_t> begin, size;
    int64_t end = 0;
    size_t place = 0;  ///< how many variables are defined before the first of them
    std::vector<Step> steps = {};
  };
  /// Groups of one body by the operand that they share, in order.
  struct BranchGroups {
    std::vector<Branches> all;
    std::unordered_map<const Object*, std::vector<size_t>> by_left;
  };
  void define(const VarRef& v) { places_.emplace(v.get(), places_.size()); }

  /// The branch of the variable, cut from the whole.
  static Expr part(const Branches& b, const Var* var, const Origin& origin) {
    const int64_t begin = b.begin.at(var), size = b.size.at(var);
    return op::op_call("strided_slice", {b.whole}, op::make_attrs<op::StridedSliceAttrs>([&](auto& a) {
                         a.axes = {b.join.result};
                         a.begin = {PrimExpr(begin)};
                         a.end = {PrimExpr(begin + size)};
                       }),
                       origin);
  }
  /// The step on the whole.
  Expr stacked(const Step& step, const Expr& whole) {
    Array<Expr> args = step.first.args.map([&](const Expr& e) { return replaced(e); });
    args.set(step.place, whole);
    if (step.joined != step.place) {
      Array<Expr> parts;
      for (const Expr& e : step.own) parts.push_back(replaced(e));
      args.set(step.joined, emit_op("concat", {op::tuple(parts)}, op::make_attrs<op::AxisAttrs>(step.axis)));
    }
    return op::op_call(step.first.op.as<Op>()->name, args, step.first.attrs, step.first.origin);
  }

  /// The operand is known in front of the group.
  bool known_before(const Expr& e, const Branches& b) const {
    const auto* v = e.as<Var>();
    if (!v) return e.is<Constant>();
    const auto at = places_.find(v);
    return at != places_.end() && at->second < b.place;
  }
  /// The axis of an operand that lies along the channels of a result of this shape: of a bias, the axis that
  /// its attribute names. Nullopt: it has one element there, or another number than there are.
  static std::optional<int64_t> channel_axis(const Call& call, const Expr& e, const Branches& b, int64_t rank,
                                             int64_t channels) {
    const auto shape = static_shape(e->type);
    if (!shape) return std::nullopt;
    int64_t axis = b.join.result - (rank - int64_t(shape->size()));
    if (call.op.as<Op>()->name == "nn.bias_add") {
      const int64_t named = op::attrs_of<op::AxisAttrs>(call).axis;
      if ((named < 0 ? named + rank : named) != b.join.result) return std::nullopt;
      axis = 0;
    }
    if (axis < 0 || (*shape)[size_t(axis)] != channels) return std::nullopt;
    return axis;
  }
  /// The only call that uses each of the variables, when all are alike; nullopt: they part here.
  std::optional<Step> step_behind(const Branches& b, const std::vector<const Var*>& now,
                                  std::vector<VarRef>& next) const {
    Step step;
    for (size_t i = 0; i < now.size(); ++i) {
      const auto user = users_.find(now[i]);
      const auto uses = uses_.find(now[i]);
      if (user == users_.end() || uses == uses_.end() || uses->second != 1) return std::nullopt;
      const auto& [var, call] = user->second;
      const Op& op = *call->op.as<Op>();
      const auto mine = static_shape(now[i]->type), result = static_shape(var->type);
      if (!op.pure || op::definition(op).fusion > FusionKind::broadcast || !mine || mine != result)
        return std::nullopt;
      size_t place = 0;
      while (place < call->args.size() && call->args[place].get() != static_cast<const ExprNode*>(now[i]))
        ++place;
      if (place == call->args.size()) return std::nullopt;
      if (i == 0) {
        step.first = *call;
        step.place = step.joined = place;
      } else if (!step.first.op.same_as(call->op) || place != step.place ||
                 call->args.size() != step.first.args.size() ||
                 !structural_equal(step.first.attrs, call->attrs)) {
        return std::nullopt;
      }
      next.push_back(var);
      const auto rank = int64_t(mine->size());
      for (size_t k = 0; k < call->args.size(); ++k) {
        if (k == place) continue;
        const Expr& e = call->args[k];
        const auto axis = channel_axis(*call, e, b, rank, (*mine)[size_t(b.join.result)]);
        if (!known_before(e, b)) return std::nullopt;
        if (!axis) {
          // The same for all branches and all channels.
          const auto shape = static_shape(e->type);
          const int64_t at = shape ? b.join.result - (rank - int64_t(shape->size())) : 0;
          if (!shape || (at >= 0 && (*shape)[size_t(at)] != 1) || !structural_equal(e, step.first.args[k]))
            return std::nullopt;
        } else if (i == 0 && step.joined == place) {
          step.joined = k, step.axis = *axis;
        } else if (step.joined != k || step.axis != *axis) {
          return std::nullopt;
        }
        if (axis) step.own.push_back(e);
      }
      if (step.joined != place && step.own.size() != i + 1) return std::nullopt;
    }
    return joins(step) ? std::optional(std::move(step)) : std::nullopt;
  }
  /// The operands that each branch has its own of differ along the joined axis only.
  static bool joins(const Step& step) {
    for (const Expr& e : step.own) {
      const auto a = static_shape(step.own[0]->type), c = static_shape(e->type);
      if (as_tensor(e)->dtype != as_tensor(step.own[0])->dtype || a->size() != c->size()) return false;
      for (size_t d = 0; d < a->size(); ++d)
        if (int64_t(d) != step.axis && (*a)[d] != (*c)[d]) return false;
    }
    return true;
  }
  void follow(Branches& b, size_t group) {
    std::vector<const Var*> now;
    std::vector<VarRef> last;
    for (const VarRef& v : b.vars) now.push_back(v.get());
    for (;;) {
      std::vector<VarRef> next;
      auto step = step_behind(b, now, next);
      if (!step) break;
      b.steps.push_back(std::move(*step));
      now.clear();
      for (const VarRef& v : next) now.push_back(v.get());
      last = std::move(next);
    }
    for (size_t i = 0; i < last.size(); ++i) ends_[last[i].get()] = {group, i};
  }

  /// Groups of one body; nested bodies have their own.
  void scan(const Expr& body) {
    BranchGroups groups;
    for (const Binding& binding : bindings_of(body)) {
      const Expr value = binding->value;
      const VarRef var = binding->var;
      if (const auto* i = value.as<If>()) {
        scan(i->true_branch);
        scan(i->false_branch);
      } else if (const auto* w = value.as<While>()) {
        for (const VarRef& v : w->loop_vars) define(v);
        scan(w->body);
      }
      if (binding.is<VarBindingNode>()) {
        add(value, var, groups);
        if (const Op* op = op_of(value))
          if (!op::definition(*op).contraction)
            for (const Expr& e : value.as<Call>()->args)
              if (const auto* v = e.as<Var>()) users_[v] = {var, value.cast<Call>()};
      }
      define(var);
    }
    for (Branches& b : groups.all) {
      if (b.vars.size() < least_ || (lanes_ && !gains(b))) continue;
      for (const VarRef& v : b.vars) member_[v.get()] = groups_.size();
      follow(b, groups_.size());
      groups_.push_back(std::move(b));
    }
  }
  /// Together they fill fewer vectors, and the multiply-adds that this saves are more than the cuts cost.
  /// Images of fewer channels than a vector has lanes have pixels in their lanes.
  bool gains(const Branches& b) const {
    int64_t apart = 0;
    for (const VarRef& v : b.vars) {
      if (!b.right.at(v.get()).is<Constant>()) return false;
      apart += cost::ceil_div(b.size.at(v.get()), lanes_);
    }
    const int64_t saved = apart - cost::ceil_div(b.end, lanes_);
    if (saved <= 0 || (b.join.spatial > 0 && b.end < lanes_)) return false;
    const auto weight = *static_shape(b.first.args[1]->type);
    int64_t sum = 1;
    for (size_t i = 0; i < weight.size(); ++i) sum *= int64_t(i) == b.join.weight_out ? 1 : weight[i];
    return sum * saved * lanes_ >= kCut * b.end;
  }
  void add(const Expr& value, const VarRef& var, BranchGroups& groups) {
    const Op* op = op_of(value);
    const Call* call = value.as<Call>();
    if (!op || call->args.size() != 2 || !call->args[0].is<Var>()) return;
    const op::ContractionRule& rule = op::definition(*op).contraction;
    const auto join = rule ? rule(*call) : std::nullopt;
    auto shape = static_shape(call->args[1]->type);
    if (!join || !select_(*join) || !shape) return;
    const int64_t axis = join->weight_out, size = (*shape)[size_t(axis)];
    auto fits = [&](const Branches& b) {
      const Expr& right = call->args[1];
      if (!b.left.same_as(call->args[0]) || !b.first.op.same_as(call->op) ||
          !structural_equal(b.first.attrs, call->attrs))
        return false;
      if (const auto* v = right.as<Var>()) {
        auto at = places_.find(v);
        if (at == places_.end() || at->second >= b.place) return false;
      }
      auto other = static_shape(b.first.args[1]->type);
      if (other->size() != shape->size() || as_tensor(right)->dtype != as_tensor(b.first.args[1])->dtype)
        return false;
      for (size_t i = 0; i < shape->size(); ++i)
        if (int64_t(i) != axis && (*shape)[i] != (*other)[i]) return false;
      return true;
    };
    std::vector<size_t>& same = groups.by_left[call->args[0].get()];
    const auto found = std::find_if(same.begin(), same.end(), [&](size_t k) { return fits(groups.all[k]); });
    const size_t which = found == same.end() ? groups.all.size() : *found;
    if (found == same.end()) {
      same.push_back(which);
      groups.all.push_back(Branches{call->args[0], {}, *call, *join, {}, {}, {}, {}, 0, places_.size()});
    }
    Branches* it = &groups.all[which];
    it->vars.push_back(var);
    it->right[var.get()] = call->args[1];
    it->begin[var.get()] = it->end;
    it->size[var.get()] = size;
    it->end += size;
  }

  Selection select_;
  size_t least_;
  int64_t lanes_;
  std::vector<Branches> groups_;
  std::unordered_map<const Var*, size_t> member_;
  std::unordered_map<const Var*, std::pair<size_t, size_t>> ends_;  ///< of a chain of steps: group and branch
  std::unordered_map<const Var*, int> uses_;
  std::unordered_map<const Var*, std::pair<VarRef, Ref<Call>>>
      users_;                                         ///< an operator in the same body or below
  std::unordered_map<const Object*, size_t> places_;  ///< in the order of definition
};

constexpr int64_t kTwo = 2;  ///< fewer are none

IRModule combine(const IRModule& module, int64_t min_branches, Selection select, int64_t lanes = 0) {
  return module.map_graph([&](const std::string&, const Ref<Function>& f) -> ObjectRef {
    CombineParallel rewriter(select, size_t(std::max(kTwo, min_branches)), lanes);
    rewriter.find(*f);
    Ref<Function> out = rewriter.run(f);
    return out.same_as(f) ? ObjectRef() : ObjectRef(out);
  });
}

}  // namespace
}  // namespace graph

static constexpr int64_t kMinBranches = 3;
static const OptionValues kBranches{.least = 2};
static constexpr char kMinBranchesHelp[] = "fewer contractions of one tensor stay as they are";
static const Option<int64_t> kMinConvs("combine_parallel_conv2d.min_branches", kMinBranches, kMinBranchesHelp,
                                       kBranches);
static const Option<int64_t> kMinDenses("combine_parallel_dense.min_branches", kMinBranches, kMinBranchesHelp,
                                        kBranches);
static const Option<int64_t> kMinMatmuls("combine_parallel_batch_matmul.min_branches", kMinBranches,
                                         kMinBranchesHelp, kBranches);

static IRModule combine_parallel_conv2d(IRModule module, PassContext& context) {
  return graph::combine(module, context.options.get(kMinConvs), graph::is_conv2d);
}
static IRModule combine_parallel_dense(IRModule module, PassContext& context) {
  return graph::combine(module, context.options.get(kMinDenses), graph::is_dense);
}
static IRModule combine_parallel_batch_matmul(IRModule module, PassContext& context) {
  return graph::combine(module, context.options.get(kMinMatmuls), graph::is_batch_matmul);
}

static IRModule combine_parallel(IRModule module, PassContext& context) {
  const Target target = context.target.cast<TargetNode>();
  const int64_t lanes = target ? target->lanes(f32) : 1;
  return lanes > 1 ? graph::combine(module, graph::kTwo, graph::is_plain, lanes) : module;
}

const Pass& combine_parallel_pass = register_pass({
    .name = "combine_parallel",
    .run = combine_parallel,
    .level = 2,
    .summary = "products and convolutions of one tensor become one where that fills fewer vectors",
    .needs = {"infer_types"},
    .changes = Changes::sum_order,
});
const Pass& combine_parallel_conv2d_pass = register_pass({
    .name = "combine_parallel_conv2d",
    .run = combine_parallel_conv2d,
    .summary = "convolutions of one tensor become one wider convolution",
    .needs = {"infer_types"},
    .changes = Changes::sum_order,
    .options = {kMinConvs},
});
const Pass& combine_parallel_dense_pass = register_pass({
    .name = "combine_parallel_dense",
    .run = combine_parallel_dense,
    .summary = "products of one matrix with several become one wider product",
    .needs = {"infer_types"},
    .changes = Changes::sum_order,
    .options = {kMinDenses},
});
const Pass& combine_parallel_batch_matmul_pass = register_pass({
    .name = "combine_parallel_batch_matmul",
    .run = combine_parallel_batch_matmul,
    .summary = "batched products of one tensor with several become one wider product",
    .needs = {"infer_types"},
    .changes = Changes::sum_order,
    .options = {kMinMatmuls},
});

}  // namespace tenon
