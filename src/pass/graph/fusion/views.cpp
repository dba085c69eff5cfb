// SPDX-License-Identifier: Apache-2.0
// Reshapes at the ends of a group stay outside of it where every index would be taken apart in a kernel, by
// divisions by symbolic sizes or element by element: alone they are views, which take no time.
#include <algorithm>
#include <numeric>
#include <utility>

#include "op/op_def.h"
#include "pass/graph/fusion/fusion.h"

namespace tenon::graph {
namespace {

/// The shapes differ in axes of symbolic size: those between the axes that both share at the beginning and at
/// the end.
bool mixes_symbols(const Array<PrimExpr>& from, const Array<PrimExpr>& to) {
  const size_t least = std::min(from.size(), to.size());
  size_t head = 0, tail = 0;
  while (head < least && op::same_dim(from[head], to[head])) ++head;
  while (head + tail < least && op::same_dim(from[from.size() - 1 - tail], to[to.size() - 1 - tail])) ++tail;
  const auto symbolic = [&](const Array<PrimExpr>& shape) {
    for (size_t i = head; i + tail < shape.size(); ++i)
      if (!tir::as_int(shape[i])) return true;
    return false;
  };
  return symbolic(from) || symbolic(to);
}

/// Vectors along the last axis of one shape end inside of a row of the other.
bool splits_vectors(const Array<PrimExpr>& from, const Array<PrimExpr>& to) {
  constexpr int64_t kVector = 16;  ///< floats of 512 bits; rows of whole vectors are panels
  if (from.empty() || to.empty()) return false;
  const auto a = tir::as_int(from.back()), b = tir::as_int(to.back());
  return a && b && *a != *b && std::gcd(*a, *b) % kVector != 0;
}

class ViewsApart {
 public:
  ViewsApart(const FusionGraph& graph, std::vector<int>& groups)
      : g_(graph), groups_(groups), members_(graph.nodes.size()) {
    for (int i = 0; i < int(groups.size()); ++i) members_[groups[i]].push_back(i);
  }

  void run() {
    for (int last = 0; last < int(g_.nodes.size()); ++last) {
      if (groups_[last] != last) continue;
      first_views(last);
      last_views(last);
    }
  }

 private:
  bool is_view(int i) const {
    const auto* call = g_.bindings[i]->value.as<Call>();
    const Op* op = op_of(g_.bindings[i]->value);
    if (!op || !op::definition(*op).view || !call->args[0].is<Var>()) return false;
    if (call->args.size() > 1 && !call->args[1].is<ShapeExpr>()) return false;
    const auto from = known_shape(call->args[0]->type), to = known_shape(g_.bindings[i]->var->declared);
    return from && to && (mixes_symbols(*from, *to) || (splits_vectors(*from, *to) && moves_elements(i)));
  }
  /// Does the group of `i` hold an operator that reads elements in another order than it makes them?
  bool moves_elements(int i) const {
    return std::ranges::any_of(members_[groups_[i]], [&](int k) {
      const Op* op = op_of(g_.bindings[k]->value);
      return op && op::definition(*op).fusion == FusionKind::injective && !op::definition(*op).view;
    });
  }
  bool reads_inside(int i) const {
    const auto& inside = g_.nodes[i].inside;
    return std::ranges::any_of(inside, [&](int p) { return groups_[p] == groups_[i]; });
  }

  /// Of values that come from outside.
  void first_views(int last) {
    for (size_t k = 0; k < members_[last].size() && members_[last].size() > 1; ++k) {
      const int i = members_[last][k];
      if (i == last || !is_view(i) || reads_inside(i)) continue;
      members_[last].erase(members_[last].begin() + std::ptrdiff_t(k--));
      groups_[i] = i;
    }
  }
  /// Of the group's value. A result of the function is written where its caller wants it.
  void last_views(int last) {
    while (members_[last].size() > 1 && !g_.nodes[last].external && is_view(last) && reads_inside(last)) {
      const int before = g_.nodes[last].inside[0];
      if (!g_.bindings[before]->value.is<Call>()) return;  // a part of a tuple is no value of its own
      std::erase(members_[last], last);
      for (int i : members_[last]) groups_[i] = before;
      members_[before] = std::exchange(members_[last], {last});
      last = before;
    }
  }

  const FusionGraph& g_;
  std::vector<int>& groups_;
  std::vector<std::vector<int>> members_;
};

}  // namespace

void leave_views_out(const FusionGraph& graph, std::vector<int>& groups) { ViewsApart(graph, groups).run(); }

}  // namespace tenon::graph
