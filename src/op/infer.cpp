// SPDX-License-Identifier: Apache-2.0
// Type inference of graph expressions and whole functions.
#include "op/infer.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/memory_plan.h"
#include "ir/origin.h"
#include "ir/structural.h"
#include "ir/text.h"
#include "ir/walk.h"
#include "op/op_def.h"
#include "op/unify.h"

namespace tenon::op {

using namespace graph;

namespace {

/// Notes a mistake that has no operator to name.
Type mistake(Inference& run, const char* code, std::string message, const Origin& at) {
  run.problems.add(Diagnostic{code, std::move(message), place(at), {}, {}});
  return {};
}

bool expect_arguments(Inference& run, const Call& call, const Op& op) {
  size_t required = 0;
  for (const OpArgument& a : op.arguments) required += !a.optional;
  if (op.variadic && required) --required;
  const size_t given = call.args.size();
  if (given >= required && (op.variadic || given <= op.arguments.size())) return true;
  std::string names;
  for (const OpArgument& a : op.arguments)
    names += (names.empty() ? "" : ", ") + a.name + (a.optional ? "?" : "");
  mistake(
      run, "T1103",
      fmt::format("{}: {} arguments given, it takes ({}{})", op.name, given, names, op.variadic ? "…" : ""),
      call.origin);
  return false;
}

/// The callee as a message names it.
std::string name_of(const Expr& callee) {
  if (const auto* g = callee.as<GlobalVar>()) return g->name;
  if (const auto* v = callee.as<Var>()) return v->name;
  if (const auto* c = callee.as<Constructor>()) return c->name;
  return "the function";
}

/// A type that inference still looks for stands among the arguments.
bool has_open_argument(const Inference& run, const Call& call) {
  for (const Expr& a : call.args) {
    if (a && (is_incomplete(a->type) || (run.open && has_incomplete(a->type)))) return true;
    if (const auto* tuple = a.as<Tuple>())
      for (const Expr& item : tuple->items)
        if (item && is_incomplete(item->type)) return true;
  }
  return false;
}

/// The call with a type on every argument, which only its operator's rule sees; `tuples_only`: on tuples,
/// which are no values of their own. Null where an argument has a mistake.
Ref<Call> with_typed_arguments(Inference& run, const Call& call, bool tuples_only) {
  Ref<Call> out(&call);
  for (size_t i = 0; i < call.args.size(); ++i) {
    Expr arg = call.args[i];
    if (!arg || arg->type || (tuples_only && !arg.is<Tuple>())) continue;
    const Type t = infer_type(run, arg);
    if (!t) return {};
    arg.edit()->type = t;
    Array<Expr> args = out->args;
    args.set(i, arg);
    out.edit()->args = args;
  }
  return out;
}

}  // namespace

Type parameter_type(Inference& run, const Call& call, size_t i) {
  const auto* op = call.op.as<Op>();
  const ParameterType& rule = op ? definition(*op).parameter : nullptr;
  if (!rule || call.args.empty() || !as_tensor(call.args[0]->type)) return {};
  InferContext ctx(run, call);
  return rule(ctx, i);
}

bool spreads(const Call& call, const std::vector<DataType>& dtypes) {
  const auto* op = call.op.as<Op>();
  if (!op || definition(*op).fusion > FusionKind::broadcast || call.args.size() < 2) return false;
  // A vector along the last axis of a matrix, the matrix in each place.
  const Shape matrix{tir::var("rows", i64), tir::var("columns", i64)}, vector{matrix[1]};
  for (size_t i = 0; i < call.args.size(); ++i) {
    Array<Expr> args;
    for (size_t k = 0; k < call.args.size(); ++k) {
      const Type t = graph::tensor_type(k == i ? matrix : vector, dtypes[k]);
      args.push_back(graph::with_type(graph::var("probe", t), t));
    }
    Inference run;
    const Type given = infer_type(run, make<Call>(call.op, args, call.attrs, call.type_args));
    const auto shape = given && run.problems.empty() ? graph::known_shape(given) : std::nullopt;
    if (!shape || shape->size() != 2 || !same_dim((*shape)[0], matrix[0]) ||
        !same_dim((*shape)[1], matrix[1]))
      return false;
  }
  return true;
}

namespace {

/// A tensor, or one of a tuple.
bool beyond_memory(const Type& type) {
  if (const auto* t = type.as<TensorType>()) {
    const auto shape = shape_of(*t);
    return shape && graph::beyond_memory(*shape, t->dtype);
  }
  const auto* tuple = type.as<TupleType>();
  return tuple && std::any_of(tuple->items.begin(), tuple->items.end(), beyond_memory);
}

Type infer_operator(Inference& run, const Call& call, const Op& op) {
  if (!expect_arguments(run, call, op)) return {};
  if (has_open_argument(run, call)) {
    for (size_t i = 1; run.open && i < call.args.size(); ++i)
      if (const int64_t id = call.args[i] ? open_id(call.args[i]->type) : 0)
        if (const Type t = parameter_type(run, call, i)) run.open->constrain(id, t);
    return incomplete_type();
  }
  const InferType& rule = definition(op).infer;
  if (!rule) return call.type_args.empty() ? object_type() : tuple_type(call.type_args);
  const Ref<Call> typed = with_typed_arguments(run, call, false);
  if (!typed) return {};
  InferContext ctx(run, *typed);
  if (!ctx.expect_kinds()) return {};
  const Type made = rule(ctx);
  if (!run.within_memory) return made;
  // Behind an operand that no memory has, sizes may have wrapped.
  for (const Expr& a : typed->args)
    if (a && beyond_memory(a->type)) return ctx.error("an argument takes more than 2^62 bytes");
  if (beyond_memory(made))
    return ctx.error("the result takes more than 2^62 bytes, or a size more than 64 bits: " + print(made));
  return made;
}

Type infer_call(Inference& run, const Call& call) {
  if (const auto* op = call.op.as<Op>()) return infer_operator(run, call, *op);
  if (!call.type_args.empty())
    return call.type_args.size() == 1 ? call.type_args[0] : tuple_type(call.type_args);
  Type callee = call.op->type;
  if (const auto* v = call.op.as<Var>(); v && !callee) callee = v->declared;
  if (call.op.is<Function>() && !callee) callee = infer_type(run, call.op);
  if (run.open) callee = run.open->resolved(callee);
  if (is_incomplete(callee)) return incomplete_type();
  if (callee && !callee.is<FuncType>() && !callee.is<ObjectType>())
    return mistake(run, "T1104",
                   fmt::format("`{}` is called and has type {}", name_of(call.op), print(callee)),
                   call.origin);
  const auto* f = callee.as<FuncType>();
  if (!f) return object_type();
  if (f->opaque || (!f->params && !call.args.empty())) return f->ret ? f->ret : object_type();
  if (f->params.size() != call.args.size())
    return mistake(run, "T1103",
                   fmt::format("a function of {} parameters is called with {} arguments", f->params.size(),
                               call.args.size()),
                   call.origin);
  if (run.open) run.open->sites.emplace_back();  // of this call
  Unifier u(f->type_params, run.open);
  // Functions last: what is passed tells more than what a function would take.
  for (const bool functions : {false, true})
    for (size_t i = 0; i < call.args.size(); ++i) {
      if (f->params[i].is<FuncType>() != functions) continue;
      const Type given = call.args[i]->type ? call.args[i]->type : infer_type(run, call.args[i]);
      if (!given) return {};
      if (!u.unify(f->params[i], given))
        return mistake(run, "T1104",
                       fmt::format("argument {} of `{}` has type {} where {} is needed", i, name_of(call.op),
                                   print(given), print(u.apply(f->params[i], true))),
                       call.origin);
    }
  if (!f->ret) return object_type();
  return u.apply(f->ret, !call.op.is<GlobalVar>());
}

Type type_or_object(const Expr& e) {
  const Expr result = e && !e->type ? result_of(e) : e;
  return result && result->type ? result->type : object_type();
}

}  // namespace

Type infer_type(Inference& run, const Expr& e) {
  CHECK(e, "type of nothing");
  /// Parts that are no values of their own (tuples) may have no type yet.
  auto part = [&](const Expr& p) { return p->type ? p->type : infer_type(run, p); };
  auto body = [&](const Expr& b) {
    const Expr result = b && !b->type ? result_of(b) : b;
    return result && (result.is<Tuple>() || result.is<TupleGetItem>()) ? part(result) : type_or_object(b);
  };
  return match<Type>(
      e, [&](const Call& n) { return infer_call(run, n); },
      [&](const Tuple& n) -> Type {
        Array<Type> items;
        for (const Expr& item : n.items) {
          items.push_back(part(item));
          if (!items.back()) return {};
        }
        return make<TupleType>(items);
      },
      [&](const TupleGetItem& n) -> Type {
        const Type t = part(n.tuple);
        if (!t) return {};
        const auto* tuple = t.as<TupleType>();
        if (t.is<TensorType>())
          return mistake(run, "T1101",
                         fmt::format("item {} is taken of a tensor: only tuples have items", n.index),
                         n.origin);
        if (!tuple) return is_incomplete(t) ? incomplete_type() : object_type();
        if (n.index < 0 || size_t(n.index) >= tuple->items.size())
          return mistake(run, "T1101", fmt::format("item {} of a tuple of {}", n.index, tuple->items.size()),
                         n.origin);
        return tuple->items[size_t(n.index)];
      },
      [](const Var& n) { return n.declared ? n.declared
                                : n.type   ? n.type
                                           : object_type(); },
      [&](const Function& n) -> Type {
        Array<Type> params;
        for (const VarRef& p : n.params) {
          const Type open = run.open ? run.open->parameter(p.get()) : Type();
          params.push_back(open ? open : type_or_object(p));
        }
        return make<FuncType>(params, n.ret_type ? n.ret_type : body(n.body), false, n.type_params);
      },
      [&](const If& n) { return join(body(n.true_branch), body(n.false_branch)); },
      [&](const graph::Match& n) -> Type {
        Type all;
        for (const MatchClause& c : n.clauses) {
          const Type t = body(c->body);
          all = all ? join(all, t) : t;
        }
        return all ? all : object_type();
      },
      [](const While& n) -> Type {
        Array<Type> items;
        for (const VarRef& v : n.loop_vars) items.push_back(type_or_object(v));
        return make<TupleType>(items);
      },
      [&](const SeqExpr& n) { return part(n.body); },
      [](const ExprNode& n) { return n.type ? n.type : object_type(); });
}

Type infer_type(const Expr& e) {
  Inference run;
  const Type t = infer_type(run, e);
  run.problems.throw_if_any();
  return t;
}

Expr typed(Inference& run, Expr e) {
  if (e.is<Var>()) return e;  // it is what it is
  if (const auto* call = e.as<Call>())
    if (const Ref<Call> whole = with_typed_arguments(run, *call, true)) e = whole;
  if (const Type t = infer_type(run, e); t && !(e->type && structural_equal(t, e->type))) e.edit()->type = t;
  return e;
}
Expr typed(Expr e) {
  Inference run;
  e = typed(run, std::move(e));
  run.problems.throw_if_any();
  return e;
}

Type join(const Type& a, const Type& b) {
  if (a.same_as(b) || is_incomplete(b)) return a;
  if (is_incomplete(a)) return b;
  if (const auto *x = a.as<TensorType>(), *y = b.as<TensorType>(); x && y) {
    const DataType dtype = x->dtype == y->dtype ? x->dtype : DataType::void_();
    if (x->ndim != y->ndim) return tensor_type_unknown(-1, dtype);
    auto p = op::shape_of(*x), q = op::shape_of(*y);
    if (!p || !q) return tensor_type_unknown(x->ndim, dtype);
    for (size_t i = 0; i < p->size(); ++i)
      if (!same_dim((*p)[i], (*q)[i])) return tensor_type_unknown(x->ndim, dtype);
    return x->dtype == dtype ? a : like(*x, dtype);
  }
  if (const auto *x = a.as<ShapeType>(), *y = b.as<ShapeType>(); x && y) {
    bool same = x->known && y->known && x->ndim == y->ndim;
    for (size_t i = 0; same && i < x->values.size(); ++i) same = same_dim(x->values[i], y->values[i]);
    return same ? a : Type(make<ShapeType>(Shape(), x->ndim == y->ndim ? x->ndim : -1, false));
  }
  if (const auto *x = a.as<TupleType>(), *y = b.as<TupleType>();
      x && y && x->items.size() == y->items.size()) {
    Array<Type> items;
    for (size_t i = 0; i < x->items.size(); ++i) items.push_back(join(x->items[i], y->items[i]));
    return make<TupleType>(items);
  }
  if (const auto *x = a.as<PrimType>(), *y = b.as<PrimType>(); x && y && x->dtype == y->dtype)
    return make<PrimType>(x->dtype,
                          x->value && y->value && same_dim(x->value, y->value) ? x->value : PrimExpr());
  if (const auto *x = a.as<AdtType>(), *y = b.as<AdtType>(); x && y && x->name == y->name) {
    Array<Type> args;
    for (size_t i = 0; i < x->args.size(); ++i)
      // A parameter that one side says nothing of (an empty list) is the other's.
      args.push_back(x->args[i].is<ObjectType>()   ? y->args[i]
                     : y->args[i].is<ObjectType>() ? x->args[i]
                                                   : join(x->args[i], y->args[i]));
    return make<AdtType>(x->name, args);
  }
  return structural_equal(a, b) ? a : object_type();
}

BlockBuilder make_builder() {
  return BlockBuilder([](const Expr& e) { return infer_type(e); });
}

}  // namespace tenon::op
