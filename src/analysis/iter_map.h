// SPDX-License-Identifier: Apache-2.0
// How values are made of variables that run over ranges: each is read as a sum of digits (x // lower) %
// extent * scale of variables or of fused sums. Block bindings and index maps are judged and inverted by it.
#pragma once
#include "analysis/analyzer.h"

namespace tenon {

class IterMap {
 public:
  struct Term {  ///< (mark // lower) % extent * scale
    int mark = -1;
    PrimExpr lower, extent, scale;
    bool top = false;  ///< lower * extent reaches the mark's extent: nothing lies above
  };
  struct Sum {
    std::vector<Term> terms;
    PrimExpr base = PrimExpr(0);
  };
  struct Answer {
    bool affine = false;     ///< every value is a mixed-radix sum of (parts of) the variables
    bool injective = false;  ///< affine, and different variables give different values
  };

  explicit IterMap(Analyzer& analyzer) : analyzer_(analyzer) {}
  /// A variable that runs over [min, min + extent). All of them come before the first value is read.
  void add(const tir::VarRef& v, const PrimExpr& min, const PrimExpr& extent);
  Answer run(const Array<PrimExpr>& values);
  /// The variables, in the order of `add`, in terms of what the values are (`at`); null unless injective.
  std::optional<Array<PrimExpr>> invert(const Array<PrimExpr>& values, const Array<PrimExpr>& at);
  /// The value as a sum of digits, written out; null when it is none.
  PrimExpr normalize(const PrimExpr& value);
  /// value = outer · inner_extent + inner + base, where `inner`, in [0, inner_extent), is made of the inner
  /// variables only and `outer`, in [0, outer_extent), of the others.
  struct Division {
    PrimExpr outer, outer_extent, inner, inner_extent, base;
  };
  /// Each value divided; null when an inner variable's digit stands above an outer one's.
  std::optional<std::vector<Division>> divide_subspace(const Array<PrimExpr>& values,
                                                       const std::vector<tir::VarRef>& inner);
  /// One more than the largest of a value; null when it is no mixed-radix sum.
  PrimExpr end_of(const PrimExpr& value);

 private:
  struct Mark {
    PrimExpr extent;
    std::vector<Term> parts;  ///< empty for a variable, else a fused sum
  };
  bool same(const PrimExpr& a, const PrimExpr& b);
  bool at_least(const PrimExpr& a, const PrimExpr& b);
  bool has_variables(const PrimExpr& e) const;
  std::optional<Sum> parse(const PrimExpr& e, int depth);
  std::optional<Sum> add(std::optional<Sum> a, std::optional<Sum> b);
  std::optional<Sum> carried(Sum rest, const PrimExpr& quotient, int depth);
  bool chain(Sum& s, int64_t c);
  std::optional<Term> fuse(const Sum& s);
  bool sort(const Sum& s, bool exact, std::vector<Term>& out);
  bool decodable(const Sum& s);
  std::optional<Sum> divide(std::optional<Sum> s, const PrimExpr& c, bool quotient);
  PrimExpr floordiv_exact(const PrimExpr& e, const PrimExpr& c);
  std::optional<Term> through(const Term& part, const Term& digit, int sum);
  bool begins(const Mark& a, const Mark& b);
  bool covers(std::vector<Term> digits, const PrimExpr& extent);
  PrimExpr expr_of(const Term& digit, int depth = 0);  ///< without its scale
  /// A digit, without its scale, as outer · inner_extent + inner.
  std::optional<Division> divide_digit(const Term& digit, const std::vector<bool>& inner, int depth = 0);

  Analyzer& analyzer_;
  std::vector<Mark> marks_;
  int variables_ = 0;
  std::vector<PrimExpr> mins_;
  std::vector<tir::VarRef> names_;
  std::unordered_map<const tir::Var*, std::pair<int, PrimExpr>> known_;
};

}  // namespace tenon
