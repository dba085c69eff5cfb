// SPDX-License-Identifier: Apache-2.0
// rewrite_unsafe_select
//   before: T.Select(i > 0, A[i - 1], 0.0)
//   after:  T.if_then_else(i > 0, A[i - 1], 0.0)
// A scalar choice of which one side may fail (an access, a division by what may be zero, an effect) evaluates
// only the side that it takes.
// Needs: nothing. Keeps: every value; vectors choose per lane and stay.
#include "ir/intrinsic.h"
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;

namespace {

bool may_fail(const PrimExpr& e) {
  bool found = false;
  pre_order(e, [&](const ObjectRef& n) {
    auto divides = [&](const PrimExpr& d) {
      const auto c = as_int(d);
      found = found || (!d.dtype().is_float() && !(c && *c != 0));
    };
    if (const auto* x = n.as<Div>()) divides(x->b);
    if (const auto* x = n.as<Mod>()) divides(x->b);
    if (const auto* x = n.as<FloorDiv>()) divides(x->b);
    if (const auto* x = n.as<FloorMod>()) divides(x->b);
    if (const auto* c = n.as<Call>()) {
      if (c->op == "tir.if_then_else") return false;  // lazy itself
      const Intrinsic* i = find_intrinsic(c->op);
      found = found || !i || !i->pure;
    }
    found = found || n.is<BufferLoad>();
    return !found;
  });
  return found;
}

}  // namespace

static IRModule rewrite_unsafe_select(IRModule module, PassContext&) {
  return tensor_detail::map_bodies(module, [](const std::string&, const PrimFunc& f) {
    return rewrite(f->body, [](const Select& n) -> PrimExpr {
      if (n.condition.dtype().is_vector() || (!may_fail(n.true_value) && !may_fail(n.false_value))) return {};
      return if_then_else(n.condition, n.true_value, n.false_value);
    });
  });
}

const Pass& rewrite_unsafe_select_pass = register_pass({
    .name = "rewrite_unsafe_select",
    .run = rewrite_unsafe_select,
    .level = 0,
    .summary = "choices evaluate only the side that may be evaluated",
});

}  // namespace tenon
