// SPDX-License-Identifier: Apache-2.0
// Graph functions of operators as tensor programs.
#pragma once
#include "ir/op.h"
#include "target/target.h"

namespace tenon::graph {

/// The operator has a tensor definition: a kernel can compute it.
bool has_tensor_def(const Op& op);
/// The call has a definition, and every shape that it needs is known.
bool can_lower(const Expr& value);

/// The tensor program of a closed function whose body calls operators only (make_group): tensor parameters,
/// outputs (tuples apart), then every symbolic size of `symbols` (in the function's own terms) as a scalar.
/// Each operator's definition is the one that its strategy chooses for the target (op/strategy.h); a schedule
/// rule other than "default" that one of them names stands in the attribute "tenon.schedule_rule".
/// `implementations`: those that operators get instead, by the operator's name.
tir::PrimFunc lower_function(const Ref<Function>& function, const std::vector<tir::VarRef>& symbols,
                             const Target& target = {},
                             const Map<std::string, std::string>& implementations = {});

/// Output `output` may take the memory of input `input` (positions among the tensor parameters): every
/// element of the input is read only to make the element of the output at the same place, and nothing is read
/// after. A program whose attribute "tenon.not_in_place" says so never does.
bool may_write_in_place(const tir::PrimFunc& f, size_t input, size_t output);

}  // namespace tenon::graph
