// SPDX-License-Identifier: Apache-2.0
// Type rules and builders of tensor-program nodes.
#include "ir/tir.h"

#include <fmt/format.h>

#include <cmath>

#include "base/define_type.h"
#include "ir/intrinsic.h"

namespace tenon::tir {
namespace {

[[noreturn]] void type_conflict(std::string_view what, DataType a, DataType b) {
  fail("T0301",
       fmt::format("operands of {} have different types: {} and {}", what, to_string(a), to_string(b)), {},
       "cast one of them");
}

bool is_imm(const PrimExpr& e) { return e.is<IntImm>() || e.is<FloatImm>(); }

PrimExpr imm_as(const PrimExpr& e, DataType t) {
  const double v = e.is<IntImm>() ? double(e.as<IntImm>()->value) : e.as<FloatImm>()->value;
  if (t.is_float()) return PrimExpr::float_imm(v, t);
  return e.is<IntImm>() ? PrimExpr::int_imm(e.as<IntImm>()->value, t) : PrimExpr::int_imm(int64_t(v), t);
}

/// A constant takes the other side's type, a scalar beside a vector is broadcast.
void unify(std::string_view what, PrimExpr& a, PrimExpr& b) {
  CHECK(a && b, "null operand");
  DataType ta = a.dtype().element(), tb = b.dtype().element();
  if (ta != tb) {
    const bool loses = [](const PrimExpr& imm, DataType t) { return imm.is<FloatImm>() && !t.is_float(); }(
                           is_imm(b) ? b : a, is_imm(b) ? ta : tb);
    if (is_imm(b) && !loses)
      b = imm_as(b, ta);
    else if (is_imm(a) && !loses)
      a = imm_as(a, tb);
    else
      type_conflict(what, a.dtype(), b.dtype());
  }
  if (a.dtype().lanes != b.dtype().lanes) {
    if (a.dtype().lanes == 1)
      a = make<Broadcast>(a, int64_t(b.dtype().lanes));
    else if (b.dtype().lanes == 1)
      b = make<Broadcast>(b, int64_t(a.dtype().lanes));
    else
      type_conflict(what, a.dtype(), b.dtype());
  }
}

template <class T, class F>
PrimExpr binary(std::string_view what, PrimExpr a, PrimExpr b, F fold) {
  unify(what, a, b);
  const IntImm *x = a.as<IntImm>(), *y = b.as<IntImm>();
  if (x && y && (a.dtype().is_int() || a.dtype().bits < 64))
    if (std::optional<int64_t> v = fold(x->value, y->value)) return PrimExpr::int_imm(*v, a.dtype());
  return make<T>(a, b);
}
template <class T, class F>
PrimExpr comparison(std::string_view what, PrimExpr a, PrimExpr b, F fold) {
  unify(what, a, b);
  const IntImm *x = a.as<IntImm>(), *y = b.as<IntImm>();
  if (x && y && (a.dtype().is_int() || a.dtype().bits < 64))
    return PrimExpr::int_imm(fold(x->value, y->value), boolean);
  return make<T>(a, b);
}
using Folded = std::optional<int64_t>;
int64_t u(uint64_t v) { return int64_t(v); }

}  // namespace

int64_t wrap(int64_t v, DataType t) {
  if (t.is_bool()) return v != 0;
  if (t.bits >= 64) return v;
  const uint64_t mask = (uint64_t(1) << t.bits) - 1;
  uint64_t u = uint64_t(v) & mask;
  if (t.is_int() && (u >> (t.bits - 1))) u |= ~mask;
  return int64_t(u);
}

PrimExpr PrimExpr::int_imm(int64_t v, DataType type) {
  if (type.is_vector()) return make<Broadcast>(int_imm(v, type.element()), int64_t(type.lanes));
  auto r = make<IntImm>(wrap(v, type));
  r.edit()->dtype = type;
  return r;
}
PrimExpr PrimExpr::float_imm(double v, DataType type) {
  if (type.is_vector()) return make<Broadcast>(float_imm(v, type.element()), int64_t(type.lanes));
  if (type == f32)
    v = float(v);
  else if (type == f16)
    v = f16_to_float(float_to_f16(float(v)));
  else if (type.code == TypeCode::BFloat)
    v = bf16_to_float(float_to_bf16(float(v)));
  else if (type.is_float8())
    v = fp8_to_float(float_to_fp8(float(v), type.code), type.code);
  auto r = make<FloatImm>(v);
  r.edit()->dtype = type;
  return r;
}

void finish_arithmetic(PrimExprNode* node, const PrimExpr& a, const PrimExpr& b) {
  if (a.dtype() != b.dtype()) type_conflict(type_of(node)->key, a.dtype(), b.dtype());
  node->dtype = a.dtype();
}
void finish_comparison(PrimExprNode* node, const PrimExpr& a, const PrimExpr& b) {
  if (a.dtype() != b.dtype()) type_conflict(type_of(node)->key, a.dtype(), b.dtype());
  node->dtype = boolean.with_lanes(a.dtype().lanes);
}
void finish_logic(PrimExprNode* node, const PrimExpr& a, const PrimExpr& b) {
  if (a.dtype() != b.dtype() || !a.dtype().is_bool()) type_conflict(type_of(node)->key, a.dtype(), b.dtype());
  node->dtype = a.dtype();
}
void Not::finish() {
  if (!a.dtype().is_bool()) type_conflict("not", a.dtype(), boolean);
  dtype = a.dtype();
}
void Select::finish() {
  if (true_value.dtype() != false_value.dtype())
    type_conflict("select", true_value.dtype(), false_value.dtype());
  if (!condition.dtype().is_bool() ||
      (condition.dtype().lanes != 1 && condition.dtype().lanes != true_value.dtype().lanes))
    type_conflict("select's condition", condition.dtype(), true_value.dtype());
  dtype = true_value.dtype();
}
void BufferLoad::finish() {
  int lanes = 1;
  for (const PrimExpr& i : indices) lanes = std::max<int>(lanes, i.dtype().lanes);
  dtype = buffer->dtype.with_lanes(lanes * buffer->dtype.lanes);
}
void ProducerLoad::finish() { dtype = producer->dtype; }
void Ramp::finish() {
  if (base.dtype() != stride.dtype() || base.dtype().is_vector())
    type_conflict("ramp", base.dtype(), stride.dtype());
  lanes = int16_t(lanes);  // as a type counts them: negative where vscale scales them
  dtype = base.dtype().with_lanes(int(lanes));
}
void Broadcast::finish() {
  CHECK(value.dtype().is_scalar(), "broadcast of a vector");
  lanes = int16_t(lanes);
  dtype = value.dtype().with_lanes(int(lanes));
}
void Shuffle::finish() { dtype = vectors[0].dtype().with_lanes(int(indices.size())); }

VarRef var(std::string name, DataType dtype) {
  auto v = make<Var>(std::move(name));
  v.edit()->dtype = dtype;
  return v;
}
Range range(PrimExpr min, PrimExpr extent) { return make<RangeNode>(std::move(min), std::move(extent)); }
IterVar iter_var(Range dom, std::string name, IterKind kind) {
  return make<IterVarNode>(dom, var(std::move(name), dom->extent.dtype()), kind, std::string());
}
Buffer buffer(std::string name, Array<PrimExpr> shape, DataType dtype, std::string scope) {
  return make<BufferNode>(var(name, DataType::handle()), dtype, std::move(shape), Array<PrimExpr>(),
                          PrimExpr(), name, std::move(scope), int64_t(64), Array<int64_t>());
}

static int64_t floor_div(int64_t a, int64_t b) {
  int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}
static bool divides(int64_t a, int64_t b) { return b != 0 && !(a == INT64_MIN && b == -1); }

PrimExpr operator+(const PrimExpr& a, const PrimExpr& b) {
  if (is_zero(b) && (!b || a.dtype().is_integer())) {
    PrimExpr x = a, y = b;
    unify("+", x, y);
    return x;
  }
  if (is_zero(a) && b.dtype().is_integer()) {
    PrimExpr x = a, y = b;
    unify("+", x, y);
    return y;
  }
  return binary<Add>("+", a, b, [](int64_t x, int64_t y) -> Folded { return u(uint64_t(x) + uint64_t(y)); });
}
PrimExpr operator-(const PrimExpr& a, const PrimExpr& b) {
  if (is_zero(b) && a.dtype().is_integer()) {
    PrimExpr x = a, y = b;
    unify("-", x, y);
    return x;
  }
  return binary<Sub>("-", a, b, [](int64_t x, int64_t y) -> Folded { return u(uint64_t(x) - uint64_t(y)); });
}
PrimExpr operator*(const PrimExpr& a, const PrimExpr& b) {
  if (is_one(b) && a.dtype().is_integer()) {
    PrimExpr x = a, y = b;
    unify("*", x, y);
    return x;
  }
  if (is_one(a) && b.dtype().is_integer()) {
    PrimExpr x = a, y = b;
    unify("*", x, y);
    return y;
  }
  return binary<Mul>("*", a, b, [](int64_t x, int64_t y) -> Folded { return u(uint64_t(x) * uint64_t(y)); });
}
PrimExpr operator-(const PrimExpr& a) {
  if (const auto* f = a.as<FloatImm>()) return PrimExpr::float_imm(-f->value, a.dtype());
  // 0 - x would turn +0 into +0 where IEEE negation gives -0.
  if (a.dtype().is_float()) return a * PrimExpr::float_imm(-1.0, a.dtype().element());
  return PrimExpr::int_imm(0, a.dtype()) - a;
}
PrimExpr div(const PrimExpr& a, const PrimExpr& b) {
  return binary<Div>("/", a, b, [](int64_t x, int64_t y) -> Folded {
    if (!divides(x, y)) return {};
    return x / y;
  });
}
PrimExpr truncmod(const PrimExpr& a, const PrimExpr& b) {
  return binary<Mod>("truncmod", a, b, [](int64_t x, int64_t y) -> Folded {
    if (!divides(x, y)) return {};
    return x % y;
  });
}
PrimExpr floordiv(const PrimExpr& a, const PrimExpr& b) {
  if (is_one(b) && a.dtype().is_integer()) {
    PrimExpr x = a, y = b;
    unify("//", x, y);
    return x;
  }
  return binary<FloorDiv>("//", a, b, [](int64_t x, int64_t y) -> Folded {
    if (!divides(x, y)) return {};
    return floor_div(x, y);
  });
}
PrimExpr floormod(const PrimExpr& a, const PrimExpr& b) {
  return binary<FloorMod>("%", a, b, [](int64_t x, int64_t y) -> Folded {
    if (!divides(x, y)) return {};
    return u(uint64_t(x) - uint64_t(floor_div(x, y)) * uint64_t(y));
  });
}
PrimExpr ceildiv(const PrimExpr& a, const PrimExpr& b) { return floordiv(a + (b - 1), b); }
PrimExpr min(const PrimExpr& a, const PrimExpr& b) {
  return binary<Min>("min", a, b, [](int64_t x, int64_t y) -> Folded { return std::min(x, y); });
}
PrimExpr max(const PrimExpr& a, const PrimExpr& b) {
  return binary<Max>("max", a, b, [](int64_t x, int64_t y) -> Folded { return std::max(x, y); });
}
PrimExpr eq(const PrimExpr& a, const PrimExpr& b) {
  return comparison<EQ>("==", a, b, [](int64_t x, int64_t y) { return x == y; });
}
PrimExpr ne(const PrimExpr& a, const PrimExpr& b) {
  return comparison<NE>("!=", a, b, [](int64_t x, int64_t y) { return x != y; });
}
PrimExpr lt(const PrimExpr& a, const PrimExpr& b) {
  return comparison<LT>("<", a, b, [](int64_t x, int64_t y) { return x < y; });
}
PrimExpr le(const PrimExpr& a, const PrimExpr& b) {
  return comparison<LE>("<=", a, b, [](int64_t x, int64_t y) { return x <= y; });
}
PrimExpr gt(const PrimExpr& a, const PrimExpr& b) {
  return comparison<GT>(">", a, b, [](int64_t x, int64_t y) { return x > y; });
}
PrimExpr ge(const PrimExpr& a, const PrimExpr& b) {
  return comparison<GE>(">=", a, b, [](int64_t x, int64_t y) { return x >= y; });
}

PrimExpr logical_and(const PrimExpr& a, const PrimExpr& b) {
  if (auto v = as_int(a)) return *v ? b : a;
  if (auto v = as_int(b)) return *v ? a : b;
  PrimExpr x = a, y = b;
  unify("and", x, y);
  return make<And>(x, y);
}
PrimExpr logical_or(const PrimExpr& a, const PrimExpr& b) {
  if (auto v = as_int(a)) return *v ? a : b;
  if (auto v = as_int(b)) return *v ? b : a;
  PrimExpr x = a, y = b;
  unify("or", x, y);
  return make<Or>(x, y);
}
PrimExpr logical_not(const PrimExpr& a) {
  if (auto v = as_int(a)) return PrimExpr::int_imm(!*v, boolean);
  return make<Not>(a);
}
PrimExpr select(const PrimExpr& condition, const PrimExpr& t, const PrimExpr& f) {
  PrimExpr x = t, y = f;
  unify("select", x, y);
  if (auto v = as_int(condition)) return *v ? x : y;
  return make<Select>(condition, x, y);
}
PrimExpr if_then_else(const PrimExpr& condition, const PrimExpr& t, const PrimExpr& f) {
  PrimExpr x = t, y = f;
  unify("if_then_else", x, y);
  if (auto v = as_int(condition)) return *v ? x : y;
  return call(x.dtype(), "tir.if_then_else", {condition, x, y});
}
PrimExpr cast(DataType dtype, const PrimExpr& value) {
  if (value.dtype() == dtype) return value;
  if (value.dtype().is_scalar() && dtype.is_vector())
    return make<Broadcast>(cast(dtype.element(), value), int64_t(dtype.lanes));
  if (const auto* i = value.as<IntImm>()) {
    if (dtype.is_float())
      return PrimExpr::float_imm(value.dtype().is_uint() ? double(uint64_t(i->value)) : double(i->value),
                                 dtype);
    if (dtype.is_integer() || dtype.is_bool()) return PrimExpr::int_imm(i->value, dtype);
  }
  if (const auto* f = value.as<FloatImm>(); f && dtype.is_float())
    return PrimExpr::float_imm(f->value, dtype);
  auto r = make<Cast>(value);
  r.edit()->dtype = dtype;
  return r;
}
PrimExpr call(DataType dtype, std::string op, Array<PrimExpr> args) {
  auto r = make<Call>(std::move(op), std::move(args));
  r.edit()->dtype = dtype;
  return r;
}
PrimExpr const_of(DataType dtype, double value) {
  return dtype.is_float() ? PrimExpr::float_imm(value, dtype) : PrimExpr::int_imm(int64_t(value), dtype);
}
PrimExpr load(const Buffer& b, Array<PrimExpr> indices, PrimExpr predicate) {
  return make<BufferLoad>(b, std::move(indices), std::move(predicate));
}
Stmt store(const Buffer& b, PrimExpr value, Array<PrimExpr> indices, PrimExpr predicate) {
  return make<BufferStore>(b, std::move(value), std::move(indices), std::move(predicate));
}
Stmt seq(Array<Stmt> stmts) {
  Array<Stmt> flat;
  for (const Stmt& s : stmts) {
    if (!s) continue;
    if (const auto* inner = s.as<SeqStmt>())
      for (const Stmt& t : inner->seq) flat.push_back(t);
    else
      flat.push_back(s);
  }
  return flat.size() == 1 ? flat[0] : Stmt(make<SeqStmt>(flat));
}
Stmt for_(VarRef v, PrimExpr min, PrimExpr extent, Stmt body, ForKind kind) {
  // Bounds have the type of the variable, as operands of one type have.
  min = cast(v->dtype, min), extent = cast(v->dtype, extent);
  return make<For>(std::move(v), std::move(min), std::move(extent), kind, std::move(body), std::string(),
                   AttrMap());
}
PrimExpr true_() { return PrimExpr::int_imm(1, boolean); }

std::optional<int64_t> as_int(const PrimExpr& e) {
  if (const auto* i = e.as<IntImm>()) return i->value;
  return std::nullopt;
}
bool is_const_int(const PrimExpr& e, int64_t value) {
  const auto* i = e.as<IntImm>();
  return i && i->value == value;
}

}  // namespace tenon::tir

template struct tenon::DefineTypes<tenon::tir::PrimExprNodes>;
template struct tenon::DefineTypes<tenon::tir::StmtNodes>;
template struct tenon::DefineTypes<tenon::tir::PartNodes>;
template struct tenon::DefineTypes<tenon::tir::DataProducerNode>;
