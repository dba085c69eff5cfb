// SPDX-License-Identifier: Apache-2.0
// canonicalize: one spelling for equal things, and nothing that does nothing.
//
//   before   lv = R.reshape(x, (4, 6));  lv1 = R.reshape(lv, (24,));  lv2 = R.multiply(lv1, 1);  lv3 = lv2
//   after    lv1 = R.reshape(x, (24,))
//
// Covers: copies of variables; casts to the same type and casts of widening casts; chains and identities of
// reshape, flatten, expand_dims, squeeze, permute_dims and layout_transform; batches that are merged for a
// transposition alone; double negation and inversion; x
// + 0 (integers, or minus zero), x - 0, x * 1, x / 1, x ** 1; x where the shape stays; If on a constant;
// items of known tuples; checks of what was resized. Needs: types. Keeps: values bit by bit, types of
// variables that are left.
#include <algorithm>
#include <cmath>

#include "analysis/analyzer.h"
#include "ir/structural.h"
#include "op/body_rewriter.h"
#include "op/build.h"

namespace tenon {
namespace graph {
namespace {

bool same_type(const Type& a, const Type& b) { return a && b && structural_equal(a, b); }
/// Tensors of one type and shape: types that leave the shape open say nothing of it.
bool same_tensor(const Type& a, const Type& b) { return same_type(a, b) && known_shape(a); }

bool same_dims(const Array<PrimExpr>& a, const Array<PrimExpr>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), op::same_dim);
}

/// Every value of `from` is a value of `to`.
bool widens(DataType from, DataType to) {
  if (from == to) return true;
  if (from.is_bool()) return !to.is_bool();
  if (from.is_int() && to.is_int()) return to.bits >= from.bits;
  if (from.is_uint() && to.is_uint()) return to.bits >= from.bits;
  if (from.is_uint() && to.is_int()) return to.bits > from.bits;
  if (from.is_float() && to.code == TypeCode::Float && to.bits >= 32) return to.bits >= from.bits;
  if (from.is_integer() && to.code == TypeCode::Float)
    return (to.bits == 32 && from.bits <= 16) || (to.bits == 64 && from.bits <= 32);
  return false;
}

class Canonicalize : public BodyRewriter {
 protected:
  bool forward_copies() const override { return true; }

  Expr visit(const Expr& value, const VarRef& var) override {
    if (const auto* item = value.as<TupleGetItem>()) {
      Expr tuple = item->tuple.is<Tuple>() ? item->tuple : definition(item->tuple);
      if (const auto* t = tuple.as<Tuple>()) return t->items[size_t(item->index)];
      return value;
    }
    if (const auto* n = value.as<If>()) return branch(*n, value);
    const Op* op = op_of(value);
    if (!op) return value;
    const Call& call = *value.as<Call>();
    const std::string& name = op->name;
    const Type type = var->declared ? var->declared : value->type;
    if (name == "cast") return cast(call, value, type);
    if (op::definition(*op).view) return view(call, value, type);
    if (name == "permute_dims") return permute(call, value, type);
    if (name == "layout_transform") return relayout(call, value, type);
    if (name == "broadcast_to" && same_tensor(call.args[0]->type, type)) return call.args[0];
    if (name == "negative" || name == "bitwise_not" || name == "logical_not") {
      if (const Call* inner = definition_call(call.args[0], name)) return inner->args[0];
      return value;
    }
    if (name == "add" || name == "subtract" || name == "multiply" || name == "divide" || name == "power")
      return arithmetic(name, call, value, type);
    return value;
  }

  /// What is resized to sizes that must be others, too, is resized to those: the check looks at numbers, no
  /// longer at the tensor, so that the resizing may join what reads it.
  Expr visit_match_cast(const Expr& value, const Type& type, const VarRef&) override {
    const Expr made = definition(value);
    const Op* op = made ? op_of(made) : nullptr;
    if (!op || !op->name.starts_with("image.resize")) return {};
    const Call& call = *made.as<Call>();
    const auto* size = call.args[1].as<ShapeExpr>();
    const auto have = known_shape(value->type), want = known_shape(type);
    const auto *from = as_tensor(value), *to = as_tensor(type);
    if (!size || !have || !want || !from || !to || have->size() != want->size() || from->dtype != to->dtype)
      return {};
    const size_t first = have->size() - size->values.size();
    for (size_t i = 0; i < first; ++i)
      if (!op::same_dim((*have)[i], (*want)[i])) return {};
    const Array<PrimExpr> sizes(want->begin() + std::ptrdiff_t(first), want->end());
    splice(make<MatchCastNode>(graph::var("sizes", shape_expr(sizes)->type), shape_expr(size->values),
                               shape_expr(sizes)->type));
    return with_origin(tenon::graph::call(call.op, {call.args[0], shape_expr(sizes)}, call.attrs),
                       made->origin);
  }

