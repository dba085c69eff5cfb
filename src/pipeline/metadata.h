// SPDX-License-Identifier: Apache-2.0
// What an executable says of itself: how it was compiled, and what reports and messages need of its kernels.
#pragma once
#include "pipeline/compile.h"

namespace tenon {

using Metadata = std::vector<std::pair<std::string, std::string>>;

/// "work.SYMBOL" = "FLOP BYTES DOT_BYTES DOT_BF16" (KernelWork): what each kernel has to do at least, for
/// reports that compare it with the time it takes. Of programs before their loops are placed, which may add
/// work.
Metadata work_of_kernels(const IRModule& module);

/// The compiler, the target, the flags; the results in words; the least memory; the messages of assertions
/// ("asserts.SYMBOL"), so that the runtime can say them.
Metadata describe_compilation(const Compiled& compiled, const CompileOptions& options);

}  // namespace tenon
