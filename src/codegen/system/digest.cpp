// SPDX-License-Identifier: Apache-2.0
#include "codegen/digest.h"

#include <fmt/format.h>

#include "codegen/system/sha256.h"

namespace tenon::codegen {

struct Digest::State {
  Sha256 hasher;
};

Digest::Digest() : state_(std::make_unique<State>()) {}
Digest::~Digest() = default;
void Digest::add(std::string_view bytes) { state_->hasher.add(bytes); }

std::string Digest::hex() const {
  std::string out;
  for (const uint8_t byte : state_->hasher.result()) out += fmt::format("{:02x}", byte);
  return out.substr(0, 40);
}

}  // namespace tenon::codegen
