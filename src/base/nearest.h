// SPDX-License-Identifier: Apache-2.0
// The name that a misspelt one was meant to be: what refusals of unknown options and verbs offer.
#pragma once
#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

/// Least number of insertions, deletions and replacements of letters that make `b` of `a` (Levenshtein).
inline size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t(0));
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

/// The one of `names` that is nearest to `given`, "" when none is: at most a third of its letters differ, or
/// it begins with `given`.
template <class Names>
std::string nearest_name(std::string_view given, const Names& names) {
  std::string best;
  size_t least = std::max<size_t>(1, given.size() / 3) + 1;
  for (const auto& name : names) {
    const std::string_view candidate(name);
    const bool begins = !given.empty() && candidate.starts_with(given);
    const size_t distance = begins ? 0 : edit_distance(given, candidate);
    if (distance < least) least = distance, best = std::string(candidate);
  }
  return best;
}

/// What an error says to help: "did you mean `nearest`?", else "`kind`: a, b, c".
template <class Names>
std::string did_you_mean(std::string_view given, const Names& names, std::string_view otherwise) {
  const std::string near = nearest_name(given, names);
  if (!near.empty()) return "did you mean `" + near + "`?";
  std::string all;
  for (const auto& name : names) all += (all.empty() ? "" : ", ") + std::string(name);
  return std::string(otherwise) + all;
}

}  // namespace tenon
