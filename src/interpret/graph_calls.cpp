// SPDX-License-Identifier: Apache-2.0
// What graph programs call: tensor programs, packed functions, operators, constructors.
#include <cmath>

#include "interpret/evaluate.h"
#include "interpret/graph_impl.h"
#include "ir/text.h"
#include "ir/walk.h"
#include "op/infer.h"
#include "op/op_def.h"
#include "te/te.h"

namespace tenon {
namespace graph::interpreter {

NDArray GraphInterpreter::allocate(const Type& type, Environment& env) {
  const auto* t = type.as<TensorType>();
  auto shape = known_shape(type);
  if (t && !shape && t->shape)
    if (const ShapeObj* dims = as_shape(eval(t->shape, env)))
      return NDArray::zeros(dims->dims, stored(t->dtype));
  if (!t || !shape)
    error("T0357", "the output shape of a destination-passing call must be known: " + print(type));
  std::vector<int64_t> dims;
  for (const PrimExpr& d : *shape) dims.push_back(integer(d, env));
  return NDArray::zeros(dims, stored(t->dtype));
}

Value GraphInterpreter::call(const graph::Call& n, Environment& env) {
  if (const auto* op = n.op.as<Op>()) {
    if (op->name == "call_tir" || op->name == "call_tir_impure" || op->name == "call_tir_inplace" ||
        op->name == "call_dps_packed")
      return call_destination(n, *op, env);
    if (op->name == "call_packed" || op->name == "call_pure_packed") {
      std::vector<Value> args;
      for (size_t i = 1; i < n.args.size(); ++i) args.push_back(eval(n.args[i], env));
      return eval(n.args[0], env).as<PackedFunction>().call_packed(args);
    }
    return call_operator(n, *op, env);
  }
  std::vector<Value> args;
  for (const Expr& a : n.args) args.push_back(eval(a, env));
  if (const auto* c = n.op.as<Constructor>()) return construct(*c, std::move(args));
  const Value callee = eval(n.op, env);
  if (auto f = callee.try_as<PackedFunction>(); f && *f) return f->call_packed(args);
  const auto* closure = as_object<FunctionValue>(callee);
  if (!closure) error("T0357", "this value cannot be called: " + describe(callee), n.origin);
  if (closure->constructor) return construct(*closure->constructor, std::move(args));
  args.insert(args.begin(), closure->captured.begin(), closure->captured.end());
  return call_function(closure->function, args, environment_of(callee, *closure));
}

Value GraphInterpreter::construct(const Constructor& c, std::vector<Value> args) {
  if (int64_t(args.size()) != c.arity)
    error("T0353", fmt::format("`{}` has {} parts, {} were given", c.name, c.arity, args.size()), c.origin);
  return data_value(c.tag, std::move(args));
}

Value GraphInterpreter::call_destination(const graph::Call& n, const Op& op, Environment& env) {
  const Value packed = eval(n.args[1], env);
  const ArrayObj* tuple = as_tuple(packed);
  const std::vector<Value> given = tuple ? tuple->items : std::vector<Value>{packed};
  if (op.name == "call_dps_packed") return call_packed_destination(n, given, env);
  std::vector<NDArray> arrays;
  for (const Value& a : given) {
    const auto array = a.try_as<NDArray>();
    if (!array || !*array) error("T0353", "a tensor program is given " + describe(a), n.origin);
    arrays.push_back(*array);
  }
  Array<int64_t> inplace;
  if (op.name == "call_tir_inplace" && n.attrs)
    for (const FieldInfo& f : type_of(n.attrs)->fields)
      if (f.name == "inplace_indices") inplace = f.get(n.attrs.get()).as<Array<int64_t>>();
  std::vector<Value> outputs;
  for (size_t i = 0; i < n.type_args.size(); ++i) {
    if (i < inplace.size() && inplace[i] >= 0) {
      NDArray& a = arrays.at(size_t(inplace[i]));
      a = a.copy();
      outputs.push_back(Any(a));
    } else {
      outputs.push_back(Any(allocate(n.type_args[i], env)));
      arrays.push_back(outputs.back().as<NDArray>());
    }
  }
  if (n.args.size() > 2) {
    const Value symbolic = eval(n.args[2], env);
    for (int64_t d : as_shape(symbolic)->dims) {
      NDArray s = NDArray::empty({}, i64);
      s.set_element_int(0, d);
      arrays.push_back(s);
    }
  }
  const std::string& name = n.args[0].as<GlobalVar>()->name;
  auto f = module_.find(name).cast<tir::PrimFuncNode>();
  if (!f) error("T0350", fmt::format("no tensor function `{}` in the module", name), n.origin);
  run_program(f, arrays, outputs, inplace);
  return results_of(n, outputs);
}

Value GraphInterpreter::call_packed_destination(const graph::Call& n, std::vector<Value> args,
                                                Environment& env) {
  std::vector<Value> outputs;
  for (const Type& t : n.type_args) outputs.push_back(Any(allocate(t, env)));
  args.insert(args.end(), outputs.begin(), outputs.end());
  eval(n.args[0], env).as<PackedFunction>().call_packed(args);
  return results_of(n, outputs);
}

Value GraphInterpreter::results_of(const graph::Call& n, const std::vector<Value>& outputs) {
  const bool one = outputs.size() == 1 && !(n.type && n.type.is<TupleType>());
  return one ? outputs[0] : tuple_value(outputs);
}

void GraphInterpreter::run_program(const tir::PrimFunc& f, const std::vector<NDArray>& arrays,
                                   std::vector<Value>& outputs, const Array<int64_t>& inplace) {
  std::optional<InterpretMemo::Key> key;
  if (options_.memo && inplace.empty()) {
    std::vector<Value> given;
    std::string forms;
    for (const NDArray& a : arrays) {
      const bool made =
          std::any_of(outputs.begin(), outputs.end(), [&](const Value& v) { return v.object() == a.get(); });
      forms += made ? 'o' : 'a';
      if (!made) given.push_back(Any(a));
      if (made) forms += fmt::format("{}({})", to_string(a.dtype()), fmt::join(a.shape(), ","));
    }
    key = options_.memo->key(f, {}, std::move(given), std::move(forms));
    if (const auto* known = key ? options_.memo->find(*key) : nullptr) {
      for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = Any(known->outputs[i]);
      return;
    }
  }
  interpret_prim_func(f, arrays, module_, options_);
  if (!key) return;
  std::vector<NDArray> results;
  for (const Value& v : outputs) results.push_back(v.as<NDArray>());
  options_.memo->store({*std::move(key), std::move(results)});
}

void GraphInterpreter::form_of(const Expr& e, std::string& out) {
  if (!e) return void(out += '-');
  if (e.is<Constant>()) out += 'c';
  if (const auto* t = e.as<graph::Tuple>()) {
    out += '(';
    for (const Expr& i : t->items) form_of(i, out);
    out += ')';
  } else {
    out += e->type && e->type.is<PrimType>() ? to_string(e->type.as<PrimType>()->dtype) : "v";
  }
}

Expr GraphInterpreter::concrete(const Expr& e, const Value& v, std::vector<NDArray>& arrays) {
  if (auto a = as_array(v)) {
    arrays.push_back(*a);
    if (e.is<Constant>()) return e;
    const auto* t = e->type ? as_tensor(e->type) : nullptr;
    Array<PrimExpr> shape;
    for (int64_t d : a->shape()) shape.push_back(d);
    return graph::var("x", tensor_type(shape, t && !t->dtype.is_void() ? t->dtype : a->dtype()));
  }
  if (const ArrayObj* items = as_tuple(v)) {
    Array<Expr> out;
    Array<Type> types;
    const auto* tuple = e.as<graph::Tuple>();
    const auto* type = e->type ? e->type.as<TupleType>() : nullptr;
    for (size_t i = 0; i < items->items.size(); ++i) {
      Expr item = tuple ? tuple->items[i] : Expr(graph::var("x", type ? type->items[i] : Type()));
      out.push_back(concrete(item, items->items[i], arrays));
      types.push_back(out.back()->type);
    }
    return with_type(make<graph::Tuple>(out), tuple_type(types));
  }
  if (const ShapeObj* s = as_shape(v)) {
    Array<PrimExpr> dims;
    for (int64_t d : s->dims) dims.push_back(d);
    return shape_expr(dims);
  }
  if (v.tag() == kFloat)
    return make<PrimValue>(PrimExpr::float_imm(
        v.as<double>(), e->type && e->type.is<PrimType>() ? e->type.as<PrimType>()->dtype : f32));
  if (auto i = v.try_as<int64_t>())
    return make<PrimValue>(
        PrimExpr::int_imm(*i, e->type && e->type.is<PrimType>() ? e->type.as<PrimType>()->dtype : i64));
  return e;
}

Value GraphInterpreter::call_operator(const graph::Call& n, const Op& op, Environment& env) {
  std::vector<Value> values;  // none for an operand that is left out
  for (const Expr& a : n.args) values.push_back(a ? eval(a, env) : Value());
  if (op.name == "make_closure") {
    const auto* f = as_object<FunctionValue>(values.at(0));
    if (!f) error("T0357", "this value is no function: " + describe(values[0]), n.origin);
    auto c = make<FunctionValue>();
    c.edit()->function = f->function;
    c.edit()->environment = f->environment;
    c.edit()->self = f->self;
    c.edit()->captured = f->captured;
    c.edit()->captured.insert(c.edit()->captured.end(), values.begin() + 1, values.end());
    return Any(c);
  }
  if (op.name == "ref_create") return Any(cells_.create(values.at(0)));
  if (op.name == "ref_read" || op.name == "ref_write") {
    const auto* cell = as_object<RefCellObj>(values.at(0));
    if (!cell) error("T0357", "this value is no reference: " + describe(values[0]), n.origin);
    if (op.name == "ref_read") return cell->value;
    const_cast<RefCellObj*>(cell)->value = values.at(1);
    return tuple_value({});
  }
  const op::OpDef& def = op::definition(op);
  if (def.evaluate) {
    // Rules know shapes as lists of sizes.
    std::vector<Any> given = values;
    for (Any& v : given)
      if (const ShapeObj* s = as_shape(v)) v = Any(Array<int64_t>(s->dims.begin(), s->dims.end()));
    const Any result = def.evaluate(n, given);
    if (auto sizes = result.try_as<Array<int64_t>>()) return shape_value(sizes->vec());
    return result;
  }
  if (!def.tensor_def)
    error("T0350", fmt::format("the interpreter cannot run operator `{}`", op.name), n.origin);
  ObjectRef attrs = rewrite_any(n.attrs, [&](const ObjectRef& o) -> ObjectRef {
    const auto* v = o.as<tir::Var>();
    if (!v) return {};
    auto it = env.symbols.find(v);
    return it == env.symbols.end() ? ObjectRef() : ObjectRef(PrimExpr::int_imm(it->second, v->dtype));
  });
  std::optional<InterpretMemo::Key> key;
  if (options_.memo && op.pure && n.type_args.empty()) {
    std::string forms;
    for (const Expr& a : n.args) form_of(a, forms);
    key = options_.memo->key(n.op, attrs, values, std::move(forms));
    if (const auto* known = key ? options_.memo->find(*key) : nullptr) {
      std::vector<Value> outputs(known->outputs.begin(), known->outputs.end());
      return known->tuple ? tuple_value(outputs) : outputs[0];
    }
  }
  std::vector<NDArray> arrays;
  Array<Expr> args;
  for (size_t i = 0; i < values.size(); ++i) args.push_back(concrete(n.args[i], values[i], arrays));
  auto concrete_call = make<graph::Call>(n.op, args, attrs, n.type_args);
  concrete_call.edit()->origin = n.origin;
  concrete_call.edit()->type = op::infer_type(concrete_call);

  Array<te::Tensor> params;
  std::vector<te::Tensor> inputs;
  for (const Expr& a : args) {
    if (!a) continue;
    const auto* t = a.as<graph::Tuple>();
    const bool tensor = as_tensor(a->type);
    for (const Expr& x : t ? t->items : tensor ? Array<Expr>{a} : Array<Expr>()) {
      inputs.push_back(te::placeholder(*known_shape(x), as_tensor(x)->dtype));
      params.push_back(inputs.back());
    }
  }
  for (const te::Tensor& t : def.tensor_def(*concrete_call, inputs)) {
    params.push_back(t);
    std::vector<int64_t> dims;
    for (const PrimExpr& d : t.shape()) dims.push_back(integer(d, env));
    arrays.push_back(NDArray::zeros(dims, stored(t.dtype())));
  }
  interpret_prim_func(te::create_prim_func(params), arrays, module_, options_);
  std::vector<Value> outputs;
  for (size_t i = inputs.size(); i < arrays.size(); ++i) outputs.push_back(Any(arrays[i]));
  const bool tuple = concrete_call->type.is<TupleType>();
  if (key) {
    arrays.erase(arrays.begin(), arrays.begin() + std::ptrdiff_t(inputs.size()));
    options_.memo->store({*std::move(key), std::move(arrays), tuple});
  }
  return tuple ? tuple_value(outputs) : outputs[0];
}

}  // namespace graph::interpreter
}  // namespace tenon
