// SPDX-License-Identifier: Apache-2.0
// Calls say what parameters are; inference over a copy of the module gathers what they say until nothing
// changes. Sizes that calls give differently become symbols of the function (anti-unification).
#include "pass/graph/types/open_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/bodies.h"
#include "ir/origin.h"
#include "ir/structural.h"
#include "ir/symbols.h"
#include "ir/text.h"
#include "op/infer.h"
#include "op/op_def.h"
#include "op/unify.h"

namespace tenon::graph {
namespace {

/// A function with open types: its own, and the symbols that they may name.
struct Owner {
  std::string label;
  const Function* function = nullptr;
  std::vector<VarRef> open, around;  ///< parameters without type; all that stand around it, its own included
  std::set<std::string> names;       ///< of the open types
  std::string result;                ///< that of the result, or empty
};

/// The least general type that has both: one call after the other.
class Generalisation {
 public:
  /// `scope`: the symbols that the function sees from outside.
  Generalisation(op::OpenTypes& open, const std::vector<tir::VarRef>& scope) : open_(open), scope_(scope) {}

  bool conflict = false;

  Type types(const Type& t, const Type& s) {
    if (!t) return first(s);
    if (!s || same(t, s)) return t;
    const std::string a = op::open_name(t), b = op::open_name(s);
    if (!a.empty()) extra_.emplace_back(a, s);
    if (!b.empty()) extra_.emplace_back(b, t);
    if (!a.empty() || !b.empty()) return a.empty() ? t : s;
    if (t.is<ObjectType>()) return s;
    if (s.is<ObjectType>()) return t;
    if (const auto *x = t.as<TensorType>(), *y = s.as<TensorType>(); x && y) {
      if (x->dtype != y->dtype || x->ndim != y->ndim) return differ(t);
      const auto p = known_shape(t), q = known_shape(s);
      if (!p || !q) return tensor_type_unknown(x->ndim, x->dtype);
      const auto dims = sizes(*p, *q);
      return dims ? Type(tensor_type(*dims, x->dtype)) : Type(tensor_type_unknown(x->ndim, x->dtype));
    }
    if (const auto *x = t.as<ShapeType>(), *y = s.as<ShapeType>(); x && y) {
      if (x->ndim != y->ndim) return make<ShapeType>(Array<PrimExpr>(), int64_t(-1), false);
      const auto dims = x->known && y->known ? sizes(x->values, y->values) : std::nullopt;
      return make<ShapeType>(dims.value_or(Array<PrimExpr>()), x->ndim, dims.has_value());
    }
    if (const auto *x = t.as<PrimType>(), *y = s.as<PrimType>(); x && y && x->dtype == y->dtype)
      return make<PrimType>(x->dtype, PrimExpr());
    if (const auto *x = t.as<TupleType>(), *y = s.as<TupleType>();
        x && y && x->items.size() == y->items.size())
      return make<TupleType>(list(x->items, y->items));
    if (const auto *x = t.as<AdtType>(), *y = s.as<AdtType>(); x && y && x->name == y->name)
      return make<AdtType>(x->name, list(x->args, y->args));
    if (const auto *x = t.as<RefType>(), *y = s.as<RefType>(); x && y)
      return make<RefType>(types(x->value, y->value));
    if (const auto *x = t.as<FuncType>(), *y = s.as<FuncType>();
        x && y && !x->opaque && !y->opaque && x->params.size() == y->params.size()) {
      const Array<Type> params = list(x->params, y->params);
      // Sizes of a function that is handed on are its own: the later round knows more of the same one.
      bool one = true, open = false;
      for (size_t i = 0; i < params.size(); ++i) {
        one = one && op::open_name(x->params[i]) == op::open_name(y->params[i]);
        open = open || !op::open_name(x->params[i]).empty();
      }
      if (open) return one && y->ret ? s : t;
      return make<FuncType>(params, types(x->ret, y->ret), false, x->type_params);
    }
    return differ(t);
  }
  /// What the comparison says of open types inside.
  const std::vector<std::pair<std::string, Type>>& extra() const { return extra_; }

