// SPDX-License-Identifier: Apache-2.0
// Arithmetic, comparisons and conversions by data type; lanes of a vector combined.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/llvm/emitter.h"

namespace tenon::codegen {

using namespace tir;
using V = llvm::Value*;
namespace {
template <class T>
constexpr uint32_t kind = PrimExprNodes::index_of<T>();
bool is_unsigned(DataType t) { return t.is_uint() || t.is_bool(); }
}  // namespace

V Emitter::float_binary(uint32_t node, DataType t, V a, V b) {
  const char* fmod = t.bits == 64 ? "fmod" : "fmodf";
  switch (node) {
    case kind<Add>:
      return b_.CreateFAdd(a, b);
    case kind<Sub>:
      return b_.CreateFSub(a, b);
    case kind<Mul>:
      return b_.CreateFMul(a, b);
    case kind<Div>:
      return b_.CreateFDiv(a, b);
    case kind<Min>:
      return math_.min(a, b);
    case kind<Max>:
      return math_.max(a, b);
    case kind<Mod>:
      return math_.libm(fmod, {a, b});
    case kind<FloorDiv>:
      return b_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, b_.CreateFDiv(a, b));
    case kind<FloorMod>: {
      V m = math_.libm(fmod, {a, b}), zero = llvm::Constant::getNullValue(m->getType());
      V differ = b_.CreateXor(b_.CreateFCmpOLT(m, zero), b_.CreateFCmpOLT(b, zero));
      return b_.CreateSelect(b_.CreateAnd(b_.CreateFCmpUNE(m, zero), differ), b_.CreateFAdd(m, b), m);
    }
  }
  CHECK(false, "no such floating operation");
  return nullptr;
}

/// a / b towards zero. Lanes whose divisors are no constants are divided as floats: processors divide vectors
/// of those alone, and twice the digits of the integers give every quotient. It fits the type, and b is not
/// zero.
V Emitter::lane_quotient(DataType t, V a, V b, bool is_unsigned) {
  constexpr int kWordBits = 32, kHalfBits = 16;
  const bool in_floats =
      t.is_vector() && t.bits <= kWordBits && !llvm::isa<llvm::Constant>(b) && !is_riscv(target_);
  if (!in_floats) return is_unsigned ? b_.CreateUDiv(a, b) : b_.CreateSDiv(a, b);
  const bool half = t.bits <= kHalfBits;
  llvm::Type *real = type((half ? f32 : f64).with_lanes(t.lanes)), *word = type(i32.with_lanes(t.lanes));
  auto as_float = [&](V v) {
    if (!half) return is_unsigned ? b_.CreateUIToFP(v, real) : b_.CreateSIToFP(v, real);
    return b_.CreateSIToFP(is_unsigned ? b_.CreateZExt(v, word) : b_.CreateSExt(v, word), real);
  };
  V q = b_.CreateFDiv(as_float(a), as_float(b));
  if (half) return b_.CreateTrunc(b_.CreateFPToSI(q, word), type(t));
  return is_unsigned ? b_.CreateFPToUI(q, type(t)) : b_.CreateFPToSI(q, type(t));
}
V Emitter::lane_remainder(DataType t, V a, V b, bool is_unsigned) {
  if (!t.is_vector() || t.bits > 32) return is_unsigned ? b_.CreateURem(a, b) : b_.CreateSRem(a, b);
  return b_.CreateSub(a, b_.CreateMul(lane_quotient(t, a, b, is_unsigned), b));
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
      const DataType word = DataType::uint(32, t.lanes);
      V x = b_.CreateTrunc(a, type(word)), y = b_.CreateTrunc(b, type(word));
      return b_.CreateZExt(quotient ? lane_quotient(word, x, y, true) : lane_remainder(word, x, y, true),
                           type(t));
    }
    return quotient ? lane_quotient(t, a, b, true) : lane_remainder(t, a, b, true);
  }
  if (bb.min <= -1 && bb.max >= -1) {
    const __int128 lowest = -(__int128(1) << (t.bits - 1));
    if (ba.min <= lowest) {
      V overflow = b_.CreateAnd(b_.CreateICmpEQ(b, constant(t, -1)),
                                b_.CreateICmpEQ(a, llvm::ConstantInt::getSigned(type(t), int64_t(lowest))));
      b = b_.CreateSelect(overflow, constant(t, 1), b);
    }
  }
  V q = quotient || floor ? lane_quotient(t, a, b, false) : nullptr;
  if (node == kind<Div>) return q;
  V r = q ? b_.CreateSub(a, b_.CreateMul(q, b)) : lane_remainder(t, a, b, false);
  if (node == kind<Mod>) return r;
  V down = bb.min > 0 ? b_.CreateICmpSLT(r, constant(t, 0))
                      : b_.CreateAnd(b_.CreateICmpNE(r, constant(t, 0)),
                                     b_.CreateICmpSLT(b_.CreateXor(r, b), constant(t, 0)));
  if (quotient) return b_.CreateAdd(q, b_.CreateSExt(down, type(t)));
  return b_.CreateAdd(r, b_.CreateSelect(down, b, constant(t, 0)));
}

