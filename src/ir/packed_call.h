// SPDX-License-Identifier: Apache-2.0
// Calls of packed functions from tensor programs, `tir.call_packed`, and what they are given of buffers:
// `tir.tensor_view` among their arguments.
//
//   T.call_packed("name", A, B[i, 0:4], T.tensor_view(C, "r"), 3)
//
// Arguments of the node: a pointer to the first element (`tir.access_ptr`, whose range is all that the view
// reaches, so that whoever knows pointers knows views), the element's type as text, how it is used (1 read,
// 2 written, 3 both), then the sizes, then as many strides, in elements.
#pragma once
#include "ir/tir.h"

namespace tenon::tir {

struct TensorView {
  PrimExpr pointer;
  std::string dtype;
  int64_t access = 3;
  Array<PrimExpr> shape, strides;
};
/// The parts of a `tir.tensor_view`; nothing for another expression, or one that is not well-formed.
std::optional<TensorView> tensor_view(const PrimExpr& e);
PrimExpr to_expr(const TensorView& view);

/// Of a region of a buffer; `dropped` are the dimensions of which it has one element and the view none.
PrimExpr tensor_view(const BufferRegion& region, const std::vector<bool>& dropped, int64_t access);
PrimExpr whole_tensor_view(const Buffer& buffer, int64_t access);

/// A call of a packed function as a statement: its result is not looked at. Other expressions as they are.
PrimExpr as_statement(const PrimExpr& e);

/// A `tir.call_packed` as the runtime is told of it (runtime/kernel_calls.h): what is called, as text, and
/// the values, each 64 bits: int64, float64, pointers, and texts (StringImm). With `wide` tensors of floats
/// are of float64, which the interpreter may compute in.
struct PackedCallForm {
  std::string text;
  std::vector<PrimExpr> values;
};
PackedCallForm packed_call_form(const Call& call, bool wide = false);

}  // namespace tenon::tir
