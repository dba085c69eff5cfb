// SPDX-License-Identifier: Apache-2.0
// The table of tensor-program intrinsics: what `tir::Call::op` may name.
#pragma once
#include <functional>

#include "ir/prim_expr.h"

namespace tenon::tir {

struct Intrinsic {
  std::string_view name;  ///< "tir.exp"
  int arguments = 1;      ///< -1: any number
  bool pure = true;       ///< no effect, and the value depends on the arguments only
  bool vector = true;     ///< works lane by lane
  std::string_view doc;
  double (*evaluate)(const double* args) =
      nullptr;           ///< meaning over doubles of a floating scalar, when it has one
  bool chooses = false;  ///< the first argument decides which of the others are evaluated
};

/// The entry, or null. Floating unary: exp exp2 exp10 log log2 log10 log1p expm1 sqrt rsqrt sin cos tan asin
/// acos atan sinh cosh tanh asinh acosh atanh erf sigmoid floor ceil round(half to even) trunc abs(also ints)
/// isnan isinf isfinite; binary: pow atan2 fmod copysign hypot ldexp nextafter; fma (three); bits: shift_left
/// shift_right bitwise_and bitwise_or bitwise_xor bitwise_not popcount clz; if_then_else (lazy), select_rare,
/// exact, likely, reinterpret, call_extern, call_prim_func, address_of, dot, vector_reduce_add/max/min,
/// prefetch, ret, break_loop, continue_loop, assume, undef; atomics, and what threads of a GPU do together.
const Intrinsic* find_intrinsic(std::string_view name);
/// Does a condition decide which of its arguments are evaluated?
bool chooses(const Call& call);
std::span<const Intrinsic> all_intrinsics();

/// How many neighbours each lane of `tir.dot` sums; 0 when its three arguments do not fit: an accumulator of
/// i32 over integers of 8 or 16 bits, or of f32 over bf16 or f16, and operands with that many values for each
/// lane, or for all.
int64_t dot_group(const PrimExpr& accumulator, const PrimExpr& a, const PrimExpr& b);

/// Wraps to the width of an integer or boolean type.
int64_t wrap(int64_t v, DataType t);

// Shorthands over `call`.
PrimExpr exp(const PrimExpr& x);
PrimExpr log(const PrimExpr& x);
PrimExpr sqrt(const PrimExpr& x);
PrimExpr tanh(const PrimExpr& x);
PrimExpr sigmoid(const PrimExpr& x);
PrimExpr erf(const PrimExpr& x);
PrimExpr abs(const PrimExpr& x);
PrimExpr pow(const PrimExpr& x, const PrimExpr& y);
/// Largest and smallest finite value (integers: the extremes), and the infinities of a floating type.
PrimExpr max_value(DataType dtype);
PrimExpr min_value(DataType dtype);
PrimExpr infinity(DataType dtype);

}  // namespace tenon::tir
