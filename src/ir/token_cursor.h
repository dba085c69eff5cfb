// SPDX-License-Identifier: Apache-2.0
// What parsers by recursive descent do with tokens: look at those at hand, take them, bound the nesting.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tenon {

/// What is wrong has been reported; the construct at hand is given up.
struct SyntaxError {};

/// `Token` has a kind (of an enum with `op` and `name`), a text and an end. The last one of a text is its
/// end.
template <class Token>
class TokenCursor {
 protected:
  using Kind = decltype(Token::kind);
  const Token& peek(size_t n = 0) const { return tokens_[std::min(at_ + n, tokens_.size() - 1)]; }
  bool is_op(std::string_view s, size_t n = 0) const { return peek(n).kind == Kind::op && peek(n).text == s; }
  bool is_word(std::string_view s, size_t n = 0) const {
    return peek(n).kind == Kind::name && peek(n).text == s;
  }
  bool take_op(std::string_view s) { return is_op(s) && (++at_, true); }
  bool take_word(std::string_view s) { return is_word(s) && (++at_, true); }
  uint32_t last_end() const { return at_ == 0 ? 0 : tokens_[at_ - 1].end; }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;  ///< constructs around the one at hand
};

}  // namespace tenon
