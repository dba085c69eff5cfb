// SPDX-License-Identifier: Apache-2.0
// The visitor from lowered tensor programs to LLVM IR: one kernel function per PrimFunc, one more for each
// parallel loop's body.
#pragma once
#include <llvm/IR/DIBuilder.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/CodeGen.h>

#include <array>
#include <map>
#include <set>

#include "codegen/debug_source.h"
#include "codegen/llvm/llvm.h"
#include "codegen/llvm/math.h"
#include "codegen/lowered.h"
#include "codegen/matrix_loops.h"
#include "codegen/transposed_loop.h"
#include "target/narrow_float.h"

namespace llvm {
class TargetMachine;
}

namespace tenon::codegen {

/// LLVM's machine for a target (object.cpp). T0802 when LLVM has none.
std::unique_ptr<llvm::TargetMachine> machine_for(const Target& target, int opt_level);
/// Whether LLVM's record of the processor to tune for says that gathers are worth it (Intel's, not AMD's).
bool gathers_fast(const Target& target);

/// The passes of an optimisation level.
void optimise(llvm::Module& module, llvm::TargetMachine& machine, int opt_level);
/// The module as a relocatable object, or as assembly.
std::string machine_code(llvm::Module& module, llvm::TargetMachine& machine, llvm::CodeGenFileType kind);
/// An object for each text that the programs import (imported.cpp). T0822 for one that cannot be used, and
/// where what they call is defined nowhere or twice.
std::vector<std::string> imported_objects(const IRModule& lowered, const Target& target, int opt_level);

class Emitter {
 public:
  Emitter(llvm::Module& module, const Target& target);
  /// Defines the kernel's symbol and its aliases.
  void emit(const Kernel& kernel);
  /// From here on instructions carry the number of their loop as a line of debug information (line 2 +
  /// number).
  void mark_loops();
  /// From here on instructions carry the line of their statement in the text.
  void mark_lines(const DebugSource& source);
  /// Closes what one of both began.
  void finish_marks();

 private:
  using V = llvm::Value*;
  /// An operand that is in a matrix register.
  struct HeldMatrix {
    const tir::Var* buffer;
    PrimExpr begin;
    int64_t id;
  };
  /// The function under construction; an outlined parallel body has its own.
  struct Frame {
    llvm::Function* function = nullptr;
    llvm::DISubprogram* marks = nullptr;
    V context = nullptr;
    bool parallel = false;            ///< inside a parallel body: further parallel loops run serially
    std::set<const tir::Var*> loops;  ///< serial ones around what is emitted
    std::vector<V> workspaces;        ///< live ones, innermost last: released before every return
    int64_t stack_bytes = 0;
    std::unordered_map<const tir::Var*, V> values;
    std::unordered_map<const tir::PrimExprNode*, V> memo;
    std::vector<const tir::PrimExprNode*>
        memo_order;  ///< so that what a branch computed is forgotten behind it
    // Matrix registers: of the sums of a buffer by where they begin, and what holds operands, the oldest
    // first.
    bool matrices = false, one_matrix_shape = false;
    std::unordered_map<const tir::Var*, std::map<int64_t, int64_t>> sum_registers;
    std::array<std::vector<HeldMatrix>, 2> matrix_operands;
  };

  // Types: values in registers, and elements in memory (booleans are bytes there). Narrow floats are their
  // bits.
  llvm::Type* scalar_type(DataType t);
  llvm::Type* type(DataType t);
  llvm::Type* memory_type(DataType t);
  bool is_narrow(DataType t) const { return t.is_float() && t.bits < 32; }
  V constant(DataType t, int64_t v) { return llvm::ConstantInt::getSigned(type(t), v); }
  V i64(int64_t v) { return b_.getInt64(uint64_t(v)); }

  // emit_expr.cpp
  V root(const PrimExpr& e);  ///< starts a new expression: nothing computed before is reused
  V expr(const PrimExpr& e);
  V compute(const PrimExpr& e);
  V shuffle(const tir::Shuffle& n);
  V if_then_else(const tir::Call& n);
  V select_rare(const tir::Call& n);
  V memory_to_value(V v, DataType t);
  V value_to_memory(V v, DataType t);
  size_t mark() const { return frame_->memo_order.size(); }
  void forget(size_t mark);

