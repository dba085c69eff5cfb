// SPDX-License-Identifier: Apache-2.0
// annotate_parallel_cost
//   before: for i in T.parallel(n): body
//   after:  for i in T.parallel(n, annotations={"cost_ns": 1200}): body
// The estimated time of one iteration in nanoseconds (analysis/cost/time.h), from which the runtime decides
// whether threads pay.
// Needs: loops as they will run (vectors made). Keeps: everything; a cost that is already given stays.
#include <algorithm>

#include "analysis/cost/time.h"
#include "ir/attr_keys.h"
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;

static IRModule annotate_parallel_cost(IRModule module, PassContext& context) {
  return tensor_detail::map_bodies(module, [&](const std::string&, const PrimFunc& f) {
    const int64_t vector_bits = cost::usual_vector_bits(*f, context.target.cast<TargetNode>());
    return rewrite(f->body, [&](const For& n) -> Stmt {
      if (n.kind != ForKind::parallel || n.annotations.contains(kCostAttr)) return {};
      // The whole loop is what touches each byte once.
      Ref<For> out(&n);
      const double ns = cost::nanoseconds(Stmt(out), module, vector_bits) / cost::trips_of(n);
      out.edit()->annotations.set(kCostAttr, Any(int64_t(std::clamp(ns, 1.0, 1e12))));
      return out;
    });
  });
}

const Pass& annotate_parallel_cost_pass = register_pass({
    .name = "annotate_parallel_cost",
    .run = annotate_parallel_cost,
    .level = 0,
    .summary = "parallel loops know what an iteration costs",
    .needs = {"vectorize_loop"},
});

}  // namespace tenon
