// SPDX-License-Identifier: Apache-2.0
// Below vm_codegen: instructions of one function, and operands. A value is an operand: a register, a
// constant, a place in the arena, a number, or a tuple of operands that is only built when something needs it
// as one value.
#pragma once
#include "codegen/vm/vm_codegen_impl.h"

namespace tenon {

class VMEmitter {
 protected:
  explicit VMEmitter(ModuleCodegen& owner) : m_(owner), exe_(owner.exe) {}

  int32_t emit_call(int callee, const std::vector<Arg>& args, int32_t dst);
  int32_t builtin(Builtin b, const std::vector<Arg>& args, int32_t dst) {
    return packed(name_of(b), args, dst);
  }
  Arg builtin_value(Builtin b, const std::vector<Arg>& args) {
    return Arg::of(ArgKind::Register, builtin(b, args, registers_++));
  }
  /// A function of the registry.
  int32_t packed(const std::string& name, const std::vector<Arg>& args, int32_t dst) {
    return emit_call(m_.callee(CalleeKind::Builtin, name), args, dst);
  }
  static Arg number(int64_t v) { return Arg::of(ArgKind::Immediate, v); }
  static Arg number(DimMatch m) { return number(int64_t(m)); }
  /// A jump (if `on` is 0, for Opcode::If) to where `land` is called with it.
  size_t jump(Opcode op, Arg on = {});
  void land(size_t jump) { exe_.code[jump].offset = int32_t(exe_.code.size() - jump); }
  void return_value(const Operand& o);

  /// The operand as one argument word; tuples are built.
  Arg arg(const Operand& o);
  /// The operand in a register.
  int32_t reg(const Operand& o);
  /// Copies one value (not its memory) to a register.
  int32_t move(const Operand& value, int32_t dst) { return builtin(Builtin::move, {arg(value)}, dst); }
  Operand item(const Operand& o, int64_t index);
  /// What the caller of the model gets is its own memory.
  Operand owned(const Operand& o, const graph::Type& type);
  /// A result of one shape for both branches: the same nesting of tuples, each leaf in a register.
  Operand merge_target(const graph::Type& type, bool borrowed);
  void assign(const Operand& target, const Operand& from);

  ModuleCodegen& m_;
  Executable& exe_;
  int32_t registers_ = 0;
};

}  // namespace tenon
