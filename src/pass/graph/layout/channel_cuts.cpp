// SPDX-License-Identifier: Apache-2.0
#include "pass/graph/layout/channel_cuts.h"

#include <ranges>

#include "op/build.h"
#include "op/layout_rule.h"

namespace tenon::graph {
namespace {

/// Channels of a tensor whose axes have names: axis 1 of three and more.
std::optional<int64_t> channels_of(const Expr& x) {
  const auto shape = x->type ? known_shape(x->type) : std::nullopt;
  return shape && shape->size() > 2 ? tir::as_int((*shape)[1]) : std::nullopt;
}

/// Where parts of x's channels begin that the call takes; empty: it is no slice of channels.
std::vector<int64_t> begins(const Call& call, const Expr& x) {
  const auto channels = channels_of(x);
  const auto* sliced = call.attrs.as<op::StridedSliceAttrs>();
  const auto* split = call.attrs.as<op::SplitAttrs>();
  std::vector<int64_t> out;
  if (!channels) return out;
  const auto rank = int64_t(known_shape(x->type)->size());
  if (sliced && sliced->axes.size() == 1 && op::normal_axis(sliced->axes[0], rank) == 1) {
    const auto begin = tir::as_int(sliced->begin[0]);
    const bool step = !sliced->strides.empty() && sliced->strides[0] != 1;
    if (begin && !step) out.push_back(*begin < 0 ? *begin + *channels : *begin);
  }
  if (split && op::normal_axis(split->axis, rank) == 1) {
    const int64_t part = split->sections > 0 ? (*channels + split->sections - 1) / split->sections : 0;
    for (int64_t i = 1; i < split->sections; ++i) out.push_back(i * part);
    if (split->sections <= 0)
      for (const int64_t at : split->indices) out.push_back(at);
  }
  std::erase_if(out, [&](int64_t at) { return at <= 0 || at >= *channels; });
  return out;
}

/// Each channel of the call's result follows from the same channel of this operand, in any layout.
bool by_channel(const Call& call, const Op& op, const Expr& result, const Expr& operand) {
  const op::OpDef& def = op::definition(op);
  const auto channels = channels_of(result);
  if (!op::layout_rule(def) || !channels || channels_of(operand) != channels) return false;
  const auto* conv = call.attrs.as<op::ConvAttrs>();
  const bool depthwise = conv && conv->groups == *channels && operand.same_as(call.args[0]);
  if (def.contraction && !depthwise) return false;
  const bool rearranges = call.attrs.as<op::StridedSliceAttrs>() || call.attrs.as<op::LayoutTransformAttrs>();
  return !rearranges && known_shape(operand->type)->size() == known_shape(result->type)->size();
}

}  // namespace

std::unordered_map<const Var*, std::set<int64_t>> channel_cuts(const Function& function) {
  std::vector<Binding> bindings;
  for_each_binding(function.body, [&](const Binding& b) { bindings.push_back(b); });
  std::unordered_map<const Var*, std::set<int64_t>> cuts;
  for (const Binding& b : bindings | std::views::reverse) {
    const Op* op = op_of(b->value);
    if (!op) continue;
    const Call& call = *b->value.as<Call>();
    const auto of_result = cuts.find(b->var.get());
    const std::set<int64_t> behind = of_result == cuts.end() ? std::set<int64_t>() : of_result->second;
    for (const Expr& x : call.args) {
      const auto* v = x.as<Var>();
      if (!v) continue;
      for (const int64_t at : begins(call, x)) cuts[v].insert(at);
      if (!behind.empty() && by_channel(call, *op, b->var, x)) cuts[v].insert(behind.begin(), behind.end());
    }
  }
  return cuts;
}

}  // namespace tenon::graph
