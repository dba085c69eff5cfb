// SPDX-License-Identifier: Apache-2.0
// Types of parameters that the text does not write, found from calls; infer_types uses it.
#pragma once
#include "ir/pass.h"
#include "op/infer_context.h"

namespace tenon::graph {

/// The module with a type on every parameter that its calls determine (closures and functions of the module
/// alike), and on the result of every closure that calls itself:
///   before   def f(x, k): return R.multiply(x, k)
///            y = cls.f(a, b)                       # a: R.Tensor((n,)), b: R.Tensor(())
///   after    def f(x: R.Tensor((x_0,), "float32"), k: R.Tensor((), "float32")): …
/// What several calls give differently is as exact as all of them allow. A parameter that no call determines
/// is a tensor of unknown rank where an operator computes it element by element with a tensor, of the same
/// element type; else it is R.Object, or a DiagnosticError (T1106) where an operator reads it. `infer` infers
/// the types of a module with open types, as far as it can, and returns the mistakes it meets.
using InferOpen = FunctionRef<DiagnosticList(IRModule& module, op::OpenTypes& open)>;
IRModule with_parameter_types(IRModule module, InferOpen infer);

/// A result's type in sizes of `scope`, which are those that whoever calls the function sees.
Type seen_outside(const Type& type, const std::vector<tir::VarRef>& scope);

}  // namespace tenon::graph
