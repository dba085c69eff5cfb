// SPDX-License-Identifier: Apache-2.0
#include "op/unify.h"

#include <fmt/format.h>

#include "ir/find_node.h"
#include "ir/origin.h"
#include "ir/text.h"
#include "op/infer.h"
#include "op/op_def.h"

namespace tenon::op {
using namespace graph;

namespace {
constexpr int kMaxDepth = 200;  // of types

bool unknown(const Type& t) { return !t || t.is<ObjectType>() || is_incomplete(t); }

/// The symbolic sizes and type parameters that a function's type shows in its parameters are its own.
Type instantiate(const FuncType& f) {
  std::map<std::string, Type> own;
  for (const std::string& name : f.type_params) own[name] = object_type();
  Type t = make<FuncType>(f.params, f.ret, f.opaque);
  return substitute_types(t, own);
}
}  // namespace

// ---------------------------------------------------------------- open types
Type incomplete_type() {
  static const Type type = make<OpenType>();
  return type;
}
bool is_incomplete(const Type& t) { return t.is<OpenType>(); }
bool has_incomplete(const Type& type) {
  if (!type) return false;
  return has_node<OpenType>(type, [](const ObjectRef& n) { return n.is<TypeNode>() && !n.is<TensorType>(); });
}
int64_t open_id(const Type& type) { return is_incomplete(type) ? type.as<OpenType>()->id : 0; }

void OpenTypes::constrain(int64_t id, const Type& type) {
  const Type t = resolved(type);
  if (unknown(t)) return;
  if (sites.empty() || !sites.back().emplace(id, t).second) sites.push_back({{id, t}});
}
Type OpenTypes::parameter(const Var* p) const {
  const auto it = of.find(p);
  return it == of.end() ? Type() : make<OpenType>(it->second);
}
Type OpenTypes::resolved(const Type& type) const {
  auto it = known.find(open_id(type));
  return it == known.end() || !it->second ? type : it->second;
}

int knowledge(const Type& t) {
  if (unknown(t)) return 0;
  if (const auto* x = t.as<TensorType>())
    return 1 + !x->dtype.is_void() + (x->ndim >= 0) + 2 * known_shape(t).has_value();
  if (const auto* x = t.as<ShapeType>()) return 1 + (x->ndim >= 0) + x->known;
  int sum = 1;
  if (const auto* x = t.as<TupleType>())
    for (const Type& i : x->items) sum += knowledge(i);
  else if (const auto* x = t.as<AdtType>())
    for (const Type& i : x->args) sum += knowledge(i);
  else if (const auto* x = t.as<RefType>())
    sum += knowledge(x->value);
  else if (const auto* x = t.as<FuncType>()) {
    sum += !x->opaque + knowledge(x->ret);
    for (const Type& i : x->params) sum += knowledge(i);
  } else if (const auto* x = t.as<PrimType>()) {
    sum += 1 + bool(x->value);
  } else {
    sum = 2;
  }
  return sum;
}

Unifier::Unifier(const Array<std::string>& type_params, OpenTypes* open) : open_(open) {
  for (const std::string& name : type_params) flexible_[name] = true;
}

bool Unifier::bind(const std::string& name, const Type& arg, bool exact) {
  Type& known = types_[name];
  if (unknown(arg)) return true;
  if (unknown(known)) {
    known = arg;
    return true;
  }
  if (conflict(known, arg)) return false;
  if (!exact) known = join(known, arg);
  return true;
}

bool Unifier::dims(const Array<PrimExpr>& param, const Array<PrimExpr>& arg) {
  if (param.size() != arg.size()) return false;
  for (size_t i = 0; i < param.size(); ++i) {
    const auto* v = param[i].as<tir::Var>();
    if (v) seen_[v] = true;
    PrimExpr wanted = param[i];
    if (v && !sizes_.emplace(v, arg[i]).second) wanted = sizes_[v];
    const auto a = tir::as_int(wanted), b = tir::as_int(arg[i]);
    if (a && b && *a != *b) return false;
  }
  return true;
}

bool Unifier::unify(const Type& param, const Type& arg) {
  if (const int64_t wanted = open_id(param), given = open_id(arg); open_ && (wanted || given)) {
    if (given) open_->constrain(given, apply(open_->resolved(param), true));
    if (wanted) {
      open_->constrain(wanted, arg);
      // Sizes of the result may be those of what is known.
      Unifier next = *this;
      if (next.unify(open_->known[wanted], arg)) *this = next;
    }
    return true;
  }
  if (unknown(param)) return true;
  if (const auto* v = param.as<TypeVar>(); v && flexible_.count(v->name))
    return bind(v->name, arg, contravariant_);
  if (unknown(arg)) return true;
  struct Depth {
    int& n;
    ~Depth() { --n; }
  } depth{++depth_};
  if (depth_ > kMaxDepth) return true;
  if (param->type_index != arg->type_index) return false;
  auto all = [&](const Array<Type>& p, const Array<Type>& a) {
    if (p.size() != a.size()) return false;
    for (size_t i = 0; i < p.size(); ++i)
      if (!unify(p[i], a[i])) return false;
    return true;
  };
  if (const auto* p = param.as<TensorType>()) {
    const auto* a = arg.as<TensorType>();
    if (!p->dtype.is_void() && !a->dtype.is_void() && p->dtype != a->dtype) return false;
    if (p->ndim >= 0 && a->ndim >= 0 && p->ndim != a->ndim) return false;
    const auto x = known_shape(param), y = known_shape(arg);
    return !x || !y || dims(*x, *y);
  }
  if (const auto* p = param.as<ShapeType>()) {
    const auto* a = arg.as<ShapeType>();
    if (p->ndim >= 0 && a->ndim >= 0 && p->ndim != a->ndim) return false;
    return !p->known || !a->known || dims(p->values, a->values);
  }
  if (const auto* p = param.as<PrimType>()) {
    const auto* a = arg.as<PrimType>();
    if (p->dtype != a->dtype) return false;
    if (const auto* v = p->value.as<tir::Var>()) {
      seen_[v] = true;
      if (a->value) sizes_.emplace(v, a->value);
    }
    return true;
  }
  if (const auto* p = param.as<TupleType>()) return all(p->items, arg.as<TupleType>()->items);
  if (const auto* p = param.as<AdtType>()) {
    const auto* a = arg.as<AdtType>();
    return p->name == a->name && all(p->args, a->args);
  }
  if (const auto* p = param.as<RefType>()) return unify(p->value, arg.as<RefType>()->value);
  if (const auto* p = param.as<TypeVar>()) return p->name == arg.as<TypeVar>()->name;
  if (const auto* p = param.as<FuncType>()) {
    const auto* a = arg.as<FuncType>();
    if (p->opaque || a->opaque) return true;
    const Type concrete = instantiate(*a);
    a = concrete.as<FuncType>();
    if (p->params.size() != a->params.size()) return false;
    contravariant_ = !contravariant_;
    const bool fits = all(p->params, a->params);
    contravariant_ = !contravariant_;
    return fits && unify(p->ret, a->ret);
  }
  return true;
}

Type Unifier::apply(const Type& t, bool keep_sizes) const {
  if (!t) return t;
  auto size = [&](const PrimExpr& d) -> PrimExpr {
    for (const tir::VarRef& v : tir::free_vars(d))
      if (!sizes_.count(v.get()) && !(keep_sizes && !seen_.count(v.get()))) return {};
    return tir::substitute(d, sizes_);
  };
  auto all = [&](const Array<PrimExpr>& shape) -> std::optional<Shape> {
    Shape out;
    for (const PrimExpr& d : shape) {
      const PrimExpr s = size(d);
      if (!s) return std::nullopt;
      out.push_back(s);
    }
    return out;
  };
  auto list = [&](const Array<Type>& items) {
    return items.map([&](const Type& i) { return apply(i, keep_sizes); });
  };
  if (const auto* n = t.as<TensorType>()) {
    auto shape = op::shape_of(*n);
    return make_type(shape ? all(*shape) : std::nullopt, n->ndim, n->dtype);
  }
  if (const auto* n = t.as<ShapeType>(); n && n->known) {
    auto values = all(n->values);
    return make<ShapeType>(values ? *values : Shape(), n->ndim, values.has_value());
  }
  if (const auto* n = t.as<PrimType>(); n && n->value) return make<PrimType>(n->dtype, size(n->value));
  if (const auto* n = t.as<TupleType>()) return make<TupleType>(list(n->items));
  if (const auto* n = t.as<AdtType>()) return make<AdtType>(n->name, list(n->args));
  if (const auto* n = t.as<RefType>()) return make<RefType>(apply(n->value, keep_sizes));
  if (const auto* n = t.as<FuncType>()) {
    // Sizes that the function's own parameters show stay its own.
    Unifier inner = *this;
    for (const Type& p : n->params)
      for (const tir::VarRef& v : tir::free_vars(p))
        if (!sizes_.count(v.get())) inner.sizes_[v.get()] = v;
    for (const std::string& name : n->type_params) inner.types_[name] = make<TypeVar>(name);
    return make<FuncType>(n->params.map([&](const Type& i) { return inner.apply(i, keep_sizes); }),
                          inner.apply(n->ret, keep_sizes), n->opaque, n->type_params);
  }
  if (open_ && open_id(t)) {
    const Type now = open_->resolved(t);
    return open_id(now) ? now : apply(now, keep_sizes);
  }
  if (const auto* v = t.as<TypeVar>()) {
    auto it = types_.find(v->name);
    if (it != types_.end() && it->second) return it->second;
    return flexible_.count(v->name) ? object_type() : t;
  }
  return t;
}

bool conflict(const Type& a, const Type& b, OpenTypes* open) { return !Unifier({}, open).unify(a, b); }

Type function_type(const Function& f, const OpenTypes* open) {
  Array<Type> params;
  for (const VarRef& p : f.params) {
    const Type t = open ? open->parameter(p.get()) : Type();
    params.push_back(t ? t : p->declared ? p->declared : object_type());
  }
  return make<FuncType>(params, f.ret_type, false, f.type_params);
}

Type constructor_type(const AdtDef& def, size_t tag) {
  Array<Type> args;
  for (const std::string& p : def->params) args.push_back(make<TypeVar>(p));
  return make<FuncType>(def->constructors[tag]->items, make<AdtType>(def->name, args), false, def->params);
}

Pattern typed_pattern(Inference& run, const Pattern& pattern, const Type& value, const Origin& at,
                      FunctionRef<void(const VarRef& old, const VarRef& now)> renamed) {
  if (const VarRef& v = pattern->var) {
    const bool better = knowledge(value) > knowledge(v->declared);
    if (!better && v->type) return pattern;
    VarRef now = var(v->name, better ? value : v->declared);
    now.edit()->origin = v->origin;
    if (!now->type) now.edit()->type = value;
    renamed(v, now);
    Pattern out = pattern;
    out.edit()->var = now;
    return out;
  }
  auto refuse = [&](const std::string& what) -> Pattern {
    run.problems.add(Diagnostic{"T1104",
                                fmt::format("{} is no pattern for a value of type {}", what, print(value)),
                                place(at),
                                {},
                                {}});
    return {};
  };
  std::vector<Type> items(pattern->items.size(), object_type());
  if (pattern->kind == PatternKind::tuple) {
    const auto* tuple = value.as<TupleType>();
    if (!tuple && !unknown(value)) return refuse("a tuple");
    if (tuple && tuple->items.size() != items.size())
      return refuse(fmt::format("a tuple of {}", items.size()));
    if (tuple) items = tuple->items.vec();
  } else if (const auto* type = pattern->constructor ? pattern->constructor->type.as<FuncType>() : nullptr) {
    Unifier u(type->type_params, run.open);
    if (!u.unify(type->ret, value)) return refuse("`" + pattern->constructor->name + "`");
    for (size_t i = 0; i < items.size() && i < type->params.size(); ++i)
      items[i] = u.apply(type->params[i], true);
  }
  Array<Pattern> typed;
  bool changed = false;
  for (size_t i = 0; i < items.size(); ++i) {
    typed.push_back(typed_pattern(run, pattern->items[i], items[i], at, renamed));
    if (!typed.back()) return {};
    changed |= !typed.back().same_as(pattern->items[i]);
  }
  if (!changed) return pattern;
  Pattern out = pattern;
  out.edit()->items = typed;
  return out;
}

}  // namespace tenon::op
