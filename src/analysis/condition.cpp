// SPDX-License-Identifier: Apache-2.0
#include "analysis/condition.h"

#include "ir/find_node.h"
#include "ir/intrinsic.h"
#include "ir/walk.h"

namespace tenon {

using namespace tir;

static bool may_change(const PrimExpr& e) {
  return any_node(e, [&](const ObjectRef& o) {
    const auto* c = o.as<tir::Call>();
    const Intrinsic* known = c ? find_intrinsic(c->op) : nullptr;
    return o.is<BufferLoad>() || o.is<ProducerLoad>() || (c && !(known && known->pure));
  });
}

bool split_conjunction(const PrimExpr& condition, std::vector<PrimExpr>& todo) {
  if (const auto* n = condition.as<And>()) {
    todo.push_back(n->b);
    todo.push_back(n->a);
    return true;
  }
  const auto* n = condition.as<tir::Call>();
  if (!n || n->op != "tir.likely") return false;
  todo.push_back(n->args[0]);
  return true;
}

std::vector<PrimExpr> conjuncts(const PrimExpr& condition) {
  std::vector<PrimExpr> out, stack{condition};
  while (!stack.empty()) {
    PrimExpr e = stack.back();
    stack.pop_back();
    if (!e || is_const_int(e, 1)) continue;
    if (const auto* a = e.as<And>()) {
      stack.push_back(a->b);
      stack.push_back(a->a);
    } else {
      out.push_back(e);
    }
  }
  return out;
}

PrimExpr lasting_part(const PrimExpr& condition) {
  PrimExpr out;
  for (const PrimExpr& c : conjuncts(condition))
    if (!may_change(c)) out = out ? logical_and(out, c) : c;
  return out ? out : true_();
}

std::pair<Stmt, Stmt> visit_branches(const IfThenElse& branch, Analyzer& analyzer,
                                     FunctionRef<Stmt(const Stmt&)> visit) {
  std::pair<Stmt, Stmt> out;
  {
    Analyzer::Scope in = analyzer.assume(lasting_part(branch.condition));
    out.first = visit(branch.then_case);
  }
  if (branch.else_case) {
    Analyzer::Scope in = analyzer.assume(lasting_part(logical_not(branch.condition)));
    out.second = visit(branch.else_case);
  }
  return out;
}

}  // namespace tenon
