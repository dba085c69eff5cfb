// SPDX-License-Identifier: Apache-2.0
// Intrinsics and calls.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "codegen/llvm/emitter.h"
#include "ir/imported_code.h"
#include "ir/packed_call.h"

namespace tenon::codegen {

using namespace tir;
using V = llvm::Value*;

/// Which field of TenonKernelContext calls packed functions (runtime/kernel.h).
constexpr unsigned kContextCall = 4;

V Emitter::float_intrinsic(std::string_view name, const tir::Call& n) {
  const DataType t = n.args[0].dtype().element();
  std::vector<V> args;
  for (const PrimExpr& a : n.args) {
    V v = expr(a);
    if (n.dtype.is_vector() && !v->getType()->isVectorTy()) v = splat(v, n.dtype.lanes);
    args.push_back(v);
  }
  V x = args[0];
  auto same = [&](llvm::Intrinsic::ID id) { return b_.CreateUnaryIntrinsic(id, x); };
  if (name == "sqrt") return same(llvm::Intrinsic::sqrt);
  if (name == "floor") return same(llvm::Intrinsic::floor);
  if (name == "ceil") return same(llvm::Intrinsic::ceil);
  if (name == "trunc") return same(llvm::Intrinsic::trunc);
  if (name == "round") return same(llvm::Intrinsic::roundeven);
  if (name == "abs") return same(llvm::Intrinsic::fabs);
  if (name == "fma") return b_.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, args);
  if (name == "copysign") return b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, x, args[1]);
  if (name == "isnan" || name == "isinf" || name == "isfinite") {
    V magnitude = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x),
      infinity = llvm::ConstantFP::getInfinity(x->getType());
    V test = name == "isnan"   ? b_.CreateFCmpUNO(x, x)
             : name == "isinf" ? b_.CreateFCmpOEQ(magnitude, infinity)
                               : b_.CreateFCmpOLT(magnitude, infinity);
    return n.dtype.is_bool() ? test : cast(test, boolean.with_lanes(n.dtype.lanes), n.dtype);
  }
  if (name == "ldexp") {
    // The exponent may be given as a float; two exact steps reach every result, a third covers the far ends.
    V e = args[1];
    llvm::Type* i32s = type(DataType::int_(32, n.dtype.lanes));
    if (n.args[1].dtype().is_float())
      e = b_.CreateIntrinsic(llvm::Intrinsic::fptosi_sat, {i32s, e->getType()}, {e});
    else
      e = cast(e, n.args[1].dtype(), DataType::int_(32, n.dtype.lanes));
    return b_.CreateIntrinsic(llvm::Intrinsic::ldexp, {x->getType(), i32s}, {x, e});
  }
  if (name == "fmod") return math_.libm(t.bits == 64 ? "fmod" : "fmodf", args);
  // Double precision goes through the C library; lower_intrin leaves nothing else.
  static constexpr std::string_view library[] = {
      "exp",  "exp2", "expm1", "log",  "log2",  "log10", "log1p", "sin", "cos", "tan",   "asin", "acos",
      "atan", "sinh", "cosh",  "tanh", "asinh", "acosh", "atanh", "erf", "pow", "atan2", "hypot"};
  if (t.bits == 64 && std::find(std::begin(library), std::end(library), name) != std::end(library))
    return math_.libm(std::string(name), args);
  fail("T0801", fmt::format("code generation cannot express `{}` of {}", n.op, to_string(t)),
       "kernel " + symbol_, "the pass lower_intrin replaces mathematical functions");
}

/// x to the power y by repeated squaring, wrapping; one small function for all widths, called lane by lane.
V Emitter::integer_power(V x, V y) {
  llvm::Function* fn = module_.getFunction("tenon.integer_power");
  llvm::Type* i64t = b_.getInt64Ty();
  if (!fn) {
    fn = llvm::Function::Create(llvm::FunctionType::get(i64t, {i64t, i64t}, false),
                                llvm::Function::InternalLinkage, "tenon.integer_power", module_);
    finish_function(fn);
    fn->setDoesNotAccessMemory();
    llvm::IRBuilder<> b(module_.getContext());
    auto make = [&](const char* name) { return llvm::BasicBlock::Create(module_.getContext(), name, fn); };
    auto *entry = make("entry"), *loop = make("loop"), *body = make("body"), *exit = make("exit");
    b.SetInsertPoint(entry);
    b.CreateBr(loop);
    b.SetInsertPoint(loop);
    auto *power = b.CreatePHI(i64t, 2), *base = b.CreatePHI(i64t, 2), *left = b.CreatePHI(i64t, 2);
    power->addIncoming(b.getInt64(1), entry);
    base->addIncoming(fn->getArg(0), entry);
    left->addIncoming(fn->getArg(1), entry);
    b.CreateCondBr(b.CreateICmpSGT(left, b.getInt64(0)), body, exit);
    b.SetInsertPoint(body);
    V odd = b.CreateTrunc(left, b.getInt1Ty());
    power->addIncoming(b.CreateSelect(odd, b.CreateMul(power, base), power), body);
    base->addIncoming(b.CreateMul(base, base), body);
    left->addIncoming(b.CreateLShr(left, b.getInt64(1)), body);
    b.CreateBr(loop);
    b.SetInsertPoint(exit);
    b.CreateRet(power);
  }
  auto one = [&](V a, V c) -> V {
    return b_.CreateTrunc(b_.CreateCall(fn, {b_.CreateSExtOrTrunc(a, i64t), b_.CreateSExtOrTrunc(c, i64t)}),
                          a->getType());
  };
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  if (!vector) return one(x, y);
  V out = llvm::PoisonValue::get(vector);
  for (unsigned k = 0; k < vector->getNumElements(); ++k)
    out = b_.CreateInsertElement(
        out, one(b_.CreateExtractElement(x, uint64_t(k)), b_.CreateExtractElement(y, uint64_t(k))),
        uint64_t(k));
  return out;
}

