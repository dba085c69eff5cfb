// SPDX-License-Identifier: Apache-2.0
// Converters: ensembles of decision trees (ai.onnx.ml). Every comparison becomes "not above a threshold":
// others are two of these, or have their branches swapped. One kernel walks all trees (trees_leaf); the
// values of the leaves are looked up and added.
#include <cmath>
#include <limits>
#include <set>

#include "import/onnx/scores.h"
#include "op/attrs_trees.h"

namespace tenon::onnx {
namespace {

using namespace op;
using N = NodeContext;
using R = RegisterConverter;

constexpr int64_t kMostWeights = int64_t(1) << 26;  // of the table of leaves and targets
constexpr int64_t kMostDepth = 60;                  // of trees_leaf

enum class Mode { leaf, not_above, below, not_below, above, equal, not_equal };

/// Trees as tables. A branch is a node, or the place of one that follows.
struct Trees {
  explicit Trees(N& n, DataType t) : n(n), type(t) {}
  N& n;
  DataType type;  ///< of features and thresholds
  std::vector<int64_t> feature, left, right, missing, roots;
  std::vector<double> threshold;

  int64_t leaf() {
    const int64_t at = add(0, 0);
    left[size_t(at)] = right[size_t(at)] = missing[size_t(at)] = at;
    return at;
  }
  int64_t add(int64_t of, double with) {
    feature.push_back(of), threshold.push_back(with);
    left.push_back(0), right.push_back(0), missing.push_back(0);
    return int64_t(feature.size()) - 1;
  }
  void link(int64_t at, int64_t yes, int64_t no, int64_t none) {
    left[size_t(at)] = yes, right[size_t(at)] = no, missing[size_t(at)] = none;
  }
  double before(double v) const {
    return type == f64 ? std::nextafter(v, -INFINITY) : double(std::nextafter(float(v), -INFINITY));
  }
  /// Makes node `at` compare feature `of` with `with` and go to `yes` or `no`; `none`: where the feature is
  /// no number.
  void compare(int64_t at, Mode mode, int64_t of, double with, int64_t yes, int64_t no, int64_t none) {
    feature[size_t(at)] = of;
    const bool swapped = mode == Mode::above || mode == Mode::not_below || mode == Mode::not_equal;
    if (swapped) std::swap(yes, no);
    const bool open = mode == Mode::below || mode == Mode::not_below;
    threshold[size_t(at)] = open ? before(with) : with;
    if (mode != Mode::equal && mode != Mode::not_equal) return link(at, yes, no, none);
    const int64_t second = add(of, before(with));
    link(at, second, no, none);
    link(second, no, yes, none);
  }

  /// The most nodes between a root and a leaf; T2020 for a circle.
  int64_t depth() const {
    std::vector<int64_t> height(feature.size(), -1);
    std::vector<char> open(feature.size(), 0);
    int64_t most = 0;
    for (const int64_t root : roots) {
      std::vector<int64_t> path{root};
      while (!path.empty()) {
        const auto at = size_t(path.back());
        if (height[at] >= 0) {
          path.pop_back();
          continue;
        }
        if (left[at] == path.back()) {
          height[at] = 0;
          path.pop_back();
          continue;
        }
        const bool first = !open[at];
        open[at] = 1;
        int64_t below = 0;
        bool waiting = false;
        for (const int64_t child : {left[at], right[at], missing[at]}) {
          const int64_t h = height[size_t(child)];
          if (h < 0 && (!first || open[size_t(child)]))
            n.malformed("the nodes of a tree lead back to one another");
          if (h < 0) path.push_back(child), waiting = true;
          below = std::max(below, h + 1);
        }
        if (waiting) continue;
        height[at] = below;
        path.pop_back();
      }
      most = std::max(most, height[size_t(root)]);
    }
    return most;
  }

