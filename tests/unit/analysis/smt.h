// SPDX-License-Identifier: Apache-2.0
// Rewrite rules as questions in SMT-LIB, answered by the program z3. A rule is asked whether there are values
// for which its premises hold and its two sides differ, or only one of them divides by zero.
#pragma once
#include "analysis/rule.h"

namespace tenon::rule_test {

struct SmtQuery {
  const Rule* rule = nullptr;
  std::string what;               ///< "8 bits", "16 bits, unsigned", "integers"
  std::vector<std::string> text;  ///< questions that must all be answered by "unsat"
};
enum class Proof { proved, refuted, unknown, failed };

bool z3_program();
/// A few widths, or all.
void add_queries(const Rule& rule, bool all, std::vector<SmtQuery>& out);
std::vector<Proof> prove(const std::vector<SmtQuery>& queries, int timeout_ms);

}  // namespace tenon::rule_test
