// SPDX-License-Identifier: Apache-2.0
// Calls say what parameters are; inference over the module gathers what they say until nothing changes. Sizes
// that calls give differently become symbols of the function (anti-unification).
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
  std::set<int64_t> ids;             ///< of the open types
  int64_t result = 0;                ///< that of the result, or 0
};

/// The least general type that has both: one call after the other.
class Generalisation {
 public:
  /// `scope`: the symbols that the function sees from outside.
  Generalisation(int& symbols, const std::vector<tir::VarRef>& scope) : symbols_(symbols), scope_(scope) {}

  bool conflict = false;

  Type types(const Type& t, const Type& s) {
    if (!t) return first(s);
    if (!s || same(t, s)) return t;
    const int64_t a = op::open_id(t), b = op::open_id(s);
    if (a) extra_.emplace_back(a, s);
    if (b) extra_.emplace_back(b, t);
    if (a || b) return a ? s : t;
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
        one = one && op::open_id(x->params[i]) == op::open_id(y->params[i]);
        open = open || op::open_id(x->params[i]);
      }
      if (open) return one && y->ret ? s : t;
      return make<FuncType>(params, types(x->ret, y->ret), false, x->type_params);
    }
    return differ(t);
  }
  /// What the comparison says of open types inside.
  const std::vector<std::pair<int64_t, Type>>& extra() const { return extra_; }

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
  PrimExpr fresh() { return tir::var(fmt::format("size_{}", symbols_++), i64); }
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
  int& symbols_;  ///< made so far
  const std::vector<tir::VarRef>& scope_;
  std::vector<Pair> pairs_;
  std::vector<std::pair<int64_t, Type>> extra_;
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

  IRModule run(InferOpen infer) {
    for (auto& [name, f] : graph_functions(module_)) collect(name, f);
    if (owners_.empty()) return module_;
    constexpr int kMaxRounds = 24;
    for (int round = 0; round < kMaxRounds; ++round) {
      open_.sites.clear();
      IRModule now = with_known_types(false);
      const DiagnosticList problems = infer(now, open_);
      if (gather() || gather_uses(now)) continue;
      problems.throw_if_any();
      break;
    }
    refuse_what_is_open();
    separate_sizes();
    return with_known_types(true);
  }

 private:
  void collect(const std::string& name, const Ref<Function>& f) {
    add(name, *f, {}, nullptr);
    collect_closures(f->body, f->params.vec());
  }
  void collect_closures(const Expr& body, const std::vector<VarRef>& around) {
    for (const Binding& b : bindings_of(body)) {
      const Expr value = b->value;
      if (const auto* f = value.as<Function>()) {
        add(b->var->name, *f, around, b->var.get());
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
        o.ids.insert(ids_[p.get()] = ++count_);
      }
    if (self && !f.ret_type) {
      bool recursive = false;
      for_each_use(f.body, [&](const VarRef& v) { recursive = recursive || v.get() == self; });
      if (recursive) o.ids.insert(o.result = results_[self] = ++count_);
    }
    if (!o.ids.empty()) owners_.push_back(std::move(o));
  }

  /// The module with other variables for open parameters: their types are what is known, written down or, on
  /// the way, only known inside.
  IRModule with_known_types(bool written) {
    open_.of = results_;
    IRModule out = module_;
    out.edit();
    for (auto& [name, f] : graph_functions(module_))
      out.set(name,
              rewrite_any(
                  f,
                  [&](const ObjectRef& n) -> ObjectRef {
                    if (const auto* v = n.as<Var>())
                      if (auto it = ids_.find(v); it != ids_.end()) return parameter(*v, it->second, written);
                    const auto* b = written ? n.as<VarBindingNode>() : nullptr;
                    auto it = b ? results_.find(b->var.get()) : results_.end();
                    const Type result = it == results_.end() ? Type() : final_type(it->second);
                    if (!result) return {};
                    Ref<Function> closure = b->value.cast<Function>();
                    closure.edit()->ret_type = result;
                    return make<VarBindingNode>(b->var, closure);
                  },
                  [](const ObjectRef& n) { return n.is<Op>() || n.is<Constant>() || n.is<TypeNode>(); }));
    return out;
  }
  VarRef parameter(const Var& v, int64_t id, bool written) {
    VarRef out = var(v.name, written ? final_type(id) : Type());
    out.edit()->origin = v.origin;
    if (written) return out;
    const Type open = make<OpenType>(id);
    out.edit()->type = open_.resolved(open);
    open_.of[out.get()] = id;
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
        Generalisation all(symbols_, scope);
        std::map<int64_t, Type> next;
        // What is known first: it says what the sizes of the call are here.
        for (const bool known : {true, false})
          for (const auto& [id, type] : site) {
            if (!o.ids.count(id) || id == o.result || known != bool(open_.known[id])) continue;
            const bool before = std::exchange(all.conflict, false);
            next[id] = all.types(open_.known[id], type);
            if (all.conflict) conflicts_.emplace(id, std::pair(open_.known[id], type));
            all.conflict = before;
          }
        for (const auto& [id, type] : next) {
          if (open_.known[id] && structural_equal(open_.known[id], type, false)) continue;
          open_.known[id] = type;
          changed = true;
        }
        for (const auto& [id, type] : all.extra()) more.push_back({{id, type}});
      }
      for (const VarRef& p : o.function->params) symbols_of(type_of_parameter(p), scope);
      for (const op::OpenTypes::Site& site : open_.sites) {
        auto it = site.find(o.result);
        if (!o.result || it == site.end()) continue;
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
  /// What operators say that compute a parameter with a tensor, where nothing else does: the element type.
  bool gather_uses(const IRModule& typed) {
    bool changed = false;
    std::set<int64_t> parameters;
    for (const auto& [v, id] : ids_) parameters.insert(id);
    auto look = [&](const Call& c, size_t i) {
      const int64_t id = c.args[i] ? op::open_id(c.args[i]->type) : 0;
      const TensorType* other =
          c.args[1 - i] && c.args[1 - i]->type ? as_tensor(c.args[1 - i]->type) : nullptr;
      if (!parameters.count(id) || conflicts_.count(id) || open_.known[id] || !other ||
          other->dtype.is_void() || !op::spreads(c, {other->dtype, other->dtype}))
        return;
      open_.known[id] = tensor_type_unknown(-1, other->dtype);
      changed = true;
    };
    for (const auto& [name, f] : graph_functions(typed))
      for_each_binding(f->body, [&](const Binding& b) {
        const auto* c = b->value.as<Call>();
        for (size_t i = 0; c && c->args.size() == 2 && i < 2; ++i) look(*c, i);
      });
    return changed;
  }
  /// What comparisons of function types said.
  bool gather_rest() {
    bool changed = false;
    for (const op::OpenTypes::Site& site : open_.sites)
      for (const auto& [id, type] : site)
        if (Type& known = open_.known[id]; !known && op::open_id(type) != id) {
          const Type now = open_.resolved(type);
          if (op::open_id(now)) continue;
          known = now;
          changed = true;
        }
    return changed;
  }
  Type type_of_parameter(const VarRef& p) const {
    auto it = ids_.find(p.get());
    if (it == ids_.end()) return p->declared;
    auto known = open_.known.find(it->second);
    return known == open_.known.end() ? Type() : known->second;
  }
  /// With what is known of open types inside; null: nothing is known.
  Type final_type(int64_t id) const {
    if (conflicts_.count(id)) return {};
    if (auto it = final_.find(id); it != final_.end()) return it->second;
    Type t = open_.resolved(make<OpenType>(id));
    constexpr int kMaxNesting = 20;
    for (int i = 0; i < kMaxNesting && op::has_incomplete(t); ++i)
      t = rewrite_any(t, [&](const ObjectRef& n) -> ObjectRef {
            const auto* open = n.as<OpenType>();
            if (!open) return {};
            const Type now = conflicts_.count(open->id) ? object_type() : open_.resolved(Type(open));
            return op::is_incomplete(now) && op::open_id(now) == open->id ? object_type() : now;
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
        const int64_t id = ids_.at(p.get());
        const Type t = final_type(id);
        if (!t || !t.is<FuncType>()) continue;
        std::vector<tir::VarRef> symbols;
        symbols_of(t, symbols);
        tir::VarMap own;
        for (const tir::VarRef& s : symbols)
          if (std::ranges::none_of(keep, [&](const tir::VarRef& k) { return k.same_as(s); }))
            own[s.get()] = tir::var(s->name, s->dtype);
        final_[id] = substitute_symbols(t, own);
      }
    }
  }

  /// An operator, a condition or a call needs to know what a parameter is; what is only handed on may be
  /// anything.
  void refuse_what_is_open() {
    DiagnosticList problems;
    for (const Owner& o : owners_)
      for (const VarRef& p : o.open) {
        const int64_t id = ids_.at(p.get());
        if (final_type(id)) continue;
        const Expr reader = needs_type(o.function->body, p);
        if (!reader) continue;
        auto it = conflicts_.find(id);
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
      const Expr value = b->value;
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
  std::unordered_map<const Var*, int64_t> ids_,
      results_;  ///< of parameters; of closures that call themselves
  std::map<int64_t, std::pair<Type, Type>> conflicts_;
  std::map<int64_t, Type> final_;
  int64_t count_ = 0;
  int symbols_ = 0;
};

}  // namespace

IRModule with_parameter_types(IRModule module, InferOpen infer) {
  return ParameterTypes(std::move(module)).run(infer);
}

}  // namespace tenon::graph
