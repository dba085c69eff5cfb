// SPDX-License-Identifier: Apache-2.0
// Programs behind the reference's memory planning, read as they were before it: a tensor that is allocated
// and then handed to a tensor program is what call_tir gives, and memory planning comes later here.
//   a = R.builtin.alloc_tensor(R.shape([n]), "float32", 0)
//   cls.exp(x, a)                                   is     a = R.call_tir(cls.exp, (x,),
//   out_sinfo=R.Tensor((n,), "float32"))
// Storage and the ends of lives say nothing else. A tensor that is read before it is written holds anything:
// zeros.
#include <fmt/format.h>

#include <algorithm>

#include "ir/parse_impl.h"

namespace tenon::script {
using namespace graph;

namespace {

/// Stands for storage, of which only tensors are made.
struct StorageObj : Object {
  static constexpr std::string_view type_key = "script.Storage";
};

const AllocatedObj* allocated(const ObjectRef* o) { return o ? o->as<AllocatedObj>() : nullptr; }

bool allocates_tensor(std::string_view p) {
  return p == "R.builtin.alloc_tensor" || p == "R.memory.alloc_tensor" || p == "R.vm.alloc_tensor";
}
bool allocates_storage(std::string_view p) {
  return p == "R.memory.alloc_storage" || p == "R.vm.alloc_storage";
}
bool ends_life(std::string_view p) {
  return p == "R.memory.kill_tensor" || p == "R.memory.kill_storage" || p == "R.vm.kill_object";
}

}  // namespace

ObjectRef Converter::allocation(const Ast* a, const Ast* annotation, Sequence& seq) {
  const bool of_storage = path(a->items[0]) != "R.builtin.alloc_tensor";
  if (of_storage) {
    only(a, 5, {"storage", "offset", "shape", "dtype", "runtime_device_ind", "runtime_device_index"});
    const Ast* storage = need(a, 0, "storage");
    const ObjectRef* known = storage->kind == ExprKind::name ? lookup(storage->text) : nullptr;
    if (!known || !known->is<StorageObj>()) leaf(storage, seq);  // what a function gave as storage
  } else {
    only(a, 4, {"shape", "dtype", "runtime_device_index", "storage_scope"});
  }
  const size_t first = of_storage ? 2 : 0;
  const Ast *shape = need(a, first, "shape"), *dtype = need(a, first + 1, "dtype");
  auto out = make<AllocatedObj>();
  AllocatedObj* o = out.edit();
  o->level = levels_.size();
  o->shape = leaf(shape, seq);
  const DataType t = is_call(dtype, "R.dtype") ? dtype_of(need(dtype, 0, "dtype")) : dtype_of(dtype);
  const auto* sizes = o->shape.as<ShapeExpr>();
  if (!sizes && !o->shape.is<graph::Var>()) fail("T0232", "a shape is needed", shape);
  if (sizes) {
    o->type = graph::tensor_type(sizes->values, t);
  } else {
    auto unknown = make<TensorType>();
    unknown.edit()->shape = o->shape;
    unknown.edit()->dtype = t;
    o->type = annotation ? type(annotation) : Type(unknown);
  }
  return out;
}

Expr Converter::unwritten(const std::string& name, const AllocatedObj& a, Sequence& seq, const Origin& at) {
  const DataType t = a.type.as<TensorType>()->dtype;
  const Expr zeros = plain_call("zeros", {a.shape}, {{"dtype", Any(t)}});
  const VarRef v = bind_value(name, {}, zeros, seq, at);
  bind(name, v);
  return v;
}

bool Converter::is_tensor_program(const Ast* callee) const {
  std::string name = member_of_module(callee);
  if (name.empty() && callee->kind == ExprKind::name && !lookup(callee->text)) name = callee->text;
  const auto it = members_.find(name);
  if (it == members_.end()) return false;
  return std::ranges::any_of(it->second->decorators, [&](const Ast* d) {
    return path(d->kind == ExprKind::call ? d->items[0] : d) == "T.prim_func";
  });
}

bool Converter::writes_allocated(const Ast* a, Sequence& seq) {
  if (a->kind != ExprKind::call) return false;
  const bool dynamic = is_call(a, "R.vm.call_tir_dyn"), packed = is_call(a, "R.call_packed");
  if (!dynamic && !packed && !is_tensor_program(a->items[0])) return false;
  const Ast* function = dynamic ? need(a, 0, "func") : packed ? need(a, 0, "func") : a->items[0];
  std::vector<const Ast*> args;
  if (dynamic)
    args = items_of(need(a, 1, "args"));
  else
    args.assign(a->items.begin() + (packed ? 2 : 1), a->items.end());
  auto fresh = [&](const Ast* x) { return x->kind == ExprKind::name ? allocated(lookup(x->text)) : nullptr; };
  if (std::ranges::none_of(args, fresh)) return false;
  size_t end = args.size();
  while (end > 0 && !fresh(args[end - 1])) --end;
  size_t begin = end;
  while (begin > 0 && fresh(args[begin - 1])) --begin;
  Array<Expr> inputs;
  for (size_t i = 0; i < begin; ++i) inputs.push_back(leaf(args[i], seq));
  Array<PrimExpr> symbolic;
  for (size_t i = end; i < args.size(); ++i) {
    const Expr e = leaf(args[i], seq);
    if (const auto* s = e.as<ShapeExpr>(); s && !packed)
      for (const PrimExpr& v : s->values) symbolic.push_back(v);
    else if (const auto* v = e.as<PrimValue>(); v && !packed)
      symbolic.push_back(v->value);
    else
      fail("T0223", "a tensor stands behind those that the call writes", args[i]);
  }
  Array<Type> types;
  for (size_t i = begin; i < end; ++i) {
    const AllocatedObj* o = fresh(args[i]);
    if (o->level != levels_.size())
      fail("T0241", fmt::format("`{}` is allocated outside of the branch that writes it", args[i]->text),
           args[i]);
    types.push_back(o->type);
  }
  Array<Expr> call{packed && function->kind == ExprKind::string ? Expr(make<ExternFunc>(function->text))
                                                                : leaf(function, seq),
                   make<Tuple>(inputs)};
  if (!symbolic.empty()) call.push_back(shape_expr(symbolic));
  const Type given = types.size() == 1 ? types[0] : tuple_type(types);
  const Ref<Op> op = get_op(packed ? "call_dps_packed" : "call_tir");
  const Expr value = with_type(graph::call(op, call, op->default_attrs, types), given, origin(a));
  if (types.size() == 1) {
    bind(args[begin]->text, bind_value(args[begin]->text, {}, value, seq, origin(a)));
    return true;
  }
  const VarRef all = bind_value("lv", {}, value, seq, origin(a));
  for (size_t i = begin; i < end; ++i)
    bind(args[i]->text,
         bind_value(args[i]->text, {}, make<TupleGetItem>(all, int64_t(i - begin)), seq, origin(a)));
  return true;
}

bool Converter::planned_memory(const Ast* a, const Ast* annotation, const std::string& name, Sequence& seq) {
  if (a->kind != ExprKind::call) return false;
  const std::string p = path(a->items[0]);
  if (allocates_storage(p)) {
    if (!name.empty()) bind(name, make<StorageObj>());
    return true;
  }
  if (allocates_tensor(p)) {
    const ObjectRef tensor = allocation(a, annotation, seq);
    if (!name.empty()) bind(name, tensor);
    return true;
  }
  if (ends_life(p) || writes_allocated(a, seq)) {
    if (!name.empty()) bind(name, make<Tuple>(Array<Expr>()));
    return true;
  }
  return false;
}

}  // namespace tenon::script
