// SPDX-License-Identifier: Apache-2.0
// Inside the VM: decoded programs, frames, and what a builtin may ask of the machine that calls it.
#pragma once
#include "runtime/builtin.h"
#include "runtime/kernel_calls.h"
#include "runtime/memory_pool.h"
#include "runtime/vm.h"
#include "runtime/words.h"

namespace tenon {

struct Step;
class RunRecorder;
using BuiltinCode = void (*)(Machine& machine, const Step& step);

/// An instruction with everything looked up that can be looked up at load time.
struct Step {
  enum Kind : uint8_t { Kernel, Builtin, Packed, Call, TailCall, Ret, Goto, If } kind = Ret;
  int32_t dst = -1;
  int32_t offset = 0;
  int32_t function = -1;  ///< Call; -1: the closure in the first argument
  int32_t output = -1;    ///< alloc_tensor: which output of `main` this tensor becomes
  uint32_t num_buffers = 0, num_args = 0;
  const Arg* args = nullptr;
  TenonKernel kernel = nullptr;
  BuiltinCode builtin = nullptr;
  const FunctionObj* packed = nullptr;
  const Callee* callee = nullptr;
};

/// Static facts about the inputs of `main`, for the check of every call.
struct Program {
  std::vector<Step> steps;  ///< as Executable::code
  std::vector<void*> constant_data;
  std::vector<Function> functions;               ///< keeps packed callees alive
  std::vector<KernelCalls::Named> kernel_calls;  ///< what kernels call
  PackedCall packed_call = nullptr;              ///< null: they call nothing
  int32_t main = 0;
  uint32_t max_args = 0;
  std::vector<uint8_t> uses_arena;              ///< per function: it has tensors there
  std::vector<std::vector<int32_t>> symbol_of;  ///< per input and dimension: number of its symbol, or -1
  std::vector<std::string> symbols;
  std::vector<int64_t> symbol_bounds;  ///< the largest value of each; -1: any
};

/// A row of the table of builtins, which is in the order of `Builtin`.
struct BuiltinInfo {
  /// What a call depends on.
  enum Effect : uint8_t {
    OfElements,   ///< more than shapes and numbers
    OfShapes,     ///< shapes and numbers alone
    MakesShape,   ///< the same, and the result is a Shape
    Allocates,    ///< the same, and the result is a tensor that is to be written
    Views,        ///< the same, and the result is what the first argument is
    ReadsShape,   ///< the elements of the first argument, which become a Shape
    ReadsNumber,  ///< its only element, which becomes a number
  };
  BuiltinCode code;
  Effect effect = OfElements;
  int8_t dims = -1;  ///< the first argument that is a dimension; -1: none
};
const BuiltinInfo* find_builtin(std::string_view name);  ///< null: the name is the registry's
bool is_allocation(const Step& step);                    ///< of alloc_tensor
bool is_tuple(const Step& step);

struct Frame {
  const VMFunction* function = nullptr;
  const Step* pc = nullptr;
  std::vector<Any> registers;
  std::vector<int64_t> heap;
  int32_t return_to = -1;  ///< register of the caller's frame
  int64_t tail_calls = 0;  ///< that this frame was handed on by
  char* arena = nullptr;
  NDArray own_arena;  ///< of a recursive call: its caller's tensors must survive it
};

struct Machine {
  Machine(Artifact artifact, const SessionOptions& options);
  ~Machine();

  // What builtins use. `frame` is the one that runs.
  [[gnu::always_inline]] Frame& frame() { return *frames[size_t(depth)]; }
  int64_t int_arg(const Step& step, uint32_t i) {
    if (i < step.num_args) [[likely]] {
      const Arg a = step.args[i];
      if (a.kind() == ArgKind::Immediate) return a.value();
      if (a.kind() == ArgKind::Heap) return frame().heap[size_t(a.value())];
    }
    return int_of_any(step, i);
  }
  int64_t int_of_any(const Step& step, uint32_t i);
  Any any_arg(const Step& step, uint32_t i);
  NDArray tensor_arg(const Step& step, uint32_t i);
  /// The same, borrowed where a register holds it, and otherwise kept in `made`.
  const NDArrayObj& tensor_ref(const Step& step, uint32_t i, NDArray& made);
  /// The elements of a tensor that a register, the arena or the constants keep.
  std::span<char> bytes_arg(const Step& step, uint32_t i);
  /// Dimensions from argument `first` on: ints, or one Shape.
  void dims_arg(const Step& step, uint32_t first, std::vector<int64_t>& out);
  void set_result(const Step& step, Any value) {
    if (step.dst >= 0) frame().registers[step.dst] = std::move(value);
  }
  int64_t& heap_slot(const Step& step, int64_t slot) {
    std::vector<int64_t>& heap = frame().heap;
    if (uint64_t(slot) >= heap.size()) [[unlikely]]
      fail_at(step, "T0511", "a shape heap slot is out of range");
    return heap[size_t(slot)];
  }
  [[noreturn, gnu::cold]] void fail_at(const Step& step, const char* code, std::string message,
                                       std::string hint = {});

