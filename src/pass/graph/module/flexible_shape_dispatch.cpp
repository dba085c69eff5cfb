// SPDX-License-Identifier: Apache-2.0
// flexible_shape_dispatch: functions for given sizes beside the one for every size, and the choice at run
// time.
//
//   before   main(x: R.Tensor((n, 4))): …                    flexible_shape_dispatch.sizes: 1,8
//   after    main(x): if n == 1: main_n_1(match_cast(x, (1, 4)))  else: if n == 8: …  else: main_n_any(x)
//
// The functions for a size are specialised like a model with --dim, so they get the schedules of fixed
// shapes. Entries without that size stay; a size that the model cannot have is refused by the next inference.
// Keeps: values, types of parameters and result.
#include <fmt/format.h>

#include <algorithm>

#include "ir/bodies.h"
#include "ir/pass.h"
#include "ir/symbols.h"
#include "op/build.h"
#include "op/unify.h"

namespace tenon {
namespace graph {
namespace {

/// Arithmetic on numbers as its result; null for everything else.
ObjectRef folded_size(const ObjectRef& node) {
  auto of = [](const auto& n, auto make) -> ObjectRef {
    return n.a.template is<tir::IntImm>() && n.b.template is<tir::IntImm>() ? ObjectRef(make(n.a, n.b))
                                                                            : ObjectRef();
  };
  using E = const PrimExpr&;
  if (const auto* n = node.as<tir::Add>()) return of(*n, [](E a, E b) { return a + b; });
  if (const auto* n = node.as<tir::Sub>()) return of(*n, [](E a, E b) { return a - b; });
  if (const auto* n = node.as<tir::Mul>()) return of(*n, [](E a, E b) { return a * b; });
  if (const auto* n = node.as<tir::FloorDiv>()) return of(*n, [](E a, E b) { return tir::floordiv(a, b); });
  if (const auto* n = node.as<tir::FloorMod>()) return of(*n, [](E a, E b) { return tir::floormod(a, b); });
  if (const auto* n = node.as<tir::Min>()) return of(*n, [](E a, E b) { return tir::min(a, b); });
  if (const auto* n = node.as<tir::Max>()) return of(*n, [](E a, E b) { return tir::max(a, b); });
  return {};
}

Type sized(const Type& type, const tir::VarMap& sizes) {
  if (!type || sizes.empty()) return type;
  return rewrite_any(type,
                     [&](const ObjectRef& node) -> ObjectRef {
                       const auto* v = node.as<tir::Var>();
                       if (auto it = v ? sizes.find(v) : sizes.end(); it != sizes.end()) return it->second;
                       return folded_size(node);
                     })
      .cast<TypeNode>();
}

/// A copy with variables and symbolic sizes of its own; `sizes` are put for some of them.
Ref<Function> copy_function(const Ref<Function>& f, tir::VarMap sizes) {
  std::vector<tir::VarRef> symbols;
  symbols_of(f, symbols);
  for (const tir::VarRef& s : symbols)
    if (!sizes.count(s.get())) sizes[s.get()] = tir::var(s->name, s->dtype);
  return rewrite_any(
             f,
             [&](const ObjectRef& node) -> ObjectRef {
               if (const auto* v = node.as<tir::Var>()) {
                 auto it = sizes.find(v);
                 return it == sizes.end() ? ObjectRef() : ObjectRef(it->second);
               }
               if (const auto* v = node.as<Var>())
                 return with_origin(var(v->name, v->declared ? v->declared : sized(v->type, sizes)),
                                    v->origin);
               Expr e = node.cast<ExprNode>();
               if (!e) return folded_size(node);
               const Type type = sized(e->type, sizes);
               return type.same_as(e->type) ? Expr() : with_type(std::move(e), type);
             },
             [](const ObjectRef& node) {
               return node.is<Op>() || node.is<Constant>() || node.is<GlobalVar>();
             })
      .cast<Function>();
}

class ShapeDispatch {
 public:
  ShapeDispatch(IRModule& module, std::string name, Ref<Function> f)
      : module_(module), name_(std::move(name)), f_(std::move(f)) {}

  void run(const std::string& symbol, const Array<int64_t>& sizes) {
    if (!find(symbol)) return;
    Ref<Function> any = copy_function(f_, {});
    const std::string other = private_function(any, name_ + "_" + symbol_->name + "_any");
    std::vector<std::pair<int64_t, std::string>> special;
    for (int64_t n : sizes) {
      Ref<Function> fixed = copy_function(f_, {{symbol_.get(), PrimExpr::int_imm(n, symbol_->dtype)}});
      special.emplace_back(n, private_function(fixed, fmt::format("{}_{}_{}", name_, symbol_->name, n)));
    }
    // The size as a value, then a chain of comparisons from the last one up.
    BlockBuilder builder = op::make_builder();
    const Expr shape = builder.emit(op::op_call("shape_of", {f_->params[parameter_]}));
    const Expr dims = builder.emit(op::op_call("shape_to_tensor", {shape}));
    const Expr size = builder.emit(
        op::op_call("take", {dims, op::scalar(double(axis_), i64)}, op::make_attrs<op::AxisAttrs>(0)));
    std::vector<Expr> conditions;
    for (const auto& [n, callee] : special)
      conditions.push_back(builder.emit(op::op_call("equal", {size, op::scalar(double(n), i64)})));
    Expr choice = branch(other, {});
    for (size_t i = special.size(); i-- > 0;) {
      Expr next = with_type(make<If>(conditions[i], branch(special[i].second, special[i].first), choice),
                            f_->ret_type);
      if (i == 0) {
        choice = next;
        break;
      }
      const VarRef v = var("result", f_->ret_type);
      choice = make_body({make<VarBindingNode>(v, next)}, v);
    }
    const VarRef result = var("result", f_->ret_type);
    std::vector<Binding> all(builder.bindings().begin(), builder.bindings().end());
    all.push_back(make<VarBindingNode>(result, choice));
    Ref<Function> out = f_;
    set_body(out, make_body(all, result));
    module_.set(name_, out);
  }

