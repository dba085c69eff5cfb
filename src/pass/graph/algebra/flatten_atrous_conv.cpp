// SPDX-License-Identifier: Apache-2.0
// flatten_atrous_conv: a convolution between space_to_batch_nd and batch_to_space_nd is a dilated one.
//
//   before   lv = R.space_to_batch_nd(x, block_shape=[1, 2, 2], margins=m);  lv1 = R.nn.conv2d(lv, w)
//            lv2 = R.batch_to_space_nd(lv1, block_shape=[1, 2, 2], margins=c)
//   after    lv2 = R.nn.conv2d(x, w, dilation=[2, 2], padding=m + 2 · padding - c)
//
// For convolutions without stride or dilation of their own, used once, where the new padding is not negative.
// Needs: types. Keeps: values up to the order of sums.
#include "ir/structural.h"
#include "op/attrs_arrange.h"
#include "op/body_rewriter.h"
#include "op/build.h"

namespace tenon {
namespace graph {
namespace {

class FlattenAtrousConv : public BodyRewriter {
 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    if (!value.is<Call>() || !is_op(value, "batch_to_space_nd")) return value;
    const Call& back = *value.as<Call>();
    const Call* conv = definition_call(back.args[0], "nn.conv2d");
    const Call* there = conv ? definition_call(conv->args[0], "space_to_batch_nd") : nullptr;
    const auto* attrs = conv ? conv->attrs.as<op::ConvAttrs>() : nullptr;
    if (!there || !attrs) return value;
    const auto &in = op::attrs_of<op::BlockAttrs>(*there), &out = op::attrs_of<op::BlockAttrs>(back);
    if (in.block_shape.size() != 3 || !structural_equal(in.block_shape, out.block_shape) ||
        in.block_shape[0] != 1 || !all_are(attrs->strides, 1) || !all_are(attrs->dilation, 1) ||
        !(attrs->data_layout.empty() || attrs->data_layout == "NCHW") || !attrs->out_layout.empty())
      return value;
    Array<int64_t> padding;
    for (size_t end = 0; end < 2; ++end)
      for (size_t axis = 0; axis < 2; ++axis) {
        const int64_t block = in.block_shape[axis + 1];
        const int64_t p = margin(in.margins, axis + 1, end) + block * padded(attrs->padding, axis, end) -
                          margin(out.margins, axis + 1, end);
        if (p < 0) return value;
        padding.push_back(p);
      }
    if (margin(in.margins, 0, 0) || margin(in.margins, 0, 1) || margin(out.margins, 0, 0) ||
        margin(out.margins, 0, 1))
      return value;
    Ref<op::ConvAttrs> next = conv->attrs.cast<op::ConvAttrs>();
    next.edit()->padding = padding;
    next.edit()->dilation = Array<int64_t>{in.block_shape[1], in.block_shape[2]};
    Expr flat = op::op_call("nn.conv2d", {there->args[0], conv->args[1]}, next, conv->origin);
    // Equal sizes say that no phase was cut off.
    return flat->type && structural_equal(flat->type, var->declared) ? flat : value;
  }

 private:
  static bool all_are(const Array<int64_t>& list, int64_t v) {
    return std::all_of(list.begin(), list.end(), [&](int64_t x) { return x == v; });
  }
  static int64_t margin(const Array<int64_t>& margins, size_t axis, size_t end) {
    return margins.empty() ? 0 : margins[2 * axis + end];
  }
  static int64_t padded(const Array<int64_t>& padding, size_t axis, size_t end) {
    if (padding.empty()) return 0;
    return padding[padding.size() == 1 ? 0 : padding.size() == 2 ? axis : 2 * end + axis];
  }
};

}  // namespace
}  // namespace graph

const Pass& flatten_atrous_conv_pass = register_pass({
    .name = "flatten_atrous_conv",
    .run = graph::each_function<graph::FlattenAtrousConv>,
    .summary = "convolutions between batches of phases are dilated ones",
    .needs = {"infer_types"},
    .changes = Changes::sum_order,
});

}  // namespace tenon
