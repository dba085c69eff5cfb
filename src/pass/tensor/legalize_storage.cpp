// SPDX-License-Identifier: Apache-2.0
// Values of narrow floats as the bits they are stored in (see legalize.h). A buffer keeps its declared type,
// so that callers see no change; all accesses go through a view of it as unsigned integers.
#include "base/dtype.h"
#include "ir/intrinsic.h"
#include "pass/tensor/float_format.h"
#include "pass/tensor/legalize.h"
#include "pass/tensor/math_expansion.h"

#include <cmath>

namespace tenon::tensor_detail {

using namespace tir;
using E = PrimExpr;

namespace {
E i(const E& like, int64_t v) { return lanes_of(i32, like, v); }
E band(const E& a, const E& b) { return intrin("tir.bitwise_and", a, b); }
E bor(const E& a, const E& b) { return intrin("tir.bitwise_or", a, b); }
E f(const E& like, double v) { return const_of(f32.with_lanes(like.dtype().lanes), v); }
/// int32 right shift without the sign.
E logical(const E& x, int by) { return band(shift_right(x, by), i(x, (int64_t(1) << (32 - by)) - 1)); }
E as_i32(const E& x) { return cast(i32.with_lanes(x.dtype().lanes), x); }
}  // namespace

E widen_bits(const E& b, DataType type) {
  const FloatFormat m = float_format(type);
  const int width = m.exponent + m.mantissa, shift = 23 - m.mantissa;
  const E n = as_i32(b);
  if (type.code == TypeCode::BFloat) return number(shift_left(n, 16));
  const E magnitude = band(n, i(n, (1 << width) - 1));
  const E sign = shift_left(band(n, i(n, int64_t(1) << width)), 31 - width);
  // As a float32 of the same bits the value is off by a power of two; multiplying is exact, subnormals too.
  const E scaled = mul(number(shift_left(magnitude, shift)), f(n, std::ldexp(1.0, 127 - m.bias)));
  E out = bor(bits(scaled), sign);
  if (m.infinity) {
    const int64_t infinity = ((int64_t(1) << m.exponent) - 1) << m.mantissa;
    const E special = bor(bor(shift_left(magnitude, shift), i(n, 0x7f800000)), sign);
    out = pick(less(magnitude, i(n, infinity)), out, special);
  } else if (m.uz) {
    out = pick(same(n, i(n, int64_t(1) << width)), i(n, 0x7fc00000), out);
  } else {
    out = pick(same(magnitude, i(n, (1 << width) - 1)), bor(i(n, 0x7fc00000), sign), out);
  }
  return call(f32.with_lanes(b.dtype().lanes), "tir.exact", {share(number(out))});
}

E narrow_bits(const E& x, DataType type) {
  const FloatFormat m = float_format(type);
  const int width = m.exponent + m.mantissa, shift = 23 - m.mantissa;
  const DataType out = DataType::uint(type.bits, x.dtype().lanes);
  const E n = bits(x), magnitude = band(n, i(n, 0x7fffffff));
  if (type.code == TypeCode::BFloat) {
    const E lsb = band(shift_right(n, 16), i(n, 1));
    const E rounded = shift_right(add(n, add(lsb, i(n, 0x7fff))), 16),
            nan = bor(shift_right(n, 16), i(n, 0x40));
    return cast(out, share(pick(less(i(n, 0x7f800000), magnitude), nan, rounded)));
  }
  E sign = band(logical(n, 31 - width), i(n, int64_t(1) << width));
  // Subnormal results: adding a power of two whose last bit is the smallest step lets the hardware round.
  const double magic = std::ldexp(1.0, 1 - m.bias - m.mantissa + 23);
  const E low = sub(bits(add(number(magnitude), f(n, magic))), bits(f(n, magic)));
  const E lsb = band(shift_right(magnitude, shift), i(n, 1));
  const int64_t rebias = (int64_t(m.bias - 127) << 23) + (1 << (shift - 1)) - 1;
  const E high = shift_right(add(add(magnitude, lsb), i(n, rebias)), shift);
  E code = pick(less(magnitude, i(n, int64_t(127 + 1 - m.bias) << 23)), low, high);
  const int64_t top = ((int64_t(1) << m.exponent) - 1) << m.mantissa, all = (int64_t(1) << width) - 1;
  // Overflow is infinity where there is one, else the NaN; `last` is the largest finite code.
  const int64_t last = m.infinity ? top - 1 : m.uz ? all : all - 1;
  const int64_t over = m.infinity ? top : m.uz ? all + 1 : all;
  const int64_t nan = m.infinity ? top | (int64_t(1) << (m.mantissa - 1)) : m.uz ? all + 1 : all;
  const E large = either(less(i(n, last), code), negate(less(magnitude, i(n, int64_t(127 + 64) << 23))));
  code = pick(large, i(n, over), code);
  code = pick(less(i(n, 0x7f800000), magnitude), i(n, nan), code);
  if (m.uz) sign = pick(either(same(code, i(n, 0)), same(code, i(n, nan))), i(n, 0), sign);
  return cast(out, share(bor(code, sign)));
}

namespace {

class StorageLegalizer : public Rewriter {
 public:
  StorageLegalizer(NarrowTypes narrow, NativeConversions native, const char* needs)
      : narrow_(narrow), native_(native), needs_(needs) {}

