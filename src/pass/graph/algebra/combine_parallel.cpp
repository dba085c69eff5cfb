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

/// The contractions that a pass joins.
using Selection = bool (*)(const op::Contraction& c);
bool is_conv2d(const op::Contraction& c) { return c.spatial == 2 && c.groups == 1 && !c.transposed; }
bool is_dense(const op::Contraction& c) { return c.spatial == 0 && c.batch == 0; }
bool is_batch_matmul(const op::Contraction& c) { return c.spatial == 0 && c.batch > 0; }

class CombineParallel : public BodyRewriter {
 public:
  CombineParallel(Selection select, size_t least) : select_(select), least_(least) {}

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
    if (!b.whole) {
      Array<Expr> parts;
      for (const VarRef& v : b.vars) parts.push_back(replaced(b.right.at(v.get())));
      Expr right = emit_op("concat", {op::tuple(parts)}, op::make_attrs<op::AxisAttrs>(b.join.weight_out));
      Array<Expr> args = call.args;
      args.set(1, right);
      b.whole = emit(op::op_call(op_of(value)->name, args, call.attrs, call.origin), var->name + "_wide");
    }
    const int64_t begin = b.begin.at(var.get()), size = b.size.at(var.get());
    return op::op_call("strided_slice", {b.whole}, op::make_attrs<op::StridedSliceAttrs>([&](auto& a) {
                         a.axes = {b.join.result};
                         a.begin = {PrimExpr(begin)};
                         a.end = {PrimExpr(begin + size)};
                       }),
                       call.origin);
  }

 private:
  struct Branches {
    Expr left, whole;
    Call first;
    op::Contraction join;
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
      const Expr value = binding->value;
      const VarRef var = binding->var;
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

  Selection select_;
  size_t least_;
  std::vector<Branches> groups_;
  std::unordered_map<const Var*, size_t> member_;
  std::unordered_map<const Object*, size_t> places_;  ///< in the order of definition
};

IRModule combine(const IRModule& module, int64_t min_branches, Selection select) {
  return module.map_graph([&](const std::string&, const Ref<Function>& f) -> ObjectRef {
    CombineParallel rewriter(select, size_t(std::max<int64_t>(2, min_branches)));
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
