// SPDX-License-Identifier: Apache-2.0
#include "base/base64.h"

namespace tenon {

std::string base64(const uint8_t* data, size_t n) {
  static constexpr char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((n + 2) / 3 * 4);
  for (size_t i = 0; i < n; i += 3) {
    const uint32_t v = uint32_t(data[i]) << 16 | (i + 1 < n ? uint32_t(data[i + 1]) << 8 : 0) |
                       (i + 2 < n ? data[i + 2] : 0);
    out += digits[v >> 18];
    out += digits[v >> 12 & 63];
    out += i + 1 < n ? digits[v >> 6 & 63] : '=';
    out += i + 2 < n ? digits[v & 63] : '=';
  }
  return out;
}

bool unbase64(std::string_view text, std::vector<uint8_t>* out) {
  uint32_t v = 0;
  int bits = 0;
  for (char c : text) {
    int d;
    if (c >= 'A' && c <= 'Z')
      d = c - 'A';
    else if (c >= 'a' && c <= 'z')
      d = c - 'a' + 26;
    else if (c >= '0' && c <= '9')
      d = c - '0' + 52;
    else if (c == '+')
      d = 62;
    else if (c == '/')
      d = 63;
    else if (c == '=')
      break;
    else
      return false;
    v = v << 6 | uint32_t(d);
    if ((bits += 6) >= 8) out->push_back(uint8_t(v >> (bits -= 8)));
  }
  return true;
}

}  // namespace tenon
