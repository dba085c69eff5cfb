// SPDX-License-Identifier: Apache-2.0
// Reductions over nothing give their identity: where a loop has no iteration, the inits below it run, once
// for\n// each value of the spatial iterators, for blocks of which that loop feeds only iterators of the
// reduction.
#include "analysis/condition.h"
#include "interpret/prim_impl.h"
#include "ir/find_node.h"

namespace tenon::prim_interpreter {

bool Interpreter::starts_reduction(const For& n) {
  auto [it, fresh] = starts_.emplace(&n, false);
  bool& found = it->second;
  if (!fresh) return found;
  pre_order(n.body, [&](const ObjectRef& x) {
    const auto* b = x.as<Block>();
    found = found || (b && b->init);
    return !found && x.is<StmtNode>();
  });
  return found;
}

bool Interpreter::uses_idle(const PrimExpr& e) const {
  return any_node(e, [&](const ObjectRef& x) { return idle_.count(x.get()); });
}

void Interpreter::start_reductions(const Stmt& s) {
  if (const auto* n = s.as<For>()) {
    const int64_t first = integer(n->min), extent = integer(n->extent);
    if (extent <= 0) idle_.insert(n->loop_var.get());
    for (int64_t i = 0; i < std::max<int64_t>(1, extent); ++i) {
      vars_[n->loop_var.get()] = Lanes(n->loop_var->dtype, later(first, i));
      start_reductions(n->body);
      count_step();
    }
    idle_.erase(n->loop_var.get());
  } else if (const auto* n = s.as<SeqStmt>()) {
    for (const Stmt& t : n->seq) start_reductions(t);
  } else if (const auto* n = s.as<AttrStmt>()) {
    start_reductions(n->body);
  } else if (const auto* n = s.as<BlockRealize>()) {
    if (n->block->init) start_reduction(*n);
  }
}

void Interpreter::start_reduction(const BlockRealize& n) {
  bool waits = false;
  for (size_t i = 0; i < n.iter_values.size(); ++i) {
    const IterVar& v = n.block->iter_vars[i];
    const int64_t min = integer(v->dom->min);
    if (uses_idle(n.iter_values[i])) {
      if (v->kind != IterKind::reduce) return;
      waits = true;
      vars_[v->var.get()] = Lanes(v->var->dtype, min);
      continue;
    }
    const Lanes value = eval(n.iter_values[i]);
    const int64_t extent = integer(v->dom->extent);
    const bool in_domain =
        value[0].i >= min && extent > 0 && uint64_t(value[0].i) - uint64_t(min) < uint64_t(extent);
    if (v->kind == IterKind::reduce ? value[0].i != min : !in_domain) return;
    vars_[v->var.get()] = value;
  }
  if (!waits) return;
  for (const PrimExpr& c : conjuncts(n.predicate))
    if (!uses_idle(c) && !integer(c)) return;
  for (const MatchBufferRegion& m : n.block->match_buffers) match_buffer(m);
  exec(n.block->init);
}

}  // namespace tenon::prim_interpreter
