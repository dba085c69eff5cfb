// SPDX-License-Identifier: Apache-2.0
#include "pass/graph/layout/narrow_storage.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>

#include "analysis/cost/layout.h"
#include "ir/graph.h"
#include "runtime/ndarray.h"
#include "target/narrow_float.h"

namespace tenon::graph {
namespace {

// Of billions of weights each is looked at: by its bits.
bool fits_int8(float v) {
  return v >= -128 && v <= 127 && v == std::trunc(v) && !(v == 0 && std::signbit(v));
}
bool fits_bfloat16(float v) { return (std::bit_cast<uint32_t>(v) & 0xffff) == 0; }
bool fits_float16(float v) {
  constexpr float least_normal = 0x1p-14F, most = 65504, subnormal_steps = 0x1p24F;
  const float size = std::abs(v);
  if (size < least_normal) return size * subnormal_steps == std::trunc(size * subnormal_steps);
  return size <= most && (std::bit_cast<uint32_t>(v) & 0x1fff) == 0;
}

std::optional<DataType> exact_storage(const NDArray& w, const Target& target) {
  const std::span<const float> values(w.as_ptr<float>(), size_t(element_count(w.shape())));
  if (std::ranges::all_of(values, fits_int8)) return DataType::int_(8);
  if (std::ranges::all_of(values, fits_bfloat16)) return DataType::bfloat16();
  if (converts_f16(target) && std::ranges::all_of(values, fits_float16)) return f16;
  return std::nullopt;
}

}  // namespace

int64_t product_rows(const Expr& x) {
  int64_t rows = 0;
  if (const auto shape = known_shape(x->type))
    for (size_t i = 0; i + 1 < shape->size(); ++i)
      if (const auto n = tir::as_int((*shape)[i])) rows = std::max<int64_t>(rows, 1) * *n;
  return rows;
}

std::optional<DataType> narrow_storage(const Expr& product, const Target& target) {
  const auto sum = op::contraction_of(product);
  if (!target || !sum || sum->spatial > 0 || sum->batch > 0) return std::nullopt;
  const Call& call = *product.as<Call>();
  const auto* x = as_tensor(call.args[0]);
  const auto* w = call.args[1].as<Constant>();
  if (!x || x->dtype != f32 || !w || w->data.dtype() != f32 || w->data.ndim() != 2) return std::nullopt;
  if (!sum->out_dtype.is_void() && sum->out_dtype != f32) return std::nullopt;
  if (!cost::worth_narrow_storage(product_rows(call.args[0]), int64_t(w->data.byte_size()), target))
    return std::nullopt;
  return exact_storage(w->data, target);
}

}  // namespace tenon::graph
