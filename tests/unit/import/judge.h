// SPDX-License-Identifier: Apache-2.0
// How a model's results are compared with expected ones.
#pragma once
#include <cmath>
#include <string>

#include "base/stored_types.h"
#include "runtime/ndarray.h"
#include "runtime/string_tensor.h"

namespace tenon::test {

/// "" when equal within the tolerance of ONNX's own suite; `shapes_only`: for random numbers.
inline std::string difference(const NDArray& got, const NDArray& want, bool shapes_only = false) {
  if (got.dtype() != want.dtype())
    return "type " + to_string(got.dtype()) + ", expected " + to_string(want.dtype());
  if (got.shape() != want.shape()) return "another shape";
  if (shapes_only) return "";
  const bool real = want.dtype().is_float() || is_stored_only(want.dtype());
  // As onnx/backend/test/runner has them: two units in the last place of a bfloat16.
  const double relative = want.dtype() == DataType::bfloat16() ? 0x1p-6 : 1e-3, absolute = 1e-7;
  for (int64_t i = 0; i < want.size(); ++i) {
    if (!real) {
      if (got.element_int(i) != want.element_int(i))
        return "element " + std::to_string(i) + " is " + std::to_string(got.element_int(i)) + ", expected " +
               std::to_string(want.element_int(i));
      continue;
    }
    const double a = got.element(i), b = want.element(i);
    if ((std::isnan(a) && std::isnan(b)) || a == b) continue;
    if (!(std::abs(a - b) <= relative * std::abs(b) + absolute))
      return "element " + std::to_string(i) + " is " + std::to_string(a) + ", expected " + std::to_string(b);
  }
  return "";
}

/// The same for values of any kind.
inline std::string difference(const Any& got, const Any& want, bool shapes_only = false) {
  if (const auto items = want.try_as<Ref<ArrayObj>>(); items && *items) {
    const auto other = got.try_as<Ref<ArrayObj>>();
    if (!other || !*other) return "no sequence but " + got.kind_name();
    if ((*other)->items.size() != (*items)->items.size())
      return std::to_string((*other)->items.size()) + " items, expected " +
             std::to_string((*items)->items.size());
    for (size_t i = 0; i < (*items)->items.size(); ++i)
      if (const std::string d = difference((*other)->items[i], (*items)->items[i], shapes_only); !d.empty())
        return "item " + std::to_string(i) + ": " + d;
    return "";
  }
  if (got.tag() != want.tag()) return got.kind_name() + ", expected " + want.kind_name();
  if (const auto text = want.try_as<StringTensor>(); text && *text) {
    const auto other = got.try_as<StringTensor>();
    if ((*other)->shape != (*text)->shape) return "another shape";
    return (*other)->items == (*text)->items ? "" : "other strings";
  }
  const auto tensor = want.try_as<NDArray>();
  return tensor && *tensor ? difference(*got.try_as<NDArray>(), *tensor, shapes_only) : "";
}

}  // namespace tenon::test
