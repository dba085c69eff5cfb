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
/// The names that one name stands for, else the expression itself.
std::vector<const Ast*> Converter::spread(const Ast* a) const {
  return a->kind == ExprKind::name ? items_of(a) : std::vector<const Ast*>{a};
}
Array<PrimExpr> Converter::indices(const Ast* a, size_t from, const Array<PrimExpr>& shape) {
  Array<PrimExpr> out;
  for (size_t i = from; i < a->items.size(); ++i) {
    const Ast* x = a->items[i];
    if (x->kind == ExprKind::tuple && a->items.size() == from + 1) return exprs(x);  // A[()], A[(i, j)]
    if (x->kind != ExprKind::slice) {
      for (const Ast* one : spread(x)) out.push_back(expr(one));
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

/// Do two numbers of the text make one that int64 does not hold? Elsewhere they would wrap unseen.
static bool overflows(const std::string& op, const PrimExpr& a, const PrimExpr& b) {
  const auto *x = a.as<IntImm>(), *y = b.as<IntImm>();
  int64_t r = 0;
  if (!x || !y || a.dtype() != i64) return false;
  return (op == "+" && __builtin_add_overflow(x->value, y->value, &r)) ||
         (op == "-" && __builtin_sub_overflow(x->value, y->value, &r)) ||
         (op == "*" && __builtin_mul_overflow(x->value, y->value, &r));
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
  if (overflows(op, x.e, y.e)) fail("T0204", "what these numbers make does not fit in 64 bits", a);
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
  return compared(a->text, value(a->items[0]), value(a->items[1]), a);
}
Value Converter::compared(std::string_view op, Value x, Value y, const Ast* at) {
  unify(x, y, at);
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

// ---------------------------------------------------------------- ranges and regions
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
      for (const Ast* one : spread(x)) {
        const PrimExpr e = expr(one);
        out.push_back(tir::range(e, PrimExpr::int_imm(1, e.dtype())));
      }
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

}  // namespace tenon::script
