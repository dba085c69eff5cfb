// SPDX-License-Identifier: Apache-2.0
// What every code generator asks of a lowered module: its kernels, whether they keep to the lowered form,
// which ones are the same, small integer facts, and the values a parallel body captures.
#pragma once
#include <unordered_map>

#include "codegen/codegen.h"
#include "ir/intrinsic.h"
#include "ir/tir.h"
#include "ir/walk.h"

namespace tenon::codegen {

/// One function to emit. `aliases`: further symbols of functions with an identical body.
struct Kernel {
  tir::PrimFunc function;
  std::string symbol;
  std::vector<std::string> aliases;
  size_t nodes = 0;  ///< size, for balancing parallel compilation
};

/// Kernels of the module in order, identical ones merged. Refusals of all of them are thrown at once (T0801).
std::vector<Kernel> collect_kernels(const IRModule& module);
/// Every symbol in module order, aliases too.
std::vector<std::string> kernel_symbols(const IRModule& module);

/// Functions that the programs call and that no library has: the texts that they import define them
/// (ir/imported_code.h).
std::vector<std::string> imported_functions(const IRModule& module);

/// Assertions in program order: node → k (the kernel returns 1 + k).
std::unordered_map<const Object*, int32_t> number_asserts(const tir::PrimFunc& f);

/// The branch that is the whole body of a serial loop, when its condition cannot hold again once it failed:
/// it reads memory, not the loop's variable, and nothing but the branch itself could change what it reads.
/// The loop may end there. Otherwise null.
const tir::IfThenElse* leaves_early(const tir::For& loop);

/// Variables and pointers that a statement uses and does not define, each once, in order of first use.
std::vector<const tir::Var*> used_vars(const tir::Stmt& s);

/// Inclusive bounds of integer values; wide enough that no int64 arithmetic on them overflows.
struct Bounds {
  __int128 min, max;
};
/// Bounds of variables in scope, and of expressions over them.
class BoundsOf {
 public:
  void set(const tir::Var* v, Bounds b) { vars_[v] = b; }
  void set_loop(const tir::For& loop);
  Bounds operator()(const PrimExpr& e, int depth = 0) const;

 private:
  std::unordered_map<const tir::Var*, Bounds> vars_;
};

/// base + lane * stride, when a vector of integers has that form (sums and multiples of ramps included).
struct Affine {
  PrimExpr base, stride;
};
std::optional<Affine> as_affine(const PrimExpr& vector);

/// Flat index of an access: row-major over the buffer's shape, strides and offset applied. Lanes as the
/// indices'.
PrimExpr flat_index(const tir::Buffer& buffer, const Array<PrimExpr>& indices);

/// The number of elements when it is a constant (of at most 2^40).
std::optional<int64_t> constant_size(const tir::Buffer& buffer);

/// "cost_ns" of a parallel loop (nanoseconds per iteration), at least 1.
int64_t loop_cost(const tir::For& loop);

/// Runs f on a thread with a large stack: expressions and statements nest as deep as the program says.
void with_deep_stack(FunctionRef<void()> f);

/// Constant allocations up to this many bytes live on the stack, as long as a function has not more than the
/// total in all; others come from the context's workspace.
inline constexpr int64_t kStackBytes = 16 << 10, kStackTotal = 256 << 10;

}  // namespace tenon::codegen
