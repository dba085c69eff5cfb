// SPDX-License-Identifier: Apache-2.0
// Reading memory: indices, pointers, and loads of scalars and of vectors by how their lanes lie.
#include <fmt/format.h>
#include <llvm/IR/InlineAsm.h>

#include <algorithm>
#include <set>

#include "codegen/llvm/emitter.h"
#include "ir/find_node.h"

namespace tenon::codegen {

using namespace tir;
using V = llvm::Value*;

V Emitter::index(const PrimExpr& e) {
  // The outer sums and products of an index cannot wrap: the element they name exists.
  const bool wide = e.dtype().element() == DataType::int_(64);
  if (wide) {
    if (const auto* n = e.as<Add>()) {
      V a = index(n->a);
      return b_.CreateNSWAdd(a, index(n->b));
    }
    if (const auto* n = e.as<Sub>()) {
      V a = index(n->a);
      return b_.CreateNSWSub(a, index(n->b));
    }
    if (const auto* n = e.as<Mul>()) {
      V a = index(n->a);
      return b_.CreateNSWMul(a, index(n->b));
    }
  }
  V v = expr(e);
  llvm::Type* out = b_.getInt64Ty();
  if (auto* t = llvm::dyn_cast<llvm::FixedVectorType>(v->getType()))
    out = llvm::FixedVectorType::get(out, t->getNumElements());
  return (e.dtype().is_uint() || e.dtype().is_bool()) ? b_.CreateZExtOrTrunc(v, out)
                                                      : b_.CreateSExtOrTrunc(v, out);
}
V Emitter::step(llvm::Type* t) {
  auto* vt = llvm::cast<llvm::FixedVectorType>(t);
  std::vector<llvm::Constant*> lanes;
  for (unsigned k = 0; k < vt->getNumElements(); ++k)
    lanes.push_back(llvm::ConstantInt::get(vt->getElementType(), k));
  return llvm::ConstantVector::get(lanes);
}
V Emitter::pointer(const Buffer& b, V at) {
  auto it = frame_->values.find(b->data.get());
  CHECK(it != frame_->values.end(),
        fmt::format("kernel {}: the memory of buffer {} is not defined", symbol_, b->name));
  return b_.CreateInBoundsGEP(memory_type(b->dtype), it->second, at);
}

/// `place`, of which LLVM is not to know how it moves from step to step.
static V hidden(llvm::IRBuilder<>& b, V place) {
  auto* type = llvm::FunctionType::get(place->getType(), {place->getType()}, false);
  llvm::CallInst* same = b.CreateCall(llvm::InlineAsm::get(type, "", "=r,0", false), {place});
  same->setDoesNotAccessMemory();
  same->setDoesNotThrow();
  same->addFnAttr(llvm::Attribute::WillReturn);  // so that it leaves loops that it does not change in
  return same;
}

V Emitter::element(const Buffer& b, const PrimExpr& at) {
  // Rows of a tile that has an edge are clamped: where each lies is a number of its own. LLVM would carry an
  // address for each from step to step, more than there are registers, where the distance of steps is a
  // size: one address moves, and numbers that stay are added to it.
  std::vector<PrimExpr> terms;
  auto part = [&](auto& self, const PrimExpr& e) -> void {
    const auto* sum = e.as<Add>();
    if (!sum) return terms.push_back(e);
    self(self, sum->a), self(self, sum->b);
  };
  part(part, at);
  auto is_clamped = [](const PrimExpr& t) { return has_node<Min>(t); };
  std::set<const Var*> far;  // loops whose steps are so far apart
  if (std::ranges::any_of(terms, is_clamped))
    for (const PrimExpr& t : terms)
      if (const auto* product = t.as<Mul>(); product && !as_int(product->b) && !is_clamped(t))
        for (const VarRef& v : free_vars(t))
          if (frame_->loops.contains(v.get())) far.insert(v.get());
  if (far.empty()) return pointer(b, index(at));
  V step = i64(0), row = i64(0), rest = i64(0);
  for (const PrimExpr& t : terms) {
    V& sum = is_clamped(t) ? row : mentions_any(t, far) ? step : rest;
    sum = b_.CreateNSWAdd(sum, index(t));
  }
  return pointer(b, b_.CreateNSWAdd(b_.CreateNSWAdd(hidden(b_, step), hidden(b_, row)), rest));
}

V Emitter::read(const Buffer& b, llvm::Type* what, V from, V mask) {
  const llvm::Align align(uint64_t(b->dtype.element().bytes()));
  llvm::Instruction* access;
  if (mask)
    access = b_.CreateMaskedLoad(what, from, align, mask, llvm::Constant::getNullValue(what));
  else
    access = b_.CreateAlignedLoad(what, from, align);
  decorate(access, b->data.get());
  return access;
}

V Emitter::load(const BufferLoad& n) {
  if (V v = load_turned(n)) return memory_to_value(v, n.dtype);
  const PrimExpr at = flat_index(n.buffer, n.indices);
  return memory_to_value(n.dtype.is_scalar() ? load_scalar(n, at) : load_vector(n, at), n.dtype);
}

V Emitter::load_scalar(const BufferLoad& n, const PrimExpr& at) {
  llvm::Type* element = memory_type(n.dtype);
  if (!n.predicate || is_const_int(n.predicate, 1))
    return read(n.buffer, element, this->element(n.buffer, at));
  V condition = expr(n.predicate);
  auto* from = b_.GetInsertBlock();
  auto* then = block("load");
  auto* next = block("loaded");
  b_.CreateCondBr(condition, then, next);
  b_.SetInsertPoint(then);
  const size_t before = mark();
  V v = read(n.buffer, element, pointer(n.buffer, index(at)));
  forget(before);
  auto* then_end = b_.GetInsertBlock();
  b_.CreateBr(next);
  b_.SetInsertPoint(next);
  auto* phi = b_.CreatePHI(element, 2);
  phi->addIncoming(llvm::Constant::getNullValue(element), from);
  phi->addIncoming(v, then_end);
  return phi;
}

/// Vectors that lie side by side, the last ending at the last element, and shuffles.
V Emitter::load_strided(const BufferLoad& n, const PrimExpr& base, int64_t stride, V mask) {
  const int64_t lanes = n.dtype.lanes;
  auto* vector = llvm::FixedVectorType::get(memory_type(n.dtype), unsigned(lanes));
  V first = index(base), v = nullptr;
  const int64_t last = (lanes - 1) * stride + 1 - lanes;
  for (int64_t part = 0, next = 0; part < stride; ++part) {
    const int64_t start = std::min(part * lanes, last);
    V p = pointer(n.buffer, b_.CreateNSWAdd(first, i64(start))), here_mask = nullptr;
    if (mask) {  // only what some lane wants is read
      llvm::SmallVector<int> wanted;
      for (int64_t k = 0; k < lanes; ++k)
        wanted.push_back(int((start + k) % stride == 0 ? (start + k) / stride : lanes));
      here_mask = b_.CreateShuffleVector(mask, llvm::Constant::getNullValue(mask->getType()), wanted);
    }
    V here = read(n.buffer, vector, p, here_mask);
    llvm::SmallVector<int> pick;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const int64_t place = lane * stride - start;
      pick.push_back(int(lane >= next && place < lanes ? (v ? lanes : 0) + place : lane));
    }
    while (next < lanes && next * stride - start < lanes) ++next;
    v = v ? b_.CreateShuffleVector(v, here, pick) : b_.CreateShuffleVector(here, pick);
  }
  return v;
}

