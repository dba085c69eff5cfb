// SPDX-License-Identifier: Apache-2.0
// Expressions: arithmetic by data type, vectors, memory reads, intrinsics.
#include <fmt/format.h>
#include <llvm/IR/MDBuilder.h>

#include <cmath>

#include "codegen/llvm/emitter.h"

namespace tenon::codegen {

using namespace tir;
using V = llvm::Value*;
namespace {
template <class T>
constexpr uint32_t kind = PrimExprNodes::index_of<T>();
bool is_unsigned(DataType t) { return t.is_uint() || t.is_bool(); }
}  // namespace

llvm::Type* Emitter::scalar_type(DataType t) {
  if (t.is_bool()) return b_.getInt1Ty();
  if (t.is_handle()) return b_.getPtrTy();
  if (t == f64) return b_.getDoubleTy();
  if (t == f32) return b_.getFloatTy();
  if (t.is_void()) return b_.getInt32Ty();
  return b_.getIntNTy(t.bits);
}
llvm::Type* Emitter::type(DataType t) {
  llvm::Type* e = scalar_type(t.element());
  return t.is_vector() ? llvm::FixedVectorType::get(e, t.lanes) : e;
}
llvm::Type* Emitter::memory_type(DataType t) {
  return t.is_bool() ? b_.getInt8Ty() : scalar_type(t.element());
}
V Emitter::memory_to_value(V v, DataType t) {
  return t.is_bool() ? b_.CreateICmpNE(v, llvm::Constant::getNullValue(v->getType())) : v;
}
V Emitter::value_to_memory(V v, DataType t) {
  if (!t.is_bool()) return v;
  llvm::Type* bytes = b_.getInt8Ty();
  if (auto* vt = llvm::dyn_cast<llvm::FixedVectorType>(v->getType()))
    bytes = llvm::FixedVectorType::get(bytes, vt->getNumElements());
  return b_.CreateZExt(v, bytes);
}

// ---------------------------------------------------------------- sharing
V Emitter::root(const PrimExpr& e) {
  frame_->memo.clear();
  frame_->memo_order.clear();
  return expr(e);
}
void Emitter::forget(size_t mark) {
  while (frame_->memo_order.size() > mark) {
    frame_->memo.erase(frame_->memo_order.back());
    frame_->memo_order.pop_back();
  }
}
V Emitter::expr(const PrimExpr& e) {
  // A shared node is computed once per expression: expressions are graphs, and their trees can be
  // exponential.
  const bool shared = e.use_count() > 1 && !e.is<IntImm>() && !e.is<FloatImm>() && !e.is<tir::Var>();
  if (shared)
    if (auto it = frame_->memo.find(e.get()); it != frame_->memo.end()) return it->second;
  V v = compute(e);
  if (shared && frame_->memo.emplace(e.get(), v).second) frame_->memo_order.push_back(e.get());
  return v;
}

// ---------------------------------------------------------------- arithmetic
V Emitter::float_binary(uint32_t node, DataType t, V a, V b) {
  const char* fmod = t.bits == 64 ? "fmod" : "fmodf";
  V r = nullptr;
  switch (node) {
    case kind<Add>:
      r = b_.CreateFAdd(a, b);
      break;
    case kind<Sub>:
      r = b_.CreateFSub(a, b);
      break;
    case kind<Mul>:
      r = b_.CreateFMul(a, b);
      break;
    case kind<Div>:
      r = b_.CreateFDiv(a, b);
      break;
    case kind<Min>:
      r = math_.min(a, b);
      break;
    case kind<Max>:
      r = math_.max(a, b);
      break;
    case kind<Mod>:
      r = math_.libm(fmod, {a, b});
      break;
    case kind<FloorDiv>:
      r = b_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, b_.CreateFDiv(a, b));
      break;
    case kind<FloorMod>: {
      V m = math_.libm(fmod, {a, b}), zero = llvm::Constant::getNullValue(m->getType());
      V differ = b_.CreateXor(b_.CreateFCmpOLT(m, zero), b_.CreateFCmpOLT(b, zero));
      r = b_.CreateSelect(b_.CreateAnd(b_.CreateFCmpUNE(m, zero), differ), b_.CreateFAdd(m, b), m);
      break;
    }
    default:
      CHECK(false, "no such floating operation");
  }
  return r;
}