V Emitter::integer_binary(uint32_t node, DataType t, V a, V b) {
  switch (node) {
    case kind<Add>:
      return t.is_bool() ? b_.CreateOr(a, b) : b_.CreateAdd(a, b);
    case kind<Sub>:
      return t.is_bool() ? b_.CreateXor(a, b) : b_.CreateSub(a, b);
    case kind<Mul>:
      return t.is_bool() ? b_.CreateAnd(a, b) : b_.CreateMul(a, b);
    case kind<Min>:
      return b_.CreateBinaryIntrinsic(is_unsigned(t) ? llvm::Intrinsic::umin : llvm::Intrinsic::smin, a, b);
    case kind<Max>:
      return b_.CreateBinaryIntrinsic(is_unsigned(t) ? llvm::Intrinsic::umax : llvm::Intrinsic::smax, a, b);
  }
  CHECK(false, "no such integer operation");
  return nullptr;
}

V Emitter::arithmetic(const PrimExpr& e, const PrimExpr& ea, const PrimExpr& eb) {
  const DataType t = ea.dtype();
  const uint32_t node = e->type_index;
  if (t.is_float()) {
    V a = expr(ea);
    return float_binary(node, t.element(), a, expr(eb));
  }
  if (t.is_int() && (node == kind<Add> || node == kind<Sub> || node == kind<Mul>)) {
    const Bounds b = bounds_(e);
    const __int128 half = __int128(1) << (t.bits - 1);
    if (b.min > -half || b.max < half - 1) {  // the type holds every value: say so
      V x = expr(ea), y = expr(eb);
      return node == kind<Add>   ? b_.CreateNSWAdd(x, y)
             : node == kind<Sub> ? b_.CreateNSWSub(x, y)
                                 : b_.CreateNSWMul(x, y);
    }
  }
  if (node == kind<Div> || node == kind<Mod> || node == kind<FloorDiv> || node == kind<FloorMod>)
    return division(node, ea, eb);
  V a = expr(ea), b = expr(eb);
  return integer_binary(node, t, a, b);
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

V Emitter::comparison(uint32_t node, const PrimExpr& ea, const PrimExpr& eb) {
  using P = llvm::CmpInst;
  if (V mask = ramp_compare(node, ea, eb)) return mask;
  if (node == kind<GT> || node == kind<GE>)
    if (V mask = ramp_compare(node == kind<GT> ? kind<LT> : kind<LE>, eb, ea)) return mask;
  struct Predicates {
    uint32_t node;
    P::Predicate of_floats, of_signed, of_unsigned;
  };
  static constexpr Predicates table[] = {
      {kind<EQ>, P::FCMP_OEQ, P::ICMP_EQ, P::ICMP_EQ},   {kind<NE>, P::FCMP_UNE, P::ICMP_NE, P::ICMP_NE},
      {kind<LT>, P::FCMP_OLT, P::ICMP_SLT, P::ICMP_ULT}, {kind<LE>, P::FCMP_OLE, P::ICMP_SLE, P::ICMP_ULE},
      {kind<GT>, P::FCMP_OGT, P::ICMP_SGT, P::ICMP_UGT}, {kind<GE>, P::FCMP_OGE, P::ICMP_SGE, P::ICMP_UGE}};
  const Predicates& p = *std::ranges::find(table, node, &Predicates::node);
  const DataType t = ea.dtype();
  V a = expr(ea), b = expr(eb);
  if (t.is_float()) return b_.CreateFCmp(p.of_floats, a, b);
  return b_.CreateICmp(is_unsigned(t) || t.is_handle() ? p.of_unsigned : p.of_signed, a, b);
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
    if (t.bits < 32 || t == i32 || t == DataType::int_(64)) return saturated(v, from, to);
    return b_.CreateIntrinsic(t.is_uint() ? llvm::Intrinsic::fptoui_sat : llvm::Intrinsic::fptosi_sat,
                              {out, v->getType()}, {v});
  }
  if (t.is_bool()) return b_.CreateICmpNE(v, llvm::Constant::getNullValue(v->getType()));
  if (t.is_float()) return is_unsigned(f) ? b_.CreateUIToFP(v, out) : b_.CreateSIToFP(v, out);
  if (t.is_handle()) return b_.CreateIntToPtr(v, out);
  if (f.is_handle()) return b_.CreatePtrToInt(v, out);
  return is_unsigned(f) ? b_.CreateZExtOrTrunc(v, out) : b_.CreateSExtOrTrunc(v, out);
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
    return integer_binary(node, t, a, b);
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
