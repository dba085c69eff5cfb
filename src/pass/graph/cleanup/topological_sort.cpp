// SPDX-License-Identifier: Apache-2.0
// topological_sort: pure bindings stand in the order in which they are needed.
//
//   before   a = R.exp(x);  b = R.sin(x);  c = R.cos(a);  d = R.add(b, c)
//   after    b = R.sin(x);  a = R.exp(x);  c = R.cos(a);  d = R.add(b, c)                   # depth first
//
// "topological_sort.order": "depth_first" (default) puts each value right before what reads it first, so that
// few are alive at once; "breadth_first" puts values of equal distance from the parameters side by side.
// Impure bindings, control flow and match_cast stay where they are; what stands between two of them is
// sorted. Keeps: values, order of effects.
#include <algorithm>

#include "base/diagnostic.h"
#include "ir/bodies.h"
#include "ir/pass.h"

namespace tenon {
namespace graph {
namespace {

class TopologicalSort {
 public:
  explicit TopologicalSort(bool depth) : depth_(depth) {}

  Expr body(const Expr& e) {
    std::vector<Binding> bindings = bindings_of(e), out;
    bool changed = false;
    for (Binding& b : bindings) {
      changed |= map_bodies(b, [&](const Expr& x) { return body(x); });
    }
    std::vector<Binding> run;
    auto flush = [&] {
      const std::vector<Binding> sorted = depth_ ? by_need(run) : by_level(run);
      for (size_t i = 0; i < run.size(); ++i) changed = changed || !sorted[i].same_as(run[i]);
      out.insert(out.end(), sorted.begin(), sorted.end());
      run.clear();
    };
    for (const Binding& b : bindings) {
      const Expr value = b->value;
      const Op* op = op_of(value);
      const bool free =
          b.is<VarBindingNode>() && (value.is<Tuple>() || value.is<TupleGetItem>() || (op && op->pure));
      if (free) {
        run.push_back(b);
        continue;
      }
      flush();
      out.push_back(b);
    }
    flush();
    return changed ? make_body(out, result_of(e)) : e;
  }

 private:
  using Places = std::unordered_map<const Var*, size_t>;
  static Places places_of(const std::vector<Binding>& run) {
    Places at;
    for (size_t i = 0; i < run.size(); ++i) at[run[i]->var.get()] = i;
    return at;
  }
  /// From the last bindings back: operands in order, each before its first reader. Keeps its own stack.
  static std::vector<Binding> by_need(const std::vector<Binding>& run) {
    const Places at = places_of(run);
    std::vector<char> read(run.size(), 0), done(run.size(), 0);
    for (const Binding& b : run)
      for_each_use(b->value, [&](const VarRef& v) {
        if (auto it = at.find(v.get()); it != at.end()) read[it->second] = 1;
      });
    std::vector<Binding> out;
    for (size_t root = 0; root < run.size(); ++root) {
      if (read[root]) continue;  // its reader brings it
      std::vector<std::pair<size_t, bool>> stack{{root, false}};
      while (!stack.empty()) {
        auto [i, ready] = stack.back();
        stack.pop_back();
        if (done[i]) continue;
        if (ready) {
          done[i] = 1;
          out.push_back(run[i]);
          continue;
        }
        stack.emplace_back(i, true);
        std::vector<size_t> operands;
        for_each_use(run[i]->value, [&](const VarRef& v) {
          if (auto it = at.find(v.get()); it != at.end()) operands.push_back(it->second);
        });
        for (size_t k = operands.size(); k-- > 0;) stack.emplace_back(operands[k], false);
      }
    }
    return out;
  }
  static std::vector<Binding> by_level(const std::vector<Binding>& run) {
    const Places at = places_of(run);
    std::vector<int> level(run.size(), 0);
    for (size_t i = 0; i < run.size(); ++i)
      for_each_use(run[i]->value, [&](const VarRef& v) {
        if (auto it = at.find(v.get()); it != at.end()) level[i] = std::max(level[i], level[it->second] + 1);
      });
    std::vector<size_t> order(run.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return level[a] < level[b]; });
    std::vector<Binding> out;
    for (size_t i : order) out.push_back(run[i]);
    return out;
  }

  bool depth_;
};

}  // namespace
}  // namespace graph

static const Option<std::string> kOrder("topological_sort.order", "depth_first",
                                        "which of the values that are ready comes next",
                                        {.one_of = {"depth_first", "breadth_first"}});

static IRModule topological_sort(IRModule module, PassContext& context) {
  using namespace graph;
  const auto order = context.options.get(kOrder);
  return module.map_graph([&](const std::string&, const Ref<graph::Function>& f) -> ObjectRef {
    if (!f->body) return {};
    Expr next = TopologicalSort(order == "depth_first").body(f->body);
    return next.same_as(f->body) ? ObjectRef() : ObjectRef(with_bodies(f, {next}));
  });
}

const Pass& topological_sort_pass = register_pass({
    .name = "topological_sort",
    .run = topological_sort,
    .summary = "values stand where they are first needed",
    .options = {kOrder},
});

}  // namespace tenon
