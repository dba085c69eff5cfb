// SPDX-License-Identifier: Apache-2.0
// Loops over one matrix register (codegen/matrix_loops.h) as instructions of AMX. Operands stay in registers
// until another statement than such loops comes. Registers have one shape throughout a function, or are
// shaped anew for each buffer of sums. Where not all of a function's loops can be in registers, they stay
// loops.
#include <fmt/format.h>
#include <llvm/IR/IntrinsicsX86.h>

#include "codegen/llvm/emitter.h"
#include "ir/structural.h"
#include "target/matrix_registers.h"

namespace tenon::codegen {

using namespace tir;
using V = llvm::Value*;

void Emitter::begin_matrices(const Stmt& body) {
  if (!target_->has("amx_tile")) return;
  const auto shapes = matrix_shapes(body, !frame_->parallel, target_);
  frame_->matrices = shapes && !shapes->empty();
  frame_->one_matrix_shape = frame_->matrices && shapes->size() == 1;
  if (frame_->one_matrix_shape) shape_matrices(shapes->front());
}

void Emitter::end_matrices() {
  if (frame_->matrices) tile(llvm::Intrinsic::x86_tilerelease, {});
}

/// The registers of a buffer of sums; false: it is memory.
bool Emitter::enter_matrices(const Allocate& n) {
  if (!frame_->matrices || n.buffer->scope != kMatrixScope) return false;
  frame_->sum_registers[n.buffer->data.get()].clear();
  if (!frame_->one_matrix_shape)
    if (const auto shapes = matrix_shapes(Ref<Allocate>(&n), false, target_); shapes && !shapes->empty())
      shape_matrices(shapes->front());
  return true;
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
    put(kMatrixSums + kMatrixOperands + i, shape.row_bytes / kMatrixGroupBytes, kMatrixRowBytes);
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

void Emitter::tile(uint32_t intrinsic, std::vector<V> args) {
  b_.CreateCall(llvm::Intrinsic::getOrInsertDeclaration(&module_, llvm::Intrinsic::ID(intrinsic)), args);
}

void Emitter::move_matrix(uint32_t intrinsic, int64_t id, const MatrixRows& rows) {
  frame_->memo.clear(), frame_->memo_order.clear();
  V at = pointer(rows.buffer, index(rows.begin));
  tile(intrinsic, {b_.getInt8(uint8_t(id)), at, i64(rows.row_bytes)});
}

/// The register that holds an operand, loaded unless it is there already.
V Emitter::operand_register(bool left, const MatrixRows& rows) {
  auto& held = frame_->matrix_operands[left ? 0 : 1];
  const int64_t first = kMatrixSums + (left ? 0 : kMatrixOperands);
  for (size_t i = 0; i < held.size(); ++i)
    if (held[i].buffer == rows.buffer->data.get() && structural_equal(held[i].begin, rows.begin)) {
      const HeldMatrix found = held[i];
      held.erase(held.begin() + std::ptrdiff_t(i)), held.push_back(found);  // the oldest one first
      return b_.getInt8(uint8_t(found.id));
    }
  int64_t id = first + int64_t(held.size());
  if (int64_t(held.size()) == kMatrixOperands) id = held[0].id, held.erase(held.begin());
  held.push_back({rows.buffer->data.get(), rows.begin, id});
  move_matrix(llvm::Intrinsic::x86_tileloadd64, id, rows);
  return b_.getInt8(uint8_t(id));
}

/// False: they stay loops.
bool Emitter::matrix(const For& n) {
  if (!frame_->matrices || !n.annotations.contains(kMatrixLoops)) return false;
  const auto loops = matrix_loops(n);
  CHECK(loops, "loops over a matrix register that were checked before");
  auto& known = frame_->sum_registers[loops->sums->data.get()];
  const int64_t id = known.emplace(loops->sums_begin, int64_t(known.size())).first->second;
  switch (loops->kind) {
    case MatrixLoops::Kind::zero:
      tile(llvm::Intrinsic::x86_tilezero, {b_.getInt8(uint8_t(id))});
      break;
    case MatrixLoops::Kind::load:
      move_matrix(llvm::Intrinsic::x86_tileloadd64, id, loops->memory);
      break;
    case MatrixLoops::Kind::store:
      move_matrix(llvm::Intrinsic::x86_tilestored64, id, loops->memory);
      break;
    case MatrixLoops::Kind::multiply: {
      V left = operand_register(true, loops->left), right = operand_register(false, loops->right);
      const DataType s = loops->left.buffer->dtype, t = loops->right.buffer->dtype;
      const llvm::Intrinsic::ID multiply =
          s.bits == 16  ? llvm::Intrinsic::x86_tdpbf16ps
          : s.is_uint() ? (t.is_uint() ? llvm::Intrinsic::x86_tdpbuud : llvm::Intrinsic::x86_tdpbusd)
                        : (t.is_uint() ? llvm::Intrinsic::x86_tdpbsud : llvm::Intrinsic::x86_tdpbssd);
      tile(multiply, {b_.getInt8(uint8_t(id)), left, right});
    }
  }
  return true;
}

}  // namespace tenon::codegen
