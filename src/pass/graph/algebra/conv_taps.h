// SPDX-License-Identifier: Apache-2.0
// Convolutions by constant weights, as passes see them that leave elements of the kernel out.
#pragma once
#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "op/layout.h"
#include "runtime/ndarray.h"

namespace tenon::graph {

/// A convolution by constant weights whose data and weights lie as its plain layouts say.
struct ConstantConv {
  const Call* call = nullptr;
  const Op* op = nullptr;
  NDArray weight;  ///< (channels of the result, channels of a group, kernel…)
  int64_t groups = 1;
  std::vector<int64_t> strides, dilation, padding;  ///< per axis; paddings in front, then behind
  size_t axes() const { return strides.size(); }
};
inline std::optional<ConstantConv> constant_conv(const Expr& value) {
  const auto sum = op::contraction_of(value);
  if (!sum || sum->spatial == 0 || sum->transposed) return std::nullopt;
  const Call& call = *value.as<Call>();
  const auto& attrs = op::attrs_of<op::ConvAttrs>(call);
  const auto* weight = call.args[1].as<Constant>();
  const size_t n = size_t(sum->spatial);
  if (!weight || op::data_block(attrs.data_layout, n) != 0 ||
      attrs.kernel_layout.find_first_of("0123456789") != std::string::npos)
    return std::nullopt;
  return ConstantConv{&call,
                      op_of(value),
                      weight->data,
                      sum->groups,
                      op::per_axis(attrs.strides, n, 1),
                      op::per_axis(attrs.dilation, n, 1),
                      op::paddings(attrs.padding, n)};
}

/// Without infinities and NaN, which padding makes NaN of.
inline bool is_finite(const NDArray& a) {
  for (int64_t i = 0; i < a.size(); ++i)
    if (!std::isfinite(a.element(i))) return false;
  return true;
}

}  // namespace tenon::graph