V Emitter::integer_intrinsic(std::string_view name, const tir::Call& n) {
  const DataType t = n.args[0].dtype();
  std::vector<V> args;
  for (const PrimExpr& a : n.args) {
    V v = expr(a);
    if (!args.empty() && a.dtype().bits > t.bits) {  // a count of a shift: too many bits stay so
      V most = llvm::ConstantInt::get(v->getType(), t.bits);
      v = b_.CreateSelect(b_.CreateICmpULT(v, most), v, most);
    }
    v = cast(v, a.dtype(), args.empty() ? a.dtype() : t.with_lanes(a.dtype().lanes));
    if (n.dtype.is_vector() && !v->getType()->isVectorTy()) v = splat(v, n.dtype.lanes);
    args.push_back(v);
  }
  V x = args[0], zero = llvm::Constant::getNullValue(x->getType());
  auto result = [&](V v) { return cast(v, t, n.dtype); };
  const DataType flag = boolean.with_lanes(t.lanes);
  if (name == "shift_left" || name == "shift_right") {
    V limit = llvm::ConstantInt::get(x->getType(), t.bits), fits = b_.CreateICmpULT(args[1], limit);
    if (name == "shift_left")
      return b_.CreateSelect(fits, b_.CreateShl(x, b_.CreateSelect(fits, args[1], zero)), zero);
    if (t.is_uint())
      return b_.CreateSelect(fits, b_.CreateLShr(x, b_.CreateSelect(fits, args[1], zero)), zero);
    return b_.CreateAShr(x, b_.CreateSelect(fits, args[1], llvm::ConstantInt::get(x->getType(), t.bits - 1)));
  }
  if (name == "bitwise_and") return b_.CreateAnd(x, args[1]);
  if (name == "bitwise_or") return b_.CreateOr(x, args[1]);
  if (name == "bitwise_xor") return b_.CreateXor(x, args[1]);
  if (name == "bitwise_not") return b_.CreateNot(x);
  if (name == "popcount") return result(b_.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, x));
  if (name == "clz")
    return result(b_.CreateIntrinsic(llvm::Intrinsic::ctlz, {x->getType()}, {x, b_.getFalse()}));
  if (name == "abs")
    return t.is_int() ? b_.CreateIntrinsic(llvm::Intrinsic::abs, {x->getType()}, {x, b_.getFalse()}) : x;
  if (name == "floor" || name == "ceil" || name == "round" || name == "trunc") return x;
  if (name == "isnan" || name == "isinf")
    return cast(llvm::Constant::getNullValue(type(flag)), flag, n.dtype);
  if (name == "isfinite") return cast(llvm::Constant::getAllOnesValue(type(flag)), flag, n.dtype);
  if (name == "pow") return integer_power(x, args[1]);
  fail("T0801", fmt::format("code generation cannot express `{}` of {}", n.op, to_string(t)),
       "kernel " + symbol_);
}

