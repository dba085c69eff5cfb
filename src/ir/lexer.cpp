// SPDX-License-Identifier: Apache-2.0
// The lexer of script text: indentation, comments, brackets that continue lines.
#include "ir/lexer.h"

#include <fmt/format.h>

namespace tenon::script {
namespace {

bool starts_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 128;
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool in_name(char c) { return starts_name(c) || is_digit(c); }

class Lexer {
 public:
  Lexer(const std::shared_ptr<const SourceText>& source, DiagnosticList& problems)
      : source_(source), text_(source->text), problems_(problems) {}

  std::vector<Token> run() {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
    bool line_start = true;
    while (at_ < text_.size()) {
      if (line_start && brackets_.empty()) {
        line_start = false;
        if (!indentation()) {
          line_start = true;
          continue;
        }
      }
      const char c = text_[at_];
      if (c == '\n') {
        ++at_;
        if (brackets_.empty()) {
          push(Tok::newline, at_ - 1, at_);
          line_start = true;
        } else if (new_statement_follows()) {
          unclosed();
          push(Tok::newline, at_ - 1, at_);
          line_start = true;
        }
      } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f') {
        ++at_;
      } else if (c == '#') {
        skip_comment();
      } else if (c == '\\' && at_ + 1 < text_.size() && (text_[at_ + 1] == '\n' || text_[at_ + 1] == '\r')) {
        at_ = std::min(text_.find('\n', at_), text_.size() - 1) + 1;
      } else if (starts_name(c)) {
        const size_t begin = at_;
        while (at_ < text_.size() && in_name(text_[at_])) ++at_;
        push(Tok::name, begin, at_);
      } else if (is_digit(c) || (c == '.' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1]))) {
        number();
      } else if (c == '"' || c == '\'') {
        string();
      } else {
        op();
      }
    }
    if (!brackets_.empty()) unclosed();
    if (!tokens_.empty() && tokens_.back().kind != Tok::newline && tokens_.back().kind != Tok::dedent)
      push(Tok::newline, at_, at_);
    for (; indents_.size() > 1; indents_.pop_back()) push(Tok::dedent, at_, at_);
    push(Tok::end, at_, at_);
    return std::move(tokens_);
  }

 private:
  void push(Tok kind, size_t begin, size_t end) {
    tokens_.push_back({kind, uint32_t(begin), uint32_t(end), text_.substr(begin, end - begin)});
  }
  void error(std::string code, std::string message, size_t begin, size_t end, std::string hint = {}) {
    if (problems_.all().size() >= DiagnosticList::limit) return;
    problems_.add(std::move(code), std::move(message), Span{source_, uint32_t(begin), uint32_t(end)},
                  std::move(hint));
  }
  void skip_comment() { at_ = std::min(text_.find('\n', at_), text_.size()); }

  /// False: the line is blank or a comment.
  bool indentation() {
    size_t column = 0, p = at_;
    for (; p < text_.size() && (text_[p] == ' ' || text_[p] == '\t' || text_[p] == '\f'); ++p)
      column = text_[p] == '\t' ? (column / 8 + 1) * 8 : column + 1;
    if (p < text_.size() && text_[p] == '\r') ++p;
    if (p >= text_.size()) {
      at_ = p;
      return false;
    }
    if (text_[p] == '#') {
      at_ = p;
      skip_comment();
      if (at_ < text_.size()) ++at_;
      return false;
    }
    if (text_[p] == '\n') {
      at_ = p + 1;
      return false;
    }
    if (tokens_.empty()) indents_ = {column};  // a text may be indented as a whole
    if (column > indents_.back()) {
      indents_.push_back(column);
      push(Tok::indent, at_, p);
    }
    while (column < indents_.back()) {
      if (indents_.size() > 1) {
        indents_.pop_back();
        push(Tok::dedent, p, p);
      }
      if (column != indents_.back() && (indents_.size() == 1 || column > indents_.back())) {
        error("T0203", "this line's indentation matches no block around it", p, p + 1);
        indents_.push_back(column);
        break;
      }
    }
    at_ = p;
    return true;
  }

  /// Inside a bracket a line that can only begin a statement means that the bracket was forgotten.
  bool new_statement_follows() const {
    size_t p = at_;
    while (p < text_.size() && (text_[p] == ' ' || text_[p] == '\t')) ++p;
    if (p < text_.size() && text_[p] == '@') return true;
    const size_t begin = p;
    while (p < text_.size() && in_name(text_[p])) ++p;
    const std::string_view word = text_.substr(begin, p - begin);
    return word == "def" || word == "class" || word == "with" || word == "return" || word == "while" ||
           word == "for" || word == "assert" || word == "pass";
  }
  void unclosed() {
    error("T0205", fmt::format("this `{}` is never closed", text_[brackets_.back()]), brackets_.back(),
          brackets_.back() + 1);
    brackets_.clear();
  }

  void number() {
    const size_t begin = at_;
    bool real = false;
    if (text_[at_] == '0' && at_ + 1 < text_.size() && (text_[at_ + 1] | 32) == 'x') {
      at_ += 2;
      while (at_ < text_.size() &&
             (std::isxdigit(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_'))
        ++at_;
    } else {
      auto digits = [&] {
        while (at_ < text_.size() && (is_digit(text_[at_]) || text_[at_] == '_')) ++at_;
      };
      digits();
      if (at_ < text_.size() && text_[at_] == '.') {
        real = true;
        ++at_;
        digits();
      }
      if (at_ < text_.size() && (text_[at_] | 32) == 'e') {
        size_t p = at_ + 1;
        if (p < text_.size() && (text_[p] == '+' || text_[p] == '-')) ++p;
        if (p < text_.size() && is_digit(text_[p])) {
          real = true;
          at_ = p;
          digits();
        }
      }
    }
    if (at_ < text_.size() && starts_name(text_[at_])) {
      const size_t bad = at_;
      while (at_ < text_.size() && in_name(text_[at_])) ++at_;
      error("T0204", fmt::format("`{}` is no number", text_.substr(begin, at_ - begin)), bad, at_);
    }
    push(real ? Tok::number : Tok::integer, begin, at_);
  }

  void string() {
    const size_t begin = at_;
    const char quote = text_[at_];
    if (text_.substr(at_, 3) == std::string(3, quote)) {
      const size_t end = text_.find(std::string(3, quote), at_ + 3);
      if (end == text_.npos) {
        error("T0202", "this text is never closed", begin, begin + 3);
        at_ = text_.size();
      } else {
        at_ = end + 3;
      }
      return push(Tok::string, begin, at_);
    }
    for (++at_; at_ < text_.size() && text_[at_] != quote && text_[at_] != '\n'; ++at_)
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
    if (at_ >= text_.size() || text_[at_] != quote) {
      at_ = std::min(at_, text_.size());
      error("T0202", "this text is never closed", begin, at_);
      return push(Tok::string, begin, at_);
    }
    ++at_;
    push(Tok::string, begin, at_);
  }

  void op() {
    static constexpr std::string_view ops[] = {
        "...", "**=", "//=", "<<=", ">>=", "->", "==", "!=", "<=", ">=", "//", "**", "<<", ">>", "+=",
        "-=",  "*=",  "/=",  "%=",  ":=",  "(",  ")",  "[",  "]",  "{",  "}",  ",",  ":",  ".",  ";",
        "@",   "=",   "+",   "-",   "*",   "/",  "%",  "<",  ">",  "&",  "|",  "^",  "~"};
    for (std::string_view o : ops) {
      if (text_.substr(at_, o.size()) != o) continue;
      const char c = o[0];
      if (c == '(' || c == '[' || c == '{') brackets_.push_back(at_);
      if ((c == ')' || c == ']' || c == '}') && !brackets_.empty()) brackets_.pop_back();
      push(Tok::op, at_, at_ + o.size());
      at_ += o.size();
      return;
    }
    error("T0201",
          static_cast<unsigned char>(text_[at_]) < 32
              ? fmt::format("the character 0x{:02x} has no meaning here", text_[at_])
              : fmt::format("`{}` has no meaning here", text_[at_]),
          at_, at_ + 1);
    ++at_;
  }

  std::shared_ptr<const SourceText> source_;
  std::string_view text_;
  DiagnosticList& problems_;
  size_t at_ = 0;
  std::vector<size_t> indents_{0}, brackets_;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> lex(const std::shared_ptr<const SourceText>& source, DiagnosticList& problems) {
  return Lexer(source, problems).run();
}

std::string string_value(std::string_view token) {
  const size_t q = token.size() >= 6 && token[1] == token[0] && token[2] == token[0] ? 3 : 1;
  if (token.size() < 2 * q) return {};
  std::string_view s = token.substr(q, token.size() - 2 * q);
  std::string out;
  for (size_t i = 0; i < s.size(); ++i) {
    if (s[i] != '\\' || i + 1 >= s.size()) {
      out += s[i];
      continue;
    }
    switch (s[++i]) {
      case 'n':
        out += '\n';
        break;
      case 't':
        out += '\t';
        break;
      case 'r':
        out += '\r';
        break;
      case '0':
        out += '\0';
        break;
      case '\n':
        break;
      case 'x': {
        auto digit = [](char c) {
          return c >= '0' && c <= '9'                 ? c - '0'
                 : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                      : -1;
        };
        if (i + 2 < s.size() && digit(s[i + 1]) >= 0 && digit(s[i + 2]) >= 0) {
          out += char(digit(s[i + 1]) * 16 + digit(s[i + 2]));
          i += 2;
          break;
        }
        out += "\\x";
        break;
      }
      case '\\':
      case '"':
      case '\'':
        out += s[i];
        break;
      default:
        out += '\\';
        out += s[i];
    }
  }
  return out;
}

}  // namespace tenon::script
