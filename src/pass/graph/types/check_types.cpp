// SPDX-License-Identifier: Apache-2.0
// check_types: what a program declares of tensors, and inference cannot compare, is checked at run time.
//
//   before   y: R.Tensor((3, 4)) = cls.f(x)                   # x: R.Tensor((n, m)), f takes R.Tensor((3, 4))
//   after    x_checked = R.match_cast(x, R.Tensor((3, 4)));  y = cls.f(x_checked)
//
// Arguments of functions and constructors, what is written to references, tensors of call_tir and what it
// makes, results, and variables with a type of their own; a tuple of them item by item. Types that no value
// can have are refused (T1104), so are calls without end that every run makes (T1109). Needs: types. Keeps:
// values. Early: what inlines functions and shares memory takes types for granted.
#include <fmt/format.h>

#include "analysis/given_up.h"
#include "ir/attr_keys.h"
#include "ir/calls_out.h"
#include "ir/structural.h"
#include "ir/text.h"
#include "ir/tir.h"
#include "op/body_rewriter.h"
#include "op/unify.h"
#include "pass/graph/types/endless_calls.h"

namespace tenon {
namespace graph {
namespace {

class CheckTypes : public BodyRewriter {
 public:
  CheckTypes(const IRModule& module, DiagnosticList& problems, GivenUpProofs& given_up)
      : module_(module), problems_(problems), analyzer_(given_up, "check_types") {}

  /// The result, too: the type that a function declares is what its callers build on.
  Ref<Function> with_result(Ref<Function> f) {
    if (!f->ret_type || f->type_params.size()) return f;
    const auto* seq = f->body.as<SeqExpr>();
    const Expr result = seq ? seq->body : f->body;
    if (!result->type || !open(result->type, f->ret_type)) return f;
    Array<Binding> checks;
    const Expr checked = cast(result, f->ret_type, "result", [&](const Binding& b) { checks.push_back(b); });
    Array<BindingBlock> blocks = seq ? seq->blocks : Array<BindingBlock>();
    blocks.push_back(make<BindingBlockNode>(checks));
    const Expr body = with_type(make<SeqExpr>(blocks, checked), f->ret_type);
    set_body(f, body);
    return f;
  }

 protected:
  Expr visit(const Expr& old, const VarRef& v) override {
    Expr value = old;
    if (const auto* c = old.as<Call>()) {
      const Op* op = c->op.as<Op>();
      if (op && op->name == "ref_write" && c->args.size() == 2) {
        if (const auto* r = c->args[0]->type.as<RefType>())
          value = with_arguments(old, {Type(), r->value}, {}, "ref_write");
      } else if (is_call_tir(old)) {
        value = tensor_program(old);
      } else if (const auto* made = c->op.as<Constructor>()) {
        if (const auto* t = c->op->type.as<FuncType>())
          value = with_arguments(old, t->params, t->type_params, made->name);
      } else if (const auto* g = c->op.as<GlobalVar>()) {
        if (const auto f = module_.find(g->name).cast<Function>()) {
          const Type t = op::function_type(*f);
          value = with_arguments(old, t.as<FuncType>()->params, t.as<FuncType>()->type_params, g->name);
        }
      }
    }
    const Type declared = v->declared;
    if (!declared || !value->type || !open(value->type, declared)) return value;
    if (value.is<Tuple>())  // it stays the value, of checked items
      return cast(value, declared, v->name, [&](const Binding& b) { splice(b); });
    const Expr made = is_leaf(value) ? value : emit(value, v->name + "_made");
    if (declared.is<TupleType>() && value->type.is<TupleType>())
      return cast(made, declared, v->name, [&](const Binding& b) { splice(b); });
    const VarRef checked = with_origin(var(v->name, declared), v->origin);
    splice(make<MatchCastNode>(checked, made, declared));
    return checked;
  }