/// Div, Mod, FloorDiv, FloorMod of integers. A divisor that is zero counts as one, and the one quotient that
/// overflows wraps: no input may stop the process.
V Emitter::division(uint32_t node, const PrimExpr& ea, const PrimExpr& eb) {
  const DataType t = ea.dtype();
  const bool quotient = node == kind<Div> || node == kind<FloorDiv>,
             floor = node == kind<FloorDiv> || node == kind<FloorMod>;
  const Bounds ba = bounds_(ea), bb = bounds_(eb);
  V a = expr(ea), b = expr(eb);
  PrimExpr divisor = eb;
  if (const auto* s = eb.as<Broadcast>()) divisor = s->value;
  const auto known = as_int(divisor);
  if (known && *known > 0 && (*known & (*known - 1)) == 0 && (floor || ba.min >= 0)) {
    const int shift = __builtin_ctzll(uint64_t(*known));
    if (!quotient) return b_.CreateAnd(a, constant(t, *known - 1));
    return is_unsigned(t) || ba.min >= 0 ? b_.CreateLShr(a, constant(t, shift))
                                         : b_.CreateAShr(a, constant(t, shift));
  }
  if (bb.min <= 0 && bb.max >= 0) b = b_.CreateSelect(b_.CreateICmpEQ(b, constant(t, 0)), constant(t, 1), b);
  if (is_unsigned(t) || (ba.min >= 0 && bb.min >= 0)) {
    // Narrow division where 32 bits hold both: several times faster, and lanes stay in vectors.
    if (t.bits == 64 && ba.max <= UINT32_MAX && bb.max <= UINT32_MAX) {
      llvm::Type* narrow = type(DataType::uint(32, t.lanes));
      V x = b_.CreateTrunc(a, narrow), y = b_.CreateTrunc(b, narrow);
      return b_.CreateZExt(quotient ? b_.CreateUDiv(x, y) : b_.CreateURem(x, y), type(t));
    }
    return quotient ? b_.CreateUDiv(a, b) : b_.CreateURem(a, b);
  }
  if (bb.min <= -1 && bb.max >= -1) {
    const __int128 lowest = -(__int128(1) << (t.bits - 1));
    if (ba.min <= lowest) {
      V overflow = b_.CreateAnd(b_.CreateICmpEQ(b, constant(t, -1)),
                                b_.CreateICmpEQ(a, llvm::ConstantInt::getSigned(type(t), int64_t(lowest))));
      b = b_.CreateSelect(overflow, constant(t, 1), b);
    }
  }
  V q = quotient || floor ? b_.CreateSDiv(a, b) : nullptr;
  if (node == kind<Div>) return q;
  V r = q ? b_.CreateSub(a, b_.CreateMul(q, b)) : b_.CreateSRem(a, b);
  if (node == kind<Mod>) return r;
  V down = bb.min > 0 ? b_.CreateICmpSLT(r, constant(t, 0))
                      : b_.CreateAnd(b_.CreateICmpNE(r, constant(t, 0)),
                                     b_.CreateICmpSLT(b_.CreateXor(r, b), constant(t, 0)));
  if (quotient) return b_.CreateAdd(q, b_.CreateSExt(down, type(t)));
  return b_.CreateAdd(r, b_.CreateSelect(down, b, constant(t, 0)));
}

V Emitter::integer_binary(uint32_t node, const PrimExpr& ea, const PrimExpr& eb) {
  const DataType t = ea.dtype();
  if (node == kind<Div> || node == kind<Mod> || node == kind<FloorDiv> || node == kind<FloorMod>)
    return division(node, ea, eb);
  V a = expr(ea), b = expr(eb);
  switch (node) {
    case kind<Add>:
      return t.is_bool() ? b_.CreateOr(a, b) : b_.CreateAdd(a, b);
    case kind<Sub>:
      return t.is_bool() ? b_.CreateXor(a, b) : b_.CreateSub(a, b);
    case kind<Mul>:
      return t.is_bool() ? b_.CreateAnd(a, b) : b_.CreateMul(a, b);
    case kind<Min>:
      return is_unsigned(t) ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, a, b)
                            : b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, a, b);
    case kind<Max>:
      return is_unsigned(t) ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::umax, a, b)
                            : b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, a, b);
  }
  CHECK(false, "no such integer operation");
  return nullptr;
}