  Stmt function(const PrimFunc& func) {
    Stmt body = stmt(func->body);
    for (const VarRef& p : func->params)
      if (auto b = func->buffer_map.find(p)) body = viewed(*b, body);
    return body;
  }

  Stmt stmt(const Stmt& s) override {
    if (!s) return s;
    if (const auto* n = s.as<BufferStore>(); n && narrow_(n->buffer->dtype)) {
      Array<E> indices;
      for (const E& e : n->indices) indices.push_back(expr(e));
      return make<BufferStore>(view(n->buffer), expr(n->value), indices, expr(n->predicate));
    }
    if (const auto* n = s.as<LetStmt>(); n && narrow_(n->var->dtype.element())) {
      const E value = expr(n->value);
      const VarRef v = renamed(n->var);
      return make<LetStmt>(v, value, stmt(n->body));
    }
    const Stmt r = below(s);
    Buffer defined;
    if (const auto* n = r.as<Allocate>()) defined = n->buffer;
    if (const auto* n = r.as<AllocateConst>()) defined = n->buffer;
    if (const auto* n = r.as<DeclBuffer>()) defined = n->buffer;
    if (!defined || !narrow_(defined->dtype)) return r;
    if (const auto* n = r.as<Allocate>()) {
      const Stmt body = viewed(defined, n->body);
      return edited<Allocate>(r, [&](Allocate* m) { m->body = body; });
    }
    if (const auto* n = r.as<AllocateConst>()) {
      const Stmt body = viewed(defined, n->body);
      return edited<AllocateConst>(r, [&](AllocateConst* m) { m->body = body; });
    }
    const Stmt body = viewed(defined, r.as<DeclBuffer>()->body);
    return edited<DeclBuffer>(r, [&](DeclBuffer* m) { m->body = body; });
  }

  E expr(const E& e) override {
    if (!e) return e;
    if (auto it = done_.find(e.get()); it != done_.end()) return it->second.second;
    const E out = legal(e);
    done_.emplace(e.get(), std::pair{e, out});
    return out;
  }

 private:
  bool narrow(const E& e) const { return narrow_(e.dtype().element()); }
  static DataType stored(DataType t) { return DataType::uint(t.bits, t.lanes); }

  Buffer view(const Buffer& b) {
    auto& v = views_[b.get()];
    if (!v.second) {
      Buffer bits = b;
      bits.edit()->dtype = stored(b->dtype);
      bits.edit()->name = b->name + "_bits";
      v = {b, bits};
    }
    return v.second;
  }
  Stmt viewed(const Buffer& b, const Stmt& body) {
    auto it = views_.find(b.get());
    return it == views_.end() ? body : Stmt(make<DeclBuffer>(it->second.second, body));
  }
  VarRef renamed(const VarRef& v) {
    VarRef& r = vars_[v.get()];
    if (!r) r = var(v->name, stored(v->dtype));
    return r;
  }

