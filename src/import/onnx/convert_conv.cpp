// SPDX-License-Identifier: Apache-2.0
// Converters: convolutions.
#include <algorithm>

#include "import/onnx/window.h"

namespace tenon::onnx {
namespace {

using namespace op;
using N = NodeContext;
using R = RegisterConverter;
using Ints = std::vector<int64_t>;

Values conv(N& n) {
  const Window w = window(n, kernel_of(n, 1), 1);
  return {with_bias(n, convolution(n, n.in(0), n.in(1), w), 2)};
}
const R c1("Conv", {1, 11, 22}, conv, "1-D to 3-D");

/// Padding of all of a transposed convolution's axes for the sizes that the node asks for. What would be less
/// than none is added behind the result.
Ints transposed_pads(N& n, const Ints& kernel, const Ints& strides, const Ints& dilations, Ints& extra) {
  const size_t spatial = kernel.size();
  Ints want = n.attr_ints("output_shape"), pads(2 * spatial, 0);
  const bool same = pads_same(n);
  if (want.size() == spatial + 2) want.erase(want.begin(), want.begin() + 2);
  if (!want.empty() && want.size() != spatial)
    n.malformed("'output_shape' of ConvTranspose has the wrong length");
  if (want.empty() && !same) return given_pads(n, spatial);
  const auto shape = n.shape(0);
  for (size_t i = 0; i < spatial; ++i) {
    // total = stride (in - 1) + extra + reach - out; with out = in stride the size itself drops out.
    const int64_t reach = (kernel[i] - 1) * dilations[i] + 1;
    int64_t total = reach + extra[i] - strides[i];
    if (!want.empty()) {
      const auto in = shape ? tir::as_int((*shape)[i + 2]) : std::nullopt;
      if (!in) n.unsupported("ConvTranspose with 'output_shape' needs a known spatial size");
      if (want[i] < 1 || want[i] > (int64_t(1) << 40))
        n.malformed(fmt::format("ConvTranspose has the output size {}", want[i]));
      total = strides[i] * (*in - 1) + extra[i] + reach - want[i];
    }
    if (total < 0) extra[i] -= total, total = 0;
    share_padding(n, total, i, pads);
  }
  return pads;
}

Values conv_transpose(N& n) {
  const Ints kernel = kernel_of(n, 1);
  if (std::ranges::count(kernel, 0) > 0) n.unsupported("ConvTranspose needs a weight of known shape");
  const size_t spatial = kernel.size();
  const Ints strides = per_axis(n, "strides", spatial, 1, 1),
             dilations = per_axis(n, "dilations", spatial, 1, 1);
  Ints extra = per_axis(n, "output_padding", spatial, 0, 0);
  auto a = make<ConvTransposeAttrs>();
  ConvTransposeAttrs& c = *a.edit();
  c.strides = strides, c.dilation = dilations;
  c.padding = transposed_pads(n, kernel, strides, dilations, extra);
  c.output_padding = extra, c.groups = n.attr_int("group", 1);
  if (c.groups < 1) n.malformed(fmt::format("ConvTranspose has {} groups", c.groups));
  Expr y = n.op(fmt::format("nn.conv{}d_transpose", spatial), {n.in(0), n.in(1)}, a);
  return {with_bias(n, y, 2)};
}
const R c2("ConvTranspose", {1, 11, 22}, conv_transpose, "1-D to 3-D");

}  // namespace
}  // namespace tenon::onnx
