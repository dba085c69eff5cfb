// SPDX-License-Identifier: Apache-2.0
// Bytes of a tensor seen as another tensor: from a byte on, in another shape, as another element type.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/define_type.h"
#include "op/attrs_arrange.h"
#include "op/op_def.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;

/// Bytes of an element; 0: it is not made of whole bytes, or not known.
int64_t bytes_of(DataType t) {
  if (t.is_bool()) return 1;
  return t.is_void() || t.bits % 8 ? 0 : t.bits / 8;
}
PrimExpr offset_of(const Call& call) {
  return call.args.size() > 2 && call.args[2] ? call.args[2]->type.as<graph::PrimType>()->value : PrimExpr(0);
}

Type infer_view(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  const DataType given = ctx.attrs<ViewAttrs>().dtype, dtype = given.is_void() ? x.dtype : given;
  const bool shaped = ctx.has(1);
  if (shaped && !ctx.shape(1)) return graph::tensor_type_unknown(ctx.shape_rank(1), dtype);
  const auto have = shape_of(x), want = shaped ? ctx.shape(1) : have;
  const int64_t from = bytes_of(x.dtype), to = bytes_of(dtype);
  if (!x.dtype.is_void() && !from) return ctx.error(fmt::format("{} has no whole bytes", to_string(x.dtype)));
  if (!dtype.is_void() && !to) return ctx.error(fmt::format("{} has no whole bytes", to_string(dtype)));
  if (from && to && from != to && !shaped)
    return ctx.error(fmt::format("{} and {} have different sizes, so the shape must be given",
                                 to_string(x.dtype), to_string(dtype)));
  const PrimExpr offset = offset_of(ctx.call);
  if (ctx.has(2) && !offset) return ctx.error("the offset has no value");
  if (const auto at = tir::as_int(offset)) {
    const int64_t step = from && to ? std::min(from, to) : 1;
    if (*at < 0) return ctx.error(fmt::format("the offset {} is below 0", *at));
    if (*at % step || (from < to && from && *at % from))
      return ctx.error(fmt::format("the offset {} is inside an element", *at));
    if (!shaped && *at != 0) return ctx.error("behind an offset the shape must be given");
  }
  if (have && want && from && to) {
    const PrimExpr all = product(*have) * PrimExpr(from), used = product(*want) * PrimExpr(to) + offset;
    if (!ctx.require_at_most(used, all))
      return ctx.error(fmt::format("{} bytes are seen, x has {}", show_dim(used), show_dim(all)));
  } else if (have && want && given.is_void()) {  // of whatever size an element is
    const PrimExpr all = product(*have), used = product(*want);
    if (!ctx.require_at_most(used, all))
      return ctx.error(fmt::format("{} elements are seen, x has {}", show_dim(used), show_dim(all)));
  }
  return make_type(want, want ? int64_t(want->size()) : x.ndim, dtype);
}

/// An element of `words` neighbours, or a part of one.
PrimExpr element_at(const te::Tensor& x, const PrimExpr& byte, DataType dtype) {
  const int64_t from = bytes_of(x.dtype()), to = bytes_of(dtype);
  auto word = [&](const PrimExpr& position, DataType as) {
    std::vector<PrimExpr> at(x.shape().size());
    PrimExpr rest = position;
    for (size_t i = at.size(); i-- > 0;) {
      at[i] = i ? tir::floormod(rest, x.shape()[i]) : rest;
      if (i) rest = tir::floordiv(rest, x.shape()[i]);
    }
    const PrimExpr e = x(Shape(at.begin(), at.end())), bits = x.dtype().is_bool() ? tir::cast(u8, e) : e;
    return as == bits.dtype() ? bits : tir::call(as, "tir.reinterpret", {bits});
  };
  auto as_result = [&](const PrimExpr& bits) {
    if (dtype.is_bool()) return tir::ne(bits, PrimExpr::int_imm(0, bits.dtype()));
    return dtype == bits.dtype() ? bits : tir::call(dtype, "tir.reinterpret", {bits});
  };
  const DataType whole = DataType::uint(int(8 * from)), part = DataType::uint(int(8 * to));
  const PrimExpr first = tir::floordiv(byte, PrimExpr(from));
  if (from == to)
    return as_result(dtype.is_bool() ? word(first, u8) : word(first, x.dtype().is_bool() ? u8 : x.dtype()));
  if (to < from) {
    const PrimExpr shift = tir::cast(whole, tir::floormod(byte, PrimExpr(from)) * PrimExpr(8));
    return as_result(tir::cast(part, tir::call(whole, "tir.shift_right", {word(first, whole), shift})));
  }
  PrimExpr bits;
  for (int64_t k = 0; k < to / from; ++k) {
    const PrimExpr one =
        tir::call(part, "tir.shift_left",
                  {tir::cast(part, word(first + PrimExpr(k), whole)), PrimExpr::int_imm(8 * from * k, part)});
    bits = bits ? tir::call(part, "tir.bitwise_or", {bits, one}) : one;
  }
  return as_result(bits);
}

Tensors def_view(const Call& call, const Tensors& in) {
  const TensorInfo out = output_info(call);
  const PrimExpr offset = tir::cast(i64, offset_of(call));
  return {te::compute(
      out.shape,
      [&](const Vars& v) {
        PrimExpr flat = 0;
        for (size_t i = 0; i < v.size(); ++i) flat = flat * out.shape[i] + v[i];
        return element_at(in[0], flat * PrimExpr(bytes_of(out.dtype)) + offset, out.dtype);
      },
      "view")};
}

const bool view_registered = [] {
  register_op("memory.view", "Bytes of a tensor as another one: a shape, an element type, from a byte on.",
              FusionKind::injective, infer_view, def_view)
      .argument("x", "Tensor", "the operand")
      .argument("shape", "Shape", "of the result; left out: the operand's", true)
      .argument("offset", "Prim", "the first byte; left out: 0", true)
      .attrs<ViewAttrs>()
      .precision(Precision::bytes);
  return true;
}();

}  // namespace
}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::ViewAttrs>;
