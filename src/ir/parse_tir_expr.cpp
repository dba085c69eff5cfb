// SPDX-License-Identifier: Apache-2.0
// Expressions of tensor programs. Nothing is folded: what is written is what the node says; only a bare
// number takes the type of its neighbour.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "ir/intrinsic.h"
#include "ir/parse_impl.h"
#include "ir/scalable.h"
#include "ir/structural.h"

namespace tenon::script {
using namespace tir;

namespace {
PrimExpr as_prim(const ObjectRef& o) {
  PrimExpr e;
  static_cast<Ref<PrimExprNode>&>(e) = o.cast<PrimExprNode>();
  return e;
}
}  // namespace

PrimExpr Converter::retyped(const Value& number, DataType t, const Ast* at) {
  const auto* i = number.e.as<IntImm>();
  if (t.is_float()) return PrimExpr::float_imm(i ? double(i->value) : number.exact, t.element());
  if (wrap(i->value, t.element()) != i->value)
    fail("T0204", fmt::format("{} does not fit into {}", i->value, to_string(t.element())), at,
         "write the value that is meant, or T.Cast of a wider type, which wraps");
  return PrimExpr::int_imm(i->value, t.element());
}

PrimExpr Converter::expr_of(const Ast* a, DataType wanted) {
  Value v = value(a);
  if (!v.weak || v.e.dtype() == wanted) return v.e;
  if (v.e.is<FloatImm>() && !wanted.is_float())
    fail("T0230", fmt::format("a number with a fraction stands where {} is needed", to_string(wanted)), a);
  return wanted.is_handle() || wanted.is_void() ? v.e : retyped(v, wanted, a);
}

bool Converter::is_buffer(const Ast* a) const {
  if (a->kind == ExprKind::object) return a->object.is<BufferNode>();
  if (a->kind != ExprKind::name) return false;
  const ObjectRef* o = lookup(a->text);
  return o && o->is<BufferNode>();
}
DataProducer Converter::producer_of(const Ast* a) const {
  const ObjectRef* o = a->kind == ExprKind::name     ? lookup(a->text)
                       : a->kind == ExprKind::object ? &a->object
                                                     : nullptr;
  return o ? o->cast<DataProducerNode>() : DataProducer();
}
Buffer Converter::buffer_of(const Ast* a) {
  if (a->kind == ExprKind::name)
    if (auto b = name_of(a).cast<BufferNode>()) return b;
  if (a->kind == ExprKind::object)
    if (auto b = a->object.cast<BufferNode>()) return b;
  fail("T0225",
       a->kind == ExprKind::name || a->kind == ExprKind::object ? fmt::format("`{}` is no buffer", a->text)
                                                                : std::string("a buffer was expected"),
       a);
}
VarRef Converter::variable(const Ast* a) {
  const PrimExpr e = expr(a);
  if (auto v = e.cast<Var>()) return v;
  fail("T0225", "a variable was expected", a);
}
Array<PrimExpr> Converter::exprs(const Ast* list) {
  Array<PrimExpr> out;
  for (const Ast* a : items_of(list)) out.push_back(expr(a));
  return out;
}
Array<PrimExpr> Converter::indices(const Ast* a, size_t from, const Array<PrimExpr>& shape) {
  Array<PrimExpr> out;
  for (size_t i = from; i < a->items.size(); ++i) {
    const Ast* x = a->items[i];
    if (x->kind == ExprKind::tuple && a->items.size() == from + 1) return exprs(x);  // A[()], A[(i, j)]
    if (x->kind != ExprKind::slice) {
      out.push_back(expr(x));
      continue;
    }
    if (i - from >= shape.size()) fail("T0233", "a slice is no index: it names a region", x);
    const Range r = slice(x, shape[i - from]);
    out.push_back(is_one(r->extent) ? r->min
                                    : PrimExpr(make<Ramp>(r->min, PrimExpr::int_imm(1, r->min.dtype()),
                                                          lanes_of(r->extent, x))));
  }
  return out;
}

// ---------------------------------------------------------------- types meet
void Converter::unify(Value& a, Value& b, const Ast* at) {
  const DataType ta = a.e.dtype().element(), tb = b.e.dtype().element();
  if (ta != tb) {
    const bool a_fits = a.weak && (a.e.is<IntImm>() || tb.is_float()) && !tb.is_handle() && !tb.is_bool();
    const bool b_fits = b.weak && (b.e.is<IntImm>() || ta.is_float()) && !ta.is_handle() && !ta.is_bool();
    if (b_fits)
      b.e = retyped(b, ta, at);
    else if (a_fits)
      a.e = retyped(a, tb, at);
    else if (ta.is_int() && tb.is_int())
      (ta.bits < tb.bits ? a : b).e =
          cast((ta.bits < tb.bits ? tb : ta).with_lanes((ta.bits < tb.bits ? a : b).e.dtype().lanes),
               (ta.bits < tb.bits ? a : b).e);
    else
      fail("T0230",
           fmt::format("operands have the types {} and {}", to_string(a.e.dtype()), to_string(b.e.dtype())),
           at, "convert one of them with T.cast");
  }
  if (a.e.dtype().lanes == b.e.dtype().lanes) return;
  if (a.e.dtype().lanes == 1)
    a.e = make<Broadcast>(a.e, int64_t(b.e.dtype().lanes));
  else if (b.e.dtype().lanes == 1)
    b.e = make<Broadcast>(b.e, int64_t(a.e.dtype().lanes));
  else
    fail("T0230",
         fmt::format("operands have the types {} and {}", to_string(a.e.dtype()), to_string(b.e.dtype())),
         at);
}

PrimExpr Converter::truth(const Ast* a) {
  const PrimExpr e = expr(a);
  if (!e.dtype().is_bool())
    fail("T0230", fmt::format("a condition has type {}, not bool", to_string(e.dtype())), a,
         "compare it: x != 0");
  return e;
}

Value Converter::binary(const Ast* a) {
  Value x = value(a->items[0]), y = value(a->items[1]);
  const std::string& op = a->text;
  if (op == "**") {
    unify(x, y, a);
    return {tir::call(x.e.dtype(), "tir.pow", {x.e, y.e})};
  }
  unify(x, y, a);
  if (x.e.dtype().is_bool() && op != "&" && op != "|" && op != "^")
    fail("T0230", fmt::format("`{}` is not defined for bool", op), a);
  if (x.e.dtype().is_handle()) fail("T0230", fmt::format("`{}` is not defined for handle", op), a);
  if (op == "+") return {make<Add>(x.e, y.e)};
  if (op == "-") return {make<Sub>(x.e, y.e)};
  if (op == "*") return {make<Mul>(x.e, y.e)};
  if (op == "/") return {make<Div>(x.e, y.e)};
  if (op == "//") return {make<FloorDiv>(x.e, y.e)};
  if (op == "%") return {make<FloorMod>(x.e, y.e)};
  if (x.e.dtype().is_bool()) {
    if (op == "&") return {make<And>(x.e, y.e)};
    if (op == "|") return {make<Or>(x.e, y.e)};
    return {make<NE>(x.e, y.e)};
  }
  if (!x.e.dtype().is_integer())
    fail("T0230", fmt::format("`{}` is not defined for {}", op, to_string(x.e.dtype())), a);
  const char* name = op == "&"    ? "tir.bitwise_and"
                     : op == "|"  ? "tir.bitwise_or"
                     : op == "^"  ? "tir.bitwise_xor"
                     : op == "<<" ? "tir.shift_left"
                                  : "tir.shift_right";
  return {tir::call(x.e.dtype(), name, {x.e, y.e})};
}

Value Converter::compare(const Ast* a) {
  Value x = value(a->items[0]), y = value(a->items[1]);
  unify(x, y, a);
  const std::string& op = a->text;
  if (op == "==") return {make<EQ>(x.e, y.e)};
  if (op == "!=") return {make<NE>(x.e, y.e)};
  if (op == "<") return {make<LT>(x.e, y.e)};
  if (op == "<=") return {make<LE>(x.e, y.e)};
  if (op == ">") return {make<GT>(x.e, y.e)};
  return {make<GE>(x.e, y.e)};
}

// ---------------------------------------------------------------- one expression
Value Converter::name_value(const Ast* a) {
  if (a->text == "True" || a->text == "False") return {PrimExpr::int_imm(a->text == "True", boolean)};
  if (a->text == "None") fail("T0221", "None stands where a value is needed", a);
  const ObjectRef o = name_of(a);
  if (o.is<PrimExprNode>()) return {as_prim(o)};
  if (const auto* b = o.as<BufferNode>(); b && allocated_.count(b)) return {b->data};
  if (o.is<BufferNode>())
    fail("T0225", fmt::format("buffer `{}` stands where one of its elements is needed", a->text), a,
         fmt::format("index it: {}[…]; its pointer is {}.data", a->text, a->text));
  if (o.is<DataProducerNode>())
    fail("T0225", fmt::format("tensor `{}` stands where one of its elements is needed", a->text), a,
         fmt::format("index it: {}[…]", a->text));
  fail("T0225", fmt::format("`{}` is no number", a->text), a);
}

Value Converter::load(const Ast* a) {
  const Ast* base = a->items[0];
  if (base->kind == ExprKind::attribute && is_buffer(base->items[0]) &&
      (base->text == "shape" || base->text == "strides")) {
    const Buffer b = buffer_of(base->items[0]);
    const Array<PrimExpr>& list = base->text == "shape" ? b->shape : b->strides;
    const int64_t i = a->items.size() == 2 ? integer_of(a->items[1], "a dimension's number") : -1;
    if (i < 0 || size_t(i) >= list.size())
      fail("T0233", fmt::format("buffer `{}` has no such dimension", base->items[0]->text), a);
    return {list[size_t(i)]};
  }
  if (const DataProducer p = producer_of(base))
    return {make<ProducerLoad>(p, element(a, "tensor", p->shape))};
  const Buffer b = buffer_of(base);
  return {tir::load(b, element(a, "buffer", b->shape))};
}

Array<PrimExpr> Converter::element(const Ast* a, std::string_view what, const Array<PrimExpr>& shape) {
  const std::string& name = a->items[0]->text;
  const Array<PrimExpr> at = indices(a, 1, shape);
  if (at.size() != shape.size())
    fail("T0233",
         fmt::format("{} `{}` has {} dimensions and is indexed with {}", what, name, shape.size(), at.size()),
         a);
  for (const PrimExpr& i : at)
    if (!i.dtype().is_integer())
      fail("T0233", fmt::format("an index of `{}` has type {}, not an integer", name, to_string(i.dtype())),
           a);
  return at;
}

Value Converter::value(const Ast* a) {
  try {
    switch (a->kind) {
      case ExprKind::name:
        return name_value(a);
      case ExprKind::integer:
        return {PrimExpr::int_imm(a->integer, i64), true};
      case ExprKind::number:
        return {PrimExpr::float_imm(a->number, f32), true, a->number};
      case ExprKind::string:
        return {make<tir::StringImm>(a->text)};
      case ExprKind::unary: {
        if (a->text == "not") return {make<Not>(truth(a->items[0]))};
        const Ast* inner = a->items[0];
        if (a->text == "-" && inner->kind == ExprKind::integer)
          return {PrimExpr::int_imm(int64_t(0 - uint64_t(inner->integer)), i64), true};
        if (a->text == "-" && inner->kind == ExprKind::number)
          return {PrimExpr::float_imm(-inner->number, f32), true, -inner->number};
        Value v = value(inner);
        if (a->text == "+") return v;
        if (a->text == "~")
          return {v.e.dtype().is_bool() ? PrimExpr(make<Not>(v.e))
                                        : tir::call(v.e.dtype(), "tir.bitwise_not", {v.e})};
        return {-v.e, v.weak};
      }
      case ExprKind::binary:
        return binary(a);
      case ExprKind::compare:
        return compare(a);
      case ExprKind::logic: {
        const PrimExpr x = truth(a->items[0]), y = truth(a->items[1]);
        return {a->text == "and" ? PrimExpr(make<And>(x, y)) : PrimExpr(make<Or>(x, y))};
      }
      case ExprKind::conditional: {
        const PrimExpr c = truth(a->items[1]);
        Value x = value(a->items[0]), y = value(a->items[2]);
        unify(x, y, a);
        return {tir::call(x.e.dtype(), "tir.if_then_else", {c, x.e, y.e})};
      }
      case ExprKind::subscript:
        return load(a);
      case ExprKind::attribute:
        if (is_buffer(a->items[0])) {
          const Buffer b = buffer_of(a->items[0]);
          if (a->text == "data") return {b->data};
          if (a->text == "elem_offset") return {b->elem_offset ? b->elem_offset : PrimExpr(0)};
          fail("T0222", fmt::format("buffers have no `{}`", a->text), a);
        }
        fail("T0221", fmt::format("`{}` is no value", path(a)), a);
      case ExprKind::call:
        return call(a);
      case ExprKind::object:
        return captured_value(a);
      default:
        fail("T0221", "this is no tensor-program expression", a);
    }
  } catch (const DiagnosticError& e) {
    note(e, span(a));
    throw Failed();
  }
}

// ---------------------------------------------------------------- calls
Value Converter::typed_call(const Ast* a, DataType t) {
  only(a, 1, {});
  if (a->items.size() != 2) fail("T0223", fmt::format("`{}` takes one argument", path(a->items[0])), a);
  const Ast* x = a->items[1];
  if (x->kind == ExprKind::string) {
    if (!t.is_float()) fail("T0230", "only floating types have inf and nan", x);
    if (x->text == "inf" || x->text == "-inf")
      return {PrimExpr::float_imm(x->text[0] == '-' ? -std::numeric_limits<double>::infinity()
                                                    : std::numeric_limits<double>::infinity(),
                                  t)};
    if (x->text == "nan") return {PrimExpr::float_imm(std::numeric_limits<double>::quiet_NaN(), t)};
    fail("T0224", "only \"inf\", \"-inf\" and \"nan\" are written as text", x);
  }
  if (x->kind == ExprKind::number ||
      (x->kind == ExprKind::unary && x->items[0]->kind == ExprKind::number)) {  // in full precision
    const double v = x->kind == ExprKind::number ? x->number
                     : x->text == "-"            ? -x->items[0]->number
                                                 : x->items[0]->number;
    if (!t.is_float())
      fail("T0230", fmt::format("a number with a fraction stands where {} is needed", to_string(t)), x);
    return {PrimExpr::float_imm(v, t)};
  }
  Value v = value(x);
  if (v.weak && v.e.is<FloatImm>()) {
    if (!t.is_float())
      fail("T0230", fmt::format("a number with a fraction stands where {} is needed", to_string(t)), x);
    return {PrimExpr::float_imm(v.e.as<FloatImm>()->value, t)};
  }
  if (v.weak) return {retyped(v, t, x)};
  if (const auto* i = v.e.as<IntImm>(); i && t.is_bool() && i->dtype.is_bool()) return v;
  return {cast(t, v.e)};
}

Range Converter::range(const Ast* a) {
  if (is_call(a, "T.Range")) {
    Value lo = value(need(a, 0, "min")), n = value(need(a, 1, "extent"));
    unify(lo, n, a);
    return tir::range(lo.e, n.e);
  }
  if (a->kind == ExprKind::tuple || a->kind == ExprKind::list) {
    if (a->items.size() != 2) fail("T0234", "a domain is an extent or (begin, end)", a);
    Value lo = value(a->items[0]), hi = value(a->items[1]);
    unify(lo, hi, a);
    if (is_zero(lo.e)) return tir::range(lo.e, hi.e);
    return tir::range(lo.e, hi.e - lo.e);
  }
  const PrimExpr n = expr(a);
  if (!n.dtype().is_integer())
    fail("T0230", fmt::format("an extent has type {}, not an integer", to_string(n.dtype())), a);
  return tir::range(PrimExpr::int_imm(0, n.dtype()), n);
}

Range Converter::slice(const Ast* x, const PrimExpr& dimension) {
  if (!x->items[0] && !x->items[1]) return tir::range(PrimExpr::int_imm(0, dimension.dtype()), dimension);
  Value lo = x->items[0] ? value(x->items[0]) : Value{PrimExpr(0), true},
        hi = x->items[1] ? value(x->items[1]) : Value{dimension};
  unify(lo, hi, x);
  if (is_zero(lo.e)) return tir::range(lo.e, hi.e);
  // begin:begin + n says n exactly.
  const auto* sum = hi.e.as<Add>();
  if (sum && structural_equal(sum->a, lo.e)) return tir::range(lo.e, sum->b);
  return tir::range(lo.e, hi.e - lo.e);
}

BufferRegion Converter::region(const Ast* a) {
  if (is_buffer(a)) {
    const Buffer b = buffer_of(a);
    return make<BufferRegionNode>(
        b, b->shape.map([](const PrimExpr& e) { return tir::range(PrimExpr::int_imm(0, e.dtype()), e); }));
  }
  if (a->kind != ExprKind::subscript) fail("T0225", "a region such as A[0:16, i] was expected", a);
  const Buffer b = buffer_of(a->items[0]);
  Array<Range> out;
  const bool empty =
      a->items.size() == 2 && a->items[1]->kind == ExprKind::tuple && a->items[1]->items.empty();
  for (size_t i = 1; i < a->items.size() && !empty; ++i) {
    const Ast* x = a->items[i];
    if (x->kind != ExprKind::slice) {
      const PrimExpr e = expr(x);
      out.push_back(tir::range(e, PrimExpr::int_imm(1, e.dtype())));
      continue;
    }
    const PrimExpr dim = i - 1 < b->shape.size() ? b->shape[i - 1] : PrimExpr(0);
    out.push_back(slice(x, dim));
  }
  if (out.size() != b->shape.size())
    fail("T0233",
         fmt::format("buffer `{}` has {} dimensions and its region {}", a->items[0]->text, b->shape.size(),
                     out.size()),
         a);
  return make<BufferRegionNode>(b, out);
}

IterVar Converter::iter_var(const Ast* a) {
  only(a, 4, {"dom", "iter_type", "thread_tag", "dtype"});
  const Ast* dom = need(a, 1, "dom");
  const bool none = dom->kind == ExprKind::name && dom->text == "None";
  Range r = none ? Range() : range(dom);
  const Ast* d = named(a, "dtype");
  const Ast* name = need(a, 0, "var");
  VarRef v;
  const std::string text = name->kind == ExprKind::string ? name->text
                           : name->kind == ExprKind::name ? name->text
                                                          : "";
  if (text.empty()) fail("T0225", "a variable's name was expected", name);
  if (const ObjectRef* o = lookup(text); o && o->is<Var>())
    v = o->cast<Var>();
  else {
    v = var(text, d ? dtype_of(d) : r ? r->extent.dtype() : i64);
    bind(text, v);
  }
  static constexpr std::string_view kinds[] = {"spatial", "reduce", "scan", "opaque", "thread_index"};
  IterKind kind = IterKind::spatial;
  if (const Ast* k = argument(a, 2, "iter_type")) {
    const std::string given = text_of(k, "an iterator's kind");
    size_t i = 0;
    while (i < 5 && kinds[i] != given) ++i;
    if (i == 5)
      fail("T0224", fmt::format("`{}` is no kind of iterator", given), k,
           "spatial, reduce, scan, opaque or thread_index");
    kind = IterKind(i);
  }
  const Ast* tag = argument(a, 3, "thread_tag");
  return make<IterVarNode>(r, v, kind, tag ? text_of(tag, "a thread tag") : std::string());
}

PrimExpr Converter::reduce(const Ast* a) {
  Scope scope(*this);
  const Ast* comm = need(a, 0, "combiner");
  if (!is_call(comm, "T.comm_reducer"))
    fail("T0224", "a combiner is written T.comm_reducer(lambda x, y: …, [identity])", comm);
  const Array<PrimExpr> identity = exprs(need(comm, 1, "identity"));
  const Ast* f = need(comm, 0, "combine");
  const size_t n = identity.size();
  if (f->kind != ExprKind::lambda || f->params.size() != 2 * n)
    fail("T0224", "the combiner's function takes two values for each identity", f);
  Array<VarRef> lhs, rhs;
  Array<PrimExpr> result;
  {
    Scope inner(*this);
    for (size_t i = 0; i < 2 * n; ++i) {
      VarRef v = var(f->params[i], identity[i % n].dtype());
      bind(f->params[i], v);
      (i < n ? lhs : rhs).push_back(v);
    }
    result = exprs(f->items[0]);
  }
  if (result.size() != n)
    fail("T0224", "the combiner gives another number of values than it has identities", f);
  Array<IterVar> axis;
  for (const Ast* x : items_of(need(a, 1, "axis"))) axis.push_back(iter_var(x));
  const Array<PrimExpr> source = exprs(need(a, 2, "source"));
  if (source.size() != n) fail("T0224", "the reduction has another number of sources than identities", a);
  const Ast *condition = named(a, "condition"), *init = named(a, "init"), *index = named(a, "value_index");
  const int64_t i = index ? integer_of(index, "value_index") : 0;
  if (i < 0 || size_t(i) >= n) fail("T0224", "value_index is outside the combiner's values", a);
  return make<Reduce>(make<CommReducerNode>(lhs, rhs, result, identity), source,
                      init ? exprs(init) : Array<PrimExpr>(), axis, condition ? truth(condition) : PrimExpr(),
                      i);
}

int64_t Converter::lanes_of(const PrimExpr& e, const Ast* a) {
  auto scales = [](const PrimExpr& x) {
    const auto* c = x.as<tir::Call>();
    return c && c->op == "tir.vscale";
  };
  if (scales(e)) return -1;
  if (const auto* m = e.as<Mul>()) {
    const auto n = scales(m->a) ? as_int(m->b) : scales(m->b) ? as_int(m->a) : std::nullopt;
    if (n && *n >= 1 && *n <= 1024) return -*n;
    if (n) fail("T0224", "a scalable vector has between 1 and 1024 times vscale lanes", a);
  }
  const auto n = as_int(e);
  if (!n) fail("T0224", "the number of lanes is no constant, and no multiple of T.vscale()", a);
  if (*n < 2 || *n > 32767)
    fail("T0224", fmt::format("a vector has between 2 and 32767 lanes, not {}", *n), a);
  return *n;
}

Value Converter::call_member(const Ast* a, const std::string& function) {
  const auto it = members_.find(function);
  if (it == members_.end())
    fail("T0220", fmt::format("the module has no function `{}`", function), a->items[0],
         suggestion(function));
  const Ast* result = it->second->annotation;
  Array<PrimExpr> args{make<tir::StringImm>(function)};
  for (size_t i = 1; i < a->items.size(); ++i) args.push_back(expr(a->items[i]));
  return {tir::call(!result || is_none(result) ? DataType::void_() : dtype_of(result), "tir.call_prim_func",
                    args)};
}

Value Converter::call(const Ast* a) {
  const Ast* head = a->items[0];
  if (is_captured_call(a)) return value(captured_call(a, [&](const Ast* x) { return any(x); }));
  // Methods of buffers.
  if (head->kind == ExprKind::attribute && is_buffer(head->items[0])) {
    const Buffer b = buffer_of(head->items[0]);
    if (head->text != "vload") fail("T0222", fmt::format("buffers have no method `{}`", head->text), head);
    const Ast* p = named(a, "predicate");
    const Array<PrimExpr> at = exprs(need(a, 0, "indices"));
    if (at.size() != b->shape.size())
      fail("T0233",
           fmt::format("buffer `{}` has {} dimensions and is indexed with {}", head->items[0]->text,
                       b->shape.size(), at.size()),
           a);
    return {tir::load(b, at, p ? expr(p) : PrimExpr())};
  }
  const std::string p = path(head);
  if (p == "float") {
    const PrimExpr e = typed_call(a, f64).e;
    const auto* imm = e.as<FloatImm>();
    return imm ? Value{PrimExpr::float_imm(imm->value, f32), true, imm->value} : Value{e};
  }
  if (const std::string f = member_of_module(head); !f.empty()) return call_member(a, f);
  if (p == "min" || p == "max") fail("T0222", fmt::format("`{}` is written T.{}", p, p), head);
  if (!p.starts_with("T."))
    fail("T0222", fmt::format("`{}` is no function of tensor programs", p.empty() ? "this" : p), head,
         p.starts_with("R.") ? "functions R.… belong to graph functions" : "");
  const std::string f = p.substr(2);
  const size_t n = a->items.size() - 1;
  auto arg = [&](size_t i) { return a->items[i + 1]; };
  auto count = [&](size_t wanted) {
    if (n != wanted) fail("T0223", fmt::format("`{}` takes {} arguments and is given {}", p, wanted, n), a);
    for (const auto& [name, v] : a->named)
      if (name != "dtype" && name != "span")
        fail("T0223", fmt::format("`{}` has no argument `{}`", p, name), v);
  };
  if (DataType t; parse_dtype(f, &t) && f != "string") return typed_call(a, t);
  if (f == "min" || f == "max") {
    if (n < 2) count(2);
    Value x = value(arg(0));
    for (size_t i = 1; i < n; ++i) {
      Value y = value(arg(i));
      unify(x, y, a);
      x = {f == "min" ? PrimExpr(make<Min>(x.e, y.e)) : PrimExpr(make<Max>(x.e, y.e))};
    }
    return x;
  }
  if (f == "truncmod" || f == "truncdiv" || f == "floordiv" || f == "floormod" || f == "ceildiv" ||
      f == "Div" || f == "add" || f == "subtract" || f == "multiply") {
    count(2);
    Value x = value(arg(0)), y = value(arg(1));
    unify(x, y, a);
    if (f == "truncmod") return {make<Mod>(x.e, y.e)};
    if (f == "truncdiv" || f == "Div") return {make<Div>(x.e, y.e)};
    if (f == "floordiv") return {make<FloorDiv>(x.e, y.e)};
    if (f == "floormod") return {make<FloorMod>(x.e, y.e)};
    if (f == "add") return {make<Add>(x.e, y.e)};
    if (f == "subtract") return {make<Sub>(x.e, y.e)};
    if (f == "multiply") return {make<Mul>(x.e, y.e)};
    return {ceildiv(x.e, y.e)};
  }
  if (f == "And" || f == "Or") {
    count(2);
    const PrimExpr x = truth(arg(0)), y = truth(arg(1));
    return {f == "And" ? PrimExpr(make<And>(x, y)) : PrimExpr(make<Or>(x, y))};
  }
  if (f == "Not") {
    count(1);
    return {make<Not>(truth(arg(0)))};
  }
  if (f == "Select" || f == "if_then_else") {
    count(3);
    const PrimExpr c = truth(arg(0));
    Value x = value(arg(1)), y = value(arg(2));
    unify(x, y, a);
    if (f == "Select") return {make<Select>(c, x.e, y.e)};
    return {tir::call(x.e.dtype(), "tir.if_then_else", {c, x.e, y.e})};
  }
  if (f == "cast" || f == "Cast") {
    const bool type_first =
        n == 2 && arg(0)->kind == ExprKind::string;  // T.Cast("float32", x), as newer text has it
    const Ast* d = type_first ? arg(0) : need(a, 1, "dtype");
    const Ast* x = type_first ? arg(1) : need(a, 0, "value");
    auto node = make<Cast>(expr(x));
    node.edit()->dtype = dtype_of(d);
    return {node};
  }
  if (f == "Ramp" || f == "ramp") {
    Value base = value(need(a, 0, "base")), stride = value(need(a, 1, "stride"));
    unify(base, stride, a);
    const int64_t lanes = lanes_of(need(a, 2, "lanes"));
    if (base.e.dtype().is_vector() || !base.e.dtype().is_integer())
      fail("T0224", fmt::format("a ramp is made of integers, not of {}", to_string(base.e.dtype())), a);
    return {make<Ramp>(base.e, stride.e, lanes)};
  }
  if (f == "Broadcast" || f == "broadcast") {
    const PrimExpr x = expr(need(a, 0, "value"));
    const int64_t lanes = lanes_of(need(a, 1, "lanes"));
    if (x.dtype().is_vector() || x.dtype().is_handle())
      fail("T0224", fmt::format("a broadcast repeats a scalar, not {}", to_string(x.dtype())), a);
    return {make<Broadcast>(x, lanes)};
  }
  if (f == "Shuffle") {
    const Array<PrimExpr> vectors = exprs(need(a, 0, "vectors"));
    Array<int64_t> lanes;
    int64_t total = 0;
    for (const PrimExpr& v : vectors) {
      if (is_scalable(v.dtype()))
        fail("T0224", "a shuffle names lanes, and a scalable vector has no known number of them", a);
      total += v.dtype().lanes;
    }
    for (const Ast* i : items_of(need(a, 1, "indices"))) {
      lanes.push_back(integer_of(i, "a lane"));
      if (lanes.back() < 0 || lanes.back() >= total) fail("T0224", "there is no such lane", i);
    }
    if (vectors.empty() || lanes.empty()) fail("T0224", "a shuffle needs vectors and lanes", a);
    return {make<Shuffle>(vectors, lanes)};
  }
  if (f == "Let") {
    const Ast* where = named(a, "where");
    if (where) {  // T.Let(body, where={x: value})
      if (where->kind != ExprKind::dict || where->items.size() != 2)
        fail("T0224", "`where` is {variable: value}", where);
      Scope scope(*this);
      const PrimExpr v = expr(where->items[1]);
      VarRef x = var(where->items[0]->text, v.dtype());
      bind(x->name, x);
      return {make<Let>(x, v, expr(need(a, 0, "body")))};
    }
    count(3);
    if (arg(0)->kind != ExprKind::name) fail("T0225", "a variable's name was expected", arg(0));
    const PrimExpr v = expr(arg(1));
    Scope scope(*this);
    VarRef x = var(arg(0)->text, v.dtype());
    bind(x->name, x);
    return {make<Let>(x, v, expr(arg(2)))};
  }
  if (f == "Reduce") return {reduce(a)};
  if (f == "StringImm") return {make<tir::StringImm>(text_of(need(a, 0, "value"), "a string"))};
  if (f == "Var" || f == "var") {
    const std::string name = text_of(need(a, 0, "name"), "a variable's name");
    const DataType t = dtype_of(need(a, 1, "dtype"));
    const ObjectRef* o = lookup(name);
    if (!o) {
      VarRef v = var(name, t);
      auto& stack = names_[name];
      const int level = implicit_level_ >= 0 ? implicit_level_ : int(levels_.size()) - 1;
      stack.emplace_back(level, v);
      levels_[size_t(level)].push_back(name);
      return {v};
    }
    if (!o->is<Var>() || o->as<Var>()->dtype != t)
      fail("T0225", fmt::format("`{}` is defined already, as something else", name), a);
    return {as_prim(*o)};
  }
  if (f == "max_value" || f == "min_value" || f == "infinity") {
    count(1);
    const DataType t = dtype_of(arg(0));
    return {f == "max_value" ? max_value(t) : f == "min_value" ? min_value(t) : infinity(t)};
  }
  if (f == "call") {
    const std::string op = text_of(need(a, 0, "op"), "an intrinsic's name");
    const DataType t = dtype_of(need(a, n + 1, "dtype"));
    Array<PrimExpr> args;
    for (size_t i = 1; i < n; ++i) args.push_back(expr(arg(i)));
    return {tir::call(t, op, args)};
  }
  if (f == "call_extern" || f == "call_prim_func" || f == "call_packed" || f == "call_pure_extern") {
    if (f == "call_packed")
      fail("T0222", "tensor programs call no packed functions", a,
           "use T.call_extern, or call it from a graph function");
    if (n < 1) fail("T0223", fmt::format("`{}` takes a data type and a name first", p), a);
    const Ast* d = named(a, "dtype");
    size_t first = 0;
    DataType t = i32;
    if (d)
      t = dtype_of(d);
    else {
      t = dtype_of(arg(0));
      first = 1;
    }
    if (n <= first) fail("T0223", fmt::format("`{}` lacks the function's name", p), a);
    Array<PrimExpr> args{make<tir::StringImm>(text_of(arg(first), "a function's name"))};
    for (size_t i = first + 1; i < n; ++i) args.push_back(expr(arg(i)));
    return {tir::call(t, f == "call_prim_func" ? "tir.call_prim_func" : "tir.call_extern", args)};
  }
  if (f == "reinterpret") {
    const bool type_first = n == 2 && arg(0)->kind == ExprKind::string;
    const DataType t = dtype_of(type_first ? arg(0) : need(a, 1, "dtype"));
    return {tir::call(t, "tir.reinterpret", {expr(type_first ? arg(1) : arg(0))})};
  }
  if (f == "region" || f == "Range" || f == "IterVar") fail("T0221", fmt::format("`{}` is no value", p), a);
  const Intrinsic* known = find_intrinsic("tir." + f);
  if (!known) {
    std::string hint;
    for (const Intrinsic& i : all_intrinsics())
      if (i.name.substr(4, 4) == std::string_view(f).substr(0, 4))
        hint = "is `T." + std::string(i.name.substr(4)) + "` meant?";
    fail("T0222", fmt::format("there is no `{}`", p), head, hint);
  }
  if (known->arguments >= 0) count(size_t(known->arguments));
  const Ast* d = named(a, "dtype");
  std::vector<Value> values;
  for (size_t i = 0; i < n; ++i) values.push_back(value(arg(i)));
  if (known->arguments >= 2 && known->vector && f != "ldexp")
    for (size_t i = 1; i < n; ++i) {
      unify(values[0], values[i], a);
      for (size_t j = 1; j < i; ++j) unify(values[j], values[i], a);
    }
  Array<PrimExpr> args;
  for (const Value& v : values) args.push_back(v.e);
  DataType t = n ? args[0].dtype() : DataType();
  if (f == "isnan" || f == "isinf" || f == "isfinite")
    t = boolean.with_lanes(t.lanes);
  else if (f == "address_of")
    t = DataType::handle();
  else if (f == "vscale" && !d)
    t = i64;
  else if (f.starts_with("vector_reduce_"))
    t = t.element();
  else if (d)
    t = dtype_of(d);
  else if (!known->vector)
    t = {};
  return {tir::call(t, std::string(known->name), args)};
}

}  // namespace tenon::script
