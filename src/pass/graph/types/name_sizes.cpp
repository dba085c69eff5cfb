// SPDX-License-Identifier: Apache-2.0
#include "pass/graph/types/name_sizes.h"

#include <fmt/format.h>

#include <algorithm>

#include "op/body_rewriter.h"
#include "op/infer.h"
#include "op/op_def.h"
#include "pass/graph/lowering/lower_function.h"

namespace tenon::graph {
namespace {

/// Only the sizes are missing.
bool unnamed(const Type& t) {
  if (const auto* s = t.as<ShapeType>()) return !s->known && s->ndim >= 0;
  if (const auto* p = t.as<PrimType>()) return !p->value && p->dtype.is_integer();
  const auto* x = t.as<TensorType>();
  return x && x->ndim >= 0 && !x->dtype.is_void() && !known_shape(t);
}

}  // namespace

void SizeNaming::leave_scope() {
  for (; added_.size() > scopes_.back(); added_.pop_back()) known_.erase(added_.back().as<Var>());
  scopes_.pop_back();
}

void SizeNaming::remember(const Var* v, const Expr& by) {
  known_[v] = by;
  added_.push_back(Ref<Var>(v));
}

tir::VarRef SizeNaming::symbol(const Key& key, size_t dim, const std::string& name, DataType dtype) {
  tir::VarRef& s = symbols_[{key.var, key.argument, key.item, dim}];
  if (!s) s = tir::var(fmt::format("{}_{}", name, dim), dtype);
  return s;
}

Expr SizeNaming::cast(const Expr& value, const Type& type, const std::string& name) {
  const VarRef v = var(name, type);
  splice(make<MatchCastNode>(v, value, type));
  return v;
}

Expr SizeNaming::named(const Expr& e, const Key& key) {
  if (const auto* t = e.as<Tuple>()) {
    Array<Expr> items;
    bool changed = false;
    for (size_t i = 0; i < t->items.size(); ++i) {
      items.push_back(named(t->items[i], {key.var, key.argument, i + 1}));
      changed |= !items.back().same_as(t->items[i]);
    }
    return changed ? Expr(make<Tuple>(items)) : e;
  }
  const auto* v = e.as<Var>();
  if (!v) return e;
  if (auto it = known_.find(v); it != known_.end()) return it->second;
  const Type type = v->declared ? v->declared : v->type;
  if (const auto* t = type.as<TupleType>()) {
    if (std::none_of(t->items.begin(), t->items.end(), unnamed)) return e;
    Array<Expr> items;
    for (size_t i = 0; i < t->items.size(); ++i) {
      Expr item = with_type(make<TupleGetItem>(e, int64_t(i)), t->items[i]);
      items.push_back(named(emit(item, fmt::format("{}_{}", v->name, i)), {key.var, key.argument, i + 1}));
    }
    const Expr out = make<Tuple>(items);
    remember(v, out);
    return out;
  }
  if (!unnamed(type)) return e;
  Expr out;
  if (const auto* p = type.as<PrimType>()) {
    out = cast(e, make<PrimType>(p->dtype, PrimExpr(symbol(key, 0, v->name, p->dtype))), v->name + "_value");
  } else {
    const auto* x = type.as<TensorType>();
    const int64_t rank = x ? x->ndim : type.as<ShapeType>()->ndim;
    Array<PrimExpr> dims;
    for (int64_t d = 0; d < rank; ++d) dims.push_back(symbol(key, size_t(d), v->name, i64));
    out = cast(e, x ? Type(tensor_type(dims, x->dtype)) : Type(make<ShapeType>(dims, rank, true)),
               v->name + "_sizes");
  }
  remember(v, out);
  return out;
}

/// Two symbolic sizes meet, and either may be 1: the operands are made equal first.
Expr SizeNaming::broadcast(const Expr& value, const Key& key) {
  const Call& call = *value.as<Call>();
  std::vector<Array<PrimExpr>> shapes;
  size_t rank = 0;
  for (const Expr& a : call.args) {
    const auto shape = a->type && as_tensor(a->type) ? known_shape(a->type) : std::nullopt;
    if (!shape) return value;
    shapes.push_back(*shape);
    rank = std::max(rank, shape->size());
  }
  Array<PrimExpr> all, meeting, names;
  for (size_t d = 0; d < rank; ++d) {
    PrimExpr size = 1;
    bool open = false;
    for (const Array<PrimExpr>& s : shapes) {
      if (s.size() + d < rank) continue;
      const PrimExpr& next = s[d + s.size() - rank];
      if (tir::is_one(size) || (tir::as_int(next) && !tir::is_one(next) && !tir::as_int(size))) {
        size = next;
        open = false;
      } else if (!tir::is_one(next) && !tir::as_int(size) && !op::same_dim(size, next)) {
        size = tir::select(tir::eq(size, PrimExpr(1)), next, size);
        open = true;
      }
    }
    if (open) {
      meeting.push_back(size);
      size = symbol(key, names.size(), "both", i64);
      names.push_back(size);
    }
    all.push_back(size);
  }
  if (names.empty()) return value;
  const auto count = int64_t(names.size());
  cast(shape_expr(meeting), make<ShapeType>(names, count, true), "both_sizes");
  Array<Expr> args;
  for (size_t i = 0; i < call.args.size(); ++i) {
    bool same = shapes[i].size() == rank;
    for (size_t d = 0; same && d < rank; ++d)
      same = tir::is_one(shapes[i][d]) || op::same_dim(shapes[i][d], all[d]);
    args.push_back(same ? call.args[i]
                        : emit_op("broadcast_to", {call.args[i], shape_expr(all)}, {}, "spread"));
  }
  return with_origin(make<Call>(call.op, args, call.attrs, call.type_args), call.origin);
}

/// The one operand of unknown rank of an operator that works element by element; null where there is none, or
/// where another operand may spread it.
Expr SizeNaming::unknown_rank(const Call& call, const Op& op) {
  if (op::definition(op).fusion > FusionKind::broadcast) return {};
  Expr found;
  for (const Expr& a : call.args) {
    const TensorType* t = a && a->type ? as_tensor(a->type) : nullptr;
    if (!t || t->dtype.is_void()) return {};
    if (t->ndim == 0) continue;
    if (t->ndim > 0 || !a.is<Var>() || (found && !found.same_as(a))) return {};
    found = a;
  }
  if (!found) return {};
  // Attributes may name an axis that one dimension does not have.
  VarRef probe = graph::var("probe", tensor_type_unknown(1, as_tensor(found->type)->dtype));
  probe.edit()->type = probe->declared;
  Array<Expr> args;
  for (const Expr& a : call.args) args.push_back(a.same_as(found) ? Expr(probe) : a);
  op::Inference run;
  const Type given = op::infer_type(run, make<Call>(call.op, args, call.attrs, call.type_args));
  const TensorType* t = given ? as_tensor(given) : nullptr;
  return t && t->ndim == 1 ? found : Expr();
}

/// y = exp(x) of unknown rank: x in one dimension, the operator, and back.
Expr SizeNaming::in_one_dimension(const Call& call, const Expr& x, const VarRef& var) {
  const Expr flat =
      named(emit_op("reshape", {x, shape_expr({PrimExpr(-1)})}, {}, var->name + "_flat"), {var.get(), 0, 0});
  Array<Expr> args;
  for (const Expr& a : call.args) args.push_back(a.same_as(x) ? flat : a);
  Expr done = make<Call>(call.op, args, call.attrs, call.type_args);
  done.edit()->origin = call.origin;
  done = emit(op::typed(done), var->name + "_elements");
  return graph::call(get_op("reshape"), {done, emit_op("shape_of", {x}, {}, var->name + "_shape")},
                     get_op("reshape")->default_attrs);
}

Expr SizeNaming::with_named_sizes(const Expr& value, const VarRef& var) {
  const Op* op = op_of(value);
  if (!op || !op->pure || !has_tensor_def(*op) || op::definition(*op).evaluate) return value;
  const Call& call = *value.as<Call>();
  if (const Expr x = unknown_rank(call, *op)) return in_one_dimension(call, x, var);
  if (const Expr done = of_any_rank(call, var)) return done;
  Array<Expr> args;
  bool changed = false;
  for (size_t i = 0; i < call.args.size(); ++i) {
    args.push_back(named(call.args[i], {var.get(), i, 0}));
    changed |= !args.back().same_as(call.args[i]);
  }
  Expr out = value;
  if (changed) {
    out = make<Call>(call.op, args, call.attrs, call.type_args);
    out.edit()->origin = call.origin;
  }
  if (op::definition(*op).fusion <= FusionKind::broadcast && args.size() > 1) {
    op::Inference run;
    const Type type = op::infer_type(run, out);
    if (type && unnamed(type)) out = broadcast(out, {var.get(), args.size(), 0});
  }
  return out;
}

}  // namespace tenon::graph
