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
  int stage = 0;       ///< asked when the query of the stage before, of the same `family`, is proved
  std::string family;  ///< "signed", "unsigned", or nothing
};
enum class Proof {
  proved,
  refuted,
  unknown,  ///< not within its steps or memory
  failed,
  skipped,  ///< a smaller width was not proved within its steps
};

bool z3_program();
/// A few widths, or all.
void add_queries(const Rule& rule, bool all, std::vector<SmtQuery>& out);
/// At most so many steps of z3 for the questions of stage 0, a quarter for those of others. Steps are counted
/// by z3 itself (some 4,000,000 are a second), so that a loaded machine proves what an idle one does.
std::vector<Proof> prove(const std::vector<SmtQuery>& queries, int64_t steps);

}  // namespace tenon::rule_test