 private:
  /// The first parameter and axis that show the size.
  bool find(const std::string& symbol) {
    for (size_t p = 0; p < f_->params.size(); ++p) {
      if (!as_tensor(f_->params[p]->declared)) continue;  // a shape is no value that kernels compare
      auto shape = known_shape(f_->params[p]->declared);
      for (size_t a = 0; shape && a < shape->size(); ++a) {
        const auto* v = (*shape)[a].as<tir::Var>();
        if (!v || (!symbol.empty() && v->name != symbol)) continue;
        symbol_ = tir::VarRef(v);
        parameter_ = p;
        axis_ = a;
        return f_->ret_type && only_tensors(f_->ret_type);
      }
    }
    return false;
  }
  static bool only_tensors(const Type& t) {
    if (const auto* tuple = t.as<TupleType>())
      return std::all_of(tuple->items.begin(), tuple->items.end(),
                         [](const Type& i) { return only_tensors(i); });
    return as_tensor(t) != nullptr;
  }
  std::string private_function(Ref<Function> f, const std::string& hint) {
    for (const char* key : {"global_symbol", "input_names", "output_names", "num_inputs"})
      f.edit()->attrs.erase(key);
    const std::string name = module_.fresh_name(hint);
    module_.set(name, f);
    return name;
  }

  /// Calls `callee` on the parameters, checked to be of the size it is for; its result has the type that the
  /// entry promises.
  Expr branch(const std::string& callee, std::optional<int64_t> size) {
    const auto f = module_.find(callee).cast<Function>();
    std::vector<Binding> bindings;
    Array<Expr> args;
    tir::VarMap map;
    if (size) map[symbol_.get()] = PrimExpr::int_imm(*size, symbol_->dtype);
    for (const VarRef& p : f_->params) {
      const Type type = sized(p->declared, map);
      if (!size || type.same_as(p->declared)) {
        args.push_back(p);
        continue;
      }
      const VarRef v = var(p->name + "_sized", type);
      bindings.push_back(make<MatchCastNode>(v, p, type));
      args.push_back(v);
    }
    const Expr g = with_type(global(callee), op::function_type(*f));
    Expr made = with_type(call(g, args), sized(f_->ret_type, map));
    const VarRef out = var("out", made->type);
    bindings.push_back(make<VarBindingNode>(out, made));
    return make_body(bindings, size ? promised(out, f_->ret_type, bindings) : Expr(out));
  }
  /// The value as what the type says, checked.
  Expr promised(const Expr& value, const Type& type, std::vector<Binding>& bindings) {
    if (const auto* tuple = type.as<TupleType>()) {
      Array<Expr> items;
      for (size_t i = 0; i < tuple->items.size(); ++i) {
        Expr item = with_type(make<TupleGetItem>(value, int64_t(i)), value->type.as<TupleType>()->items[i]);
        const VarRef v = var("item", item->type);
        bindings.push_back(make<VarBindingNode>(v, item));
        items.push_back(promised(v, tuple->items[i], bindings));
      }
      Expr all = with_type(make<Tuple>(items), type);
      const VarRef v = var("items", type);
      bindings.push_back(make<VarBindingNode>(v, all));
      return v;
    }
    const VarRef v = var("checked", type);
    bindings.push_back(make<MatchCastNode>(v, value, type));
    return v;
  }

  IRModule& module_;
  std::string name_;
  Ref<Function> f_;
  tir::VarRef symbol_;
  size_t parameter_ = 0, axis_ = 0;
};

}  // namespace
}  // namespace graph

static const Option<Array<int64_t>> kSizes("flexible_shape_dispatch.sizes", {},
                                           "sizes that get functions of their own", {.least = 0});
static const Option<std::string> kSymbol(
    "flexible_shape_dispatch.symbol", "",
    "the size: by default the first of the first parameter that has a symbolic one");

static IRModule flexible_shape_dispatch(IRModule module, PassContext& context) {
  using namespace graph;
  const auto sizes = context.options.get(kSizes);
  const auto symbol = context.options.get(kSymbol);
  if (sizes.empty()) return module;
  for (const auto& [name, f] : graph_functions(module))
    if (is_entry(name, *f)) ShapeDispatch(module, name, f).run(symbol, sizes);
  return module;
}

const Pass& flexible_shape_dispatch_pass = register_pass({
    .name = "flexible_shape_dispatch",
    .run = flexible_shape_dispatch,
    .summary = "functions for given sizes, chosen at run time",
    .needs = {"infer_types"},
    .options = {kSizes, kSymbol},
});

}  // namespace tenon
