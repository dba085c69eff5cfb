// SPDX-License-Identifier: Apache-2.0
#include "base/diagnostic.h"

#include <algorithm>

#include "base/printable.h"

namespace tenon {
namespace {
struct Position {
  size_t line, column;
  std::string_view text;
};

Position position(const Span& span) {
  const std::string_view text = span.source->text;
  const std::vector<size_t>& lines = span.source->lines;
  const size_t at = std::min<size_t>(span.begin, text.size());
  const auto next = std::upper_bound(lines.begin(), lines.end(), at);
  const size_t start = *(next - 1), end = next == lines.end() ? text.size() : *next - 1;
  return {size_t(next - lines.begin()), at - start + 1, text.substr(start, end - start)};
}

const Diagnostic& first(const std::vector<Diagnostic>& list) {
  CHECK(!list.empty(), "an error without a diagnostic");
  return list[0];
}

std::string render_all(const std::vector<Diagnostic>& list) {
  std::string text;
  for (const Diagnostic& d : list) text += (text.empty() ? "" : "\n") + render(d);
  return text;
}
}  // namespace

SourceText::SourceText(std::string name, std::string text)
    : name(std::move(name)), text(std::move(text)), lines{0} {
  for (size_t i = this->text.find('\n'); i != this->text.npos; i = this->text.find('\n', i + 1))
    lines.push_back(i + 1);
}

std::string Span::to_string() const {
  if (!source) return {};
  Position p = position(*this);
  return source->name + ":" + std::to_string(p.line) + ":" + std::to_string(p.column);
}

/// A name of a megabyte is not shown as a whole.
static std::string clipped(const std::string& message) {
  constexpr size_t most = 1000;
  if (message.size() <= most) return message;
  size_t head = most - 100, tail = message.size() - 90;
  auto inside = [&](size_t i) { return (message[i] & 0xc0) == 0x80; };  // of a letter of several bytes
  while (head > 0 && inside(head)) --head;
  while (tail < message.size() && inside(tail)) ++tail;
  return message.substr(0, head) + " … " + message.substr(tail);
}

std::string render(const Diagnostic& d) {
  std::string text = "error[" + d.code + "]: " + clipped(d.message);
  std::string where = d.location.empty() ? d.span.to_string() : d.location;
  if (!where.empty()) text += "\n  --> " + where;
  if (d.span) {
    Position p = position(d.span);
    size_t width =
        std::clamp<size_t>(d.span.end > d.span.begin ? d.span.end - d.span.begin : 1, 1,
                           std::max<size_t>(1, p.text.size() - std::min(p.text.size(), p.column - 1)));
    if (p.text.size() <= 200)
      text += "\n   | " + std::string(p.text) + "\n   | " + std::string(p.column - 1, ' ') +
              std::string(width, '^');
  }
  if (!d.hint.empty()) text += "\n  = help: " + d.hint;
  return text;
}

std::string printable(std::string_view text) {
  // The bytes of the letter at `at`; 0 where none begins.
  const auto letter = [&](size_t at) -> size_t {
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char c = byte(at);
    const size_t n = c < 0x80                ? 1
                     : c >= 0xc2 && c < 0xe0 ? 2
                     : c >= 0xe0 && c < 0xf0 ? 3
                     : c >= 0xf0 && c < 0xf5 ? 4
                                             : 0;
    if (at + n > text.size()) return 0;
    for (size_t k = 1; k < n; ++k)
      if ((byte(at + k) & 0xc0) != 0x80) return 0;
    return n;
  };
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t n = letter(at);
    const auto c = static_cast<unsigned char>(text[at]);
    if (n == 0)
      out += '?';
    else if ((c < 32 && c != '\n' && c != '\t') || c == 127)
      out += {'\\', 'x', "0123456789abcdef"[c >> 4], "0123456789abcdef"[c & 15]};
    else
      out += text.substr(at, n);
    at += std::max<size_t>(n, 1);
  }
  return out;
}

static std::vector<Diagnostic> all_printable(std::vector<Diagnostic> list) {
  for (Diagnostic& d : list)
    for (std::string* text : {&d.message, &d.location, &d.hint}) *text = printable(*text);
  return list;
}

DiagnosticError::DiagnosticError(ErrorKind kind, std::vector<Diagnostic> list)
    : Error(kind, first(list).code, printable(first(list).message), printable(first(list).location),
            printable(first(list).hint)),
      diagnostics(all_printable(std::move(list))) {
  static_cast<std::runtime_error&>(*this) = std::runtime_error(render_all(diagnostics));
}

void fail(std::string code, std::string message, std::string location, std::string hint, ErrorKind kind) {
  throw DiagnosticError(
      kind, {Diagnostic{std::move(code), std::move(message), std::move(location), std::move(hint), {}}});
}

}  // namespace tenon
