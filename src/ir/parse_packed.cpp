// SPDX-License-Identifier: Apache-2.0
// Calls of packed functions in tensor programs, and what they are given of buffers (ir/packed_call.h).
#include "ir/packed_call.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/parse_impl.h"

namespace tenon::script {
using namespace tir;

/// A, A[i, 0:4], A[0:2, 0:4]: a region of a buffer; an index instead of a range leaves its dimension out.
PrimExpr Converter::region_view(const Ast* a, int64_t access) {
  std::vector<bool> dropped;
  if (a->kind == ExprKind::subscript)
    for (size_t i = 1; i < a->items.size(); ++i)
      dropped.resize(dropped.size() + (a->items[i]->kind == ExprKind::slice ? 1 : spread(a->items[i]).size()),
                     a->items[i]->kind != ExprKind::slice);
  const BufferRegion r = region(a);
  const DataType t = r->buffer->dtype;
  if (t.is_vector() || t.is_handle() || (t.bits < 8 && !t.is_bool()))
    fail("T0224",
         fmt::format("a packed function cannot be given `{}`, whose elements are {}", r->buffer->name,
                     to_string(t)),
         a, "copy it to a buffer of whole bytes, and give that");
  return is_buffer(a) ? whole_tensor_view(r->buffer, access) : tensor_view(r, dropped, access);
}

bool Converter::is_region(const Ast* a) const {
  return is_buffer(a) || (a->kind == ExprKind::subscript && is_buffer(a->items[0]) &&
                          std::any_of(a->items.begin() + 1, a->items.end(),
                                      [](const Ast* i) { return i->kind == ExprKind::slice; }));
}

/// T.tensor_view(A[0:2], "r"), or T.tensor_view(pointer, "float32", (2, 4), (4, 1), "r").
Value Converter::view_call(const Ast* a) {
  if (a->items.size() > 1 && (is_buffer(a->items[1]) || a->items[1]->kind == ExprKind::subscript)) {
    only(a, 2, {"access_mask"});
    const Ast* mask = argument(a, 1, "access_mask");
    return {region_view(a->items[1], mask ? access_mask(mask) : 3)};
  }
  only(a, 5, {"dtype", "shape", "strides", "access_mask"});
  TensorView view;
  view.pointer = expr(need(a, 0, "pointer"));
  view.dtype = to_string(dtype_of(need(a, 1, "dtype")));
  auto sizes = [&](const Ast* list) {
    Array<PrimExpr> out;
    for (const Ast* i : items_of(list)) out.push_back(cast(i64, expr_of(i, i64)));
    return out;
  };
  view.shape = sizes(need(a, 2, "shape"));
  view.strides = sizes(need(a, 3, "strides"));
  view.access = access_mask(need(a, 4, "access_mask"));
  if (view.shape.size() != view.strides.size()) fail("T0223", "a view has as many strides as sizes", a);
  return {to_expr(view)};
}

/// The reference's array object, T.tvm_stack_make_array(A.data, T.tvm_stack_make_shape(4, 4), 0, 2,
/// T.float32(0), 0), where it is all of a buffer; null otherwise.
PrimExpr Converter::array_object(const Ast* a) {
  if (!is_call(a, "T.tvm_stack_make_array") || a->items.size() != 7) return {};
  const Ast *data = a->items[1], *shape = a->items[2], *strides = a->items[3], *offset = a->items[6];
  if (data->kind != ExprKind::attribute || data->text != "data" || !is_buffer(data->items[0]) ||
      !is_call(shape, "T.tvm_stack_make_shape") || as_int(expr(strides)) != 0 || as_int(expr(offset)) != 0)
    return {};
  const Buffer b = buffer_of(data->items[0]);
  if (b->elem_offset || !b->strides.empty() || shape->items.size() != b->shape.size() + 1 ||
      expr(a->items[5]).dtype() != b->dtype)
    return {};
  for (size_t i = 0; i < b->shape.size(); ++i) {
    const PrimExpr d = expr(shape->items[i + 1]);
    if (d.get() != b->shape[i].get() && !(as_int(d) && as_int(d) == as_int(b->shape[i]))) return {};
  }
  return region_view(data->items[0], 3);
}

/// Values of the runtime are wide.
static PrimExpr passed(const PrimExpr& e) {
  const DataType t = e.dtype();
  return t.is_float() && t.is_scalar() && t.bits < 32 ? cast(f32, e) : e;
}

/// T.call_packed("name", arguments…, dtype="int32"): the type of the result where it is used.
Value Converter::packed_call(const Ast* a) {
  for (const auto& [name, v] : a->named)
    if (name != "dtype" && name != "span")
      fail("T0223", fmt::format("`T.call_packed` has no argument `{}`", name), v);
  const Ast* d = named(a, "dtype");
  Array<PrimExpr> args{make<tir::StringImm>(text_of(a->items[1], "a function's name"))};
  for (size_t i = 2; i < a->items.size(); ++i) {
    const Ast* x = a->items[i];
    if (const PrimExpr array = array_object(x))
      args.push_back(array);
    else
      args.push_back(is_region(x) ? region_view(x, 3) : passed(expr(x)));
  }
  return {tir::call(d ? dtype_of(d) : i32, "tir.call_packed", args)};
}

/// The result of a call that is a statement, and does not say its type, is not looked at.
PrimExpr Converter::evaluated(const Ast* a) {
  const bool typed = a->kind == ExprKind::call && named(a, "dtype");
  return typed ? expr(a) : as_statement(expr(a));
}

}  // namespace tenon::script
