// SPDX-License-Identifier: Apache-2.0
// Short builders for importers, passes and tests: `op_call("nn.conv2d", {x, w}, make_attrs<ConvAttrs>(…))`.
#pragma once
#include "op/infer.h"
#include "op/op_def.h"

namespace tenon::op {

/// Attributes from their fields in order, or changed by a function: `make_attrs<PoolAttrs>([](auto& a) { …
/// })`.
template <class T, class... Args>
ObjectRef make_attrs(Args&&... args) {
  if constexpr (sizeof...(Args) == 1 && (std::is_invocable_v<Args, T&> && ...)) {
    Ref<T> a = make<T>();
    (args(*a.edit()), ...);
    return a;
  } else {
    return make<T>(std::forward<Args>(args)...);
  }
}

/// A call of the operator of that name, typed when its arguments are. An operator with attributes gets the
/// defaults when none are given.
Expr op_call(std::string_view name, Array<Expr> args, ObjectRef attrs = {}, Origin origin = {});
/// A scalar (rank 0) constant.
Expr scalar(double value, DataType dtype);
Expr tuple(Array<Expr> items);
Expr get_item(Expr tuple, int64_t index);
/// A shape argument from constants.
Expr shape(std::vector<int64_t> dims);

/// The tensor definition of one call as a PrimFunc: tensor arguments (tuples flattened), then outputs.
/// `symbolic` receives the graph's variables that are passed as trailing scalars.
tir::PrimFunc lower_call(const Call& call, std::vector<tir::VarRef>* symbolic = nullptr);
/// Whether the call has a tensor definition and all shapes that it needs are known.
bool can_lower(const Call& call);

}  // namespace tenon::op
