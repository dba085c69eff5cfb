// SPDX-License-Identifier: Apache-2.0
// Graph functions built by other languages: calls of operators from their records, bindings, functions.
#include <fmt/format.h>

#include "base/nearest.h"
#include "capi/expressions.h"
#include "capi/methods.h"
#include "interpret/interpret.h"
#include "ir/bind_nested.h"
#include "ir/make_node.h"
#include "ir/tir.h"
#include "ir/walk.h"
#include "op/build.h"
#include "runtime/executable.h"

namespace tenon {
namespace {

[[noreturn]] void refuse(std::string code, std::string message, std::string hint = {}) {
  fail(std::move(code), std::move(message), {}, std::move(hint), ErrorKind::usage);
}

/// A value for an attribute; one number stands for a list of one.
Any attribute(const graph::Op& op, const FieldInfo& f, const Any& given) {
  Any fit;
  if (f.coerce(given, &fit) || f.coerce(Any(Array<Any>{given}), &fit)) return fit;
  refuse("T0227", fmt::format("{}: attribute `{}` cannot hold {}", op.name, f.name, given.kind_name()),
         std::string(f.doc));
}

ObjectRef attributes_of(const graph::Op& op, const AttrMap& given) {
  const TypeInfo* info = op.attrs_type;
  std::vector<std::string_view> names;
  if (info)
    for (const FieldInfo& f : info->fields) names.push_back(f.name);
  for (const auto& [name, value] : given)
    if (!std::ranges::count(names, name))
      refuse("T0226", fmt::format("`{}` has no attribute `{}`", op.name, name),
             names.empty() ? "it has none" : did_you_mean(name, names, "it has: "));
  if (!info) return {};
  AttrMap fitting;
  for (const FieldInfo& f : info->fields)
    if (const auto v = given.find(std::string(f.name)))
      fitting.set(std::string(f.name), attribute(op, f, *v));
  return make_node(
      *info, op.default_attrs, [&](const std::string& field) { return fitting.find(field); },
      [&](const std::string& problem) { refuse("T0227", op.name + ": " + problem); });
}

/// `args`: operands, then attributes in their order; `named`: either.
graph::Expr op_call(const std::string& name, const Ref<ArrayObj>& args, const AttrMap& named) {
  const Ref<graph::Op> op = graph::find_op(name);
  if (!op) refuse("T0222", fmt::format("there is no operator `{}`", name));
  std::vector<Any> operands;
  AttrMap attrs;
  const size_t fields = op->attrs_type ? op->attrs_type->fields.size() : 0;
  size_t next = 0;
  for (const Any& x : args->items)
    if (op->variadic || operands.size() < op->arguments.size())
      operands.push_back(x);
    else if (next < fields)
      attrs.set(std::string(op->attrs_type->fields[next++].name), x);
    else
      refuse("T0223", fmt::format("`{}` takes {} arguments", name, op->arguments.size() + fields));
  for (const auto& [key, value] : named) {
    size_t at = 0;
    while (at < op->arguments.size() && op->arguments[at].name != key) ++at;
    if (at < op->arguments.size() && at >= operands.size()) {
      operands.resize(at + 1);
      operands[at] = value;
    } else if (at < op->arguments.size() || attrs.contains(key)) {
      refuse("T0223", fmt::format("`{}`: `{}` is given twice", name, key));
    } else {
      attrs.set(key, value);
    }
  }
  size_t least = 0;
  for (const graph::OpArgument& a : op->arguments) least += !a.optional;
  if (operands.size() + (op->variadic && least ? 1 : 0) < least)
    refuse("T0223", fmt::format("`{}` takes {} arguments and is given {}", name, least, operands.size()));
  while (operands.size() > least && operands.back().is_none()) operands.pop_back();  // left out
  for (size_t i = 0; i < operands.size(); ++i)
    if (operands[i].is_none())
      refuse("T0223", fmt::format("`{}`: `{}` is missing", name,
                                  op->arguments[std::min(i, op->arguments.size() - 1)].name));
  graph::Expr beside;
  for (const Any& x : operands)
    if (auto e = x.try_as<graph::Expr>();
        e && *e && (*e)->type && (*e)->type.is<graph::TensorType>() && !beside)
      beside = *e;
  Array<graph::Expr> values;
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool shape = i < op->arguments.size() && op->arguments[i].type.find("hape") != std::string::npos;
    values.push_back(graph_expr_of(operands[i], beside, shape));
  }
  return op::op_call(name, values, attributes_of(*op, attrs));
}

AttrMap described(const std::string& name, const std::string& type, const std::string& doc) {
  AttrMap m;
  m.set("name", name);
  m.set("type", type);
  m.set("doc", doc);
  return m;
}

Array<AttrMap> operators() {
  Array<AttrMap> out;
  for (const Ref<graph::Op>& op : graph::all_ops()) {
    Array<AttrMap> arguments, attributes;
    for (const graph::OpArgument& a : op->arguments) {
      AttrMap m = described(a.name, a.type, a.doc);
      m.set("optional", a.optional);
      arguments.push_back(m);
    }
    if (op->attrs_type)
      for (const FieldInfo& f : op->attrs_type->fields)
        attributes.push_back(described(std::string(f.name), f.type->name(), std::string(f.doc)));
    AttrMap m = described(op->name, "", op->doc);
    m.set("arguments", or_empty(arguments));
    m.set("attributes", or_empty(attributes));
    m.set("variadic", op->variadic);
    m.set("file", op->file);
    m.set("line", int64_t(op->line));
    out.push_back(m);
  }
  return out;
}

/// Bindings of a function that is being built.
struct BuilderObj : Object {
  static constexpr std::string_view type_key = "graph.Bindings";
  graph::BlockBuilder builder = op::make_builder();
  size_t taken = 0;
};
using BuilderRef = Ref<BuilderObj>;

BuilderObj& of(const BuilderRef& b) { return const_cast<BuilderObj&>(*b); }

graph::Expr normal(BuilderObj& b, const Any& value) {
  return graph::bind_nested(graph_expr_of(value),
                            [&](graph::Expr part) { return b.builder.emit(op::typed(std::move(part))); });
}
graph::Expr emit(const BuilderRef& b, const Any& value, const std::string& name) {
  graph::Expr e = normal(of(b), value);
  return of(b).builder.emit(e->type ? e : op::typed(e), name);
}
graph::Expr match_cast(const BuilderRef& b, const Any& value, const graph::Type& type,
                       const std::string& name) {
  graph::Expr e = normal(of(b), value);
  return of(b).builder.emit_match_cast(of(b).builder.emit(e->type ? e : op::typed(e)), type, name);
}
Array<graph::Binding> take(const BuilderRef& b) {
  Array<graph::Binding> out;
  const Array<graph::Binding>& all = of(b).builder.bindings();
  for (; of(b).taken < all.size(); ++of(b).taken) out.push_back(all[of(b).taken]);
  return out;
}

Ref<graph::Function> make_function(const Array<graph::VarRef>& params,
                                   const Array<graph::BindingBlock>& blocks, const graph::Expr& result,
                                   const AttrMap& attrs) {
  graph::Expr body = make<graph::SeqExpr>(blocks, result);
  body.edit()->type = result->type;
  return make<graph::Function>(params, body, result->type, attrs, Array<std::string>(),
                               Ref<graph::MemoryPlan>());
}

/// What a tensor program is given.
std::vector<NDArray> tensors_of(const Array<Any>& inputs) {
  std::vector<NDArray> out;
  for (const Any& input : inputs) out.push_back(input.as<NDArray>());
  return out;
}

/// What a parameter of this type is given: other languages say a shape as a list of its sizes.
Any value_of(const graph::Type& type, const Any& given) {
  const auto list = given.try_as<Array<Any>>();
  if (type.is<graph::ShapeType>() && list) {
    auto shape = make<ShapeObj>();
    for (const Any& size : *list) shape.edit()->dims.push_back(size.as<int64_t>());
    return Any(shape);
  }
  const auto* tuple = type.as<graph::TupleType>();
  if (!tuple || !list || list->size() != tuple->items.size()) return given;
  auto items = make<ArrayObj>();  // an Array without items is no value
  for (size_t i = 0; i < list->size(); ++i)
    items.edit()->items.push_back(value_of(tuple->items[i], (*list)[i]));
  return Any(items);
}
std::vector<Any> values_of(const graph::Function& f, const Array<Any>& inputs) {
  std::vector<Any> out;
  for (size_t i = 0; i < inputs.size(); ++i)
    out.push_back(i < f.params.size() ? value_of(f.params[i]->type, inputs[i]) : inputs[i]);
  return out;
}

Any interpreted(const ObjectRef& program, const Array<Any>& inputs, const std::string& name) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].is_none()) refuse("T0102", fmt::format("ir.interpret: item {} of `inputs` is none", i));
  if (auto f = program.cast<tir::PrimFuncNode>()) {
    interpret_prim_func(f, tensors_of(inputs));
    return inputs;
  }
  const auto node = program.cast<IRModuleNode>();
  if (!node) throw Error(ErrorKind::usage, "T0102", "the interpreter runs an IRModule or a PrimFunc");
  const IRModule module(node);
  if (auto f = module.find(name).cast<tir::PrimFuncNode>()) {
    interpret_prim_func(f, tensors_of(inputs), module);
    return inputs;
  }
  const auto* f = module.find(name).as<graph::Function>();
  if (!f) throw Error(ErrorKind::usage, "T0102", "the module has no function `" + name + "`");
  return interpret(module, name, values_of(*f, inputs));
}

