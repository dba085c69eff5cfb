// SPDX-License-Identifier: Apache-2.0
// What a kernel has to do at least: for reports that compare it with the time it takes.
#pragma once
#include <optional>

#include "ir/tir.h"

namespace tenon {

/// What a program must do at least.
struct KernelWork {
  double flop = 0;       ///< arithmetic operations on its values; a call of a function is one
  double bytes = 0;      ///< of its parameters that it touches, each once
  double dot_bytes = 0;  ///< those of `flop` in sums of products of 8-bit integers
  double dot_bf16 = 0;   ///< … of bf16
};
/// Empty when sizes are symbolic. To be taken before a schedule changes the loops.
std::optional<KernelWork> kernel_work(const tir::PrimFunc& f);
/// "FLOP BYTES DOT_BYTES DOT_BF16", as artifacts hold it.
std::string work_text(const KernelWork& work);

}  // namespace tenon
