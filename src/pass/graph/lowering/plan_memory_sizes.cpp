// SPDX-License-Identifier: Apache-2.0
// How large a tensor can be whose symbolic sizes have upper bounds: all values are sizes, so none is
// negative.
#include <algorithm>
#include <limits>

#include "pass/graph/lowering/plan_memory.h"

namespace tenon::graph {
namespace {

/// The most that an expression of sizes can be; -1 when that is not known.
int64_t most_of(const PrimExpr& e, const SizeBounds& bounds) {
  auto both = [&](const PrimExpr& a, const PrimExpr& b, auto f) {
    const int64_t x = most_of(a, bounds), y = most_of(b, bounds);
    return x < 0 || y < 0 ? int64_t(-1) : f(x, y);
  };
  if (const auto n = tir::as_int(e)) return *n;
  if (const auto* v = e.as<tir::Var>()) {
    const auto it = bounds.find(v->name);
    return it == bounds.end() ? -1 : it->second;
  }
  if (const auto* n = e.as<tir::Cast>()) return most_of(n->value, bounds);
  if (const auto* n = e.as<tir::Add>()) {
    // A negative constant takes away.
    if (const auto c = tir::as_int(n->b); c && *c < 0) {
      const int64_t x = most_of(n->a, bounds);
      return x < 0 ? -1 : std::max<int64_t>(0, x + *c);
    }
    return both(n->a, n->b, [](int64_t x, int64_t y) {
      int64_t out;
      return __builtin_add_overflow(x, y, &out) ? int64_t(-1) : out;
    });
  }
  if (const auto* n = e.as<tir::Mul>())
    return both(n->a, n->b, [](int64_t x, int64_t y) {
      int64_t out;
      return __builtin_mul_overflow(x, y, &out) ? int64_t(-1) : out;
    });
  if (const auto* n = e.as<tir::Sub>()) {
    const int64_t x = most_of(n->a, bounds);
    const auto c = tir::as_int(n->b);
    return x < 0 || (c && *c < 0) ? -1 : std::max<int64_t>(0, x - c.value_or(0));
  }
  const auto over = [&](const PrimExpr& a, const PrimExpr& b, bool rest) {
    const auto c = tir::as_int(b);
    const int64_t x = most_of(a, bounds);
    if (!c || *c <= 0) return int64_t(-1);
    if (rest) return x < 0 ? *c - 1 : std::min(x, *c - 1);
    return x < 0 ? int64_t(-1) : x / *c;
  };
  if (const auto* n = e.as<tir::FloorDiv>()) return over(n->a, n->b, false);
  if (const auto* n = e.as<tir::Div>()) return over(n->a, n->b, false);
  if (const auto* n = e.as<tir::FloorMod>()) return over(n->a, n->b, true);
  if (const auto* n = e.as<tir::Mod>()) return over(n->a, n->b, true);
  if (const auto* n = e.as<tir::Max>())
    return both(n->a, n->b, [](int64_t x, int64_t y) { return std::max(x, y); });
  if (const auto* n = e.as<tir::Min>()) {
    // The end of a data type (a size clamped on its way through int32) says nothing about the size.
    const int64_t x = most_of(n->a, bounds), y = most_of(n->b, bounds), most = x < 0 ? y : x;
    if (x < 0 || y < 0) return most < std::numeric_limits<int32_t>::max() ? most : -1;
    return std::min(x, y);
  }
  return -1;
}

}  // namespace

int64_t most_bytes(const Type& type, const SizeBounds& bounds) {
  const auto* t = type ? as_tensor(type) : nullptr;
  const auto shape = t && !t->dtype.is_void() ? known_shape(type) : std::nullopt;
  if (!shape) return -1;
  std::vector<int64_t> dims;
  for (const PrimExpr& d : *shape) {
    dims.push_back(most_of(d, bounds));
    if (dims.back() < 0) return -1;
  }
  return int64_t(storage_bytes(element_count(dims), t->dtype));
}

}  // namespace tenon::graph
