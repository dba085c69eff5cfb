// SPDX-License-Identifier: Apache-2.0
#include "ir/binding_order.h"

#include <algorithm>

#include "ir/bodies.h"
#include "ir/op.h"

namespace tenon::graph {

static bool may_move(const Binding& b) {
  if (!b.is<VarBindingNode>()) return false;
  const Expr value = b->value;
  const Op* op = op_of(value);
  return value.is<Tuple>() || value.is<TupleGetItem>() || (op && op->pure);
}

static RunReads reads_within(const std::vector<Binding>& run) {
  std::unordered_map<const Var*, size_t> at;
  for (size_t i = 0; i < run.size(); ++i) at[run[i]->var.get()] = i;
  RunReads out{std::vector<std::vector<size_t>>(run.size()), std::vector<std::vector<size_t>>(run.size())};
  for (size_t i = 0; i < run.size(); ++i)
    for_each_use(run[i]->value, [&](const VarRef& v) {
      const auto it = at.find(v.get());
      if (it == at.end()) return;
      // The last reader of a value is this one when it reads the value again.
      std::vector<size_t>& readers = out.readers[it->second];
      if (!readers.empty() && readers.back() == i) return;
      readers.push_back(i);
      out.operands[i].push_back(it->second);
    });
  return out;
}

Expr reorder_pure_runs(
    const Expr& e,
    FunctionRef<std::vector<size_t>(const RunReads& reads, const std::vector<Binding>& run)> order) {
  std::vector<Binding> bindings = bindings_of(e), out, run;
  bool changed = false;
  for (Binding& b : bindings)
    changed |= map_bodies(b, [&](const Expr& inner) { return reorder_pure_runs(inner, order); });
  auto flush = [&] {
    if (run.empty()) return;
    const std::vector<size_t> places = order(reads_within(run), run);
    for (size_t i = 0; i < run.size(); ++i) {
      changed = changed || places[i] != i;
      out.push_back(run[places[i]]);
    }
    run.clear();
  };
  for (const Binding& b : bindings) {
    if (may_move(b)) {
      run.push_back(b);
      continue;
    }
    flush();
    out.push_back(b);
  }
  flush();
  return changed ? make_body(out, result_of(e)) : e;
}

std::vector<size_t> depth_first(const RunReads& reads, const std::vector<std::vector<size_t>>& operands) {
  std::vector<char> done(operands.size(), 0);
  std::vector<size_t> out;
  for (size_t root = 0; root < operands.size(); ++root) {
    if (!reads.readers[root].empty()) continue;  // its reader brings it
    std::vector<std::pair<size_t, bool>> stack{{root, false}};
    while (!stack.empty()) {
      const auto [i, ready] = stack.back();
      stack.pop_back();
      if (done[i]) continue;
      if (ready) {
        done[i] = 1;
        out.push_back(i);
        continue;
      }
      stack.emplace_back(i, true);
      for (size_t k = operands[i].size(); k-- > 0;) stack.emplace_back(operands[i][k], false);
    }
  }
  return out;
}

}  // namespace tenon::graph
