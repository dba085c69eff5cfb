// SPDX-License-Identifier: Apache-2.0
// The hash of a build without LLVM, against the values that its standard gives.
#include "codegen/system/sha256.h"

#include <gtest/gtest.h>

#include <string>

namespace tenon::codegen {
namespace {

std::string hex(const Sha256& hash) {
  std::string out;
  for (const uint8_t byte : hash.result()) {
    out += "0123456789abcdef"[byte >> 4];
    out += "0123456789abcdef"[byte & 15];
  }
  return out;
}
std::string hash_of(std::string_view bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hex(hash);
}

TEST(Sha256, StandardValues) {
  EXPECT_EQ(hash_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hash_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hash_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hash_of(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PartsAreTheWhole) {
  const std::string text(300, 'x');
  for (size_t at = 0; at <= text.size(); ++at) {
    Sha256 hash;
    hash.add(std::string_view(text).substr(0, at));
    hash.result();  // takes nothing away
    hash.add(std::string_view(text).substr(at));
    EXPECT_EQ(hex(hash), hash_of(text)) << at;
  }
}

}  // namespace
}  // namespace tenon::codegen