template <class T>
V Emitter::arithmetic(const T& n) {
  const DataType t = n.a.dtype();
  if (t.is_float()) {
    V a = expr(n.a);
    return float_binary(n.type_index, t.element(), a, expr(n.b));
  }
  if (t.is_int() && (n.type_index == kind<Add> || n.type_index == kind<Sub> || n.type_index == kind<Mul>)) {
    const Bounds b = bounds_(PrimExpr(Ref<T>(&n)));
    const __int128 half = __int128(1) << (t.bits - 1);
    if (b.min > -half || b.max < half - 1) {  // the type holds every value: say so
      V x = expr(n.a), y = expr(n.b);
      return n.type_index == kind<Add>   ? b_.CreateNSWAdd(x, y)
             : n.type_index == kind<Sub> ? b_.CreateNSWSub(x, y)
                                         : b_.CreateNSWMul(x, y);
    }
  }
  return integer_binary(n.type_index, n.a, n.b);
}

/// `ramp < scalar` and its kin, the masks of loop remainders: decided in 32 bits after one clamped
/// difference.
V Emitter::ramp_compare(uint32_t node, const PrimExpr& ea, const PrimExpr& eb) {
  const DataType t = ea.dtype();
  if (!t.is_vector() || t.bits != 64 || !t.is_int() || (node != kind<LT> && node != kind<LE>)) return nullptr;
  auto a = as_affine(ea), b = as_affine(eb);
  if (!a || !b || !is_one(a->stride) || !is_zero(b->stride)) return nullptr;
  V limit = b_.CreateBinaryIntrinsic(llvm::Intrinsic::ssub_sat, index(b->base),
                                     index(a->base));  // lanes below it are on
  V d = b_.CreateBinaryIntrinsic(
      llvm::Intrinsic::smin, b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, limit, i64(-1)), i64(t.lanes));
  auto* narrow = llvm::FixedVectorType::get(b_.getInt32Ty(), t.lanes);
  V edge = splat(b_.CreateTrunc(d, b_.getInt32Ty()), t.lanes), lanes = step(narrow);
  return node == kind<LT> ? b_.CreateICmpSLT(lanes, edge) : b_.CreateICmpSLE(lanes, edge);
}

template <class T>
V Emitter::comparison(const T& n) {
  using P = llvm::CmpInst;
  const DataType t = n.a.dtype();
  const uint32_t node = n.type_index;
  if (V mask = ramp_compare(node, n.a, n.b)) return mask;
  if (node == kind<GT>) {
    if (V mask = ramp_compare(kind<LT>, n.b, n.a)) return mask;
  }
  if (node == kind<GE>) {
    if (V mask = ramp_compare(kind<LE>, n.b, n.a)) return mask;
  }
  V a = expr(n.a), b = expr(n.b);
  const int which = node == kind<EQ>   ? 0
                    : node == kind<NE> ? 1
                    : node == kind<LT> ? 2
                    : node == kind<LE> ? 3
                    : node == kind<GT> ? 4
                                       : 5;
  if (t.is_float()) {
    static constexpr P::Predicate table[] = {P::FCMP_OEQ, P::FCMP_UNE, P::FCMP_OLT,
                                             P::FCMP_OLE, P::FCMP_OGT, P::FCMP_OGE};
    return b_.CreateFCmp(table[which], a, b);
  }
  static constexpr P::Predicate signed_table[] = {P::ICMP_EQ,  P::ICMP_NE,  P::ICMP_SLT,
                                                  P::ICMP_SLE, P::ICMP_SGT, P::ICMP_SGE};
  static constexpr P::Predicate unsigned_table[] = {P::ICMP_EQ,  P::ICMP_NE,  P::ICMP_ULT,
                                                    P::ICMP_ULE, P::ICMP_UGT, P::ICMP_UGE};
  return b_.CreateICmp(is_unsigned(t) || t.is_handle() ? unsigned_table[which] : signed_table[which], a, b);
}

/// What the target has an instruction for; the rest is integer arithmetic by now.
V Emitter::narrow_cast(V v, DataType from, DataType to) {
  const DataType f = from.element(), t = to.element(), small = is_narrow(f) ? f : t;
  const bool f16s = small == tenon::f16, wide = f == f32 || t == f32;
  if (!wide || !(f16s ? converts_f16(target_) : t == DataType::bfloat16() && rounds_to_bf16(target_)))
    fail("T0801",
         fmt::format("code generation cannot express a conversion of {} to {}", to_string(f), to_string(t)),
         "kernel " + symbol_, "the passes *_compute_legalize and *_storage_legalize replace it");
  // Not one with another conversion: each rounds.
  llvm::IRBuilderBase::FastMathFlagGuard guard(b_);
  b_.clearFastMathFlags();
  llvm::Type* number = f16s ? b_.getHalfTy() : b_.getBFloatTy();
  if (auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(v->getType()))
    number = llvm::FixedVectorType::get(number, vector->getNumElements());
  if (is_narrow(f)) return b_.CreateFPExt(b_.CreateBitCast(v, number), type(to));
  return b_.CreateBitCast(b_.CreateFPTrunc(v, number), type(to));
}

