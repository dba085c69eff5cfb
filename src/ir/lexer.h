// SPDX-License-Identifier: Apache-2.0
// Tokens of script text: Python's lexical rules as far as the script language needs them.
#pragma once
#include <string_view>

#include "base/diagnostic.h"

namespace tenon::script {

enum class Tok : uint8_t { name, integer, number, string, op, newline, indent, dedent, end };

struct Token {
  Tok kind = Tok::end;
  uint32_t begin = 0, end = 0;
  std::string_view text;  ///< of a name or operator
};

/// Splits the whole text. Mistakes (T0201 … T0205) are collected, and the stream stays well formed: blocks
/// are closed, and an unclosed bracket ends where a new statement begins.
std::vector<Token> lex(const std::shared_ptr<const SourceText>& source, DiagnosticList& problems);
/// The value of a string token: quotes removed, escapes resolved.
std::string string_value(std::string_view token);

}  // namespace tenon::script
