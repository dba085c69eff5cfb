// SPDX-License-Identifier: Apache-2.0
// Sizes of a called program: those that it needs and its call does not name, and those of its tensors.
#include <fmt/format.h>

#include "codegen/vm/vm_codegen_impl.h"
#include "ir/symbols.h"

namespace tenon {

std::vector<PrimExpr> implied_sizes(const graph::Call& c, const tir::PrimFunc& f, size_t given) {
  std::vector<PrimExpr> out;
  const std::vector<tir::VarRef> scalars = kernel_scalars(f);
  if (given >= scalars.size()) return out;
  std::vector<graph::Type> types;
  if (const auto* t = c.args[1].as<graph::Tuple>()) {
    for (const graph::Expr& e : t->items) types.push_back(e->type);
  } else {
    types.push_back(c.args[1]->type);
  }
  for (const graph::Type& t : c.type_args) types.push_back(t);
  for (size_t k = given; k < scalars.size(); ++k) {
    PrimExpr found;
    size_t buffer = 0;
    for (const tir::VarRef& p : f->params) {
      const auto b = f->buffer_map.find(p);
      if (!b) continue;
      const auto shape = buffer < types.size() ? graph::known_shape(types[buffer]) : std::nullopt;
      ++buffer;
      for (size_t d = 0; !found && shape && d < (*b)->shape.size() && d < shape->size(); ++d)
        if ((*b)->shape[d].get() == scalars[k].get()) found = (*shape)[d];
    }
    if (!found)
      fail("T0812", fmt::format("the size `{}` that a kernel is called with is not known", scalars[k]->name),
           place(c.origin));
    out.push_back(found);
  }
  return out;
}

std::vector<int64_t> buffer_bytes(const tir::PrimFunc& f, size_t count) {
  std::vector<int64_t> out;
  for (const tir::VarRef& p : f->params) {
    const auto found = f->buffer_map.find(p);
    if (!found) continue;
    const tir::Buffer& b = *found;
    std::vector<int64_t> dims;
    for (const PrimExpr& d : b->shape)
      if (const auto n = tir::as_int(d)) dims.push_back(*n);
    const bool constant = dims.size() == b->shape.size() && b->strides.empty() && !b->elem_offset;
    out.push_back(constant ? int64_t(storage_bytes(element_count(dims), b->dtype)) : -1);
  }
  out.resize(count, -1);  // a size that stands where the program takes a tensor is none of its parameters
  return out;
}

}  // namespace tenon
