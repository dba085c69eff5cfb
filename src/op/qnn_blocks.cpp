// SPDX-License-Identifier: Apache-2.0
// Weights of few bits whose rows have a scale for each block of neighbours, as models of language have them.
#include <fmt/format.h>

#include "op/family.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;

Type infer_block_dequantize(InferContext& ctx) {
  const auto &q = ctx.tensor(0), &s = ctx.tensor(1);
  if (q.dtype != DataType::int_(8)) return ctx.error(fmt::format("{} instead of int8", to_string(q.dtype)));
  if (!s.dtype.is_float()) return ctx.error(fmt::format("scales of {}", to_string(s.dtype)));
  if (!ctx.expect_rank(q, "the weight", 2) || !ctx.expect_rank(s, "the scales", 2)) return {};
  const auto have = shape_of(q), scales = shape_of(s);
  if (!have) return make_type(std::nullopt, 2, s.dtype);
  if (scales) {
    const auto inputs = tir::as_int((*have)[1]), blocks = tir::as_int((*scales)[1]);
    if (!inputs || !blocks || *blocks < 1 || *inputs % *blocks != 0)
      return ctx.error(fmt::format("{} scales of a row of {}", show(*scales), show(*have)),
                       "every block has as many neighbours");
    if (!ctx.require_equal((*have)[0], (*scales)[0]))
      return ctx.error(fmt::format("{} scales for a weight {}", show(*scales), show(*have)));
  }
  return make_type(*have, 2, s.dtype);
}

Tensors def_block_dequantize(const Call& call, const Tensors& in) {
  const TensorInfo out = output_info(call);
  const PrimExpr block = simplify(tir::floordiv(in[0].shape()[1], in[1].shape()[1]));
  return {te::compute(
      out.shape,
      [&](const Vars& v) {
        const PrimExpr s = in[1]({v[0], tir::floordiv(v[1], block)});
        return tir::cast(out.dtype, in[0]({v[0], v[1]})) * s;
      },
      "block_dequantize")};
}

const bool registered = [] {
  register_op("qnn.block_dequantize", "Rows of int8 times a scale for each block of neighbours.")
      .argument("weight", "Tensor", "(outputs, inputs), int8: zero points are taken off")
      .argument("scales", "Tensor", "(outputs, blocks), floats: a row has blocks of inputs / blocks")
      .infer(infer_block_dequantize)
      .fusion(FusionKind::injective)
      .tensor_def(def_block_dequantize);
  return true;
}();

}  // namespace
}  // namespace tenon::op