/// Does one instruction read lanes from anywhere?
bool Emitter::gathers(DataType t) const { return target_->has("avx512f") && t.bits >= 32 && t.lanes >= 8; }

/// Lanes from anywhere: wide gathers are worth one instruction; narrow or strided ones are loads and inserts.
V Emitter::gather(const BufferLoad& n, const PrimExpr& at, V mask) {
  const int64_t lanes = n.dtype.lanes;
  llvm::Type* element = memory_type(n.dtype);
  auto* vector = llvm::FixedVectorType::get(element, unsigned(lanes));
  const auto affine = as_affine(at);
  const bool gathers = this->gathers(n.dtype);
  if (affine && !mask && !gathers && lanes <= 64) {
    V first = index(affine->base), by = index(affine->stride), v = llvm::PoisonValue::get(vector);
    for (int64_t lane = 0; lane < lanes; ++lane) {
      V p = pointer(n.buffer, b_.CreateNSWAdd(first, b_.CreateNSWMul(by, i64(lane))));
      v = b_.CreateInsertElement(v, read(n.buffer, element, p), uint64_t(lane));
    }
    return v;
  }
  V pointers;
  if (affine)
    pointers = pointer(
        n.buffer,
        b_.CreateNSWAdd(splat(index(affine->base), lanes),
                        b_.CreateNSWMul(splat(index(affine->stride), lanes),
                                        step(llvm::FixedVectorType::get(b_.getInt64Ty(), unsigned(lanes))))));
  else
    pointers = pointer(n.buffer, index(at));
  if (!mask && !gathers) {
    V v = llvm::PoisonValue::get(vector);
    for (int64_t lane = 0; lane < lanes; ++lane) {
      V p = b_.CreateExtractElement(pointers, uint64_t(lane));
      v = b_.CreateInsertElement(v, read(n.buffer, element, p), uint64_t(lane));
    }
    return v;
  }
  const llvm::Align align(uint64_t(n.dtype.element().bytes()));
  auto* call = b_.CreateMaskedGather(vector, pointers, align, mask, llvm::Constant::getNullValue(vector));
  decorate(call, n.buffer->data.get());
  return call;
}

V Emitter::load_vector(const BufferLoad& n, const PrimExpr& at) {
  const DataType t = n.dtype;
  const int64_t lanes = t.lanes;
  llvm::Type* element = memory_type(t);
  auto* vector = llvm::FixedVectorType::get(element, unsigned(lanes));
  V mask = n.predicate ? expr(n.predicate) : nullptr;
  if (mask && !mask->getType()->isVectorTy()) mask = splat(mask, lanes);
  if (auto* c = llvm::dyn_cast_or_null<llvm::Constant>(mask); c && c->isAllOnesValue()) mask = nullptr;
  const auto affine = as_affine(at);
  const auto stride = affine ? as_int(affine->stride) : std::nullopt;
  if (stride == 1 || stride == -1) {
    const bool forward = stride == 1;
    PrimExpr first =
        forward ? affine->base : affine->base - PrimExpr::int_imm(lanes - 1, affine->base.dtype());
    if (mask && !forward) mask = b_.CreateVectorReverse(mask);
    V v = read(n.buffer, vector, pointer(n.buffer, index(first)), mask);
    return forward ? v : b_.CreateVectorReverse(v);
  }
  if (stride == 0 && !mask)
    return splat(read(n.buffer, element, this->element(n.buffer, affine->base)), lanes);
  if (stride && *stride >= 2 && *stride <= 4 && lanes >= 4 && lanes <= 64 &&
      (!mask || (t.bits >= 32 && target_->has("avx2"))))
    return load_strided(n, affine->base, *stride, mask);
  return gather(n, at, mask);
}

}  // namespace tenon::codegen
