// SPDX-License-Identifier: Apache-2.0
// Fusion analysis. Kinds rise from element-wise to opaque; a group's kind is the largest of its members'.
// A producer joins the group of its immediate post-dominator when every node between them may join too.
#include "pass/graph/fusion/fusion.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "analysis/cost/cache.h"
#include "ir/bodies.h"
#include "ir/structural.h"
#include "ir/text.h"
#include "op/op_def.h"
#include "pass/graph/fusion/group.h"
#include "pass/graph/lowering/lower_function.h"
#include "schedule/dot_intrin.h"

namespace tenon::graph {
namespace {

constexpr FusionKind stronger(FusionKind a, FusionKind b) { return std::max(a, b); }

bool same_shape(const Type& a, const Type& b) {
  const TensorType *x = as_tensor(a), *y = as_tensor(b);
  return x && y && x->shape && y->shape && structural_equal(x->shape, y->shape);
}

FusionKind kind_of(const Expr& value) {
  if (const auto* t = value.as<Tuple>()) {
    // A kernel takes tensors of known shape; what a loop carries may be others.
    for (const Expr& i : t->items)
      if (!i->type || !as_tensor(i->type) || !known_shape(i->type)) return FusionKind::opaque;
    return FusionKind::tuple;
  }
  if (value.is<TupleGetItem>()) return FusionKind::injective;
  const Op* op = op_of(value);
  if (!op || !op->pure || !has_tensor_def(*op)) return FusionKind::opaque;
  // What cannot be lowered stays by itself, so that its error names its place.
  if (value->type && !can_lower(value)) return FusionKind::opaque;
  return op::definition(*op).fusion;
}

}  // namespace

FusionGraph fusion_graph(const Expr& body) {
  FusionGraph g;
  g.bindings = bindings_of(body);
  g.nodes.resize(g.bindings.size());
  std::unordered_map<const Var*, int> node_of;
  for (size_t i = 0; i < g.bindings.size(); ++i) {
    FusionGraph::Node& node = g.nodes[i];
    Expr value = g.bindings[i]->value;
    VarRef var = g.bindings[i]->var;
    node.kind = g.bindings[i].is<VarBindingNode>() ? kind_of(value) : FusionKind::opaque;
    // A tuple taken apart is a view of its producer: only the tensors of fusable operators come apart in a
    // kernel.
    if (auto* item = value.as<TupleGetItem>()) {
      auto it = item->tuple.is<Var>() ? node_of.find(item->tuple.as<Var>()) : node_of.end();
      if (it == node_of.end() || g.nodes[it->second].kind > FusionKind::tuple) node.kind = FusionKind::opaque;
    }
    auto read = [&](const Expr& e) {
      if (auto* v = e.as<Var>()) {
        auto it = node_of.find(v);
        if (it == node_of.end()) {
          if (std::find(node.outside.begin(), node.outside.end(), v) == node.outside.end())
            node.outside.push_back(v);
          return;
        }
        FusionGraph::Node& producer = g.nodes[it->second];
        if (node.kind == FusionKind::opaque) {
          producer.external = true;
          return;
        }
        FusionKind edge = node.kind;
        // A broadcast operand that already has the result's shape is read element by element.
        if (edge == FusionKind::broadcast && same_shape(v->type, var->type)) edge = FusionKind::element_wise;
        producer.consumers.push_back({int(i), edge});
        if (std::find(node.inside.begin(), node.inside.end(), it->second) == node.inside.end())
          node.inside.push_back(it->second);
      } else if (auto* c = e.as<Constant>(); c && c->data.size() != 1) {
        if (std::find(node.outside.begin(), node.outside.end(), c) == node.outside.end())
          node.outside.push_back(c);
      }
    };
    if (node.kind == FusionKind::opaque) {
      for_each_use(value, [&](const VarRef& v) { read(v); });
    } else if (auto* c = value.as<Call>()) {
      for (const Expr& arg : c->args) {
        if (auto* t = arg.as<Tuple>()) {
          for (const Expr& item : t->items) read(item);
        } else
          read(arg);
      }
    } else if (auto* t = value.as<Tuple>()) {
      for (const Expr& item : t->items) read(item);
    } else if (auto* t = value.as<TupleGetItem>()) {
      read(t->tuple);
    }
    node_of[var.get()] = int(i);
  }
  for_each_use(result_of(body), [&](const VarRef& v) {
    if (auto it = node_of.find(v.get()); it != node_of.end()) g.nodes[it->second].external = true;
  });
  return g;
}

std::vector<PostDominator> post_dominators(const FusionGraph& g) {
  std::vector<PostDominator> tree(g.nodes.size());
  // Climbs from both nodes to their nearest common post-dominator, gathering the kinds passed over.
  auto meet = [&](int a, int b, FusionKind& path) {
    while (a != b) {
      if (a < 0 || b < 0) return -1;
      int& deeper = tree[a].depth < tree[b].depth ? b : a;
      path = stronger(path, tree[deeper].path);
      deeper = tree[deeper].parent;
    }
    return a;
  };
  for (int i = int(g.nodes.size()) - 1; i >= 0; --i) {
    const FusionGraph::Node& node = g.nodes[i];
    PostDominator& d = tree[i];
    if (node.external || node.consumers.empty()) continue;
    d.path = node.consumers[0].kind;
    int at = node.consumers[0].to;
    for (size_t k = 1; k < node.consumers.size() && at >= 0; ++k) {
      d.path = stronger(d.path, node.consumers[k].kind);
      at = meet(at, node.consumers[k].to, d.path);
    }
    d.parent = at;
    if (at >= 0)
      d.depth = tree[at].depth + 1;
    else
      d.path = FusionKind::opaque;
  }
  return tree;
}

namespace {

class Grouper {
 public:
  Grouper(const FusionGraph& graph, const std::vector<PostDominator>& tree, const FusionLimits& limits)
      : g_(graph), tree_(tree), limits_(limits), seen_(graph.nodes.size(), -1) {
    for (size_t i = 0; i < graph.nodes.size(); ++i)
      groups_.push_back({int(i), graph.nodes[i].kind, 1, int(i),
                         graph.nodes[i].kind == FusionKind::out_element_wise_fusable, false});
  }

