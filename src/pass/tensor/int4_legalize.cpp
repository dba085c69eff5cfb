// SPDX-License-Identifier: Apache-2.0
// int4_legalize
//   before: B[i] = A[i] + T.int4(1)                                   (int4, two elements to a byte)
//   after:  A_bytes = T.decl_buffer((4,), "uint8", data=A.data)
//           B_bytes[i // 2] = other half of the byte | (sign-extended A_bytes[i // 2] >> i % 2 * 4) + 1 …
// Integers of 4 and 2 bits are computed in 8 and wrapped after each operation; in memory they stay packed,
// the first element in the low bits. Vectors that begin and end with whole bytes are taken apart and put
// together by shuffles; a store of part of a byte keeps the rest, inside a parallel loop by atomic
// operations, since another thread may own it. Needs: flat buffers, flat loops; kernels too. Keeps: every
// value, and the types that callers see.
#include <set>

#include "ir/find_node.h"
#include "ir/intrinsic.h"
#include "pass/tensor/legalize.h"
#include "pass/tensor/math_expansion.h"

namespace tenon {

using namespace tir;

namespace {

using E = PrimExpr;

bool is_packed(DataType t) { return t.is_integer() && !t.is_bool() && t.bits < 8 && t.bits > 0; }
/// What holds such a value in a register: sign- or zero-extended.
DataType held(DataType t) { return t.is_uint() ? DataType::uint(8, t.lanes) : DataType::int_(8, t.lanes); }
E number_of(const E& like, int64_t v) { return const_of(like.dtype(), double(v)); }
E shifted(const char* op, const E& a, const E& by) { return call(a.dtype(), op, {a, by}); }
E shifted(const char* op, const E& a, int64_t by) { return shifted(op, a, number_of(a, by)); }
E masked(const E& a, int64_t bits) {
  return call(a.dtype(), "tir.bitwise_and", {a, number_of(a, (int64_t(1) << bits) - 1)});
}
/// The low bits of `v` (of held(t)) as a value of t.
E wrapped(const E& v, DataType t) {
  if (t.is_uint()) return masked(v, t.bits);
  return shifted("tir.shift_right", shifted("tir.shift_left", v, 8 - t.bits), 8 - t.bits);
}
E lane(const E& v, int64_t k) {
  return v.dtype().is_vector() ? E(make<Shuffle>(Array<E>{v}, Array<int64_t>{k})) : v;
}

class Unpack : public tensor_detail::Rewriter {
 public:
  Stmt function(const PrimFunc& f) {
    Stmt body = stmt(f->body);
    for (const VarRef& p : f->params)
      if (auto b = f->buffer_map.find(p); b && views_.count((*b).get()))
        body = make<DeclBuffer>(view(*b), body);
    return body;
  }

  Stmt stmt(const Stmt& s) override {
    if (!s) return s;
    if (const auto* n = s.as<BufferStore>(); n && is_packed(n->buffer->dtype.element())) return store_of(*n);
    if (const auto* n = s.as<LetStmt>(); n && is_packed(n->var->dtype.element())) {
      const E value = expr(n->value);
      const VarRef v = renamed(n->var);
      return make<LetStmt>(v, value, stmt(n->body));
    }
    if (const auto* n = s.as<For>(); n && n->kind == ForKind::parallel) {
      const auto outer = own_;
      own_.clear();
      ++parallel_;
      const Stmt r = below(s);
      --parallel_;
      own_ = outer;
      return r;
    }
    if (const auto* n = s.as<Allocate>()) {
      own_.insert(n->buffer->data.get());
      if (!is_packed(n->buffer->dtype.element())) return below(s);
      return make<Allocate>(view(n->buffer), stmt(n->body), n->annotations);
    }
    if (const auto* n = s.as<DeclBuffer>(); n && is_packed(n->buffer->dtype.element()))
      return make<DeclBuffer>(view(n->buffer), stmt(n->body));
    if (const auto* n = s.as<AllocateConst>(); n && is_packed(n->buffer->dtype.element())) {
      const auto bytes = int64_t(n->data.byte_size());
      return make<AllocateConst>(
          view(n->buffer), NDArray::from_bytes({bytes}, DataType::uint(8), n->data.data(), size_t(bytes)),
          stmt(n->body));
    }
    return below(s);
  }

