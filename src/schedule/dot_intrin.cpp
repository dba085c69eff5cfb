// SPDX-License-Identifier: Apache-2.0
// Dot products of narrow types as tensor programs: loops that say what a register of sums gains, and the one
// store that does it. What `tir.dot` becomes is the code generator's.
#include "schedule/dot_intrin.h"

#include <fmt/format.h>

#include "analysis/region.h"
#include "target/target_kind.h"

namespace tenon {

using namespace tir;

namespace {

constexpr DataType i8 = DataType::int_(8), i16 = DataType::int_(16), bf16 = DataType::bfloat16();

const std::vector<DotForm>& all_forms() {
  static const std::vector<DotForm> forms = {
      {i32, u8, i8, 4},   {i32, i8, u8, 4},     {i32, i8, i8, 4},           {i32, u8, u8, 4},
      {i32, u8, i8, 2},   {i32, i8, u8, 2},     {i32, i8, i8, 2},           {i32, u8, u8, 2},
      {i32, i16, i16, 2}, {f32, bf16, bf16, 2}, {f32, bf16, bf16, 2, true},
  };
  return forms;
}

Stmt whole(const Stmt& body) {
  auto root = make<Block>(Array<IterVar>(), Array<BufferRegion>(), Array<BufferRegion>(), std::string("root"),
                          body, Stmt(), Array<Buffer>(), Array<MatchBufferRegion>(), AttrMap());
  return make<BlockRealize>(Array<PrimExpr>(), true_(), root);
}

/// C[l] += A[q] · B[group · l + q], as loops or as one store; A[group · l + q] where each lane has its own.
PrimFunc program(const DotForm& f, int64_t lanes, bool description) {
  const Array<VarRef> params{var("a", DataType::handle()), var("b", DataType::handle()),
                             var("c", DataType::handle())};
  const int64_t shared = f.own ? f.group * lanes : f.group;
  Buffer a = buffer("A", {PrimExpr(shared)}, f.shared), b = buffer("B", {PrimExpr(f.group * lanes)}, f.along),
         c = buffer("C", {PrimExpr(lanes)}, f.sum);
  Stmt body;
  if (description) {
    VarRef l = var("l"), q = var("q");
    IterVar vl = iter_var(range(0, lanes), "vl"), vq = iter_var(range(0, f.group), "vq", IterKind::reduce);
    const PrimExpr own = vl->var * PrimExpr(f.group) + vq->var, at = f.own ? own : PrimExpr(vq->var);
    const PrimExpr product = cast(f.sum, load(a, {at})) * cast(f.sum, load(b, {own}));
    auto block = make<Block>(Array<IterVar>{vl, vq}, Array<BufferRegion>(), Array<BufferRegion>(),
                             std::string("dot"), store(c, load(c, {vl->var}) + product, {vl->var}), Stmt(),
                             Array<Buffer>(), Array<MatchBufferRegion>(), AttrMap());
    const AccessRegions access = detect_access_regions(block);
    block.edit()->reads = access.reads;
    block.edit()->writes = access.writes;
    body = for_(l, 0, lanes, for_(q, 0, f.group, make<BlockRealize>(Array<PrimExpr>{l, q}, true_(), block)));
  } else {
    for (Buffer* x : {&a, &b, &c}) {
      BufferNode* e = x->edit();
      e->strides = {PrimExpr(1)};
      e->elem_offset = var("offset");
    }
    auto first = [](int64_t n) { return PrimExpr(make<Ramp>(PrimExpr(0), PrimExpr(1), n)); };
    body = store(c,
                 call(f.sum.with_lanes(int(lanes)), "tir.dot",
                      {load(c, {first(lanes)}), load(a, {first(shared)}), load(b, {first(f.group * lanes)})}),
                 {first(lanes)});
  }
  Map<VarRef, Buffer> buffers;
  buffers.set(params[0], a), buffers.set(params[1], b), buffers.set(params[2], c);
  return make<PrimFuncNode>(params, buffers, whole(body), DataType::void_(), AttrMap());
}

}  // namespace

std::string DotForm::intrin(int64_t lanes) const {
  return fmt::format("dot{}.{}_{}{}.x{}", group, to_string(shared), to_string(along), own ? ".own" : "",
                     lanes);
}

std::optional<DotForm> dot_form(const Target& target, DataType shared, DataType along, DataType sum) {
  if (!selects_instructions(target)) return std::nullopt;
  const bool arm = target->triple.starts_with("aarch64");
  DotForm f{sum, shared, along, 1};
  auto byte = [](DataType t) { return t.is_integer() && t.bits == 8 && t.lanes == 1; };
  if (sum == i32 && byte(shared) && byte(along)) {
    if (arm) {
      if (!target->has(shared == along ? "asimddp" : "i8mm")) return std::nullopt;
      f.group = 4;
    } else if (target->has("avx512_vnni") || (target->has("avx_vnni") && target->vector_bits <= 256)) {
      f.group = 4;
    } else {
      if (!target->has("avx2")) return std::nullopt;
      f.group = 2;
    }
    return f;
  }
  if (sum == i32 && shared == i16 && along == i16 && !arm && target->has("avx2")) {
    f.group = 2;
    return f;
  }
  if (sum == f32 && shared == bf16 && along == bf16 && target->has(arm ? "bf16" : "avx512_bf16")) {
    f.group = 2;
    return f;
  }
  return std::nullopt;
}

std::vector<TensorIntrin> dot_intrins() {
  std::vector<TensorIntrin> out;
  for (const DotForm& f : all_forms())
    for (int64_t lanes : {4, 8, 16})
      out.push_back({f.intrin(lanes), program(f, lanes, true), program(f, lanes, false)});
  return out;
}

}  // namespace tenon