  std::vector<int> run() {
    // Contractions take their element-wise tails first, then injective chains join, then what makes a tuple.
    for (const int phase : {0, 1, 2})
      for (int i = 0; i < int(g_.nodes.size()); ++i) step(i, phase);
    for (int i = 0; i < int(g_.nodes.size()); ++i) join_operand(i);
    std::vector<int> out(g_.nodes.size());
    for (size_t i = 0; i < out.size(); ++i) out[i] = groups_[find(int(i))].last;
    return out;
  }

 private:
  struct Group {
    int parent;
    FusionKind kind;
    int size;
    int last;
    bool contraction;
    bool reduction;
  };

  int find(int i) {
    while (groups_[i].parent != i) i = groups_[i].parent = groups_[groups_[i].parent].parent;
    return i;
  }
  FusionKind kind(int i) { return groups_[find(i)].kind; }

  void step(int i, int phase) {
    const FusionKind own = kind(i);
    const int sink = tree_[i].parent;
    if (own == FusionKind::opaque || sink < 0 || find(i) == find(sink)) return;
    if (phase == 2) {
      // Several cheap values of one tuple: one kernel with several results.
      if (own > FusionKind::injective || g_.nodes[sink].kind != FusionKind::tuple) return;
      try_fuse(i, sink, [](FusionKind k, bool is_sink) {
        return k <= FusionKind::injective || (is_sink && k == FusionKind::tuple);
      });
      return;
    }
    if (kind(sink) == FusionKind::tuple) return;
    if (own == FusionKind::out_element_wise_fusable) {
      // A contraction takes what reads it element by element, also over several paths that meet again.
      if (phase == 0 && tree_[i].path == FusionKind::element_wise)
        try_fuse(i, sink, [](FusionKind k, bool) { return k <= FusionKind::broadcast; });
    } else if (own <= FusionKind::broadcast) {
      if (tree_[i].path <= FusionKind::injective || tree_[i].path == FusionKind::comm_reduce)
        try_fuse(i, sink, [](FusionKind k, bool is_sink) {
          if (!is_sink) return k <= FusionKind::injective;
          return k <= FusionKind::comm_reduce || k == FusionKind::out_element_wise_fusable;
        });
    } else if (own == FusionKind::injective || own == FusionKind::tuple) {
      if (phase == 1) try_fuse(i, sink, [](FusionKind k, bool) { return k <= FusionKind::injective; });
    }
    // A reduction ends its group: what follows reads values that are complete only at its end.
  }

