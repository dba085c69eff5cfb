// SPDX-License-Identifier: Apache-2.0
// Type inference of graph expressions and whole functions.
#include "op/infer.h"

#include <fmt/format.h>

#include "ir/structural.h"
#include "ir/walk.h"
#include "op/op_def.h"

namespace tenon::op {

using namespace graph;

namespace {

void check_arguments(const Call& call, const Op& op) {
  size_t required = 0;
  for (const OpArgument& a : op.arguments) required += !a.optional;
  if (op.variadic && required) --required;
  const size_t given = call.args.size();
  if (given >= required && (op.variadic || given <= op.arguments.size())) return;
  std::string names;
  for (const OpArgument& a : op.arguments)
    names += (names.empty() ? "" : ", ") + a.name + (a.optional ? "?" : "");
  const std::string location =
      call.origin ? (call.origin->span ? call.origin->span.to_string() : call.origin->text) : "";
  fail("T1103",
       fmt::format("{}: {} arguments given, it takes ({}{})", op.name, given, names, op.variadic ? "…" : ""),
       location);
}

/// Sizes of the callee's parameters expressed by those of the arguments.
void unify(const Type& param, const Type& arg, tir::VarMap& map) {
  auto dims = [&](const std::optional<Shape>& p, const std::optional<Shape>& a) {
    if (!p || !a || p->size() != a->size()) return;
    for (size_t i = 0; i < p->size(); ++i)
      if (const auto* v = (*p)[i].as<tir::Var>()) map.emplace(v, (*a)[i]);
  };
  if (const auto *p = param.as<TensorType>(), *a = arg.as<TensorType>(); p && a)
    dims(op::shape_of(*p), op::shape_of(*a));
  if (param.is<ShapeType>() && arg.is<ShapeType>()) dims(known_shape(param), known_shape(arg));
  if (const auto *p = param.as<TupleType>(), *a = arg.as<TupleType>();
      p && a && p->items.size() == a->items.size())
    for (size_t i = 0; i < p->items.size(); ++i) unify(p->items[i], a->items[i], map);
}

/// The callee's result type in the caller's terms; a size that the caller cannot name is not known.
Type in_terms_of(const Type& t, const tir::VarMap& map) {
  auto dims = [&](const Shape& shape) -> std::optional<Shape> {
    Shape out;
    for (const PrimExpr& d : shape) {
      for (const tir::VarRef& v : tir::free_vars(d))
        if (!map.count(v.get())) return std::nullopt;
      out.push_back(tir::substitute(d, map));
    }
    return out;
  };
  if (const auto* n = t.as<TensorType>()) {
    auto shape = op::shape_of(*n);
    return shape ? make_type(dims(*shape), n->ndim, n->dtype) : make_type(std::nullopt, n->ndim, n->dtype);
  }
  if (const auto* n = t.as<ShapeType>(); n && n->known) {
    auto values = dims(n->values);
    return make<ShapeType>(values ? *values : Shape(), n->ndim, values.has_value());
  }
  if (const auto* n = t.as<TupleType>())
    return make<TupleType>(n->items.map([&](const Type& i) { return in_terms_of(i, map); }));
  return t;
}

Type infer_call(const Call& call) {
  if (const auto* op = call.op.as<Op>()) {
    check_arguments(call, *op);
    if (!op->infer) return call.type_args.empty() ? object_type() : tuple_type(call.type_args);
    return op->infer(call);
  }
  if (!call.type_args.empty())
    return call.type_args.size() == 1 ? call.type_args[0] : tuple_type(call.type_args);
  Type callee = call.op->type;
  if (const auto* v = call.op.as<Var>(); v && !callee) callee = v->declared;
  if (call.op.is<Function>() && !callee) callee = infer_type(call.op);
  const auto* f = callee.as<FuncType>();
  if (!f || !f->ret) return object_type();
  if (f->opaque || !f->params) return f->ret;
  if (f->params.size() != call.args.size())
    fail("T1103", fmt::format("a function of {} parameters is called with {} arguments", f->params.size(),
                              call.args.size()));
  tir::VarMap map;
  for (size_t i = 0; i < call.args.size(); ++i) unify(f->params[i], arg_type(call, i), map);
  return in_terms_of(f->ret, map);
}

Type tuple_of(const Array<Expr>& items) {
  return make<TupleType>(items.map([](const Expr& e) { return e->type ? e->type : infer_type(e); }));
}
Type type_or_object(const Expr& e) { return e && e->type ? e->type : object_type(); }

}  // namespace

Type infer_type(const Expr& e) {
  CHECK(e, "type of nothing");
  return match<Type>(
      e, [](const Call& n) { return infer_call(n); }, [](const Tuple& n) { return tuple_of(n.items); },
      [](const TupleGetItem& n) -> Type {
        const Type t = n.tuple->type ? n.tuple->type : infer_type(n.tuple);
        const auto* tuple = t.as<TupleType>();
        if (!tuple) return object_type();
        if (n.index < 0 || size_t(n.index) >= tuple->items.size())
          fail("T1101", fmt::format("item {} of a tuple of {}", n.index, tuple->items.size()),
               n.origin ? n.origin->text : "");
        return tuple->items[size_t(n.index)];
      },
      [](const Var& n) { return n.declared ? n.declared
                                : n.type   ? n.type
                                           : object_type(); },
      [](const Function& n) -> Type {
        Array<Type> params;
        for (const VarRef& p : n.params) params.push_back(type_or_object(p));
        return make<FuncType>(params, n.ret_type ? n.ret_type : type_or_object(n.body), false);
      },
      [](const If& n) { return join(type_or_object(n.true_branch), type_or_object(n.false_branch)); },
      [](const While& n) -> Type {
        Array<Type> items;
        for (const VarRef& v : n.loop_vars) items.push_back(type_or_object(v));
        return make<TupleType>(items);
      },
      [](const SeqExpr& n) { return n.body->type ? n.body->type : infer_type(n.body); },
      [](const ExprNode& n) { return n.type ? n.type : object_type(); });
}

Type join(const Type& a, const Type& b) {
  if (a.same_as(b)) return a;
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
  return structural_equal(a, b) ? a : object_type();
}

namespace {

/// Types of a body and of the bodies nested in it, in order. Keeps its own stack: control flow may nest
/// deeply.
class FunctionInference {
 public:
  explicit FunctionInference(bool again) : again_(again) {}

