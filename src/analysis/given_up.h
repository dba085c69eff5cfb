// SPDX-License-Identifier: Apache-2.0
// How a pass says that proofs of its analyzers were given up.
#pragma once
#include "analysis/analyzer.h"
#include "ir/pass.h"

namespace tenon {

/// Reports the number of proofs for each who asked (PassContext::report); nothing where none was given up.
inline void report_given_up(const PassContext& context, const GivenUpProofs& given_up) {
  if (!context.report) return;
  std::map<std::string_view, int64_t> times;
  for (const std::string_view asker : given_up) ++times[asker];
  for (const auto& [asker, n] : times) context.report(asker, Any(n));
}

}  // namespace tenon
