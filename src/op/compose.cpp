// SPDX-License-Identifier: Apache-2.0
// Composed operators: types and tensor definitions from the operators that they are made of.
#include "op/compose.h"

#include <fmt/format.h>

#include "base/define_type.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;

bool is_tensor_like(const Type& t) { return t.is<graph::TensorType>() || t.is<graph::TupleType>(); }

std::vector<Term> fresh_arguments(InferContext& ctx) {
  std::vector<Term> args;
  for (size_t i = 0; i < ctx.size(); ++i) {
    const Type t = ctx.type(i);
    args.push_back({ctx, is_tensor_like(t) ? Expr(graph::var(fmt::format("a{}", i), t)) : ctx.call.args[i]});
  }
  return args;
}

Type infer_composed(InferContext& ctx, const Compose& f) {
  const size_t before = ctx.run.problems.all().size();
  if (const Term value = f(ctx, fresh_arguments(ctx))) return value.expr()->type;
  if (ctx.run.problems.all().size() != before) return {};
  return graph::tensor_type_unknown(-1, DataType::void_());
}

/// Definitions of expressions, each once.
class Expansion {
 public:
  void bind(const Expr& e, Tensors value) { known_.emplace(e.get(), std::move(value)); }
  const Tensors& of(const Expr& e) {
    if (auto it = known_.find(e.get()); it != known_.end()) return it->second;
    Tensors value = make_value(e);
    return known_.emplace(e.get(), std::move(value)).first->second;
  }

 private:
  Tensors make_value(const Expr& e) {
    if (const auto* c = e.as<graph::Constant>()) {
      CHECK(c->data.size() == 1 && c->data.shape().empty(), "a composed operator holds a constant tensor");
      const DataType t = c->data.dtype();
      const PrimExpr value = t.is_float() ? PrimExpr::float_imm(c->data.element(0), t)
                                          : PrimExpr::int_imm(c->data.element_int(0), t);
      return {te::compute({}, [&](const Vars&) { return value; }, "scalar")};
    }
    if (const auto* t = e.as<graph::Tuple>()) {
      Tensors all;
      for (const Expr& item : t->items)
        for (const te::Tensor& x : of(item)) all.push_back(x);
      return all;
    }
    if (const auto* g = e.as<graph::TupleGetItem>()) return {of(g->tuple).at(size_t(g->index))};
    const auto* call = e.as<Call>();
    CHECK(call, "a composed operator holds an expression without a tensor definition");
    const TensorDef& def = definition(*call->op.as<graph::Op>()).tensor_def;
    CHECK(def, "a composed operator calls one without a tensor definition");
    Tensors in;
    for (const Expr& a : call->args)
      if (is_tensor_like(a->type))
        for (const te::Tensor& x : of(a)) in.push_back(x);
    return def(*call, in);
  }
  std::unordered_map<const Object*, Tensors> known_;
};

}  // namespace

Tensors define_composed(const Call& call, const Tensors& in, const Compose& f) {
  Inference run;
  InferContext ctx(run, call);
  const std::vector<Term> args = fresh_arguments(ctx);
  Expansion expansion;
  size_t next = 0;
  for (const Term& arg : args) {
    const Type t = arg.expr()->type;
    if (!is_tensor_like(t)) continue;
    const size_t count = t.is<graph::TupleType>() ? t.as<graph::TupleType>()->items.size() : 1;
    expansion.bind(arg.expr(),
                   Tensors(in.begin() + std::ptrdiff_t(next), in.begin() + std::ptrdiff_t(next + count)));
    next += count;
  }
  const Term value = f(ctx, args);
  CHECK(value, "a composed operator whose type was inferred has no definition");
  Tensors out = expansion.of(value.expr());
  // A result that is an argument, or appears twice, needs memory of its own.
  for (size_t i = 0; i < out.size(); ++i) {
    bool own = true;
    for (const te::Tensor& x : in) own = own && !out[i].same_as(x);
    for (size_t k = 0; k < i; ++k) own = own && !out[i].same_as(out[k]);
    if (!own) out[i] = copy_of(out[i], short_name(call));
  }
  return out;
}

OpRegistration register_composed(OpName name, std::string doc, FusionKind kind, Compose f) {
  auto r = register_op(std::move(name), std::move(doc));
  r.infer([f](InferContext& ctx) { return infer_composed(ctx, f); })
      .fusion(kind)
      .tensor_def([f](const Call& call, const Tensors& in) { return define_composed(call, in, f); });
  return r;
}

Tensors define(std::string_view op, const Tensors& in, ObjectRef attrs, Array<Expr> tail) {
  Array<Expr> args;
  for (const te::Tensor& t : in) args.push_back(graph::var("t", graph::tensor_type(t.shape(), t.dtype())));
  for (const Expr& e : tail) args.push_back(e);
  const Expr e = op_call(op, args, std::move(attrs));
  const auto* call = e.as<Call>();
  const TensorDef& def = definition(*call->op.as<graph::Op>()).tensor_def;
  CHECK(def, "an operator without a tensor definition is used by another");
  return def(*call, in);
}

// ---------------------------------------------------------------- terms
DataType Term::dtype() const {
  const auto* t = expr_ ? graph::as_tensor(expr_) : nullptr;
  return t ? t->dtype : DataType::void_();
}
std::optional<Shape> Term::dims() const { return expr_ ? graph::known_shape(expr_) : std::nullopt; }
Term Term::number(double v) const { return dtype().is_void() ? Term() : Term(*ctx_, scalar(v, dtype())); }

Term Term::op(std::string_view name, std::vector<Term> others, ObjectRef attrs) const {
  if (!expr_) return {};
  Array<Expr> args{expr_};
  for (const Term& t : others) {
    if (!t) return {};
    args.push_back(t.expr_);
  }
  return {*ctx_, ctx_->call_op(name, args, std::move(attrs))};
}
Term Term::as(DataType t) const {
  if (!expr_ || t.is_void() || dtype() == t) return *this;
  return op("cast", make_attrs<CastAttrs>(t));
}
Term Term::widened() const { return as(wide_type(dtype())); }
Term Term::reshaped(const Shape& shape) const {
  return expr_ ? op("reshape", {Term(*ctx_, graph::shape_expr(shape))}) : Term();
}
Term Term::item(int64_t i) const { return expr_ ? Term(*ctx_, get_item(expr_, i)) : Term(); }

Term operator+(const Term& a, const Term& b) { return a.op("add", {b}); }
Term operator-(const Term& a, const Term& b) { return a.op("subtract", {b}); }
Term operator*(const Term& a, const Term& b) { return a.op("multiply", {b}); }
Term operator/(const Term& a, const Term& b) { return a.op("divide", {b}); }
Term operator-(const Term& a) { return a.op("negative"); }
Term operator+(const Term& a, double b) { return a + a.number(b); }
Term operator-(const Term& a, double b) { return a - a.number(b); }
Term operator-(double a, const Term& b) { return b.number(a) - b; }
Term operator*(const Term& a, double b) { return a * a.number(b); }
Term tuple(const std::vector<Term>& items) {
  Array<Expr> exprs;
  for (const Term& t : items) {
    if (!t) return {};
    exprs.push_back(t.expr());
  }
  return {*items[0].context(), tuple(exprs)};
}

}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::CastAttrs>;