  E legal(const E& e) {
    if (const auto* n = e.as<Cast>()) {
      const DataType from = n->value.dtype(), to = e.dtype();
      if (narrow(n->value)) {
        if (to.element() != f32) refuse_arithmetic(e);
        const E b = expr(n->value);
        if (native_.widen) return cast(to, E(call(from, "tir.reinterpret", {b})));
        return bound(b, [&](const E& v) { return widen_bits(v, from.element()); });
      }
      if (narrow(e)) {
        if (from.element() != f32) refuse_arithmetic(e);
        return bound(expr(n->value), [&](const E& v) -> E {
          if (!native_.narrow) return narrow_bits(v, to.element());
          const E fast = call(stored(to), "tir.reinterpret", {E(cast(to, v))});
          if (!native_.flushes) return fast;
          const E m = magnitude(v), subnormal = both(less(f(v, 0), m), less(m, f(v, 0x1p-126)));
          return call(stored(to), "tir.select_rare", {subnormal, narrow_bits(v, to.element()), fast});
        });
      }
      return below(e);
    }
    if (const auto* n = e.as<tir::Call>()) {
      if (n->op == "tir.reinterpret" && (narrow(e) || narrow(n->args[0]))) {
        const E v = expr(n->args[0]);
        const DataType t = narrow(e) ? stored(e.dtype()) : e.dtype();
        return v.dtype() == t ? v : call(t, "tir.reinterpret", {v});
      }
      static constexpr std::string_view moves[] = {
          "tir.if_then_else", "tir.select_rare", "tir.exact",    "tir.ordered_term",   "tir.likely",
          "tir.undef",        "tir.address_of",  "tir.prefetch", "tir.call_prim_func", "tir.call_packed"};
      bool uses = narrow(e);
      for (const E& a : n->args) uses = uses || narrow(a);
      if (!uses) return below(e);
      if (n->op == "tir.dot") {  // the instruction takes the type: the bits are seen as it there
        auto typed = [&](const E& a) { return call(a.dtype(), "tir.reinterpret", {expr(a)}); };
        return call(e.dtype(), n->op, {expr(n->args[0]), typed(n->args[1]), typed(n->args[2])});
      }
      if (std::find(std::begin(moves), std::end(moves), n->op) == std::end(moves)) refuse_arithmetic(e);
      Array<E> args;
      for (const E& a : n->args) args.push_back(expr(a));
      return call(narrow(e) ? stored(e.dtype()) : e.dtype(), n->op, args);
    }
    if (const auto* n = e.as<Let>(); n && narrow_(n->var->dtype.element())) {
      const E value = expr(n->value);
      const VarRef v = renamed(n->var);
      return make<Let>(v, value, expr(n->body));
    }
    if (const auto* n = e.as<BufferLoad>(); n && narrow(e)) {
      Array<E> indices;
      for (const E& at : n->indices) indices.push_back(expr(at));
      return make<BufferLoad>(view(n->buffer), indices, expr(n->predicate));
    }
    if (narrow(e)) {
      if (const auto* n = e.as<Var>()) {
        auto it = vars_.find(n);
        return it == vars_.end() ? call(stored(e.dtype()), "tir.reinterpret", {e}) : E(it->second);
      }
      if (const auto* n = e.as<FloatImm>()) {
        NDArray a = NDArray::empty({}, n->dtype);
        a.set_element(0, n->value);
        const int64_t v = n->dtype.bits == 16 ? *a.as_ptr<uint16_t>() : *a.as_ptr<uint8_t>();
        return E::int_imm(v, stored(n->dtype));
      }
      if (!e.is<Broadcast>() && !e.is<Shuffle>() && !e.is<Select>() && !e.is<Let>()) refuse_arithmetic(e);
      return below(e);  // the type follows from the fields
    }
    if (e.is<EQ>() || e.is<NE>() || e.is<LT>() || e.is<LE>() || e.is<GT>() || e.is<GE>())
      for (const ObjectRef& c : children(e))
        if (narrow(E(c.cast<PrimExprNode>()))) refuse_arithmetic(e);
    return below(e);
  }
  /// The value under a name, as its conversion uses it several times.
  template <class F>
  static E bound(const E& value, F f) {
    if (value.is<Var>()) return f(value);
    const VarRef v = var("v", value.dtype());
    const E body = f(v);
    return make<Let>(v, value, body);
  }
  [[noreturn]] void refuse_arithmetic(const E& e) const {
    refuse("T0818", fmt::format("an operation on {} remains ({})", to_string(e.dtype()), type_key_of(e)), {},
           fmt::format("run the pass {} before", needs_));
  }

  NarrowTypes narrow_;
  NativeConversions native_;
  const char* needs_;
  std::unordered_map<const Object*, std::pair<Buffer, Buffer>> views_;
  std::unordered_map<const Object*, VarRef> vars_;
  std::unordered_map<const Object*, std::pair<E, E>> done_;
};

}  // namespace

IRModule legalize_storage(IRModule module, NarrowTypes narrow, const PassContext& context,
                          FunctionRef<std::optional<NativeConversions>(const Target& target)> native,
                          const char* needs) {
  return module.map_prim([&](const std::string&, const PrimFunc& func) -> ObjectRef {
    if (!has_narrow(func, narrow)) return {};
    const auto conversions = native(program_target(*func, context.target.cast<TargetNode>()));
    if (!conversions) return {};
    const Stmt body = StorageLegalizer(narrow, *conversions, needs).function(func);
    if (body.same_as(func->body)) return {};
    PrimFunc out = func;
    out.edit()->body = body;
    return out;
  });
}

}  // namespace tenon::tensor_detail
