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

#include "ir/binding_order.h"
#include "ir/bodies.h"
#include "ir/pass.h"

namespace tenon {
namespace graph {
namespace {

/// Operands in order, each before its first reader.
std::vector<size_t> by_need(const RunReads& reads) { return depth_first(reads, reads.operands); }

/// Values of equal distance from the parameters side by side.
std::vector<size_t> by_level(const RunReads& reads) {
  std::vector<int> level(reads.operands.size(), 0);
  std::vector<size_t> order(level.size());
  for (size_t i = 0; i < order.size(); ++i) {
    order[i] = i;
    for (size_t operand : reads.operands[i]) level[i] = std::max(level[i], level[operand] + 1);
  }
  std::ranges::stable_sort(order, {}, [&](size_t i) { return level[i]; });
  return order;
}

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
    const Expr next = reorder_pure_runs(f->body, [&](const RunReads& reads, const std::vector<Binding>&) {
      return order == "depth_first" ? by_need(reads) : by_level(reads);
    });
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