 private:
  static bool same(const Type& a, const Type& b) { return structural_equal(a, b, false) && closed(a); }
  static bool closed(const Type& t) {
    std::vector<tir::VarRef> symbols;
    symbols_of(t, symbols);
    return symbols.empty();
  }
  Type differ(const Type& t) {
    conflict = true;
    return t;
  }
  Array<Type> list(const Array<Type>& a, const Array<Type>& b) {
    Array<Type> out;
    for (size_t i = 0; i < a.size(); ++i) out.push_back(types(a[i], b[i]));
    return out;
  }
  bool known_here(const PrimExpr& e) const {
    for (const tir::VarRef& v : tir::free_vars(e))
      if (std::ranges::none_of(scope_, [&](const tir::VarRef& s) { return s.same_as(v); })) return false;
    return true;
  }
  std::optional<Array<PrimExpr>> sizes(const Array<PrimExpr>& p, const Array<PrimExpr>& q) {
    if (p.size() != q.size()) return std::nullopt;
    Array<PrimExpr> out;
    for (size_t i = 0; i < p.size(); ++i) out.push_back(size(p[i], q[i]));
    return out;
  }
  PrimExpr size(const PrimExpr& t, const PrimExpr& s) {
    if (op::same_dim(t, s) && known_here(t)) return t;
    bool taken = false;
    for (const auto& [a, b, out] : pairs_) {
      if (op::same_dim(a, t) && op::same_dim(b, s)) return out;
      taken = taken || out.same_as(t);
    }
    // A symbol of the function's own stays itself as long as it stands for one thing.
    const PrimExpr out = t.is<tir::Var>() && !known_here(t) && !taken ? t : fresh();
    pairs_.push_back({t, s, out});
    return out;
  }
  PrimExpr fresh() { return tir::var(fmt::format("size_{}", open_.symbols++), i64); }
  /// The first call: sizes that the function does not see become its own symbols.
  Type first(const Type& s) {
    std::vector<tir::VarRef> symbols;
    symbols_of(s, symbols);
    if (symbols.empty()) return s;
    auto all = [&](const Array<PrimExpr>& dims) {
      return dims.map([&](const PrimExpr& d) { return own(d); });
    };
    return rewrite_any(
               s,
               [&](const ObjectRef& n) -> ObjectRef {
                 if (const auto* t = n.as<TensorType>())
                   if (const auto shape = known_shape(Type(t))) return tensor_type(all(*shape), t->dtype);
                 if (const auto* t = n.as<ShapeType>(); t && t->known)
                   return make<ShapeType>(all(t->values), t->ndim, true);
                 if (const auto* t = n.as<PrimType>(); t && t->value)
                   return make<PrimType>(t->dtype, own(t->value));
                 return {};
               },
               [](const ObjectRef& n) { return n.is<FuncType>(); })
        .cast<TypeNode>();
  }
  PrimExpr own(const PrimExpr& d) {
    if (known_here(d)) return d;
    for (const auto& [a, b, out] : pairs_)
      if (op::same_dim(b, d) || out.same_as(d)) return out;
    const PrimExpr out = fresh();
    pairs_.push_back({out, d, out});
    return out;
  }

  struct Pair {
    PrimExpr now, call, out;
  };
  op::OpenTypes& open_;
  const std::vector<tir::VarRef>& scope_;
  std::vector<Pair> pairs_;
  std::vector<std::pair<std::string, Type>> extra_;
};

}  // namespace

Type seen_outside(const Type& type, const std::vector<tir::VarRef>& scope) {
  return rewrite_any(type,
                     [&](const ObjectRef& n) -> ObjectRef {
                       const auto* t = n.as<TensorType>();
                       if (!t || !known_shape(Type(t))) return {};
                       std::vector<tir::VarRef> symbols;
                       symbols_of(n, symbols);
                       for (const tir::VarRef& v : symbols)
                         if (std::ranges::none_of(scope, [&](const tir::VarRef& s) { return s.same_as(v); }))
                           return tensor_type_unknown(t->ndim, t->dtype);
                       return {};
                     })
      .cast<TypeNode>();
}

namespace {

class ParameterTypes {
 public:
  explicit ParameterTypes(IRModule module) : module_(std::move(module)) {}

