// SPDX-License-Identifier: Apache-2.0
// Names for contents: what the compile cache tells files by.
#pragma once
#include <memory>
#include <string>
#include <string_view>

namespace tenon::codegen {

/// A cryptographic hash (BLAKE3; SHA-256 in a build without LLVM) of all that was added: equal names mean
/// equal contents.
class Digest {
 public:
  Digest();
  ~Digest();
  void add(std::string_view bytes);
  std::string hex() const;  ///< 40 digits

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tenon::codegen
