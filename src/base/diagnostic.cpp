// SPDX-License-Identifier: Apache-2.0
#include "base/diagnostic.h"

#include <algorithm>

namespace tenon {
namespace {
struct Position {
  size_t line, column;
  std::string_view text;
};

Position position(const Span& span) {
  std::string_view text = span.source->text;
  size_t at = std::min<size_t>(span.begin, text.size());
  size_t start = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;  // npos + 1 is 0
  size_t end = std::min(text.find('\n', at), text.size());
  return {size_t(std::count(text.begin(), text.begin() + at, '\n')) + 1, at - start + 1,
          text.substr(start, end - start)};
}

std::string render_all(const std::vector<Diagnostic>& list) {
  std::string text;
  for (const Diagnostic& d : list) text += (text.empty() ? "" : "\n") + render(d);
  return text;
}
}  // namespace

std::string Span::to_string() const {
  if (!source) return {};
  Position p = position(*this);
  return source->name + ":" + std::to_string(p.line) + ":" + std::to_string(p.column);
}

std::string render(const Diagnostic& d) {
  std::string text = "error[" + d.code + "]: " + d.message;
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

DiagnosticError::DiagnosticError(ErrorKind kind, std::vector<Diagnostic> list)
    : Error(kind, list.empty() ? "T0000" : list[0].code, list.empty() ? "" : list[0].message,
            list.empty() ? "" : list[0].location, list.empty() ? "" : list[0].hint),
      diagnostics(std::move(list)) {
  static_cast<std::runtime_error&>(*this) = std::runtime_error(render_all(diagnostics));
}

void fail(std::string code, std::string message, std::string location, std::string hint, ErrorKind kind) {
  throw DiagnosticError(
      kind, {Diagnostic{std::move(code), std::move(message), std::move(location), std::move(hint), {}}});
}

}  // namespace tenon
