// SPDX-License-Identifier: Apache-2.0
// Numbers in LLVM IR: NaN-propagating extremes, calls of the C library, conversions of narrow floats.
#include "codegen/llvm/math.h"

#include <llvm/IR/Module.h>

namespace tenon::codegen {

using V = llvm::Value*;
namespace {
/// Float operations of these must not be fused or reordered by anyone.
struct Exactly {
  explicit Exactly(llvm::IRBuilder<>& b) : guard(b) { b.clearFastMathFlags(); }
  llvm::IRBuilderBase::FastMathFlagGuard guard;
};
}  // namespace

V MathBuilder::extreme(V a, V b, bool larger) {
  Exactly exactly(b_);
  auto number = [](V v) {
    auto* c = llvm::dyn_cast<llvm::Constant>(v);
    if (c && c->getType()->isVectorTy()) c = c->getSplatValue();
    auto* n = llvm::dyn_cast_or_null<llvm::ConstantFP>(c);
    return n && !n->isNaN();
  };
  // `p > q ? p : q` is one machine instruction and gives q when either is a NaN: with a number as p that is
  // right.
  auto pick = [&](V p, V q) {
    return select(larger ? b_.CreateFCmpOGT(p, q) : b_.CreateFCmpOLT(p, q), p, q);
  };
  if (number(b)) return pick(b, a);
  if (number(a)) return pick(a, b);
  // Of a reduction `a` is the result so far: each step waits for the last one's maximum, not for a test of
  // it. Frozen, or LLVM joins both conditions to one of two comparisons, and the machine's maximum is lost.
  return select(is_nan(b), b, b_.CreateFreeze(pick(b, a)));
}

V MathBuilder::libm(const std::string& symbol, llvm::ArrayRef<V> args) {
  llvm::Module* module = b_.GetInsertBlock()->getModule();
  llvm::Type* scalar = args[0]->getType()->getScalarType();
  std::vector<llvm::Type*> types(args.size());
  for (size_t k = 0; k < args.size(); ++k) types[k] = args[k]->getType()->getScalarType();
  llvm::FunctionCallee callee =
      module->getOrInsertFunction(symbol, llvm::FunctionType::get(scalar, types, false));
  auto* fn = llvm::cast<llvm::Function>(callee.getCallee());
  fn->setDoesNotThrow();
  fn->setDoesNotAccessMemory();
  fn->setWillReturn();
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(args[0]->getType());
  if (!vector) return b_.CreateCall(callee, args);
  V out = llvm::PoisonValue::get(vector);
  for (unsigned lane = 0; lane < vector->getNumElements(); ++lane) {
    std::vector<V> one(args.size());
    for (size_t k = 0; k < args.size(); ++k)
      one[k] = args[k]->getType()->isVectorTy() ? b_.CreateExtractElement(args[k], uint64_t(lane)) : args[k];
    out = b_.CreateInsertElement(out, b_.CreateCall(callee, one), uint64_t(lane));
  }
  return out;
}

}  // namespace tenon::codegen
