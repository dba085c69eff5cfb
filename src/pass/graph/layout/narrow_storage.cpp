// SPDX-License-Identifier: Apache-2.0
#include "pass/graph/layout/narrow_storage.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "analysis/cost/layout.h"
#include "ir/graph.h"
#include "runtime/ndarray.h"
#include "target/narrow_float.h"

namespace tenon::graph {
namespace {

std::optional<DataType> exact_storage(const NDArray& w, const Target& target) {
  const auto* data = w.as_ptr<float>();
  auto holds = [&](auto narrowed) {
    return std::all_of(data, data + element_count(w.shape()), [&](float v) {
      const float read = narrowed(v);
      return std::memcmp(&read, &v, sizeof v) == 0;
    });
  };
  if (holds([](float v) { return std::abs(v + 0.5f) <= 127.5f ? float(int8_t(v)) : 0.f; }))
    return DataType::int_(8);
  if (holds([](float v) { return bf16_to_float(float_to_bf16(v)); })) return DataType::bfloat16();
  if (converts_f16(target) && holds([](float v) { return f16_to_float(float_to_f16(v)); })) return f16;
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
