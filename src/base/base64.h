// SPDX-License-Identifier: Apache-2.0
// Bytes as text of 64 digits (RFC 4648).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

std::string base64(const uint8_t* data, size_t n);
/// Appends the bytes that the text stands for, up to a `=`. False: it holds another character.
bool unbase64(std::string_view text, std::vector<uint8_t>* out);

}  // namespace tenon
