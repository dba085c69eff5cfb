// SPDX-License-Identifier: Apache-2.0
// order_maxima
//   before: for k in range(n): M[0] = T.max(M[0], T.ordered_term(A[k]))
//   after:  for k in range(n): M[0] = T.Select(M[0] < A[k], A[k], M[0])
// A maximum passes NaN on: three instructions where the machine has one that does not. Where a program shows
// NaN whatever the maximum is (softmax, whose exponentials pass it on), its terms say so, and what is made of
// such terms alone, partial maxima among them, is a choice.
// Needs: loops as they will run, local tensors that share no memory. Keeps: values, but for maxima of NaN.
#include <map>

#include "ir/find_node.h"
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;

namespace {

bool is_mark(const PrimExpr& e) {
  const auto* c = e ? e.as<Call>() : nullptr;
  return c && c->op == "tir.ordered_term";
}

/// The local tensors all of whose values are maxima of terms that say so, and numbers.
class OrderedTensors {
 public:
  explicit OrderedTensors(const Stmt& body) {
    pre_order(body, [&](const ObjectRef& n) {
      if (const auto* a = n.as<Allocate>(); a && a->buffer->dtype.is_float()) ordered_[a->buffer->data.get()];
      return n.is<StmtNode>() || n.is<ArrayObj>();
    });
    pre_order(body, [&](const ObjectRef& n) {
      if (const auto* s = n.as<BufferStore>())
        if (const auto it = ordered_.find(s->buffer->data.get()); it != ordered_.end())
          it->second.push_back(s->value);
      return n.is<StmtNode>() || n.is<ArrayObj>();
    });
    pre_order(body, [&](const ObjectRef& n) {
      const auto* c = n.as<Call>();
      const auto* place = c && c->op == "tir.address_of" ? c->args[0].as<BufferLoad>() : nullptr;
      if (place) ordered_.erase(place->buffer->data.get());  // somebody else may store there
      return true;
    });
    while (std::erase_if(ordered_, [&](const auto& tensor) {
      return !std::ranges::all_of(tensor.second, [&](const PrimExpr& v) { return is_ordered(v); });
    })) {
    }
  }
  bool holds(const Buffer& b) const { return ordered_.contains(b->data.get()); }
  /// May `e` be any number where one of its terms is NaN?
  bool is_ordered(const PrimExpr& e) const {
    if (const auto* l = e.as<BufferLoad>()) return holds(l->buffer);
    if (const auto* f = e.as<FloatImm>()) return f->value == f->value;
    if (const auto* b = e.as<Broadcast>()) return is_ordered(b->value);
    if (const auto* s = e.as<Select>()) return is_ordered(s->true_value) && is_ordered(s->false_value);
    if (const auto* m = e.as<Max>()) return is_ordered(m->a) && is_ordered(m->b);
    return is_mark(e);
  }

 private:
  std::map<const Var*, std::vector<PrimExpr>> ordered_;  ///< what is stored
};

/// An ordered value: marks are gone, each maximum is a choice.
PrimExpr chosen(const PrimExpr& e) {
  if (is_mark(e)) return e.as<Call>()->args[0];
  if (const auto* b = e.as<Broadcast>()) return make<Broadcast>(chosen(b->value), b->lanes);
  if (const auto* s = e.as<Select>())
    return select(s->condition, chosen(s->true_value), chosen(s->false_value));
  const auto* m = e.as<Max>();
  if (!m) return e;
  const PrimExpr a = chosen(m->a), b = chosen(m->b);
  return select(lt(a, b), b, a);
}

}  // namespace

static IRModule order_maxima(IRModule module, PassContext&) {
  return tensor_detail::map_bodies(module, [](const std::string&, const PrimFunc& f) -> Stmt {
    if (!any_node(f->body, [](const ObjectRef& n) { return is_mark(PrimExpr(n.cast<PrimExprNode>())); }))
      return f->body;
    const OrderedTensors tensors(f->body);
    return rewrite(f->body, [&](const BufferStore& n) -> Stmt {
      return tensors.holds(n.buffer) ? store(n.buffer, chosen(n.value), n.indices, n.predicate) : Stmt();
    });
  });
}

const Pass& order_maxima_pass = register_pass({
    .name = "order_maxima",
    .run = order_maxima,
    .level = 1,
    .summary = "maxima of terms that need not tell NaN are choices",
});

}  // namespace tenon
