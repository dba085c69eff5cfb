// SPDX-License-Identifier: Apache-2.0
// Decision trees as tables of nodes: the leaf that each row of features ends in, in each tree.
#include <fmt/format.h>

#include "base/define_type.h"
#include "op/attrs_trees.h"
#include "op/family.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;

constexpr int64_t kMostDepth = 60;  // steps are written one behind the other

Type infer_leaf(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  Shape rows, roots;
  if (!ctx.expect_shape(x, "x", rows) || !ctx.expect_shape(ctx.tensor(6), "roots", roots)) return {};
  if (rows.size() != 2 || roots.size() != 1)
    return ctx.error(
        fmt::format("features {} are no matrix, or roots {} no vector", show(rows), show(roots)));
  if (!ctx.expect_same_type(x.dtype, ctx.tensor(2).dtype)) return {};
  Shape nodes;
  if (!ctx.expect_shape(ctx.tensor(1), "features", nodes)) return {};
  for (size_t i = 1; i < 7; ++i) {
    Shape s;
    if (!ctx.expect_shape(ctx.tensor(i), "a table", s)) return {};
    if (i < 6 && (s.size() != 1 || !ctx.require_equal(s, nodes)))
      return ctx.error(fmt::format("tables of nodes have the shapes {} and {}", show(nodes), show(s)));
    if (i != 2 && ctx.tensor(i).dtype != i32) return ctx.error("numbers of nodes and features are int32");
  }
  const int64_t depth = ctx.attrs<TreesAttrs>().depth;
  if (depth < 0 || depth > kMostDepth)
    return ctx.error(fmt::format("trees of depth {}; at most {} is supported", depth, kMostDepth));
  return make_type(Shape{rows[0], roots[0]}, 2, i32);
}
Tensors def_leaf(const Call& call, const Tensors& in) {
  const int64_t depth = attrs_of<TreesAttrs>(call).depth;
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        // Numbers of nodes and features are data: ones outside are moved inside.
        const auto inside = [](const PrimExpr& at, const PrimExpr& size) {
          return tir::max(tir::min(tir::cast(i64, at), size - 1), PrimExpr(0));
        };
        const PrimExpr nodes = in[1].shape()[0], width = in[0].shape()[1];
        PrimExpr node = inside(in[6]({v[1]}), nodes);
        for (int64_t step = 0; step < depth; ++step) {
          const tir::VarRef here = tir::var("node", i64);
          const PrimExpr value = in[0]({v[0], inside(in[1]({here}), width)}), threshold = in[2]({here});
          const PrimExpr other = tir::select(tir::gt(value, threshold), in[4]({here}), in[5]({here}));
          node = make<tir::Let>(here, node,
                                inside(tir::select(tir::le(value, threshold), in[3]({here}), other), nodes));
        }
        return tir::cast(i32, node);
      },
      "trees_leaf")};
}

const bool registered = [] {
  register_op("trees_leaf", "The node that each row ends in, in each tree.", FusionKind::opaque, infer_leaf,
              def_leaf)
      .argument("x", "Tensor", "rows of features")
      .argument("features", "Tensor", "of each node: which feature it compares")
      .argument("thresholds", "Tensor", "with what")
      .argument("left", "Tensor", "the next node where it is not above; a leaf's is itself")
      .argument("right", "Tensor", "the next node where it is above")
      .argument("missing", "Tensor", "the next node where it is no number")
      .argument("roots", "Tensor", "of each tree its first node")
      .attrs<TreesAttrs>();
  return true;
}();

}  // namespace
}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::TreesAttrs>;
