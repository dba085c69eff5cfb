// SPDX-License-Identifier: Apache-2.0
// Expressions: types of values, sharing, the value of each node, choices.
#include <fmt/format.h>
#include <llvm/IR/MDBuilder.h>

#include <cmath>

#include "codegen/llvm/emitter.h"
#include "ir/node_groups.h"

namespace tenon::codegen {

using namespace tir;
using V = llvm::Value*;

llvm::Type* Emitter::scalar_type(DataType t) {
  if (t.is_bool()) return b_.getInt1Ty();
  if (t.is_handle()) return b_.getPtrTy();
  if (t == f64) return b_.getDoubleTy();
  if (t == f32) return b_.getFloatTy();
  if (t.is_void()) return b_.getInt32Ty();
  return b_.getIntNTy(t.bits);
}
llvm::Type* Emitter::type(DataType t) {
  llvm::Type* e = scalar_type(t.element());
  return t.is_vector() ? llvm::FixedVectorType::get(e, t.lanes) : e;
}
llvm::Type* Emitter::memory_type(DataType t) {
  return t.is_bool() ? b_.getInt8Ty() : scalar_type(t.element());
}
V Emitter::memory_to_value(V v, DataType t) {
  return t.is_bool() ? b_.CreateICmpNE(v, llvm::Constant::getNullValue(v->getType())) : v;
}
V Emitter::value_to_memory(V v, DataType t) {
  if (!t.is_bool()) return v;
  llvm::Type* bytes = b_.getInt8Ty();
  if (auto* vt = llvm::dyn_cast<llvm::FixedVectorType>(v->getType()))
    bytes = llvm::FixedVectorType::get(bytes, vt->getNumElements());
  return b_.CreateZExt(v, bytes);
}

// ---------------------------------------------------------------- sharing
V Emitter::root(const PrimExpr& e) {
  frame_->memo.clear();
  frame_->memo_order.clear();
  return expr(e);
}
void Emitter::forget(size_t mark) {
  while (frame_->memo_order.size() > mark) {
    frame_->memo.erase(frame_->memo_order.back());
    frame_->memo_order.pop_back();
  }
}
V Emitter::expr(const PrimExpr& e) {
  // A shared node is computed once per expression: expressions are graphs, and their trees can be
  // exponential.
  const bool shared = e.use_count() > 1 && !e.is<IntImm>() && !e.is<FloatImm>() && !e.is<tir::Var>();
  if (shared)
    if (auto it = frame_->memo.find(e.get()); it != frame_->memo.end()) return it->second;
  V v = compute(e);
  if (shared && frame_->memo.emplace(e.get(), v).second) frame_->memo_order.push_back(e.get());
  return v;
}

// ---------------------------------------------------------------- nodes
V Emitter::compute(const PrimExpr& e) {
  return match<V>(
      e,
      [&](const IntImm& n) -> V {
        return n.dtype.is_bool()
                   ? (V)b_.getInt1(n.value != 0)
                   : llvm::ConstantInt::get(type(n.dtype), uint64_t(n.value), n.dtype.is_int(), true);
      },
      [&](const FloatImm& n) -> V {
        if (!is_narrow(n.dtype)) return llvm::ConstantFP::get(type(n.dtype), n.value);
        NDArray bits = NDArray::empty({}, n.dtype);
        bits.set_element(0, n.value);
        return llvm::ConstantInt::get(
            type(n.dtype), n.dtype.bits == 16 ? *bits.as_ptr<uint16_t>() : *bits.as_ptr<uint8_t>());
      },
      [&](const tir::StringImm&) -> V {
        CHECK(false, "a string outside a call");
        return nullptr;
      },
      [&](const tir::Var& n) -> V {
        auto it = frame_->values.find(&n);
        CHECK(it != frame_->values.end(),
              fmt::format("kernel {}: variable {} is not defined", symbol_, n.name));
        return it->second;
      },
      [&](const ArithmeticNode auto& n) { return arithmetic(e, n.a, n.b); },
      [&](const ComparisonNode auto& n) { return comparison(n.type_index, n.a, n.b); },
      [&](const And& n) -> V {
        V a = expr(n.a);
        return b_.CreateAnd(a, expr(n.b));
      },
      [&](const Or& n) -> V {
        V a = expr(n.a);
        return b_.CreateOr(a, expr(n.b));
      },
      [&](const Not& n) -> V { return b_.CreateNot(expr(n.a)); },
      [&](const Select& n) -> V {
        V c = expr(n.condition), t = expr(n.true_value);
        return b_.CreateSelect(c, t, expr(n.false_value));
      },
      [&](const Cast& n) -> V {
        const DataType from = n.value.dtype();
        const bool narrows = from.is_float() && !is_narrow(from) && n.dtype.is_integer() && n.dtype.bits < 32;
        return narrows ? float_to_narrow_integer(n.value, n.dtype) : cast(expr(n.value), from, n.dtype);
      },
      [&](const BufferLoad& n) -> V { return load(n); },
      [&](const Ramp& n) -> V {
        V base = expr(n.base), stride = expr(n.stride);
        return b_.CreateAdd(splat(base, n.lanes), b_.CreateMul(splat(stride, n.lanes), step(type(n.dtype))));
      },
      [&](const Broadcast& n) -> V { return splat(expr(n.value), n.lanes); },
      [&](const Shuffle& n) { return shuffle(n); },
      [&](const Let& n) -> V {
        frame_->values[n.var.get()] = expr(n.value);
        if (n.var->dtype.is_integer()) bounds_.set(n.var.get(), bounds_(n.value));
        const size_t before = mark();
        V v = expr(n.body);
        forget(before);
        return v;
      },
      [&](const tir::Call& n) -> V { return call(n); },
      [&](const PrimExprNode& n) -> V {
        CHECK(false, "expression not in the lowered form: " + std::string(type_of(&n)->key));
        return nullptr;
      });
}

V Emitter::shuffle(const Shuffle& n) {
  std::vector<std::pair<V, int>> lanes;
  for (const PrimExpr& x : n.vectors) {
    V v = expr(x);
    for (int k = 0; k < x.dtype().lanes; ++k) lanes.emplace_back(v, k);
  }
  auto pick = [&](int64_t at) -> V {
    auto [v, k] = lanes.at(size_t(at));
    return v->getType()->isVectorTy() ? b_.CreateExtractElement(v, uint64_t(k)) : v;
  };
  if (n.indices.size() == 1) return pick(n.indices[0]);
  if (n.vectors.size() <= 2 && n.vectors[0].dtype().is_vector() &&
      n.vectors[0].dtype() == n.vectors.back().dtype()) {
    llvm::SmallVector<int, 16> order;
    for (size_t k = 0; k < n.indices.size(); ++k) order.push_back(int(n.indices[k]));
    V a = expr(n.vectors[0]),
      b = n.vectors.size() == 2 ? expr(n.vectors[1]) : llvm::PoisonValue::get(a->getType());
    return b_.CreateShuffleVector(a, b, order);
  }
  V out = llvm::PoisonValue::get(type(n.dtype));
  for (size_t k = 0; k < n.indices.size(); ++k)
    out = b_.CreateInsertElement(out, pick(n.indices[k]), uint64_t(k));
  return out;
}

V Emitter::if_then_else(const tir::Call& n) {
  if (auto known = as_int(n.args[0])) return expr(n.args[*known ? 1 : 2]);
  V condition = expr(n.args[0]);
  CHECK(!condition->getType()->isVectorTy(),
        "tir.if_then_else needs a scalar condition: vectorize_loop keeps such loops serial");
  auto* then = block("if_true");
  auto* otherwise = block("if_false");
  auto* next = block("if_done");
  b_.CreateCondBr(condition, then, otherwise);
  auto arm = [&](llvm::BasicBlock* at, const PrimExpr& e) {
    b_.SetInsertPoint(at);
    const size_t before = mark();
    V v = expr(e);
    forget(before);
    auto* end = b_.GetInsertBlock();
    b_.CreateBr(next);
    return std::pair(v, end);
  };
  auto [t, t_end] = arm(then, n.args[1]);
  auto [f, f_end] = arm(otherwise, n.args[2]);
  b_.SetInsertPoint(next);
  auto* phi = b_.CreatePHI(t->getType(), 2);
  phi->addIncoming(t, t_end);
  phi->addIncoming(f, f_end);
  return phi;
}

/// The rare value is computed behind a branch that is taken when some lane asks for it.
V Emitter::select_rare(const tir::Call& n) {
  V condition = expr(n.args[0]), common = expr(n.args[2]);
  V any = condition->getType()->isVectorTy() ? b_.CreateOrReduce(condition) : condition;
  auto* from = b_.GetInsertBlock();
  auto* rare = block("rare");
  auto* next = block("common");
  b_.CreateCondBr(any, rare, next, llvm::MDBuilder(module_.getContext()).createUnlikelyBranchWeights());
  b_.SetInsertPoint(rare);
  const size_t before = mark();
  V v = b_.CreateSelect(condition, expr(n.args[1]), common);
  forget(before);
  auto* end = b_.GetInsertBlock();
  b_.CreateBr(next);
  b_.SetInsertPoint(next);
  auto* phi = b_.CreatePHI(common->getType(), 2);
  phi->addIncoming(common, from);
  phi->addIncoming(v, end);
  return phi;
}

}  // namespace tenon::codegen
