// SPDX-License-Identifier: Apache-2.0
// A text cut into tokens, as the operator Tokenizer does it: at separators, where an expression matches, or
// into its characters.
#pragma once
#include "runtime/libraries/regex.h"

namespace tenon {

struct Tokens {
  enum Mode { separated, matched, characters } mode;
  std::vector<Regex> patterns;  ///< separators, each cuts what those before it left; or what is a token
  size_t shortest;              ///< tokens of fewer characters are left out

  std::vector<std::u32string> of(const std::u32string& text) const {
    std::vector<std::u32string> out;
    if (mode == characters) {
      for (const char32_t c : text) out.emplace_back(1, c);
    } else if (mode == matched) {
      for (const Regex::Match& m : matches(patterns[0], text)) keep(out, text, m.begin, m.end);
    } else {
      out = {text};
      for (const Regex& separator : patterns) {
        const std::vector<std::u32string> before = std::move(out);
        out.clear();
        for (const std::u32string& piece : before) {
          size_t from = 0;
          for (const Regex::Match& m : matches(separator, piece)) {
            keep(out, piece, from, m.begin);
            from = m.end > m.begin ? m.end : m.end + 1;
          }
          keep(out, piece, std::min(from, piece.size()), piece.size());
        }
      }
    }
    return out;
  }

 private:
  /// Matches one behind the other; behind an empty one a character is passed over.
  static std::vector<Regex::Match> matches(const Regex& regex, const std::u32string& text) {
    std::vector<Regex::Match> out;
    for (size_t from = 0; from < text.size();) {
      const auto m = regex.find(text, from);
      if (!m) break;
      out.push_back(*m);
      from = m->end > m->begin ? m->end : m->end + 1;
    }
    return out;
  }
  void keep(std::vector<std::u32string>& out, const std::u32string& text, size_t begin, size_t end) const {
    if (end - begin >= shortest) out.push_back(text.substr(begin, end - begin));
  }
};

}  // namespace tenon
