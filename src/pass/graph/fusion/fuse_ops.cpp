// SPDX-License-Identifier: Apache-2.0
// fuse_ops: operator calls that one kernel computes become one call of a primitive function.
//
//   before   lv = R.nn.conv2d(x, w);  lv1 = R.add(lv, b);  lv2 = R.nn.relu(lv1)
//   after    lv2 = fused_conv2d_add_relu(x, w, b)          with that function in the module, "primitive" = 1
//
// Needs: types inferred, dead code gone. Keeps: normal form, the value of every variable that is left, order
// of impure calls. A group that only widens its value at its end leaves that to the one kernel that reads it
// element by element: bytes pass through memory as bytes. What moves the second operand of a product joins
// the product where its kernel lays that operand out anew for a dot instruction. A reshape of symbolic sizes
// at an end of a group stays outside, where it is a view (views.cpp). Works inside branches and
// loop bodies; what surrounds an If or While fuses across it. Reports why (explain_fusion).
#include "pass/graph/fusion/fusion.h"

#include <algorithm>
#include <functional>
#include <map>

#include "ir/bodies.h"
#include "ir/pass.h"
#include "ir/regions.h"
#include "ir/structural.h"
#include "pass/graph/fusion/group.h"

namespace tenon {
namespace graph {
namespace {

class Fuser {
 public:
  Fuser(IRModule module, const PassContext& context, FusionLimits limits)
      : module_(std::move(module)), context_(context), limits_(limits) {}

  IRModule run() {
    for (auto [name, object] : module_.functions()) {
      Ref<Function> f = object.cast<Function>();
      if (!f || is_primitive(*f)) continue;
      name_ = name;
      Expr body = rewrite_body(f->body);
      if (body.same_as(f->body)) continue;
      set_body(f, body);
      module_.set(name, f);
    }
    return module_;
  }

 private:
  Expr rewrite_body(const Expr& body) {
    FusionGraph g = fusion_graph(body);
    std::vector<PostDominator> dominators = post_dominators(g);
    std::vector<int> groups = fusion_groups(g, dominators, limits_);
    if (context_.report) context_.report("fuse_ops", explain_fusion(name_, g, dominators, groups));
    std::vector<std::vector<int>> members(g.nodes.size());
    for (int i = 0; i < int(g.nodes.size()); ++i) members[groups[i]].push_back(i);
    std::vector<bool> fused(g.nodes.size(), false);
    for (std::vector<int>& group : members) prune(g, groups, group, fused);

    std::vector<Binding> out(g.nodes.size());
    bool changed = false;
    for (int i = 0; i < int(g.nodes.size()); ++i) {
      const Binding& b = g.bindings[i];
      if (!fused[i]) {
        out[i] = b;
        changed |= map_bodies(out[i], [&](const Expr& x) { return rewrite_body(x); });
      } else if (groups[i] == i) {
        out[i] = make<VarBindingNode>(b->var, call_group(g, members[i]));
        changed = true;
      }
    }
    return changed ? in_regions(body, out, result_of(body)) : body;
  }

  /// Leaves in `group` what becomes a function: at least one operator and two values. Parts of a tuple made
  /// outside are taken before the call.
  void prune(const FusionGraph& g, const std::vector<int>& groups, std::vector<int>& group,
             std::vector<bool>& fused) {
    std::vector<int> kept;
    int calls = 0;
    for (int i : group) {
      Expr value = g.bindings[i]->value;
      if (value.is<TupleGetItem>()) {
        bool inside = !g.nodes[i].inside.empty() && groups[g.nodes[i].inside[0]] == groups[i];
        if (!inside && i != groups[i]) continue;
        if (!inside) {
          kept.clear();
          break;
        }
      }
      calls += value.is<Call>();
      kept.push_back(i);
    }
    if (calls == 0 || kept.size() < 2) kept.clear();
    group = kept;
    for (int i : group) fused[i] = true;
  }

  Expr call_group(const FusionGraph& g, const std::vector<int>& members) {
    std::vector<Binding> bindings;
    for (int i : members) bindings.push_back(g.bindings[i]);
    VarRef result = bindings.back()->var;
    Group group = make_group(bindings, result);
    std::string name = intern(kernel_name("fused", bindings), group.function);
    Expr callee = global(name);
    Array<Type> params;
    for (const VarRef& p : group.function->params) params.push_back(p->declared);
    callee.edit()->type = make<FuncType>(params, group.function->ret_type, false);
    return with_type(call(callee, group.args), result->declared, bindings[0]->value->origin);
  }

  /// Groups that compute the same share one function.
  std::string intern(const std::string& hint, const Ref<Function>& f) {
    auto& same = known_[structural_hash(f)];
    for (auto& [other, name] : same)
      if (structural_equal(other, f)) return name;
    std::string name = module_.fresh_name(hint);
    module_.set(name, f);
    same.emplace_back(f, name);
    return name;
  }

  IRModule module_;
  const PassContext& context_;
  FusionLimits limits_;
  std::string name_;
  std::unordered_map<uint64_t, std::vector<std::pair<Ref<Function>, std::string>>> known_;
};

}  // namespace
}  // namespace graph

static const Option<int64_t> kFuseMaxDepth("fuse_ops.max_depth", graph::FusionLimits().max_depth,
                                           "operators of one kernel at most", {.least = 1});
static const Option<int64_t> kFuseMaxArguments("fuse_ops.max_arguments", graph::FusionLimits().max_arguments,
                                               "tensors that one kernel reads at most", {.least = 1});

static IRModule fuse_ops(IRModule module, PassContext& context) {
  graph::FusionLimits limits;
  limits.target = context.target.cast<TargetNode>();
  limits.max_depth = int(context.options.get(kFuseMaxDepth));
  limits.max_arguments = int(context.options.get(kFuseMaxArguments));
  return graph::Fuser(std::move(module), context, limits).run();
}

const Pass& fuse_ops_pass = register_pass({
    .name = "fuse_ops",
    .run = fuse_ops,
    .level = 1,
    .summary = "operators that one kernel computes become one function",
    .needs = {"infer_types"},
    .options = {kFuseMaxDepth, kFuseMaxArguments},
});

}  // namespace tenon
