// SPDX-License-Identifier: Apache-2.0
#include "analysis/lasting.h"

#include "ir/intrinsic.h"
#include "ir/walk.h"

namespace tenon {

using namespace tir;

static bool may_change(const PrimExpr& e) {
  bool found = false;
  pre_order(e, [&](const ObjectRef& o) {
    const auto* c = o.as<tir::Call>();
    const Intrinsic* known = c ? find_intrinsic(c->op) : nullptr;
    found = found || o.is<BufferLoad>() || o.is<ProducerLoad>() || (c && !(known && known->pure));
    return !found;
  });
  return found;
}

PrimExpr lasting_part(const PrimExpr& condition) {
  PrimExpr out;
  std::vector<PrimExpr> todo{condition};
  while (!todo.empty()) {
    const PrimExpr c = todo.back();
    todo.pop_back();
    if (const auto* n = c.as<And>()) {
      todo.push_back(n->b);
      todo.push_back(n->a);
    } else if (!may_change(c)) {
      out = out ? logical_and(out, c) : c;
    }
  }
  return out ? out : true_();
}

}  // namespace tenon