const bool graph_functions_registered = [] {
  add_function("graph.op_call", {"name", "args", "named"}, op_call,
               "a call of an operator: operands, then attributes (T0222, T0223, T0226, T0227)");
  add_function("graph.operators", {}, operators, "name, doc, arguments and attributes of every operator");
  add_function(
      "graph.var", {"name", {"type", graph::Type()}},
      [](const std::string& name, const graph::Type& type) { return graph::var(name, type); }, "a variable");
  add_function("ir.ObjectType.new", {}, graph::object_type, "the type of any value");
  add_function(
      "graph.call_tir", {"function", "args", "outputs", {"symbolic", Array<PrimExpr>()}},
      [](const std::string& f, const Array<graph::Expr>& args, const Array<graph::Type>& outputs,
         const Array<PrimExpr>& symbolic) {
        return graph::call_tir(graph::global(f), args, outputs, symbolic);
      },
      "a call of a tensor program of the module");
  add_function("graph.function", {"params", "blocks", "result", {"attrs", AttrMap()}}, make_function,
               "a function over blocks of bindings");
  add_function(
      "tir.rename_all", {"func"}, [](const tir::PrimFunc& f) { return tir::rename_all(f); },
      "a copy whose variables are its own");
  add_function(
      "ir.interpret", {"module", "inputs", {"name", "main"}}, interpreted,
      "runs a graph function (on tensors, numbers, shapes as lists of sizes, and tuples of them), or "
      "a tensor program (whose arguments it fills), by the interpreter");
  Methods<BuilderObj>()
      .make(
          {}, [] { return make<BuilderObj>(); }, "no bindings")
      .add("emit", {"value", {"name", ""}}, emit,
           "binds a value and gives its variable; leaves come back as they are")
      .add("match_cast", {"value", "type", {"name", ""}}, match_cast,
           "the value as a type that is checked when it runs; new sizes in it are defined")
      .add("take", {}, take, "the bindings since the last time");
  return true;
}();

}  // namespace
}  // namespace tenon
