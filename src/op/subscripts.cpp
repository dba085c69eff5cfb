// SPDX-License-Identifier: Apache-2.0
#include "op/subscripts.h"

#include <fmt/format.h>

#include <map>

namespace tenon::op {

Subscripts parse_subscripts(const std::string& subscripts, const std::vector<int64_t>& ranks) {
  std::string text;
  for (char c : subscripts)
    if (c != ' ') text += c;
  const size_t arrow = text.find("->");
  std::string left = text.substr(0, arrow), right = arrow == std::string::npos ? "" : text.substr(arrow + 2);
  Subscripts s;
  auto bad = [&](const std::string& why) {
    if (s.problem.empty()) s.problem = fmt::format("subscripts '{}': {}", text, why);
    return s;
  };
  for (size_t begin = 0;;) {
    const size_t comma = left.find(',', begin);
    s.inputs.push_back(left.substr(begin, comma == std::string::npos ? comma : comma - begin));
    if (comma == std::string::npos) break;
    begin = comma + 1;
  }
  if (s.inputs.size() != ranks.size())
    return bad(fmt::format("{} operands are named, {} are given", s.inputs.size(), ranks.size()));
  size_t widest = 0;
  auto expand = [&](std::string& term, int64_t rank) {
    const size_t dots = term.find("...");
    const size_t letters = term.size() - (dots == std::string::npos ? 0 : 3);
    const size_t more = rank < 0 ? widest : size_t(rank) - std::min(size_t(rank), letters);
    if (rank >= 0 && (dots == std::string::npos ? letters != size_t(rank) : letters > size_t(rank)))
      bad(fmt::format("'{}' does not fit a tensor of {} dimensions", term, rank));
    if (more > 10) bad("more than 10 axes under '...'");
    if (dots != std::string::npos) {
      std::string digits;
      for (size_t i = more; i-- > 0;) digits += char('0' + i);
      term = term.substr(0, dots) + digits + term.substr(dots + 3);
      if (rank >= 0) widest = std::max(widest, more);
    }
    for (char c : term)
      if (!std::isalnum(static_cast<unsigned char>(c))) bad(fmt::format("'{}' is no label", c));
  };
  for (size_t i = 0; i < ranks.size(); ++i) expand(s.inputs[i], ranks[i]);
  if (!s.problem.empty()) return s;
  if (arrow == std::string::npos) {
    // Implicit result: what stands under '...', then the labels that occur once, in order.
    std::map<char, int> count;
    for (const std::string& t : s.inputs)
      for (char c : t) ++count[c];
    for (size_t i = widest; i-- > 0;) s.output += char('0' + i);
    for (auto [c, n] : count)
      if (n == 1 && !std::isdigit(static_cast<unsigned char>(c))) s.output += c;
    return s;
  }
  expand(right, -1);
  s.output = right;
  for (size_t i = 0; i < right.size(); ++i) {
    bool known = false;
    for (const std::string& t : s.inputs) known = known || t.find(right[i]) != std::string::npos;
    if (!known) bad(fmt::format("'{}' of the result is not in any operand", right[i]));
    if (right.find(right[i], i + 1) != std::string::npos)
      bad(fmt::format("'{}' occurs twice in the result", right[i]));
  }
  return s;
}

}  // namespace tenon::op
