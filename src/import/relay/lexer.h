// SPDX-License-Identifier: Apache-2.0
// Tokens of Relay text.
#pragma once
#include <string_view>
#include <vector>

#include "base/diagnostic.h"

namespace tenon::relay {

enum class Tok : uint8_t {
  name,    ///< a word, with the words behind its dots: nn.conv2d
  local,   ///< %x
  graph,   ///< %0
  global,  ///< @main
  number,  ///< without sign: 1, 1f, 2f64, 1e-05f, 3i64
  string,  ///< "…", as it stands
  op,
  meta,     ///< meta[relay.Constant][0]
  version,  ///< #[version = "…"]
  end
};

struct Token {
  Tok kind = Tok::end;
  uint32_t begin = 0, end = 0;
  std::string_view text;  ///< without sigil, quotes or brackets; of meta the kind of object
  int64_t index = 0;      ///< of graph and meta
};

struct Tokens {
  std::vector<Token> list;                   ///< ends with `end`
  size_t metadata = std::string_view::npos;  ///< where the text behind #[metadata] begins
  bool cut = false;                          ///< a text or comment without end took all that follows
};

/// Splits the text. Mistakes (T0201, T0202, T0204 to T0206) are collected; what has none is still split.
Tokens lex(const std::shared_ptr<const SourceText>& source, DiagnosticList& problems);

}  // namespace tenon::relay
