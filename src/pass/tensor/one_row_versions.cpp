// SPDX-License-Identifier: Apache-2.0
// one_row_versions
//   before: def f(A: T.Buffer((n, 24), "float32"), B: T.Buffer((n, 8), "float32"), n: T.int64): …
//   after:  def f(A, B, n): …
//           def f_one_row(A: T.Buffer((1, 24), "float32"), B: T.Buffer((1, 8), "float32")): …
// A batch is often 1, and so is a decoder's step: a program whose symbolic sizes all count rows has a version
// for a single one. Its loops are placed for known sizes: no edges, no threads, no digits of sizes, and as
// many sums side by side as one row has. `join_versions` puts the choice in front. Rows that take long by
// themselves gain little and have none. Needs: programs without loops placed. Keeps: the programs.
#include <algorithm>

#include "analysis/cost/time.h"
#include "ir/find_node.h"
#include "ir/program_results.h"
#include "ir/symbols.h"
#include "ir/verify.h"
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;

namespace {

/// Rows are counted by a batch and by steps; more sizes are an image's.
constexpr size_t kMostSizes = 2;
/// A version saves some tens of nanoseconds (a product of 24 × 72: 40 of 80 on Zen 5); by the model of the
/// machine a row takes so long at most.
constexpr double kLongRow = 4000;

/// Sizes stand in front of what is of known size, as rows are counted; `some`: and there is one.
bool counts_rows(const Buffer& b, bool some) {
  bool known = false, symbolic = false;
  for (const PrimExpr& d : b->shape) {
    const auto n = as_int(d);
    if (!n && known) return false;
    symbolic = symbolic || !n;
    known = known || (n && *n != 1);
  }
  return symbolic || !some;
}

/// Has it a single row? Windows reach beyond that: tensors have no elements then, accesses are outside.
bool has_a_row(const PrimFunc& f) {
  const bool empty = any_node(f, [](const ObjectRef& x) {
    const auto* b = x.as<BufferNode>();
    return b && std::any_of(b->shape.begin(), b->shape.end(),
                            [](const PrimExpr& d) { return as_int(d).value_or(0) < 1; });
  });
  if (empty || !kernel_scalars(f).empty()) return false;
  DiagnosticList problems;
  verify_prim_func("f", f, problems);
  return problems.empty();
}

/// `f` at these sizes, what they make of others (rows of all steps) computed.
PrimFunc at_sizes(const PrimFunc& f, const VarMap& sizes) {
  const ObjectRef out = rewrite_any(specialize(f, sizes), [](const ObjectRef& x) -> ObjectRef {
    const PrimExpr e(x.cast<PrimExprNode>());
    if (!e || e.dtype() != i64 || e.is<IntImm>() || e.is<Var>() || e.is<BufferLoad>()) return {};
    const std::vector<ObjectRef> parts = children(e);
    return std::ranges::all_of(parts, &ObjectRef::is<IntImm>) ? ObjectRef(simplify(e)) : ObjectRef();
  });
  return rename_all(out.cast<PrimFuncNode>());
}

/// The version of `f` for one row; null where there is none.
PrimFunc one_row(const PrimFunc& f, const IRModule& module, const Target& target) {
  // Accesses of operators are inside at any size; those of a given program end as it says.
  if (!f->attrs.contains(kPatternAttr)) return {};
  for (const char* key : {kTraceAttr, kKernelAttr, kMemoryOnlyAttr, kOverrideAttr, kScheduleRuleAttr})
    if (f->attrs.contains(key)) return {};
  VarMap sizes;
  auto tensors = int64_t(f->buffer_map.size());
  for (const VarRef& p : f->params) {
    const auto b = f->buffer_map.find(p);
    if (!b && (p->dtype != i64 || !sizes.emplace(p.get(), PrimExpr(1)).second)) return {};
    if (b && !counts_rows(*b, tensors-- <= num_outputs(f))) return {};
  }
  for (const VarRef& v : tensor_detail::sizes_of(f)) sizes.emplace(v.get(), PrimExpr(1));
  if (sizes.empty() || sizes.size() > kMostSizes) return {};
  PrimFunc one = at_sizes(f, sizes);
  one.edit()->body = simplify(one->body);
  if (!has_a_row(one)) return {};
  if (cost::nanoseconds(one->body, module, cost::usual_vector_bits(*f, target)) > kLongRow) return {};
  one.edit()->attrs.erase("global_symbol");
  return one;
}

}  // namespace

static IRModule one_row_versions(IRModule module, PassContext& context) {
  const IRModule given = module;
  for (const auto& [name, object] : given.functions()) {
    const auto f = object.cast<PrimFuncNode>();
    if (!f || !f->body) continue;
    PrimFunc one = one_row(f, given, context.target.cast<TargetNode>());
    if (!one) continue;
    one.edit()->attrs.set(kOneRowOfAttr, Any(name));
    module.set(module.fresh_name(name + "_one_row"), one);
  }
  return module;
}

const Pass& one_row_versions_pass = register_pass({
    .name = "one_row_versions",
    .run = one_row_versions,
    .level = 2,
    .summary = "programs over rows of any number have a version for one",
});

}  // namespace tenon