V Emitter::cast(V v, DataType from, DataType to) {
  if (v->getType()->isVectorTy() == false && to.is_vector())
    return splat(cast(v, from.element(), to.element()), to.lanes);
  const DataType f = from.element(), t = to.element();
  if (f == t) return v;
  if (is_narrow(f) || is_narrow(t)) return narrow_cast(v, from, to);
  llvm::Type* out = type(to);
  if (f.is_float()) {
    if (t.is_bool()) return b_.CreateFCmpUNE(v, llvm::Constant::getNullValue(v->getType()));
    if (t.is_float()) return t == f64 ? b_.CreateFPExt(v, out) : b_.CreateFPTrunc(v, out);
    if (t.bits < 32 || t == i32) return saturated(v, from, to);
    return b_.CreateIntrinsic(t.is_uint() ? llvm::Intrinsic::fptoui_sat : llvm::Intrinsic::fptosi_sat,
                              {out, v->getType()}, {v});
  }
  if (t.is_bool()) return b_.CreateICmpNE(v, llvm::Constant::getNullValue(v->getType()));
  if (t.is_float()) return is_unsigned(f) ? b_.CreateUIToFP(v, out) : b_.CreateSIToFP(v, out);
  if (t.is_handle()) return b_.CreateIntToPtr(v, out);
  if (f.is_handle()) return b_.CreatePtrToInt(v, out);
  return is_unsigned(f) ? b_.CreateZExtOrTrunc(v, out) : b_.CreateSExtOrTrunc(v, out);
}

// ---------------------------------------------------------------- indices and memory
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
  return is_unsigned(e.dtype()) ? b_.CreateZExtOrTrunc(v, out) : b_.CreateSExtOrTrunc(v, out);
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