  IRModule run(FunctionRef<std::exception_ptr(const IRModule&)> infer) {
    for (auto& [name, f] : graph_functions(module_)) collect(name, f);
    if (owners_.empty()) return module_;
    op::OpenTypes*& current = op::OpenTypes::current();
    struct Restore {
      op::OpenTypes*& place;
      op::OpenTypes* before;
      ~Restore() { place = before; }
    } restore{current, current};
    constexpr int kMaxRounds = 24;
    for (int round = 0; round < kMaxRounds; ++round) {
      open_.sites.clear();
      const IRModule copy = copied(false);
      current = &open_;
      const std::exception_ptr mistake = infer(copy);
      current = restore.before;
      const bool changed = gather();
      if (changed) continue;
      if (mistake && std::ranges::none_of(owners_, [&](const Owner& o) { return undetermined(o); }))
        std::rethrow_exception(mistake);
      break;
    }
    refuse_what_is_open();
    separate_sizes();
    return copied(true);
  }

 private:
  std::string fresh_name() { return fmt::format("?{}", count_++); }

  void collect(const std::string& name, const Ref<Function>& f) {
    add(name, *f, {}, nullptr);
    collect_closures(f->body, f->params.vec());
  }
  void collect_closures(const Expr& body, const std::vector<VarRef>& around) {
    for (const Binding& b : bindings_of(body)) {
      const Expr value = binding_value(b);
      if (const auto* f = value.as<Function>()) {
        add(binding_var(b)->name, *f, around, binding_var(b).get());
        std::vector<VarRef> inside = around;
        for (const VarRef& p : f->params) inside.push_back(p);
        collect_closures(f->body, inside);
      } else {
        for (const Expr& inner : bodies_of(value)) collect_closures(inner, around);
      }
    }
  }
  void add(const std::string& label, const Function& f, const std::vector<VarRef>& around, const Var* self) {
    Owner o;
    o.label = label;
    o.function = &f;
    o.around = around;
    for (const VarRef& p : f.params)
      if (!p->declared) {
        o.open.push_back(p);
        o.names.insert(names_[p.get()] = fresh_name());
      }
    if (self && !f.ret_type) {
      bool recursive = false;
      for_each_use(f.body, [&](const VarRef& v) { recursive = recursive || v.get() == self; });
      if (recursive) o.names.insert(o.result = results_[self] = fresh_name());
    }
    if (!o.names.empty()) owners_.push_back(std::move(o));
  }

  /// The module with variables of its own, so that inference may note types in it. What is known of open
  /// types is written, or, on the way, only known inside.
  IRModule copied(bool written) {
    open_.names.clear(), open_.results.clear();  // of copies that are gone
    IRModule out = module_;
    out.edit();
    for (auto& [name, f] : graph_functions(module_)) {
      const ObjectRef next = rewrite_any(
          f,
          [&](const ObjectRef& n) -> ObjectRef {
            if (const auto* g = n.as<GlobalVar>()) {
              auto copy = make<GlobalVar>(g->name);
              copy.mut()->origin = g->origin;
              return copy;
            }
            const auto* v = n.as<Var>();
            if (!v) return {};
            VarRef copy = var(v->name, v->declared);
            copy.mut()->origin = v->origin;
            if (auto it = names_.find(v); it != names_.end()) {
              const Type known = written ? final_type(it->second) : open_.resolved(make<TypeVar>(it->second));
              if (written && known)
                copy.mut()->declared = copy.mut()->type = known;
              else if (!written)
                copy.mut()->type = known, open_.names[copy.get()] = it->second;
            }
            if (auto it = results_.find(v); it != results_.end()) open_.results[copy.get()] = it->second;
            return copy;
          },
          [](const ObjectRef& n) { return n.is<Op>() || n.is<Constant>() || n.is<TypeNode>(); });
      post_order(next, [&](const ObjectRef& n) {
        if (!n.is<ExprNode>() || n.is<Var>() || n.is<Constant>() || n.is<Op>() || n.is<ShapeExpr>() ||
            n.is<PrimValue>() || n.is<Constructor>())
          return;
        n.cast<ExprNode>().mut()->type = Type();
      });
      if (written)
        for_each_binding(next.as<Function>()->body, [&](const Binding& b) {
          auto it = open_.results.find(binding_var(b).get());
          const Type result = it == open_.results.end() ? Type() : final_type(it->second);
          if (result) binding_value(b).cast<Function>().mut()->ret_type = result;
        });
      out.set(name, next);
    }
    return out;
  }

