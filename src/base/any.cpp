// SPDX-License-Identifier: Apache-2.0
#include "base/any.h"

namespace tenon {

std::string Any::kind_name() const {
  switch (tag_) {
    case kNone:
      return "none";
    case kBool:
      return "bool";
    case kInt:
      return "int";
    case kFloat:
      return "float";
    case kDataType:
      return "data type";
    case kPointer:
      return "pointer";
  }
  const TypeInfo* info = type_table::find(tag_);
  return info ? std::string(info->key) : "unknown object";
}

}  // namespace tenon
