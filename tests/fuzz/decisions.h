// SPDX-License-Identifier: Apache-2.0
// What the fuzz targets of programs and models share: decisions out of bytes, and what counts as a refusal.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/diagnostic.h"

namespace tenon::testing {

/// The bytes, one decision after the other; zeros behind their end.
class Decisions {
 public:
  Decisions(const uint8_t* data, size_t size) : at_(data), end_(data + size) {}
  bool more() const { return at_ != end_; }
  int below(size_t n) { return n < 2 ? 0 : int((n > 256 ? byte() * 256u + byte() : byte()) % n); }
  template <class List>
  auto& one_of(List& list) {
    return list[size_t(below(std::size(list)))];
  }

 private:
  unsigned byte() { return at_ == end_ ? 0 : *at_++; }
  const uint8_t *at_, *end_;
};

[[noreturn]] inline void finding(const std::string& what, const std::string& program,
                                 const std::string& trace = {}) {
  std::fprintf(stderr, "FINDING: %s\n%s\n%s\n", what.c_str(), program.c_str(), trace.c_str());
  std::abort();
}
/// Only a user's mistakes may be thrown.
inline void judge(const Error& e, const std::string& program, const std::string& trace = {}) {
  const auto* list = dynamic_cast<const DiagnosticError*>(&e);
  const bool coded = list ? !list->diagnostics.empty() : e.code.size() == 5 && e.code[0] == 'T';
  if (e.kind == ErrorKind::internal || !coded)
    finding(std::string("no refusal: ") + e.what(), program, trace);
}

}  // namespace tenon::testing