  /// The second operand of a product of values that are no constants, in pairs or fours of the sum for a dot
  /// instruction, is a copy that the kernel makes: what only moves elements to it is a part of that copy.
  void join_operand(int i) {
    const FusionGraph::Node& node = g_.nodes[i];
    if (kind(i) > FusionKind::injective || node.external || node.consumers.size() != 1) return;
    const int to = node.consumers[0].to;
    const Op* op = op_of(g_.bindings[to]->value);
    if (!op || op->name != "matmul" || g_.nodes[to].kind != FusionKind::out_element_wise_fusable) return;
    const auto& call = *g_.bindings[to]->value.as<Call>();
    const auto *x = as_tensor(call.args[0]), *y = as_tensor(call.args[1]),
               *out = as_tensor(g_.bindings[to]->var->declared);
    if (call.args[1].get() != g_.bindings[i]->var.get() || !x || !y || !out || x->ndim < 3) return;
    const auto rows = static_shape(call.args[0]->type), matrix = static_shape(call.args[1]->type);
    if (!rows || !matrix || !cost::pays_for_groups((*rows)[rows->size() - 2]) ||
        matrix->back() < kLeastColumns)
      return;
    if (!limits_.target || !dot_form(limits_.target, x->dtype, y->dtype, out->dtype)) return;
    if (reads(i, call.args[0].get())) return;  // a matrix by its own transpose
    try_fuse(i, to, [](FusionKind k, bool is_sink) {
      return k <= FusionKind::injective || (is_sink && k == FusionKind::out_element_wise_fusable);
    });
  }

  static constexpr int64_t kLeastColumns = 16;
  bool reads(int i, const Object* value) {
    const auto it = members_.find(find(i));
    const std::vector<int> alone{i};
    return std::ranges::any_of(it == members_.end() ? alone : it->second, [&](int m) {
      const FusionGraph::Node& n = g_.nodes[m];
      return std::ranges::find(n.outside, value) != n.outside.end() ||
             std::ranges::any_of(n.inside, [&](int p) { return g_.bindings[p]->var.get() == value; });
    });
  }

  /// Joins every group on the paths from `from` to `sink` when `allowed` and the limits agree.
  void try_fuse(int from, int sink, FunctionRef<bool(FusionKind, bool)> allowed) {
    ++epoch_;
    path_.clear();
    std::vector<int>& stack = stack_;
    stack.assign(1, from);
    seen_[from] = epoch_;
    while (!stack.empty()) {
      int i = stack.back();
      stack.pop_back();
      path_.push_back(i);
      if (i == sink) continue;
      if (i != from && !allowed(kind(i), false)) return;
      for (const FusionGraph::Edge& e : g_.nodes[i].consumers)
        if (seen_[e.to] != epoch_) {
          seen_[e.to] = epoch_;
          stack.push_back(e.to);
        }
    }
    if (seen_[sink] != epoch_ || !allowed(kind(sink), true)) return;
    std::vector<int> roots;
    for (int i : path_) roots.push_back(find(i));
    std::sort(roots.begin(), roots.end());
    roots.erase(std::unique(roots.begin(), roots.end()), roots.end());
    int size = 0, contractions = 0;
    for (int r : roots) size += groups_[r].size, contractions += groups_[r].contraction;
    if (size > limits_.max_depth || contractions > 1 || arguments(roots) > limits_.max_arguments) return;
    const int into = find(sink);
    for (int r : roots) {
      if (r == into) continue;
      groups_[r].parent = into;
      groups_[into].kind = stronger(groups_[into].kind, groups_[r].kind);
      groups_[into].size += groups_[r].size;
      groups_[into].contraction |= groups_[r].contraction;
      groups_[into].last = std::max(groups_[into].last, groups_[r].last);
      auto& all = members_[into];
      if (all.empty()) all.push_back(into);
      auto it = members_.find(r);
      if (it == members_.end())
        all.push_back(r);
      else {
        all.insert(all.end(), it->second.begin(), it->second.end());
        members_.erase(it);
      }
    }
  }

  int arguments(const std::vector<int>& roots) {
    std::vector<const Object*> outside;
    std::vector<int> inside;
    auto add = [&](int i) {
      const FusionGraph::Node& n = g_.nodes[i];
      outside.insert(outside.end(), n.outside.begin(), n.outside.end());
      for (int p : n.inside)
        if (!std::binary_search(roots.begin(), roots.end(), find(p))) inside.push_back(p);
    };
    for (int r : roots) {
      auto it = members_.find(r);
      if (it == members_.end())
        add(r);
      else
        for (int m : it->second) add(m);
    }
    auto count = [](auto& v) {
      std::sort(v.begin(), v.end());
      return int(std::unique(v.begin(), v.end()) - v.begin());
    };
    return count(outside) + count(inside);
  }

