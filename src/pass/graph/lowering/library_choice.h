// SPDX-License-Identifier: Apache-2.0
// Which library of the target computes a call: the one that is measured faster than the compiler's own code,
// with the element-wise operators behind the call that this code takes in.
#pragma once
#include <map>

#include "ir/pass.h"
#include "op/strategy.h"

namespace tenon::graph {

struct LibraryChoice {
  std::string function;  ///< the packed function that computes the call; empty: the compiler's own code does
  std::string why;       ///< "dense.dnnl takes 0.41 ms, the compiler's own code 0.52 ms"
};

class LibraryChooser {
 public:
  /// `measure`: null where nothing can be run. `always`: a library that takes a call gets it, unmeasured.
  LibraryChooser(Target target, Measure measure, bool always);
  /// For the call that `bindings[at]` binds; those behind it may use its value. Equal calls are measured
  /// once. Nullopt where no library takes it.
  std::optional<LibraryChoice> choose(const std::vector<Binding>& bindings, size_t at);

 private:
  LibraryChoice measured(const std::vector<op::OpImpl>& libraries, const std::vector<Binding>& chain);

  Target target_;
  Measure measure_;
  bool always_;
  std::map<std::string, LibraryChoice> known_;  // by the text of the measured function
};

/// `call` as a library computes it: call_dps_packed of the function on the call's tensors.
Expr library_call(const std::string& function, const Call& call, const Type& type);

}  // namespace tenon::graph