V Emitter::call_prim_func(const tir::Call& n) {
  // The callee has the kernel signature: pointers and scalars travel in two arrays.
  const auto* name = n.args[0].as<tir::StringImm>();
  std::vector<V> pointers, scalars;
  for (size_t k = 1; k < n.args.size(); ++k) {
    const DataType t = n.args[k].dtype();
    V v = expr(n.args[k]);
    if (t.is_handle())
      pointers.push_back(v);
    else if (t.is_float())
      scalars.push_back(b_.CreateBitCast(cast(v, t, f64), b_.getInt64Ty()));
    else
      scalars.push_back(cast(v, t, tenon::i64));
  }
  llvm::Type *ptr = b_.getPtrTy(), *i64t = b_.getInt64Ty();
  auto array = [&](const std::vector<V>& values, llvm::Type* element) -> V {
    auto* t = llvm::ArrayType::get(element, std::max<size_t>(1, values.size()));
    V a = stack(t, 16);
    for (size_t k = 0; k < values.size(); ++k)
      b_.CreateStore(values[k], b_.CreateConstInBoundsGEP2_64(t, a, 0, k));
    return a;
  };
  V buffers = array(pointers, ptr), numbers = array(scalars, i64t);
  auto callee = module_.getOrInsertFunction(name->value,
                                            llvm::FunctionType::get(b_.getInt32Ty(), {ptr, ptr, ptr}, false));
  return_if_nonzero(b_.CreateCall(callee, {buffers, numbers, frame_->context}));
  return b_.getInt32(0);
}

/// One order for all threads, as the interpreter's simulated ones have. Gives what the element was.
V Emitter::atomic(std::string_view name, const tir::Call& n) {
  const DataType t = n.args[1].dtype();
  const auto order = llvm::AtomicOrdering::SequentiallyConsistent;
  const llvm::Align align(uint64_t(t.bytes()));
  V at = expr(n.args[0]), value = expr(n.args[1]);
  using Op = llvm::AtomicRMWInst::BinOp;
  std::optional<Op> op;
  if (name == "add") op = t.is_float() ? Op::FAdd : Op::Add;
  if (name == "exchange") op = Op::Xchg;
  if (name == "and") op = Op::And;
  if (name == "or" || (name == "add" && t.is_bool())) op = Op::Or;
  if (name == "xor") op = Op::Xor;
  if (!t.is_float()) {
    const bool no_sign = t.is_uint() || t.is_bool();
    if (name == "max") op = no_sign ? Op::UMax : Op::Max;
    if (name == "min") op = no_sign ? Op::UMin : Op::Min;
  }
  if (op) return memory_to_value(b_.CreateAtomicRMW(*op, at, value_to_memory(value, t), align, order), t);
  if (name == "compare_exchange" && !t.is_float()) {
    V pair = b_.CreateAtomicCmpXchg(at, value_to_memory(value, t), value_to_memory(expr(n.args[2]), t), align,
                                    order, order);
    return memory_to_value(b_.CreateExtractValue(pair, 0), t);
  }
  // Floats: equal is a matter of values and the extremes keep NaN, so the exchange is tried until it holds.
  V last = name == "compare_exchange" ? expr(n.args[2]) : nullptr;
  llvm::Type* bits = b_.getIntNTy(unsigned(t.bits));
  auto* first = b_.CreateAlignedLoad(bits, at, align);
  first->setAtomic(llvm::AtomicOrdering::Monotonic);
  auto* from = b_.GetInsertBlock();
  auto* again = block("atomic");
  auto* done = block("atomic_done");
  b_.CreateBr(again);
  b_.SetInsertPoint(again);
  auto* seen = b_.CreatePHI(bits, 2);
  seen->addIncoming(first, from);
  V old = b_.CreateBitCast(seen, type(t));
  V next = last            ? b_.CreateSelect(b_.CreateFCmpOEQ(old, value), last, old)
           : name == "max" ? math_.max(old, value)
                           : math_.min(old, value);
  V pair = b_.CreateAtomicCmpXchg(at, seen, b_.CreateBitCast(next, bits), align, order, order);
  seen->addIncoming(b_.CreateExtractValue(pair, 0), b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateExtractValue(pair, 1), done, again);
  b_.SetInsertPoint(done);
  return old;
}

V Emitter::call_extern(const tir::Call& n) {
  const std::string& symbol = n.args[0].as<tir::StringImm>()->value;
  std::vector<V> args;
  for (size_t k = 1; k < n.args.size(); ++k) args.push_back(expr(n.args[k]));
  for (size_t k = 1; k < n.args.size(); ++k)
    if (is_narrow(n.args[k].dtype()) || n.args[k].dtype().is_bool())
      fail("T0801", fmt::format("`{}` cannot take a {}", symbol, to_string(n.args[k].dtype())),
           "kernel " + symbol_);
  if (tir::is_mathematics(symbol)) return math_.libm(symbol, args);
  std::vector<llvm::Type*> types;
  for (const V a : args) types.push_back(a->getType());
  llvm::Type* result = n.dtype.is_void() ? b_.getVoidTy() : type(n.dtype);
  const V value =
      b_.CreateCall(module_.getOrInsertFunction(symbol, llvm::FunctionType::get(result, types, false)), args);
  return n.dtype.is_void() ? b_.getInt32(0) : value;
}

