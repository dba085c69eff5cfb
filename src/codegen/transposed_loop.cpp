// SPDX-License-Identifier: Apache-2.0
#include "codegen/transposed_loop.h"

#include "codegen/lowered.h"
#include "ir/find_node.h"
#include "ir/intrinsic.h"
#include "ir/node_groups.h"
#include "ir/structural.h"

namespace tenon::codegen {

using namespace tir;

namespace {

bool uses(const PrimExpr& e, const VarRef& v) { return mentions(e, v.get(), not_in_buffers); }

/// What e grows by where v grows by one; null: not the same everywhere.
std::optional<int64_t> step_of(const PrimExpr& e, const VarRef& v) {
  if (e.same_as(v)) return 1;
  if (!uses(e, v)) return 0;
  if (const auto* n = e.as<Add>()) {
    const auto a = step_of(n->a, v), b = step_of(n->b, v);
    if (a && b) return *a + *b;
  }
  if (const auto* n = e.as<Sub>()) {
    const auto a = step_of(n->a, v), b = step_of(n->b, v);
    if (a && b) return *a - *b;
  }
  if (const auto* n = e.as<Mul>()) {
    const auto a = step_of(n->a, v);
    const auto by = as_int(n->b);
    if (a && by) return *a * *by;
  }
  return std::nullopt;
}

/// The iterations: a number, or at most one (and none where that is negative).
bool take_rows(const For& loop, TransposedLoop& out) {
  if (const auto n = as_int(loop.extent)) return out.rows = *n, true;
  const auto* some = loop.extent.as<Max>();
  const auto* least = (some && is_zero(some->b) ? some->a : loop.extent).as<Min>();
  if (!least) return false;
  const auto a = as_int(least->a), b = as_int(least->b);
  if (!a && !b) return false;
  out.rows = a ? *a : *b;
  out.rows_here = loop.extent;
  return true;
}

/// Lanes that are on are the first ones, the same in all rows.
bool take_lanes(const For& loop, const PrimExpr& predicate, TransposedLoop& out) {
  if (!predicate) return true;
  const auto* less = predicate.as<LT>();
  const auto* lane = less ? less->a.as<Ramp>() : nullptr;
  const auto* end = less ? less->b.as<Broadcast>() : nullptr;
  if (!lane || !end || !is_one(lane->stride) || uses(predicate, loop.loop_var)) return false;
  out.column = lane->base;
  out.end = end->value;
  return true;
}

/// The load's lanes stand apart, and its rows side by side.
std::optional<TransposedLoad> transposed_load(const For& loop, const BufferLoad& load, int64_t rows) {
  const auto at = as_affine(flat_index(load.buffer, load.indices));
  if (!at || uses(at->stride, loop.loop_var) || step_of(at->base, loop.loop_var) != 1) return std::nullopt;
  // Rows that overlap are windows, which have loads of their own.
  const auto stride = as_int(at->stride);
  if (stride && *stride < rows) return std::nullopt;
  return TransposedLoad{&load, at->base, at->stride};
}

/// Of a value that is `certain` to be computed: what a condition keeps from being read stays where it is.
/// False: a load may read what the loop stores.
bool take_loads(const For& loop, const PrimExpr& value, bool certain, TransposedLoop& out) {
  const BufferStore& store = *out.store;
  bool apart = true;
  pre_order(value, [&](const ObjectRef& n) {
    if (const auto* call = n.as<Call>()) {
      apart = apart && call->op != "tir.address_of";
      if (chooses(*call)) {
        for (size_t i = 0; i < call->args.size(); ++i)
          apart = take_loads(loop, call->args[i], certain && i == 0, out) && apart;
        return false;
      }
    }
    const auto* load = n.as<BufferLoad>();
    if (!load) return !n.is<BufferNode>();
    apart = apart && load->buffer->data.get() != store.buffer->data.get();
    const bool all =
        !load->predicate || (store.predicate && structural_equal(load->predicate, store.predicate));
    if (certain && load->dtype.lanes == store.value.dtype().lanes && all)
      if (auto found = transposed_load(loop, *load, out.rows)) out.loads.push_back(*found);
    return true;
  });
  return apart;
}

}  // namespace

std::optional<TransposedLoop> transposed_loop(const For& loop) {
  TransposedLoop out;
  out.store = loop.body.as<BufferStore>();
  if (loop.kind != ForKind::serial || !out.store || !is_zero(loop.min) || loop.loop_var->dtype != i64)
    return std::nullopt;
  const DataType t = out.store->value.dtype();
  const auto to = as_affine(flat_index(out.store->buffer, out.store->indices));
  if (!t.is_vector() || !to || !is_one(to->stride) || !take_rows(loop, out) ||
      !take_lanes(loop, out.store->predicate, out))
    return std::nullopt;
  const bool apart = take_loads(loop, out.store->value, true, out);
  return apart && !out.loads.empty() ? std::optional(out) : std::nullopt;
}

}  // namespace tenon::codegen
