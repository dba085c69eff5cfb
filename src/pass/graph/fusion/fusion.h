// SPDX-License-Identifier: Apache-2.0
// Which operator calls become one kernel: groups by post-dominators over the dataflow of one body.
#pragma once
#include "ir/op.h"
#include "target/target.h"

namespace tenon::graph {

struct FusionLimits {
  int max_depth = 256;      ///< operators in one group
  int max_arguments = 200;  ///< tensors from outside that one group reads
  Target target = {};       ///< null: no instruction of it is known
};

/// The dataflow of the bindings of one body (branches and loop bodies have their own).
struct FusionGraph {
  struct Edge {
    int to;
    FusionKind kind;
  };
  struct Node {
    FusionKind kind = FusionKind::opaque;
    bool external =
        false;  ///< seen outside this dataflow: by the body's result, a nested body, an opaque value
    std::vector<Edge> consumers;
    std::vector<const Object*> outside;  ///< variables and constants read that no binding here makes, unique
    std::vector<int> inside;             ///< nodes read, unique
  };
  std::vector<Binding> bindings;  ///< node i is binding i
  std::vector<Node> nodes;
};
FusionGraph fusion_graph(const Expr& body);

/// Where all paths from a node to the outside meet first.
struct PostDominator {
  int parent = -1;  ///< -1: none (external or unused)
  int depth = 0;
  FusionKind path = FusionKind::opaque;  ///< the strongest kind on the way to the parent, its own included
};
std::vector<PostDominator> post_dominators(const FusionGraph& graph);

/// Group of each node, as the index of the group's last node (which makes its value).
std::vector<int> fusion_groups(const FusionGraph& graph, const std::vector<PostDominator>& dominators,
                               const FusionLimits& limits);

/// Reshapes of symbolic sizes at the ends of a group leave it.
void leave_views_out(const FusionGraph& graph, std::vector<int>& groups);

/// Nodes, consumers, edge kinds, post-dominators and groups as text.
std::string explain_fusion(const std::string& function, const FusionGraph& graph,
                           const std::vector<PostDominator>& dominators, const std::vector<int>& groups);

}  // namespace tenon::graph
