// SPDX-License-Identifier: Apache-2.0
// Calls: kernels, functions, closures, packed functions.
#include "codegen/vm/vm_function.h"

#include <fmt/format.h>

#include "ir/text.h"
#include "op/infer.h"

namespace tenon {

using namespace graph;

Operand FunctionCodegen::closure(const GlobalVar& g, const std::vector<Arg>& captured, const Origin& origin) {
  auto it = m_.function_index.find(g.name);
  if (it == m_.function_index.end())
    fail("T0814",
         fmt::format("function `{}` uses `{}` as a value, which is no graph function", name_, g.name),
         place(origin));
  std::vector<Arg> args{number(it->second)};
  args.insert(args.end(), captured.begin(), captured.end());
  return {builtin_value(Builtin::make_closure, args), false, false, {}};
}

Operand FunctionCodegen::call(const Call& c, const VarRef& var) {
  if (const auto* made = c.op.as<Constructor>()) {
    std::vector<Arg> args{number(made->tag)};
    for (const Expr& a : c.args) args.push_back(arg(leaf(a)));
    return {builtin_value(Builtin::make_data, args), false, true, {}};
  }
  if (c.op.is<Var>()) {
    std::vector<Arg> args{arg(leaf(c.op))};
    for (const Expr& a : c.args) args.push_back(arg(leaf(a)));
    const int32_t dst = emit_call(m_.callee(CalleeKind::Closure, "closure"), args, registers_++);
    return {Arg::of(ArgKind::Register, dst), false, true, {}};
  }
  if (const auto* g = c.op.as<GlobalVar>()) {
    auto it = m_.function_index.find(g->name);
    if (it == m_.function_index.end())
      fail("T0814", fmt::format("function `{}` calls `{}`, which the module does not have", name_, g->name),
           place(c.origin));
    std::vector<Arg> args;
    for (const Expr& a : c.args) args.push_back(arg(leaf(a)));
    int32_t dst = emit_call(m_.callee(CalleeKind::Function, g->name, it->second), args, registers_++);
    return {Arg::of(ArgKind::Register, dst), false, true, {}};
  }
  const auto* op = c.op.as<Op>();
  if (!op) {
    m_.problems.add(Diagnostic{"T0813",
                               "a closure is called before lambda_lift made it a function",
                               place(c.origin),
                               "run the pass lambda_lift",
                               {}});
    return {number(0), false, false, {}};
  }
  if (op->name == "make_closure") {
    std::vector<Arg> captured;
    for (size_t i = 1; i < c.args.size(); ++i) captured.push_back(arg(leaf(c.args[i])));
    const auto* g = c.args[0].as<GlobalVar>();
    if (!g) fail("T0813", "make_closure needs a function of the module", place(c.origin));
    return closure(*g, captured, c.origin);
  }
  if (const std::optional<Builtin> own = reference_builtin(op->name)) {
    std::vector<Arg> args;
    for (const Expr& a : c.args) args.push_back(arg(leaf(a)));
    return {builtin_value(*own, args), false, true, {}};
  }
  if (op->name == "call_tir" || op->name == "call_tir_impure") return call_kernel(c, var);
  if (op->name == "call_tir_inplace") return call_inplace(c);
  if (op->name == "call_dps_packed") return call_dps(c);
  if (op->name == "call_packed" || op->name == "call_pure_packed") return call_packed(c);
  if (const std::optional<Builtin> own = shape_builtin(op->name))
    return {builtin_value(*own, {arg(leaf(c.args[0]))}), false, false, {}};
  m_.problems.add(
      Diagnostic{"T0811",
                 fmt::format("operator `{}` cannot be compiled here: {}", op->name, why_not(c)),
                 place(c.origin),
                 "say what is not known: sizes with --dim, element types and ranks where parameters are "
                 "declared",
                 {}});
  return {number(0), false, false, {}};
}

std::vector<Operand> FunctionCodegen::tensors(const Expr& e) {
  Operand o = leaf(e);
  if (!o.is_tuple) return {o};
  return o.items;
}

Operand FunctionCodegen::destination(const Type& type, int64_t at) {
  const auto* t = as_tensor(type);
  auto shape = known_shape(type);
  if (t && !shape && t->shape && t->shape.is<Var>())  // as many sizes as the shape has when the program runs
    return {builtin_value(Builtin::alloc_tensor, {number(dtype_word(t->dtype)), arg(leaf(t->shape))}),
            false,
            false,
            {}};
  if (!t || !shape) fail("T0812", "the shape of a kernel's output is not known: " + print(type));
  auto dims = static_shape(type);
  if (dims && at >= 0) return {Arg::of(ArgKind::Arena, m_.arena(at, *dims, t->dtype)), false, false, {}};
  std::vector<Arg> args;
  if (const int64_t most = at >= 0 ? most_bytes(type, bounds_) : -1; most >= 0)
    args.push_back(Arg::of(ArgKind::Arena, m_.arena(at, {std::max<int64_t>(1, most)}, u8)));
  const bool bounded = !args.empty();
  args.push_back(number(dtype_word(t->dtype)));
  for (const PrimExpr& d : *shape) args.push_back(size(d));
  if (bounded) return {builtin_value(Builtin::arena_tensor, args), false, false, {}};
  return {builtin_value(Builtin::alloc_tensor, args), false, false, {}};
}

Operand FunctionCodegen::result(const Call& c, std::vector<Operand> outputs) {
  const bool tuple = c.type ? c.type.is<TupleType>() : outputs.size() != 1;
  if (!tuple) return outputs[0];
  return {{}, true, false, std::move(outputs)};
}

void FunctionCodegen::kernel(const Call& c, std::vector<Arg> args, int num_buffers) {
  const auto* g = c.args[0].as<GlobalVar>();
  tir::PrimFunc f = g ? m_.program(g->name) : tir::PrimFunc();
  if (!f)
    fail("T0814",
         fmt::format("function `{}` calls the program `{}`, which the module does not have", name_,
                     g ? g->name : "?"),
         place(c.origin));
  if (c.args.size() > 2) {
    auto sizes = c.args[2].is<ShapeExpr>() ? std::optional(c.args[2].as<ShapeExpr>()->values)
                                           : known_shape(c.args[2]->type);
    if (!sizes) fail("T0812", "the sizes that a kernel is called with are not known", place(c.origin));
    for (const PrimExpr& d : *sizes) args.push_back(size(d));
  }
  for (const PrimExpr& d : implied_sizes(c, f, args.size() - size_t(num_buffers))) args.push_back(size(d));
  const std::string symbol = f->attrs.get_or("global_symbol", Any(g->name)).as<std::string>();
  // The graph executor asks which buffers a kernel writes; one is the rule.
  if (c.type_args.size() != 1 && m_.told.insert(symbol).second)
    exe_.metadata.emplace_back("outputs." + symbol, std::to_string(c.type_args.size()));
  emit_call(m_.callee(CalleeKind::Kernel, symbol, -1, buffer_bytes(f, size_t(num_buffers))), args, -1);
}

Operand FunctionCodegen::call_kernel(const Call& c, const VarRef& var) {
  std::vector<Arg> args;
  for (const Operand& o : tensors(c.args[1])) args.push_back(arg(o));
  const auto places = places_.find(var.get());
  std::vector<Operand> outputs;
  for (size_t i = 0; i < c.type_args.size(); ++i) {
    outputs.push_back(destination(c.type_args[i], places == places_.end() ? -1 : places->second[i]));
    args.push_back(outputs.back().arg);
  }
  // A concatenation whose parts were written in their place needs no call.
  if (!joined_.count(var.get())) kernel(c, args, int(args.size()));
  return result(c, outputs);
}

Operand FunctionCodegen::call_inplace(const Call& c) {
  std::vector<Operand> inputs = tensors(c.args[1]);
  Array<int64_t> places;
  if (c.attrs)
    for (const FieldInfo& f : type_of(c.attrs)->fields)
      if (f.name == "inplace_indices") places = f.get(c.attrs.get()).as<Array<int64_t>>();
  std::vector<Operand> outputs;
  std::vector<Arg> fresh;
  for (size_t i = 0; i < c.type_args.size(); ++i) {
    const int64_t at = i < places.size() ? places[i] : -1;
    if (at >= 0 && size_t(at) < inputs.size()) {
      inputs[size_t(at)] = owned_copy(inputs[size_t(at)]);
      outputs.push_back(inputs[size_t(at)]);
    } else {
      outputs.push_back(destination(c.type_args[i], -1));
      fresh.push_back(outputs.back().arg);
    }
  }
  std::vector<Arg> args;
  for (const Operand& o : inputs) args.push_back(arg(o));
  args.insert(args.end(), fresh.begin(), fresh.end());
  kernel(c, args, int(args.size()));
  return result(c, outputs);
}

Operand FunctionCodegen::call_dps(const Call& c) {
  std::vector<Arg> args;
  for (const Operand& o : tensors(c.args[1])) args.push_back(arg(o));
  std::vector<Operand> outputs;
  for (const Type& t : c.type_args) {
    outputs.push_back(destination(t, -1));
    args.push_back(outputs.back().arg);
  }
  packed(symbol_of(c), args, -1);
  return result(c, outputs);
}

Operand FunctionCodegen::call_packed(const Call& c) {
  const std::string symbol = symbol_of(c);
  if (symbol == name_of(Builtin::reshape)) {
    Operand from = leaf(c.args[1]);
    auto dims = c.type ? static_shape(c.type) : std::nullopt;
    if (from.arg.kind() == ArgKind::Arena && !from.is_tuple && dims) {
      const ArenaTensor t = exe_.arena_tensors[size_t(from.arg.value())];
      return {Arg::of(ArgKind::Arena, m_.arena(t.offset, *dims, t.dtype)), false, false, {}};
    }
    std::vector<Arg> args{arg(from)};
    for (size_t i = 2; i < c.args.size(); ++i) args.push_back(arg(leaf(c.args[i])));
    return {builtin_value(Builtin::reshape, args), false, any_borrowed(from), {}};
  }
  std::vector<Arg> args;
  for (size_t i = 1; i < c.args.size(); ++i) args.push_back(arg(leaf(c.args[i])));
  return {Arg::of(ArgKind::Register, packed(symbol, args, registers_++)), false, false, {}};
}

}  // namespace tenon
