// SPDX-License-Identifier: Apache-2.0
// The check of an executable's tables: behind it the VM follows every index without looking. The tables may
// come from a damaged file, so nothing is assumed of them.
#include "runtime/executable.h"
#include "base/stored_types.h"
#include "runtime/words.h"

namespace tenon {
namespace {

struct Checker {
  const Executable& e;
  std::string where;

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorKind::model, "T0607", joined({"the executable's tables are damaged: ", what}), where,
                "compile the model again");
  }
  void require(bool condition, const char* what) const {
    if (!condition) refuse(what);
  }
  void dtype(DataType t) const {
    bool known = false;
    switch (t.code) {
      case TypeCode::Int:
      case TypeCode::UInt:
        known = t.bits == 1 || t.bits == 2 || t.bits == 4 || t.bits == 8 || t.bits == 16 || t.bits == 32 ||
                t.bits == 64;
        break;
      case TypeCode::Float:
        known = t.bits == 16 || t.bits == 32 || t.bits == 64;
        break;
      case TypeCode::BFloat:
        known = t.bits == 16;
        break;
      case TypeCode::Bool:
      case TypeCode::Float8_e4m3fn:
      case TypeCode::Float8_e4m3fnuz:
      case TypeCode::Float8_e5m2:
      case TypeCode::Float8_e5m2fnuz:
        known = t.bits == 8;
        break;
      default:
        known = is_stored_only(t.element());
        break;
    }
    require(known && t.lanes >= 1, "an unknown data type");
  }

  void arg(const VMFunction& f, Arg a) const {
    const int64_t v = a.value();
    switch (a.kind()) {
      case ArgKind::Register:
        require(v >= 0 && v < f.num_registers, "a register out of range");
        return;
      case ArgKind::Constant:
        require(v >= 0 && v < int64_t(e.constants.size()), "a constant out of range");
        return;
      case ArgKind::Immediate:
        return;
      case ArgKind::Arena:
        require(v >= 0 && v < int64_t(e.arena_tensors.size()), "an arena tensor out of range");
        return;
      case ArgKind::Heap:
        require(v >= 0 && v < f.heap_size, "a shape heap slot out of range");
        return;
    }
    refuse("an unknown kind of argument");
  }

  /// Of a tensor with a place in the arena; more than any where only the run tells.
  int64_t known_bytes(Arg a) const {
    if (a.kind() != ArgKind::Arena) return INT64_MAX;
    const ArenaTensor& t = e.arena_tensors[a.value()];
    return int64_t(storage_bytes(element_count(t.shape), t.dtype));
  }

  void call(const VMFunction& f, const Instruction& i) const {
    require(i.callee >= 0 && i.callee < int64_t(e.callees.size()), "a callee out of range");
    require(i.dst >= -1 && i.dst < f.num_registers, "a register out of range");
    const Callee& c = e.callees[i.callee];
    if (c.kind == CalleeKind::Kernel) {
      require(c.num_buffers >= 0 && uint32_t(c.num_buffers) <= i.num_args,
              "a kernel with fewer arguments than buffers");
      for (uint32_t k = 0; k < i.num_args; ++k) {
        const Arg a = e.args[i.first_arg + k];
        const ArgKind kind = a.kind();
        if (k < uint32_t(c.num_buffers)) {
          require(kind != ArgKind::Immediate, "a number where a kernel takes a tensor");
          if (!c.buffer_bytes.empty())
            require(c.buffer_bytes[k] <= known_bytes(a), "the memory plan does not fit the code");
        } else
          require(kind == ArgKind::Register || kind == ArgKind::Immediate || kind == ArgKind::Heap,
                  "a tensor where a kernel takes a number");
      }
    } else if (c.kind == CalleeKind::Function) {
      require(int64_t(i.num_args) == e.functions[c.index].num_params,
              "a call with the wrong number of arguments");
    } else if (c.kind == CalleeKind::Closure) {
      require(i.num_args >= 1, "a call of no closure");
    }
  }

  void function(const VMFunction& f) {
    where = joined({"function `", f.name, "`"});
    constexpr int32_t most = 1 << 24;
    require(f.num_registers >= 0 && f.num_registers <= most && f.heap_size >= 0 && f.heap_size <= most,
            "absurd frame size");
    require(f.num_params >= 0 && f.num_params <= f.num_registers, "more parameters than registers");
    require(f.params.empty() || int64_t(f.params.size()) == f.num_params,
            "parameter records do not match the parameters");
    require(f.num_instructions > 0 && uint64_t(f.first_instruction) + f.num_instructions <= e.code.size(),
            "instructions out of range");
    for (uint32_t k = 0; k < f.num_instructions; ++k) {
      const Instruction& i = e.code[f.first_instruction + k];
      require(uint64_t(i.first_arg) + i.num_args <= e.args.size(), "arguments out of range");
      for (uint32_t a = 0; a < i.num_args; ++a) arg(f, e.args[i.first_arg + a]);
      const bool last = k + 1 == f.num_instructions;
      const int64_t target = int64_t(k) + i.offset;
      switch (i.op) {
        case Opcode::Call:
          call(f, i);
          require(!last, "a function that runs off its end");
          break;
        case Opcode::Ret:
          require(i.dst >= 0 && i.dst < f.num_registers, "a register out of range");
          break;
        case Opcode::Goto:
          require(target >= 0 && target < f.num_instructions, "a jump out of its function");
          break;
        case Opcode::If:
          require(i.num_args == 1, "a branch without a condition");
          require(!last && target >= 0 && target < f.num_instructions, "a jump out of its function");
          break;
        default:
          refuse("an unknown opcode");
      }
    }
  }

  void run() {
    require(!e.functions.empty(), "there is no function");
    for (const Callee& c : e.callees) {
      where = joined({"callee `", c.name, "`"});
      require(c.kind == CalleeKind::Kernel || c.kind == CalleeKind::Function ||
                  c.kind == CalleeKind::Builtin || c.kind == CalleeKind::Closure,
              "an unknown kind of callee");
      if (c.kind == CalleeKind::Function)
        require(c.index >= 0 && c.index < int64_t(e.functions.size()), "a function out of range");
      else
        require(!c.name.empty(), "a callee without a name");
      require(c.buffer_bytes.empty() || int64_t(c.buffer_bytes.size()) == c.num_buffers,
              "a kernel with sizes of other tensors than it takes");
    }
    where = "memory plan";
    require(e.arena_bytes >= 0 && e.arena_bytes <= int64_t(1) << 46, "absurd arena size");
    for (const ArenaTensor& t : e.arena_tensors) {
      dtype(t.dtype);
      size_t bytes = 0;
      try {
        bytes = storage_bytes(element_count(t.shape), t.dtype);
      } catch (const Error& error) {
        refuse(error.message);
      }
      require(t.offset >= 0 && t.offset % 64 == 0 && t.offset <= e.arena_bytes &&
                  bytes <= size_t(e.arena_bytes - t.offset),
              "a tensor outside the arena");
    }
    where = "constants";
    for (const NDArray& c : e.constants) require(c.get() != nullptr, "a constant is missing");
    for (const VMFunction& f : e.functions) function(f);
  }
};

}  // namespace

void check_executable(const Executable& executable) { Checker{executable, {}}.run(); }

}  // namespace tenon
