// SPDX-License-Identifier: Apache-2.0
// Inputs of a model whose values are fixed when it is compiled: they become constants, and the module says
// so.
#pragma once
#include "ir/module.h"

namespace tenon {

/// Inputs of the entry function of a module (pipeline/program_entry.h) become these tensors, and sizes that
/// their shapes show get values. DiagnosticError "T0912" for a name that no input has, "T0953" for a tensor
/// of another type.
IRModule bind_inputs(IRModule module, const Map<std::string, NDArray>& values);

/// The attribute "bound_inputs" of the entry function: what was bound, as texts by name ("int64(2) [0, 1]").
/// An artifact has them as metadata "bound_input.NAME", so that a run that gives one again is refused
/// (T0522).
IRModule with_bound_inputs(IRModule module, const Map<std::string, NDArray>& values);

}  // namespace tenon
