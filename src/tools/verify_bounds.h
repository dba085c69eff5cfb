// SPDX-License-Identifier: Apache-2.0
// How far results of a model may be off behind passes that round: no fixed tolerance tells, as iterated maps,
// steps and quantisations enlarge it. The model itself says it, run with errors.
#pragma once
#include "base/function_ref.h"
#include "ir/module.h"
#include "runtime/ndarray.h"

namespace tenon {

/// A model, what it is given, and what it gives.
struct MeasuredModel {
  const IRModule& module;
  const std::vector<Any>& values;
  const std::vector<NDArray>& results;
  uint64_t seed;
  FunctionRef<std::vector<NDArray>(const IRModule&, const std::vector<Any>&)> run;
};

/// For each result how far it may be off when values are rounded with relative errors of at most `by`: some
/// times what errors as large in the inputs do, or what it does that results of float16 are a number away
/// where float32 gives another. Infinite where the model cannot be run with them.
std::vector<double> what_rounding_does(const MeasuredModel& model, double by);

/// Whether the module may round real numbers to steps of a quantisation (qnn.quantize and the like).
bool quantizes(const IRModule& module);

/// The same when numbers in front of quantisations are rounded elsewhere, so that those near to a half become
/// the other step: some times what it does that a share of all quantised values is a step away.
std::vector<double> what_steps_do(const MeasuredModel& model);

/// Whether the module multiplies matrices.
bool multiplies_matrices(const IRModule& module);

/// For each result which of its elements hang on an operand of a product of matrices that is infinite or no
/// number: they change when such operands are 0. Products in another order make NaN of infinities there, or
/// none. Nothing is marked where all operands are finite.
std::vector<std::vector<bool>> what_infinities_do(const MeasuredModel& model);

}  // namespace tenon
