// SPDX-License-Identifier: Apache-2.0
// Parts of vm_codegen that look at finished code or at types only.
#include <fmt/format.h>

#include <vector>

#include "codegen/vm/vm_codegen_impl.h"
#include "ir/structural.h"
#include "ir/text.h"
#include "ir/walk.h"
#include "op/unify.h"

namespace tenon {
using namespace graph;

bool any_borrowed(const Operand& o) {
  if (!o.is_tuple) return o.borrowed || o.arg.kind() == ArgKind::Constant;
  for (const Operand& i : o.items)
    if (any_borrowed(i)) return true;
  return false;
}

void set_borrowed(Operand& o, bool borrowed) {
  o.borrowed = borrowed;
  for (Operand& i : o.items) set_borrowed(i, borrowed);
}

bool always(const graph::PatternNode& p) {
  if (p.kind == PatternKind::constructor) return false;
  for (const Pattern& i : p.items)
    if (!always(*i)) return false;
  return true;
}

std::string why_not(const Call& c) {
  for (const Expr& a : c.args)
    if (const auto* s = a ? a->type.as<ShapeType>() : nullptr; s && s->ndim < 0)
      return "how many sizes its shape has is not known before it runs; a match_cast says it, to R.Shape([n, "
             "m])";
  for (const Expr& a : c.args)
    if (a && a->type && as_tensor(a->type) && !known_shape(a->type)) {
      const bool rank = as_tensor(a->type)->ndim >= 0;
      return fmt::format("the {} of an argument is not known, {}{}", rank ? "shape" : "rank", print(a->type),
                         rank ? "" : "; a match_cast says it");
    }
  for (const Expr& a : c.args)
    if (const auto* t = a && a->type ? as_tensor(a->type) : nullptr; t && t->dtype.is_void())
      return fmt::format("the element type of an argument is not known, {}; a match_cast says it",
                         print(a->type));
  if (c.type && as_tensor(c.type) && !known_shape(c.type))
    return "the shape of its result is not known, " + print(c.type);
  return "nothing lowers it";
}

std::string symbol_of(const Call& c) {
  const auto* f = c.args[0].as<ExternFunc>();
  if (!f) fail("T0813", "a packed function must be called by name", place(c.origin));
  return f->symbol;
}

namespace {
std::optional<Builtin> named(std::string_view op,
                             std::initializer_list<std::pair<std::string_view, Builtin>> all) {
  for (const auto& [name, builtin] : all)
    if (name == op) return builtin;
  return std::nullopt;
}
}  // namespace

std::optional<Builtin> shape_builtin(std::string_view op) {
  return named(op, {{"shape_of", Builtin::shape_of},
                    {"tensor_to_shape", Builtin::tensor_to_shape},
                    {"shape_to_tensor", Builtin::shape_to_tensor}});
}
std::optional<Builtin> reference_builtin(std::string_view op) {
  return named(op, {{"ref_create", Builtin::ref_create},
                    {"ref_read", Builtin::ref_read},
                    {"ref_write", Builtin::ref_write}});
}

namespace {
/// A condition as 0 or 1, made of the operations that sizes have; null for one that is none.
PrimExpr truth(const PrimExpr& e) {
  const PrimExpr zero(0), one(1);
  auto above = [&](const PrimExpr& big, const PrimExpr& small) {  // big > small
    return tir::max(tir::min(tir::cast(i64, big) - tir::cast(i64, small), one), zero);
  };
  auto no = [&](const PrimExpr& x) { return x ? one - x : x; };
  if (auto n = tir::as_int(e)) return *n != 0;
  if (const auto* n = e.as<tir::LT>()) return above(n->b, n->a);
  if (const auto* n = e.as<tir::GT>()) return above(n->a, n->b);
  if (const auto* n = e.as<tir::LE>()) return no(above(n->a, n->b));
  if (const auto* n = e.as<tir::GE>()) return no(above(n->b, n->a));
  if (const auto* n = e.as<tir::EQ>()) return one - above(n->a, n->b) - above(n->b, n->a);
  if (const auto* n = e.as<tir::NE>()) return above(n->a, n->b) + above(n->b, n->a);
  if (const auto* n = e.as<tir::Not>()) return no(truth(n->a));
  const auto* both = e.as<tir::And>();
  const auto* either = e.as<tir::Or>();
  if (!both && !either) return {};
  const PrimExpr a = truth(both ? both->a : either->a), b = truth(both ? both->b : either->b);
  if (!a || !b) return {};
  return both ? a * b : tir::max(a, b);
}
}  // namespace

void shape_postfix(const PrimExpr& e, const std::string& function, std::vector<Arg>& out,
                   FunctionRef<std::optional<int64_t>(const PrimExpr&)> slot) {
  auto push = [&](ShapeWord word, int64_t v) {
    out.push_back(Arg::of(ArgKind::Immediate, int64_t(word)));
    out.push_back(Arg::of(ArgKind::Immediate, v));
  };
  auto both = [&](const PrimExpr& a, const PrimExpr& b, ShapeOp op) {
    shape_postfix(a, function, out, slot);
    shape_postfix(b, function, out, slot);
    push(ShapeWord::Apply, int64_t(op));
  };
  if (auto n = tir::as_int(e)) {
    if (Arg::holds(*n)) return push(ShapeWord::Number, *n);
    constexpr int64_t kHalf = int64_t(1) << 32;  // the upper half, shifted by a product, and the lower one
    push(ShapeWord::Number, *n >> 32);
    push(ShapeWord::Number, kHalf);
    push(ShapeWord::Apply, int64_t(ShapeOp::Mul));
    push(ShapeWord::Number, *n & (kHalf - 1));
    return push(ShapeWord::Apply, int64_t(ShapeOp::Add));
  }
  if (const auto known = slot(e)) return push(ShapeWord::Slot, *known);
  if (auto* n = e.as<tir::Cast>()) return shape_postfix(n->value, function, out, slot);
  if (auto* n = e.as<tir::Add>()) return both(n->a, n->b, ShapeOp::Add);
  if (auto* n = e.as<tir::Sub>()) return both(n->a, n->b, ShapeOp::Sub);
  if (auto* n = e.as<tir::Mul>()) return both(n->a, n->b, ShapeOp::Mul);
  if (auto* n = e.as<tir::FloorDiv>()) return both(n->a, n->b, ShapeOp::FloorDiv);
  if (auto* n = e.as<tir::FloorMod>()) return both(n->a, n->b, ShapeOp::FloorMod);
  if (auto* n = e.as<tir::Div>()) return both(n->a, n->b, ShapeOp::FloorDiv);  // sizes are not negative
  if (auto* n = e.as<tir::Mod>()) return both(n->a, n->b, ShapeOp::FloorMod);
  if (auto* n = e.as<tir::Min>()) return both(n->a, n->b, ShapeOp::Min);
  if (auto* n = e.as<tir::Max>()) return both(n->a, n->b, ShapeOp::Max);
  if (auto* n = e.as<tir::Select>())
    if (const PrimExpr yes = truth(n->condition)) {
      const PrimExpr a = tir::cast(i64, n->true_value), b = tir::cast(i64, n->false_value);
      if (tir::is_zero(b)) return shape_postfix(yes * a, function, out, slot);
      return shape_postfix(yes * a + (PrimExpr(1) - yes) * b, function, out, slot);
    }
  if (const PrimExpr yes = truth(e)) return shape_postfix(yes, function, out, slot);
  fail("T0812", "a size of function `" + function + "` cannot be computed: " + print(e));
}

void name_values(const graph::Function& function, std::vector<ValueInfo>& values,
                 const std::string& attribute) {
  auto v = function.attrs.find(attribute);
  auto list = v ? v->try_as<Array<std::string>>() : std::nullopt;
  if (!list || !*list) return;
  for (size_t i = 0; i < values.size() && i < list->size(); ++i) values[i].name = (*list)[i];
}

void refuse_functions(DiagnosticList& problems, const graph::Function& main, const Expr& result,
                      const Type& type) {
  const auto* types = type ? type.as<TupleType>() : nullptr;
  const auto* tuple = result ? result.as<Tuple>() : nullptr;
  for (size_t i = 0; types && i < types->items.size(); ++i)
    refuse_functions(problems, main, tuple && i < tuple->items.size() ? tuple->items[i] : result,
                     types->items[i]);
  bool function = false, reference = false;
  // A function itself is called through the module (runtime/module.h); inside of other values it is not
  // found.
  if (type && !types && !type.is<FuncType>())
    pre_order(type, [&](const ObjectRef& n) {
      function = function || n.is<FuncType>();
      reference = reference || n.is<RefType>();
      return n.is<TypeNode>() && !n.is<FuncType>() && !n.is<RefType>();
    });
  if (!function && !reference) return;
  const Origin& at = result && result->origin ? result->origin : main.origin;
  problems.add(Diagnostic{
      "T0820",
      fmt::format("a result of `main` has type {}, and callers of a model cannot {}", print(type),
                  function ? "call functions inside of it" : "reach its references"),
      place(at),
      function ? "give the function itself, or call it inside `main`" : "give what R.ref_read reads",
      at ? at->span : Span{}});
}

bool keeps_type(const While& loop, size_t i) {
  const Type declared = loop.loop_vars[i]->declared;
  const Expr result = result_of(loop.body);
  const auto* items = result.as<Tuple>();
  const auto* types = result->type.as<TupleType>();
  const Type next = items && i < items->items.size()   ? items->items[i]->type
                    : types && i < types->items.size() ? types->items[i]
                                                       : Type();
  auto same = [&](const Type& t) { return t && declared && structural_equal(t, declared, false); };
  return same(loop.init[i]->type) && same(next);
}

ValueInfo value_info(const std::string& name, const Type& type) {
  ValueInfo v;
  v.name = name;
  v.known_rank = false;
  const auto* t = type ? as_tensor(type) : nullptr;
  if (!t) return v;
  v.dtype = t->dtype;
  if (auto shape = known_shape(type)) {
    v.known_rank = true;
    for (const PrimExpr& d : *shape) {
      DimInfo dim;
      if (auto n = tir::as_int(d))
        dim.value = *n;
      else if (const auto* s = d.as<tir::Var>())
        dim.symbol = s->name;
      else if (const std::string text = print(d); text.size() <= 100)
        dim.symbol = text;  // an expression: equal ones are equal sizes
      v.shape.push_back(dim);
    }
  } else if (t->ndim >= 0) {
    v.known_rank = true;
    v.shape.resize(size_t(t->ndim));
  }
  return v;
}

ValueInfo input_info(const std::string& name, const Type& type) {
  if (const auto* t = type ? type.as<ShapeType>() : nullptr)
    return value_info(
        name, t->ndim < 0 ? Type(tensor_type_unknown(1, i64)) : tensor_type({PrimExpr(t->ndim)}, i64));
  if (const auto* t = type ? type.as<PrimType>() : nullptr; t && t->dtype.is_integer())
    return value_info(name, tensor_type({}, t->dtype));
  return value_info(name, type);
}

void find_checked(ModuleCodegen& module, const Ref<graph::Function>& f) {
  post_order(f, [&](const ObjectRef& n) {
    auto as_value = [&](const Expr& e) {
      if (const auto* g = e.as<GlobalVar>()) module.checked.insert(g->name);
    };
    if (const auto* c = n.as<Call>()) {
      for (const Expr& a : c->args) as_value(a);
      const auto* g = c->op.as<GlobalVar>();
      const auto callee = g ? module.module().find(g->name).cast<Function>() : Ref<Function>();
      for (size_t i = 0; callee && i < c->args.size() && i < callee->params.size(); ++i) {
        const Expr& a = c->args[i];
        if (a &&
            op::knowledge(a->type ? a->type : object_type()) < op::knowledge(callee->params[i]->declared))
          module.checked.insert(g->name);
      }
    }
    if (const auto* t = n.as<Tuple>())
      for (const Expr& i : t->items) as_value(i);
    if (const auto* s = n.as<SeqExpr>()) as_value(s->body);
    if (const auto* b = n.as<VarBindingNode>()) as_value(b->value);
    if (const auto* w = n.as<While>())
      for (const Expr& i : w->init) as_value(i);
  });
}

}  // namespace tenon
