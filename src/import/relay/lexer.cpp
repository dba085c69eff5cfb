// SPDX-License-Identifier: Apache-2.0
// The lexer of Relay text: sigils, numbers with their type behind them, nested comments, sections #[…].
#include "import/relay/lexer.h"

#include <fmt/format.h>

#include <charconv>

namespace tenon::relay {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 128;
}
bool in_word(char c) { return is_letter(c) || is_digit(c); }

class Lexer {
 public:
  Lexer(const std::shared_ptr<const SourceText>& source, DiagnosticList& problems)
      : source_(source), text_(source->text), problems_(problems) {}

  Tokens run() {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
    while (at_ < text_.size() && out_.metadata == text_.npos) next();
    push(Tok::end, at_, at_, {});
    return std::move(out_);
  }

 private:
  char here(size_t n = 0) const { return at_ + n < text_.size() ? text_[at_ + n] : '\0'; }
  void push(Tok kind, size_t begin, size_t end, std::string_view text, int64_t index = 0) {
    out_.list.push_back({kind, uint32_t(begin), uint32_t(end), text, index});
  }
  void error(std::string code, std::string message, size_t begin, std::string hint = {}) {
    problems_.add(std::move(code), std::move(message),
                  Span{source_, uint32_t(begin), uint32_t(std::max(at_, begin + 1))}, std::move(hint));
  }

