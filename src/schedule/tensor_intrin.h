// SPDX-License-Identifier: Apache-2.0
// Tensor intrinsics: what a tile of a program computes (the description) and what stands for it (the
// implementation), by name. Schedules ask for them with `tensorize`.
#pragma once
#include "ir/tir.h"

namespace tenon {

/// Both functions take the same tensors. The description is loops over one update in blocks, without an init.
/// The implementation's buffers may have variables as strides and element offset; they take their values from
/// the program's buffers. A buffer without strides is accessed by index only.
struct TensorIntrin {
  std::string name;
  tir::PrimFunc description, implementation;
};

/// Makes the intrinsic known (again: in place of the old one). ScheduleError T0749 when the two do not fit.
void register_tensor_intrin(const std::string& name, tir::PrimFunc description, tir::PrimFunc implementation);
/// Nullopt when there is none of that name. Thread-safe.
std::optional<TensorIntrin> find_tensor_intrin(const std::string& name);
std::vector<std::string> tensor_intrins();  ///< names, sorted

}  // namespace tenon