  // emit_arithmetic.cpp
  V arithmetic(const PrimExpr& e, const PrimExpr& a, const PrimExpr& b);  ///< e is a node of a and b
  V comparison(uint32_t node, const PrimExpr& a, const PrimExpr& b);
  V integer_binary(uint32_t node, DataType t, V a, V b);
  V float_binary(uint32_t node, DataType t, V a, V b);
  V division(uint32_t node, const PrimExpr& a, const PrimExpr& b);
  V lane_quotient(DataType t, V a, V b, bool is_unsigned);
  V lane_remainder(DataType t, V a, V b, bool is_unsigned);
  V ramp_compare(uint32_t node, const PrimExpr& a, const PrimExpr& b);
  V cast(V v, DataType from, DataType to);
  V narrow_cast(V v, DataType from, DataType to);  ///< between float32 and a float of 16 bits
  V reduce_lanes(const std::string& op, const PrimExpr& vector);

  // emit_load.cpp
  V index(const PrimExpr& e);       ///< int64, no wrap in its outer sums and products
  V step(llvm::Type* vector_type);  ///< 0, 1, 2, …
  V splat(V scalar, int64_t lanes) { return b_.CreateVectorSplat(unsigned(lanes), scalar); }
  V pointer(const tir::Buffer& b, V index);
  V element(const tir::Buffer& b, const PrimExpr& at);                       ///< its address
  V read(const tir::Buffer& b, llvm::Type* what, V from, V mask = nullptr);  ///< lanes that are off give 0
  V load(const tir::BufferLoad& n);
  V load_scalar(const tir::BufferLoad& n, const PrimExpr& at);
  V load_vector(const tir::BufferLoad& n, const PrimExpr& at);
  V load_strided(const tir::BufferLoad& n, const PrimExpr& base, int64_t stride, V mask);
  V gather(const tir::BufferLoad& n, const PrimExpr& at, V mask);
  bool gathers(DataType t) const;

  // emit_call.cpp
  V atomic(std::string_view name, const tir::Call& n);
  V integer_power(V x, V y);
  V call(const tir::Call& n);
  V float_intrinsic(std::string_view name, const tir::Call& n);
  V integer_intrinsic(std::string_view name, const tir::Call& n);
  V dot(const tir::Call& n);  // emit_dot.cpp
  V x86_dot(V acc, V a, V b, DataType x, DataType y, int64_t lanes, int64_t group);
  V arm_dot(V acc, V a, V b, DataType x, DataType y, int64_t lanes, int64_t group);
  V lookup(const tir::Call& n);  // emit_lookup.cpp

  // emit_matrix.cpp
  void begin_matrices(const tir::Stmt& body);  ///< of the function that begins there
  void end_matrices();                         ///< where it returns
  bool enter_matrices(const tir::Allocate& n);
  void shape_matrices(const MatrixShape& shape);
  void forget_matrices(
      const tir::Stmt& s);  ///< a statement begins or ends: operands are held from loops to loops
  bool matrix(const tir::For& n);
  V operand_register(bool left, const MatrixRows& rows);
  void move_matrix(uint32_t intrinsic, int64_t id, const MatrixRows& rows);
  void tile(uint32_t intrinsic, std::vector<V> args);
  V call_prim_func(const tir::Call& n);
  V call_llvm(const tir::Call& n);
  V call_extern(const tir::Call& n);
  V call_packed(const tir::Call& n);

  // emit_transposed.cpp
  struct Turned;
  bool transposed(const tir::For& n);
  int64_t turned_along(const TransposedLoad& l, const TransposedLoop& loop) const;
  void whole_tile(const tir::For& n, const Turned& tile);
  void cut_tile(const tir::For& n, const Turned& tile);
  std::vector<V> read_columns(const TransposedLoad& l, const Turned& tile, V first, int64_t row, int64_t lane,
                              int64_t count, int64_t along);
  void turn_tile(const TransposedLoad& l, const Turned& tile, FunctionRef<void(int64_t row, V)> use);
  void store_turned(const tir::For& n, const Turned& tile);
  void loop_over_turned(const tir::For& n, const Turned& tile);
  void edge_tile(const tir::For& n, Turned tile, V rows, V columns, llvm::BasicBlock* next);
  V load_turned(const tir::BufferLoad& n);