  void next() {
    const char c = here();
    if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f') {
      ++at_;
    } else if (c == '/' && here(1) == '/') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == '/' && here(1) == '*') {
      comment();
    } else if (c == '#') {
      section();
    } else if (c == '"') {
      string();
    } else if (c == '%' || c == '@') {
      sigil(c);
    } else if (is_digit(c)) {
      number();
    } else if (text_.substr(at_, 5) == "meta[") {
      meta();
    } else if (is_letter(c)) {
      word();
    } else {
      op();
    }
  }

  /// Comments nest.
  void comment() {
    const size_t begin = at_;
    int depth = 0;
    for (; at_ < text_.size(); ++at_) {
      if (here() == '/' && here(1) == '*') {
        ++depth, ++at_;
      } else if (here() == '*' && here(1) == '/') {
        ++at_;
        if (--depth == 0) return void(++at_);
      }
    }
    at_ = begin + 2;
    error("T0205", "this comment is never closed", begin);
    at_ = text_.size();
    out_.cut = true;
  }

  /// #[version = "0.0.5"], or #[metadata] and JSON behind it.
  void section() {
    const size_t begin = at_;
    const size_t close = here(1) == '[' ? text_.find(']', at_) : text_.npos;
    if (close == text_.npos) {
      ++at_;
      return error("T0206", "`#` begins a section such as #[version = \"0.0.5\"]", begin);
    }
    std::string_view inside = text_.substr(begin + 2, close - begin - 2);
    while (inside.starts_with(' ')) inside.remove_prefix(1);
    while (inside.ends_with(' ')) inside.remove_suffix(1);
    at_ = close + 1;
    if (inside == "metadata") {
      out_.metadata = at_;
      at_ = text_.size();
    } else if (inside.starts_with("version")) {
      const size_t quote = inside.find('"'), last = inside.rfind('"');
      push(Tok::version, begin, at_,
           last > quote && last != inside.npos ? inside.substr(quote + 1, last - quote - 1) : inside);
    } else {
      error("T0206", fmt::format("the section `{}` has no meaning", inside), begin,
            "sections are #[version = \"0.0.5\"] and #[metadata]");
    }
  }

  void string() {
    const size_t begin = at_;
    const size_t close = text_.find('"', at_ + 1);
    if (close == text_.npos) {
      error("T0202", "this text is never closed", begin);
      at_ = text_.size();
      out_.cut = true;
      return push(Tok::string, begin, at_, text_.substr(begin + 1));
    }
    at_ = close + 1;
    push(Tok::string, begin, at_, text_.substr(begin + 1, close - begin - 1));
  }

  /// %0, %x, @main: names of models hold slashes.
  void sigil(char c) {
    const size_t begin = at_++;
    const size_t first = at_;
    if (c == '%' && is_digit(here())) {
      while (is_digit(here())) ++at_;
      const int64_t index = integer(text_.substr(first, at_ - first), begin);
      return push(Tok::graph, begin, at_, text_.substr(first, at_ - first), index);
    }
    while (in_word(here()) || (here() == '/' && here(1) != '/' && here(1) != '*')) ++at_;
    if (at_ == first) return error("T0201", fmt::format("`{}` begins a name, and none follows", c), begin);
    push(c == '%' ? Tok::local : Tok::global, begin, at_, text_.substr(first, at_ - first));
  }

  void word() {
    const size_t begin = at_;
    while (in_word(here()) || (here() == '.' && is_letter(here(1)))) ++at_;
    const std::string_view text = text_.substr(begin, at_ - begin);
    push(text == "inff" ? Tok::number : Tok::name, begin, at_, text);
  }

  void number() {
    const size_t begin = at_;
    auto digits = [&] {
      while (is_digit(here())) ++at_;
    };
    digits();
    // %t.0.1 takes an item of an item.
    const bool item = !out_.list.empty() && out_.list.back().end == begin && out_.list.back().text == "." &&
                      out_.list.back().kind == Tok::op;
    if (item) return push(Tok::number, begin, at_, text_.substr(begin, at_ - begin));
    if (here() == '.') {
      ++at_;
      digits();
    }
    if ((here() | 32) == 'e' &&
        (is_digit(here(1)) || ((here(1) == '-' || here(1) == '+') && is_digit(here(2))))) {
      at_ += 2;
      digits();
    }
    if (here() == 'f' || here() == 'i') {
      ++at_;
      digits();
    }
    if (in_word(here())) {
      while (in_word(here())) ++at_;
      error("T0204", fmt::format("`{}` is no number", text_.substr(begin, at_ - begin)), begin);
      return push(Tok::number, begin, at_, "0");
    }
    push(Tok::number, begin, at_, text_.substr(begin, at_ - begin));
  }

  void meta() {
    const size_t begin = at_;
    at_ += 5;
    const size_t close = text_.find(']', at_);
    const size_t line = std::min(text_.find('\n', at_), text_.size());
    const size_t open = close == text_.npos ? close : close + 1;
    const size_t end = open < line && text_[open] == '[' ? text_.find(']', open) : text_.npos;
    if (end == text_.npos || end > line)
      return error("T0206", "an object of the metadata is written as meta[relay.Constant][0]", begin);
    const std::string_view kind = text_.substr(at_, close - at_);
    at_ = end + 1;
    push(Tok::meta, begin, at_, kind, integer(text_.substr(open + 1, end - open - 1), begin));
  }

  int64_t integer(std::string_view digits, size_t begin) {
    int64_t value = 0;
    const auto [end, bad] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (bad != std::errc() || end != digits.data() + digits.size() || value < 0) {
      error("T0204", fmt::format("`{}` is no number of an object", digits), begin);
      return 0;
    }
    return value;
  }

  void op() {
    static constexpr std::string_view ops[] = {"=>", "->", "==", "!=", "<=", ">=", "(", ")", "[",
                                               "]",  "{",  "}",  ",",  ":",  ";",  ".", "=", "+",
                                               "-",  "*",  "/",  "<",  ">",  "?",  "!"};
    for (std::string_view o : ops)
      if (text_.substr(at_, o.size()) == o) {
        at_ += o.size();
        return push(Tok::op, at_ - o.size(), at_, o);
      }
    const size_t begin = at_++;
    const auto c = static_cast<unsigned char>(text_[begin]);
    error("T0201",
          c < 32 ? fmt::format("the character 0x{:02x} has no meaning here", c)
                 : fmt::format("`{}` has no meaning here", text_[begin]),
          begin);
  }

  std::shared_ptr<const SourceText> source_;
  std::string_view text_;
  DiagnosticList& problems_;
  size_t at_ = 0;
  Tokens out_;
};

}  // namespace

Tokens lex(const std::shared_ptr<const SourceText>& source, DiagnosticList& problems) {
  return Lexer(source, problems).run();
}

}  // namespace tenon::relay