  [[noreturn, gnu::cold]] void wrong_argument(const Step& step, uint32_t i, const char* wanted,
                                              const Any& given);

  // Calls.
  void enter(int32_t function, Arguments arguments, int32_t return_to);
  /// Makes the frame that of a function at its begin.
  void start(Frame& frame, int32_t function, Arguments arguments);
  /// The function that a call step calls; its arguments are in `call_args`.
  int32_t gather_call(const Step& step);
  Any execute();
  void call_kernel(const Step& step);
  void run_kernel(const Step& step, TenonKernel kernel, void** arguments, int64_t* numbers) {
    const int32_t code = kernel(arguments, numbers, context.get());
    context.workspace().rollback({});
    if (code != 0 || context.cancelled()) [[unlikely]]
      kernel_failed(step, code);
  }
  void call(const Step& step);                        ///< one of the three
  [[gnu::cold]] void call_watched(const Step& step);  ///< for a profile or an instrument
  [[gnu::cold]] void kernel_failed(const Step& step, int32_t code);
  [[gnu::cold]] void call_packed(const Step& step);
  bool condition(const Step& step);
  [[gnu::cold]] void make_arena();
  /// The tensor of a step that allocates an output: the caller's buffer if it may be, or fresh memory.
  NDArray output_tensor(const Step& step, std::span<const int64_t> shape, DataType dtype);
  void ensure_arena() {
    if (!arena.get() && arena_bytes != 0) make_arena();
  }
  NDArray arena_view(int64_t index);
  void reset() noexcept;
  void check_inputs(std::span<const NDArray> inputs);
  /// Leaves the results in `flat`; `outputs` are the buffers that may be written into.
  void run_main(std::span<const NDArray> inputs, std::span<NDArray> outputs);
  /// The value with every tensor in it safe to give away: copied when somebody else can see or reuse its
  /// storage, or only when that is in the arena of `only`.
  Any own(Any value, const Frame* only = nullptr, int nesting = 0);
  NDArray own_tensor(Any value);
  [[gnu::cold]] void own_inside(const Any& value,
                                std::span<const Any> arguments);  ///< tensors in data, closures, references
  Any leave_frame(Any value);
  bool in_arena(const Frame& f, const void* p) const {
    return f.arena && p >= f.arena && p < f.arena + arena_bytes;
  }
  void flatten(Any result, int nesting = 0);  ///< into flat
  void store_outputs(std::span<NDArray> outputs);

  Artifact artifact;
  const Program* program;
  KernelContext context;
  MemoryPool pool;
  std::vector<std::unique_ptr<Frame>> frames;  ///< pooled; [0, depth] are active
  int depth = -1;
  int max_depth;
  int64_t max_tail_calls;
  NDArray arena;
  int64_t arena_bytes = 0;
  std::vector<NDArray> arena_views;
  std::vector<int32_t> active;  ///< per function: how many frames run it
  std::vector<void*> buffers;
  std::vector<int64_t> scalars, dims;
  std::vector<Any> call_args;
  RefCells cells;
  KernelCalls kernel_calls;
  std::vector<Any> flat;  ///< results of the running call, tuples flattened
  std::vector<int64_t> symbol_values;
  std::span<NDArray> given;               ///< caller's output buffers of the running call
  std::vector<uint8_t> handed;            ///< which of them are already in use
  std::vector<uint8_t> usable;            ///< which may be written before the call ends
  std::unique_ptr<RunRecorder> recorder;  ///< null: every run goes step by step
  std::function<void(const ProfileEvent&)> profile;
  InstrumentHook instrument;
  std::atomic<bool> running{false};
};

inline void Machine::call(const Step& step) {
  if (step.kind == Step::Kernel)
    call_kernel(step);
  else if (step.kind == Step::Builtin)
    step.builtin(*this, step);
  else
    call_packed(step);
}

[[gnu::cold]] std::string shape_text(std::span<const DimInfo> shape);

}  // namespace tenon
