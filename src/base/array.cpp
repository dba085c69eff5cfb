// SPDX-License-Identifier: Apache-2.0
// What arrays of all item types share.
#include "base/container.h"

namespace tenon {

template const TypeInfo* type_info<StringObj>();
template const TypeInfo* type_info<ArrayObj>();

namespace array_detail {

ArrayObj* writable(Ref<ArrayObj>& array) {
  if (!array) array = make<ArrayObj>();
  return array.edit();
}
void push_back(Ref<ArrayObj>& array, Any value) { writable(array)->items.push_back(std::move(value)); }
void insert(Ref<ArrayObj>& array, size_t i, Any value) {
  ArrayObj* a = writable(array);
  a->items.insert(a->items.begin() + ptrdiff_t(i), std::move(value));
}
void erase(Ref<ArrayObj>& array, size_t i) {
  ArrayObj* a = writable(array);
  a->items.erase(a->items.begin() + ptrdiff_t(i));
}
void index_error(size_t i, size_t size) {
  check_failed("i < size()", __FILE__, __LINE__,
               "index " + std::to_string(i) + " in an array of " + std::to_string(size));
}

}  // namespace array_detail
}  // namespace tenon
