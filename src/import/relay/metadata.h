// SPDX-License-Identifier: Apache-2.0
// The section #[metadata] of Relay text: what the text refers to as meta[relay.Constant][0], as JSON.
#pragma once
#include <map>

#include "base/diagnostic.h"
#include "runtime/ndarray.h"

namespace tenon::relay {

class Metadata {
 public:
  Metadata() = default;
  /// The JSON that stands behind `begin` in the source. Mistakes (T0246) are collected.
  Metadata(const std::shared_ptr<const SourceText>& source, size_t begin, DiagnosticList& problems);
  /// The constant, or null and why not.
  NDArray constant(std::string_view kind, int64_t index, std::string& why) const;

 private:
  std::vector<NDArray> constants_;
  std::map<std::string, size_t, std::less<>> others_;  ///< how many objects of kinds that are not read
  bool given_ = false;
};

}  // namespace tenon::relay
