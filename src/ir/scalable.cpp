// SPDX-License-Identifier: Apache-2.0
// Scalable vectors become vectors of a known length.
#include "ir/scalable.h"

#include <fmt/format.h>

#include "base/diagnostic.h"
#include "ir/find_node.h"
#include "ir/tir.h"
#include "ir/walk.h"

namespace tenon::tir {
namespace {

DataType fixed(DataType t, int64_t vscale) {
  if (!is_scalable(t)) return t;
  const int64_t lanes = -int64_t(int16_t(t.lanes)) * vscale;
  if (lanes > 32767)
    fail("T0318",
         fmt::format("{} has {} lanes where vscale is {}; the limit is 32767", to_string(t), lanes, vscale));
  return t.with_lanes(int(lanes));
}

/// Extents and steps such as `T.vscale() * 4` become constants, as vector loops need them.
template <class T>
PrimExpr folded(const T& n, int64_t (*f)(int64_t, int64_t)) {
  const auto a = as_int(n.a), b = as_int(n.b);
  return a && b && n.dtype == i64 ? PrimExpr::int_imm(f(*a, *b), i64) : PrimExpr();
}

}  // namespace

bool uses_vscale(const PrimFunc& f) {
  return any_node(f, [&](const ObjectRef& n) {
    const auto* e = n.as<PrimExprNode>();
    return e && (is_scalable(e->dtype) || (n.is<Call>() && n.as<Call>()->op == "tir.vscale"));
  });
}

PrimFunc fix_vscale(const PrimFunc& f, int64_t vscale) {
  CHECK(vscale > 0, "vscale is a positive number");
  return rewrite(
      f,
      [&](const Var& v) -> PrimExpr {
        return is_scalable(v.dtype) ? PrimExpr(var(v.name, fixed(v.dtype, vscale))) : PrimExpr();
      },
      [&](const Ramp& n) -> PrimExpr {
        return n.lanes < 0 ? PrimExpr(make<Ramp>(n.base, n.stride, int64_t(fixed(n.dtype, vscale).lanes)))
                           : PrimExpr();
      },
      [&](const Broadcast& n) -> PrimExpr {
        return n.lanes < 0 ? PrimExpr(make<Broadcast>(n.value, int64_t(fixed(n.dtype, vscale).lanes)))
                           : PrimExpr();
      },
      [&](const Cast& n) -> PrimExpr {
        if (!is_scalable(n.dtype)) return {};
        auto out = make<Cast>(n.value);
        out.edit()->dtype = fixed(n.dtype, vscale);
        return out;
      },
      [&](const Call& n) -> PrimExpr {
        if (n.op == "tir.vscale") return PrimExpr::int_imm(vscale, n.dtype);
        return is_scalable(n.dtype) ? call(fixed(n.dtype, vscale), n.op, n.args) : PrimExpr();
      },
      [&](const Mul& n) {
        return folded(n, [](int64_t a, int64_t b) { return int64_t(uint64_t(a) * uint64_t(b)); });
      },
      [&](const Add& n) {
        return folded(n, [](int64_t a, int64_t b) { return int64_t(uint64_t(a) + uint64_t(b)); });
      },
      [&](const Sub& n) {
        return folded(n, [](int64_t a, int64_t b) { return int64_t(uint64_t(a) - uint64_t(b)); });
      });
}

}  // namespace tenon::tir
