// SPDX-License-Identifier: Apache-2.0
// renormalize_split_pattern
//   before: B[i % 8192 // 16], B[i % 64 % 16], B[i // 4 // 8]
//   after:  B[i // 16 % 512], B[i % 16], B[i // 32]
// Digits of a split index have one form, a quotient inside a remainder, so that equal ones look equal.
// Needs: int64 or int32 indices. Keeps: every value.
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;

static IRModule renormalize_split_pattern(IRModule module, PassContext&) {
  return tensor_detail::map_bodies(module, [](const std::string&, const PrimFunc& f) {
    return rewrite(
        f->body,
        [](const FloorDiv& n) -> PrimExpr {
          const auto c = as_int(n.b);
          if (!c || *c <= 0) return {};
          if (const auto* m = n.a.as<FloorMod>())
            if (auto d = as_int(m->b); d && *d > 0 && *d % *c == 0)
              return floormod(floordiv(m->a, n.b), PrimExpr::int_imm(*d / *c, n.dtype));
          if (const auto* q = n.a.as<FloorDiv>())
            if (auto d = as_int(q->b); d && *d > 0 && *d <= INT32_MAX / *c)
              return floordiv(q->a, PrimExpr::int_imm(*d * *c, n.dtype));
          return {};
        },
        [](const FloorMod& n) -> PrimExpr {
          const auto c = as_int(n.b);
          const auto* m = n.a.as<FloorMod>();
          const auto d = m ? as_int(m->b) : std::nullopt;
          return c && d && *c > 0 && *d > 0 && *d % *c == 0 ? floormod(m->a, n.b) : PrimExpr();
        });
  });
}

const Pass& renormalize_split_pattern_pass = register_pass({
    .name = "renormalize_split_pattern",
    .run = renormalize_split_pattern,
    .level = 2,
    .summary = "digits of split indices have one form",
});

}  // namespace tenon
