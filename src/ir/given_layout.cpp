// SPDX-License-Identifier: Apache-2.0
#include "ir/given_layout.h"

#include <fmt/format.h>

namespace tenon::tir {

std::optional<std::string> unlike_given_tensors(const Buffer& buffer, const LayoutValue& value) {
  const BufferNode& b = *buffer;
  if (const auto offset = b.elem_offset ? value(b.elem_offset) : std::nullopt; offset && *offset != 0)
    return fmt::format("begins at element {}, and a tensor at its first", *offset);
  for (const PrimExpr& size : b.shape)
    if (value(size) == 0) return std::nullopt;  // nothing is read by any stride
  std::optional<int64_t> step = 1;              // where the sizes behind are known
  for (size_t i = b.strides.size(); i-- > 0 && step;) {
    const auto size = value(b.shape[i]), stride = value(b.strides[i]);
    if (stride && *stride != *step && size != 1)
      return fmt::format("has the stride {} along axis {}, and a tensor {}", *stride, i, *step);
    int64_t next = 0;
    step = size && !__builtin_mul_overflow(*step, *size, &next) ? std::optional(next) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace tenon::tir
