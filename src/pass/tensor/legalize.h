// SPDX-License-Identifier: Apache-2.0
// Narrow types made of wider and plainer ones: int4_legalize, and what the passes *_compute_legalize
// (operations in float32, each result rounded once) and *_storage_legalize (values as the bits they are
// stored in) share.
#pragma once
#include "analysis/program_target.h"
#include "pass/tensor/lowering.h"
#include "target/narrow_float.h"

namespace tenon::tensor_detail {

using NarrowTypes = bool (*)(DataType element);

/// Is a value or a buffer of such a type in the function?
bool has_narrow(const tir::PrimFunc& f, NarrowTypes narrow);

/// Every operation on such a type becomes the operation on float32 between conversions. Data movement (loads,
/// stores, choices, shuffles) keeps the type, and so does a dot product that the target has an instruction
/// for.
IRModule legalize_compute(IRModule module, NarrowTypes narrow, const PassContext& context);
/// Every value of such a type becomes an unsigned integer, conversions become integer arithmetic. `native`
/// names the conversions that a program's target has instructions for: those stay; nothing is to be done
/// where it gives none.
struct NativeConversions {
  bool widen = false, narrow = false;
  bool flushes = false;  ///< the instruction drops subnormals: they go the long way
};
IRModule legalize_storage(IRModule module, NarrowTypes narrow, const PassContext& context,
                          FunctionRef<std::optional<NativeConversions>(const Target& target)> native,
                          const char* needs);

/// The bits of a narrow float as a float32, and a float32 rounded to nearest even as such bits (uint8,
/// uint16).
PrimExpr widen_bits(const PrimExpr& bits, DataType type);
PrimExpr narrow_bits(const PrimExpr& f32, DataType type);

}  // namespace tenon::tensor_detail
