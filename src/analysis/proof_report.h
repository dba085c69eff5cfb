// SPDX-License-Identifier: Apache-2.0
// What is proved of a tensor program's accesses and loops, and what is checked when it runs instead.
#pragma once
#include <string>
#include <vector>

#include "base/object.h"

namespace tenon {

/// What a proof is about.
enum class ProofKind : uint8_t {
  access,    ///< an index of a load or store stays inside of its dimension
  memory,    ///< an access through strides, an offset or a second view stays inside of the memory behind it
  iterator,  ///< a block's iterator stays in its domain
  loop,      ///< iterations of a parallel or vectorised loop are independent
};
/// What stands in place of a proof.
enum class ProofEnd : uint8_t {
  guarded_data,     ///< data decide the index: the kernel checks it
  guarded_unknown,  ///< not proved within the budget: the kernel checks it
  serial,           ///< the loop runs in order
};

/// Something that is not proved.
struct OpenProof {
  ProofKind kind = ProofKind::access;
  ProofEnd end = ProofEnd::guarded_data;
  std::string what;   ///< "index 0 of buffer `A`: idx[i] in [0, n)"
  std::string where;  ///< file:line:column or node, or empty
};

/// The proofs of one program.
struct ProofReport : Object {
  static constexpr std::string_view type_key = "analysis.ProofReport";
  std::string function;
  int64_t accesses = 0, iterators = 0, loops = 0;  ///< how many there are, proved or not
  std::vector<OpenProof> open;
};

}  // namespace tenon
