// SPDX-License-Identifier: Apache-2.0
// Types of graph functions in script text, in their newer and older orders of arguments.
#include <fmt/format.h>

#include "ir/parse_impl.h"

namespace tenon::script {
using namespace graph;

bool Converter::is_size(const Ast* a) const {
  std::vector<const Ast*> stack{a};
  while (!stack.empty()) {
    const Ast* x = stack.back();
    stack.pop_back();
    switch (x->kind) {
      case ExprKind::integer:
        break;
      case ExprKind::object:
        if (!x->object.is<tir::PrimExprNode>()) return false;
        break;
      case ExprKind::name: {
        const ObjectRef* o = lookup(x->text);
        if (!o || !o->is<tir::Var>()) return false;
        break;
      }
      case ExprKind::unary:
      case ExprKind::binary:
        stack.insert(stack.end(), x->items.begin(), x->items.end());
        break;
      case ExprKind::call: {
        const std::string p = path(x->items[0]);
        if (!p.starts_with("T.")) return false;
        stack.insert(stack.end(), x->items.begin() + 1, x->items.end());
        break;
      }
      default:
        return false;
    }
  }
  return true;
}

/// ("n", "n + 1"): sizes as older texts write them.
PrimExpr Converter::quoted_size(const Ast* quoted) {
  DiagnosticList problems;
  const std::unique_ptr<Tree> tree = parse_expression(quoted->text, "", problems);
  if (!problems.empty()) fail("T0230", fmt::format("`{}` is no size", quoted->text), quoted);
  for (Ast& a : tree->exprs) {  // places are those of the whole text
    a.begin = quoted->begin;
    a.end = quoted->end;
  }
  return expr(tree->expression);
}

Array<PrimExpr> Converter::shape_values(const Ast* a) {
  Array<PrimExpr> out;
  for (const Ast* d : items_of(a)) {
    const PrimExpr e = d->kind == ExprKind::string ? quoted_size(d) : expr(d);
    if (!e.dtype().is_integer())
      fail("T0230", fmt::format("a dimension has type {}, not an integer", to_string(e.dtype())), d);
    out.push_back(e);
  }
  return out;
}

/// (shape, dtype) in one of the older and newer orders.
Type Converter::tensor_type(const std::vector<const Ast*>& positional, const Ast* at) {
  auto t = make<TensorType>();
  TensorType* n = t.edit();
  const Ast *shape = positional.empty() ? nullptr : positional[0],
            *dtype = positional.size() > 1 ? positional[1] : nullptr;
  if (at->kind == ExprKind::call) {
    for (const auto& [name, v] : at->named) {
      if (name == "shape")
        shape = v;
      else if (name == "dtype")
        dtype = v;
      else if (name == "ndim")
        n->ndim = integer_of(v, "ndim");
      else if (name == "device" || name == "vdevice")
        n->device = text_of(v, "a device");
      else
        fail("T0223", fmt::format("R.Tensor has no argument `{}`", name), v);
    }
    if (n->ndim < -1) fail("T0224", "ndim is negative", at);
  }
  if (shape && shape->kind == ExprKind::string && !dtype) std::swap(shape, dtype);
  if (dtype && !is_none(dtype)) n->dtype = dtype_of(dtype);
  if (!shape || is_none(shape) || (shape->kind == ExprKind::name && shape->text == "_")) return t;
  if (shape->kind == ExprKind::name) {
    const ObjectRef* o = lookup(shape->text);
    if (o && o->is<PoisonObj>()) throw Failed();
    if (const auto* v = o ? o->as<graph::Var>() : nullptr) {
      if (v->type && !v->type.is<ShapeType>() && !v->type.is<ObjectType>())
        fail("T0232", fmt::format("`{}` is a {}, and a shape is needed", shape->text, print(v->type)), shape);
      n->shape = o->cast<ExprNode>();
      return t;
    }
  }
  if (shape->kind == ExprKind::integer) fail("T0232", "a shape is a tuple of sizes", shape, "write (n,)");
  const bool bare = shape->kind != ExprKind::tuple && shape->kind != ExprKind::list;
  if (bare && !is_size(shape) && implicit_level_ < 0) fail("T0232", "a shape is a tuple of sizes", shape);
  const Array<PrimExpr> sizes = shape_values(shape);
  for (const PrimExpr& size : sizes)
    if (const auto known = tir::as_int(size); known && *known < 0)
      fail("T0224", fmt::format("a dimension is {}", *known), shape);
  if (n->ndim >= 0 && n->ndim != int64_t(sizes.size()))
    fail("T0224", fmt::format("ndim is {} beside a shape of {} sizes", n->ndim, sizes.size()), at);
  n->shape = shape_expr(sizes);
  n->ndim = int64_t(sizes.size());
  return t;
}

Array<Type> Converter::types_of(const Ast* a) {
  Array<Type> out;
  if (a->kind == ExprKind::list || a->kind == ExprKind::tuple)
    for (const Ast* x : a->items) out.push_back(type(x));
  else
    out.push_back(type(a));
  return out;
}

/// `x.struct_info`, `x.ty`: the type of a value that is known; null: `a` is none of these.
Type Converter::type_of_value(const Ast* a) {
  if (a->kind != ExprKind::attribute || a->items[0]->kind != ExprKind::name ||
      (a->text != "struct_info" && a->text != "ty"))
    return {};
  const ObjectRef* o = lookup(a->items[0]->text);
  const auto* v = o ? o->as<graph::Var>() : nullptr;
  if (!v) return {};
  if (v->declared) return v->declared;
  if (v->type) return v->type;
  fail("T0229", fmt::format("the type of `{}` is not declared", a->items[0]->text), a);
}

Type Converter::type(const Ast* a) {
  try {
    if (is_none(a)) return {};
    if (a->kind == ExprKind::object) {
      if (const auto t = a->object.cast<TypeNode>()) return t;
      no_use(a, "a type");
    }
    if (Type t = type_of_value(a)) return t;
    if (a->kind == ExprKind::call) refuse_dialect(path(a->items[0]), a);
    const bool bare = a->kind == ExprKind::name || a->kind == ExprKind::attribute;
    const std::string p = path(bare || a->items.empty() ? a : a->items[0]);
    const std::string name = p.starts_with("R.") ? p.substr(2) : p;
    std::vector<const Ast*> args;
    if (a->kind == ExprKind::call || a->kind == ExprKind::subscript)
      args.assign(a->items.begin() + 1, a->items.end());
    if (!p.starts_with("R."))
      if (Type t = adt_type(bare ? a : a->items.empty() ? a : a->items[0], args)) return t;
    if (name == "Tensor" || name == "DynTensor") return tensor_type(args, a);
    if (name == "Object" || name == "Any") return object_type();
    if (name == "Shape") {
      if (!args.empty() && !is_none(args[0])) {
        Array<PrimExpr> values = shape_values(args[0]);
        const int64_t n = int64_t(values.size());
        return make<ShapeType>(std::move(values), n, true);
      }
      const Ast* ndim = a->kind == ExprKind::call ? named(a, "ndim") : nullptr;
      return make<ShapeType>(Array<PrimExpr>(), ndim ? integer_of(ndim, "ndim") : -1, false);
    }
    if (name == "Prim") {
      const Ast* v = a->kind == ExprKind::call ? named(a, "value") : nullptr;
      if (!args.empty()) {
        const DataType t = dtype_of(args[0]);
        return make<PrimType>(t, v ? expr_of(v, t) : PrimExpr());
      }
      if (v) {
        const PrimExpr e = v->kind == ExprKind::string ? quoted_size(v) : expr(v);
        return make<PrimType>(e.dtype(), e);
      }
      fail("T0224", "R.Prim needs a data type or a value", a);
    }
    if (name == "Tuple") {
      Array<Type> items;
      for (const Ast* x : args)
        for (const Ast* y :
             x->kind == ExprKind::list || x->kind == ExprKind::tuple ? x->items : std::vector<const Ast*>{x})
          items.push_back(type(y));
      return tuple_type(items);
    }
    if (name == "Callable") {
      const Ast *ret = args.size() > 1             ? args[1]
                       : a->kind == ExprKind::call ? named(a, "ret")
                                                   : nullptr,
                *params = args.empty() ? nullptr : args[0];
      Scope scope(*this);
      Array<std::string> type_params;
      if (const Ast* names = a->kind == ExprKind::call ? named(a, "type_params") : nullptr)
        for (const Ast* x : items_of(names)) {
          type_params.push_back(text_of(x, "a type parameter"));
          bind(x->text, make<TypeVar>(x->text));
        }
      Array<Type> list;
      if (params && !is_none(params)) list = types_of(params);
      return make<FuncType>(list, ret ? type(ret) : Type(), params == nullptr, type_params);
    }
    if (name == "Ref") {
      if (args.size() != 1) fail("T0224", "R.Ref needs the type it refers to", a);
      return make<RefType>(type(args[0]));
    }
    fail("T0229",
         p.empty() ? "a type such as R.Tensor((2, 3), \"float32\") was expected"
                   : fmt::format("`{}` is no type of graph functions", p),
         a);
  } catch (const DiagnosticError& e) {
    note(e, span(a));
    throw Failed();
  }
}

}  // namespace tenon::script