  Expr table(const std::vector<int64_t>& v) const {
    const NDArray a = NDArray::empty({int64_t(v.size())}, i32);
    for (size_t i = 0; i < v.size(); ++i) a.set_element_int(int64_t(i), v[i]);
    return graph::constant(a);
  }
  /// The node that each row of x ends in, in each tree.
  Expr leaves(const Expr& x) const {
    const auto shape = graph::known_shape(x);
    if (!shape || shape->size() != 2)
      n.unsupported(fmt::format("{} takes a matrix of known shape", n.op_type()));
    const auto width = tir::as_int((*shape)[1]);
    if (!width) n.unsupported(fmt::format("{} needs a known number of features", n.op_type()));
    for (size_t i = 0; i < feature.size(); ++i)
      if (feature[i] < 0 || (feature[i] >= *width && left[i] != int64_t(i)))
        n.malformed(fmt::format("a node of {} compares feature {} of {}", n.op_type(), feature[i], *width));
    if (*width == 0) n.malformed(fmt::format("{} has no features", n.op_type()));
    const int64_t most = depth();
    if (most > kMostDepth)
      n.unsupported(fmt::format("trees of depth {} are not supported; {} is", most, kMostDepth));
    const NDArray limits = NDArray::empty({int64_t(threshold.size())}, type);
    for (size_t i = 0; i < threshold.size(); ++i) limits.set_element(int64_t(i), threshold[i]);
    return n.op(
        "trees_leaf",
        {x, table(feature), graph::constant(limits), table(left), table(right), table(missing), table(roots)},
        make_attrs<TreesAttrs>(most));
  }
};

enum class Join { average, sum, min, max };
Join join_of(N& n, const std::string& name) {
  if (name == "AVERAGE") return Join::average;
  if (name == "SUM") return Join::sum;
  if (name == "MIN") return Join::min;
  if (name == "MAX") return Join::max;
  n.malformed(fmt::format("'aggregate_function' of {} is {}", n.op_type(), in_quotes(name)));
}

/// What a leaf adds to a target.
struct Weight {
  int64_t node, target;
  double value;
};
/// (rows, targets): the weights of the leaves that each row ends in.
Expr joined(const Trees& trees, const Expr& x, const std::vector<Weight>& weights, int64_t targets, Join how,
            DataType t) {
  N& n = trees.n;
  const auto nodes = int64_t(trees.feature.size());
  if (targets < 1 || nodes > kMostWeights / targets)
    n.unsupported(fmt::format("{} of {} nodes and {} targets is not supported", n.op_type(), nodes, targets));
  const double none = how == Join::min ? INFINITY : how == Join::max ? -INFINITY : 0;
  const NDArray table = NDArray::empty({nodes, targets}, t);
  for (int64_t i = 0; i < table.size(); ++i) table.set_element(i, none);
  for (const Weight& w : weights) {
    if (w.target < 0 || w.target >= targets)
      n.malformed(fmt::format("a leaf of {} has the target {} of {}", n.op_type(), w.target, targets));
    const int64_t at = w.node * targets + w.target;
    const double was = table.element(at);
    table.set_element(at, how == Join::min   ? std::min(was, w.value)
                          : how == Join::max ? std::max(was, w.value)
                                             : was + w.value);
  }
  const Expr all = n.op("take", {graph::constant(table), trees.leaves(x)}, make_attrs<AxisAttrs>(int64_t(0)));
  auto attrs = make_attrs<ReduceAttrs>([](ReduceAttrs& a) { a.axis = {1}; });
  if (how == Join::sum || how == Join::average) {
    const Expr sum = n.op("sum", {all}, attrs);
    return how == Join::sum ? sum : n.op("divide", {sum, n.scalar(double(trees.roots.size()), t)});
  }
  const Expr best = n.op(how == Join::min ? "min" : "max", {all}, attrs);
  return n.op("where", {n.op("equal", {best, n.scalar(none, t)}), n.scalar(0, t), best});
}

// ---------------------------------------------------------------- TreeEnsemble
std::vector<double> floats_of(N& n, const char* name) {
  auto* t = n.attr_tensor(name);
  if (!t) return {};
  const Expr c = n.importer.constant_of(*t, n.where());
  const NDArray& data = c.as<graph::Constant>()->data;
  std::vector<double> out;
  for (int64_t i = 0; i < data.size(); ++i) out.push_back(data.element(i));
  return out;
}
Values tree_ensemble(N& n) {
  const DataType t = n.dtype(0);
  if (!t.is_float()) n.malformed("TreeEnsemble takes floating features");
  const auto features = n.need_ints("nodes_featureids"), yes = n.need_ints("nodes_truenodeids"),
             no = n.need_ints("nodes_falsenodeids"), yes_leaf = n.need_ints("nodes_trueleafs"),
             no_leaf = n.need_ints("nodes_falseleafs"), targets = n.need_ints("leaf_targetids"),
             tracks = n.attr_ints("nodes_missing_value_tracks_true"), roots = n.need_ints("tree_roots");
  const auto modes = floats_of(n, "nodes_modes"), splits = floats_of(n, "nodes_splits"),
             weights = floats_of(n, "leaf_weights"), members = floats_of(n, "membership_values");
  const size_t nodes = features.size();
  if (yes.size() != nodes || no.size() != nodes || yes_leaf.size() != nodes || no_leaf.size() != nodes ||
      modes.size() != nodes || splits.size() != nodes || weights.size() != targets.size() ||
      (!tracks.empty() && tracks.size() != nodes))
    n.malformed("the lists of TreeEnsemble have different lengths");
  Trees trees(n, t);
  for (size_t i = 0; i < nodes; ++i) trees.add(0, 0);
  std::vector<Weight> leaves;
  for (size_t i = 0; i < targets.size(); ++i) leaves.push_back({trees.leaf(), targets[i], weights[i]});
  const auto branch = [&](int64_t to, bool leaf) {
    if (to < 0 || size_t(to) >= (leaf ? targets.size() : nodes))
      n.malformed(fmt::format("a node of TreeEnsemble leads to {} {}", leaf ? "leaf" : "node", to));
    return leaf ? int64_t(nodes) + to : to;
  };
  size_t member = 0;
  for (size_t i = 0; i < nodes; ++i) {
    const int64_t is = branch(yes[i], yes_leaf[i] != 0), is_not = branch(no[i], no_leaf[i] != 0);
    const bool tracked = !tracks.empty() && tracks[i] != 0;
    constexpr Mode kModes[] = {Mode::not_above, Mode::below, Mode::not_below,
                               Mode::above,     Mode::equal, Mode::not_equal};
    const auto mode = modes[i] >= 0 && modes[i] < 7 ? int(modes[i]) : -1;
    if (mode < 0) n.malformed(fmt::format("a node of TreeEnsemble has the mode {}", modes[i]));
    // Like IEEE comparisons, where nothing says otherwise.
    const int64_t none = tracked || mode == 5 ? is : is_not;
    if (mode < 6) {
      trees.compare(int64_t(i), kModes[mode], features[i], splits[i], is, is_not, none);
      continue;
    }
    // One of a list that ends in NaN: one comparison after the other.
    int64_t at = int64_t(i);
    for (;; ++member) {
      if (member >= members.size()) n.malformed("'membership_values' of TreeEnsemble end early");
      if (std::isnan(members[member])) break;
      const int64_t next = trees.add(0, 0);
      trees.compare(at, Mode::equal, features[i], members[member], is, next, none);
      at = next;
    }
    ++member;
    trees.feature[size_t(at)] = features[i];
    trees.link(at, is_not, is_not, none);
  }
  for (const int64_t r : roots) {
    if (r < 0 || size_t(r) >= nodes) n.malformed(fmt::format("a tree of TreeEnsemble begins at node {}", r));
    trees.roots.push_back(r);
  }
  constexpr Join kJoins[] = {Join::average, Join::sum, Join::min, Join::max};
  const int64_t how = n.attr_int("aggregate_function", 1);
  if (how < 0 || how > 3) n.malformed(fmt::format("'aggregate_function' of TreeEnsemble is {}", how));
  const Expr sum = joined(trees, n.in(0), leaves, n.need_int("n_targets"), kJoins[how], t);
  constexpr const char* kTransforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  const int64_t transform = n.attr_int("post_transform", 0);
  if (transform < 0 || transform > 4)
    n.malformed(fmt::format("'post_transform' of TreeEnsemble is {}", transform));
  return {post_transformed(n, sum, kTransforms[transform])};
}

// ---------------------------------------------------------------- older forms
struct Ensemble {
  Trees trees;
  std::map<std::pair<int64_t, int64_t>, int64_t> nodes;  ///< by tree and number in it
};
/// A list of numbers, as a list or (NAME_as_tensor) as a tensor.
std::vector<double> numbers_of(N& n, const std::string& name) {
  return n.has_attr(name + "_as_tensor") ? floats_of(n, (name + "_as_tensor").c_str()) : n.attr_floats(name);
}
Ensemble read_trees(N& n) {
  Ensemble e{Trees(n, n.has_attr("nodes_values_as_tensor") || n.dtype(0) == f64 ? f64 : f32), {}};
  const auto tree = n.need_ints("nodes_treeids"), node = n.need_ints("nodes_nodeids"),
             feature = n.need_ints("nodes_featureids"), yes = n.need_ints("nodes_truenodeids"),
             no = n.need_ints("nodes_falsenodeids"), tracks = n.attr_ints("nodes_missing_value_tracks_true");
  const auto modes = n.attr_strings("nodes_modes");
  const auto values = numbers_of(n, "nodes_values");
  const size_t count = tree.size();
  if (node.size() != count || feature.size() != count || yes.size() != count || no.size() != count ||
      modes.size() != count || values.size() != count || (!tracks.empty() && tracks.size() != count))
    n.malformed(fmt::format("the lists of nodes of {} have different lengths", n.op_type()));
  static const std::map<std::string, Mode> kModes{
      {"LEAF", Mode::leaf},           {"BRANCH_LEQ", Mode::not_above},
      {"BRANCH_LT", Mode::below},     {"BRANCH_GTE", Mode::not_below},
      {"BRANCH_GT", Mode::above},     {"BRANCH_EQ", Mode::equal},
      {"BRANCH_NEQ", Mode::not_equal}};
  std::vector<Mode> mode;
  for (size_t i = 0; i < count; ++i) {
    const auto m = kModes.find(modes[i]);
    if (m == kModes.end())
      n.malformed(fmt::format("a node of {} has the mode {}", n.op_type(), in_quotes(modes[i])));
    mode.push_back(m->second);
    const int64_t at = mode.back() == Mode::leaf ? e.trees.leaf() : e.trees.add(0, 0);
    if (!e.nodes.emplace(std::pair(tree[i], node[i]), at).second)
      n.malformed(fmt::format("{} has node {} of tree {} twice", n.op_type(), node[i], tree[i]));
  }
  std::vector<char> below(count, 0);
  const auto find = [&](size_t i, int64_t id) {
    const auto at = e.nodes.find({tree[i], id});
    if (at == e.nodes.end())
      n.malformed(fmt::format("{} has no node {} of tree {}", n.op_type(), id, tree[i]));
    below[size_t(at->second)] = 1;
    return at->second;
  };
  for (size_t i = 0; i < count; ++i) {
    if (mode[i] == Mode::leaf) continue;
    const int64_t is = find(i, yes[i]), is_not = find(i, no[i]);
    const bool tracked = (!tracks.empty() && tracks[i] != 0) || mode[i] == Mode::not_equal;
    e.trees.compare(int64_t(i), mode[i], feature[i], values[i], is, is_not, tracked ? is : is_not);
  }
  std::set<int64_t> begun;
  for (size_t i = 0; i < count; ++i) {
    if (below[i]) continue;
    if (!begun.insert(tree[i]).second)
      n.malformed(fmt::format("tree {} of {} has several roots", tree[i], n.op_type()));
    e.trees.roots.push_back(int64_t(i));
  }
  if (e.trees.roots.empty()) n.malformed(fmt::format("{} has no tree that begins", n.op_type()));
  return e;
}
std::vector<Weight> weights_of(N& n, const Ensemble& e, const std::string& prefix) {
  const auto tree = n.need_ints(prefix + "_treeids"), node = n.need_ints(prefix + "_nodeids"),
             id = n.need_ints(prefix + "_ids");
  const auto value = numbers_of(n, prefix + "_weights");
  if (node.size() != tree.size() || id.size() != tree.size() || value.size() != tree.size())
    n.malformed(fmt::format("the lists of weights of {} have different lengths", n.op_type()));
  std::vector<Weight> out;
  for (size_t i = 0; i < tree.size(); ++i) {
    const auto at = e.nodes.find({tree[i], node[i]});
    if (at == e.nodes.end())
      n.malformed(fmt::format("{} has no node {} of tree {}", n.op_type(), node[i], tree[i]));
    out.push_back({at->second, id[i], value[i]});
  }
  return out;
}
Expr with_base(N& n, const Expr& scores, int64_t count) {
  const auto base = numbers_of(n, "base_values");
  if (base.empty()) return scores;
  if (base.size() != 1 && int64_t(base.size()) != count)
    n.malformed(
        fmt::format("'base_values' of {} has {} entries for {} scores", n.op_type(), base.size(), count));
  const NDArray a = NDArray::empty({int64_t(base.size())}, graph::as_tensor(scores)->dtype);
  for (size_t i = 0; i < base.size(); ++i) a.set_element(int64_t(i), base[i]);
  return n.op("add", {scores, graph::constant(a)});
}
Values tree_regressor(N& n) {
  const Ensemble e = read_trees(n);
  const int64_t targets = n.attr_int("n_targets", 1);
  const Expr sum = joined(e.trees, n.cast(n.in(0), e.trees.type), weights_of(n, e, "target"), targets,
                          join_of(n, n.attr_string("aggregate_function", "SUM")), e.trees.type);
  return {
      n.cast(post_transformed(n, with_base(n, sum, targets), n.attr_string("post_transform", "NONE")), f32)};
}
/// With two classes and leaves of one only, those leaves speak for the second class: above one half where
/// none is negative, above 0 otherwise.
Values tree_classifier(N& n) {
  const Ensemble e = read_trees(n);
  std::vector<Weight> weights = weights_of(n, e, "class");
  const Classes classes = classes_of(n, "classlabels_int64s");
  const std::string transform = n.attr_string("post_transform", "NONE");
  std::set<int64_t> named;
  bool negative = false;
  for (const Weight& w : weights) named.insert(w.target), negative = negative || w.value < 0;
  const bool binary = classes.count == 2 && named.size() == 1;
  if (binary)
    for (Weight& w : weights) w.target = 0;
  const int64_t count = binary ? 1 : classes.count;
  const Expr sum = joined(e.trees, n.cast(n.in(0), e.trees.type), weights, count, Join::sum, e.trees.type);
  const Expr scores = n.cast(with_base(n, sum, count), f32);
  if (!binary) return {label_of_best(n, classes, scores), post_transformed(n, scores, transform)};
  const Value label = label_of_sign(n, classes, scores, negative ? 0 : 0.5);
  // ONNX Runtime leaves a score that no leaf has at 0 where the second class has the other one.
  if (*named.begin() == 1) {
    const Expr none = n.full({n.shape_of(scores)[0], PrimExpr(1)}, 0, f32);
    return {label, post_transformed(n, n.concat({none, scores}, 1), transform)};
  }
  const Expr both = n.concat({n.op("negative", {scores}), scores}, 1);
  if (transform == "LOGISTIC") return {label, n.op("sigmoid", {both})};
  return {label, negative ? both : with_rest(n, scores)};
}
const R t1("ai.onnx.ml::TreeEnsemble", {5}, tree_ensemble),
    t2("ai.onnx.ml::TreeEnsembleRegressor", {1, 3}, tree_regressor),
    t3("ai.onnx.ml::TreeEnsembleClassifier", {1, 3}, tree_classifier);

}  // namespace
}  // namespace tenon::onnx
