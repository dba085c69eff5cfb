// SPDX-License-Identifier: Apache-2.0
// Checks of accesses on their way out of the statements around them: a check stands where it costs least, in
// loops of its own in front of those that compute, as far as what it reads is not written before.
#pragma once
#include <unordered_set>

#include "pass/tensor/lowering.h"

namespace tenon::tensor_detail {

/// Memory (data variables) that statements may write.
struct Written {
  std::unordered_set<const tir::Var*> data;
  bool unknown = false;  ///< a call may write anything, or end the program
};
Written written_in(const tir::Stmt& s);

/// Is there a load in e?
bool reads_memory(const ObjectRef& e);
/// Does the check read what is written?
bool reads(const tir::Stmt& check, const Written& written);

/// Checks that still wait for their place, outermost statement last.
class Checks {
 public:
  size_t mark() const { return list_.size(); }
  void add(const tir::Stmt& check) { list_.push_back(check); }
  /// Those since `mark` as the body of f(check), each.
  void wrap(size_t mark, FunctionRef<tir::Stmt(const tir::Stmt&)> f);
  /// Those since `mark` that `stays` says must not leave, in front of s.
  tir::Stmt place(size_t mark, const tir::Stmt& s, FunctionRef<bool(const tir::Stmt&)> stays);
  tir::Stmt place_all(size_t mark, const tir::Stmt& s) {
    return place(mark, s, [](const tir::Stmt&) { return true; });
  }
  /// Those since `mark`, taken out.
  Array<tir::Stmt> take(size_t mark);
  /// Leaving the loop, in loops of its own where it speaks of the loop's variable.
  static tir::Stmt leave(const tir::Stmt& check, const tir::For& loop, bool runs);
  static tir::Stmt leave(const tir::Stmt& check, const tir::LetStmt& let);
  static tir::Stmt leave(const tir::Stmt& check, const tir::BlockRealize& block);

 private:
  std::vector<tir::Stmt> list_;
};

}  // namespace tenon::tensor_detail
