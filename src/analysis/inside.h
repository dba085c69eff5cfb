// SPDX-License-Identifier: Apache-2.0
// Proofs that indices stay inside of their dimensions, also where they come from data: the analyzer knows
// ranges and sizes, this adds what a clamp, a choice or a condition says of a value that memory holds.
#pragma once
#include <unordered_set>

#include "analysis/analyzer.h"

namespace tenon {

class Inside {
 public:
  explicit Inside(Analyzer& analyzer) : analyzer_(analyzer) {}

  /// A variable's value, from here on.
  void define(const tir::VarRef& v, const PrimExpr& value);
  /// The variable runs over a range.
  void define(const tir::VarRef& v, const tir::Range& range);

  /// A condition that holds until the returned object goes out of scope; nothing that it says of memory in
  /// `written` is used.
  class Scope {
   public:
    Scope(Inside* owner, Analyzer::Scope scope, size_t known, size_t either, size_t equal)
        : owner_(owner), scope_(std::move(scope)), known_(known), either_(either), equal_(equal) {
      owner_->decide(decided_, follows_);
    }
    ~Scope() {
      owner_->known_.resize(known_);
      for (size_t i : decided_) owner_->either_[i].decided = false;
      owner_->either_.resize(either_);
      owner_->equal_.resize(equal_);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Inside* owner_;
    Analyzer::Scope scope_;
    size_t known_, either_, equal_;
    std::vector<size_t> decided_;           ///< alternatives, here
    std::vector<Analyzer::Scope> follows_;  ///< what follows from them
  };
  [[nodiscard]] Scope assume(const PrimExpr& condition, const std::unordered_set<const tir::Var*>& written);

  /// A condition that follows for a variable in [0, extent) where the extent is known to equal other sizes,
  /// or one of two alternatives is known to hold; null: none is.
  PrimExpr within(const tir::VarRef& v, const PrimExpr& extent);
  /// A condition that says that the loop runs, with what follows for the sizes that its extent is made of.
  PrimExpr runs(const PrimExpr& extent);

  /// What stands under the condition is provably never reached.
  bool never(const PrimExpr& condition);
  /// a ≤ b, provably. Both are int64 values that do not overflow where no data are in them.
  bool at_most(const PrimExpr& a, const PrimExpr& b) { return at_most(a, b, kDepth); }
  /// What is left to be shown of a ≤ b; null: nothing.
  PrimExpr missing(const PrimExpr& a, const PrimExpr& b);
  /// Memory, or a variable that memory decides, is in it.
  bool from_data(const PrimExpr& e) const;

 private:
  /// Nested clamps, choices and sums that one proof looks through; operators' definitions nest five.
  static constexpr int kDepth = 12;
  struct Known {  ///< small + (strict) ≤ big
    PrimExpr small, big;
    bool strict;
  };
  /// One of both holds, and no data are in them.
  struct Either {
    PrimExpr first, second;
    bool decided = false;  ///< which of them is known
  };
  /// Where one of two is false by now, the other holds.
  void decide(std::vector<size_t>& decided, std::vector<Analyzer::Scope>& follows);
  bool is_false(const PrimExpr& condition);
  bool at_most(const PrimExpr& a, const PrimExpr& b, int depth);
  /// What memory holds in e has a known end on that side, so that adding something known does not overflow.
  bool bounded(const PrimExpr& e, bool above, int depth);
  bool both_bounded(const PrimExpr& e, int depth) {
    return bounded(e, true, depth) && bounded(e, false, depth);
  }
  /// A value that is no less (no more) than e, with fewer remainders and quotients, and fewer data that are
  /// clamped.
  PrimExpr extreme(const PrimExpr& e, bool above, int depth);
  /// e lies in [0, extent) when it is no less than 0; null: no such extent is known.
  PrimExpr extent_of(const PrimExpr& e) const;
  bool upper(const PrimExpr& a, const PrimExpr& b, int depth);  ///< by the form of a
  bool lower(const PrimExpr& a, const PrimExpr& b, int depth);  ///< by the form of b
  bool choice(const PrimExpr& condition, FunctionRef<bool()> yes, FunctionRef<bool()> no);
  /// What follows from e ≥ least, of its parts.
  void parts_at_least(const PrimExpr& e, int64_t least, PrimExpr& out, int depth);
  void learn(const PrimExpr& condition, const std::unordered_set<const tir::Var*>& written, PrimExpr& plain);

  Analyzer& analyzer_;
  std::vector<Known> known_;
  std::vector<Either> either_;
  std::vector<std::pair<PrimExpr, PrimExpr>> equal_;       ///< sizes
  std::unordered_map<const tir::Var*, PrimExpr> values_;   ///< of variables that data decide
  std::unordered_map<const tir::Var*, PrimExpr> extents_;  ///< of variables that run from 0
  std::unordered_set<const tir::Var*> from_data_;
};

}  // namespace tenon
