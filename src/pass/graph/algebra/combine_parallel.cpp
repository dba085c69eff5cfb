// SPDX-License-Identifier: Apache-2.0
// combine_parallel_conv2d, combine_parallel_dense, combine_parallel_batch_matmul: contractions of one tensor
// with several others become one wider contraction, whose result is cut.
//
//   before   q = R.matmul(x, wq);  k = R.matmul(x, wk);  v = R.matmul(x, wv)
//   after    w = R.concat((wq, wk, wv), axis=1);  y = R.matmul(x, w)
//            q = R.strided_slice(y, …);  k = R.strided_slice(y, …);  v = R.strided_slice(y, …)
//
// One wide contraction reads x once and fills the machine where narrow ones do not; the cuts cost a copy
// unless their users read them in place, so these passes run on request. At least
// `min_branches` of them must share tensor, attributes and sizes but for the joined
// axis; the other operands are known where the first contraction stands. Needs: types; normal form. Keeps:
// values bit by bit where the schedule of the wider program sums in the same order.
#include "ir/structural.h"
#include "op/body_rewriter.h"
#include "op/build.h"

namespace tenon {
namespace graph {
namespace {

/// Where one kind of contraction is joined: `operand` is the axis of its second argument that the parts are
/// put together on, `result` the axis of the result (both from the end).
struct Join {
  int64_t operand, result;
};
using Rule = std::optional<Join> (*)(const Op& op, const Call& call);

std::optional<Join> join_conv2d(const Op& op, const Call& call) {
  if (op.name != "nn.conv2d" || call.args.size() != 2) return {};
  const auto& a = op::attrs_of<op::ConvAttrs>(call);
  if (a.groups != 1 || !(a.data_layout.empty() || a.data_layout == "NCHW") ||
      !(a.kernel_layout.empty() || a.kernel_layout == "OIHW") || !a.out_layout.empty())
    return {};
  return Join{-4, -3};
}
std::optional<Join> join_dense(const Op& op, const Call& call) {
  const auto* w = as_tensor(call.args[1]);
  if (!w || w->ndim != 2) return {};
  if (op.name == "nn.dense") return Join{-2, -1};
  if (op.name == "matmul") return Join{-1, -1};
  return {};
}
std::optional<Join> join_batch_matmul(const Op& op, const Call& call) {
  const auto *x = as_tensor(call.args[0]), *y = as_tensor(call.args[1]);
  if (op.name != "matmul" || !x || !y || x->ndim < 3 || y->ndim != x->ndim) return {};
  return Join{-1, -1};
}

class CombineParallel : public BodyRewriter {
 public:
  CombineParallel(Rule rule, size_t least) : rule_(rule), least_(least) {}

  void find(const Function& f) {
    for (const VarRef& p : f.params) define(p);
    scan(f.body);
  }

 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    auto at = member_.find(var.get());
    if (at == member_.end()) return value;
    Branches& b = groups_[at->second];
    const Call& call = *value.as<Call>();
    const int64_t rank = as_tensor(var->declared ? var->declared : value->type)->ndim;
    if (!b.whole) {
      Array<Expr> parts;
      for (const VarRef& v : b.vars) parts.push_back(replaced(b.right.at(v.get())));
      const int64_t axis = as_tensor(parts[0])->ndim + b.join.operand;
      Expr right = emit_op("concat", {op::tuple(parts)}, op::make_attrs<op::AxisAttrs>(axis));
      Array<Expr> args = call.args;
      args.set(1, right);
      b.whole = emit(op::op_call(op_of(value)->name, args, call.attrs, call.origin), var->name + "_wide");
    }
    const int64_t begin = b.begin.at(var.get()), size = b.size.at(var.get());
    return op::op_call("strided_slice", {b.whole}, op::make_attrs<op::StridedSliceAttrs>([&](auto& a) {
                         a.axes = {rank + b.join.result};
                         a.begin = {PrimExpr(begin)};
                         a.end = {PrimExpr(begin + size)};
                       }),
                       call.origin);
  }

 private:
  struct Branches {
    Expr left, whole;
    Call first;
    Join join;
    std::vector<VarRef> vars;
    std::unordered_map<const Var*, Expr> right;
    std::unordered_map<const Var*, int64_t> begin, size;
    int64_t end = 0;
    size_t place = 0;  ///< how many variables are defined before the first of them
  };
  /// Groups of one body by the operand that they share, in order.
  struct Open {
    std::vector<Branches> all;
    std::unordered_map<const Object*, std::vector<size_t>> by_left;
  };
  void define(const VarRef& v) { places_.emplace(v.get(), places_.size()); }

