// SPDX-License-Identifier: Apache-2.0
// Loops: serial ones and what LLVM is told of them, parallel ones with their bodies, while.
#include <llvm/IR/Constants.h>

#include <algorithm>
#include <set>

#include "codegen/llvm/emitter.h"
#include "ir/find_node.h"

namespace tenon::codegen {

using namespace tir;
using V = llvm::Value*;

/// Rows: loops around others, in them, or of vectors with an edge, not of one whole vector after the other.
/// Sums, running ones too, are none: they are in registers from one step to the next where steps are copied.
static bool is_rows(const For& n, bool inside) {
  std::set<const BufferNode*> stored, read;
  bool moves = true, edge = inside;
  pre_order(n.body, [&](const ObjectRef& node) {
    if (const auto* l = node.as<BufferLoad>()) read.insert(l->buffer.get());
    if (const auto* st = node.as<BufferStore>()) {
      edge = edge || st->predicate || !stored.empty();
      stored.insert(st->buffer.get());
      moves = moves && std::any_of(st->indices.begin(), st->indices.end(), [&](const PrimExpr& i) {
                return any_node(i, [&](const ObjectRef& v) { return v.get() == n.loop_var.get(); });
              });
    }
    return !node.is<BufferNode>();
  });
  return moves && edge && std::ranges::none_of(stored, [&](const BufferNode* b) { return read.contains(b); });
}

void Emitter::serial_loop(const For& n, const Stmt& inside, V begin, V end, bool runs_once) {
  const llvm::DebugLoc around = b_.getCurrentDebugLocation();
  mark(&n);
  auto* entry = b_.GetInsertBlock();
  auto* body = block("loop");
  auto* exit = block("loop_end");
  if (runs_once)
    b_.CreateBr(body);
  else
    b_.CreateCondBr(b_.CreateICmpSLT(begin, end), body, exit);
  b_.SetInsertPoint(body);
  llvm::PHINode* at = b_.CreatePHI(begin->getType(), 2, n.loop_var->name);
  at->addIncoming(begin, entry);
  frame_->values[n.loop_var.get()] = at;
  if (n.kind != ForKind::parallel) frame_->loops.insert(n.loop_var.get());
  const IfThenElse* inner = inside.same_as(n.body) ? leaves_early(n) : nullptr;
  if (inner && !as_int(inner->condition)) {
    auto* goes_on = block("loop_goes_on");
    b_.CreateCondBr(root(inner->condition), goes_on, exit);
    b_.SetInsertPoint(goes_on);
    stmt(inner->then_case);
  } else {
    stmt(inside);
  }
  if (n.kind != ForKind::parallel) frame_->loops.erase(n.loop_var.get());
  V next = b_.CreateAdd(at, llvm::ConstantInt::get(at->getType(), 1), "", false, true);
  at->addIncoming(next, b_.GetInsertBlock());
  auto* back = b_.CreateCondBr(b_.CreateICmpSLT(next, end), body, exit);
  // Loops over vectors are as wide as they should be: LLVM is to leave them alone.
  const bool vectors = any_node(n.body, [](const ObjectRef& node) {
    const auto* e = node.as<PrimExprNode>();
    return e && e->dtype.is_vector();
  });
  llvm::LLVMContext& c = module_.getContext();
  llvm::SmallVector<llvm::Metadata*, 4> notes{nullptr};
  auto note = [&](const char* name, llvm::Constant* value) {
    llvm::SmallVector<llvm::Metadata*, 2> words{llvm::MDString::get(c, name)};
    if (value) words.push_back(llvm::ConstantAsMetadata::get(value));
    notes.push_back(llvm::MDNode::get(c, words));
  };
  if (vectors) note("llvm.loop.vectorize.enable", b_.getFalse());
  if (n.kind == ForKind::unrolled)  // "pragma_unroll_explicit": 0
    note("llvm.loop.unroll.full", nullptr);
  else if (n.annotations.contains("pragma_no_unroll"))
    note("llvm.loop.unroll.disable", nullptr);
  else if (vectors && !as_int(n.extent) && is_rows(n, !frame_->loops.empty()))  // often a few vectors each
    note("llvm.loop.unroll.runtime.disable", nullptr);
  if (notes.size() > 1) {
    llvm::MDNode* id = llvm::MDNode::getDistinct(c, notes);
    id->replaceOperandWith(0, id);
    back->setMetadata(llvm::LLVMContext::MD_loop, id);
  }
  b_.SetInsertPoint(exit);
  b_.SetCurrentDebugLocation(around);
}

void Emitter::loop(const For& n) {
  if (matrix(n) || transposed(n)) return;
  const auto extent = as_int(n.extent);
  if (extent && *extent <= 0) return;
  if (n.kind == ForKind::parallel && !frame_->parallel && !(extent && *extent == 1)) return parallel_loop(n);
  bounds_.set_loop(n);
  V begin = root(n.min);
  if (extent && *extent == 1) {
    frame_->values[n.loop_var.get()] = begin;
    return stmt(n.body);
  }
  V end = b_.CreateNSWAdd(begin, root(n.extent));
  serial_loop(n, n.body, begin, end, bool(extent));
}

void Emitter::parallel_loop(const For& n) {
  llvm::LLVMContext& c = module_.getContext();
  bounds_.set_loop(n);
  V extent = b_.CreateSExtOrTrunc(root(n.extent), b_.getInt64Ty()), first = root(n.min);
  // The closure: every value of this function that the body uses.
  Frame* outer = frame_;
  std::vector<const tir::Var*> captured;
  for (const tir::Var* v : used_vars(n.body))
    if (v != n.loop_var.get() && outer->values.count(v)) captured.push_back(v);
  std::vector<llvm::Type*> types{first->getType()};
  for (const tir::Var* v : captured) types.push_back(outer->values[v]->getType());
  auto* closure_type = llvm::StructType::get(c, types);
  V closure = stack(closure_type, 64);
  b_.CreateStore(first, b_.CreateStructGEP(closure_type, closure, 0));
  for (size_t k = 0; k < captured.size(); ++k)
    b_.CreateStore(outer->values[captured[k]], b_.CreateStructGEP(closure_type, closure, unsigned(k + 1)));

  llvm::Type *ptr = b_.getPtrTy(), *i64t = b_.getInt64Ty();
  auto* type = llvm::FunctionType::get(b_.getInt32Ty(), {ptr, i64t, i64t, ptr}, false);
  auto* fn = llvm::Function::Create(type, llvm::Function::InternalLinkage,
                                    fmt::format("{}.parallel.{}", symbol_, bodies_++), module_);
  finish_function(fn);
  fn->addParamAttr(0, llvm::Attribute::ReadOnly);
  fn->addParamAttr(0, llvm::Attribute::NoAlias);
  {
    llvm::IRBuilderBase::InsertPointGuard guard(b_);
    Frame frame;
    frame.function = fn;
    frame.parallel = true;
    frame.context = fn->getArg(3);
    frame_ = &frame;
    begin_marks(&n);
    b_.SetInsertPoint(block("entry"));
    mark(&n);
    begin_matrices(n.body);
    auto field = [&](unsigned k) {
      auto* l = b_.CreateLoad(types[k], b_.CreateStructGEP(closure_type, fn->getArg(0), k));
      l->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(c, {}));
      return l;
    };
    V base = field(0);
    for (size_t k = 0; k < captured.size(); ++k) {
      V v = field(unsigned(k + 1));
      v->setName(captured[k]->name);
      frame.values[captured[k]] = v;
    }
    V begin = b_.CreateNSWAdd(base, b_.CreateSExtOrTrunc(fn->getArg(1), base->getType()));
    V end = b_.CreateNSWAdd(base, b_.CreateSExtOrTrunc(fn->getArg(2), base->getType()));
    // What each iteration needs for itself is one piece of memory for all iterations of the task.
    std::vector<V> held;
    Stmt body = n.body;
    for (const auto* a = body.as<Allocate>(); a && can_size(a->buffer); a = body.as<Allocate>()) {
      enter(*a, held);
      body = a->body;
    }
    serial_loop(n, body, begin, end, false);
    leave(held);
    end_matrices();
    b_.CreateRet(b_.getInt32(0));
    frame_ = outer;
  }
  auto* run_type = llvm::FunctionType::get(b_.getInt32Ty(), {ptr, ptr, ptr, i64t, i64t}, false);
  V code = b_.CreateCall(run_type, context_field(0, ptr),
                         {frame_->context, fn, closure, extent, i64(loop_cost(n))});
  return_if_nonzero(code);
}

void Emitter::while_loop(const tir::While& n) {
  auto* head = block("while");
  auto* body = block("while_body");
  auto* exit = block("while_end");
  const llvm::DebugLoc around = b_.getCurrentDebugLocation();
  b_.CreateBr(head);
  b_.SetInsertPoint(head);
  mark(&n);
  b_.CreateCondBr(root(n.condition), body, exit);
  b_.SetInsertPoint(body);
  stmt(n.body);
  b_.CreateBr(head);
  b_.SetInsertPoint(exit);
  b_.SetCurrentDebugLocation(around);
}

}  // namespace tenon::codegen