  void run(const Expr& body) {
    enter(body);
    while (!stack_.empty()) step();
  }

 private:
  struct Frame {
    Expr body;
    std::vector<Binding> bindings;
    size_t next = 0;
    size_t region = 0;  ///< of the binding's value: bodies done so far
    int rounds = 0;     ///< of a loop whose types had to be widened
  };

  void enter(const Expr& body) {
    Frame f;
    f.body = body;
    f.bindings = bindings_of(body);
    stack_.push_back(std::move(f));
  }

  static std::vector<Expr> regions_of(const Expr& value) {
    if (const auto* n = value.as<If>()) return {n->true_branch, n->false_branch};
    if (const auto* n = value.as<While>()) return {n->condition, n->body};
    if (const auto* n = value.as<Function>()) return {n->body};
    return {};
  }

  void step() {
    Frame& f = stack_.back();
    if (f.next == f.bindings.size()) {
      const Expr result = result_of(f.body);
      type_of_value(result);
      f.body.mut()->type = result->type;
      stack_.pop_back();
      return;
    }
    const Binding b = f.bindings[f.next];
    const Expr value = binding_value(b);
    const std::vector<Expr> regions = regions_of(value);
    if (f.region == 0 && f.rounds == 0) start(value);
    if (f.region < regions.size()) {
      const Expr region = regions[f.region++];
      enter(region);  // `f` is no longer valid
      return;
    }
    if (value.is<While>() && widen(*value.as<While>())) {
      f.region = 0;
      ++f.rounds;
      return;
    }
    if (again_ || !regions.empty()) value.mut()->type = Type();
    type_of_value(value);
    const graph::VarRef var = binding_var(b);
    if (const auto* cast = b.as<MatchCastNode>())
      set(var, cast->type);
    else if (again_ || !var->type)
      set(var, value->type);
    ++f.next;
    f.region = 0;
    f.rounds = 0;
  }

  static void set(const graph::VarRef& v, const Type& t) {
    v.mut()->type = t;
    v.mut()->declared = t;
  }

  /// Loop variables begin with the types of their first values.
  void start(const Expr& value) {
    const auto* loop = value.as<While>();
    if (!loop) return;
    for (size_t i = 0; i < loop->loop_vars.size(); ++i) {
      type_of_value(loop->init[i]);
      if (again_ || !loop->loop_vars[i]->type) set(loop->loop_vars[i], loop->init[i]->type);
    }
  }
  /// What the body returns must fit what it takes: types that differ become less exact until they agree.
  bool widen(const While& loop) {
    const auto* out = loop.body->type.as<TupleType>();
    bool changed = false;
    for (size_t i = 0; i < loop.loop_vars.size(); ++i) {
      const Type now = loop.loop_vars[i]->type;
      const Type next = out && i < out->items.size() ? out->items[i]
                        : loop.loop_vars.size() == 1 ? loop.body->type
                                                     : object_type();
      const Type both = join(now, next);
      if (structural_equal(both, now)) continue;
      set(loop.loop_vars[i], both);
      again_ = changed = true;
    }
    return changed;
  }

  /// A value that is not in normal form has untyped parts: these first.
  void type_of_value(const Expr& value) {
    if (value->type && !again_) return;
    if (value->type && !value.is<Call>() && !value.is<Tuple>() && !value.is<TupleGetItem>()) return;
    auto needs = [&](const Expr& e) {
      return e && !e->type && (e.is<Call>() || e.is<Tuple>() || e.is<TupleGetItem>());
    };
    bool nested = false;
    if (const auto* c = value.as<Call>())
      for (const Expr& a : c->args) nested = nested || needs(a);
    if (const auto* t = value.as<Tuple>())
      for (const Expr& a : t->items) nested = nested || needs(a);
    if (const auto* g = value.as<TupleGetItem>()) nested = needs(g->tuple);
    if (nested)
      post_order(value, [&](const ObjectRef& n) {
        if (!n.is<ExprNode>() || n.same_as(value)) return;
        Expr e = n.cast<ExprNode>();
        if (needs(e)) e.mut()->type = infer_type(e);
      });
    // Tuples among the arguments were typed from what is now outdated.
    if (again_ && value.is<Call>())
      for (const Expr& a : value.as<Call>()->args)
        if (a.is<Tuple>()) Expr(a).mut()->type = infer_type(a);
    const Type t = infer_type(value);
    Expr(value).mut()->type = t;
  }

  bool again_;
  std::vector<Frame> stack_;
};

}  // namespace

void infer_function(const Ref<Function>& f, bool again) {
  FunctionInference(again).run(f->body);
  if (again || !f->ret_type) f.mut()->ret_type = f->body->type;
  Type t = infer_type(f);
  f.mut()->type = t;
}

BlockBuilder make_builder() {
  return BlockBuilder([](const Expr& e) { return infer_type(e); });
}

}  // namespace tenon::op