 private:
  Expr cast(const Call& call, const Expr& value, const Type& type) {
    const Expr& x = call.args[0];
    if (same_type(x->type, type)) return x;
    const Call* inner = definition_call(x, "cast");
    if (!inner || !as_tensor(x) || !as_tensor(inner->args[0])) return value;
    const DataType from = as_tensor(inner->args[0])->dtype, middle = as_tensor(x)->dtype;
    if (!widens(from, middle) || middle.is_bool()) return value;
    if (same_type(inner->args[0]->type, type)) return inner->args[0];
    return tenon::graph::call(call.op, {inner->args[0]}, call.attrs);
  }

  Expr view(const Call& call, const Expr& value, const Type& type) {
    const Expr& x = call.args[0];
    if (same_tensor(x->type, type)) return x;
    auto shape = known_shape(type);
    if (!shape || !as_tensor(type)) return value;
    Expr source = x;
    for (Expr inner = definition(source); inner && op_of(inner) && op::definition(*op_of(inner)).view;
         inner = definition(source))
      source = inner.as<Call>()->args[0];
    if (same_tensor(source->type, type)) return source;
    if (const Expr moved = merged_batch(source, type, call.origin); moved) return moved;
    const bool canonical = op_of(value)->name == "reshape" && call.args[1].is<ShapeExpr>() &&
                           structural_equal(call.args[1].as<ShapeExpr>()->values, *shape);
    if (source.same_as(x) && canonical) return value;
    return with_type(tenon::graph::call(get_op("reshape"), {source, shape_expr(*shape)}), type, call.origin);
  }