V Emitter::call_packed(const tir::Call& n) {
  const PackedCallForm form = packed_call_form(n);
  auto* array = llvm::ArrayType::get(b_.getInt64Ty(), std::max<size_t>(1, form.values.size()));
  std::vector<V> words;
  for (const PrimExpr& e : form.values) {
    const auto* text = e.as<StringImm>();
    const V v = text ? V(b_.CreateGlobalString(text->value)) : expr(e);
    words.push_back(v->getType()->isPointerTy() ? b_.CreatePtrToInt(v, b_.getInt64Ty())
                                                : b_.CreateBitCast(v, b_.getInt64Ty()));
  }
  const V values = stack(array, 16);
  for (size_t k = 0; k < words.size(); ++k)
    b_.CreateStore(words[k], b_.CreateConstInBoundsGEP2_64(array, values, 0, k));
  llvm::Type* ptr = b_.getPtrTy();
  auto* type_of_call = llvm::FunctionType::get(b_.getInt32Ty(), {ptr, ptr, ptr}, false);
  return_if_nonzero(b_.CreateCall(type_of_call, context_field(kContextCall, ptr),
                                  {frame_->context, b_.CreateGlobalString(form.text), values}));
  if (n.dtype.is_void()) return b_.getInt32(0);
  const V bits = b_.CreateLoad(b_.getInt64Ty(), values);
  if (n.dtype.is_float()) return cast(b_.CreateBitCast(bits, b_.getDoubleTy()), f64, n.dtype);
  return cast(bits, tenon::i64, n.dtype);
}

V Emitter::call(const tir::Call& n) {
  const std::string_view name = std::string_view(n.op).substr(4);
  if (name == "kernel_buffer" || name == "kernel_scalar" || name == "kernel_size") {
    const auto k = as_int(n.args[1]);
    CHECK(k.has_value(), "the number of a kernel argument is a constant");
    llvm::Type* t = name == "kernel_buffer" ? (llvm::Type*)b_.getPtrTy() : b_.getInt64Ty();
    auto* l = b_.CreateLoad(t, b_.CreateConstInBoundsGEP1_64(t, expr(n.args[0]), uint64_t(*k)));
    l->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(module_.getContext(), {}));
    return name == "kernel_buffer" ? l : cast(l, tenon::i64, n.dtype.is_float() ? tenon::i64 : n.dtype);
  }
  if (name == "if_then_else") return if_then_else(n);
  if (name == "select_rare") return select_rare(n);
  if (name == "exact") {
    llvm::IRBuilderBase::FastMathFlagGuard guard(b_);
    b_.clearFastMathFlags();
    return expr(n.args[0]);
  }
  if (name == "likely" || name == "ordered_term") return expr(n.args[0]);
  if (name == "wide_term") return cast(expr(n.args[0]), n.args[0].dtype(), n.dtype);
  if (name == "undef") return llvm::Constant::getNullValue(type(n.dtype));
  if (name.starts_with("vector_reduce_"))
    return n.args[0].dtype().is_vector() ? reduce_lanes(n.op, n.args[0]) : expr(n.args[0]);
  if (name == "dot") return dot(n);
  if (name == "lookup") return lookup(n);
  if (name == "assume") {
    b_.CreateAssumption(expr(n.args[0]));
    return b_.getInt32(0);
  }
  if (name == "address_of") {
    const auto* l = n.args[0].as<BufferLoad>();
    CHECK(l, "tir.address_of takes a buffer access");
    return pointer(l->buffer, index(flat_index(l->buffer, l->indices)));
  }
  if (name == "prefetch") {
    b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {b_.getPtrTy()},
                       {expr(n.args[0]), b_.getInt32(0), b_.getInt32(3), b_.getInt32(1)});
    return b_.getInt32(0);
  }
  if (name == "reinterpret") {
    const DataType from = n.args[0].dtype();
    V v = expr(n.args[0]);
    if (from.is_handle() || n.dtype.is_handle()) return cast(v, from, n.dtype);
    if (from.is_bool()) v = value_to_memory(v, from);
    if (n.dtype.is_bool()) return memory_to_value(v, n.dtype);
    CHECK(from.bits == n.dtype.bits, "tir.reinterpret keeps the width");
    return b_.CreateBitCast(v, type(n.dtype));
  }
  if (name.starts_with("atomic_")) return atomic(name.substr(7), n);
  if (name == "call_prim_func") return call_prim_func(n);
  if (name == "call_extern") return call_extern(n);
  if (name == "call_packed") return call_packed(n);
  if (name.starts_with("call_llvm_")) return call_llvm(n);
  CHECK(!n.args.empty(), "intrinsic without arguments: " + n.op);
  return n.args[0].dtype().is_float() ? float_intrinsic(name, n) : integer_intrinsic(name, n);
}

}  // namespace tenon::codegen