V Emitter::load(const BufferLoad& n) {
  const PrimExpr at = flat_index(n.buffer, n.indices);
  const DataType t = n.dtype;
  llvm::Type* element = memory_type(t);
  const tir::Var* data = n.buffer->data.get();
  const llvm::Align align(uint64_t(t.element().bytes()));
  auto read = [&](llvm::Type* what, V p) {
    auto* l = b_.CreateAlignedLoad(what, p, align);
    decorate(l, data);
    return l;
  };
  if (t.is_scalar()) {
    if (!n.predicate || is_const_int(n.predicate, 1))
      return memory_to_value(read(element, pointer(n.buffer, index(at))), t);
    V condition = expr(n.predicate);
    auto* from = b_.GetInsertBlock();
    auto* then = block("load");
    auto* next = block("loaded");
    b_.CreateCondBr(condition, then, next);
    b_.SetInsertPoint(then);
    const size_t before = mark();
    V v = read(element, pointer(n.buffer, index(at)));
    forget(before);
    auto* then_end = b_.GetInsertBlock();
    b_.CreateBr(next);
    b_.SetInsertPoint(next);
    auto* phi = b_.CreatePHI(element, 2);
    phi->addIncoming(llvm::Constant::getNullValue(element), from);
    phi->addIncoming(v, then_end);
    return memory_to_value(phi, t);
  }
  const int64_t lanes = t.lanes;
  auto* vector = llvm::FixedVectorType::get(element, unsigned(lanes));
  V mask = n.predicate ? expr(n.predicate) : nullptr;
  if (mask && !mask->getType()->isVectorTy()) mask = splat(mask, lanes);
  if (auto* c = llvm::dyn_cast_or_null<llvm::Constant>(mask); c && c->isAllOnesValue()) mask = nullptr;
  V zero = llvm::Constant::getNullValue(vector);
  auto affine = as_affine(at);
  const auto stride = affine ? as_int(affine->stride) : std::nullopt;
  if (stride == 1 || stride == -1) {
    PrimExpr first =
        *stride == 1 ? affine->base : affine->base - PrimExpr::int_imm(lanes - 1, affine->base.dtype());
    if (mask && *stride == -1) mask = b_.CreateVectorReverse(mask);
    V p = pointer(n.buffer, index(first)), v;
    if (mask) {
      auto* call = b_.CreateMaskedLoad(vector, p, align, mask, zero);
      decorate(call, data);
      v = call;
    } else {
      v = read(vector, p);
    }
    if (*stride == -1) v = b_.CreateVectorReverse(v);
    return memory_to_value(v, t);
  }
  if (stride == 0 && !mask)
    return memory_to_value(splat(read(element, pointer(n.buffer, index(affine->base))), lanes), t);
  // Small strides: vectors that lie side by side, the last ending at the last element, and shuffles.
  if (stride && *stride >= 2 && *stride <= 4 && lanes >= 4 && lanes <= 64 &&
      (!mask || (t.bits >= 32 && target_->has("avx2")))) {
    V first = index(affine->base), v = nullptr;
    const int64_t last = (lanes - 1) * *stride + 1 - lanes;
    for (int64_t part = 0, next = 0; part < *stride; ++part) {
      const int64_t start = std::min(part * lanes, last);
      V p = pointer(n.buffer, b_.CreateNSWAdd(first, i64(start))), here;
      if (mask) {  // only what some lane wants is read
        llvm::SmallVector<int> wanted;
        for (int64_t k = 0; k < lanes; ++k)
          wanted.push_back(int((start + k) % *stride == 0 ? (start + k) / *stride : lanes));
        V none = llvm::Constant::getNullValue(mask->getType());
        auto* call = b_.CreateMaskedLoad(vector, p, align, b_.CreateShuffleVector(mask, none, wanted), zero);
        decorate(call, data);
        here = call;
      } else {
        here = read(vector, p);
      }
      llvm::SmallVector<int> pick;
      for (int64_t lane = 0; lane < lanes; ++lane) {
        const int64_t place = lane * *stride - start;
        pick.push_back(int(lane >= next && place < lanes ? (v ? lanes : 0) + place : lane));
      }
      while (next < lanes && next * *stride - start < lanes) ++next;
      v = v ? b_.CreateShuffleVector(v, here, pick) : b_.CreateShuffleVector(here, pick);
    }
    return memory_to_value(v, t);
  }
  // Wide gathers are worth one instruction; narrow or strided ones are loads and inserts.
  const bool gathers = target_->has("avx512f") && t.bits >= 32 && lanes >= 8;
  if (affine && !mask && !gathers && lanes <= 64) {
    V first = index(affine->base), by = index(affine->stride), v = llvm::PoisonValue::get(vector);
    for (int64_t lane = 0; lane < lanes; ++lane) {
      V p = pointer(n.buffer, b_.CreateNSWAdd(first, b_.CreateNSWMul(by, i64(lane))));
      v = b_.CreateInsertElement(v, read(element, p), uint64_t(lane));
    }
    return memory_to_value(v, t);
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
    for (int64_t lane = 0; lane < lanes; ++lane)
      v = b_.CreateInsertElement(v, read(element, b_.CreateExtractElement(pointers, uint64_t(lane))),
                                 uint64_t(lane));
    return memory_to_value(v, t);
  }
  auto* call = b_.CreateMaskedGather(vector, pointers, align, mask, zero);
  decorate(call, data);
  return memory_to_value(call, t);
}

