// SPDX-License-Identifier: Apache-2.0
// to_basic_block_normal_form: a value that only one branch reads is computed in that branch.
//
//   before   lv = R.exp(x);  y = if c: lv1 = R.add(lv, x); lv1   else: x
//   after    y = if c: lv = R.exp(x); lv1 = R.add(lv, x); lv1    else: x
//
// So the other branch does not pay for it. Works through chains and nested branches, never into loops or
// closures, which would compute it again. Pure operators only; needs: normal form. Keeps: values, order of
// effects.
#include "ir/bodies.h"
#include "ir/pass.h"

#include <map>

namespace tenon {
namespace graph {
namespace {

class BasicBlocks {
 public:
  Expr body(const Expr& e) {
    std::vector<Binding> bindings = bindings_of(e);
    // Where a variable is read: in branch (binding, branch), in this body {-1, 0}, or nowhere yet.
    using Place = std::pair<int, int>;
    const Place here{-1, 0};
    std::unordered_map<const Var*, Place> places;
    auto read = [&](const Expr& value, Place at) {
      for_each_use(value, [&](const VarRef& v) {
        auto [it, first] = places.emplace(v.get(), at);
        if (!first && it->second != at) it->second = here;
      });
    };
    read(result_of(e), here);
    std::map<Place, std::vector<Binding>> moved;  // of a branch, last first
    std::vector<bool> gone(bindings.size(), false);
    for (int i = int(bindings.size()) - 1; i >= 0; --i) {
      const Expr value = bindings[size_t(i)]->value;
      auto at = places.find(bindings[size_t(i)]->var.get());
      if (at != places.end() && at->second != here && may_move(bindings[size_t(i)])) {
        const Place branch = at->second;
        moved[branch].push_back(bindings[size_t(i)]);
        gone[size_t(i)] = true;
        read(value, branch);
        continue;
      }
      if (value.is<If>() || value.is<Match>()) {
        if (const auto* n = value.as<If>()) read(n->condition, here);
        if (const auto* n = value.as<Match>()) read(n->value, here);
        const std::vector<Expr> branches = bodies_of(value);
        for (size_t k = 0; k < branches.size(); ++k) read(branches[k], {i, int(k)});
      } else {
        read(value, here);
      }
    }
    std::vector<Binding> out;
    bool changed = false;
    for (int i = 0; i < int(bindings.size()); ++i) {
      if (gone[size_t(i)]) {
        changed = true;
        continue;
      }
      Binding& b = bindings[size_t(i)];
      int branch = 0;
      changed |= map_bodies(b, [&](const Expr& old) {
        const auto it = moved.find({i, branch++});
        if (it == moved.end()) return body(old);
        std::vector<Binding> all(it->second.rbegin(), it->second.rend());
        for (const Binding& x : bindings_of(old)) all.push_back(x);
        return body(make_body(all, result_of(old)));
      });
      out.push_back(b);
    }
    return changed ? make_body(out, result_of(e)) : e;
  }

 private:
  static bool may_move(const Binding& b) {
    const Expr value = b->value;
    if (!b.is<VarBindingNode>()) return false;
    if (value.is<Tuple>() || value.is<TupleGetItem>()) return true;
    const Op* op = op_of(value);
    return op && op->pure && op->name != "call_pure_packed" && op->name != "call_dps_packed";
  }
};

}  // namespace
}  // namespace graph

static IRModule to_basic_block_normal_form(IRModule module, PassContext&) {
  using namespace graph;
  return module.map_graph([](const std::string&, const Ref<graph::Function>& f) -> ObjectRef {
    Expr next = f->body ? BasicBlocks().body(f->body) : f->body;
    if (!next || next.same_as(f->body)) return {};
    return with_bodies(f, {next});
  });
}

const Pass& to_basic_block_normal_form_pass = register_pass({
    .name = "to_basic_block_normal_form",
    .run = to_basic_block_normal_form,
    .summary = "a value that only one branch reads is computed in that branch",
});

}  // namespace tenon
