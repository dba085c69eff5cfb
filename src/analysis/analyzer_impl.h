// SPDX-License-Identifier: Apache-2.0
// The inside of the Analyzer: sums of products, intervals, and the facts it knows. Only src/analysis reads
// it.
//
// int64 expressions are treated as numbers that do not overflow, as sizes and indices are. Values that come
// from data (loads, calls) may be anything, so terms with them ("wild") are only reordered modulo 2^64, never
// divided or compared.
#pragma once
#include <numeric>

#include "analysis/analyzer.h"

namespace tenon {
namespace analysis_detail {

using tir::Var;
using tir::VarRef;

/// coeff · Π atoms; atoms are expressions that are no sums, in the analyzer's order.
struct Term {
  std::vector<PrimExpr> atoms;
  int64_t coeff = 0;
};
/// Σ terms + base; terms have distinct atoms, non-zero coefficients, and stand in the analyzer's order.
struct Sum {
  std::vector<Term> terms;
  int64_t base = 0;
  bool is_const() const { return terms.empty(); }
};

inline int64_t wrap_add(int64_t a, int64_t b) { return int64_t(uint64_t(a) + uint64_t(b)); }
inline int64_t wrap_mul(int64_t a, int64_t b) { return int64_t(uint64_t(a) * uint64_t(b)); }
inline bool small(int64_t v) { return v > -(int64_t(1) << 31) && v < (int64_t(1) << 31); }
inline int64_t floor_div(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}
inline int64_t floor_mod(int64_t a, int64_t b) { return a - floor_div(a, b) * b; }
inline int64_t gcd(int64_t a, int64_t b) {
  uint64_t x = a < 0 ? 0 - uint64_t(a) : uint64_t(a), y = b < 0 ? 0 - uint64_t(b) : uint64_t(b);
  return int64_t(std::gcd(x, y));
}

constexpr int64_t neg_inf = ConstBound::neg_inf, pos_inf = ConstBound::pos_inf;
inline bool finite(const ConstBound& b) { return b.min != neg_inf && b.max != pos_inf; }
ConstBound add(const ConstBound& a, const ConstBound& b);
ConstBound multiply(const ConstBound& a, const ConstBound& b);
ConstBound scale(const ConstBound& a, int64_t k);
ConstBound join(const ConstBound& a, const ConstBound& b);
ConstBound intersect(const ConstBound& a, const ConstBound& b);
ConstBound of_type(DataType t);

inline bool is_index(const PrimExpr& e) { return e.dtype() == i64; }
inline PrimExpr imm(int64_t v) { return PrimExpr::int_imm(v, i64); }

}  // namespace analysis_detail

struct Analyzer::Impl {
  using Sum = analysis_detail::Sum;
  using Term = analysis_detail::Term;
  struct VarInfo {
    tir::VarRef var;
    ConstBound bound;
    ModularSet modular;
    tir::Range range;  ///< symbolic range, or null
    PrimExpr value;    ///< what the variable equals, or null
    bool wild = false;
  };
  struct Undo {
    const tir::Var* var = nullptr;  ///< null: facts and literals shrink to the sizes kept
    VarInfo old;
    bool existed = false;
    size_t facts = 0, literals = 0;
  };

  // ---- what is known
  std::unordered_map<const tir::Var*, VarInfo> vars;
  std::vector<Sum> facts;          ///< each is ≥ 0
  std::vector<PrimExpr> literals;  ///< conditions that hold and are no linear facts
  std::vector<Undo> log;
  size_t scopes = 0;

  // ---- order of variables and other objects: by first meeting, so that results are deterministic
  std::unordered_map<const Object*, int> order;
  std::vector<ObjectRef> ordered;  ///< keeps the addresses taken
  int id_of(const Object* o);

  using Memo = std::unordered_map<const Object*, std::pair<PrimExpr, PrimExpr>>;
  Memo memo;  ///< simplified nodes under the present facts
  /// What was found of expressions under the present facts: large ones are asked about again and again, by
  /// each part of them and by each step of a proof.
  struct Found {
    PrimExpr expr;  ///< keeps its address taken
    std::optional<ConstBound> bound;
    std::optional<bool> tame;
    std::optional<std::optional<int64_t>> value;  ///< at the point
  };
  std::unordered_map<const Object*, Found> found;
  std::optional<bool> allowed;  ///< point_is_allowed
  /// Of variables at the point, by first meeting there: an order of its own, as that of `order` is seen.
  std::unordered_map<const tir::Var*, std::pair<tir::VarRef, size_t>> numbers;
  int64_t looked_at = 0;              ///< nodes, by questions about bounds and tameness
  int depth = 0, too_deep = 0;        ///< how far down now; questions that ended at `deepest`
  int deepest = 400;                  ///< how far questions about one expression go down
  int proof_steps = 0;                ///< of the present proof
  bool proving = false;               ///< within a proof
  GivenUpProofs* given_up = nullptr;  ///< where proofs are entered that reached the limit
  std::string_view asker;
  RuleObserver* observer = nullptr;
  bool settling = false;  ///< an expression too deep for the stack is simplified from its leaves up

  void set_var(const tir::Var* v, VarInfo info);
  void forget();  ///< what was found under other facts
  void assume(const PrimExpr& condition);
  void add_fact(Sum s);
  void add_remainder(const PrimExpr& remainder, const PrimExpr& is);
  std::vector<Sum> positive_factors(const Sum& s);  ///< what follows of its factors, each sum is ≥ 0
  void undo_to(size_t mark);

