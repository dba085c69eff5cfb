// SPDX-License-Identifier: Apache-2.0
// What is proved of every kernel of a model, and what is checked instead: `tenon inspect --proofs`.
#pragma once
#include <string>

#include "analysis/proof_report.h"
#include "pipeline/compile.h"

namespace tenon {

/// "access", "memory", "iterator", "loop"; "data", "unknown", "serial".
std::string_view name_of(ProofKind kind);
std::string_view name_of(ProofEnd end);

/// {"target": …, "accesses", "iterators", "loops": how many there are, "ms", "kernels": [{"name", "accesses",
/// "iterators", "loops", "open": [{"kind", "end", "what", "where"}]}]}, after a compilation without code.
/// "ms" is the time that the passes took that prove.
std::string proofs_json(IRModule module, CompileOptions options);

/// The same of one report, for other listings.
struct OpenCounts {
  int64_t data = 0, unknown = 0, serial = 0;
};
OpenCounts count_open(const ProofReport& report);

}  // namespace tenon
