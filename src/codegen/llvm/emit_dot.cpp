// SPDX-License-Identifier: Apache-2.0
// tir.dot: the instruction of the target that computes it, or for integers what every target has: lanes taken
// apart, widened, multiplied and added. Which instructions there are follows from the target record alone.
#include <fmt/format.h>
#include <llvm/IR/IntrinsicsAArch64.h>
#include <llvm/IR/IntrinsicsX86.h>

#include "codegen/llvm/emitter.h"

namespace tenon::codegen {

using namespace tir;
using V = llvm::Value*;

namespace {

/// A call of an intrinsic of the target, its operands as the bits of whatever types it takes.
V call_bits(llvm::IRBuilder<>& b, llvm::Module& module, llvm::Intrinsic::ID id, std::vector<V> args,
            llvm::ArrayRef<llvm::Type*> overloads = {}) {
  llvm::Function* f = llvm::Intrinsic::getOrInsertDeclaration(&module, id, overloads);
  for (size_t k = 0; k < args.size(); ++k)
    args[k] = b.CreateBitCast(args[k], f->getFunctionType()->getParamType(unsigned(k)));
  return b.CreateCall(f, args);
}

V bytes_of(llvm::IRBuilder<>& b, int value, unsigned count) {
  return b.CreateVectorSplat(count, b.getInt8(uint8_t(value)));
}

}  // namespace

V Emitter::x86_dot(V acc, V a, V b, DataType x, DataType y, int64_t lanes, int64_t group) {
  if (lanes != 4 && lanes != 8 && lanes != 16) return nullptr;
  const bool wide = lanes == 16, evex = target_->has("avx512vl");
  auto of_width = [&](llvm::Intrinsic::ID small, llvm::Intrinsic::ID middle, llvm::Intrinsic::ID large) {
    return lanes == 4 ? small : lanes == 8 ? middle : large;
  };
  if (x.element() == DataType::bfloat16()) {
    if (!multiplies_bf16(target_, lanes)) return nullptr;
    return call_bits(
        b_, module_,
        of_width(llvm::Intrinsic::x86_avx512bf16_dpbf16ps_128, llvm::Intrinsic::x86_avx512bf16_dpbf16ps_256,
                 llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512),
        {acc, a, b});
  }
  if (x.is_float()) return nullptr;
  if (x.bits == 8 && group == 4) {
    const bool vnni = target_->has("avx512_vnni") && (wide || evex);
    if (!vnni && (wide || !target_->has("avx_vnni"))) return nullptr;
    const unsigned bytes = unsigned(4 * lanes);
    // The instruction takes bytes without a sign times bytes with one.
    auto products = [&](V sum, V no_sign, V sign) {
      return call_bits(
          b_, module_,
          of_width(llvm::Intrinsic::x86_avx512_vpdpbusd_128, llvm::Intrinsic::x86_avx512_vpdpbusd_256,
                   llvm::Intrinsic::x86_avx512_vpdpbusd_512),
          {sum, no_sign, sign});
    };
    if (x.is_uint() && y.is_int()) return products(acc, a, b);
    if (x.is_int() && y.is_uint()) return products(acc, b, a);
    V zero = llvm::Constant::getNullValue(acc->getType());
    if (x.is_int())  // a · b = (a + 128) · b - 128 · b; rows of a tile share the second sum
      return b_.CreateSub(products(acc, b_.CreateXor(a, bytes_of(b_, 0x80, bytes)), b),
                          products(zero, bytes_of(b_, 0x80, bytes), b));
    // a · b = a · (b - 128) + 2 · 64 · a
    V twice =
        b_.CreateShl(products(zero, a, bytes_of(b_, 64, bytes)), llvm::ConstantInt::get(acc->getType(), 1));
    return b_.CreateAdd(products(acc, a, b_.CreateXor(b, bytes_of(b_, 0x80, bytes))), twice);
  }
  if (group == 2 && (x.bits == 8 || (x.is_int() && y.is_int()))) {
    if (lanes == 8 ? !target_->has("avx2") : wide && !target_->has("avx512bw")) return nullptr;
    auto* words = llvm::FixedVectorType::get(b_.getInt16Ty(), unsigned(2 * lanes));
    auto widen = [&](V v, DataType t) {
      return t.bits == 16 ? v : t.is_uint() ? b_.CreateZExt(v, words) : b_.CreateSExt(v, words);
    };
    V pairs = call_bits(b_, module_,
                        of_width(llvm::Intrinsic::x86_sse2_pmadd_wd, llvm::Intrinsic::x86_avx2_pmadd_wd,
                                 llvm::Intrinsic::x86_avx512_pmaddw_d_512),
                        {widen(a, x), widen(b, y)});
    return b_.CreateAdd(acc, pairs);
  }
  return nullptr;
}

V Emitter::arm_dot(V acc, V a, V b, DataType x, DataType y, int64_t lanes, int64_t group) {
  if (lanes != 4) return nullptr;
  if (x.element() == DataType::bfloat16())
    return multiplies_bf16(target_, lanes)
               ? call_bits(b_, module_, llvm::Intrinsic::aarch64_neon_bfdot, {acc, a, b},
                           {acc->getType(), llvm::FixedVectorType::get(b_.getBFloatTy(), 8)})
               : nullptr;
  if (x.is_float() || x.bits != 8 || group != 4) return nullptr;
  const bool mixed = x.is_uint() != y.is_uint();
  if (!target_->has(mixed ? "i8mm" : "asimddp")) return nullptr;
  if (mixed && y.is_uint()) std::swap(a, b);
  return call_bits(b_, module_,
                   mixed         ? llvm::Intrinsic::aarch64_neon_usdot
                   : x.is_uint() ? llvm::Intrinsic::aarch64_neon_udot
                                 : llvm::Intrinsic::aarch64_neon_sdot,
                   {acc, a, b}, {acc->getType(), a->getType()});
}

V Emitter::dot(const tir::Call& n) {
  const int64_t group = dot_group(n.args[0], n.args[1], n.args[2]), lanes = n.dtype.lanes;
  CHECK(group > 0, "a dot product of types that do not fit");
  const DataType x = n.args[1].dtype().element(), y = n.args[2].dtype().element();
  V acc = expr(n.args[0]);
  // One group for all lanes is loaded as one element and spread.
  auto operand = [&](const PrimExpr& e) {
    V v = expr(e);
    if (e.dtype().lanes == group * lanes) return v;
    V whole = b_.CreateBitCast(v, b_.getIntNTy(unsigned(group * e.dtype().bits)));
    return b_.CreateBitCast(splat(whole, lanes), type(e.dtype().with_lanes(int(group * lanes))));
  };
  V a = operand(n.args[1]), b = operand(n.args[2]);
  if (n.dtype.is_vector())
    if (V fast = is_arm(target_)   ? arm_dot(acc, a, b, x, y, lanes, group)
                 : is_x86(target_) ? x86_dot(acc, a, b, x, y, lanes, group)
                                   : nullptr)
      return fast;
  if (x.is_float())
    fail("T0801",
         fmt::format("code generation cannot express a dot product of {} with {} sums", to_string(x), lanes),
         "kernel " + symbol_, "the passes f16_compute_legalize and bf16_compute_legalize replace it");
  for (int64_t q = 0; q < group; ++q) {
    std::vector<int> every;
    for (int64_t l = 0; l < lanes; ++l) every.push_back(int(l * group + q));
    auto part = [&](V v, DataType t) {
      V own =
          n.dtype.is_vector() ? b_.CreateShuffleVector(v, every) : b_.CreateExtractElement(v, uint64_t(q));
      return cast(own, t.with_lanes(int(lanes)), n.dtype);
    };
    V u = part(a, x), w = part(b, y);
    acc = b_.CreateAdd(acc, b_.CreateMul(u, w));
  }
  return acc;
}

}  // namespace tenon::codegen
