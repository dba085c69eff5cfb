// SPDX-License-Identifier: Apache-2.0
// A tensor of texts of any bytes, row-major: what goes into a model of strings and comes out of it.
#pragma once
#include <string>
#include <vector>

#include "base/object.h"

namespace tenon {

struct StringTensorObj : Object {
  static constexpr std::string_view type_key = "StringTensor";
  std::vector<int64_t> shape;
  std::vector<std::string> items;
};
using StringTensor = Ref<StringTensorObj>;

}  // namespace tenon