// ---------------------------------------------------------------- nodes
V Emitter::compute(const PrimExpr& e) {
  return match<V>(
      e,
      [&](const IntImm& n) -> V {
        return n.dtype.is_bool()
                   ? (V)b_.getInt1(n.value != 0)
                   : llvm::ConstantInt::get(type(n.dtype), uint64_t(n.value), n.dtype.is_int(), true);
      },
      [&](const FloatImm& n) -> V {
        if (!is_narrow(n.dtype)) return llvm::ConstantFP::get(type(n.dtype), n.value);
        NDArray bits = NDArray::empty({}, n.dtype);
        bits.set_element(0, n.value);
        return llvm::ConstantInt::get(
            type(n.dtype), n.dtype.bits == 16 ? *bits.as_ptr<uint16_t>() : *bits.as_ptr<uint8_t>());
      },
      [&](const tir::StringImm&) -> V {
        CHECK(false, "a string outside a call");
        return nullptr;
      },
      [&](const tir::Var& n) -> V {
        auto it = frame_->values.find(&n);
        CHECK(it != frame_->values.end(),
              fmt::format("kernel {}: variable {} is not defined", symbol_, n.name));
        return it->second;
      },
      [&](const Add& n) { return arithmetic(n); }, [&](const Sub& n) { return arithmetic(n); },
      [&](const Mul& n) { return arithmetic(n); }, [&](const Div& n) { return arithmetic(n); },
      [&](const Mod& n) { return arithmetic(n); }, [&](const FloorDiv& n) { return arithmetic(n); },
      [&](const FloorMod& n) { return arithmetic(n); }, [&](const Min& n) { return arithmetic(n); },
      [&](const Max& n) { return arithmetic(n); }, [&](const EQ& n) { return comparison(n); },
      [&](const NE& n) { return comparison(n); }, [&](const LT& n) { return comparison(n); },
      [&](const LE& n) { return comparison(n); }, [&](const GT& n) { return comparison(n); },
      [&](const GE& n) { return comparison(n); },
      [&](const And& n) -> V {
        V a = expr(n.a);
        return b_.CreateAnd(a, expr(n.b));
      },
      [&](const Or& n) -> V {
        V a = expr(n.a);
        return b_.CreateOr(a, expr(n.b));
      },
      [&](const Not& n) -> V { return b_.CreateNot(expr(n.a)); },
      [&](const Select& n) -> V {
        V c = expr(n.condition), t = expr(n.true_value);
        return b_.CreateSelect(c, t, expr(n.false_value));
      },
      [&](const Cast& n) -> V {
        const DataType from = n.value.dtype();
        const bool narrows = from.is_float() && !is_narrow(from) && n.dtype.is_integer() && n.dtype.bits < 32;
        return narrows ? float_to_narrow_integer(n.value, n.dtype) : cast(expr(n.value), from, n.dtype);
      },
      [&](const BufferLoad& n) -> V { return load(n); },
      [&](const Ramp& n) -> V {
        V base = expr(n.base), stride = expr(n.stride);
        return b_.CreateAdd(splat(base, n.lanes), b_.CreateMul(splat(stride, n.lanes), step(type(n.dtype))));
      },
      [&](const Broadcast& n) -> V { return splat(expr(n.value), n.lanes); },
      [&](const Shuffle& n) -> V {
        std::vector<std::pair<V, int>> lanes;
        for (const PrimExpr& x : n.vectors) {
          V v = expr(x);
          for (int k = 0; k < x.dtype().lanes; ++k) lanes.emplace_back(v, k);
        }
        auto pick = [&](int64_t at) -> V {
          auto [v, k] = lanes.at(size_t(at));
          return v->getType()->isVectorTy() ? b_.CreateExtractElement(v, uint64_t(k)) : v;
        };
        if (n.indices.size() == 1) return pick(n.indices[0]);
        if (n.vectors.size() <= 2 && n.vectors[0].dtype().is_vector() &&
            n.vectors[0].dtype() == n.vectors.back().dtype()) {
          llvm::SmallVector<int, 16> order;
          for (size_t k = 0; k < n.indices.size(); ++k) order.push_back(int(n.indices[k]));
          V a = expr(n.vectors[0]),
            b = n.vectors.size() == 2 ? expr(n.vectors[1]) : llvm::PoisonValue::get(a->getType());
          return b_.CreateShuffleVector(a, b, order);
        }
        V out = llvm::PoisonValue::get(type(n.dtype));
        for (size_t k = 0; k < n.indices.size(); ++k)
          out = b_.CreateInsertElement(out, pick(n.indices[k]), uint64_t(k));
        return out;
      },
      [&](const Let& n) -> V {
        frame_->values[n.var.get()] = expr(n.value);
        if (n.var->dtype.is_integer()) bounds_.set(n.var.get(), bounds_(n.value));
        const size_t before = mark();
        V v = expr(n.body);
        forget(before);
        return v;
      },
      [&](const tir::Call& n) -> V { return call(n); },
      [&](const PrimExprNode& n) -> V {
        CHECK(false, "expression not in the lowered form: " + std::string(type_of(&n)->key));
        return nullptr;
      });
}