  E expr(const E& e) override {
    if (!e) return e;
    if (auto it = done_.find(e.get()); it != done_.end()) return it->second.second;
    const E out = legal(e);
    done_.emplace(e.get(), std::pair{e, out});
    return out;
  }

 private:
  static bool packed(const E& e) { return is_packed(e.dtype().element()); }

  Buffer view(const Buffer& b) {
    auto& v = views_[b.get()];
    if (v.second) return v.second;
    if (b->shape.size() > 1 || !b->strides.empty() || b->elem_offset)
      fail("T0818", fmt::format("buffer '{}' of {} is not flat", b->name, to_string(b->dtype)), {},
           "run the pass flatten_buffer before");
    const int64_t per = 8 / b->dtype.bits;
    Buffer bytes = b;
    BufferNode* n = bytes.edit();
    n->dtype = DataType::uint(8);
    n->name = b->name + "_bytes";
    if (!b->shape.empty()) {
      const E size = cast(i64, b->shape[0]);
      n->shape = {simplify(floordiv(size + tensor_detail::imm(per - 1), tensor_detail::imm(per)))};
    }
    v = {b, bytes};
    return bytes;
  }
  VarRef renamed(const VarRef& v) {
    VarRef& r = vars_[v.get()];
    if (!r) r = var(v->name, held(v->dtype));
    return r;
  }
  static E index_of(const Array<E>& indices) {
    if (indices.empty()) return tensor_detail::imm(0);
    const E& at = indices[0];
    return at.dtype().element() == i64 ? at : cast(i64.with_lanes(at.dtype().lanes), at);
  }
  /// The first byte of a vector of whole bytes, or null.
  static E whole_bytes(const E& index, int64_t lanes, int64_t per) {
    const auto* r = index.as<Ramp>();
    if (!r || !is_one(r->stride) || lanes % per != 0) return {};
    if (!is_zero(simplify(floormod(r->base, tensor_detail::imm(per))))) return {};
    return simplify(floordiv(r->base, tensor_detail::imm(per)));
  }
  static E byte_of(const E& index, int64_t per) {
    return shifted("tir.shift_right", index, per == 2 ? 1 : 2);
  }
  /// How far up in its byte an element lies, as uint8.
  static E place_of(const E& index, int64_t per, int64_t bits) {
    const E k = call(index.dtype(), "tir.bitwise_and", {index, number_of(index, per - 1)});
    return shifted("tir.shift_left", cast(DataType::uint(8, index.dtype().lanes), k), bits == 4 ? 2 : 1);
  }

  E load_of(const BufferLoad& n) {
    const DataType t = n.dtype;
    const int64_t per = 8 / t.bits, lanes = t.lanes;
    const Buffer bytes = view(n.buffer);
    const E index = index_of(n.indices.map([&](const E& i) { return expr(i); })),
            predicate = expr(n.predicate);
    E v;
    if (const E first = predicate ? E() : whole_bytes(index, lanes, per)) {
      const int64_t count = lanes / per;
      const E all =
          count == 1 ? load(bytes, {first}) : load(bytes, {make<Ramp>(first, tensor_detail::imm(1), count)});
      const VarRef b = var("b", all.dtype());
      Array<E> parts;
      for (int64_t k = 0; k < per; ++k)
        parts.push_back(masked(shifted("tir.shift_right", b, k * t.bits), t.bits));
      Array<int64_t> order;
      for (int64_t l = 0; l < lanes; ++l) order.push_back(l % per * count + l / per);
      v = make<Let>(b, all, E(make<Shuffle>(parts, order)));
    } else {
      const VarRef at = var("at", index.dtype());
      v = make<Let>(
          at, index,
          shifted("tir.shift_right", load(bytes, {byte_of(at, per)}, predicate), place_of(at, per, t.bits)));
    }
    return t.is_uint() ? masked(v, t.bits) : wrapped(cast(held(t), v), t);
  }

