// SPDX-License-Identifier: Apache-2.0
#include "cli/sizes.h"

#include <algorithm>
#include <cctype>

namespace tenon::cli {
namespace {

bool word_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

/// Precedence climbing over the text that the compiler prints.
class SizeParser {
 public:
  SizeParser(const std::string& text, const std::map<std::string, int64_t>& sizes)
      : text_(text), sizes_(sizes) {}
  std::optional<int64_t> parse() {
    const auto value = sum(0);
    space();
    return at_ == text_.size() ? value : std::nullopt;
  }

 private:
  using Value = std::optional<int64_t>;
  void space() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(const char* word) {
    space();
    const size_t n = std::char_traits<char>::length(word);
    if (text_.compare(at_, n, word) != 0) return false;
    at_ += n;
    return true;
  }
  Value sum(int depth) {
    Value a = product(depth);
    while (a) {
      const bool plus = take("+");
      if (!plus && !take("-")) break;
      const Value b = product(depth);
      if (!b) return b;
      a = plus ? *a + *b : *a - *b;
    }
    return a;
  }
  Value product(int depth) {
    Value a = unary(depth);
    while (a) {
      const char op = take("*") ? '*' : take("//") ? '/' : take("%") ? '%' : 0;
      if (!op) break;
      const Value b = unary(depth);
      if (!b || (op != '*' && *b == 0)) return std::nullopt;
      if (op == '*') {
        int64_t out = 0;
        if (__builtin_mul_overflow(*a, *b, &out)) return std::nullopt;
        a = out;
        continue;
      }
      int64_t quotient = *a / *b;
      if (*a % *b != 0 && (*a < 0) != (*b < 0)) --quotient;
      a = op == '/' ? quotient : *a - quotient * *b;
    }
    return a;
  }
  Value unary(int depth) {
    if (depth > 100) return std::nullopt;
    if (take("-")) {
      const Value v = unary(depth + 1);
      return v ? Value(-*v) : v;
    }
    if (take("(")) {
      const Value v = sum(depth + 1);
      return take(")") ? v : std::nullopt;
    }
    space();
    const size_t begin = at_;
    while (at_ < text_.size() && word_char(text_[at_])) ++at_;
    const std::string word = text_.substr(begin, at_ - begin);
    if (word.empty()) return std::nullopt;
    if (word == "T.min" || word == "T.max") {
      if (!take("(")) return std::nullopt;
      const Value a = sum(depth + 1);
      if (!a || !take(",")) return std::nullopt;
      const Value b = sum(depth + 1);
      if (!b || !take(")")) return std::nullopt;
      return word == "T.min" ? std::min(*a, *b) : std::max(*a, *b);
    }
    if (std::isdigit(static_cast<unsigned char>(word[0])))
      return word.size() <= 18 &&
                     std::all_of(word.begin(), word.end(), [](char c) { return std::isdigit(c); })
                 ? Value(std::stoll(word))
                 : std::nullopt;
    const auto known = sizes_.find(word);
    return known == sizes_.end() ? 1 : known->second;
  }

  const std::string& text_;
  const std::map<std::string, int64_t>& sizes_;
  size_t at_ = 0;
};

}  // namespace

bool is_size_name(const std::string& text) {
  return !text.empty() && !std::isdigit(static_cast<unsigned char>(text[0])) &&
         std::all_of(text.begin(), text.end(), [](char c) { return word_char(c) && c != '.'; });
}

std::optional<int64_t> size_value(const std::string& text, const std::map<std::string, int64_t>& sizes) {
  return SizeParser(text, sizes).parse();
}

}  // namespace tenon::cli
