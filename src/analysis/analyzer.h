// SPDX-License-Identifier: Apache-2.0
// Analyzer: facts about integer expressions under known ranges. One per walk; bindings nest.
#pragma once
#include "ir/walk.h"

namespace tenon {

/// Inclusive bounds; the extremes of int64 mean "no bound".
struct ConstBound {
  static constexpr int64_t neg_inf = INT64_MIN, pos_inf = INT64_MAX;
  int64_t min = neg_inf, max = pos_inf;
};
/// value ≡ base (mod coeff); coeff 0 means exactly base, 1 means nothing is known.
struct ModularSet {
  int64_t coeff = 1, base = 0;
};

class RuleObserver;  // analysis/rule.h

/// Sums that one proof may look at. It branches on every quotient, minimum and fact, so that one about dozens
/// of them would go on for hours; the longest that the models and programs of the tests need looks at 263.
inline constexpr int kProofSteps = 4000;
/// Proofs that reached kProofSteps and so answered no: by whom each was asked.
using GivenUpProofs = std::vector<std::string_view>;

class Analyzer {
 public:
  Analyzer();
  /// Proofs that are given up are entered in `given_up` as asked by `asker`, a name that stays.
  Analyzer(GivenUpProofs& given_up, std::string_view asker);
  ~Analyzer();
  Analyzer(const Analyzer&) = delete;
  /// v lies in range (extent ≥ 0 is assumed); or v equals a value.
  void bind(const tir::VarRef& v, const tir::Range& range, bool override_ = false);
  void bind(const tir::VarRef& v, const PrimExpr& value, bool override_ = false);
  /// Sizes (symbolic dimensions): v ≥ at_least.
  void assume_size(const tir::VarRef& v, int64_t at_least = 0);
  /// A condition that holds until the returned object goes out of scope.
  class Scope {
   public:
    ~Scope();
    Scope(Scope&&) noexcept;

   private:
    friend class Analyzer;
    Scope(Analyzer*, size_t);
    Analyzer* owner_;
    size_t mark_;
  };
  [[nodiscard]] Scope assume(const PrimExpr& condition);

  /// An equal expression in canonical, usually shorter, form.
  PrimExpr simplify(const PrimExpr& e);
  bool can_prove(const PrimExpr& condition);
  bool can_prove_equal(const PrimExpr& a, const PrimExpr& b);
  bool can_prove_ge(const PrimExpr& e, int64_t bound);
  bool can_prove_lt(const PrimExpr& e, int64_t bound);
  ConstBound bound(const PrimExpr& e);
  ModularSet modular(const PrimExpr& e);
  /// From here on; null ends it.
  void observe_rules(RuleObserver* observer);

 private:
  friend struct AnalyzerAccess;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// simplify without any binding.
PrimExpr simplify(const PrimExpr& e);
/// Every index and condition below s simplified under the loops' and blocks' ranges; dead branches and loops
/// of extent zero go, loops of extent one become their body when `unit_loops`.
tir::Stmt simplify(const tir::Stmt& s, bool unit_loops = false);

/// An interval of expressions; null ends are unbounded. Values of e when each variable in `domain` moves over
/// its range.
struct IntInterval {
  PrimExpr min, max;
};
IntInterval interval_of(const PrimExpr& e, const std::unordered_map<const tir::Var*, IntInterval>& domain,
                        Analyzer& analyzer);

}  // namespace tenon