  Stmt store_of(const BufferStore& n) {
    const int64_t bits = n.buffer->dtype.bits, per = 8 / bits;
    const Buffer bytes = view(n.buffer);
    const E index = index_of(n.indices.map([&](const E& i) { return expr(i); })),
            predicate = expr(n.predicate);
    const int64_t lanes = std::max<int64_t>(n.value.dtype().lanes, index.dtype().lanes);
    const E value = masked(cast(DataType::uint(8, n.value.dtype().lanes), expr(n.value)), bits);
    if (lanes == 1) return place(bytes, index, value, predicate, per, bits);
    const VarRef v = var("v", value.dtype());
    const E first = predicate ? E() : whole_bytes(index, lanes, per);
    if (first && value.dtype().is_vector()) {
      const int64_t count = lanes / per;
      E all;
      for (int64_t k = 0; k < per; ++k) {
        Array<int64_t> order;
        for (int64_t b = 0; b < count; ++b) order.push_back(b * per + k);
        const E part = shifted("tir.shift_left", E(make<Shuffle>(Array<E>{E(v)}, order)), k * bits);
        all = all ? call(part.dtype(), "tir.bitwise_or", {all, part}) : part;
      }
      const E at = count == 1 ? first : E(make<Ramp>(first, tensor_detail::imm(1), count));
      return make<LetStmt>(v, value, store(bytes, all, {at}));
    }
    // Lane by lane, in order: all are computed before any is written.
    Array<Stmt> steps;
    const VarRef at = var("at", index.dtype());
    const VarRef on = predicate ? var("on", predicate.dtype()) : VarRef();
    for (int64_t l = 0; l < lanes; ++l)
      steps.push_back(place(bytes, lane(at, l), lane(v, l), on ? lane(on, l) : E(), per, bits));
    Stmt out = make<LetStmt>(at, index, make<LetStmt>(v, value, seq(steps)));
    return on ? Stmt(make<LetStmt>(on, predicate, out)) : out;
  }
  /// One element into its byte.
  Stmt place(const Buffer& bytes, const E& index, const E& value, const E& predicate, int64_t per,
             int64_t bits) const {
    const VarRef at = var("at", index.dtype());
    const DataType byte = DataType::uint(8);
    const E where = byte_of(at, per), up = place_of(at, per, bits);
    const E others = call(byte, "tir.bitwise_not",
                          {shifted("tir.shift_left", E::int_imm((int64_t(1) << bits) - 1, byte), up)}),
            mine = shifted("tir.shift_left", value, up);
    Stmt r;
    if (parallel_ > 0 && !own_.count(bytes->data.get())) {
      const E p = call(DataType::handle(), "tir.address_of", {load(bytes, {where})});
      r = seq({make<tir::Evaluate>(call(byte, "tir.atomic_and", {p, others})),
               make<tir::Evaluate>(call(byte, "tir.atomic_or", {p, mine}))});
    } else {
      const E kept = call(byte, "tir.bitwise_and", {load(bytes, {where}), others});
      r = store(bytes, call(byte, "tir.bitwise_or", {kept, mine}), {where});
    }
    r = make<LetStmt>(at, index, r);
    return predicate && !is_one(predicate) ? Stmt(make<IfThenElse>(predicate, r, Stmt())) : r;
  }