  // emit_integer.cpp
  V saturated(V v, DataType from, DataType to);  ///< a float as an integer of at most 32 bits
  V saturated_word(V v, DataType to);            ///< of a float32
  V float_to_narrow_integer(const PrimExpr& value, DataType to);
  V clamped_to_integer(V v, double low, double high, bool nearest, DataType to);
  V x86_int32(V v, bool nearest);

  // emit_stmt.cpp
  void stmt(tir::Stmt s);
  void store(const tir::BufferStore& n);
  void loop(const tir::For& n);
  void serial_loop(const tir::For& n, const tir::Stmt& inside, V begin, V end, bool runs_once);
  void parallel_loop(const tir::For& n);
  void while_loop(const tir::While& n);
  void branch(const tir::IfThenElse& n);
  void assertion(const tir::AssertStmt& n);
  void return_code(V code);  ///< releases what is held and returns; the block is closed
  void return_if_nonzero(V code);
  V allocate(const tir::Buffer& b, bool* workspace);
  void release(V workspace);
  bool can_size(const tir::Buffer& b) const;                 ///< its size is known where the code stands
  void enter(const tir::Allocate& n, std::vector<V>& held);  ///< workspaces are appended to `held`
  void leave(const std::vector<V>& held);
  void own_scope(const tir::Var* data);  ///< of aliases
  V stack(llvm::Type* t, int64_t bytes_align);
  V constant_data(const tir::AllocateConst& n);
  llvm::BasicBlock* block(const char* name) {
    return llvm::BasicBlock::Create(module_.getContext(), name, frame_->function);
  }
  V context_field(unsigned k, llvm::Type* t);
  void finish_function(llvm::Function* f);
  void begin_debug(const char* file, const char* folder, llvm::DICompileUnit::DebugEmissionKind kind);
  void begin_marks(const Object* node);  ///< of the function that begins there: a loop, or null: the kernel
  /// What comes from now on belongs to the loop or statement; null: to the kernel.
  void mark(const Object* node_or_null);
  unsigned line_of(const Object* node_or_null) const;
  void timer(const tir::AttrStmt& n, bool begin);
  void decorate(llvm::Instruction* access, const tir::Var* data);
  const tir::Var* root_of(const tir::Var* data) const;

  llvm::Module& module_;
  Target target_;
  llvm::IRBuilder<> b_;
  MathBuilder math_;
  Frame* frame_ = nullptr;
  BoundsOf bounds_;
  std::string symbol_;
  int bodies_ = 0, constants_ = 0;
  /// Tiles of the loop that is emitted, by their loads: where they lie, and the variable of their rows.
  std::unordered_map<const tir::BufferLoad*, std::pair<V, const tir::Var*>> turned_;
  bool turned_now_ = false;
  std::unique_ptr<llvm::DIBuilder> debug_;
  llvm::DIFile* file_ = nullptr;
  std::unordered_map<const Object*, int32_t> loops_;
  const DebugSource* source_ = nullptr;
  unsigned kernel_line_ = 1;
  std::unordered_map<const Object*, int32_t> asserts_;
  // Alias facts: which pointer variable is a view of which other, and one scope per memory.
  bool noalias_ = false;
  llvm::MDNode* domain_ = nullptr;
  std::unordered_map<const tir::Var*, const tir::Var*> views_;
  std::unordered_map<const tir::Var*, llvm::MDNode*> scopes_;
  std::vector<llvm::MDNode*> scope_order_;
  std::vector<std::pair<llvm::Instruction*, const tir::Var*>> accesses_;
};

/// The features of a target as LLVM spells them ("+avx2,+fma").
std::string llvm_features(const Target& target);
/// The processor whose instructions are there without any feature.
const char* base_cpu(const Target& target);

}  // namespace tenon::codegen