  /// True when a call said something new.
  bool gather() {
    bool changed = false;
    std::vector<op::OpenTypes::Site> more;
    for (const Owner& o : owners_) {
      std::vector<tir::VarRef> scope;
      for (const VarRef& p : o.around) symbols_of(type_of_parameter(p), scope);
      for (const op::OpenTypes::Site& site : open_.sites) {
        Generalisation all(open_, scope);
        std::map<std::string, Type> next;
        // What is known first: it says what the sizes of the call are here.
        for (const bool known : {true, false})
          for (const auto& [name, type] : site) {
            if (!o.names.count(name) || name == o.result || known != bool(open_.known[name])) continue;
            const bool before = std::exchange(all.conflict, false);
            next[name] = all.types(open_.known[name], type);
            if (all.conflict) conflicts_.emplace(name, std::pair(open_.known[name], type));
            all.conflict = before;
          }
        for (const auto& [name, type] : next) {
          if (open_.known[name] && structural_equal(open_.known[name], type, false)) continue;
          open_.known[name] = type;
          changed = true;
        }
        for (const auto& [name, type] : all.extra()) more.push_back({{name, type}});
      }
      for (const VarRef& p : o.function->params) symbols_of(type_of_parameter(p), scope);
      for (const op::OpenTypes::Site& site : open_.sites) {
        auto it = site.find(o.result);
        if (o.result.empty() || it == site.end()) continue;
        Type& known = open_.known[o.result];
        const Type given = seen_outside(it->second, scope), next = known ? op::join(known, given) : given;
        if (known && structural_equal(known, next, false)) continue;
        known = next;
        changed = true;
      }
    }
    open_.sites = more;
    if (!more.empty()) changed = gather_rest() || changed;
    return changed;
  }
  /// What comparisons of function types said.
  bool gather_rest() {
    bool changed = false;
    for (const op::OpenTypes::Site& site : open_.sites)
      for (const auto& [name, type] : site)
        if (Type& known = open_.known[name]; !known && op::open_name(type) != name) {
          const Type now = open_.resolved(type);
          if (!op::open_name(now).empty()) continue;
          known = now;
          changed = true;
        }
    return changed;
  }
  Type type_of_parameter(const VarRef& p) const {
    auto it = names_.find(p.get());
    if (it == names_.end()) return p->declared;
    auto known = open_.known.find(it->second);
    return known == open_.known.end() ? Type() : known->second;
  }
  /// With what is known of open types inside; null: nothing is known.
  Type final_type(const std::string& name) const {
    if (conflicts_.count(name)) return {};
    if (auto it = final_.find(name); it != final_.end()) return it->second;
    Type t = open_.resolved(make<TypeVar>(name));
    constexpr int kMaxNesting = 20;
    for (int i = 0; i < kMaxNesting && op::has_incomplete(t); ++i)
      t = rewrite_any(t, [&](const ObjectRef& n) -> ObjectRef {
            const auto* v = n.as<TypeVar>();
            if (!v || !v->name.starts_with('?')) return {};
            const Type now = conflicts_.count(v->name) ? object_type() : open_.resolved(Type(v));
            return now.same_as(n) || op::open_name(now) == v->name ? ObjectRef(object_type()) : now;
          }).cast<TypeNode>();
    return op::has_incomplete(t) || t.is<ObjectType>() ? Type() : t;
  }

