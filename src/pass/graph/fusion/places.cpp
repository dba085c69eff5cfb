// SPDX-License-Identifier: Apache-2.0
#include "pass/graph/fusion/places.h"

#include <algorithm>

#include "ir/bodies.h"

namespace tenon::graph {
namespace {

constexpr int kViewsInARow = 4;

/// Takes no time and reads only what it is made of.
bool is_view(const Binding& b) {
  const Expr value = b->value;
  if (!b.is<VarBindingNode>()) return false;
  if (value.is<TupleGetItem>() || value.is<Tuple>()) return true;
  const auto* call = value.as<Call>();
  const auto* name = call && !call->args.empty() ? call->args[0].as<ExternFunc>() : nullptr;
  return name && is_op(value, "call_pure_packed") && name->symbol == "vm.builtin.reshape";
}

}  // namespace

Places::Places(const std::vector<Binding>& bindings) : bindings(bindings), moved(bindings.size()) {
  for (size_t i = 0; i < bindings.size(); ++i) of[bindings[i]->var.get()] = i;
}

bool Places::known_before(size_t place, const Expr& value, std::vector<size_t>& with, int depth) const {
  bool known = true;
  for_each_use(value, [&](const VarRef& v) {
    const auto at = of.find(v.get());
    if (!known || at == of.end() || at->second < place) return;
    if (std::ranges::find(with, at->second) != with.end()) return;
    known = depth < kViewsInARow && !moved[at->second] && is_view(bindings[at->second]) &&
            known_before(place, bindings[at->second]->value, with, depth + 1);
    if (known) with.push_back(at->second);
  });
  return known;
}

void Places::take_away(size_t from, size_t to) {
  moved[from] = true;
  of[bindings[from]->var.get()] = to;
}

Expr Places::body(const Expr& result) const {
  std::vector<Binding> out;
  for (size_t i = 0; i < bindings.size(); ++i) {
    if (const auto made = instead_of.find(i); made != instead_of.end())
      out.insert(out.end(), made->second.begin(), made->second.end());
    else if (!moved[i])
      out.push_back(bindings[i]);
  }
  return make_body(out, result);
}

}  // namespace tenon::graph
