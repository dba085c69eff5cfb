// SPDX-License-Identifier: Apache-2.0
// LLVM brings a fast hash; it is used rather than one of our own.
#include "codegen/digest.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/Support/BLAKE3.h>
#include <sys/stat.h>

#include "codegen/llvm/llvm.h"

namespace tenon::codegen {

struct Digest::State {
  llvm::BLAKE3 hasher;
};

Digest::Digest() : state_(std::make_unique<State>()) {}
Digest::~Digest() = default;
void Digest::add(std::string_view bytes) {
  state_->hasher.update(llvm::StringRef(bytes.data(), bytes.size()));
}

std::string Digest::hex() const {
  std::string out;
  for (const uint8_t byte : state_->hasher.final<20>()) out += fmt::format("{:02x}", byte);
  return out;
}

std::string llvm_version() {
  std::string text = LLVM_VERSION_STRING;
  Dl_info info;
  struct stat st;
  if (dladdr(reinterpret_cast<const void*>(&llvm_blake3_hasher_init), &info) && info.dli_fname &&
      stat(info.dli_fname, &st) == 0)
    text += fmt::format(" {} {}.{}", st.st_size, st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
  return text;
}

}  // namespace tenon::codegen