  const FusionGraph& g_;
  const std::vector<PostDominator>& tree_;
  const FusionLimits& limits_;
  std::vector<Group> groups_;
  std::unordered_map<int, std::vector<int>> members_;  // of groups with more than one node
  std::vector<int> seen_, stack_, path_;
  int epoch_ = 0;
};

}  // namespace

namespace {

/// Groups end at their narrowest value: what a contraction's group only widens at its end (bytes that are
/// real numbers again) its one reader computes from the narrow value, where that reads it element by element.
class WideTails {
 public:
  WideTails(const FusionGraph& graph, std::vector<int>& groups)
      : g_(graph), groups_(groups), members_(graph.nodes.size()) {
    for (int i = 0; i < int(groups.size()); ++i) members_[groups[i]].push_back(i);
  }

  void run() {
    for (int i = 0; i < int(g_.nodes.size()); ++i)
      if (groups_[i] == i && members_[i].size() > 1) shorten(i);
  }

 private:
  static constexpr FusionKind kContraction = FusionKind::out_element_wise_fusable;

  FusionKind kind(int i) const { return g_.nodes[i].kind; }
  int bits(int i) const {
    const auto* t = as_tensor(g_.bindings[i]->var->declared);
    return t ? t->dtype.bits : 0;
  }
  bool has_contraction(int group) const {
    return std::ranges::any_of(members_[group], [&](int i) { return kind(i) == kContraction; });
  }
  /// The group that reads a value element by element and can take more of that, if nothing else uses the
  /// value; -1.
  int reader(int i) const {
    const FusionGraph::Node& node = g_.nodes[i];
    if (node.external || node.consumers.empty()) return -1;
    const int group = groups_[node.consumers[0].to];
    const bool alone = std::ranges::all_of(node.consumers, [&](const FusionGraph::Edge& e) {
      return e.kind == FusionKind::element_wise && groups_[e.to] == group;
    });
    const bool takes = std::ranges::all_of(
        members_[group], [&](int m) { return kind(m) <= FusionKind::broadcast || kind(m) == kContraction; });
    return alone && takes ? group : -1;
  }

  void shorten(int last) {
    if (!has_contraction(last)) return;
    const int to = reader(last);
    if (to < 0) return;
    std::vector<int> tail;
    int at = last;
    for (; bits(at) >= bits(last); at = g_.nodes[at].inside[0]) {
      const FusionGraph::Node& node = g_.nodes[at];
      const bool plain = kind(at) <= FusionKind::broadcast && node.outside.empty() && node.inside.size() == 1;
      if (!plain || groups_[node.inside[0]] != last || g_.nodes[node.inside[0]].consumers.size() != 1) return;
      tail.push_back(at);
    }
    for (int i : tail) std::erase(members_[last], i);
    for (int i : members_[last]) groups_[i] = at;
    for (int i : tail) groups_[i] = to;
    members_[at] = std::exchange(members_[last], {});
    members_[to].insert(members_[to].end(), tail.begin(), tail.end());
  }

  const FusionGraph& g_;
  std::vector<int>& groups_;
  std::vector<std::vector<int>> members_;
};

}  // namespace

std::vector<int> fusion_groups(const FusionGraph& graph, const std::vector<PostDominator>& dominators,
                               const FusionLimits& limits) {
  std::vector<int> groups = Grouper(graph, dominators, limits).run();
  WideTails(graph, groups).run();
  leave_views_out(graph, groups);
  return groups;
}

std::string explain_fusion(const std::string& function, const FusionGraph& g,
                           const std::vector<PostDominator>& dominators, const std::vector<int>& groups) {
  std::string out = fmt::format("fusion of @{}\n", function);
  auto name = [&](int i) { return g.bindings[i]->var->name; };
  for (int i = 0; i < int(g.nodes.size()); ++i) {
    const FusionGraph::Node& n = g.nodes[i];
    const Op* op = op_of(g.bindings[i]->value);
    std::string line =
        fmt::format("  {} = {} [{}]", name(i), op ? op->name : std::string(type_key_of(g.bindings[i]->value)),
                    to_string(n.kind));
    if (n.external) line += " seen outside";
    if (!n.consumers.empty()) line += " ->";
    for (const FusionGraph::Edge& e : n.consumers)
      line += fmt::format(" {}:{}", name(e.to), to_string(e.kind));
    if (dominators[i].parent >= 0)
      line += fmt::format("; meets at {} over {}", name(dominators[i].parent), to_string(dominators[i].path));
    line += groups[i] == i ? "" : fmt::format("; computed in the kernel of {}", name(groups[i]));
    out += line + "\n";
  }
  return out;
}

}  // namespace tenon::graph
