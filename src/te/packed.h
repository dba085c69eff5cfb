// SPDX-License-Identifier: Apache-2.0
// Tensors that a registered function makes, and programs that begin at tensors computed elsewhere: what
// te::build needs to put calls between tensor programs.
#pragma once
#include "te/te.h"

namespace tenon::te {

/// What the packed function `function` stores: it is called with the inputs, then the outputs. No part of a
/// tensor program (T0348): te::build calls it between programs.
std::vector<Tensor> external_packed(Array<Array<PrimExpr>> shapes, std::vector<DataType> dtypes,
                                    Array<Tensor> inputs, const std::string& function,
                                    std::string name = "extern");

/// The program from `inputs` (placeholders, or any tensors that the caller has) to `outputs`.
Program create_program(const Array<Tensor>& inputs, const Array<Tensor>& outputs,
                       const Array<tir::VarRef>& symbolic);

}  // namespace tenon::te
