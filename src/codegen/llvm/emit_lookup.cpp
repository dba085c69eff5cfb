// SPDX-License-Identifier: Apache-2.0
// tir.lookup: bytes picked out of a table that lies in registers, or read one by one.
#include <llvm/IR/IntrinsicsX86.h>

#include <bit>
#include <cstring>

#include "codegen/llvm/emitter.h"
#include "ir/lookup.h"
#include "target/byte_tables.h"

namespace tenon::codegen {

using namespace tir;
using V = llvm::Value*;

namespace {

constexpr unsigned kAtOnce = 32;  ///< words of 16 bits in a register

using Table = std::array<uint8_t, kByteValues>;

/// Results of 32 bytes. A pair of registers holds 64 words of the table: bits 1 to 6 of a byte pick a word of
/// either half, its highest bit the half, its lowest bit one of the word's two bytes.
V picked(llvm::IRBuilder<>& b, llvm::Module& module, const Table& table, V bytes) {
  auto* words = llvm::FixedVectorType::get(b.getInt16Ty(), kAtOnce);
  auto number = [&](uint64_t v) { return llvm::ConstantInt::get(words, v); };
  V at = b.CreateZExt(bytes, words), word = b.CreateLShr(at, number(1));
  auto part = [&](unsigned k) {
    std::array<uint16_t, kAtOnce> values;
    std::memcpy(values.data(), table.data() + k * sizeof values, sizeof values);
    return llvm::ConstantDataVector::get(module.getContext(), values);
  };
  auto* pick =
      llvm::Intrinsic::getOrInsertDeclaration(&module, llvm::Intrinsic::x86_avx512_vpermi2var_hi_512);
  V low = b.CreateCall(pick, {part(0), word, part(1)}), high = b.CreateCall(pick, {part(2), word, part(3)});
  V pair = b.CreateSelect(b.CreateICmpULT(at, number(kByteValues / 2)), low, high);
  V shift = b.CreateShl(b.CreateAnd(at, number(1)), number(3));
  return b.CreateTrunc(b.CreateLShr(pair, shift), bytes->getType());
}

}  // namespace

V Emitter::lookup(const tir::Call& n) {
  const Table table = lookup_table(n);
  V x = expr(n.args[0]);
  const auto lanes = unsigned(n.dtype.lanes);
  if (lanes > 1 && is_x86(target_) && looks_up_bytes(target_)) {
    std::vector<V> parts;
    for (unsigned first = 0; first < lanes; first += kAtOnce) {
      std::vector<int> some(kAtOnce, -1);
      for (unsigned k = 0; k < std::min(kAtOnce, lanes - first); ++k) some[k] = int(first + k);
      parts.push_back(picked(b_, module_, table, b_.CreateShuffleVector(x, some)));
    }
    while (parts.size() > 1) {  // neighbours are put together until one is left
      std::vector<V> wider;
      for (size_t k = 0; k < parts.size(); k += 2) {
        const unsigned half = llvm::cast<llvm::FixedVectorType>(parts[k]->getType())->getNumElements();
        std::vector<int> all(2 * half);
        for (unsigned i = 0; i < 2 * half; ++i) all[i] = int(i);
        V other = k + 1 < parts.size() ? parts[k + 1] : llvm::PoisonValue::get(parts[k]->getType());
        wider.push_back(b_.CreateShuffleVector(parts[k], other, all));
      }
      parts = wider;
    }
    std::vector<int> own(lanes);
    for (unsigned k = 0; k < lanes; ++k) own[k] = int(k);
    return b_.CreateShuffleVector(parts[0], own);
  }
  auto* bytes = llvm::ConstantDataArray::get(module_.getContext(), llvm::ArrayRef<uint8_t>(table));
  auto* data = new llvm::GlobalVariable(module_, bytes->getType(), true, llvm::GlobalValue::PrivateLinkage,
                                        bytes, "table");
  auto one = [&](V index) {
    V at = b_.CreateInBoundsGEP(b_.getInt8Ty(), data, b_.CreateZExt(index, b_.getInt64Ty()));
    return b_.CreateLoad(b_.getInt8Ty(), at);
  };
  if (lanes == 1) return one(x);
  V out = llvm::PoisonValue::get(x->getType());
  for (unsigned k = 0; k < lanes; ++k)
    out = b_.CreateInsertElement(out, one(b_.CreateExtractElement(x, uint64_t(k))), uint64_t(k));
  return out;
}

}  // namespace tenon::codegen
