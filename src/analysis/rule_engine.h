// SPDX-License-Identifier: Apache-2.0
// Rewrite rules made ready for matching, by operator. Only src/analysis reads it.
#pragma once
#include <array>

#include "analysis/analyzer_impl.h"
#include "analysis/rule.h"

namespace tenon::analysis_detail {

constexpr int max_slots = 6;

template <class T>
constexpr uint32_t kind_of() {
  return ::tenon::detail::static_index<T>();
}

/// A pattern as an array of nodes, children before parents.
struct RuleTree {
  struct Node {
    uint32_t kind = 0;      ///< type index of the node that it matches
    int8_t slot = -1;       ///< of a pattern variable
    bool constant = false;  ///< the variable stands for a constant
    bool closed = false;    ///< made of constants only
    int8_t swap_bit = -1;   ///< which bit of a match says that the operands are swapped
    int64_t value = 0;      ///< of a literal
    DataType dtype;
    std::array<int16_t, 3> child{-1, -1, -1};
  };
  std::vector<Node> nodes;
  int swaps = 0;
  const Node& root() const { return nodes.back(); }
  const Node& operator[](int i) const { return nodes[size_t(i)]; }
};

bool has_kind(const RuleTree& tree, uint32_t kind);

/// The operands that rules look at.
struct Operands {
  const PrimExpr *a = nullptr, *b = nullptr, *c = nullptr;
};
Operands operands(const PrimExpr& e);

struct ReadyRule {
  struct Condition {
    enum Kind : uint8_t { closed, order, equal, congruent } kind = closed;
    bool strict = false;          ///< order: a < b, else a <= b
    int whole = 0, a = 0, b = 0;  ///< nodes of `condition`
  };
  const Rule* rule = nullptr;
  RuleTree pattern, replacement, condition;
  std::vector<Condition> conditions;
  std::array<int8_t, 26> slots;  ///< by letter
  int effort = 2;                ///< of proofs
  bool lanewise = false;         ///< holds for vectors as it stands
  bool vector = false;           ///< is about vectors
  int slot(char letter) const { return slots[size_t(letter - 'a')]; }
};

struct RuleIndex {
  std::vector<ReadyRule> all;
  /// Rules of the shape `tree` by the root's kind, and of the other shapes.
  std::array<std::vector<const ReadyRule*>, 64> tree, sum;
};
const RuleIndex& rule_index();

/// One attempt to apply a rule.
class RuleMatch {
 public:
  using Impl = AnalyzerAccess::Impl;
  using Sum = Impl::Sum;
  using Term = Impl::Term;
  explicit RuleMatch(Impl& impl) : impl_(impl) {}

  /// A rule of the shape `tree`; null when it does not apply. The result is simplified.
  PrimExpr apply(const ReadyRule& rule, const PrimExpr& e);
  /// a op b, where op is FloorDiv or FloorMod; a against zero (LT, EQ; b is null).
  std::optional<Sum> divide(const ReadyRule& rule, const Sum& a, const PrimExpr& b);
  PrimExpr compare(const ReadyRule& rule, const Sum& a);
  std::optional<Sum> min_max(const ReadyRule& rule, const Sum& a, const Sum& b);
  /// Terms i and k of s, where i holds a remainder at j that belongs to `quotient`.
  std::optional<Sum> pair(const ReadyRule& rule, const Sum& s, size_t i, size_t j, size_t k,
                          const PrimExpr& quotient);

 private:
  void start(const ReadyRule& rule);
  bool match(int node, const PrimExpr& e);
  bool bind(const RuleTree::Node& node, const PrimExpr& e);
  void set(char letter, Sum s);
  void set(char letter, int64_t v);
  bool find(const Sum& a, const PrimExpr& b, FunctionRef<bool()> then);
  bool conditions();
  bool ordered(const ReadyRule::Condition& c);
  std::optional<int64_t> closed(const RuleTree& tree, int node);
  const Sum& sum_in(int slot);
  PrimExpr expr_in(int slot);
  Sum grow_sum(const RuleTree& tree, int node);
  /// What a tree says of the match; `plain`: as it stands, else simplified.
  PrimExpr grow(const RuleTree& tree, int node, bool plain);
  static Sum factor(const Term& t, size_t without);
  void observe(const PrimExpr& before);

  Impl& impl_;
  const ReadyRule* rule_ = nullptr;
  bool failed_ = false;  ///< constants overflow, or a product grows too large
  unsigned swapped_ = 0;
  int lanes_ = 1;
  DataType type_;  ///< of the rule's numbers
  struct Slot {
    PrimExpr expr;
    std::optional<Sum> sum;
    std::optional<int64_t> value;
    bool set = false;
  };
  std::array<Slot, max_slots> slots_;
};

}  // namespace tenon::analysis_detail
