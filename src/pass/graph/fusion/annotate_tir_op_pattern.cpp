// SPDX-License-Identifier: Apache-2.0
// annotate_tir_op_pattern: how a tensor program may be fused, told from its blocks.
//
//   before   def add(x, y, z): … z[i, j] = x[i, j] + y[j]
//   after    the same with the attribute "op_pattern" = 1 (broadcast)
//
// Kinds as of operators (ir/op.h): element-wise, broadcast, injective, reduction, contraction (a sum of
// products, or a reduction followed by element-wise stages); what is none of these is opaque. Programs that
// lowering made have the kind of their operators and keep it. Keeps: everything else.
#include <algorithm>

#include "ir/attr_keys.h"
#include "ir/find_node.h"
#include "ir/intrinsic.h"
#include "ir/pass.h"
#include "ir/tir.h"
#include "ir/walk.h"
#include "pass/graph/fusion/programs.h"

namespace tenon {
namespace graph {
namespace {

/// Kind of one stage.
FusionKind kind_of_stage(const tir::Stmt& stage) {
  FusionKind kind = FusionKind::element_wise;
  const tir::Block* block = nullptr;
  int blocks = 0;
  bool plain = true;
  post_order(stage, [&](const ObjectRef& n) {
    if (const auto* b = n.as<tir::Block>()) block = b, ++blocks;
    if (const auto* c = n.as<tir::Call>()) {
      const auto* known = tir::find_intrinsic(c->op);
      plain = plain && known && known->pure;
    }
    plain = plain && !n.is<tir::While>() && !n.is<tir::AttrStmt>();
  });
  if (blocks != 1 || !plain || !block->body.is<tir::BufferStore>()) return FusionKind::opaque;
  const auto& store = *block->body.as<tir::BufferStore>();
  bool reduces = bool(block->init);
  for (const tir::IterVar& v : block->iter_vars) {
    if (v->kind == tir::IterKind::reduce)
      reduces = true;
    else if (v->kind != tir::IterKind::spatial)
      return FusionKind::opaque;
  }
  std::vector<const tir::BufferLoad*> loads;
  bool product = false;
  post_order(store.value, [&](const ObjectRef& n) {
    if (const auto* l = n.as<tir::BufferLoad>()) loads.push_back(l);
    if (const auto* m = n.as<tir::Mul>()) {
      int sides = 0;
      for (const PrimExpr& side : {m->a, m->b}) {
        sides += has_node<tir::BufferLoad>(side);
      }
      product = product || sides == 2;
    }
  });
  if (reduces) return product ? FusionKind::out_element_wise_fusable : FusionKind::comm_reduce;
  for (const PrimExpr& i : store.indices)
    if (!i.is<tir::Var>() && !tir::is_zero(i)) return FusionKind::opaque;
  for (const tir::BufferLoad* l : loads) {
    if (l->buffer.same_as(store.buffer)) return FusionKind::opaque;
    size_t at = 0;  // the indices, in order, among those of the store
    bool in_order = true;
    for (const PrimExpr& i : l->indices) {
      if (tir::is_zero(i)) continue;
      while (at < store.indices.size() && !store.indices[at].same_as(i)) ++at;
      in_order = in_order && at < store.indices.size();
      ++at;
    }
    const bool same = in_order && l->indices.size() == store.indices.size() &&
                      std::equal(l->indices.begin(), l->indices.end(), store.indices.begin(),
                                 [](const PrimExpr& a, const PrimExpr& b) { return a.same_as(b); });
    bool computed = false;  // an index read from memory: gather
    for (const PrimExpr& i : l->indices)
      post_order(i, [&](const ObjectRef& n) { computed = computed || n.is<tir::BufferLoad>(); });
    kind = std::max(kind, same                    ? FusionKind::element_wise
                          : in_order && !computed ? FusionKind::broadcast
                                                  : FusionKind::injective);
  }
  return kind;
}

FusionKind kind_of_program(const tir::PrimFunc& f) {
  const auto p = staged(f);
  if (!p) return FusionKind::opaque;
  FusionKind kind = FusionKind::element_wise;
  for (const tir::Stmt& s : p->stages) {
    const FusionKind next = kind_of_stage(s);
    // What follows a reduction needs all of it: the whole is a computation of several stages.
    if (kind == FusionKind::comm_reduce && next != FusionKind::opaque)
      kind = FusionKind::out_element_wise_fusable;
    kind = std::max(kind, next);
  }
  return kind;
}

}  // namespace
}  // namespace graph

static IRModule annotate_tir_op_pattern(IRModule module, PassContext&) {
  using namespace graph;
  return module.map_prim([](const std::string&, const tir::PrimFunc& f) -> ObjectRef {
    if (f->attrs.contains(kPatternAttr) || f->attrs.contains(kKernelAttr)) return {};
    tir::PrimFunc out = f;
    out.edit()->attrs.set(kPatternAttr, Any(int64_t(kind_of_program(f))));
    return out;
  });
}

const Pass& annotate_tir_op_pattern_pass = register_pass({
    .name = "annotate_tir_op_pattern",
    .run = annotate_tir_op_pattern,
    .summary = "how tensor programs may be fused",
    .needs = {"lower_to_call_tir"},
});

}  // namespace tenon
