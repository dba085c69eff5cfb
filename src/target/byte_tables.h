// SPDX-License-Identifier: Apache-2.0
// Whether a target looks bytes up in a table of 256 many at a time.
#pragma once
#include "target/target_kind.h"

namespace tenon {

/// Words of 16 bits are picked out of two registers by one instruction, so that two of them serve 32 bytes.
inline bool looks_up_bytes(const Target& t) { return selects_instructions(t) && t->has("avx512bw"); }

}  // namespace tenon
