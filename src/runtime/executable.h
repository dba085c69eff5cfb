// SPDX-License-Identifier: Apache-2.0
// Executable: what the VM runs, as plain data. The compiler builds one, the artifact file stores one.
// A register machine: four opcodes, and named builtins for everything else. Static models touch no
// allocator: their intermediate tensors are `ArenaTensor`s, planned at compile time.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "runtime/ndarray.h"

namespace tenon {

/// An argument word: kind in the low 3 bits, value (signed) in the rest.
enum class ArgKind : uint8_t {
  Register = 0,   ///< VM register
  Constant = 1,   ///< Executable::constants
  Immediate = 2,  ///< the value itself, an int
  Arena = 3,      ///< Executable::arena_tensors: a tensor at a planned offset of the session's arena
  Heap = 4,       ///< a slot of the shape heap (an int64)
};
struct Arg {
  int64_t word = 0;
  static Arg of(ArgKind kind, int64_t value) { return {int64_t(uint64_t(value) << 3) | int64_t(kind)}; }
  /// Do the 61 bits of a value suffice? Sizes are less, but constants in expressions of sizes may be
  /// anything.
  static bool holds(int64_t value) { return of({}, value).value() == value; }
  ArgKind kind() const { return ArgKind(word & 7); }
  int64_t value() const { return word >> 3; }
};

enum class Opcode : uint8_t {
  Call,  ///< dst = callee(args); callee is an entry of Executable::callees
  Ret,   ///< return register `dst`
  Goto,  ///< pc += offset
  If,    ///< if args[0] is false (0) pc += offset, else pc += 1
};

struct Instruction {
  Opcode op = Opcode::Ret;
  int32_t dst = -1;  ///< register, -1: none
  int32_t callee = -1;
  int32_t offset = 0;
  uint32_t first_arg = 0, num_args = 0;  ///< range in Executable::args
};

/// Kernel: destination passing, first tensors (buffers) then ints (scalars). Function: another VM function.
/// Builtin: what the VM does itself (builtin.h) or a packed function of the registry, looked up once at load
/// time. Closure: the first argument is the closure; a call of it takes the caller's frame when its result is
/// returned at once.
enum class CalleeKind : uint8_t { Kernel, Function, Builtin, Closure };
struct Callee {
  CalleeKind kind = CalleeKind::Kernel;
  std::string name;         ///< symbol of the kernel, or name in the registry
  int32_t index = -1;       ///< of the Function
  int32_t num_buffers = 0;  ///< Kernel: how many leading arguments are tensors; the rest are ints
  std::vector<int64_t> buffer_bytes = {};  ///< Kernel: bytes of each that it may touch, -1 where sizes are
                                           ///< not constant; empty: not known
};

/// A planned intermediate tensor with static shape; `offset` is 64-byte aligned.
struct ArenaTensor {
  int64_t offset = 0;
  std::vector<int64_t> shape;
  DataType dtype;
};

/// One dimension of an input or output: a number, or a named symbol bound to a heap slot.
struct DimInfo {
  int64_t value = -1;
  std::string symbol;
};
struct ValueInfo {
  std::string name;
  DataType dtype;
  bool known_rank = true;
  std::vector<DimInfo> shape;
};

struct VMFunction {
  std::string name;
  int32_t num_params = 0;  ///< parameters arrive in registers 0 … num_params-1
  int32_t num_registers = 0;
  int32_t heap_size = 0;  ///< int64 slots of the shape heap of one frame
  uint32_t first_instruction = 0, num_instructions = 0;
  std::vector<ValueInfo> params, results;  ///< for `main`: the model's inputs and outputs, checked on call
};

/// Code in a form that this process has a loader for, rather than the machine: the text of a device's
/// programs, what an external compiler made of a part of the model. The loader is the packed function
/// "loader.NAME" of the registry: it takes `bytes` and returns a function from the name of a kernel to the
/// function that runs it (on tensors, then scalars), or none.
struct CodeModule {
  std::string loader, bytes;
};

struct TargetNeeds {
  std::string triple, cpu;
  std::vector<std::string> features;  ///< that must be present, as in /proc/cpuinfo
};

struct Executable {
  std::vector<VMFunction> functions;
  std::vector<Instruction> code;
  std::vector<Arg> args;
  std::vector<Callee> callees;
  std::vector<NDArray> constants;
  std::vector<ArenaTensor> arena_tensors;
  int64_t arena_bytes = 0;
  std::vector<CodeModule> modules;  ///< kernels that the machine code has not
  TargetNeeds needs;
  std::vector<std::pair<std::string, std::string>>
      metadata;  ///< "compiler", "target", "model_hash", "flags", …
};

// Kernel arguments. A buffer (the first num_buffers) is a register holding an NDArray, a constant, an arena
// tensor, or a heap slot: then the kernel sees the shape heap from that slot on as an int64 buffer. A scalar
// is an immediate, a heap slot, or a register holding an int, a float (passed as its double image) or a
// tensor of one element.
//
// Metadata key "bound.SYMBOL" is the largest value of a symbolic size of the inputs ("T0505" beyond); key
// "asserts.SYMBOL" holds the messages of a kernel's assertions, one a line, in order.

/// What match_shape does with a dimension, by the value beside it.
enum class DimMatch : uint8_t {
  Number,  ///< it must be the value
  Bind,    ///< it goes to the heap slot `value`
  Slot,    ///< it must be what the heap slot `value` holds
  Any,     ///< nothing
};
/// A word of compute_shape's postfix program, by the value beside it.
enum class ShapeWord : uint8_t {
  Number,  ///< the value is pushed
  Slot,    ///< what the heap slot `value` holds is pushed
  Apply,   ///< ShapeOp(value) takes the two on top, and its result takes their place
};
enum class ShapeOp : uint8_t { Add, Sub, Mul, FloorDiv, FloorMod, Min, Max, CeilDiv };

/// A data type as an int argument of builtins; 0 stands for "any".
inline int64_t dtype_word(DataType t) {
  return int64_t(t.code) | int64_t(t.bits) << 8 | int64_t(t.lanes) << 16;
}
inline DataType dtype_of_word(int64_t w) { return {TypeCode(w & 255), uint8_t(w >> 8), uint16_t(w >> 16)}; }

/// Every index, range and jump of the tables is inside its bounds, so that the VM need not look again.
/// Error "T0607" says what is not.
void check_executable(const Executable& executable);

/// A shape as a VM value.
struct ShapeObj : Object {
  static constexpr std::string_view type_key = "Shape";
  std::vector<int64_t> dims;
};
using Shape = Ref<ShapeObj>;

/// A value whose memory counts against the limit of the session that made it.
struct HeldObj : Object {
  HeldObj() = default;
  HeldObj(const HeldObj&) = delete;
  ~HeldObj();
  ObjectRef account;  ///< the session's pool; null: counted nowhere
  int64_t held = 0;   ///< bytes
};

/// A value of an algebraic data type: which constructor made it, and of what.
struct DataObj : HeldObj {
  static constexpr std::string_view type_key = "Data";
  int64_t tag = 0;
  std::vector<Any> items;
};
using Data = Ref<DataObj>;

/// A reference: a cell whose value changes.
struct RefCellObj : HeldObj {
  static constexpr std::string_view type_key = "RefCell";
  Any value;
};
using RefCell = Ref<RefCellObj>;

/// A function of an executable with its first arguments.
struct ClosureObj : HeldObj {
  static constexpr std::string_view type_key = "Closure";
  int32_t function = -1;
  std::vector<Any> captured;
};
using Closure = Ref<ClosureObj>;

/// References made during one run. What they hold may lead back to them, which counting references never
/// frees: at the end, those that the results do not reach are emptied.
class RefCells {
 public:
  RefCell create(Any value);
  /// Empties every cell that `results` do not reach, and forgets all of them.
  void clear(std::span<const Any> results = {}) noexcept;
  bool empty() const { return cells_.empty(); }

 private:
  std::vector<RefCell> cells_;
  size_t next_sweep_ = 1024;
};

}  // namespace tenon
