// SPDX-License-Identifier: Apache-2.0
// Texts as code points.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace tenon {

/// Nothing when the bytes are not UTF-8 (overlong forms and surrogates are none).
inline std::optional<std::u32string> code_points(std::string_view text) {
  std::u32string out;
  for (size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    const size_t n = first < 0x80   ? 1
                     : first < 0xc2 ? 0
                     : first < 0xe0 ? 2
                     : first < 0xf0 ? 3
                     : first < 0xf5 ? 4
                                    : 0;
    if (n == 0 || i + n > text.size()) return std::nullopt;
    char32_t c = n == 1 ? first : char32_t(first & (0x7f >> n));
    for (size_t k = 1; k < n; ++k) {
      const auto next = static_cast<unsigned char>(text[i + k]);
      if ((next & 0xc0) != 0x80) return std::nullopt;
      c = c << 6 | (next & 0x3f);
    }
    const bool overlong = (n == 3 && c < 0x800) || (n == 4 && c < 0x10000);
    if (overlong || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return std::nullopt;
    out += c;
    i += n;
  }
  return out;
}

inline std::string utf8(std::u32string_view text) {
  std::string out;
  for (const char32_t c : text) {
    const int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    if (more == 0) {
      out += char(c);
      continue;
    }
    out += char((0xff00 >> (more + 1) & 0xff) | (c >> (6 * more)));
    for (int k = more - 1; k >= 0; --k) out += char(0x80 | (c >> (6 * k) & 0x3f));
  }
  return out;
}

}  // namespace tenon
