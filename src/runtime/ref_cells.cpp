// SPDX-License-Identifier: Apache-2.0
// Lifetime of references: cycles through them end with the run that made them.
#include <unordered_set>

#include "runtime/executable.h"

namespace tenon {

RefCell RefCells::create(Any value) {
  // Cells that only this list holds are garbage already.
  if (cells_.size() >= next_sweep_) {
    std::erase_if(cells_, [](const RefCell& c) { return c.use_count() == 1; });
    next_sweep_ = std::max<size_t>(1024, 2 * cells_.size());
  }
  auto cell = make<RefCellObj>();
  cell.mut()->value = std::move(value);
  cells_.push_back(cell);
  return cell;
}

void RefCells::clear(std::span<const Any> results) noexcept {
  if (cells_.empty()) return;
  std::unordered_set<const Object*> reached;
  std::vector<const Object*> stack;
  auto push = [&](const Any& v) {
    if (v.is_object() && v.object() && reached.insert(v.object()).second) stack.push_back(v.object());
  };
  for (const Any& v : results) push(v);
  while (!stack.empty()) {
    const Object* o = stack.back();
    stack.pop_back();
    const std::vector<Any>* items = nullptr;
    if (is_type_index<ArrayObj>(o->type_index))
      items = &static_cast<const ArrayObj*>(o)->items;
    else if (is_type_index<DataObj>(o->type_index))
      items = &static_cast<const DataObj*>(o)->items;
    else if (is_type_index<ClosureObj>(o->type_index))
      items = &static_cast<const ClosureObj*>(o)->captured;
    else if (is_type_index<RefCellObj>(o->type_index))
      push(static_cast<const RefCellObj*>(o)->value);
    if (items)
      for (const Any& v : *items) push(v);
  }
  for (const RefCell& c : cells_)
    if (!reached.count(c.get())) c.mut()->value = Any();
  cells_.clear();
  next_sweep_ = 1024;
}

}  // namespace tenon
