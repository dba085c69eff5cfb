// SPDX-License-Identifier: Apache-2.0
// Loops over one matrix register (annotation kMatrixLoops): what they say is one instruction. Their meaning
// is that of the loops, so that whoever does not know the annotation runs them as they stand.
//
//   for r, l:     C[r, l] = 0                                                         tilezero
//   for r, l:     C[r, l] = first[l]                                                  tileloadd
//   for r, l, k:  C[r, l] = C[r, l] + i32(A[r, k]) * i32(B[k // 4, 4 * l + k % 4])    tileloadd, tdpbusd, …
//   for r, l:     M[r, l] = C[r, l]                                                   tilestored
//
// C is a buffer of scope kMatrixScope and has no memory: each register of it is known by where it begins.
// Operands stay in registers until another statement than such loops comes.
#include <fmt/format.h>
#include <llvm/IR/IntrinsicsX86.h>

#include "analysis/region.h"
#include "analysis/simplify.h"
#include "codegen/llvm/emitter.h"
#include "ir/structural.h"
#include "target/matrix_registers.h"

namespace tenon::codegen {

using namespace tir;
using V = llvm::Value*;

namespace {

[[noreturn]] void unknown(const std::string& kernel, const std::string& why) {
  fail("T0801", fmt::format("code generation cannot put loops in matrix registers: {}", why),
       "kernel " + kernel, fmt::format("without the annotation \"{}\" they stay loops", kMatrixLoops));
}

/// The loops of an annotated nest, outermost first, and its one store with names put in.
struct Nest {
  std::vector<const For*> loops;
  const BufferStore* store = nullptr;
  VarMap names;
};
std::optional<Nest> nest_of(const For& n) {
  if (!is_zero(n.min) || !as_int(n.extent)) return std::nullopt;
  Nest out{.loops = {&n}};
  for (Stmt s = n.body; s;) {
    Stmt inside;
    if (const auto* f = s.as<For>(); f && is_zero(f->min) && as_int(f->extent)) {
      out.loops.push_back(f), inside = f->body;
    } else if (const auto* l = s.as<LetStmt>()) {
      out.names[l->var.get()] = substitute(l->value, out.names), inside = l->body;
    } else if (const auto* d = s.as<DeclBuffer>()) {
      inside = d->body;
    } else {
      out.store = s.as<BufferStore>();
    }
    s = inside;
  }
  if (!out.store || out.store->predicate || out.loops.size() < 2 || out.loops.size() > 3) return std::nullopt;
  return out;
}

/// An access of the loops: where it begins, and bytes from row to row.
struct MatrixAccess {
  PrimExpr begin;
  int64_t row_bytes = 0;
};

bool uses(const PrimExpr& e, const VarRef& v) {
  bool found = false;
  pre_order(e, [&](const ObjectRef& n) {
    found = found || n.same_as(v);
    return !found && !n.is<BufferNode>();
  });
  return found;
}

bool in_registers(const Buffer& b) { return b->scope == kMatrixScope; }

bool zero(const PrimExpr& e) {
  const auto* f = e.as<FloatImm>();
  return f ? f->value == 0 : is_zero(e);
}

/// A first value as it lies in memory: `x[l]`, and `0 + x[l]`, which begins at 0 where x has a -0.
const BufferLoad* first_value(const PrimExpr& e) {
  const auto* sum = e.as<Add>();
  const auto* l = (sum && zero(sum->a) ? sum->b : e).as<BufferLoad>();
  return l && !in_registers(l->buffer) && !l->predicate ? l : nullptr;
}

/// Quotients and remainders of tiles that lie inside panels: (16 * i + l) // 48 is 16 * i // 48 for 16 lanes.
PrimExpr inside_panels(const PrimExpr& e, const std::vector<VarRef>& loops, Analyzer& a) {
  // The numerator as what stands still and what the loops add, when both stay inside one panel.
  auto apart = [&](const PrimExpr& numerator,
                   const PrimExpr& panel) -> std::optional<std::pair<PrimExpr, PrimExpr>> {
    const auto width = as_int(panel);
    const auto form = width ? affine_form(numerator, loops, a) : std::nullopt;
    if (!form || *width <= 0 || form->terms.empty()) return std::nullopt;
    const PrimExpr added = a.simplify(numerator - form->base);
    for (int64_t tile = 2; tile <= *width; ++tile)
      if (*width % tile == 0 && a.can_prove(lt(added, PrimExpr(tile))))
        return a.can_prove(ge(added, PrimExpr(0))) &&
                       is_zero(a.simplify(floormod(form->base, PrimExpr(tile))))
                   ? std::optional(std::pair(form->base, added))
                   : std::nullopt;
    return std::nullopt;
  };
  return rewrite_any(
             e,
             [&](const ObjectRef& n) -> ObjectRef {
               if (const auto* d = n.as<FloorDiv>())
                 if (const auto parts = apart(d->a, d->b)) return floordiv(parts->first, d->b);
               if (const auto* d = n.as<FloorMod>())
                 if (const auto parts = apart(d->a, d->b))
                   return floormod(parts->first, d->b) + parts->second;
               return {};
             },
             [](const ObjectRef& n) { return n.is<BufferNode>(); })
      .cast<PrimExprNode>();
}

/// The loads of a value, those of the registers left out.
std::vector<const BufferLoad*> operands_of(const PrimExpr& value) {
  std::vector<const BufferLoad*> out;
  pre_order(value, [&](const ObjectRef& n) {
    if (const auto* l = n.as<BufferLoad>(); l && !in_registers(l->buffer)) out.push_back(l);
    return !n.is<BufferNode>();
  });
  return out;
}

}  // namespace

/// Bytes in a row of the left operand, and rows of the registers: of a function they are the same throughout,
/// or registers are shaped anew for each buffer of sums.
std::vector<MatrixShape> Emitter::matrix_shapes(const Stmt& s) const {
  std::vector<MatrixShape> out;
  pre_order(s, [&](const ObjectRef& n) {
    const auto* f = n.as<For>();
    if (!f) return n.is<StmtNode>() || n.is<ArrayObj>();
    if (f->kind == ForKind::parallel && !frame_->parallel && !is_one(f->extent)) return false;
    if (!f->annotations.contains(kMatrixLoops)) return true;
    const auto nest = nest_of(*f);
    if (!nest || nest->loops.size() != 3) return false;
    const std::vector<const BufferLoad*> operands = operands_of(nest->store->value);
    const int64_t bytes = operands.empty() ? 0 : operands[0]->buffer->dtype.bytes();
    const MatrixShape shape{*as_int(f->extent), *as_int(nest->loops[2]->extent) * bytes};
    if (std::find(out.begin(), out.end(), shape) == out.end()) out.push_back(shape);
    return false;
  });
  return out;
}

void Emitter::begin_matrices(const Stmt& body) {
  const std::vector<MatrixShape> shapes = matrix_shapes(body);
  frame_->matrices = !shapes.empty();
  frame_->one_matrix_shape = shapes.size() == 1;
  if (frame_->one_matrix_shape) shape_matrices(shapes[0]);
}

/// tile_config of palette 1: sums, then both operands.
void Emitter::shape_matrices(const MatrixShape& shape) {
  std::array<uint8_t, 64> record{};
  record[0] = 1;
  auto put = [&](int64_t id, int64_t rows, int64_t bytes) {
    record[size_t(16 + 2 * id)] = uint8_t(bytes), record[size_t(48 + id)] = uint8_t(rows);
  };
  for (int64_t i = 0; i < kMatrixSums; ++i) put(i, shape.rows, kMatrixRowBytes);
  for (int64_t i = 0; i < kMatrixOperands; ++i) {
    put(kMatrixSums + i, shape.rows, shape.row_bytes);
    put(kMatrixSums + kMatrixOperands + i, shape.row_bytes / 4, kMatrixRowBytes);
  }
  llvm::Constant* data = llvm::ConstantDataArray::get(module_.getContext(), record);
  auto* global = new llvm::GlobalVariable(module_, data->getType(), true, llvm::GlobalValue::PrivateLinkage,
                                          data, fmt::format("{}.matrix_shape.{}", symbol_, constants_++));
  global->setAlignment(llvm::Align(64));
  tile(llvm::Intrinsic::x86_ldtilecfg, {global});
}

void Emitter::forget_matrices(const Stmt& s) {
  const auto* f = s.as<For>();
  if (s.is<SeqStmt>() || s.is<LetStmt>() || s.is<DeclBuffer>() ||
      (f && f->annotations.contains(kMatrixLoops)))
    return;
  for (std::vector<HeldMatrix>& held : frame_->matrix_operands) held.clear();
}

V Emitter::tile(uint32_t intrinsic, std::vector<V> args) {
  return b_.CreateCall(llvm::Intrinsic::getOrInsertDeclaration(&module_, llvm::Intrinsic::ID(intrinsic)),
                       args);
}

void Emitter::end_matrices() {
  if (frame_->matrices) tile(llvm::Intrinsic::x86_tilerelease, {});
}

/// The register of sums that begins there.
int64_t Emitter::sum_register(const Buffer& b, const PrimExpr& begin) {
  const auto at = as_int(begin);
  if (!at) unknown(symbol_, fmt::format("which register of `{}` is meant is not known", b->name));
  auto& known = frame_->sum_registers[b->data.get()];
  const auto [it, added] = known.emplace(*at, int64_t(known.size()));
  if (added && it->second >= kMatrixSums)
    unknown(symbol_, fmt::format("`{}` has more than {} registers", b->name, kMatrixSums));
  return it->second;
}

/// The register that holds an operand, loaded unless it is there already.
V Emitter::operand_register(bool left, const Buffer& b, const PrimExpr& begin, int64_t row_bytes) {
  auto& held = frame_->matrix_operands[left ? 0 : 1];
  const int64_t first = kMatrixSums + (left ? 0 : kMatrixOperands);
  for (size_t i = 0; i < held.size(); ++i)
    if (held[i].buffer == b->data.get() && structural_equal(held[i].begin, begin)) {
      const HeldMatrix found = held[i];
      held.erase(held.begin() + std::ptrdiff_t(i)), held.push_back(found);  // the oldest one first
      return b_.getInt8(uint8_t(found.id));
    }
  int64_t id = first + int64_t(held.size());
  if (int64_t(held.size()) == kMatrixOperands) id = held[0].id, held.erase(held.begin());
  held.push_back({b->data.get(), begin, id});
  load_matrix(id, b, begin, row_bytes);
  return b_.getInt8(uint8_t(id));
}

void Emitter::load_matrix(int64_t id, const Buffer& b, const PrimExpr& begin, int64_t row_bytes) {
  frame_->memo.clear(), frame_->memo_order.clear();
  V from = pointer(b, index(begin));
  tile(llvm::Intrinsic::x86_tileloadd64, {b_.getInt8(uint8_t(id)), from, i64(row_bytes)});
}

void Emitter::matrix_loops(const For& n) {
  const auto found = nest_of(n);
  if (!found) unknown(symbol_, "they are no two or three loops around one store");
  const Nest& nest = *found;
  Analyzer a;
  std::vector<VarRef> vars;
  for (const For* f : nest.loops) {
    vars.push_back(f->loop_var);
    a.bind(f->loop_var, range(f->min, f->extent), true);
  }
  if (*as_int(nest.loops[0]->extent) > kMatrixRows || *as_int(nest.loops[1]->extent) != kMatrixLanes)
    unknown(symbol_, "a register has at most 16 rows of 16 sums");
  const VarRef row = vars[0], lane = vars[1];
  /// The access as begin + row · rows + the steps that are asked for.
  auto access = [&](const Buffer& b, const Array<PrimExpr>& indices,
                    std::vector<std::pair<VarRef, int64_t>> steps, const VarRef& rows,
                    const PrimExpr* k = nullptr) {
    VarMap names = nest.names;
    PrimExpr at = substitute(flat_index(b, indices), names);
    if (k) at = substitute(at, {{vars[2].get(), *k}});
    at = a.simplify(at);
    std::vector<VarRef> terms{rows};
    for (auto& [v, step] : steps) terms.push_back(v);
    at = a.simplify(inside_panels(at, terms, a));
    const auto form = affine_form(at, terms, a);
    if (!form) unknown(symbol_, fmt::format("`{}` is not regular along them", b->name));
    MatrixAccess out{form->base};
    for (auto& [v, c] : form->terms)
      if (v.same_as(rows)) out.row_bytes = c * b->dtype.bytes();
    for (auto& [v, step] : steps) {
      int64_t c = 0;
      for (auto& [x, k2] : form->terms)
        if (x.same_as(v)) c = k2;
      if (c != step)
        unknown(symbol_, fmt::format("neighbours in `{}` are not neighbours along them", b->name));
    }
    for (const For* f : nest.loops)
      if (uses(form->base, f->loop_var))
        unknown(symbol_, fmt::format("`{}` is not regular along them", b->name));
    return out;
  };
  const BufferStore& store = *nest.store;
  if (!in_registers(store.buffer)) {  // a copy to memory
    const auto* from = store.value.as<BufferLoad>();
    if (!from || !in_registers(from->buffer) || nest.loops.size() != 2)
      unknown(symbol_, "no copy of a register");
    const MatrixAccess to = access(store.buffer, store.indices, {{lane, 1}}, row);
    const int64_t id =
        sum_register(from->buffer, access(from->buffer, from->indices, {{lane, 1}}, row).begin);
    frame_->memo.clear(), frame_->memo_order.clear();
    V at = pointer(store.buffer, index(to.begin));
    tile(llvm::Intrinsic::x86_tilestored64, {b_.getInt8(uint8_t(id)), at, i64(to.row_bytes)});
    return;
  }
  const int64_t id = sum_register(store.buffer, access(store.buffer, store.indices, {{lane, 1}}, row).begin);
  if (nest.loops.size() == 2) {  // a first value
    if (const BufferLoad* first = first_value(store.value)) {
      const MatrixAccess from = access(first->buffer, first->indices, {{lane, 1}}, row);
      return load_matrix(id, first->buffer, from.begin, from.row_bytes);
    }
    if (!zero(store.value)) unknown(symbol_, "the first value is neither 0 nor in memory");
    tile(llvm::Intrinsic::x86_tilezero, {b_.getInt8(uint8_t(id))});
    return;
  }
  const std::vector<const BufferLoad*> loads = operands_of(substitute(store.value, nest.names));
  if (loads.size() != 2) unknown(symbol_, "no sum of products of two operands");
  const bool swapped = uses(flat_index(loads[0]->buffer, loads[0]->indices), lane);
  const BufferLoad &x = *loads[swapped ? 1 : 0], &y = *loads[swapped ? 0 : 1];
  const int64_t group = 4 / x.buffer->dtype.bytes();
  if (x.buffer->dtype.bits != y.buffer->dtype.bits || x.buffer->dtype.bits > 16 ||
      *as_int(nest.loops[2]->extent) % group != 0)
    unknown(symbol_, "operands are bytes in fours or bfloat16 in pairs");
  const MatrixAccess left = access(x.buffer, x.indices, {{vars[2], 1}}, row);
  // Along the sum the right operand lies in groups.
  const VarRef high = var("group"), low = var("neighbour");
  a.bind(high, range(PrimExpr(0), PrimExpr(*as_int(nest.loops[2]->extent) / group)), true);
  a.bind(low, range(PrimExpr(0), PrimExpr(group)), true);
  const PrimExpr k = high * PrimExpr(group) + low;
  const MatrixAccess right = access(y.buffer, y.indices, {{lane, group}, {low, 1}}, high, &k);
  V p = operand_register(true, x.buffer, left.begin, left.row_bytes);
  V q = operand_register(false, y.buffer, right.begin, right.row_bytes);
  const DataType s = x.buffer->dtype, t = y.buffer->dtype;
  const llvm::Intrinsic::ID multiply =
      s.bits == 16  ? llvm::Intrinsic::x86_tdpbf16ps
      : s.is_uint() ? (t.is_uint() ? llvm::Intrinsic::x86_tdpbuud : llvm::Intrinsic::x86_tdpbusd)
                    : (t.is_uint() ? llvm::Intrinsic::x86_tdpbsud : llvm::Intrinsic::x86_tdpbssd);
  tile(multiply, {b_.getInt8(uint8_t(id)), p, q});
}

}  // namespace tenon::codegen
