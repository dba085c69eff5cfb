// SPDX-License-Identifier: Apache-2.0
#include "pass/tensor/access_checks.h"

#include "analysis/region.h"
#include "ir/find_node.h"
#include "ir/intrinsic_table.h"
#include "ir/structural.h"

namespace tenon::tensor_detail {

using namespace tir;

static bool is_pure(const tir::Call& c) {
  const Intrinsic* known = find_intrinsic(c.op);
  return known && known->pure;
}

Written written_in(const Stmt& s) {
  Written out;
  pre_order(s, [&](const ObjectRef& o) {
    if (const auto* n = o.as<BufferStore>()) out.data.insert(n->buffer->data.get());
    if (o.is<ProducerStore>()) out.unknown = true;
    if (const auto* n = o.as<tir::Call>()) out.unknown = out.unknown || !is_pure(*n);
    // A match is another name of its source.
    if (const auto* n = o.as<MatchBufferRegionNode>()) out.data.insert(n->source->buffer->data.get());
    return !o.is<BufferNode>();
  });
  return out;
}

bool reads_memory(const ObjectRef& e) { return has_node<BufferLoad, ProducerLoad>(e, not_in_buffers); }

bool reads(const Stmt& check, const Written& written) {
  return any_node(check, not_in_buffers, [&](const ObjectRef& o) {
    const auto* n = o.as<BufferLoad>();
    return o.is<ProducerLoad>() || (n && (written.unknown || written.data.count(n->buffer->data.get()) > 0));
  });
}

void Checks::wrap(size_t mark, FunctionRef<Stmt(const Stmt&)> f) {
  for (size_t i = mark; i < list_.size(); ++i) list_[i] = f(list_[i]);
}

Array<Stmt> Checks::take(size_t mark) {
  Array<Stmt> out;
  for (size_t i = mark; i < list_.size(); ++i) {
    bool known = false;
    for (const Stmt& c : out) known = known || structural_equal(c, list_[i]);
    if (!known) out.push_back(list_[i]);
  }
  list_.resize(mark);
  return out;
}

Stmt Checks::place(size_t mark, const Stmt& s, FunctionRef<bool(const Stmt&)> stays) {
  if (list_.size() == mark) return s;
  Array<Stmt> here, onwards;
  for (const Stmt& c : take(mark)) (stays(c) ? here : onwards).push_back(c);
  for (const Stmt& c : onwards) list_.push_back(c);
  if (here.empty()) return s;
  here.push_back(s);
  return seq(here);
}

/// What holds where the condition does for some value of the loop's variable: for its first one, of a
/// condition that holds for all before one for which it holds (the edge of a split loop). Null for others.
static PrimExpr for_some(const PrimExpr& condition, const For& loop) {
  const Var* v = loop.loop_var.get();
  if (!mentions(condition, v)) return condition;
  if (const auto* both = condition.as<And>()) {
    const PrimExpr a = for_some(both->a, loop), b = for_some(both->b, loop);
    return a && b ? logical_and(a, b) : PrimExpr();
  }
  const auto* less = condition.as<LT>();
  if (!less || mentions(less->b, v)) return {};
  Analyzer analyzer;
  const auto form = affine_form(less->a, {loop.loop_var}, analyzer);
  if (!form || mentions(form->base, v)) return {};
  for (const auto& [variable, step] : form->terms)
    if (step < 0) return {};
  return substitute(condition, {{v, loop.min}});
}

Stmt Checks::leave(const Stmt& check, const For& loop, bool runs) {
  // A check of what is the same for the whole loop is made once, whatever the edge of a split is.
  const auto* guarded = check.as<IfThenElse>();
  if (guarded && !guarded->else_case && mentions(guarded->condition, loop.loop_var.get()) &&
      !mentions(guarded->then_case, loop.loop_var.get()))
    if (const PrimExpr some = for_some(guarded->condition, loop))
      return leave(make<IfThenElse>(some, guarded->then_case, Stmt()), loop, runs);
  if (mentions(check, loop.loop_var.get())) {
    const VarRef v = var(loop.loop_var->name, loop.loop_var->dtype);
    // Vectors and unrolled copies of a check are worth nothing.
    return for_(v, loop.min, loop.extent, rename_definitions(substitute(check, {{loop.loop_var.get(), v}})),
                loop.kind == ForKind::parallel ? ForKind::parallel : ForKind::serial);
  }
  if (runs) return check;
  return make<IfThenElse>(gt(loop.extent, PrimExpr::int_imm(0, loop.extent.dtype())), check, Stmt());
}

Stmt Checks::leave(const Stmt& check, const LetStmt& let) {
  if (!mentions(check, let.var.get())) return check;
  const VarRef v = var(let.var->name, let.var->dtype);
  return make<LetStmt>(v, let.value, rename_definitions(substitute(check, {{let.var.get(), v}})));
}

Stmt Checks::leave(const Stmt& check, const BlockRealize& block) {
  VarMap values;
  for (size_t i = 0; i < block.iter_values.size(); ++i)
    values[block.block->iter_vars[i]->var.get()] = block.iter_values[i];
  const Stmt out = rename_definitions(substitute(check, values));
  return !block.predicate || is_one(block.predicate) ? out : make<IfThenElse>(block.predicate, out, Stmt());
}

}  // namespace tenon::tensor_detail