  /// Functions among the parameters have sizes of their own, which are no other function's.
  void separate_sizes() {
    for (const Owner& o : owners_) {
      std::vector<tir::VarRef> keep;
      for (const auto& list : {o.around, o.function->params.vec()})
        for (const VarRef& p : list)
          if (const Type t = type_of_parameter(p); t && !t.is<FuncType>()) symbols_of(t, keep);
      for (const VarRef& p : o.open) {
        const std::string& name = names_.at(p.get());
        const Type t = final_type(name);
        if (!t || !t.is<FuncType>()) continue;
        std::vector<tir::VarRef> symbols;
        symbols_of(t, symbols);
        tir::VarMap own;
        for (const tir::VarRef& s : symbols)
          if (std::ranges::none_of(keep, [&](const tir::VarRef& k) { return k.same_as(s); }))
            own[s.get()] = tir::var(s->name, s->dtype);
        final_[name] = substitute_symbols(t, own);
      }
    }
  }

  bool undetermined(const Owner& o) const {
    return std::ranges::any_of(o.open, [&](const VarRef& p) { return !final_type(names_.at(p.get())); });
  }
  /// An operator, a condition or a call needs to know what a parameter is; what is only handed on may be
  /// anything.
  void refuse_what_is_open() {
    DiagnosticList problems;
    for (const Owner& o : owners_)
      for (const VarRef& p : o.open) {
        const std::string& name = names_.at(p.get());
        if (final_type(name)) continue;
        const Expr reader = needs_type(o.function->body, p);
        if (!reader) continue;
        auto it = conflicts_.find(name);
        const std::string what = fmt::format("parameter `{}` of `{}`", p->name, o.label);
        problems.add(Diagnostic{
            "T1106",
            it == conflicts_.end() ? fmt::format("the type of {} is not known: no call says it", what)
                                   : fmt::format("{} is given {} and {}", what, print(it->second.first),
                                                 print(it->second.second)),
            place(p->origin ? p->origin : reader->origin),
            it == conflicts_.end()
                ? fmt::format("write it, as in `{}: R.Tensor((n,), \"float32\")`", p->name)
                : fmt::format("write a function for each, or a type parameter: `def {}[A]({}: A)`", o.label,
                              p->name),
            {}});
      }
    problems.throw_if_any();
  }
  /// The first value of the body, nested ones included, that looks into the parameter.
  static Expr needs_type(const Expr& body, const VarRef& p) {
    Expr found;
    for_each_binding(body, [&](const Binding& b) {
      const Expr value = binding_value(b);
      if (found) return;
      bool reads = false;
      auto is = [&](const Expr& e) {
        bool inside = e.same_as(p);
        if (const auto* t = e.as<Tuple>())
          for (const Expr& i : t->items) inside = inside || i.same_as(p);
        return inside;
      };
      if (const auto* c = value.as<Call>(); c && c->op.is<Op>())
        for (const Expr& a : c->args) reads = reads || is(a);
      if (const auto* n = value.as<If>()) reads = is(n->condition);
      if (reads) found = value;
    });
    return found;
  }

  IRModule module_;
  op::OpenTypes open_;
  std::vector<Owner> owners_;
  std::unordered_map<const Var*, std::string> names_, results_;
  std::map<std::string, std::pair<Type, Type>> conflicts_;
  std::map<std::string, Type> final_;
  int count_ = 0;
};

}  // namespace

IRModule with_parameter_types(IRModule module, FunctionRef<std::exception_ptr(const IRModule&)> infer) {
  return ParameterTypes(std::move(module)).run(infer);
}

}  // namespace tenon::graph