 private:
  /// The declared type tells sizes that the value's does not tell for certain.
  bool open(const Type& have, const Type& declared) {
    if (const auto* tuple = declared.as<TupleType>()) {
      const auto* items = have.as<TupleType>();
      for (size_t i = 0; items && i < items->items.size() && i < tuple->items.size(); ++i)
        if (items->items[i] && tuple->items[i] && open(items->items[i], tuple->items[i])) return true;
      return false;
    }
    const auto want = known_shape(declared);
    const auto* t = have.as<TensorType>();
    if (!want || !declared.is<TensorType>() || (!t && !have.is<ObjectType>())) return false;
    const auto shape = known_shape(have);
    if (!shape || shape->size() != want->size()) return true;
    for (size_t i = 0; i < want->size(); ++i)
      if (!structural_equal((*shape)[i], (*want)[i]) && !analyzer_.can_prove_equal((*shape)[i], (*want)[i]))
        return true;
    return false;
  }
  void refuse(const Expr& value, const std::string& what, const Type& have, const Type& want) {
    const Span span = value->origin ? value->origin->span : Span{};
    Diagnostic d{"T1104",
                 fmt::format("{} has type {} where {} is needed", what, print(have), print(want)),
                 span.to_string(),
                 {},
                 span};
    if (!span && value->origin) d.location = value->origin->text;
    problems_.add(std::move(d));
  }
  /// The value as one of the type it must have, by bindings that go to `add`.
  Expr cast(const Expr& value, const Type& want, const std::string& hint,
            FunctionRef<void(const Binding&)> add) {
    const auto* named = value.as<Var>();
    const std::string name = named ? named->name : hint;
    const auto* wants = want.as<TupleType>();
    const auto* haves = value->type.as<TupleType>();
    if (!wants || !haves || wants->items.size() != haves->items.size()) {
      const VarRef checked = var(name + "_checked", want);
      add(make<MatchCastNode>(checked, value, want));
      return checked;
    }
    const auto* tuple = value.as<Tuple>();
    Array<Expr> items;
    Array<Type> types;
    for (size_t i = 0; i < haves->items.size(); ++i) {
      Expr item;
      if (tuple) {
        item = tuple->items[i];
      } else {
        const Expr taken = with_type(make<TupleGetItem>(value, int64_t(i)), haves->items[i]);
        item = var(fmt::format("{}_{}", name, i), haves->items[i]);
        add(make<VarBindingNode>(item.cast<Var>(), taken));
      }
      const Type type = wants->items[i];
      items.push_back(type && item->type && open(item->type, type) ? cast(item, type, name, add) : item);
      types.push_back(items[i]->type);
    }
    return with_type(make<Tuple>(items), tuple_type(types));
  }
  /// The call with its arguments checked; parameters of null type take anything.
  Expr with_arguments(const Expr& call, const Array<Type>& params, const Array<std::string>& type_params,
                      const std::string& callee) {
    const auto* c = call.as<Call>();
    op::Unifier u(type_params);
    for (size_t i = 0; i < params.size() && i < c->args.size(); ++i)
      if (params[i] && c->args[i]->type && !u.unify(params[i], c->args[i]->type)) {
        refuse(call, fmt::format("argument {} of `{}`", i, callee), c->args[i]->type, params[i]);
        return call;
      }
    Array<Expr> args = c->args;
    bool changed = false;
    for (size_t i = 0; i < params.size() && i < args.size(); ++i) {
      const bool checkable = params[i] && (params[i].is<TensorType>() || params[i].is<TupleType>());
      if (!checkable || !args[i]->type) continue;
      const Type want = u.apply(params[i]);
      if (!open(args[i]->type, want)) continue;
      args.set(i, cast(args[i], want, "value", [&](const Binding& b) { splice(b); }));
      changed = true;
    }
    if (!changed) return call;
    Ref<Call> out = call.cast<Call>();
    out.edit()->args = args;
    return out;
  }
  /// Tensors and results of call_tir against the buffers of the program.
  Expr tensor_program(const Expr& call) {
    const auto* c = call.as<Call>();
    const auto* g = c->args.size() >= 2 ? c->args[0].as<GlobalVar>() : nullptr;
    const auto* tensors = g ? c->args[1].as<Tuple>() : nullptr;
    const auto f = g ? module_.find(g->name).cast<tir::PrimFuncNode>() : tir::PrimFunc();
    if (!tensors || !f || f->attrs.contains(kKernelAttr)) return call;
    const size_t inputs = tensors->items.size(), all = inputs + c->type_args.size();
    if (f->params.size() < all) return call;  // the verifier has said so
    op::Unifier u;
    std::vector<Type> wants(all);
    for (size_t i = 0; i < all; ++i) {
      const auto b = f->buffer_map.find(f->params[i]);
      if (!b) return call;
      wants[i] = tensor_type((*b)->shape, (*b)->dtype);
      const Type have = i < inputs ? tensors->items[i]->type : c->type_args[i - inputs];
      if (!have || u.unify(wants[i], have)) continue;
      refuse(call,
             i < inputs ? fmt::format("tensor {} of the program `{}`", i, g->name)
                        : fmt::format("result {} of the program `{}`", i - inputs, g->name),
             have, wants[i]);
      return call;
    }
    if (c->args.size() > 2) return call;  // its sizes are given
    Array<Expr> items = tensors->items;
    bool changed = false;
    for (size_t i = 0; i < all; ++i) {
      const Type want = u.apply(wants[i]);
      if (i < inputs) {
        if (!items[i]->type || !open(items[i]->type, want)) continue;
        items.set(i, cast(items[i], want, "value", [&](const Binding& b) { splice(b); }));
        changed = true;
      } else if (const auto have = known_shape(c->type_args[i - inputs]);
                 have && open(c->type_args[i - inputs], want)) {
        const Type sizes = make<ShapeType>(*known_shape(want), int64_t(have->size()), true);
        splice(make<MatchCastNode>(var("checked", sizes), shape_expr(*have), sizes));
      }
    }
    if (!changed) return call;
    const Expr tuple = make<Tuple>(items);
    Ref<Call> out = call.cast<Call>();
    Array<Expr> args = c->args;
    args.set(1, tuple);
    out.edit()->args = args;
    return out;
  }

  const IRModule& module_;
  DiagnosticList& problems_;
  Analyzer analyzer_;
};

}  // namespace
}  // namespace graph

static IRModule check_types(IRModule module, PassContext& context) {
  DiagnosticList problems;
  GivenUpProofs given_up;
  const IRModule all = module;
  module = module.map_graph([&](const std::string&, const Ref<graph::Function>& f) -> ObjectRef {
    graph::CheckTypes rewriter(all, problems, given_up);
    const Ref<graph::Function> out = rewriter.with_result(rewriter.run(f));
    return out.same_as(f) ? ObjectRef() : ObjectRef(out);
  });
  graph::find_endless_calls(all, problems);
  problems.throw_if_any();
  report_given_up(context, given_up);
  return module;
}

const Pass& check_types_pass = register_pass({
    .name = "check_types",
    .run = check_types,
    .level = 0,
    .summary = "what declared types say and inference cannot compare is checked",
    .needs = {"infer_types"},
});

}  // namespace tenon
