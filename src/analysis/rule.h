// SPDX-License-Identifier: Apache-2.0
// The simplifier's rewrite rules as data: a pattern, what replaces it, and when. The engine (rule_engine.cpp)
// applies them; tests enumerate, prove and sample them.
#pragma once
#include "ir/prim_expr.h"

namespace tenon {

/// What the numbers of a rule are.
enum class RuleDomain : uint8_t {
  index,    ///< int64 sizes and iterators: numbers that never overflow
  integer,  ///< integers of any width, signed or not: they wrap
  logic,    ///< booleans
  any       ///< values of any type, floats too
};
/// How a pattern is found. `tree`: as it stands, up to the order of commutative operands. The others look
/// into a sum of products, where `x * g + f` may be any of its parts; they say which part is tried.
enum class RuleShape : uint8_t {
  tree,
  whole,     ///< x is the whole operand
  range,     ///< x is the whole operand, k the one quotient that its bounds leave
  known,     ///< x is the whole operand; its modular set is m, f
  split,     ///< q * c + r by the coefficients' quotients and remainders by c
  common,    ///< x * g + f by the greatest common divisor g of the coefficients (and the divisor)
  scaled,    ///< x * g + r for each coefficient g (that divides the divisor)
  single,    ///< one atom, and a constant f
  term,      ///< one atom of one term: atom * p + r
  multiple,  ///< q * n + r by the terms that hold all factors of the symbolic divisor n
  pair,      ///< two terms of a sum
  shared     ///< x + z and y + z, where z are the terms that both operands have
};

/// Single letters stand for what a pattern matches: c d e f g k m are constants, l is the number of lanes,
/// u v w are booleans, all others are expressions. i32 and i64 in casts stand for a narrow and a wide type.
struct Rule {
  std::string name;
  RuleDomain domain = RuleDomain::index;
  RuleShape shape = RuleShape::tree;
  PrimExpr pattern, replacement;
  PrimExpr condition;   ///< a conjunction; true when there is none
  bool widens = false;  ///< the replacement computes larger numbers than the pattern
};

const std::vector<Rule>& rewrite_rules();
bool is_rule_constant(const tir::Var& v);
/// "x // 1  ->  x" with " if …" where there is a condition.
std::string to_text(const Rule& rule);

/// Sees every application of a rule by an analyzer (tests). `assumed`: how many assumptions were open.
class RuleObserver {
 public:
  virtual ~RuleObserver() = default;
  virtual void applied(const Rule& rule, const PrimExpr& before, const PrimExpr& after, size_t assumed) = 0;
};

}  // namespace tenon