  // ---- sums
  int compare(const PrimExpr& a, const PrimExpr& b);
  int compare(const std::vector<PrimExpr>& a, const std::vector<PrimExpr>& b);
  void add_term(Sum& s, Term t);
  Sum plus(const Sum& a, const Sum& b, int64_t k = 1);  ///< a + k·b
  Sum times(const Sum& a, int64_t k);
  std::optional<Sum> times(const Sum& a, const Sum& b);  ///< null when it would grow large
  Sum atom(const PrimExpr& e);
  Sum total_of(std::vector<std::pair<Sum, int64_t>> parts);
  template <class F>
  Sum summands(const PrimExpr& e, F leaf);
  Sum parse(const PrimExpr& e);   ///< of a simplified expression
  Sum sum_of(const PrimExpr& e);  ///< simplifies what is below
  PrimExpr expr_of(const Sum& s);
  PrimExpr expr_of(const Term& t);
  bool tame(const PrimExpr& e);
  bool tame(const Sum& s);

  // ---- rewriting
  PrimExpr simplify(const PrimExpr& e);
  PrimExpr simplify_once(const PrimExpr& e);
  PrimExpr settle(const PrimExpr& e);
  PrimExpr apply_rules(const PrimExpr& e);  ///< the first rule for e as it stands, or e
  PrimExpr simplify_node(const PrimExpr& e);
  PrimExpr simplify_vector(const PrimExpr& e);
  PrimExpr simplify_children(const PrimExpr& e);
  Sum recombine(Sum s);
  std::optional<Sum> rejoin(const Sum& s, size_t i, size_t j);
  std::optional<Sum> join_digits(const Sum& s, size_t i, size_t k);
  std::optional<Sum> round_up(const Sum& s, size_t i);
  Sum divide(const Sum& a, const PrimExpr& b, bool quotient, bool known_tame);
  PrimExpr floordiv(const Sum& a, const PrimExpr& b);
  PrimExpr floormod(const Sum& a, const PrimExpr& b);
  PrimExpr less(const Sum& d);                 ///< d < 0
  PrimExpr equal(const Sum& d, bool negated);  ///< d == 0
  PrimExpr min_max(const PrimExpr& a, const PrimExpr& b, bool is_min);
  PrimExpr compare_node(const PrimExpr& e);
  PrimExpr logic_node(const PrimExpr& e);
  PrimExpr literal(const PrimExpr& e);

  // ---- facts about values
  ConstBound bound(const PrimExpr& e);
  ConstBound find_bound(const PrimExpr& e);
  bool find_tame(const PrimExpr& e);
  template <class R>
  R recall(const PrimExpr& e, std::optional<R> Found::* what, R (Impl::*find)(const PrimExpr&));
  ConstBound bound(const Sum& s, int depth = 2);
  ConstBound bound(const Term& t);
  ModularSet modular(const PrimExpr& e);
  ModularSet modular(const Sum& s);
  bool nonnegative(const Sum& s, int effort);  ///< false also when the proof is given up
  bool seek(const Sum& s, int effort);
  bool positive(const PrimExpr& e, int effort);
  std::optional<Sum> without_neighbours(const Sum& s);             ///< a lower bound of s
  std::optional<Sum> without_remainder(const Sum& s, int effort);  ///< another
  bool by_divisor(const Sum& rest, const tir::FloorDiv& d, int64_t coeff, int effort);  ///< rest ± d ≥ 0
  bool prove(const PrimExpr& condition, int effort);

  // ---- one point (point.cpp); without a value: not known, or too large
  std::optional<int64_t> value(const PrimExpr& e);
  std::optional<int64_t> value(const Sum& s);
  std::optional<int64_t> find_value(const PrimExpr& e);
  std::optional<int64_t> find_value_of(const tir::Var& v);
  bool point_is_allowed();

  /// Assumptions while a branch is simplified.
  struct Local {
    Local(Impl& impl, const PrimExpr& condition)
        : impl(impl), mark(impl.log.size()), kept(std::move(impl.memo)) {
      impl.memo.clear();
      impl.assume(condition);
    }
    ~Local() {
      impl.undo_to(mark);
      impl.memo = std::move(kept);  // what was found before holds again
    }
    Impl& impl;
    size_t mark;
    Memo kept;
  };
};

/// What `found` has of e, or what `find` says; that is kept where it took some work and nothing was cut
/// short.
template <class R>
R Analyzer::Impl::recall(const PrimExpr& e, std::optional<R> Found::* what,
                         R (Impl::*find)(const PrimExpr&)) {
  constexpr int64_t worth_keeping = 8;  // nodes: looking at fewer costs less than a place in the table
  constexpr size_t most = 20000;        // entries
  if (const auto it = found.find(e.get()); it != found.end() && it->second.*what) return *(it->second.*what);
  const int cut = too_deep;
  const int64_t before = looked_at++;
  const R r = (this->*find)(e);
  if (too_deep != cut || looked_at - before < worth_keeping) return r;
  if (found.size() > most) found.clear();
  Found& f = found[e.get()];
  f.expr = e;
  f.*what = r;
  return r;
}

/// Access for the other files of this folder.
struct AnalyzerAccess {
  using Impl = Analyzer::Impl;
  static Analyzer::Impl& of(Analyzer& a);
};

}  // namespace tenon