  Expr permute(const Call& call, const Expr& value, const Type& type) {
    const Expr& x = call.args[0];
    if (!as_tensor(x) || as_tensor(x)->ndim < 0) return value;
    std::vector<int64_t> axes = axes_of(call, as_tensor(x)->ndim);
    Expr source = x;
    while (const Call* inner = definition_call(source, "permute_dims")) {
      std::vector<int64_t> first = axes_of(*inner, int64_t(axes.size()));
      for (int64_t& a : axes) a = first[size_t(a)];
      source = inner->args[0];
    }
    bool identity = true;
    for (size_t i = 0; i < axes.size(); ++i) identity &= axes[i] == int64_t(i);
    if (identity) return source;
    if (auto shape = known_shape(source->type)) {
      // When only axes of extent 1 move, the memory stays as it is.
      int64_t last = -1;
      bool moves = false;
      for (int64_t a : axes) {
        if (tir::is_one((*shape)[size_t(a)])) continue;
        moves |= a < last;
        last = a;
      }
      if (auto out = known_shape(type); out && !moves) {
        return with_type(tenon::graph::call(get_op("reshape"), {source, shape_expr(*out)}), type,
                         call.origin);
      }
    }
    if (source.same_as(x)) return value;
    return tenon::graph::call(call.op, {source}, op::make_attrs<op::AxesAttrs>(Array<int64_t>(axes)));
  }
  /// A transposition of a batch of matrices whose axes in front were merged for it, and are apart again
  /// behind it, moves the axes of the tensor itself, or of a view of it. Sizes need not agree where the
  /// tensor is empty: nothing moves there.
  Expr merged_batch(const Expr& transposed, const Type& type, const Origin& origin) {
    const Call* moves = definition_call(transposed, "permute_dims");
    const Call* merges = moves ? definition_call(moves->args[0], "reshape") : nullptr;
    if (!merges) return {};
    Expr source = merges->args[0];
    const auto have = known_shape(source->type), merged = known_shape(moves->args[0]->type),
               want = known_shape(type);
    if (!have || !merged || !want || merged->empty() || want->size() < merged->size()) return {};
    std::vector<int64_t> axes = axes_of(*moves, int64_t(merged->size()));
    if (axes[0] != 0) return {};
    const size_t front = want->size() - (merged->size() - 1);
    axes.erase(axes.begin());
    for (int64_t& a : axes) a += int64_t(front) - 1;
    for (size_t i = front; i-- > 0;) axes.insert(axes.begin(), int64_t(i));
    Array<PrimExpr> apart = *want;  // before the transposition
    for (size_t i = 0; i < axes.size(); ++i) apart.set(size_t(axes[i]), (*want)[i]);
    Analyzer analyzer;
    for (const PrimExpr& size : *want)
      if (const auto* symbol = size.as<tir::Var>()) analyzer.assume_size(tir::VarRef(symbol), 1);
    for (size_t i = 1; i < merged->size(); ++i)
      if (!analyzer.can_prove_equal((*merged)[i], apart[front + i - 1])) return {};
    if (!same_dims(*have, apart)) source = emit_op("reshape", {source, shape_expr(apart)});
    const Expr out = with_type(
        tenon::graph::call(moves->op, {source}, op::make_attrs<op::AxesAttrs>(Array<int64_t>(axes))), type,
        origin);
    return permute(*out.as<Call>(), out, type);
  }
  /// Moves one after the other are one, and none when they lead back; what filled a last block up stays away.
  Expr relayout(const Call& call, const Expr& value, const Type& type) {
    const Call* inner = definition_call(call.args[0], "layout_transform");
    if (!inner || !as_tensor(type)) return value;
    const auto &first = op::attrs_of<op::LayoutTransformAttrs>(*inner),
               &second = op::attrs_of<op::LayoutTransformAttrs>(call);
    const Expr& source = inner->args[0];
    if (first.dst_layout != second.src_layout || !as_tensor(source)) return value;
    const auto a = static_shape(source->type), b = static_shape(call.args[0]->type);
    // Nothing was filled up when there are as many elements as before.
    if (!a || !b || element_count(*a) != element_count(*b)) return value;
    if (first.src_layout == second.dst_layout && same_type(source->type, type)) return source;
    if (first.src_layout == second.dst_layout) return value;
    return with_type(
        tenon::graph::call(call.op, {source},
                           op::make_attrs<op::LayoutTransformAttrs>(first.src_layout, second.dst_layout)),
        type, call.origin);
  }
  static std::vector<int64_t> axes_of(const Call& call, int64_t ndim) {
    const auto* a = call.attrs.as<op::AxesAttrs>();
    std::vector<int64_t> out;
    for (int64_t i = 0; i < ndim; ++i) {
      int64_t axis = a && !a->axes.empty() ? a->axes[size_t(i)] : ndim - 1 - i;
      out.push_back(axis < 0 ? axis + ndim : axis);
    }
    return out;
  }

  Expr arithmetic(const std::string& name, const Call& call, const Expr& value, const Type& type) {
    const Expr &a = call.args[0], &b = call.args[1];
    auto neutral = [&](const Expr& c, double v) {
      const auto* k = c.as<Constant>();
      if (!k || k->data.size() == 0 || k->data.size() > 4096 || !is_constant_filled(c, v)) return false;
      // x + 0 turns minus zero into zero; x - 0 and x + (-0) keep it.
      if (name == "add" && k->data.dtype().is_float())
        for (int64_t i = 0; i < k->data.size(); ++i)
          if (!std::signbit(k->data.element(i))) return false;
      if (name == "subtract" && k->data.dtype().is_float())
        for (int64_t i = 0; i < k->data.size(); ++i)
          if (std::signbit(k->data.element(i))) return false;
      return true;
    };
    const double one = name == "add" || name == "subtract" ? 0 : 1;
    if (neutral(b, one) && same_tensor(a->type, type)) return a;
    if ((name == "add" || name == "multiply") && neutral(a, one) && same_tensor(b->type, type)) return b;
    return value;
  }

  /// The branch that is taken, in place.
  Expr branch(const If& n, const Expr& value) {
    std::optional<double> c = scalar_constant(n.condition);
    if (!c)
      if (const auto* p = n.condition.as<PrimValue>())
        if (auto v = tir::as_int(simplify(p->value))) c = double(*v);
    if (!c) return value;
    const Expr& taken = *c != 0 ? n.true_branch : n.false_branch;
    for (const Binding& b : bindings_of(taken)) splice(b);
    return replaced(result_of(taken));
  }
};

}  // namespace
}  // namespace graph

const Pass& canonicalize_pass = register_pass({
    .name = "canonicalize",
    .run = graph::each_function<graph::Canonicalize>,
    .level = 1,
    .summary = "one spelling for equal things: casts, reshapes, transposes, identities",
    .needs = {"infer_types"},
});

}  // namespace tenon
