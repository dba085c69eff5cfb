// SPDX-License-Identifier: Apache-2.0
// one_row_versions
//   before: def f(A: T.Buffer((n, 24), "float32"), B: T.Buffer((n, 8), "float32"), n: T.int64): …
//   after:  def f(A, B, n): …
//           def f_one_row(A: T.Buffer((1, 24), "float32"), B: T.Buffer((1, 8), "float32")): …
// A batch is often 1, and so is a decoder's step: a program with symbolic sizes that count rows has a version
// for a single one. Its loops are placed for known sizes: no edges, no threads, no digits of sizes, and as
// many sums side by side as one row has. `join_versions` puts the choice in front. Rows that take long by
// themselves gain little and have none.
// Needs: programs of operators (`lower_to_call_tir`), no loops placed. Keeps: the programs.
#include <algorithm>
#include <set>

#include "analysis/cost/time.h"
#include "ir/find_node.h"
#include "ir/program_results.h"
#include "ir/symbols.h"
#include "ir/verify.h"
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;

namespace {

/// A version saves some tens of nanoseconds (a product of 24 × 72: 40 of 80 on Zen 5); by the model of the
/// machine a row takes so long at most.
constexpr double kLongRow = 4000;

/// The places, among the scalars of the kernel, of sizes that count rows: they stand in front of the last
/// axis of results, and in no sum (of what is joined, or of a window's borders).
Array<int64_t> row_sizes(const PrimFunc& f) {
  std::set<const Var*> rows, others;
  auto enter = [](const PrimExpr& size, std::set<const Var*>& in) {
    for (const VarRef& v : free_vars(size)) in.insert(v.get());
  };
  auto tensors = int64_t(f->buffer_map.size());
  for (const VarRef& p : f->params) {
    const auto b = f->buffer_map.find(p);
    if (!b || tensors-- > num_outputs(f)) continue;
    const Array<PrimExpr>& shape = (*b)->shape;
    for (size_t d = 0; d < shape.size(); ++d) enter(shape[d], d > 0 && d + 1 == shape.size() ? others : rows);
  }
  pre_order(f, [&](const ObjectRef& x) {
    if (const auto* b = x.as<BufferNode>())
      for (const PrimExpr& d : b->shape)
        if (has_node<Add, Sub, FloorDiv, FloorMod, Min, Max>(d)) enter(d, others);
    return true;
  });
  Array<int64_t> out;
  const std::vector<VarRef> scalars = kernel_scalars(f);
  for (size_t i = 0; i < scalars.size(); ++i)
    if (rows.count(scalars[i].get()) && !others.count(scalars[i].get())) out.push_back(int64_t(i));
  return out;
}

/// Windows reach beyond a single row: tensors have no elements then, accesses are outside.
bool is_program(const PrimFunc& f) {
  const bool empty = any_node(f, [](const ObjectRef& x) {
    const auto* b = x.as<BufferNode>();
    return b && std::any_of(b->shape.begin(), b->shape.end(),
                            [](const PrimExpr& d) { return as_int(d).value_or(1) < 1; });
  });
  DiagnosticList problems;
  if (!empty) verify_prim_func("f", f, problems);
  return !empty && problems.empty();
}

/// `f` at these sizes, what they make of others (rows of all steps) computed.
PrimFunc at_sizes(const PrimFunc& f, const VarMap& sizes) {
  const ObjectRef out = rewrite_any(specialize(f, sizes), [](const ObjectRef& x) -> ObjectRef {
    const PrimExpr e(x.cast<PrimExprNode>());
    if (!e || e.dtype() != i64 || e.is<IntImm>() || e.is<Var>() || e.is<BufferLoad>()) return {};
    const std::vector<ObjectRef> parts = children(e);
    return std::ranges::any_of(parts, &ObjectRef::is<IntImm>) ? ObjectRef(simplify(e)) : ObjectRef();
  });
  return rename_all(out.cast<PrimFuncNode>());
}

/// The version of `f` for one row; null where there is none.
PrimFunc one_row(const PrimFunc& f, const IRModule& module, const Target& target) {
  // Accesses of operators are inside at any size; those of a given program end as it says.
  if (!f->attrs.contains(kPatternAttr)) return {};
  for (const char* key : {kTraceAttr, kKernelAttr, kMemoryOnlyAttr, kOverrideAttr, kScheduleRuleAttr})
    if (f->attrs.contains(key)) return {};
  const Array<int64_t> rows = row_sizes(f);
  VarMap sizes;
  const std::vector<VarRef> scalars = kernel_scalars(f);
  for (int64_t i : rows) sizes.emplace(scalars[size_t(i)].get(), PrimExpr(1));
  if (sizes.empty()) return {};
  PrimFunc one = at_sizes(f, sizes);
  one.edit()->body = simplify(one->body);
  if (!is_program(one)) return {};
  if (cost::nanoseconds(one->body, module, cost::usual_vector_bits(*f, target)) > kLongRow) return {};
  one.edit()->attrs.erase("global_symbol");
  one.edit()->attrs.set(kRowSizesAttr, Any(rows));
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
