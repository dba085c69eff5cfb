// SPDX-License-Identifier: Apache-2.0
// The frame of a graph function, its values, and checks of their types.
#include "codegen/vm/vm_function.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/structural.h"
#include "ir/symbols.h"
#include "ir/text.h"
#include "op/infer.h"
#include "op/unify.h"

namespace tenon {

using namespace graph;

FunctionCodegen::FunctionCodegen(ModuleCodegen& owner, const std::string& name, const Ref<Function>& f,
                                 bool entry)
    : VMEmitter(owner), name_(name), function_(f), entry_(entry) {
  if (!f->plan) return;
  const std::vector<std::string> problems = memory_plan_problems(*f);
  CHECK(problems.empty(),
        fmt::format("the memory plan of function `{}` does not fit it: {}", name, fmt::join(problems, "; ")));
  const PlannedBindings bindings = planned_bindings(*f);
  for (size_t i = 0; i < bindings.calls.size(); ++i)
    places_[bindings.calls[i].first.get()] = f->plan->calls[i].vec();
  for (size_t i = 0; i < bindings.loops.size(); ++i)
    places_[bindings.loops[i].first.get()] = f->plan->loops[i].vec();
  for (int64_t call : f->plan->joined) joined_.insert(bindings.calls[size_t(call)].first.get());
  bounds_ = bounds_of(*f->plan);
}

VMFunction FunctionCodegen::run() {
  VMFunction out;
  out.name = name_;
  out.first_instruction = uint32_t(exe_.code.size());
  for (const VarRef& p : function_->params) {
    Operand o{Arg::of(ArgKind::Register, registers_++), false, true, {}};
    values_[p.get()] = o;
    out.params.push_back((name_ == "main" ? input_info : value_info)(p->name, p->declared));
  }
  for (const VarRef& p : function_->params)  // who calls the model gives shapes as vectors
    if (name_ == "main" && p->declared && p->declared.is<ShapeType>())
      values_[p.get()].arg = builtin_value(Builtin::tensor_to_shape, {values_[p.get()].arg});
  out.num_params = int32_t(function_->params.size());
  name_values(*function_, out.params, "input_names");
  // Arguments that the callers' types do not vouch for are looked at.
  bool check = m_.checked.count(name_) != 0;
  // Callers from outside: tensors are checked before the call, what tuples hold is checked here.
  for (const VarRef& p : function_->params) check |= entry_ && p->declared.is<TupleType>();
  for (const VarRef& p : function_->params) {
    if (check) check_kinds(p->declared, values_[p.get()]);
    bind_type(p->declared, values_[p.get()], check);
  }
  for (const VarRef& p : function_->params) check_expressions(p->declared, values_[p.get()]);
  Type type = result_of(function_->body)->type ? result_of(function_->body)->type : function_->ret_type;
  if (name_ == "main") refuse_functions(m_.problems, *function_, result_of(function_->body), type);
  if (entry_) {
    Operand result = owned(body(function_->body), type);
    return_value(result);
  } else {
    tail(function_->body);
  }
  if (const auto* t = type.as<TupleType>()) {
    for (size_t i = 0; i < t->items.size(); ++i)
      out.results.push_back(value_info(fmt::format("output_{}", i), t->items[i]));
  } else {
    out.results.push_back(value_info("output", type));
  }
  name_values(*function_, out.results, "output_names");
  out.heap_size = heap_;
  out.num_registers = share_registers(exe_, out.first_instruction, out.num_params, registers_);
  out.num_instructions = uint32_t(exe_.code.size()) - out.first_instruction;
  return out;
}

Arg FunctionCodegen::size(const PrimExpr& e) {
  if (auto n = tir::as_int(e); n && Arg::holds(*n)) return number(*n);
  if (const auto* v = e.as<tir::Var>()) {
    auto it = slots_.find(v);
    if (it == slots_.end())
      fail("T0812", fmt::format("the size '{}' has no value in function `{}`", v->name, name_),
           place(function_->origin), "bind it with match_cast, or by the shape of a parameter");
    return Arg::of(ArgKind::Heap, it->second);
  }
  if (const auto known = computed_slot(e)) return Arg::of(ArgKind::Heap, *known);
  const int slot = heap_++;
  std::vector<Arg> args{number(slot)};
  shape_postfix(e, name_, args, [&](const PrimExpr& part) {
    return part.is<tir::Var>() ? size(part).value() : computed_slot(part);
  });
  builtin(Builtin::compute_shape, args, -1);
  computed_[symbol_hash(e)].emplace_back(e, slot);
  return Arg::of(ArgKind::Heap, slot);
}

std::optional<int64_t> FunctionCodegen::computed_slot(const PrimExpr& e) const {
  if (const auto same = computed_.find(symbol_hash(e)); same != computed_.end())
    for (const auto& [known, slot] : same->second)
      if (structural_equal(known, e)) return slot;
  return std::nullopt;
}

void FunctionCodegen::bind_type(const Type& type, const Operand& o, bool check) {
  if (!type) return;
  if (const auto* t = type.as<TupleType>()) {
    for (size_t i = 0; i < t->items.size(); ++i) bind_type(t->items[i], item(o, int64_t(i)), check);
    return;
  }
  if (const auto* t = type.as<PrimType>()) {
    const auto* s = t->value.as<tir::Var>();
    if (!s || slots_.count(s)) return;
    slots_[s] = heap_++;
    Arg shape = builtin_value(Builtin::make_shape, {arg(o)});
    builtin(Builtin::match_shape, {shape, number(1), number(DimMatch::Bind), number(slots_[s])}, -1);
    return;
  }
  auto shape = known_shape(type);
  if (!shape) return;
  std::vector<Arg> args{arg(o), number(int64_t(shape->size()))};
  bool needed = check && shape->empty();  // a value without dimensions has none to compare
  for (const PrimExpr& d : *shape) {
    if (auto n = tir::as_int(d)) {
      args.push_back(number(DimMatch::Number));
      args.push_back(number(*n));
      needed |= check;
    } else if (const auto* s = d.as<tir::Var>()) {
      auto [it, fresh] = slots_.try_emplace(s, heap_);
      if (fresh) ++heap_;
      args.push_back(number(fresh ? DimMatch::Bind : DimMatch::Slot));
      args.push_back(number(it->second));
      needed = true;
    } else {
      args.push_back(number(DimMatch::Any));
      args.push_back(number(0));
    }
  }
  if (needed) builtin(Builtin::match_shape, args, -1);
}

void FunctionCodegen::check_expressions(const Type& type, const Operand& o) {
  if (!type) return;
  if (const auto* t = type.as<TupleType>()) {
    for (size_t i = 0; i < t->items.size(); ++i) check_expressions(t->items[i], item(o, int64_t(i)));
    return;
  }
  auto shape = known_shape(type);
  if (!shape) return;
  bool needed = false;
  std::vector<Arg> pairs;
  for (const PrimExpr& d : *shape) {
    const bool expression = !tir::as_int(d) && !d.is<tir::Var>();
    needed |= expression;
    pairs.push_back(number(expression ? DimMatch::Slot : DimMatch::Any));
    pairs.push_back(number(expression ? size(d).value() : 0));
  }
  if (!needed) return;
  std::vector<Arg> args{arg(o), number(int64_t(shape->size()))};
  args.insert(args.end(), pairs.begin(), pairs.end());
  builtin(Builtin::match_shape, args, -1);
}

Operand FunctionCodegen::leaf(const Expr& e) {
  if (const auto* v = e.as<Var>()) {
    auto it = values_.find(v);
    CHECK(it != values_.end(), fmt::format("variable {} of `{}` has no value", v->name, name_));
    return it->second;
  }
  if (const auto* g = e.as<GlobalVar>()) return closure(*g, {}, e->origin);
  if (const auto* c = e.as<Constant>())
    return {Arg::of(ArgKind::Constant, m_.constant(c->data)), false, true, {}};
  if (const auto* t = e.as<Tuple>()) {
    Operand out{{}, true, false, {}};
    for (const Expr& i : t->items) out.items.push_back(leaf(i));
    return out;
  }
  if (const auto* s = e.as<ShapeExpr>()) {
    std::vector<Arg> dims;
    for (const PrimExpr& d : s->values) dims.push_back(size(d));
    return {builtin_value(Builtin::make_shape, dims), false, false, {}};
  }
  if (const auto* p = e.as<PrimValue>()) {
    if (!p->value.dtype().is_float()) return {size(p->value), false, false, {}};
    if (const auto* f = p->value.as<tir::FloatImm>()) {
      Arg c = Arg::of(ArgKind::Constant, m_.constant(NDArray::scalar(f->value, f64)));
      return {builtin_value(Builtin::scalar, {c}), false, false, {}};
    }
  }
  if (const auto* t = e.as<graph::StringImm>()) {
    const int64_t length = int64_t(t->value.size());
    Arg c = Arg::of(ArgKind::Constant,
                    m_.constant(NDArray::from_bytes({length}, u8, t->value.data(), t->value.size())));
    return {builtin_value(Builtin::text, {c}), false, false, {}};
  }
  if (const auto* d = e.as<DataTypeImm>()) return {number(dtype_word(d->value)), false, false, {}};
  if (e.is<SeqExpr>()) return body(e);
  m_.problems.add(
      Diagnostic{"T0813",
                 fmt::format("a value of kind {} cannot be compiled yet: {}", type_key_of(e), print(e)),
                 place(e->origin),
                 "",
                 {}});
  return {number(0), false, false, {}};
}

Operand FunctionCodegen::body(const Expr& e) {
  for (const Binding& b : bindings_of(e)) bind(b);
  return leaf(result_of(e));
}

void FunctionCodegen::bind(const Binding& b) {
  const VarRef var = b->var;
  const Expr bound = b->value;
  Operand o = value(bound, var);
  values_[var.get()] = o;
  if (const auto* mc = b.as<MatchCastNode>()) {
    check_value(mc->type, mc->value->type, o);
  } else if (const auto* c = bound.as<Call>(); c && !c->op.is<Op>() && !c->op.is<Constructor>()) {
    // What a call gives is what its callee's type says; a declaration that says more is checked.
    const Type declared = var->declared;
    if (declared && op::knowledge(declared) > op::knowledge(bound->type))
      check_value(declared, bound->type, o);
  }
}

void FunctionCodegen::check_value(const Type& type, const Type& known, const Operand& o) {
  const auto *t = type.as<TensorType>(), *k = known ? as_tensor(known) : nullptr;
  if (t && !(k && k->dtype == t->dtype)) check_kind(type, o);
  bind_type(type, o, true);
  check_expressions(type, o);
}

void FunctionCodegen::check_kind(const Type& type, const Operand& o) {
  const auto* t = type ? as_tensor(type) : nullptr;
  if (!t) return;
  builtin(Builtin::check_tensor,
          {arg(o), number(t->ndim), number(t->dtype.is_void() ? 0 : dtype_word(t->dtype))}, registers_++);
}

void FunctionCodegen::check_kinds(const Type& type, const Operand& o) {
  if (const auto* t = type.as<TupleType>())
    for (size_t i = 0; i < t->items.size(); ++i) check_kinds(t->items[i], item(o, int64_t(i)));
  else
    check_kind(type, o);
}

}  // namespace tenon
