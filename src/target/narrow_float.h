// SPDX-License-Identifier: Apache-2.0
// Which instructions over floats of 16 bits a target record has. The legalisation of tensor programs leaves
// what they do as it is, and code generation uses nothing else.
#pragma once
#include "target/matrix_registers.h"

namespace tenon {

inline bool is_arm(const Target& t) { return t->triple.starts_with("aarch64"); }
inline bool is_riscv(const Target& t) { return t->triple.starts_with("riscv64"); }
inline bool is_x86(const Target& t) { return t->triple.empty() || t->triple.starts_with("x86_64"); }

/// float16 from and to float32, every value exact or rounded once.
inline bool converts_f16(const Target& t) {
  return selects_instructions(t) && (is_arm(t) || t->has("f16c") || t->has("avx512f"));
}
/// float32 rounded to bfloat16.
inline bool rounds_to_bf16(const Target& t) {
  return selects_instructions(t) &&
         (is_arm(t) ? t->has("bf16") : t->has("avx512_bf16") && t->has("avx512vl"));
}
/// Does that instruction take subnormals for zero?
inline bool bf16_rounding_flushes(const Target& t) { return !is_arm(t); }
/// `lanes` float32 sums of two products of bfloat16 each.
inline bool multiplies_bf16(const Target& t, int64_t lanes) {
  if (!selects_instructions(t)) return false;
  if (is_arm(t)) return t->has("bf16") && lanes == 4;
  return t->has("avx512_bf16") && (lanes == 16 || ((lanes == 4 || lanes == 8) && t->has("avx512vl")));
}

/// Is that faster than multiply-adds of float32, of which it does two in each lane?
inline bool bf16_dots_pay(const Target& t) {
  const int64_t lanes = is_arm(t) ? 4 : t->lanes(f32);
  return multiplies_bf16(t, lanes) && 2 * t->bf16_dots > double(t->fma_ports);
}
/// Are contractions of bfloat16 faster than those of float32, by dot products or in matrix registers?
inline bool bf16_products_pay(const Target& t) {
  return bf16_dots_pay(t) || multiplies_matrices(t, DataType::bfloat16(), DataType::bfloat16());
}

}  // namespace tenon
