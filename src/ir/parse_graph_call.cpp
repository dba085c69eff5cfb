// SPDX-License-Identifier: Apache-2.0
// Calls in graph functions: of operators, functions of the module, closures, constructors.
#include <fmt/format.h>

#include <algorithm>

#include "ir/parse_impl.h"

namespace tenon::script {
using namespace graph;

bool Converter::is_tuple_type(const Ast* annotation) const {
  return annotation && (annotation->kind == ExprKind::call || annotation->kind == ExprKind::subscript) &&
         path(annotation->items[0]) == "R.Tuple";
}

/// `conv2d`: that of networks, or where one operator alone is called so behind a prefix.
static Ref<Op> only_operator_called(const std::string& f) {
  if (Ref<Op> network = find_op("nn." + f)) return network;
  Ref<Op> found;
  for (const Ref<Op>& o : all_ops()) {
    if (!o->name.ends_with("." + f)) continue;
    if (found) return {};
    found = o;
  }
  return found;
}

/// A number written as a value of the graph where a tensor stands; null: it is none.
static Expr scalar_constant(const Expr& e) {
  const auto* value = e.as<PrimValue>();
  if (!value || value->value.dtype().is_handle()) return {};
  NDArray number = NDArray::empty({}, value->value.dtype());
  if (const auto* i = value->value.as<tir::IntImm>())
    number.set_element_int(0, i->value);
  else if (const auto* x = value->value.as<tir::FloatImm>())
    number.set_element(0, x->value);
  else
    return {};
  return constant(number);
}

bool Converter::is_graph_value(const Ast* a) const {
  const ObjectRef* o = a->kind == ExprKind::name ? lookup(a->text) : nullptr;
  return o && o->is<graph::Var>();
}

/// A function of the module, or a variable that holds one.
Expr Converter::callee(const Ast* a) {
  const std::string p = path(a);
  std::string name = member_of_module(a);
  if (!name.empty()) {
  } else if (is_call(a, "I.GlobalVar"))
    name = text_of(need(a, 0, "name"), "a name");
  else if (a->kind == ExprKind::name && !lookup(a->text) && functions_.count(a->text))
    name = a->text;
  if (name.empty()) return {};
  if (!functions_.count(name))
    fail("T0220", fmt::format("the module has no function `{}`", name), a, suggestion(name));
  return global(name);
}

Expr Converter::graph_call(const Ast* a, Sequence& seq, const Ast* annotation) {
  const Ast* head = a->items[0];
  const std::string p = path(head);
  auto call_value = [&](Expr f) {
    Array<Expr> args;
    for (size_t i = 1; i < a->items.size(); ++i) args.push_back(leaf(a->items[i], seq));
    const Ast* types = output_types(a);
    for (const auto& [n, v] : a->named)
      if (v != types) fail("T0223", fmt::format("functions take no argument by name, as `{}`", n), v);
    return graph::call(std::move(f), args, {}, types ? types_of(types) : Array<Type>());
  };
  if (is_call(a, "I.GlobalVar")) return callee(a);
  if (Expr c = constructor(head)) return call_value(c);
  if (Expr f = callee(head)) return call_value(f);
  if (head->kind == ExprKind::attribute && head->text == "astype" && is_graph_value(head->items[0])) {
    only(a, 1, {"dtype"});
    return plain_call("cast", {leaf(head->items[0], seq)}, {{"dtype", Any(dtype_of(need(a, 0, "dtype")))}});
  }
  if (head->kind == ExprKind::object && head->object.is<FunctionObj>())
    return graph_expr(captured_call(a, [&](const Ast* x) { return Any(leaf(x, seq)); }), seq, annotation);
  if (head->kind == ExprKind::object && head->object.is<MacroObj>()) return graph_macro(a, seq);
  if (head->kind == ExprKind::object) return call_value(leaf(head, seq));
  if (head->kind == ExprKind::call) return call_value(leaf(head, seq));  // R.ExternFunc("f")(x)
  if (head->kind == ExprKind::name && lookup(head->text)) {
    const ObjectRef o = name_of(head);
    if (!o.is<graph::Var>()) fail("T0225", fmt::format("`{}` cannot be called", head->text), head);
    return call_value(o.cast<ExprNode>());
  }
  if (p == "I.json") {
    const ObjectRef o = from_json(text_of(need(a, 0, "text"), "the JSON text"));
    if (!o.is<ExprNode>()) fail("T0224", "the JSON text is no graph expression", a);
    return o.cast<ExprNode>();
  }
  if ((p.starts_with("T.") && is_size(a)) || p == "T.FloatImm" || p == "T.IntImm")
    return make<PrimValue>(expr(a));
  if (!p.starts_with("R."))
    fail("T0222", fmt::format("`{}` is no function of graph functions", p.empty() ? "this" : p), head,
         p.starts_with("T.") ? "functions T.… belong to tensor programs" : "");
  refuse_dialect(p, head);
  std::string f = p.substr(2);
  if (f == "const" || f == "const_ref" || f == "const_bytes") return constant(ndarray(a));
  if (f == "shape") return shape_expr(shape_values(need(a, 0, "values")));
  if (f == "prim_value") return make<PrimValue>(expr(need(a, 0, "value")));
  if (f == "str") return make<graph::StringImm>(text_of(need(a, 0, "value"), "a string"));
  if (f == "dtype") return make<DataTypeImm>(dtype_of(need(a, 0, "dtype")));
  if (f == "ExternFunc") return make<ExternFunc>(text_of(need(a, 0, "symbol"), "a symbol"));
  if (f == "Op") {
    const std::string name = text_of(need(a, 0, "name"), "an operator's name");
    if (Ref<Op> op = find_op(name)) return op;
    fail("T0222", fmt::format("there is no operator `{}`", name), a);
  }
  if (f == "tuple") {
    Array<Expr> items;
    for (size_t i = 1; i < a->items.size(); ++i) items.push_back(leaf(a->items[i], seq));
    return make<Tuple>(items);
  }
  if (f == "match_cast" || f == "match_shape")
    fail("T0221", fmt::format("the value of `{}` is bound to a name directly", p), a,
         "write y = R.match_cast(x, R.Tensor((n,), \"float32\"))");
  if (f == "dataflow" || f == "output" || f == "outputs")
    fail("T0221", fmt::format("`{}` is no value", p), a);
  if (f == "call_tir" && (a->items.size() == 4 || a->items.size() == 5) && !output_types(a) &&
      a->items[1]->kind != ExprKind::string && !callee(a->items[1]))
    return old_call_tir(a, seq, annotation);
  static constexpr std::pair<std::string_view, std::string_view> aliases[] = {
      {"dot", "matmul"},   {"call_dps", "call_dps_packed"}, {"nn.softmax", "softmax"},
      {"nn.relu", "relu"}, {"softmax", "nn.softmax"},       {"relu", "nn.relu"},
      {"nn.dot", "matmul"}};
  if (f.starts_with("op.")) f.erase(0, 3);
  if (f == "ShapeExpr") return shape_expr(shape_values(need(a, 0, "values")));
  if (f == "TupleGetItem")
    return make<TupleGetItem>(leaf(need(a, 0, "tuple_value"), seq),
                              integer_of(need(a, 1, "index"), "the number of an item"));
  if (f == "layout_transform" &&
      (named(a, "index_map") || (a->items.size() > 2 && a->items[2]->kind != ExprKind::string)))
    return mapped_layout(a, seq);
  if (f == "nn.batch_norm" && (named(a, "momentum") || named(a, "training") || is_tuple_type(annotation)))
    return normalised_batch(a, seq);
  if (f == "nn.dropout" && is_tuple_type(annotation)) return dropped_values(a, seq);
  if (Expr composed = composed_call(f, a, seq)) return composed;
  const SpelledOp* spelled = find_spelling(f);
  Ref<Op> op = find_op(spelled ? spelled->op : f);
  for (auto [from, to] : aliases)
    if (!op && f == from) op = find_op(to);
  if (!op) op = only_operator_called(f);
  if (!op) {
    std::string hint;
    for (const Ref<Op>& o : all_ops())
      if (o->name == "nn." + f || "nn." + o->name == f || o->name.substr(0, 5) == f.substr(0, 5)) {
        hint = "is `R." + o->name + "` meant?";
        break;
      }
    fail("T0222", fmt::format("there is no operator `{}`", f), head, hint);
  }
  return op_call(op, spelled, a, seq, annotation);
}

/// Whole numbers among what a tensor program is given are its sizes, which come behind the tensors.
static void part_numbers(Array<Expr>& args) {
  const auto* all = args[1].as<Tuple>();
  Array<Expr> tensors;
  Array<PrimExpr> sizes;
  for (const Expr& e : all ? all->items : Array<Expr>()) {
    const auto* number = e.as<PrimValue>();
    if (number && number->value.dtype().is_integer())
      sizes.push_back(tir::cast(i64, number->value));
    else
      tensors.push_back(e);
  }
  if (sizes.empty()) return;
  args.set(1, make<Tuple>(tensors));
  args.push_back(shape_expr(sizes));
}

Expr Converter::op_call(const Ref<Op>& op, const SpelledOp* spelled, const Ast* a, Sequence& seq,
                        const Ast* annotation) {
  Array<Expr> args;
  std::vector<std::pair<std::string, const Ast*>> attributes;
  const TypeInfo* info = op->attrs_type;
  auto field = [&](std::string_view name) -> const FieldInfo* {
    if (info)
      for (const FieldInfo& f : info->fields)
        if (f.name == name) return &f;
    return nullptr;
  };
  const bool tells_types = op->name.starts_with("call_tir") || op->name == "call_dps_packed";
  const bool packed =
      op->name == "call_packed" || op->name == "call_pure_packed" || op->name == "call_dps_packed";
  auto operand = [&](const Ast* x, size_t i) -> Expr {
    if (i == 0 && packed && x->kind == ExprKind::string) return make<ExternFunc>(x->text);
    const bool empty = (x->kind == ExprKind::tuple || x->kind == ExprKind::list) && x->items.empty();
    if (empty && i < op->arguments.size() && op->arguments[i].type.find("hape") != std::string::npos)
      return shape_expr({});
    // Inputs of a tensor program form a tuple even when only one is written.
    Expr e = leaf(x, seq);
    if (i < op->arguments.size() && op->arguments[i].type == "Tensor")
      if (const Expr scalar = scalar_constant(e)) return scalar;
    if (const auto* size = e.as<PrimValue>(); size && i < op->arguments.size() &&
                                              op->arguments[i].type == "Shape" &&
                                              size->value.dtype().is_integer())
      return shape_expr({size->value});
    if (i == 1 && tells_types && !e.is<Tuple>() && !(e && e->type && e->type.is<TupleType>())) {
      if (e.is<ShapeExpr>()) fail("T0232", "a shape stands where tensors are needed", x);
      return make<Tuple>(Array<Expr>{e});
    }
    return e;
  };
  Array<Type> types;
  size_t next_field = 0;
  for (size_t i = 1; i < a->items.size() && !spelled; ++i) {
    // Output types may be given by place: (function, args, types, symbolic sizes), in-place indices before
    // them.
    if (tells_types && i == 3 && op->name == "call_tir_inplace" && a->items.size() > 4) {
      attributes.emplace_back("inplace_indices", a->items[i]);
      continue;
    }
    if (tells_types && i >= 3 && types.empty() && !output_types(a)) {
      types = types_of(a->items[i]);
      continue;
    }
    if (args.size() < op->arguments.size() || op->variadic) {
      args.push_back(operand(a->items[i], args.size()));
      continue;
    }
    // Further positional arguments are attributes in their order.
    if (!info || next_field >= info->fields.size())
      fail("T0223",
           fmt::format("`{}` takes {} arguments", op->name,
                       op->arguments.size() + (info ? info->fields.size() : 0)),
           a->items[i]);
    attributes.emplace_back(std::string(info->fields[next_field++].name), a->items[i]);
  }
  bool no_attrs = false;
  ObjectRef attrs;
  for (const auto& [name, v] : spelled ? respelled(*spelled, a) : a->named) {
    if (names_output_types(name)) {
      types = types_of(v);
      continue;
    }
    if (name == "tir_vars" && op->name.starts_with("call_tir")) {
      args.push_back(leaf(v, seq));
      continue;
    }
    if (name == "attrs" && !field("attrs")) {
      if (is_none(v))
        no_attrs = true;
      else {
        const Any given = any(v);
        attrs = given.try_as<ObjectRef>().value_or(ObjectRef());
        no_attrs = true;
      }
      continue;
    }
    size_t position = 0;
    while (position < op->arguments.size() && op->arguments[position].name != name) ++position;
    if (!field(name) && position < op->arguments.size()) {
      while (args.size() < position) args.push_back(Expr());
      if (args.size() > position) {
        if (args[position]) fail("T0223", fmt::format("argument `{}` is given twice", name), v);
        args.set(position, operand(v, position));
      } else {
        args.push_back(operand(v, position));
      }
      continue;
    }
    if (!field(name)) {
      std::string known;
      if (info)
        for (const FieldInfo& f : info->fields) known += (known.empty() ? "" : ", ") + std::string(f.name);
      fail("T0226", fmt::format("`{}` has no attribute `{}`", op->name, name), v,
           known.empty() ? "it has none" : "it has " + known);
    }
    for (auto& [other, x] : attributes)
      if (other == name) fail("T0223", fmt::format("attribute `{}` is given twice", name), v);
    attributes.emplace_back(name, v);
  }
  if (op->name == "call_tir" && args.size() == 2) part_numbers(args);
  if (info && !no_attrs) {
    attrs = op->default_attrs;
    for (auto& [name, v] : attributes) set_field(*field(name), attrs.edit(), v);
    if (info->finish && !attributes.empty()) info->finish(attrs.edit());
  }
  size_t least = 0;
  for (const OpArgument& o : op->arguments) least += !o.optional;
  if (op->variadic && least) --least;
  if (args.size() < least)
    fail("T0223", fmt::format("`{}` takes {} arguments and is given {}", op->name, least, args.size()), a);
  if (types.empty() && annotation && tells_types) types.push_back(type(annotation));
  if (types.empty() && tells_types)
    fail("T0240", fmt::format("`{}` does not tell its output types", op->name), a,
         "write out_sinfo=R.Tensor((…), \"float32\")");
  const Type type = types.empty() ? Type() : types.size() == 1 ? types[0] : tuple_type(types);
  return with_type(graph::call(op, args, attrs, types), type, origin(a));
}

}  // namespace tenon::script
