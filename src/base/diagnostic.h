// SPDX-License-Identifier: Apache-2.0
// Diagnostics: every mistake in one input is collected and thrown once, each with a stable code, a place,
// a sentence and a hint. Compiler side only.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"

namespace tenon {

/// The text that spans point into; shared by all nodes parsed from it.
struct SourceText {
  SourceText(std::string name, std::string text);
  std::string name, text;
  std::vector<size_t> lines;  ///< where each begins
};

/// A place in a source text: byte range. Line and column are derived when shown.
struct Span {
  std::shared_ptr<const SourceText> source;
  uint32_t begin = 0, end = 0;
  explicit operator bool() const { return source != nullptr; }
  /// "file:line:column", or "" for an empty span.
  std::string to_string() const;
};

struct Diagnostic {
  std::string code, message;
  std::string location;  ///< "file, node 'NAME' (Operator-opset)" or "file:line:column"
  std::string hint;
  Span span;  ///< when given, the rendered text shows the line with a mark below it
};

/// One or more of a user's mistakes (never none). what() is the rendered text of all.
class DiagnosticError : public Error {
 public:
  DiagnosticError(ErrorKind kind, std::vector<Diagnostic> diagnostics);
  std::vector<Diagnostic> diagnostics;
};

/// Collects mistakes; `throw_if_any` ends the stage.
class DiagnosticList {
 public:
  explicit DiagnosticList(ErrorKind kind = ErrorKind::model) : kind_(kind) {}
  void add(Diagnostic d) {
    if (list_.size() < limit)
      list_.push_back(std::move(d));
    else
      ++dropped_;
  }
  void add(std::string code, std::string message, Span span = {}, std::string hint = {}) {
    add(Diagnostic{std::move(code), std::move(message), span.to_string(), std::move(hint), span});
  }
  bool empty() const { return list_.empty(); }
  const std::vector<Diagnostic>& all() const { return list_; }
  void throw_if_any() const {
    if (!list_.empty()) throw DiagnosticError(kind_, list_);
  }
  static constexpr size_t limit = 1000;  ///< more are counted, not kept

 private:
  ErrorKind kind_;
  std::vector<Diagnostic> list_;
  size_t dropped_ = 0;
};

/// Throws one diagnostic. `kind` model (exit 3) unless given.
[[noreturn]] void fail(std::string code, std::string message, std::string location = {},
                       std::string hint = {}, ErrorKind kind = ErrorKind::model);

/// `error[CODE]: sentence`, `--> place`, the source line with a mark, `= help: …`.
std::string render(const Diagnostic& d);

}  // namespace tenon
