// SPDX-License-Identifier: Apache-2.0
// Calls in tensor programs: nodes, intrinsics, functions of the module, reductions.
#include <fmt/format.h>

#include <limits>

#include "ir/intrinsic_table.h"
#include "ir/llvm_intrinsic.h"
#include "ir/parse_impl.h"
#include "ir/scalable.h"

namespace tenon::script {
using namespace tir;

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
    const std::string text_of_kind = text_of(k, "an iterator's kind");
    const std::string_view given = spelled_iterator_kind(text_of_kind);
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

CommReducer Converter::comm_reducer(const Ast* comm) {
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
  return make<CommReducerNode>(lhs, rhs, result, identity);
}

PrimExpr Converter::reduce(const Ast* a) {
  Scope scope(*this);
  const CommReducer combiner = comm_reducer(need(a, 0, "combiner"));
  const size_t n = combiner->identity.size();
  Array<IterVar> axis;
  for (const Ast* x : items_of(need(a, 1, "axis"))) axis.push_back(iter_var(x));
  const Array<PrimExpr> source = exprs(need(a, 2, "source"));
  if (source.size() != n) fail("T0224", "the reduction has another number of sources than identities", a);
  const Ast *condition = named(a, "condition"), *init = named(a, "init"), *index = named(a, "value_index");
  const int64_t i = index ? integer_of(index, "value_index") : 0;
  if (i < 0 || size_t(i) >= n) fail("T0224", "value_index is outside the combiner's values", a);
  return make<Reduce>(combiner, source, init ? exprs(init) : Array<PrimExpr>(), axis,
                      condition ? truth(condition) : PrimExpr(), i);
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

/// Pointer to a range of a buffer's elements, and how it is used.
static Value pointer_to(const Buffer& b, const PrimExpr& offset, const PrimExpr& extent, int64_t how) {
  const Array<PrimExpr> first = b->shape.map([](const PrimExpr&) { return PrimExpr(0); });
  return {
      tir::call(DataType::handle(), "tir.access_ptr",
                {tir::load(b, first), cast(i64, offset), cast(i64, extent), PrimExpr::int_imm(how, i32)})};
}

int64_t Converter::access_mask(const Ast* mask) {
  int64_t how = mask->kind == ExprKind::string ? 0 : integer_of(mask, "an access mask");
  if (mask->kind == ExprKind::string)
    for (const char c : mask->text) {
      if (c != 'r' && c != 'w') fail("T0224", "an access mask is made of `r` and `w`", mask);
      how |= c == 'r' ? 1 : 2;
    }
  if (how < 1 || how > 3) fail("T0224", "an access mask is 1 (read), 2 (written) or 3", mask);
  return how;
}

/// A.access_ptr("rw", offset=8, extent=4): without an extent, all that is behind the offset.
Value Converter::access_ptr(const Buffer& b, const Ast* a) {
  only(a, 5, {"access_mask", "ptr_type", "content_lanes", "offset", "extent"});
  const Ast *lanes = argument(a, 2, "content_lanes"), *from = argument(a, 3, "offset"),
            *most = argument(a, 4, "extent");
  const int64_t how = access_mask(need(a, 0, "access_mask"));
  if (lanes && integer_of(lanes, "the lanes of an element") != 1)
    fail("T0224", "elements of a pointer have the buffer's lanes", lanes);
  const PrimExpr offset = from ? cast(i64, expr_of(from, i64)) : PrimExpr(0);
  PrimExpr extent(1);
  if (most && !is_none(most)) {
    extent = expr(most);
  } else {
    for (const PrimExpr& d : b->shape) extent = extent * cast(i64, d);
    if (!b->strides.empty()) extent = cast(i64, b->strides[0]) * cast(i64, b->shape[0]);
    if (from) extent = extent - offset;
  }
  return pointer_to(b, offset, extent, how);
}

/// A call that no code generator here is for; its type is named, or stands first, or follows from its name.
Value Converter::foreign_call(const Intrinsic& known, const Ast* a) {
  // T.tvm_access_ptr(T.type_annotation("float32"), A.data, offset, extent, mask)
  if (const Ast* data = a->items.size() == 6 ? a->items[2] : nullptr;
      known.name == "tir.tvm_access_ptr" && data && data->kind == ExprKind::attribute &&
      data->text == "data" && is_buffer(data->items[0]) && buffer_of(data->items[0])->shape.size() >= 1)
    return pointer_to(buffer_of(data->items[0]), expr(a->items[3]), expr(a->items[4]),
                      access_mask(a->items[5]));
  for (const auto& [name, v] : a->named)
    if (name != "dtype" && name != "span")
      fail("T0223", fmt::format("`{}` has no argument `{}`", path(a->items[0]), name), v);
  const Ast* d = named(a, "dtype");
  size_t first = 1;
  if (DataType t; !d && a->items.size() > 1 && a->items[1]->kind == ExprKind::string &&
                  parse_dtype(a->items[1]->text, &t))
    d = a->items[first++];
  Array<PrimExpr> args;
  for (size_t i = first; i < a->items.size(); ++i) args.push_back(expr(a->items[i]));
  const DataType type = d ? dtype_of(d) : foreign_type(known.name, args);
  if (known.name.starts_with("tir.call_llvm_"))
    if (const PrimExpr same = same_as_llvm(type, args)) return {same};
  return {tir::call(type, std::string(known.name), args)};
}

/// x · y · 2^(shift - q), rounded half up: y is a fraction of q bits. Source: the definition of both calls in
/// the reference's documentation of quantised operators.
Value Converter::fixed_point_product(const std::string& f, const Ast* a) {
  const bool per_axis = f == "q_multiply_shift_per_axis";
  const size_t n = a->items.size() - 1;
  if (n != (per_axis ? 7u : 4u))
    fail("T0223", fmt::format("`T.{}` takes {} arguments and is given {}", f, per_axis ? 7 : 4, n), a);
  const PrimExpr x = expr_of(a->items[1], i32), y = expr_of(a->items[2], i32);
  if (!x.dtype().is_integer() || !y.dtype().is_integer())
    fail("T0230", fmt::format("`T.{}` multiplies integers", f), a);
  const DataType wide = i64.with_lanes(x.dtype().lanes), narrow = i32.with_lanes(x.dtype().lanes);
  auto shift = [&](const char* op, const PrimExpr& v, const PrimExpr& by) {
    return tir::call(wide, op, {v, cast(wide, by)});
  };
  const PrimExpr one = PrimExpr::int_imm(1, wide);
  PrimExpr left, right, shifts_left;
  if (per_axis) {
    const PrimExpr q = cast(wide, expr_of(a->items[5], i32));
    left = expr_of(a->items[3], i32);
    right = cast(wide, expr_of(a->items[4], i32)) + q;
    shifts_left = truth(a->items[6]);
  } else {
    const int64_t q = integer_of(a->items[3], "the bits of the fraction"),
                  s = integer_of(a->items[4], "the shift");
    if (q < 1 || q > 62 || s < -62 + q || s > 62)
      fail("T0224", fmt::format("a shift of {} bits behind a fraction of {}", s, q), a);
    left = PrimExpr::int_imm(std::max<int64_t>(s, 0), wide);
    right = PrimExpr::int_imm(q + std::max<int64_t>(-s, 0), wide);
    shifts_left = PrimExpr::int_imm(s > 0, boolean);
  }
  const PrimExpr moved =
      make<Select>(shifts_left, shift("tir.shift_left", cast(wide, x), left), cast(wide, x));
  const PrimExpr half = shift("tir.shift_left", one, cast(wide, right) - one);
  const PrimExpr sum = moved * cast(wide, y) + half;
  return {cast(narrow, shift("tir.shift_right", sum, right))};
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
    if (head->text == "access_ptr") return access_ptr(b, a);
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
  if (head->kind == ExprKind::attribute && head->text == "astype") {  // (A[i] + 1).astype("int32")
    only(a, 1, {"dtype"});
    const PrimExpr e = expr(head->items[0]);
    return {cast(dtype_of(need(a, 0, "dtype")).with_lanes(e.dtype().lanes), e)};
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
  refuse_dialect(p, head);
  const std::string f = spelled_function(p.substr(2));
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
  if (const std::string_view symbol = spelled_comparison(f); !symbol.empty()) {
    count(2);
    return compared(symbol, value(arg(0)), value(arg(1)), a);
  }
  if (f == "q_multiply_shift" || f == "q_multiply_shift_per_axis") return fixed_point_product(f, a);
  if (f == "IntImm" || f == "FloatImm") {
    count(2);
    Ast number = *a;
    number.items = {head, arg(1)};
    return typed_call(&number, dtype_of(arg(0)));
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
  if (f == "Let" || f == "let") {
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
  if (f == "call_intrin" || f == "Call") {  // (type, name, arguments…), (type, operator, [arguments])
    if (n < 2) fail("T0223", fmt::format("`{}` takes a data type and a name first", p), a);
    const Ast* op = is_call(arg(1), "tvm.ir.Op.get") ? need(arg(1), 0, "name") : arg(1);
    const std::string name = text_of(op, "an intrinsic's name");
    if (!find_intrinsic(name)) fail("T0222", fmt::format("there is no `{}`", name), op);
    Array<PrimExpr> args;
    if (f == "Call" && n > 2)
      args = exprs(arg(2));
    else
      for (size_t i = 2; i < n; ++i) args.push_back(expr(arg(i)));
    return {tir::call(dtype_of(arg(0)), name, args)};
  }
  if (f == "call_extern" || f == "call_prim_func" || f == "call_pure_extern") {
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
  if (f == "tvm_call_packed" && n > 0 && arg(0)->kind == ExprKind::string) return packed_call(a);
  if (f == "tensor_view") return view_call(a);
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
  if (is_foreign(*known) || f.starts_with("call_llvm_")) return foreign_call(*known, a);
  if (known->arguments >= 0) count(size_t(known->arguments));
  const Ast* d = named(a, "dtype");
  std::vector<Value> values;
  for (size_t i = 0; i < n; ++i) values.push_back(value(arg(i)));
  // Where the call says its own type, arguments have theirs: a byte and the words of a table.
  const bool one_type = type_rule(*known) != IntrinsicType::given && f != "ldexp";
  if (known->arguments >= 2 && known->vector && one_type)
    for (size_t i = 1; i < n; ++i) {
      unify(values[0], values[i], a);
      for (size_t j = 1; j < i; ++j) unify(values[j], values[i], a);
    }
  // Integers that were bare, or of loops over bare numbers, are those of the type that the call says.
  if (d && n && type_rule(*known) == IntrinsicType::first && values[0].e.dtype().is_integer()) {
    const DataType wanted = dtype_of(d);
    for (Value& v : values)
      if (wanted.is_integer() && v.e.dtype() != wanted && v.e.dtype().lanes == wanted.lanes)
        v = {v.weak ? retyped(v, wanted, a) : cast(wanted, v.e)};
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
