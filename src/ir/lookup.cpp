// SPDX-License-Identifier: Apache-2.0
#include "ir/lookup.h"

#include "base/error.h"
#include "ir/tir.h"

namespace tenon::tir {

PrimExpr lookup(const PrimExpr& byte, std::span<const uint8_t> table, DataType result) {
  Array<PrimExpr> args{byte};
  for (int w = 0; w < kLookupWords; ++w) {
    uint32_t word = 0;
    for (int k = 0; k < 4; ++k) word |= uint32_t(table[size_t(4 * w + k)]) << (8 * k);
    args.push_back(PrimExpr::int_imm(int32_t(word), i32));
  }
  return call(result.with_lanes(byte.dtype().lanes), "tir.lookup", args);
}

std::array<uint8_t, kByteValues> lookup_table(const Call& call) {
  std::array<uint8_t, kByteValues> out;
  for (size_t i = 0; i < out.size(); ++i) {
    const auto word = as_int(call.args[1 + i / 4]);
    CHECK(word, "a table of constants");
    out[i] = uint8_t(uint32_t(*word) >> (8 * (i % 4)));
  }
  return out;
}

}  // namespace tenon::tir
