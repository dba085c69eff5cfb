// SPDX-License-Identifier: Apache-2.0
// Operators that are made of other operators: one function gives their type, their tensor definition, and
// what a pass puts in their place.
#pragma once
#include "op/build.h"
#include "op/family.h"

namespace tenon::op {

/// The value of a call in terms of other operators. `args` are variables for tensors, and the call's own
/// expressions for shapes and scalars.
using Compose = std::function<Expr(const Call& call, const std::vector<Expr>& args)>;

/// A composed operator; mistakes inside are reported as mistakes in the call.
OpRegistration register_composed(std::string name, std::string doc, FusionKind kind, Compose f,
                                 std::source_location where = std::source_location::current());
/// The operator's definition on tensors of its own; `tail`: shapes and scalars behind the tensors.
std::vector<te::Tensor> define(std::string_view op, const std::vector<te::Tensor>& in, ObjectRef attrs = {},
                               Array<Expr> tail = {});
/// Inside of a Compose: the shape of an expression; where it is not known, neither is the call's type.
Shape known_dims(const Expr& e);
DataType dtype_of(const Expr& e);
/// x as f32 or wider, and back.
Expr widened(const Expr& x);
Expr as_type(const Expr& x, DataType t);

}  // namespace tenon::op
