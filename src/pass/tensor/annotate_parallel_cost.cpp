// SPDX-License-Identifier: Apache-2.0
// annotate_parallel_cost
//   before: for i in T.parallel(n): body
//   after:  for i in T.parallel(n, annotations={"cost_ns": 1200}): body
// The estimated time of one iteration in nanoseconds, from which the runtime decides whether threads pay.
// Needs: nothing. Keeps: everything; a cost that is already given stays.
#include <algorithm>

#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;

IRModule annotate_parallel_cost(IRModule module, PassContext&) {
  return tensor_detail::map_bodies(module, [](const std::string&, const PrimFunc& f) {
    return rewrite(f->body, [](const For& n) -> Stmt {
      if (n.kind != ForKind::parallel || n.annotations.contains("cost_ns")) return {};
      const WorkEstimate w = estimate_work(n.body);
      // A core does a few operations and moves a few bytes in a nanosecond.
      const double ns = std::max(w.flop * 0.15, w.bytes * 0.05);
      Ref<For> out(&n);
      out.edit()->annotations.set("cost_ns", Any(int64_t(std::clamp(ns, 1.0, 1e12))));
      return out;
    });
  });
}

}  // namespace tenon