  E legal(const E& e) {
    const DataType t = e.dtype();
    if (const auto* n = e.as<BufferLoad>(); n && packed(e)) return load_of(*n);
    if (const auto* n = e.as<tir::Var>()) {
      auto it = vars_.find(n);
      if (it != vars_.end()) return it->second;
      return packed(e) ? cast(held(t), e) : e;  // a scalar parameter
    }
    if (const auto* n = e.as<IntImm>()) return packed(e) ? E::int_imm(n->value, held(t)) : e;
    if (const auto* n = e.as<Let>(); n && is_packed(n->var->dtype.element())) {
      const E value = expr(n->value);
      const VarRef v = renamed(n->var);
      return make<Let>(v, value, expr(n->body));
    }
    if (const auto* n = e.as<Cast>()) {
      const E v = expr(n->value);
      if (!packed(e)) return packed(n->value) ? tir::cast(t, v) : below(e);
      const E wide = cast(held(t), v);
      if (!n->value.dtype().is_float()) return wrapped(wide, t);
      const E high =
          tir::min(wide, number_of(wide, t.is_uint() ? (1 << t.bits) - 1 : (1 << (t.bits - 1)) - 1));
      return t.is_uint() ? high : tir::max(high, number_of(high, -(1 << (t.bits - 1))));
    }
    if (const auto* n = e.as<tir::Call>()) return call_of(e, *n);
    if (!packed(e)) return below(e);
    const E r = below(e);
    const bool leaves =
        e.is<Add>() || e.is<Sub>() || e.is<Mul>() || e.is<Div>() || e.is<FloorDiv>() || e.is<Ramp>();
    return leaves ? wrapped(r, t) : r;
  }

  E call_of(const E& e, const tir::Call& n) {
    bool any = packed(e);
    for (const E& a : n.args) any = any || packed(a);
    if (!any) return below(e);
    if (n.op == "tir.address_of" || n.op.starts_with("tir.atomic_"))
      tensor_detail::refuse("T0818",
                            fmt::format("`{}` of {}: it is a part of a byte", n.op,
                                        to_string(n.args[n.op == "tir.address_of" ? 0 : 1].dtype())),
                            {}, "use a type of at least 8 bits");
    Array<E> args;
    for (const E& a : n.args) args.push_back(expr(a));
    const DataType t = n.dtype, to = packed(e) ? held(t) : t;
    const std::string_view op = std::string_view(n.op).substr(4);
    const DataType from = n.args[0].dtype();
    if (op == "reinterpret")
      return packed(e) ? wrapped(cast(to, args[0]), t) : masked(cast(t, args[0]), from.bits);
    if (op == "popcount" || op == "clz") {
      const DataType byte = DataType::uint(8, from.lanes);
      E count = call(byte, n.op, {masked(cast(byte, args[0]), from.bits)});
      if (op == "clz") count = count - number_of(count, 8 - from.bits);
      return packed(e) ? wrapped(cast(to, count), t) : cast(t, count);
    }
    const E r = call(to, n.op, args);
    const bool leaves =
        op == "shift_left" || op == "bitwise_not" || op == "abs" || op == "pow" || op == "vector_reduce_add";
    return packed(e) && leaves ? wrapped(r, t) : r;
  }

  std::unordered_map<const Object*, std::pair<Buffer, Buffer>> views_;
  std::unordered_map<const Object*, VarRef> vars_;
  std::unordered_map<const Object*, std::pair<E, E>> done_;
  std::set<const tir::Var*> own_;  ///< memory that is allocated inside the innermost parallel loop
  int parallel_ = 0;
};

bool has_packed(const PrimFunc& f) {
  return any_node(f->body, [&](const ObjectRef& n) {
    const auto* e = n.as<PrimExprNode>();
    const auto* b = n.as<BufferNode>();
    return (e && is_packed(e->dtype.element())) || (b && is_packed(b->dtype.element()));
  });
}

}  // namespace

static IRModule int4_legalize(IRModule module, PassContext&) {
  return module.map_prim([&](const std::string&, const PrimFunc& f) -> ObjectRef {
    if (!has_packed(f)) return {};
    const Stmt body = Unpack().function(f);
    if (body.same_as(f->body)) return {};
    PrimFunc out = f;
    out.edit()->body = body;
    return out;
  });
}

const Pass& int4_legalize_pass = register_pass({
    .name = "int4_legalize",
    .run = int4_legalize,
    .level = 0,
    .summary = "integers of 4 and 2 bits are parts of bytes",
    .needs = {"flatten_buffer"},
});

}  // namespace tenon