V Emitter::if_then_else(const tir::Call& n) {
  if (auto known = as_int(n.args[0])) return expr(n.args[*known ? 1 : 2]);
  V condition = expr(n.args[0]);
  CHECK(!condition->getType()->isVectorTy(),
        "tir.if_then_else needs a scalar condition: vectorize_loop keeps such loops serial");
  auto* then = block("if_true");
  auto* otherwise = block("if_false");
  auto* next = block("if_done");
  b_.CreateCondBr(condition, then, otherwise);
  auto arm = [&](llvm::BasicBlock* at, const PrimExpr& e) {
    b_.SetInsertPoint(at);
    const size_t before = mark();
    V v = expr(e);
    forget(before);
    auto* end = b_.GetInsertBlock();
    b_.CreateBr(next);
    return std::pair(v, end);
  };
  auto [t, t_end] = arm(then, n.args[1]);
  auto [f, f_end] = arm(otherwise, n.args[2]);
  b_.SetInsertPoint(next);
  auto* phi = b_.CreatePHI(t->getType(), 2);
  phi->addIncoming(t, t_end);
  phi->addIncoming(f, f_end);
  return phi;
}

/// The rare value is computed behind a branch that is taken when some lane asks for it.
V Emitter::select_rare(const tir::Call& n) {
  V condition = expr(n.args[0]), common = expr(n.args[2]);
  V any = condition->getType()->isVectorTy() ? b_.CreateOrReduce(condition) : condition;
  auto* from = b_.GetInsertBlock();
  auto* rare = block("rare");
  auto* next = block("common");
  b_.CreateCondBr(any, rare, next, llvm::MDBuilder(module_.getContext()).createUnlikelyBranchWeights());
  b_.SetInsertPoint(rare);
  const size_t before = mark();
  V v = b_.CreateSelect(condition, expr(n.args[1]), common);
  forget(before);
  auto* end = b_.GetInsertBlock();
  b_.CreateBr(next);
  b_.SetInsertPoint(next);
  auto* phi = b_.CreatePHI(common->getType(), 2);
  phi->addIncoming(common, from);
  phi->addIncoming(v, end);
  return phi;
}

/// Lanes i and i + n/2 are combined until one is left: the order is fixed, so the sum is too.
V Emitter::reduce_lanes(const std::string& op, const PrimExpr& e) {
  const DataType t = e.dtype();
  V v = expr(e);
  auto combine = [&](V a, V b) -> V {
    const uint32_t node = op == "tir.vector_reduce_add"   ? kind<Add>
                          : op == "tir.vector_reduce_max" ? kind<Max>
                                                          : kind<Min>;
    if (t.is_float()) return float_binary(node, t.element(), a, b);
    if (node == kind<Add>) return t.is_bool() ? b_.CreateOr(a, b) : b_.CreateAdd(a, b);
    const bool max = node == kind<Max>;
    return b_.CreateBinaryIntrinsic(is_unsigned(t) ? (max ? llvm::Intrinsic::umax : llvm::Intrinsic::umin)
                                                   : (max ? llvm::Intrinsic::smax : llvm::Intrinsic::smin),
                                    a, b);
  };
  for (int lanes = t.lanes; lanes > 1;) {
    const int half = lanes / 2;
    if (half == 1 && lanes == 2)
      return combine(b_.CreateExtractElement(v, uint64_t(0)), b_.CreateExtractElement(v, uint64_t(1)));
    llvm::SmallVector<int, 32> low, high;
    for (int k = 0; k < half; ++k) {
      low.push_back(k);
      high.push_back(k + half);
    }
    V a = b_.CreateShuffleVector(v, low), b = b_.CreateShuffleVector(v, high), sum = combine(a, b);
    if (lanes % 2) {
      V last = b_.CreateExtractElement(v, uint64_t(lanes - 1));
      llvm::SmallVector<int, 32> grow;
      for (int k = 0; k < half; ++k) grow.push_back(k);
      grow.push_back(half == 1 ? 0 : half);
      if (half == 1)
        sum = b_.CreateInsertElement(
            llvm::PoisonValue::get(llvm::FixedVectorType::get(sum->getType()->getScalarType(), 2)),
            b_.CreateExtractElement(sum, uint64_t(0)), uint64_t(0));
      else
        sum = b_.CreateShuffleVector(sum, llvm::PoisonValue::get(sum->getType()), grow);
      sum = b_.CreateInsertElement(sum, last, uint64_t(half));
    }
    v = sum;
    lanes = half + lanes % 2;
  }
  return v->getType()->isVectorTy() ? b_.CreateExtractElement(v, uint64_t(0)) : v;
}

}  // namespace tenon::codegen
