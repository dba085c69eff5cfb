// SPDX-License-Identifier: Apache-2.0
// Windows that slide over the spatial axes of input 0, as convolutions and pooling have them.
#pragma once
#include "import/onnx/values.h"

namespace tenon::onnx {

struct Window {
  std::vector<int64_t> kernel, strides, dilations, pads;  ///< pads: begins, then ends
  struct Same {
    size_t axis;            ///< of input 0
    PrimExpr before, size;  ///< of the padded data
  };
  std::vector<Same> same;  ///< axes of symbolic sizes that are padded in front of the operator
};

/// The window that the node's attributes describe. `weight`: the input by whose shape it goes where an extent
/// is 0; none for 0.
Window window(NodeContext& n, std::vector<int64_t> kernel, size_t weight = 0);
/// Extents of the weight's spatial axes, checked against kernel_shape; 0: known only when the model runs.
std::vector<int64_t> kernel_of(NodeContext& n, size_t input);
/// How many axes of input 0 are neither batch nor channels.
size_t spatial_axes(NodeContext& n);
/// An attribute with a number for each spatial axis, none below `least`.
std::vector<int64_t> per_axis(NodeContext& n, const char* name, size_t spatial, int64_t otherwise,
                              int64_t least);
/// Does auto_pad say SAME_UPPER or SAME_LOWER?
bool pads_same(NodeContext& n);
/// The attribute 'pads', which auto_pad=VALID replaces by none.
std::vector<int64_t> given_pads(NodeContext& n, size_t spatial);
/// Shares padding out to both sides of spatial axis i; auto_pad says on which an odd one lies.
void share_padding(NodeContext& n, int64_t total, size_t i, std::vector<int64_t>& pads);
/// x with `value` around the axes whose padding depends on their size.
Expr with_same_padding(NodeContext& n, Expr x, const Window& w, double value);

/// x convolved with a weight; the node's attributes say how.
Expr convolution(NodeContext& n, Expr x, Expr weight, const Window& w);
/// y plus input i along the channels, where the node has it.
Expr with_bias(NodeContext& n, Expr y, size_t i);
/// The least number of a type: -inf of floats.
double lowest(DataType t);

}  // namespace tenon::onnx
