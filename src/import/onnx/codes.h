// SPDX-License-Identifier: Apache-2.0
// Types that tensors are only stored in: a program holds their codes, finds the number of a code in a table,
// and the code of a number in the sorted numbers between which it changes.
#pragma once
#include "import/onnx/importer.h"

namespace tenon::onnx {

/// Input i as numbers: codes as float32, everything else as it is.
Expr number_input(NodeContext& n, size_t i);
enum class CodeRounding { nearest, up, down };
/// The codes of floating numbers; ones beyond the range are the last code, or NaN where that exists and
/// `saturate` is false. Of 4 bits: to nearest, ties to even. Of 8 bits: as asked, ties away from zero.
Value codes_of(NodeContext& n, const Expr& x, DataType t, CodeRounding rounding, bool saturate);

}  // namespace tenon::onnx