  /// Groups of one body; nested bodies have their own.
  void scan(const Expr& body) {
    Open open;
    for (const Binding& binding : bindings_of(body)) {
      const Expr value = binding_value(binding);
      const VarRef var = binding_var(binding);
      if (const auto* i = value.as<If>()) {
        scan(i->true_branch);
        scan(i->false_branch);
      } else if (const auto* w = value.as<While>()) {
        for (const VarRef& v : w->loop_vars) define(v);
        scan(w->body);
      }
      if (binding.is<VarBindingNode>()) add(value, var, open);
      define(var);
    }
    for (Branches& b : open.all) {
      if (b.vars.size() < least_) continue;
      for (const VarRef& v : b.vars) member_[v.get()] = groups_.size();
      groups_.push_back(std::move(b));
    }
  }
  void add(const Expr& value, const VarRef& var, Open& open) {
    const Op* op = op_of(value);
    const Call* call = value.as<Call>();
    if (!op || call->args.size() != 2 || !call->args[0].is<Var>()) return;
    const auto join = rule_(*op, *call);
    auto shape = static_shape(call->args[1]->type);
    if (!join || !shape) return;
    const int64_t axis = int64_t(shape->size()) + join->operand, size = (*shape)[size_t(axis)];
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
    std::vector<size_t>& same = open.by_left[call->args[0].get()];
    const auto found = std::find_if(same.begin(), same.end(), [&](size_t k) { return fits(open.all[k]); });
    const size_t which = found == same.end() ? open.all.size() : *found;
    if (found == same.end()) {
      same.push_back(which);
      open.all.push_back(Branches{call->args[0], {}, *call, *join, {}, {}, {}, {}, 0, places_.size()});
    }
    Branches* it = &open.all[which];
    it->vars.push_back(var);
    it->right[var.get()] = call->args[1];
    it->begin[var.get()] = it->end;
    it->size[var.get()] = size;
    it->end += size;
  }

  Rule rule_;
  size_t least_;
  std::vector<Branches> groups_;
  std::unordered_map<const Var*, size_t> member_;
  std::unordered_map<const Object*, size_t> places_;  ///< in the order of definition
};

IRModule combine(const IRModule& module, int64_t min_branches, Rule rule) {
  return module.map_graph([&](const std::string&, const Ref<Function>& f) -> ObjectRef {
    CombineParallel rewriter(rule, size_t(std::max<int64_t>(2, min_branches)));
    rewriter.find(*f);
    Ref<Function> out = rewriter.run(f);
    return out.same_as(f) ? ObjectRef() : ObjectRef(out);
  });
}

}  // namespace
}  // namespace graph

static constexpr int64_t kMinBranches = 3;
static constexpr char kMinBranchesHelp[] = "fewer contractions of one tensor stay as they are";
static const Option<int64_t> kMinConvs("combine_parallel_conv2d.min_branches", kMinBranches,
                                       kMinBranchesHelp);
static const Option<int64_t> kMinDenses("combine_parallel_dense.min_branches", kMinBranches,
                                        kMinBranchesHelp);
static const Option<int64_t> kMinMatmuls("combine_parallel_batch_matmul.min_branches", kMinBranches,
                                         kMinBranchesHelp);

static IRModule combine_parallel_conv2d(IRModule module, PassContext& context) {
  return graph::combine(module, context.options.get(kMinConvs), graph::join_conv2d);
}
static IRModule combine_parallel_dense(IRModule module, PassContext& context) {
  return graph::combine(module, context.options.get(kMinDenses), graph::join_dense);
}
static IRModule combine_parallel_batch_matmul(IRModule module, PassContext& context) {
  return graph::combine(module, context.options.get(kMinMatmuls), graph::join_batch_matmul);
}

const Pass& combine_parallel_conv2d_pass = register_pass({
    .name = "combine_parallel_conv2d",
    .run = combine_parallel_conv2d,
    .summary = "convolutions of one tensor become one wider convolution",
    .needs = {"infer_types"},
    .keeps = Keeps::sums,
    .options = {kMinConvs},
});
const Pass& combine_parallel_dense_pass = register_pass({
    .name = "combine_parallel_dense",
    .run = combine_parallel_dense,
    .summary = "products of one matrix with several become one wider product",
    .needs = {"infer_types"},
    .keeps = Keeps::sums,
    .options = {kMinDenses},
});
const Pass& combine_parallel_batch_matmul_pass = register_pass({
    .name = "combine_parallel_batch_matmul",
    .run = combine_parallel_batch_matmul,
    .summary = "batched products of one tensor with several become one wider product",
    .needs = {"infer_types"},
    .keeps = Keeps::sums,
    .options = {kMinMatmuls},
});

}  // namespace tenon
